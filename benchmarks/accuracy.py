"""Error at epsilon = 1 under the pure or approximate accountant, one query, row-level unit.

    python benchmarks/accuracy.py adult.parquet [RELEASES]

`adult.parquet` is the UCI Adult extract with columns person_id, age, education, .... Prints the
mean absolute error over the releases beside the figures that the project promises.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import duckdb

from benchmarks.common import table
from dpsql.model import Request
from dpsql.owner import check_policy
from dpsql.proxy import Proxy

POLICY = """
[database]
engine = "duckdb"
[database.files]
people = "adult.parquet"
[privacy_unit]
table = "people"
key = "person_id"
[tables.people]
access = "private"
key = "person_id"
[tables.people.columns]
person_id = {{}}
age = {{ bounds = [0, 125] }}
education = {{}}
[budgets.default]
epsilon = 100000.0
delta = {delta}
accountant = "{accountant}"
query_epsilon = 1.0
max_query_epsilon = 1.0
query_delta = {query_delta}
[analysts.ana]
budget = "default"
[ledger]
path = "adult.ledger"
"""

FILTERED = "SELECT COUNT(*) FROM people WHERE age >= 40"
MEAN = "SELECT AVG(age) FROM people"
GROUPED = "SELECT education, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY education"


def main() -> None:
    data = Path(sys.argv[1])
    releases = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    truth = {
        sql: duckdb.connect().execute(sql.replace("people", f"'{data}'")).fetchall()
        for sql in (FILTERED, MEAN, GROUPED)
    }
    pure = errors(data, "pure", "0.0", "0.0", [FILTERED, MEAN], truth, releases)
    private = errors(data, "approximate", "0.9", "1e-6", [GROUPED], truth, releases)
    rows = [
        ("COUNT(*) WHERE age >= 40", "pure", pure[FILTERED][0], 1.0),
        ("AVG(age) in [0, 125]", "pure", pure[MEAN][0], 0.0045),
        ("16 education keys: COUNT", "approximate, δ = 1e-6", private[GROUPED][0], 2.2),
        ("16 education keys: AVG(age)", "approximate, δ = 1e-6", private[GROUPED][1], 0.6),
    ]
    header = ("query at ε = 1", "accountant", "mean |error|", "promised at most")
    table(f"Accuracy on Adult, {releases} releases", header, rows)


def errors(
    data: Path,
    accountant: str,
    delta: str,
    query_delta: str,
    queries: list[str],
    truth: dict[str, list[tuple]],  # type: ignore[type-arg]
    releases: int,
) -> dict[str, list[float]]:
    """Mean absolute error of each numeric column of each query."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(data, folder / "adult.parquet")
        text = POLICY.format(accountant=accountant, delta=delta, query_delta=query_delta)
        (folder / "dpsql.toml").write_text(text)
        # The owner's word that person_id is unique: without it, each unit is aggregated first.
        check_policy(str(folder / "dpsql.toml"), record=True)
        with Proxy.open(str(folder / "dpsql.toml")) as proxy:
            return {sql: _mean_error(proxy, sql, truth[sql], releases) for sql in queries}


def _mean_error(proxy: Proxy, sql: str, exact: list[tuple], releases: int) -> list[float]:  # type: ignore[type-arg]
    keyed = {row[:-2] if len(row) > 2 else (): row[-2:] if len(row) > 2 else row for row in exact}
    totals, seen = [0.0] * len(next(iter(keyed.values()))), 0
    for _ in range(releases):
        proxy._ledger.refresh()  # noqa: SLF001  a new answer, with the recorded facts kept
        for row in proxy.ask(Request(sql, "ana")).rows:
            key = row[:-2] if len(row) > 2 else ()
            values = row[-2:] if len(row) > 2 else row
            seen += 1
            for place, (noisy, true) in enumerate(zip(values, keyed[key], strict=True)):
                totals[place] += abs(float(noisy) - float(true))
    return [total / seen for total in totals]


if __name__ == "__main__":
    main()
