"""Intervals within certain ranges hold what they held, and the number that is shown (R108)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan, nan
from random import Random
from typing import Any

import pytest

from dpsql.compiler.plan.certain_ranges import COUNTS, CertainNumbers, CertainRanges
from dpsql.model import algebra, tree
from dpsql.model.interval_ends import intervals
from dpsql.model.intervals import Interval
from dpsql.model.vocabulary import BoundsMethod, TablePolicy
from dpsql.release import certain_ends as certain
from dpsql.release.certain_ends import certain_ends, within_ranges
from grammar_tests import accuracy_kit, casefile
from grammar_tests.casefile import Case
from grammar_tests.laws import compiled, noiseless
from grammar_tests.test_finish import crowd

NEAR = 1e-6
ALL = [
    case
    for case in casefile.all_cases()
    if case.accepted and case.holds_here and case.catalog == "shop" and not case.rows
]
LIMITED = "SELECT WITH DIFFERENTIAL_PRIVACY"
RANGED = [case for case in ALL if any(word in case.sql for word in ("AVG(", "CORR(", "STDDEV"))]
SOME = Random(8).sample(RANGED, 20)  # noqa: S311 - a test's
RANGES = {
    "COUNT(*)": (0, None),
    "COUNT(segment)": (0, None),
    "COUNT(DISTINCT segment)": (0, 2),
    "COUNT(DISTINCT age)": (0, 121),
    "SUM(age)": (0, None),
    "-SUM(age)": (None, 0),
    "SUM(age - 200)": (None, 0),
    "SUM(age - 60)": (None, None),
    "AVG(age)": (0, 120),
    "1 - AVG(CASE WHEN vip THEN 1 ELSE 0 END)": (0, 1),
    "STDDEV_POP(age)": (0, 60),
    "VAR_SAMP(age)": (0, 7200),
    "CORR(age, income)": (-1, 1),
    "COUNT(*) FILTER (WHERE vip) / COUNT(*)": (0, 1),
    "100.0 * COUNT(*) FILTER (WHERE vip) / NULLIF(COUNT(*), 0)": (0, 100),
    "SUM(CASE WHEN vip THEN 1 ELSE 0 END)::DOUBLE / COUNT(*)": (0, 1),
    "COUNT(*) / SUM(COUNT(*)) OVER ()": (0, 1),
    "COUNT(*) / COUNT(*) FILTER (WHERE vip)": (0, None),
    "(COUNT(*) + SUM(age)) / (COUNT(*) + 1)": (0, None),
    "COUNT(*) / ROUND(COUNT(*), -2)": (0, None),
    "COUNT(*) FILTER (WHERE vip) / COUNT(*) FILTER (WHERE age > 9)": (0, None),
    "COUNT(*) / SUM(COUNT(*)) OVER (ORDER BY segment)": (0, None),
    "SUM(income - 1e9) / COUNT(*)": (None, None),
    "LAG(COUNT(*), 1, -5) OVER (ORDER BY segment)": (None, None),
}
"""Formulas over customers by segment, with both ends of what is certain."""


@pytest.mark.parametrize("formula", RANGES)
def test_ranges_follow_the_policy(formula: str) -> None:
    policy, engine = crowd()
    sql = f"SELECT segment, {formula} AS n FROM customers GROUP BY segment"
    rewritten = compiled(sql, policy, engine).rewritten
    (_, found) = rewritten.certain
    low, high = RANGES[formula]
    assert (found.lo, found.hi) == (low, high)
    ends = -inf if low is None else low, inf if high is None else high
    assert certain_ends(rewritten) == ({} if ends == (-inf, inf) else {1: ends})


def test_limits_and_an_analysts_bounds_make_nothing_certain() -> None:
    """Both clip what the data have, so the truth may lie beyond them."""
    policy, engine = crowd()
    for sql, most in (
        ("SELECT AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY 1) t", None),
        (f"{LIMITED} AVG(amount, contribution_bounds_per_row => (0, 5)) FROM orders", 500),
    ):
        (found,) = compiled(sql, policy, engine).rewritten.certain
        assert found == Interval(Fraction(0), None if most is None else Fraction(most))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(EXTRACT(year FROM placed_at)) FROM orders",
        "SELECT AVG(y) FROM (SELECT YEAR(MAX(placed_at)) AS y FROM orders GROUP BY customer_id) t",
    ],
)
def test_days_that_clip_times_make_nothing_certain(sql: str) -> None:
    """A time without bounds may be in the year 9999, whatever its aggregates are clipped to."""
    policy, engine = crowd()

    def without_bounds(table: TablePolicy) -> TablePolicy:
        columns = (replace(c, bounds=None) if c.type.is_temporal else c for c in table.columns)
        return replace(table, columns=tuple(columns), times=(date(1900, 1, 1), date(2199, 12, 31)))

    (bounded,) = compiled(sql, policy, engine).rewritten.certain
    assert bounded == Interval(Fraction(2024), Fraction(2025))
    (clipped,) = compiled(sql, policy.with_tables(without_bounds), engine).rewritten.certain
    assert clipped.contains(Fraction(9999))


def test_a_number_over_itself_is_at_most_one() -> None:
    counts = [tree.Ref(column, tree.INTEGER) for column in (0, 1)]
    ranges = CertainRanges(algebra.OneRow(), CertainNumbers({0: COUNTS, 1: COUNTS}))
    shares = [ranges.range_of(tree.Call("div", (counts[0], each), tree.DOUBLE)) for each in counts]
    assert shares == [Interval(Fraction(0), Fraction(1)), COUNTS]


def test_found_bounds_make_nothing_certain() -> None:
    policy, engine = crowd()

    def with_found(table: TablePolicy) -> TablePolicy:
        columns = (
            replace(c, private_bounds=BoundsMethod.LOG_HISTOGRAM) if c.name == "age" else c
            for c in table.columns
        )
        return replace(table, columns=tuple(columns))

    for formula in ("AVG(age)", "SUM(age)", "STDDEV(age)"):
        sql = f"SELECT {formula} AS n FROM customers"
        before, after = (
            compiled(sql, each, engine).rewritten.certain[0]
            for each in (policy, policy.with_tables(with_found))
        )
        assert before != after
        assert after.hi is None


def test_a_condition_on_a_noisy_number_makes_nothing_certain() -> None:
    policy, engine = crowd()
    sql = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1 HAVING COUNT(*) > 100"
    assert compiled(sql, policy, engine).rewritten.certain[1] == Interval(Fraction(0))


@dataclass
class Compared:
    """Numbers of which the interval lost the truth, grew, shrank, or lacks the number itself, when
    ranges came in.
    """

    lost: int = 0
    grew: int = 0
    shrank: int = 0
    outside: int = 0


def compare(cases: Sequence[Case], draws: int, narrower: Fraction = Fraction(1)) -> Compared:
    """Compare intervals with and without ranges, of the same noise; `narrower` is a wrong twin."""
    _, engine = accuracy_kit.crowd()
    compared = Compared()
    for case in cases:
        prepared = accuracy_kit.question(case, "zcdp")
        if prepared is None:
            continue
        plain = replace(prepared, rewritten=replace(prepared.rewritten, certain=()))
        keys = [n for n, error in enumerate(plain.rewritten.expected) if error is None]
        true = by_key(noiseless(plain, engine)[0], keys) or {}
        ends = certain_ends(prepared.rewritten).items()
        ranges = {n: (low, high * float(narrower)) for n, (low, high) in ends}
        for before in accuracy_kit.draws(plain, engine, draws) if ranges else ():
            rows, margins, halves = within_ranges(
                before.rows, before.margins, before.halves, ranges
            )
            after = replace(before, rows=rows, margins=margins, halves=halves)
            for row, *both in zip(rows, before.intervals, after.intervals, strict=True):
                truth = true.get(tuple(str(row[n]) for n in keys), (None,) * len(row))
                for n, range_ in ranges.items():
                    count(compared, truth[n], range_, *(intervals[n] for intervals in both))
                    compared.outside += is_outside(row[n], both[1][n])
    return compared


def is_outside(value: Any, ends: Any) -> bool:
    """Test whether a number lies outside its own interval."""
    if value is None or ends is None or isnan(ends[0]):
        return False
    return not ends[0] - NEAR <= float(value) <= ends[1] + NEAR


def by_key(rows: Sequence[Any], keys: Sequence[int]) -> dict[Any, Any] | None:
    """The rows by what has no noise; None where several have the same."""
    found = {tuple(str(row[n]) for n in keys): row for row in rows}
    return found if len(found) == len(rows) else None


def count(compared: Compared, true: Any, range_: Any, before: Any, after: Any) -> None:
    """Count what became of one interval. One wholly beyond the range grows to reach into it."""
    if true is None or None in (before, after) or isnan(after[0]):
        return
    true = float(true)
    held = isnan(before[0]) or before[0] - NEAR <= true <= before[1] + NEAR
    compared.lost += held and not after[0] - NEAR <= true <= after[1] + NEAR
    beyond = before[1] <= range_[0] or before[0] >= range_[1]
    compared.grew += not beyond and after[1] - after[0] > before[1] - before[0] + NEAR
    compared.shrank += not after[1] - after[0] >= before[1] - before[0] - NEAR


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.campaign) for part in range(1, 8))]
)
def test_no_interval_of_any_case_loses_the_truth_or_grows(part: int) -> None:
    compared = compare(ALL[part::8], 2)
    assert (compared.lost, compared.grew, compared.outside) == (0, 0, 0)
    assert compared.shrank > 50


@pytest.mark.full("measures neighbours or further data sets")
def test_no_interval_loses_the_truth_or_grows() -> None:
    compared = compare(SOME, 2)
    assert (compared.lost, compared.grew, compared.outside) == (0, 0, 0)
    assert compared.shrank > 0


def test_wrong_twin_a_range_that_is_too_narrow_loses_the_truth() -> None:
    case = next(case for case in ALL if case.sql.startswith("SELECT AVG(age)"))
    assert compare([case], 1).lost == 0
    assert compare([case], 1, Fraction(1, 8)).lost > 0


def test_numbers_between_two_ends_are_moved_and_others_stay() -> None:
    rows, margins = [(-54, -54, 1.5, Decimal("-0.25"))], [(9.0, 9.0, 1.0, 1.0)]
    ranges = {0: (0.0, 6.0), 1: (0.0, inf), 2: (0.0, 1.0), 3: (0.0, 1.0)}
    moved, _, halves = within_ranges(rows, margins, (), ranges)
    assert moved == ((0, -54, 1.0, Decimal(0)),)
    assert intervals(moved[0], margins[0], halves[0])[1] == (-54.0, 9.0)


@pytest.mark.parametrize("ends", [(0.0, inf), (-inf, 0.0), (0.0, 6.0), (-3.0, 90.0)])
def test_an_interval_holds_its_number_and_all_that_it_held_of_the_range(
    ends: tuple[float, float],
) -> None:
    for value in range(-100, 101):
        rows, margins, halves = within_ranges([(value,)], [(36.0,)], (), {0: ends})
        (pair,) = intervals(rows[0], margins[0], halves[0] if halves else None)
        assert pair is not None
        low, high = pair
        assert low <= rows[0][0] <= high
        assert margins[0][0] == max(rows[0][0] - low, high - rows[0][0])
        assert low < high
        possible = max(value - 36, ends[0]), min(value + 36, ends[1])
        if possible[0] < possible[1]:
            assert (low, high) == (min(possible[0], rows[0][0]), max(possible[1], rows[0][0]))
        else:
            assert low <= ends[1]
            assert high >= ends[0]


def test_wrong_twin_an_interval_that_is_cut_at_the_range_lacks_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        certain, "_distances", lambda number, low, high: (number - low, high - number)
    )
    with pytest.raises(AssertionError):
        test_an_interval_holds_its_number_and_all_that_it_held_of_the_range((0.0, inf))


def test_whole_numbers_are_moved_to_whole_numbers_of_the_range() -> None:
    moved, _, _ = within_ranges([(-5, 9)], [(1.0, 1.0)], (), {0: (0.5, 3.5), 1: (0.5, 3.5)})
    assert moved == ((1, 3),)


def test_an_interval_beyond_its_range_keeps_a_width() -> None:
    """An interval of width 0 would say that there is no doubt."""
    for value in (-100, 100):
        rows, _, halves = within_ranges([(value,)], [(9.0,)], (), {0: (0.0, 6.0)})
        assert rows == ((min(max(value, 0), 6),),)
        assert halves[0][0] is not None
        assert sum(halves[0][0]) > 0


def test_an_unknown_interval_stays_unknown() -> None:
    rows, margins, halves = within_ranges([(7.0,)], [(nan,)], (), {0: (0.0, 6.0)})
    assert rows == ((6.0,),)
    assert str(margins) == "((nan,),)"
    assert halves == ()
