"""Intervals of numbers that noise selects hold the truth: first rows, and extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from math import isfinite
from statistics import median

import pytest

from dpsql.compiler.errors.noisy_columns import Traced
from dpsql.compiler.errors.selection_errors import Selection
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.published_keys import TopKeys
from dpsql.model.errors import Refused
from dpsql.model.tree import DOUBLE, Expression, Literal, scalar, when
from dpsql.model.vocabulary import Policy
from dpsql.preparation.accuracy import promised_error
from dpsql.release.finish import expected_margins
from grammar_tests import accuracy_kit
from grammar_tests.casefile import CASES, Case
from grammar_tests.laws import PlainEngine, compiled
from grammar_tests.test_finish import answers, crowd

MONTHS = """SELECT EXTRACT(month FROM placed_at) AS m, COUNT(*) AS n FROM orders
WHERE placed_at >= '2024-01-01' AND placed_at < '2025-01-01' GROUP BY m"""
HIGHEST = f"{MONTHS} ORDER BY n DESC LIMIT 3"
LOWEST = f"{MONTHS} ORDER BY n LIMIT 3"
LATER = f"{MONTHS} ORDER BY n DESC LIMIT 2 OFFSET 1"
LARGEST = f"SELECT MAX(n) AS x FROM ({MONTHS}) AS t"
TOGETHER = f"SELECT SUM(n) AS x FROM ({HIGHEST}) AS t"
MIDDLE = f"SELECT MEDIAN(n) AS x FROM ({MONTHS}) AS t"
OF_ALL = f"SELECT m, MIN(n) OVER () AS x FROM ({MONTHS}) AS t ORDER BY m LIMIT 1"
NOTHING = Literal(1.0, DOUBLE)
LEAST, FEW = 0.93, 400
"""Of 400 draws a coverage of 0.9 is seen 49 times in 50."""


@cache
def months(spread: int = 0) -> tuple[Policy, PlainEngine]:
    """About 7,200 orders, as many in each of twelve months, or a quarter more in the last."""
    policy, engine = accuracy_kit.crowd.__wrapped__()
    engine.connection.execute(
        "UPDATE orders SET placed_at = TIMESTAMP '2024-01-15 00:00:00'"
        f" + to_months((CASE WHEN r % 4 < {spread} THEN 11 ELSE r // 4 % 12 END)::INT) FROM (SELECT"
        " order_id AS o, row_number() OVER (ORDER BY order_id) AS r FROM orders) WHERE order_id = o"
    )
    return policy, engine


def plan_of(sql: str, accountant: str, spread: int = 0) -> Prepared:
    case = Case(CASES / "top" / "selected.sql", 1, "selected", "shop", sql, "accept")
    prepared = accuracy_kit.question(case, accountant, months(spread))
    assert prepared is not None
    assert prepared.plan is not None
    assert not isinstance(prepared.plan.blocks[0].keys, TopKeys)
    return prepared


def coverage(sql: str, accountant: str, draws: int, spread: int = 0) -> tuple[float, float]:
    """The share of intervals that hold the plain number, and the last half-width."""
    prepared, engine = plan_of(sql, accountant, spread), months(spread)[1]
    true = {row[0]: row[1] for row in engine.connection.execute(MONTHS).fetchall()}
    ends: dict[str, Callable[[Iterable[int]], float]]
    ends = {"MAX(n) AS": max, "MIN(n) OVER": min, "MEDIAN(n)": median}
    ends["SUM(n)"] = lambda numbers: sum(sorted(numbers)[-3:])
    end = next((each(true.values()) for text, each in ends.items() if text in sql), None)
    held, margin = [], 0.0
    for answer in accuracy_kit.draws(prepared, engine, draws):
        for row, margins in zip(answer.rows, answer.margins, strict=True):
            truth = end if end is not None else true[row[0]]
            margin = float(margins[-1] or 0)
            assert isfinite(margin)
            held.append(abs(float(row[-1]) - truth) <= margin + 1e-6)
    return sum(held) / len(held), margin


@pytest.mark.full("thousands of answers")
@pytest.mark.parametrize("sql", [HIGHEST, LOWEST, LATER, LARGEST, TOGETHER, MIDDLE, OF_ALL])
@pytest.mark.parametrize("accountant", ["zcdp", pytest.param("pure", marks=pytest.mark.campaign)])
def test_all_selected_numbers_hold_the_plain_numbers(sql: str, accountant: str) -> None:
    share, _ = coverage(sql, accountant, FEW)
    assert share >= LEAST


@pytest.mark.parametrize(
    ("sql", "most"),
    [(HIGHEST, 0.92), pytest.param(LARGEST, 0.85, marks=pytest.mark.full("draws answers"))],
)
def test_without_wider_errors_they_would_not(
    sql: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Selection, "factor", lambda _self, _rivals: NOTHING)
    share, _ = coverage(sql, "zcdp", FEW)
    assert share < most


@pytest.mark.full("draws answers")
def test_wrong_twin_the_sum_of_first_rows_as_of_independent_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Selection, "factor", lambda _self, _rivals: NOTHING)
    monkeypatch.setattr(Traced, "repeated", lambda self: self)
    assert coverage(TOGETHER, "zcdp", FEW // 2)[0] < 0.8


@pytest.mark.full("draws random questions or values")
def test_what_is_far_from_all_others_has_no_wider_error() -> None:
    _, plain = coverage(MONTHS, "zcdp", 1)
    assert coverage(LARGEST, "zcdp", 1)[1] > 1.2 * plain
    assert coverage(LARGEST, "zcdp", 1, spread=1)[1] == plain


@pytest.mark.parametrize("sql", [HIGHEST, pytest.param(LATER, marks=pytest.mark.full("draws"))])
def test_a_promised_error_holds_for_the_selected_rows(sql: str) -> None:
    prepared = plan_of(sql, "zcdp")
    answers = accuracy_kit.draws(prepared, months()[1], 20)
    shown = max(float(row[-1] or 0) for answer in answers for row in answer.margins)
    (promised,) = {promised_error(prepared, Decimal(sure)) for sure in ("0.5", "0.95")}
    assert shown <= promised <= 1.4 * shown
    assert promised_error(prepared, Decimal("0.99")) > promised
    of_noise = expected_margins(prepared.plan, prepared.rewritten)[-1]
    assert of_noise is not None
    assert of_noise < 0.95 * shown


def test_without_a_number_of_rows_first_rows_have_no_promise() -> None:
    joined = f"SELECT t.m, t.n FROM ({MONTHS}) AS t JOIN ({MONTHS}) AS u ON u.m >= t.m"
    prepared = plan_of(f"{joined} ORDER BY n DESC LIMIT 3", "zcdp")
    with pytest.raises(Refused) as caught:
        promised_error(prepared, Decimal("0.95"))
    assert "which rows are the first" in str(caught.value.facts["why"])
    assert promised_error(plan_of(joined, "zcdp"), Decimal("0.95")) > 0


EQUAL = "SELECT age, COUNT(*) AS n FROM customers WHERE age < 90 GROUP BY age"
"""Ninety groups of 66 or 67 rows each."""


def of_extremes(count: int) -> float:
    """The share of intervals that hold the largest or the least of ninety nearly equal numbers."""
    policy, engine = crowd()
    sql = f"SELECT MAX(n) AS a, MIN(n) AS b FROM ({EQUAL}) AS t"
    truth = engine.connection.execute(sql).fetchall()[0]
    held = list[bool]()
    for answer in answers(compiled(sql, policy, engine), engine, count):
        assert answer.intervals is not None
        for ends, true in zip(answer.intervals[0], truth, strict=True):
            assert ends is not None
            held.append(ends[0] <= true <= ends[1])
    return sum(held) / len(held)


def by_plain_half_widths(
    selection: Selection, value: Expression, cut: Expression, error: Expression, _rows: Expression
) -> Expression:
    """Rivals within two half-widths that have not grown."""
    apart = scalar("abs", value.to(DOUBLE) - cut)
    return when(apart.le(error * (2 * selection.reach.width)), 1.0, 0.0)


@pytest.mark.full("draws hundreds of answers")
def test_extremes_of_many_equal_numbers_hold_the_true_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_extremes(200) >= 0.96
    monkeypatch.setattr(Selection, "is_near", by_plain_half_widths)
    assert of_extremes(200) < 0.96
