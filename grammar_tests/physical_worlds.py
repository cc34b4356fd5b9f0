"""Worlds of the same rows that differ in all else: order, files, threads, optimiser, store."""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import cycle, islice
from math import inf, nan
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, NamedTuple

import duckdb
import pyarrow.parquet as pq

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.file_views import create_views
from dpsql.engines.duckdb.files import Sources
from dpsql.engines.duckdb.hardening import NO_STATISTICS
from dpsql.model.dataclass import replace
from dpsql.model.prepared_store import SCHEMA, PreparedStore
from dpsql.model.vocabulary import Policy
from dpsql.owner.prepared_rollups import prepared_rollups
from dpsql.owner.prepared_tables import PreparedRows, prepared_tables
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from grammar_tests import bound, world
from grammar_tests.laws import PlainEngine

CROWD = 3000
"""Rows of nobody in each private table of a crowded world."""
SMALL = 5
"""Rows of a row group of Parquet."""
PARTITION = "status"
"""The column of orders that folders are named by."""
TYPES = {"orders": "'status': VARCHAR"}

ROLLUPS = {
    "orders": ((), ("status",), ("status", "placed_at")),
    "items": ((), ("product_id",)),
    "events": ((), ("device",)),
    "logins": (("day",),),
}
NULL_WORD = r"\N"
"""How NULL is written in files of text."""


class World(NamedTuple):
    """An engine, what was prepared in it of its tables, and whether its numbers are `finite`."""

    engine: PlainEngine
    store: PreparedStore | None = None
    finite: bool = False


Made = Callable[[], World]
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


def finite(tables: world.Tables) -> world.Tables:
    """The same rows with NULL for infinity, which no text says."""
    return {
        name: [tuple(None if v in (inf, -inf) else v for v in row) for row in listed]
        for name, listed in tables.items()
    }


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


def native(tables: world.Tables, threads: int = 1) -> World:
    """Tables of the engine."""
    engine = PlainEngine(world.build(tables, constraints=False))
    engine.connection.execute(f"SET threads = {threads}")
    return World(engine)


def without_rule(rule: str) -> World:
    """Tables of an engine whose optimiser lacks a rule."""
    made = native(rows())
    made.engine.connection.execute(f"SET disabled_optimizers = '{NO_STATISTICS},{rule}'")
    return made


def own_folder() -> Path:
    """A folder that goes with this process."""
    folder = Path(mkdtemp())
    atexit.register(rmtree, folder)
    return folder


def in_files(
    write: Callable[[duckdb.DuckDBPyConnection, str, Path], str], threads: int = 1
) -> World:
    """Views of files, which `write` makes of each table; it says how they are read."""
    folder, source = own_folder(), world.build(shuffled(rows(), 2), constraints=False)
    engine = PlainEngine(duckdb.connect(config={"threads": threads}))
    for name in world.COLUMNS:
        reader = write(source, name, folder / name)
        engine.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {reader}")
    return World(engine)


def in_texts(ending: str = "csv", threads: int = 1, parts: int = 1) -> World:
    """Views of text files as a policy says that they are read: `parts` files for each table."""
    folder, source = own_folder(), world.build(shuffled(finite(rows()), 5), constraints=False)
    for name in world.COLUMNS:
        for part in range(parts):
            some = f"SELECT * FROM {name} WHERE rowid % {parts} = {part}"
            how = f"HEADER, DELIMITER ';', NULL '{NULL_WORD}'"
            source.execute(
                f"COPY ({some}) TO '{folder}/{name}.{part}.{ending}' (FORMAT csv, {how})"
            )
    policy = folder / "dpsql.toml"
    policy.write_text(of_texts(folder, ending), "utf-8")
    database = load(str(policy)).database
    engine = PlainEngine(duckdb.connect(config={"threads": threads}))
    create_views(engine.connection, Sources(None, database.files, formats=database.formats))
    return World(engine, finite=True)


