"""TPC-H as it stands: 16 queries answered privately, 3 passed as public, 3 refused with reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.catalogue import tables as declared
from dpsql.errors import Reason, Refused
from dpsql.model import Policy, TablePolicy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.public import PublicTables
from dpsql.schema import Schema
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled, noiseless, same_rows

HERE = Path(__file__).parent / "tpch"
PRIVATE = (1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 17, 19, 20, 21, 22)
PUBLIC = (2, 11, 16)
ONE_PERSON = {3: "l_orderkey", 10: "c_custkey", 18: "c_custkey"}
KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "part": "p_partkey",
    "supplier": "s_suppkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "customer": "c_custkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
LINKS = {"orders": ("o_custkey", "customer"), "lineitem": ("l_orderkey", "orders")}
WIDE = 10_000

World = tuple[Policy, PlainEngine]


def query(number: int) -> str:
    """The text of one query, unchanged."""
    return (HERE / f"q{number:02}.sql").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """TPC-H at scale factor 0.01 with its constraints, and limits that do not bind."""
    folder = tmp_path_factory.mktemp("tpch")
    generator = str(Path(sys.executable).with_name("tpchgen-cli"))
    command = [generator, "parquet", "-s", "0.01", f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    connection = duckdb.connect()
    build(connection, folder)
    engine = PlainEngine(connection)
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "tpch.toml")), schema, PublicTables(engine).values)
    yield replace(policy, tables=tuple(map(_wide, policy.tables))), engine
    connection.close()


def build(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """The eight tables with primary keys, and with the links of the private ones."""
    for table, key in KEYS.items():
        source = f"'{folder / table}.parquet'"
        columns = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        rows = [f"{name} {kind} NOT NULL" for name, kind, *_ in columns]
        rows.append(f"PRIMARY KEY ({key})")
        if table in LINKS:
            column, parent = LINKS[table]
            rows.append(f"FOREIGN KEY ({column}) REFERENCES {parent} ({KEYS[parent]})")
        connection.execute(f"CREATE TABLE {table} ({', '.join(rows)})")
        connection.execute(f"INSERT INTO {table} SELECT * FROM {source}")


def _wide(table: TablePolicy) -> TablePolicy:
    if table.link is None:
        return table
    return replace(table, max_rows_per_unit=WIDE, max_groups_per_unit=WIDE, max_rows_per_group=WIDE)


@pytest.mark.parametrize("number", PRIVATE)
def test_private_queries_are_answered_as_they_stand(world: World, number: int) -> None:
    policy, engine = world
    prepared = compiled(query(number), policy, engine)
    assert prepared.plan is not None
    ours, errors = noiseless(prepared, engine)
    assert same_rows(ours, errors, engine.rows(query(number)))


@pytest.mark.parametrize("number", PUBLIC)
def test_public_queries_pass(world: World, number: int) -> None:
    policy, engine = world
    prepared = compiled(query(number), policy, engine)
    assert prepared.plan is None
    ours, errors = noiseless(prepared, engine)
    assert same_rows(ours, errors, engine.rows(query(number)))


@pytest.mark.parametrize("number", ONE_PERSON)
def test_rows_about_one_person_or_order_are_refused(world: World, number: int) -> None:
    policy, engine = world
    with pytest.raises(Refused) as caught:
        compiled(query(number), policy, engine)
    assert caught.value.reason is Reason.UNIT_KEY_EXPOSED
    assert caught.value.facts["column"] == ONE_PERSON[number]
