"""Time of the bounded statement beside the plain query, on the same engine in the same run.

    python benchmarks/overhead.py [ROWS]

Both run through the engine's worker process, in turn, so that the ratio is of SQL alone.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.common import paired, table
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy

POLICY = """
[database]
engine = "duckdb"
path = "rows.duckdb"
[privacy_unit]
table = "{unit}"
key = "{key}"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {{}}
k = {{ values = [{values}] }}
price = {{ bounds = [0.0, 500.0] }}
score = {{ bounds = [-3.0, 3.0] }}
[tables.units]
access = "private"
key = "u"
[tables.units.columns]
u = {{}}
[tables.visits]
access = "private"
link = {{ column = "u", references = "units.u" }}
max_groups_per_unit = {groups}
max_rows_per_group = 50
[tables.visits.columns]
u = {{}}
k = {{ values = [{values}] }}
price = {{ bounds = [0.0, 500.0] }}
[budgets.default]
epsilon = 1000.0
delta = 1e-6
accountant = "zcdp"
query_epsilon = 1.0
[analysts.ana]
budget = "default"
[ledger]
path = "bench.ledger"
[limits]
memory = "8GB"
"""

CLIP_DECIMAL = "CASE WHEN price < 0 THEN 0 WHEN price > 500 THEN 500 ELSE price END"
CLIP_DOUBLE = (
    "FLOOR(CASE WHEN isnan(score) THEN NULL WHEN score < -3 THEN -3 WHEN score > 3 THEN 3"
    " ELSE score END * 268435456.0::DOUBLE + 0.5)::BIGINT"
)


def build(path: Path, rows: int) -> None:
    """`people`: one row a unit. `visits`: twenty rows a unit, over up to 16 groups."""
    with duckdb.connect(str(path)) as db:
        db.execute(
            "CREATE TABLE people AS SELECT i AS id, (hash(i) % 16)::INTEGER AS k,"
            " ((hash(i + 1) % 60000) / 100)::DECIMAL(12, 2) AS price,"
            " (hash(i + 2) % 8000) / 1000 - 4 AS score"
            f" FROM range({rows}) AS r(i)"
        )
        db.execute(f"CREATE TABLE units AS SELECT i AS u FROM range({rows // 20}) AS r(i)")
        db.execute(
            f"CREATE TABLE visits AS SELECT (hash(i) % {rows // 20})::BIGINT AS u,"
            " (hash(i + 1) % 16)::INTEGER AS k,"
            " ((hash(i + 2) % 60000) / 100)::DECIMAL(12, 2) AS price"
            f" FROM range({rows}) AS r(i)"
        )
        db.execute("ALTER TABLE people ADD PRIMARY KEY (id)")
        db.execute("ALTER TABLE units ADD PRIMARY KEY (u)")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder / "rows.duckdb", rows)
        results = [
            *compare(folder, "people", "id", 16, ROW_LEVEL),
            *compare(folder, "people", "id", 16, RANGES),
            *compare(folder, "units", "u", 16, MANY_ROWS),
            *compare(folder, "units", "u", 4, RANKED),
        ]
        header = ("query", "plain is", "dpsql s", "plain s", "ratio")
        table(f"SQL overhead, {rows:,} rows", header, results)


Query = tuple[str, str, dict[str, str]]
BY_K = "SELECT k, COUNT(*), SUM({0}) FROM {1} GROUP BY k"
PER_UNIT = (
    "SELECT COUNT(*), SUM(n), SUM(s) FROM"
    " (SELECT u, k, COUNT(*) AS n, SUM(price) AS s FROM visits GROUP BY u, k)"
)
ROW_LEVEL: list[Query] = [
    (
        f"COUNT, SUM({kind}) by k; unit = row",
        BY_K.format(column, "people"),
        {
            "same clip": BY_K.format(clip, "people"),
            "no clip": BY_K.format(column, "people"),
        },
    )
    for kind, column, clip in (
        ("decimal", "price", CLIP_DECIMAL),
        ("double", "score", CLIP_DOUBLE),
    )
]
RANGES: list[Query] = [
    (
        f"COUNT where {column} > {end}; unit = row",
        f"SELECT COUNT(*) FROM people WHERE {column} > {end}",
        {"plain": f"SELECT COUNT(*) FROM people WHERE {column} > {end}"},
    )
    for column, end in (("price", 100), ("score", -3), ("score", 2))
]
MANY_ROWS: list[Query] = [
    (
        "COUNT, SUM by k; 20 rows a unit, no ranking",
        BY_K.format("price", "visits"),
        {"GROUP BY unit, k": PER_UNIT},
    )
]
RANKED: list[Query] = [
    ("COUNT, SUM by k; 20 rows a unit, L0 = 4 of 16", MANY_ROWS[0][1], MANY_ROWS[0][2])
]


def compare(
    folder: Path, unit: str, key: str, groups: int, queries: list[Query]
) -> list[tuple[object, ...]]:
    """Rows of the table for one choice of unit."""
    policy = folder / f"{unit}{groups}.toml"
    values = ", ".join(map(str, range(16)))
    text = POLICY.format(unit=unit, key=key, groups=groups, values=values)
    private = ("people",) if unit == "people" else ("units", "visits")
    policy.write_text(_only(text, private))
    results: list[tuple[object, ...]] = []
    with Proxy.open(str(policy)) as proxy:
        for title, sql, plains in queries:
            request = Request(sql, "ana")
            bounded = proxy.explain(request).blocks[0].sql
            for name, plain in plains.items():
                engine = proxy.vault.engine
                keys, parts = (1, 2) if "GROUP BY" in sql else (0, 1)
                ours, theirs, ratio = paired(
                    partial(engine.aggregate, bounded, keys, parts, 1), partial(engine.rows, plain)
                )
                results.append((title, name, ours, theirs, ratio))
    return results


def _only(policy: str, tables: tuple[str, ...]) -> str:
    """The policy without the tables of the other unit."""
    sections, keep = [], True
    for line in policy.splitlines():
        if line.startswith("["):
            parts = line.strip("[]").split(".")
            keep = parts[0] != "tables" or parts[1] in tables
        if keep:
            sections.append(line)
    return "\n".join(sections)


if __name__ == "__main__":
    main()
