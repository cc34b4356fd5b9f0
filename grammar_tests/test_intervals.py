"""Interval arithmetic holds every result of the same operation on members."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import inf, isfinite, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.model.intervals import EVERYTHING, MAX_DOUBLE, Bound, Interval, distinct, hull, lattice
from dpsql.model.tree import BOOLEAN, DATE, DOUBLE, INTEGER, decimal

NUMBERS = st.fractions(min_value=-50, max_value=50, max_denominator=8)
OPERATIONS = [operator.add, operator.sub, operator.mul, operator.truediv]
Binary = Callable[[Interval, Interval], Interval]


@st.composite
def members(draw: st.DrawFn) -> tuple[Interval, Fraction]:
    """An interval, perhaps unbounded, and a number in it."""
    lo, x, hi = sorted(draw(st.lists(NUMBERS, min_size=3, max_size=3)))
    return Interval(draw(st.sampled_from([lo, None])), draw(st.sampled_from([hi, None]))), x


@pytest.mark.full("further data sets, and all their neighbours")
@given(st.sampled_from(OPERATIONS), members(), members())
def test_arithmetic_holds_results(
    operation: Callable[..., object],
    left: tuple[Interval, Fraction],
    right: tuple[Interval, Fraction],
) -> None:
    (a, x), (b, y) = left, right
    if operation is operator.truediv and y == 0:
        return
    result, value = operation(a, b), operation(x, y)
    assert isinstance(result, Interval)
    assert isinstance(value, Fraction)
    assert result.contains(value)


@pytest.mark.full("opens a proxy for each item")
@given(members(), members())
def test_unary_and_set_operations(
    left: tuple[Interval, Fraction], right: tuple[Interval, Fraction]
) -> None:
    (a, x), (b, _) = left, right
    assert abs(a).contains(abs(x))
    assert (-a).contains(-x)
    assert a.union(b).contains(x)
    if b.contains(x):
        assert a.intersect(b).contains(x)


def _misses(add: Binary) -> bool:
    """Whether the check of addition above finds a member outside, on a few intervals."""
    ends = [Interval(Fraction(-2), Fraction(3)), Interval(Fraction(1), Fraction(4))]
    points = [Fraction(-2), Fraction(1), Fraction(3)]
    return any(
        not add(a, b).contains(x + y)
        for a in ends
        for b in ends
        for x in points
        for y in points
        if a.contains(x) and b.contains(y)
    )


def test_wrong_twin_of_addition_is_caught() -> None:
    assert not _misses(operator.add)
    assert _misses(operator.sub)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.sampled_from([1, 3, 10**200]))
def test_outward_holds_rounded_results(x: float, y: float, scale: int) -> None:
    if not (isfinite(x) and isfinite(y)):
        return
    exact = Interval(Fraction(x) * scale, Fraction(x) * scale) * Interval(Fraction(y), Fraction(y))
    outer = exact.outward(DOUBLE)
    assert outer.union(exact) == outer
    if scale == 1:
        product = x * y
        inside = product in (inf, -inf) or outer.contains(Fraction(product))
        assert inside
        assert isfinite(product) or not outer.is_bounded


def test_outward_is_the_nearest_double() -> None:
    third = Interval(Fraction(1, 3), Fraction(1, 3)).outward(DOUBLE)
    assert {third.lo, third.hi} == {Fraction(1 / 3), Fraction(nextafter(1 / 3, 1))}
    assert Interval(MAX_DOUBLE + 1, None).outward(DOUBLE).lo == MAX_DOUBLE
    assert Interval(None, -MAX_DOUBLE - 1).outward(DOUBLE).hi == -MAX_DOUBLE
    assert Interval(Fraction(1, 3), None).outward(INTEGER).lo == Fraction(1, 3)


def test_empty_intersection_is_a_point() -> None:
    a, b = Interval(Fraction(1), Fraction(2)), Interval(Fraction(3), None)
    assert a.intersect(b) == Interval(Fraction(3), Fraction(3))


def test_lattice_and_hull() -> None:
    week = Interval(date(2024, 2, 27), date(2024, 3, 1))
    assert lattice(DATE, week, 4) == tuple(
        date(2024, *day) for day in [(2, 27), (2, 28), (2, 29), (3, 1)]
    )
    assert lattice(DATE, week, 3) is None
    assert lattice(BOOLEAN, EVERYTHING, 2) == (False, True)
    assert lattice(DOUBLE, Interval(Fraction(0), Fraction(1)), 9) is None
    huge = Interval(Fraction(10) ** 35, Fraction(10) ** 35)
    assert lattice(decimal(38, 2), huge, 9) == (Decimal(10) ** 35,)
    assert hull([1, 2.5, Decimal(2)]) == Interval(Fraction(1), Fraction(5, 2))
    assert hull([1, inf]) == EVERYTHING
    assert distinct([2, None, 1, 2, float("nan")][:4]) == (1, 2)


@pytest.mark.parametrize("end", [Fraction(5, 2), Fraction(-5, 2), Fraction(3)])
def test_inward_reaches_the_grid(end: Bound) -> None:
    grid = replace(EVERYTHING, lo=end).inward(INTEGER)
    assert isinstance(grid.lo, Fraction)
    assert grid.lo.denominator == 1
    assert not Interval(None, end).contains(grid.lo) or grid.lo == end
