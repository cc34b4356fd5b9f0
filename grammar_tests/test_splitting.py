"""The split of a query's budget: closed forms, and that no other split has a smaller error."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.calibrate.splitting import Part, split
from dpsql.model.tree import DOUBLE, Call, Expression, Literal, Ref, scalar
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

COUNT, TOTAL = Part((1,), 1.0, (1000.0,)), Part((2,), 50.0, (20_000.0,))
A, B = Ref(1, DOUBLE), Ref(2, DOUBLE)


def variance(share: list[Fraction], order: int, parts: list[Part], output: Expression) -> float:
    """The first-order variance of an output, up to a constant, by derivatives of our own."""
    known = {part.columns[0]: part.typical[0] for part in parts}
    result = 0.0
    for part, s in zip(parts, share, strict=True):
        moved = {**known, part.columns[0]: part.typical[0] + 1e-4}
        here, there = evaluate(output, known), evaluate(output, moved)
        assert here is not None
        assert there is not None
        result += ((there - here) / 1e-4 * part.reach) ** 2 / float(s) ** order
    return result


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("output", [B / A, A * B, scalar("sqrt", B / A)])
def test_no_other_split_of_one_output_is_better(output: Expression, order: int) -> None:
    best = split([COUNT, TOTAL], [output], order)
    least = variance(best, order, [COUNT, TOTAL], output)
    for n in range(1, 100):
        other = [Fraction(n, 100), Fraction(100 - n, 100)]
        assert variance(other, order, [COUNT, TOTAL], output) >= least * 0.9999
    equal = variance([Fraction(1, 2)] * 2, order, [COUNT, TOTAL], output)
    assert equal > least * 1.0001 or best == [Fraction(1, 2)] * 2


def test_a_ratio_by_hand() -> None:
    """B/A moves by 50/1000 and by 20/1000 as one unit moves B and A: shares 5 to 2 under ρ."""
    shares = split([COUNT, TOTAL], [B / A], 1)
    assert float(shares[1] / shares[0]) == pytest.approx(2.5, rel=1e-3)
    shares = split([COUNT, TOTAL], [B / A], 2)
    assert float(shares[1] / shares[0]) == pytest.approx(2.5 ** (2 / 3), rel=1e-3)


def test_outputs_in_other_units_count_alike() -> None:
    assert split([COUNT, TOTAL], [A, B], 1) == [Fraction(1, 2)] * 2
    assert split([COUNT, replace(TOTAL, reach=1e9)], [A, B], 2) == [Fraction(1, 2)] * 2


def test_what_is_no_arithmetic_splits_equally() -> None:
    unknown = Call("length", (Literal("x", DOUBLE), A, B), DOUBLE)
    assert split([COUNT, TOTAL], [unknown], 1) == [Fraction(1, 2)] * 2


@pytest.mark.full("opens a proxy for each item")
@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30), st.sampled_from([1, 2]))
def test_shares_are_positive_and_add_up_to_one(reaches: list[float], order: int) -> None:
    parts = [Part((n,), reach, (5.0,)) for n, reach in enumerate(reaches)]
    shares = split(parts, [Ref(n, DOUBLE) for n in range(len(parts))], order)
    assert sum(shares) == 1
    assert min(shares) > 0


def test_a_query_is_split_for_what_it_shows() -> None:
    """A ratio of SUM and COUNT is one output, and not the two that it is made of."""
    policy, engine = shop()

    def deviations(sql: str) -> list[float]:
        plan = compiled(sql, policy, engine, budget=BUDGET).plan
        assert plan is not None
        return [sqrt(r.noise.scale) / r.sensitivity.linf for r in plan.blocks[0].releases]

    asked = "SUM(amount) AS s, COUNT(*) AS n FROM orders"
    both = deviations(f"SELECT {asked}")
    ratio = deviations(f"SELECT s / n AS r FROM (SELECT {asked}) AS t")
    assert both[0] == pytest.approx(both[1], rel=0.01)
    assert ratio[0] < 0.95 * ratio[1]
    ordered = deviations("SELECT status, SUM(amount) AS s FROM orders GROUP BY 1 ORDER BY COUNT(*)")
    assert ordered[0] == pytest.approx(ordered[1], rel=0.01)


def test_formulas_of_any_shape_are_computed_or_unknown() -> None:
    least = Call("least", (A,), DOUBLE)
    assert evaluate(least, {1: 2.0}) == 2.0
    huge = Call("pow", (A, Literal(1e9, DOUBLE)), DOUBLE)
    assert str(evaluate(huge, {1: 2.0})) == "nan"
    assert evaluate(Call("greatest", (A, B, Literal(5.0, DOUBLE)), DOUBLE), {1: 2.0, 2: 3.0}) == 5
