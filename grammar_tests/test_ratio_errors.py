"""Ratios by small counts: intervals hold the true ratio, or their error is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import pytest

from dpsql.compiler.errors import ratio_errors
from dpsql.compiler.errors.ratio_errors import Move, fraction
from dpsql.model.tree import DOUBLE, Call, Expression, Ref, operand, scalar
from grammar_tests.test_finish import many

PART, WHOLE = "COUNT(*) FILTER (WHERE vip)", "COUNT(*) FILTER (WHERE customer_id < {0})"
FORMULAS = {
    "a ratio above one": f"{PART} / {WHOLE}",
    "a ratio of nothing": f"COUNT(*) FILTER (WHERE age > 200) / {WHOLE}",
    "a share": f"ROUND(100.0 * COUNT(*) FILTER (WHERE vip AND customer_id < {{0}}) / {WHOLE}, 3)",
    "a growth": f"{PART} / {WHOLE} - 1",
    "shared parts": f"({PART} - {WHOLE}) / {WHOLE}",
    "a sum by a count": f"SUM(age) / NULLIF({WHOLE}, 0)",
}


def releases(what: str, accountant: str, rows: int) -> tuple[float, float]:
    """Return the share of releases whose interval holds the ratio by so many rows, or has no end,
    and the share of those with an end.
    """
    true, answer = many(FORMULAS[what].format(rows), accountant, "0.2")
    cells = zip(answer.rows, answer.margins, strict=True)
    each = [(value, float(half or 0)) for (value,), (half,) in cells]
    known = [abs(value - true) <= half for value, half in each if not isnan(half)]
    missed = len(known) - sum(known)
    return 1 - missed / len(each), len(known) / len(each)


@pytest.mark.full("draws thousands of releases")
@pytest.mark.parametrize(
    ("what", "accountant"),
    [(what, "zcdp") for what in FORMULAS] + [("a growth", "pure"), ("a share", "pure")],
)
def test_intervals_of_ratios_hold_or_have_no_end(what: str, accountant: str) -> None:
    """The noise of a count has the deviation 30 (zcdp): few, about two of them, and many."""
    shares = [releases(what, accountant, rows) for rows in (15, 60, 600)]
    assert all(held >= 0.93 for held, _ in shares)
    assert shares[0][1] < 0.2
    assert shares[2][1] > 0.99


def test_intervals_of_a_ratio_hold_where_its_divisor_is_as_small_as_noise() -> None:
    held, known = releases("a ratio above one", "zcdp", 30)
    assert held >= 0.93
    assert 0.05 < known < 0.4


def linear(top: Expression, bottom: Expression, moves: Sequence[Move], _width: float) -> Expression:
    """The error of the first order: the root of the summed squares of N - r·D's moves, over D."""
    squares = [scalar("pow", operand(a) - top / bottom * operand(b), 2.0) for a, b in moves]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return scalar("sqrt", total) / scalar("abs", bottom.to(DOUBLE))


def test_wrong_twin_the_error_of_the_first_order_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratio_errors, "error_of_ratio", linear)
    held, known = releases("a ratio above one", "zcdp", 30)
    assert known > 0.99
    assert held < 0.87


N, D = Ref(1, DOUBLE), Ref(2, DOUBLE)


@pytest.mark.parametrize(
    ("formula", "parts"),
    [
        (N / D, (N, D)),
        (operand(100.0) * N / scalar("nullif", D, 0.0), (operand(100.0) * N, D)),
        (scalar("round", N / D * 3.0, 2.0), (N * 3.0, D)),
        (N / D - 1.0, (N - D * 1.0, D)),
        (operand(1.0) - N / D, (D * 1.0 - N, D)),
        (scalar("coalesce", N / D / 2.0, 0.0), (N / 2.0, D)),
        (N * D, None),
        (N / D + N, None),
        (N / D * N, None),
    ],
)
def test_ratios_are_recognised(formula: Call, parts: tuple[Expression, Expression] | None) -> None:
    assert fraction(formula) == parts
