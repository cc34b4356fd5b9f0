"""Worlds of the same rows that differ in all else: order, files, threads, optimiser."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from functools import cache
from itertools import cycle, islice
from math import nan
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import duckdb
import pyarrow.parquet as pq

from dpsql.engines.duckdb.hardening import NO_STATISTICS
from grammar_tests import world
from grammar_tests.laws import PlainEngine

CROWD = 3000
"""Rows of nobody in each private table of a crowded world."""
SMALL = 5
"""Rows of a row group of Parquet."""
PARTITION = "status"
"""The column of orders that folders are named by."""
TYPES = {"orders": "'status': VARCHAR"}

Made = Callable[[], PlainEngine]
Row = tuple[Any, ...]


def rows() -> world.Tables:
    """A flood of one unit's rows, with ties, missing numbers and zeros of both signs."""
    tables = world.flood()
    orders = [
        (*row[:4], (nan, -0.0, row[4], 0.0)[n % 4], *row[5:])
        for n, row in enumerate(tables["orders"])
    ]
    people = [
        (*row[:5], nan if n % 4 == 1 else row[5], *row[6:])
        for n, row in enumerate(tables["customers"])
    ]
    return tables | {"orders": orders, "customers": people}


def shuffled(tables: world.Tables, seed: int) -> world.Tables:
    """The same rows in another order."""
    dice = Random(seed)  # noqa: S311 - an order of rows
    return {name: dice.sample(listed, len(listed)) for name, listed in tables.items()}


def crowded(tables: world.Tables) -> world.Tables:
    """Many rows more that belong to no unit: their link is NULL, or leads nowhere."""
    more: dict[str, Callable[[int, Row], Row]] = {
        "customers": lambda _n, row: (None, *row[1:]),
        "orders": lambda n, row: (10**6 + n, 10**6 * (n % 2) or None, *row[2:]),
        "items": lambda n, row: (10**6 + n, 2 * 10**6 * (n % 2) or None, *row[2:]),
        "events": lambda n, row: (10**6 + n, 10**6 * (n % 2) or None, *row[2:]),
        "logins": lambda n, row: (10**6 + n, 10**6 * (n % 2) or None, *row[2:]),
    }
    added = {
        name: [made(n, row) for n, row in enumerate(islice(cycle(tables[name]), CROWD))]
        for name, made in more.items()
    }
    return shuffled({name: listed + added.get(name, []) for name, listed in tables.items()}, 3)


def native(tables: world.Tables, threads: int = 1) -> PlainEngine:
    """Tables of the engine."""
    engine = PlainEngine(world.build(tables, constraints=False))
    engine.connection.execute(f"SET threads = {threads}")
    return engine


def without_rule(rule: str) -> PlainEngine:
    """Tables of an engine whose optimiser lacks a rule."""
    engine = native(rows())
    engine.connection.execute(f"SET disabled_optimizers = '{NO_STATISTICS},{rule}'")
    return engine


def in_files(write: Callable[[duckdb.DuckDBPyConnection, str, Path], str]) -> PlainEngine:
    """Views of files, which `write` makes of each table; it says how they are read."""
    folder, source = Path(mkdtemp()), world.build(shuffled(rows(), 2), constraints=False)
    atexit.register(rmtree, folder)
    engine = PlainEngine(duckdb.connect())
    for name in world.COLUMNS:
        reader = write(source, name, folder / name)
        engine.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {reader}")
    return engine


def parquet(source: duckdb.DuckDBPyConnection, name: str, path: Path, **how: Any) -> str:
    """One file of small row groups."""
    table = source.sql(f"FROM {name}").to_arrow_table()
    pq.write_table(table, path, row_group_size=SMALL, **how)
    return f"read_parquet('{path}')"


def folders(source: duckdb.DuckDBPyConnection, name: str, path: Path) -> str:
    """A folder for each status of orders."""
    if name not in TYPES:
        return parquet(source, name, path)
    source.execute(f"COPY {name} TO '{path}' (FORMAT parquet, PARTITION_BY ({PARTITION}))")
    types = f"hive_partitioning = true, hive_types = {{{TYPES[name]}}}"
    return f"read_parquet('{path}/**/*.parquet', {types})"


def optimiser_rules() -> list[str]:
    """The rules of the engine's optimiser that can be left out."""
    listed = duckdb.execute("SELECT name FROM duckdb_optimizers() ORDER BY name").fetchall()
    return [name for (name,) in listed if name != NO_STATISTICS]


WORLDS: Mapping[str, Made] = {
    "shuffled": lambda: native(shuffled(rows(), 1)),
    "reversed": lambda: native({name: each[::-1] for name, each in rows().items()}),
    "threads": lambda: native(shuffled(rows(), 4), threads=8),
    "crowd": lambda: native(crowded(rows())),
    "crowd and threads": lambda: native(crowded(rows()), threads=8),
    "parquet": lambda: in_files(parquet),
    "parquet without statistics": lambda: in_files(
        lambda *each: parquet(*each, write_statistics=False)
    ),
    "parquet without dictionaries": lambda: in_files(
        lambda *each: parquet(*each, use_dictionary=False, write_page_index=True)
    ),
    "hive folders": lambda: in_files(folders),
    **{f"without {rule}": lambda rule=rule: without_rule(rule) for rule in optimiser_rules()},  # type: ignore[misc]
}


@cache
def engine_of(name: str) -> PlainEngine:
    """The engine of a world, made once."""
    return WORLDS[name]()
