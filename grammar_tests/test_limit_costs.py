"""Work and memory follow the rows that there are, not the limits: see
`dialects.block_printer`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests import casefile, world
from grammar_tests.bound import CATALOGS, bound_by, over
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    exact_blocks,
    integers,
    violation,
    without_unit,
)

UNITS = 200_000
MEMORY = "300MB"
LIMITS = (1000, 10**6, 10**9)
POLICY = """
[database]
engine = "duckdb"
path = "unused.duckdb"

[privacy_unit]
table = "people"
key = "person"

[tables.people]
access = "private"
key = "person"
[tables.people.columns]
person = {{}}

[tables.visits]
access = "private"
link = {{ column = "person", references = "people.person" }}
max_rows_per_unit = {limit}
max_groups_per_unit = {limit}
max_rows_per_group = {limit}
[tables.visits.columns]
person = {{}}
place = {{}}
page = {{}}
device = {{ values = [0, 1, 2] }}
seconds = {{ bounds = [0, 100], nullable = false }}

[budgets.default]
epsilon = 1000.0
delta = 1e-3
query_delta = 1e-6

[analysts.ana]
budget = "default"

[ledger]
path = "unused.ledger"
"""
ASKED = {
    "groups": "SELECT place, COUNT(*) AS n, SUM(seconds) AS s FROM visits GROUP BY place",
    "distinct values": "SELECT COUNT(DISTINCT page) AS n FROM visits",
    "distinct values of groups": "SELECT place, COUNT(DISTINCT page) FROM visits GROUP BY 1",
    "cells": "SELECT MEDIAN(seconds) AS m, MODE(device) AS d, MAX(seconds) AS e,"
    " ARG_MAX(device, seconds) AS f, HISTOGRAM(device) AS h FROM visits",
    "samples of groups": "SELECT place, SAMPLE_AGGREGATE(AVG(seconds), 0, 100) FROM visits"
    " GROUP BY place",
}


@cache
def database() -> duckdb.DuckDBPyConnection:
    """Three visits of everybody, and one person with ten thousand."""
    connection = duckdb.connect(config={"memory_limit": MEMORY, "threads": 2})
    connection.execute("SET temp_directory = ''")
    connection.execute(
        f"CREATE TABLE people AS SELECT r::INTEGER AS person FROM range({UNITS}) t(r)"
    )
    rows = f"SELECT r % {UNITS} AS person, r FROM range({3 * UNITS}) t(r)"
    rows += " UNION ALL SELECT 7, hash(r) % 1000000 FROM range(10000) t(r)"
    connection.execute(
        "CREATE TABLE visits AS SELECT person::INTEGER AS person, (r % 500)::INTEGER AS place,"
        " (r % 777)::INTEGER AS page, (r % 3)::INTEGER AS device, (r % 101)::INTEGER AS seconds"
        f" FROM ({rows})"
    )
    return connection


def policy(limit: int, folder: Path, engine: PlainEngine) -> Policy:
    path = folder / "dpsql.toml"
    path.write_text(POLICY.format(limit=limit), encoding="utf-8")
    return bind(
        load(str(path)), Schema(declared(engine.rows), "here"), PublicTables(engine, DUCKDB).values
    )


@pytest.mark.parametrize(
    "limit",
    [*(pytest.param(n, marks=pytest.mark.full("further limits")) for n in LIMITS[:2]), LIMITS[2]],
)
@pytest.mark.parametrize("asked", ASKED)
def test_a_limit_costs_nothing_beyond_the_rows(asked: str, limit: int, tmp_path: Path) -> None:
    engine = PlainEngine(database())
    plan = compiled(ASKED[asked], policy(limit, tmp_path, engine), engine)
    assert len(list(exact_blocks(plan, engine))) == 1


def with_equal_hashes(plan: Prepared) -> Prepared:
    (block,) = plan.rewritten.blocks
    equal = re.sub(r"hash\(\$sampling_key[^)]*\)", "$sampling_key::UBIGINT", block.sql)
    equal = re.sub(r"hash\(u[^)]*\)", "0", equal)
    assert equal != block.sql
    return replace(plan, rewritten=replace(plan.rewritten, blocks=(replace(block, sql=equal),)))


@pytest.mark.full("measures neighbours or further data sets")
def test_where_all_hashes_are_equal_no_more_is_kept() -> None:
    policy, _ = over(world.flood(), constraints=False)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    sql = "SELECT device, COUNT(*), COUNT(DISTINCT duration), MAX(duration) FROM events GROUP BY 1"
    same = with_equal_hashes(compiled(sql, policy, engine))
    here = integers(same, engine)
    for unit in (2, 7):
        with without_unit(engine.connection, world.deletions(unit)):
            assert violation(same, here, integers(same, engine)) is None


def test_where_all_hashes_are_equal_the_order_of_rows_chooses_nothing(tmp_path: Path) -> None:
    """Which value a person adds would else depend on which the engine meets first."""
    found = []
    for rows in ("(1, 10), (1, 20), (2, 20)", "(1, 20), (1, 10), (2, 20)"):
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("CREATE TABLE people AS SELECT * FROM (VALUES (1), (2)) t(person)")
        connection.execute(
            "CREATE TABLE visits AS SELECT person, 0 AS place, page, 0 AS device, 0 AS seconds"
            f" FROM (VALUES {rows}) t(person, page)"
        )
        engine = PlainEngine(connection)
        plan = compiled(ASKED["distinct values"], policy(1, tmp_path, engine), engine)
        found.append(integers(with_equal_hashes(plan), engine))
    assert found[0] == found[1]


# --- limits of any size are planned, or refused --------------------------------------------------

CASES = [case for case in casefile.all_cases() if case.accepted and case.catalog == "shop"]
SIZES = (1, 2, 7, 1000, 99_999, 100_000, 2**31 - 1, 10**12 + 1)
BOUNDS = {
    "amount": ("[0.0, 999999.99]", "[-99999999.99, 99999999.99]", "[0.0, 0.01]"),
    "quantity": ("[0, 999]", "[0, 2147483647]", "[-3, 20]"),
    "discount": ("[0.0, 1.0]", "[0.0, 3e15]", "[1e-9, 2e-9]"),
}


def any_limits(dice: Random) -> str:
    """The policy of the shop with limits and bounds of other sizes."""
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    text = re.sub(r"(?m)^(max_\w+_per_\w+) = \d+", lambda m: f"{m[1]} = {dice.choice(SIZES)}", text)
    for column, bounds in BOUNDS.items():
        text = re.sub(rf"(?m)^{column} = {{ bounds = \[[^]]*\]", _of(column, bounds, dice), text)
    return text


def _of(column: str, bounds: Sequence[str], dice: Random) -> str:
    return f"{column} = {{ bounds = {dice.choice(bounds)}"


def plan_any(seed: int, cases: int) -> int:
    """Count the cases that are planned by limits of any size; raises what is no refusal."""
    dice, planned = Random(seed), 0  # noqa: S311 - a test's
    policy, engine = bound_by(any_limits(dice))
    for case in dice.sample(CASES, cases):
        budget = replace(BUDGET, accountant=dice.choice(("zcdp", "approximate", "pure")))
        dialect, norm = case.setting("dialect", "duckdb"), Fraction(dice.choice((1, 1000, 10**9)))
        with suppress(Refused):
            compiled(case.sql, policy, engine, dialect=dialect, budget=budget, norm=norm)
            planned += 1
    return planned


@pytest.mark.full("draws random questions or values")
def test_limits_of_any_size_are_planned_or_refused() -> None:
    assert sum(plan_any(seed, 40) for seed in range(2)) >= 40


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2, 20))
def test_more_limits_of_any_size_are_planned_or_refused(seed: int) -> None:
    assert plan_any(seed, len(CASES)) >= len(CASES) // 2


def test_a_sum_of_odd_steps_above_the_whole_numbers_of_a_float_is_planned() -> None:
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    for old, new in (
        ("max_rows_per_unit = 50", "max_rows_per_unit = 100001"),
        ("max_rows_per_group = 10\n", "max_rows_per_group = 100001\n"),
        ("[0.0, 500.0]", "[0.0, 999999.99]"),
        ("[0, 20]", "[0, 999]"),
    ):
        assert old in text
        text = text.replace(old, new)
    sql = "SELECT status, SUM(amount * quantity) AS s FROM orders GROUP BY status"
    plan = compiled(sql, *bound_by(text))
    (release,) = plan.blocks[0].releases
    assert release.sensitivity.linf > 2**53
