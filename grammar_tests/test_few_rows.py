"""Formulas over the moments of few rows: their intervals hold the truth, or are not known.

Ratios by a count that may be lost in noise are in test_shown_counts.
"""

from __future__ import annotations

from math import isnan

import pytest

from grammar_tests.test_finish import many

FORMULAS = {
    "VAR_POP(age)": 0.0,
    "STDDEV(age)": 0.0,
    "VAR_SAMP(income)": 0.0,
    "COVAR_POP(age, income)": 0.0,
    "CORR(age, income)": 0.9,
    "REGR_R2(age, income)": 0.9,
    "REGR_SLOPE(income, age)": 0.99,
}
"""With the most of their values that may be NULL or have no known error."""


def held(formula: str, rows: int, factor: float = 1.0) -> tuple[float, float]:
    """The share of the known intervals that hold the truth, and of values without one."""
    aggregates = formula.replace(")", f") FILTER (WHERE customer_id < {rows})")
    true, answer = many(aggregates, "zcdp", "0.2")
    pairs = [(v, m) for (v,), (m,) in zip(answer.rows, answer.margins, strict=True)]
    known = [(v, m) for v, m in pairs if v is not None and m is not None and not isnan(m)]
    inside = sum(bool(abs(value - true) <= factor * margin) for value, margin in known)
    return inside / len(known), 1 - len(known) / len(pairs)


FURTHER = pytest.mark.full("further data sets")


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("rows", [3, pytest.param(60, marks=FURTHER), 200])
@pytest.mark.parametrize("formula", FORMULAS)
def test_intervals_of_few_rows_hold_the_truth(formula: str, rows: int) -> None:
    share, absent = held(formula, rows)
    assert share >= 0.94
    assert absent <= FORMULAS[formula] + 0.02


def test_narrower_intervals_would_not() -> None:
    assert held("VAR_POP(age)", 200, factor=0.4)[0] < 0.9
    assert held("COVAR_POP(age, income)", 200, factor=0.4)[0] < 0.9


@pytest.mark.full("measures neighbours or further data sets")
def test_a_correlation_with_what_does_not_vary_has_no_value() -> None:
    _, answer = many("CORR(age, income) FILTER (WHERE customer_id < 3)", "zcdp", "0.2")
    shown = [value for (value,) in answer.rows]
    assert None in shown
    assert all(value is None or -1 <= value <= 1 for value in shown)
