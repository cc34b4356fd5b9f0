"""Catalogs bound to databases in this process: what the cases and laws run over."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Neighbours, Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests import world
from grammar_tests.laws import PlainEngine
from grammar_tests.link_worlds import crossing

CATALOGS = Path(__file__).parent / "catalogs"


def over(
    tables: world.Tables, *, constraints: bool, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[Policy, PlainEngine]:
    """The shop's policy over these rows; its proofs lean on constraints, or on nothing."""
    engine = PlainEngine(world.build(tables, constraints=constraints))
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "shop.toml")), schema, PublicTables(engine, DUCKDB).values)
    return replace(policy, unit=replace(policy.unit, neighbours=neighbours)), engine


@cache
def transfers() -> tuple[Policy, PlainEngine]:
    """People named by several links of a table `t`, which a recorded fact bounds."""
    world = crossing(1)
    with TemporaryDirectory() as folder:
        policy = world.policy(Path(folder), recorded=True, most=world.most_rows(world.table("t")))
    return policy, world.engine()


@cache
def shop() -> tuple[Policy, PlainEngine]:
    """The shop with constraints and well-behaved data."""
    return over(world.well_behaved(), constraints=True)
