"""The error of a SUM by the way in which its bounds are found, at equal ε for all of it.

`python -m benchmarks.bounds [adult.parquet] [--rounds N]` asks for each sum N times per way and ε:
with bounds found by each method of `private_bounds`, on which a fifth of ε is spent, and with fixed
ones that a cautious owner might declare. It prints the median of the relative error and its root
mean square, which one bad choice of bounds makes large, and the bounds that were used most often.
Without a file the numbers are made up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from statistics import mean, median

import duckdb

from benchmarks.common import PEOPLE, table
from dpsql.model.notices import BoundsFound
from dpsql.model.vocabulary import BoundsMethod, Request
from dpsql.proxy import Proxy

EPSILONS = (Decimal("0.1"), Decimal(1))
FIXED = (0, 10**6)

MADE_UP = """CREATE TABLE people AS SELECT i AS person_id,
    CAST(exp(10.5 + 0.8 * sqrt(-2 * ln((hash(i, 1) % 999999 + 1) / 1e6))
        * cos(6.283185307 * (hash(i, 2) % 1000000) / 1e6)) AS INTEGER) AS income,
    CASE WHEN hash(i, 3) % 100 < 92 THEN 0 ELSE CAST(hash(i, 4) % 20000 AS INTEGER) END AS gain,
    CAST(hash(i, 5) % 100 AS INTEGER) AS hours
    FROM range(1, 20001) AS r(i)"""
ADULT = """CREATE TABLE people AS SELECT person_id, capital_gain AS gain, fnlwgt AS weight,
    hours_per_week AS hours FROM read_parquet(?)"""

BUDGET = """
[budgets.b]
epsilon = 1000000
delta = 1e-3
query_epsilon = 0.1
max_query_epsilon = 10
[analysts.ana]
budget = "b"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truth = built(Path(folder) / "people.duckdb", given.parquet)
        ways = {method.value: f'private_bounds = "{method.value}"' for method in BoundsMethod}
        ways["fixed"] = f"bounds = [{FIXED[0]}, {FIXED[1]}]"
        for epsilon in EPSILONS:
            asked = truth, epsilon, given.rounds
            rows = [row for way in ways.items() for row in measured(folder, way, *asked)]
            header = ("column", "bounds", "median error", "RMSE", "most often")
            title = f"SUM over people at ε = {epsilon} for all, {given.rounds} answers each"
            table(title, header, sorted(rows, key=lambda row: str(row[0])))


def built(path: Path, parquet: str | None) -> dict[str, int]:
    """Builds the database; the true sum of each column."""
    with duckdb.connect(str(path)) as owner:
        owner.execute(*((MADE_UP,) if parquet is None else (ADULT, [parquet])))
        owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        columns = owner.sql("SELECT * EXCLUDE person_id FROM people").columns
        sums = owner.execute(f"SELECT {', '.join(f'SUM({c})' for c in columns)} FROM people")
        return dict(zip(columns, sums.fetchall()[0], strict=True))


def measured(
    folder: str, way: tuple[str, str], truth: dict[str, int], epsilon: Decimal, rounds: int
) -> Iterator[tuple[object, ...]]:
    """A row of the table per column."""
    with opened(folder, way, tuple(truth)) as ask:
        for column, true in truth.items():
            errors, bounds = [], Counter[str]()
            for _ in range(rounds):
                value, notice = ask(column, epsilon)
                errors.append(abs(value / true - 1))
                bounds[notice] += 1
            typical, rmse = median(errors), mean(e**2 for e in errors) ** 0.5
            yield column, way[0], typical, rmse, bounds.most_common(1)[0][0]


@contextmanager
def opened(
    folder: str, way: tuple[str, str], columns: tuple[str, ...]
) -> Iterator[Callable[[str, Decimal], tuple[float, str]]]:
    """Asks for a sum anew, and says with which bounds it was computed."""
    name, declared = way
    path = Path(folder) / f"{name}.toml"
    lines = "\n".join(f"{column} = {{ {declared} }}" for column in columns)
    people = PEOPLE.replace("people.ledger", f"{name}.ledger")
    path.write_text(f"{people}\n{lines}\n{BUDGET}", encoding="utf-8")
    with Proxy.open(str(path)) as proxy:

        def ask(column: str, epsilon: Decimal) -> tuple[float, str]:
            proxy.refresh()  # nothing is remembered, bounds neither
            sql = f"SELECT SUM({column}) AS s FROM people"
            answer = proxy.ask(Request(sql, "ana", epsilon=epsilon))
            found = [n for n in answer.notices if isinstance(n, BoundsFound)]
            lower, upper = (found[0].lower, found[0].upper) if found else FIXED
            return float(answer.rows[0][0]), f"[{lower:.10g}, {upper:.10g}]"

        yield ask


if __name__ == "__main__":
    main()
