"""Sums about the middle of their bounds: less noise for the same charge, never another value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.compiler.calibrate import strategies
from dpsql.compiler.calibrate.measurements import Measurements
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.vocabulary import Budget
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

APPROXIMATE = replace(BUDGET, accountant="approximate")


def as_asked(made: Measurements, _identities: Identities) -> Measurements:
    """No sum is centred."""
    return made


def errors(sql: str, budget: Budget = BUDGET) -> list[float]:
    """The standard error of each output, known before anything is released."""
    policy, engine = shop()
    expected = compiled(sql, policy, engine, budget=budget).rewritten.expected
    return [error for error in expected if error is not None]


@pytest.mark.parametrize("budget", [BUDGET, APPROXIMATE], ids=lambda b: b.accountant)
@pytest.mark.parametrize("value", ["age", "age - 100", "age % 7 + 1000"])
def test_a_sum_and_a_count_are_both_better(
    value: str, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"SELECT SUM({value}) AS s, COUNT({value}) AS n FROM customers"
    now = errors(sql, budget)
    monkeypatch.setattr(strategies, "about_centres", as_asked)
    before = errors(sql, budget)
    assert all(a <= 1.01 * b for a, b in zip(now, before, strict=True)), (now, before)
    assert min(a / b for a, b in zip(now, before, strict=True)) < 0.9


def test_a_sum_beside_an_average_is_not_measured_again() -> None:
    policy, engine = shop()
    plan = compiled("SELECT SUM(age), AVG(age) FROM customers", policy, engine).plan
    assert plan is not None
    assert [release.sensitivity.linf for release in plan.blocks[0].releases] == [1, 60]
    alone = errors("SELECT SUM(age) FROM customers")
    (beside, _) = errors("SELECT SUM(age), AVG(age) FROM customers")
    assert alone[0] < beside < 1.4 * alone[0]
