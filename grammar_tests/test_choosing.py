"""DP_CHOOSE: the query that it stands for, word for word, and what stands for none."""

from __future__ import annotations

import pytest

from dpsql.dialects.reading.parse import parse
from dpsql.model.errors import Refused
from dpsql.preparation.describe_blocks import description
from grammar_tests.bound import shop
from grammar_tests.laws import compiled

LONG = "SELECT {option} AS dp_choose FROM {rows} GROUP BY {option} ORDER BY {score} DESC LIMIT 1"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize(
    ("option", "score", "rows", "total"),
    [
        ("status", "amount", "orders", "SUM(amount)"),
        ("status", "amount - 3", "orders WHERE amount > 1", "SUM(amount - 3)"),
        ("status", "COUNT(*)", "orders", "COUNT(*)"),
        ("status", "COUNT(DISTINCT customer_id)", "orders", "COUNT(DISTINCT customer_id)"),
        ("status", "CASE WHEN amount > 9 THEN 1 ELSE 0 END", "orders AS o", None),
        ("UPPER(status)", "1", "orders", "SUM(1)"),
    ],
)
def test_it_is_the_first_of_all_groups(
    dialect: str, option: str, score: str, rows: str, total: str | None
) -> None:
    """So that limits, sensitivity, law, charge and memory are those of the query in full."""
    short = f"SELECT DP_CHOOSE({option} ORDER BY {score}) FROM {rows}"
    full = LONG.format(option=option, score=total or f"SUM({score})", rows=rows)
    here, there = (parse(sql, dialect).query for sql in (short, full))
    if dialect == "duckdb":
        assert here == there
    named = parse(short.replace(") FROM", ") AS best FROM"), dialect).query
    assert named == parse(full.replace("dp_choose", "best"), "duckdb").query


def test_the_sensitivity_of_the_score_is_inferred_and_the_mechanism_exponential() -> None:
    """From the bounds of what is added up, clipped: one person sways a choice by one group."""
    policy, engine = shop()
    one = compiled("SELECT DP_CHOOSE(status ORDER BY amount) FROM orders", policy, engine)
    two = compiled("SELECT DP_CHOOSE(status ORDER BY amount / 2) FROM orders", policy, engine)
    keys = [description(p, (None,), policy).blocks[0].keys for p in (one, two)]
    assert "highest sum of amount (each row in [0, 500]; exponential mechanism" in keys[0]
    assert "highest sum of amount / 2 (each row in [0, 250]; exponential mechanism" in keys[1]
    assert one.plan is not None
    assert one.plan.blocks[0].releases == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT status, DP_CHOOSE(status ORDER BY amount) FROM orders",
        "SELECT DP_CHOOSE(status ORDER BY amount) FROM orders GROUP BY status",
        "SELECT DP_CHOOSE(status ORDER BY amount) FROM orders LIMIT 1",
        "SELECT DP_CHOOSE(status ORDER BY amount DESC) FROM orders",
        "SELECT DP_CHOOSE(status ORDER BY amount, discount) FROM orders",
        "SELECT DP_CHOOSE(status) FROM orders",
        "SELECT 1 + DP_CHOOSE(status ORDER BY amount) FROM orders",
    ],
)
def test_what_is_no_choice_is_refused(sql: str) -> None:
    with pytest.raises(Refused):
        parse(sql)


def test_a_score_without_bounds_is_refused() -> None:
    policy, engine = shop()
    with pytest.raises(Refused):
        compiled("SELECT DP_CHOOSE(status ORDER BY LENGTH(note)) FROM orders", policy, engine)
