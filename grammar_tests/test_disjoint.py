"""Measurements of disjoint rows: which are pooled, and what that must never pool."""

from __future__ import annotations

import pytest

from grammar_tests.bound import shop
from grammar_tests.laws import charges, compiled


def sizes(sql: str) -> list[int]:
    """How many measurements each charge of a query pays for, but for the rest of their whole."""
    policy, engine = shop()
    plan = compiled(sql, policy, engine).plan
    assert plan is not None
    (block,) = plan.blocks
    rest = {n for n, query in enumerate(block.queries) if "coalesce" in repr(query.condition)}
    return [len(set(charge) - rest) for charge in charges(block)]


def counts(*conditions: str, table: str = "customers") -> str:
    listed = (f"COUNT(*) FILTER (WHERE {c}) AS n{i}" for i, c in enumerate(conditions))
    return f"SELECT {', '.join(listed)} FROM {table}"


def sums(low: int, high: int) -> str:
    """Sums of disjoint rows of at most two of each unit, whose totals are clipped."""
    bounds = f"contribution_bounds_per_group => ({low}, {high})"
    listed = (
        f"SUM(quantity, {bounds}) FILTER (WHERE status = '{status}') AS {status}"
        for status in ("open", "paid")
    )
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS r"
    asked = f"SELECT WITH DIFFERENTIAL_PRIVACY {', '.join(listed)}"
    return f"{asked} FROM ({numbered} FROM orders) AS o WHERE r <= 2"


def test_disjoint_rows_are_paid_for_once() -> None:
    assert sizes(counts("segment = 'consumer'", "segment = 'business'")) == [2]
    assert sizes(counts("age = 1", "2 = age", "age = 3 AND age = 3")) == [3]
    assert sizes(counts("age = 1 AND city = 'a'", "city = 'a' AND age = 2")) == [2]
    assert sizes("SELECT HISTOGRAM(segment) AS h FROM customers") == [2]
    assert sizes(sums(0, 40)) == [2]


@pytest.mark.parametrize(
    "sql",
    [
        counts("age = 1", "age <= 1"),
        counts("age = 1", "city = 'a'"),
        counts("age = 1", "age = 2 AND city = 'a'"),
        counts("income = 1", "income = 2"),  # 2**53 and 2**53 + 1 are one DOUBLE
        counts("age = 1 OR city = 'a'", "age = 2 OR city = 'a'"),
        counts("NOT age = 1", "NOT age = 2"),
        counts("status = 'paid'", "status = 'open'", table="orders"),  # clipped totals
        counts("status = 'paid'", "status = 'open'", table="orders").replace(
            "COUNT(*)", "COUNT(DISTINCT customer_id)"
        ),
        sums(0, 39),
        sums(30, 40),  # each of two rows counts 30, where both together count 40 at most
    ],
)
def test_others_are_not(sql: str) -> None:
    assert set(sizes(sql)) == {1}
