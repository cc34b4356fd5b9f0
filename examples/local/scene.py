"""What the demonstrations of the local model share: people who report, and tables to ask of.

    python -m examples.local.NAME [adult.parquet]

Truths that only a demonstration may show are drawn from a fixed seed. Reports are drawn many at a
time, by the laws of `dpsql.mechanisms.randomized_response`; people at home would draw theirs by
`dpsql.systems.local`, of the operating system's bytes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np

import dpsql
from dpsql.model.local_reports import Randomized

LN3, LN9 = "1.0986122886681098", "2.1972245773362196"

POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {{}}
{people}
[tables.reports]
access = "public"
[tables.reports.columns]
{reports}
[budgets.default]
epsilon = 100
delta = 0.0
query_delta = 0.0
accountant = "pure"
max_query_epsilon = 10.0
[analysts.ana]
budget = "default"
[ledger]
path = "people.ledger"
"""

Columns = Mapping[str, Sequence[object]]


def dice() -> np.random.Generator:
    """The same people each time."""
    return np.random.default_rng(20_240_601)


def data_file() -> str | None:
    """The Parquet file of UCI Adult that was given, if one was."""
    return next((argument for argument in sys.argv[1:] if argument.endswith(".parquet")), None)


def listed(values: Sequence[str]) -> str:
    """Values as a policy lists them."""
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def reports(
    law: Randomized, values: Sequence[str], truths: np.ndarray, random: np.random.Generator
) -> list[str]:
    """What people report whose values are at these places: one of the values, or a text of bits."""
    if not law.of_bits:
        others = (truths + random.integers(1, law.values, truths.size)) % law.values
        true = random.random(truths.size) < float(law.p)
        return [values[place] for place in np.where(true, truths, others).tolist()]
    chances = np.full((truths.size, law.values), float(law.q))
    chances[np.arange(truths.size), truths] = float(law.p)
    bits = random.random(chances.shape) < chances
    characters = np.where(bits, b"1", b"0").astype("S1")
    return [row.tobytes().decode() for row in characters]


@contextmanager
def analyst(
    people: Columns, reported: Columns, declared: str, laws: str
) -> Iterator[dpsql.Connection]:
    """A connection to the private table `people` and the public one `reports`, each with its policy
    lines; people are numbered.
    """
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(Path(folder) / "people.duckdb")) as database:
            count = len(next(iter(people.values())))
            create(database, "people", {"id": range(count), **people})
            database.execute("ALTER TABLE people ADD PRIMARY KEY (id)")
            create(database, "reports", reported)
        policy = Path(folder) / "dpsql.toml"
        policy.write_text(POLICY.format(people=declared, reports=laws), encoding="utf-8")
        with dpsql.connect(str(policy)) as connection:
            yield connection


def create(database: duckdb.DuckDBPyConnection, table: str, columns: Columns) -> None:
    """A table of these columns."""
    items = ", ".join(f"unnest(${n}) AS {name}" for n, name in enumerate(columns, 1))
    database.execute(f"CREATE TABLE {table} AS SELECT {items}", [list(c) for c in columns.values()])


def answer(
    connection: dpsql.Connection, sql: str, epsilon: str | None = None
) -> tuple[list[tuple[object, ...]], list[tuple[float, ...]]]:
    """The rows, and the standard errors of their numbers; `epsilon` is for what has a price."""
    cursor = connection.cursor().execute(sql, epsilon=epsilon)
    rows = cursor.fetchall()
    return rows, [tuple(e or 0.0 for e in row) for row in cursor.errors]
