"""TPC-H as it stands: 16 queries answered privately, 3 passed as public, 3 refused with reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Reason, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled, noiseless, same_rows
from grammar_tests.tpch_kit import PRIVATE, PUBLIC, build, generate, query

pytestmark = pytest.mark.full("16 queries of TPC-H")

ONE_PERSON = {3: "l_orderkey", 10: "c_custkey", 18: "c_custkey"}
WIDE = 10_000

World = tuple[Policy, PlainEngine]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """TPC-H at scale factor 0.01 with its constraints, and limits that do not bind."""
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, "0.01")
    connection = duckdb.connect()
    build(connection, folder)
    engine = PlainEngine(connection)
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "tpch.toml")), schema, PublicTables(engine, DUCKDB).values)
    yield replace(policy, tables=tuple(map(_wide, policy.tables))), engine
    connection.close()


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
