"""Shortcuts within one unit: its existence is asked of totals, its rows are added in 32 bits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.dialects.duckdb import block_statement, total_sql
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import Counted, PlainEngine, compiled, integers

LOOKUP = re.compile(r' SEMI JOIN .*? ON totals\.u = [\w."]+')
QUERIES = (
    "SELECT status, COUNT(*), SUM(amount), SUM(quantity), SUM(discount) FROM orders GROUP BY 1",
    "SELECT note, COUNT(DISTINCT status), AVG(amount), MEDIAN(quantity) FROM orders GROUP BY 1",
    "SELECT VAR_POP(amount), COUNT(*) FILTER (WHERE note = '12') FROM orders WHERE quantity > 1",
    "SELECT status, AVG(amount) FROM orders JOIN countries ON note = code GROUP BY 1",
)


@pytest.fixture(scope="module")
def engine() -> PlainEngine:
    return PlainEngine(world.build(world.adversarial(), constraints=False))


def plan_of(sql: str, engine: PlainEngine) -> Prepared:
    policy, _ = over(world.adversarial(), constraints=False)
    return compiled(sql, policy, engine)


def counted(plan: Prepared, engine: PlainEngine) -> list[tuple[Counted, object]]:
    return [(block, block.cells) for block in integers(plan, engine)]


def sql_of(plan: Prepared) -> str:
    return plan.rewritten.blocks[0].sql


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", QUERIES)
def test_a_late_lookup_finds_the_same_units(
    sql: str, engine: PlainEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = plan_of(sql, engine)
    assert LOOKUP.search(sql_of(late))
    found = counted(late, engine)
    monkeypatch.setattr(block_statement, "looked_up", at_once)
    early = plan_of(sql, engine)
    assert not LOOKUP.search(sql_of(early))
    assert counted(early, engine) == found


def at_once(block: PrivateBlock, _inputs: object) -> tuple[object, None]:
    return block.rows, None


def test_units_that_nobody_looked_up_would_be_seen(engine: PlainEngine) -> None:
    plan = plan_of(QUERIES[0], engine)
    block = plan.rewritten.blocks[0]
    careless = replace(block, sql=LOOKUP.sub("", block.sql))
    assert careless.sql != block.sql
    broken = replace(plan, rewritten=replace(plan.rewritten, blocks=(careless,)))
    assert counted(broken, engine) != counted(plan, engine)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("sql", [QUERIES[0], QUERIES[2]])
def test_narrow_rows_have_the_same_totals(
    sql: str, engine: PlainEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = plan_of(sql, engine)
    assert "::INTEGER" in sql_of(narrow)
    found = counted(narrow, engine)
    monkeypatch.setattr(total_sql, "INTEGER_LIMIT", 0)
    wide = plan_of(sql, engine)
    assert "::INTEGER)" not in sql_of(wide)
    assert counted(wide, engine) == found


PRODUCT = "SELECT SUM(amount * (1 - amount) * (amount - 2.5)) FROM orders"


@pytest.mark.full("opens a proxy for each item")
def test_products_of_decimals_need_no_cast(
    engine: PlainEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = plan_of(PRODUCT, engine)
    assert "AS DECIMAL" not in sql_of(plain)
    found = counted(plain, engine)
    monkeypatch.setattr(block_statement, "EXACT", frozenset())
    cast = plan_of(PRODUCT, engine)
    assert "AS DECIMAL" in sql_of(cast)
    assert counted(cast, engine) == found


def test_wrong_twin_a_product_of_another_scale_would_be_seen(engine: PlainEngine) -> None:
    plan = plan_of(PRODUCT, engine)
    block = plan.rewritten.blocks[0]
    rounded = replace(block, sql=re.sub(r"(TRY\(.*\)) AS x0", r"round(\1, 1) AS x0", block.sql))
    assert rounded.sql != block.sql
    broken = replace(plan, rewritten=replace(plan.rewritten, blocks=(rounded,)))
    assert counted(broken, engine) != counted(plan, engine)