def of_texts(folder: Path, ending: str) -> str:
    """The shop's policy over text files, with the type of every column."""
    text = (bound.CATALOGS / "shop.toml").read_text("utf-8")
    listed = "\n".join(f'{name} = "{folder}/{name}.*.{ending}"' for name in world.COLUMNS)
    text = text.replace('path = "shop.duckdb"', f"[database.files]\n{listed}")
    text = re.sub(r"^\[tables\.\w+\.columns\]\n(\w+ = .*\n)*", "", text, flags=re.MULTILINE)
    for name, columns in world.COLUMNS.items():
        text += f'[tables.{name}.file]\ndelimiter = ";"\nnull_words = ["\\\\N"]\n'
        text += f"[tables.{name}.columns]\n"
        for column, kind in re.findall(r"(\w+) ([A-Z]+(?:\(\d+, \d\))?)", columns):
            text += f'{column} = {{ type = "{kind}" }}\n'
    return text


def rolled_up() -> Draft:
    """The shop's policy with rollups."""
    draft = load(str(bound.CATALOGS / "shop.toml"))
    tables = (replace(table, rollups=ROLLUPS.get(table.name, ())) for table in draft.tables)
    return replace(draft, tables=tuple(tables))


def store_of(policy: Policy, engine: PlainEngine) -> PreparedStore:
    """What `dpsql prepare` makes of an engine's tables, made there."""
    engine.connection.execute(f"CREATE SCHEMA {SCHEMA}")
    held = prepared_tables(policy)
    rollups = tuple(prepared_rollups(rolled_up(), policy, engine.public, DUCKDB, tables=held))
    sums = tuple(each.rollup for each in rollups)
    rows = [PreparedRows(table, policy, DUCKDB, sums).creation(None) for table in held]
    for creation in (*rows, *(each.creation(None) for each in rollups)):
        engine.connection.execute(creation)
    assert all(engine.rows(each.largest) == [(True,)] for each in rollups)
    names = tuple(table.name for table in held)
    return PreparedStore("a", "here", policy.version, names, sums)


def prepared(made: World, *, rollups: bool = True) -> World:
    """A world with a store; without `rollups` plans read the rows that are in it."""
    store = store_of(bound.over(rows(), constraints=False)[0], made.engine)
    return made._replace(store=store if rollups else replace(store, rollups=()))


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


def without_statistics(*each: Any) -> str:
    """Parquet of small row groups without statistics."""
    return parquet(*each, write_statistics=False)


def without_dictionaries(*each: Any) -> str:
    """Parquet of small row groups with statistics of pages, and no dictionary."""
    return parquet(*each, use_dictionary=False, write_page_index=True)


WORLDS: Mapping[str, Made] = {
    "shuffled": lambda: native(shuffled(rows(), 1)),
    "reversed": lambda: native({name: each[::-1] for name, each in rows().items()}),
    "threads": lambda: native(shuffled(rows(), 4), threads=8),
    "crowd": lambda: native(crowded(rows())),
    "crowd and threads": lambda: native(crowded(rows()), threads=8),
    "parquet": lambda: in_files(parquet),
    "parquet and threads": lambda: in_files(parquet, threads=8),
    "parquet without statistics": lambda: in_files(without_statistics),
    "parquet without dictionaries": lambda: in_files(without_dictionaries),
    "hive folders": lambda: in_files(folders),
    "hive folders and threads": lambda: in_files(folders, threads=8),
    "texts": in_texts,
    "texts and threads": lambda: in_texts(threads=8, parts=3),
    "packed texts": lambda: in_texts("csv.gz", parts=2),
    "store": lambda: prepared(native(shuffled(rows(), 6))),
    "store and threads": lambda: prepared(native(shuffled(rows(), 7), threads=8)),
    "store without rollups": lambda: prepared(native(crowded(rows())), rollups=False),
    "store of parquet": lambda: prepared(in_files(parquet)),
    "store of texts": lambda: prepared(in_texts(), rollups=False),
    **{f"without {rule}": partial(without_rule, rule) for rule in optimiser_rules()},
}


@cache
def world_of(name: str) -> World:
    """A world, made once."""
    return WORLDS[name]()
