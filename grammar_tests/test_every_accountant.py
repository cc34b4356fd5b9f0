"""Each case under the accountants that it does not name: compiled, and within what it may spend."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql import accountants
from dpsql.compiler.plan.private_plan import PrivatePlan
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import ATTO, NANO, Event, Neighbours
from grammar_tests import casefile
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

CASES = [case for case in casefile.all_cases() if case.accepted and "aggregates/" in case.id]
FEWEST = 90
"""Of these cases so many are answered under an accountant other than theirs."""


def spends(plan: PrivatePlan, accountant: str) -> tuple[float, float]:
    """What a plan is charged, as a part of what it may spend: of the amount, and of δ."""
    of = accountants.get(accountant)
    delta = Fraction(BUDGET.query_delta)
    ways = (False, True) if of.supports_selection else (False,)
    allowances = [of.allowance(plan.epsilon, delta, selects_keys=way) for way in ways]
    most = max(allowance.amount for allowance in allowances)
    loss = of.loss(plan.event)
    return loss.amount / float(most * NANO), loss.delta / float(delta * ATTO)


def plans(accountant: str) -> dict[str, PrivatePlan]:
    """The plans of every other case, half of them where units are replaced."""
    policy, engine = shop()
    found: dict[str, PrivatePlan] = {}
    for number, case in enumerate(CASES[accountant == "pure" :: 2]):
        if case.setting("accountant", "zcdp") == accountant:
            continue
        unit = replace(policy.unit, neighbours=list(Neighbours)[number % 2])
        budget, dialect = replace(BUDGET, accountant=accountant), case.setting("dialect", "duckdb")
        try:
            plan = compiled(
                case.sql, replace(policy, unit=unit), engine, dialect=dialect, budget=budget
            ).plan
        except Refused:
            continue
        if plan is not None:
            found[case.id] = plan
    return found


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["pure", "approximate"])
def test_no_case_spends_more_than_it_may(accountant: str) -> None:
    found = plans(accountant)
    assert len(found) >= FEWEST
    for case, plan in found.items():
        amount, delta = spends(plan, accountant)
        assert amount <= 1, case
        assert delta <= 1, case


def test_what_is_measured_twice_would_be_seen() -> None:
    policy, engine = shop()
    plan = compiled("SELECT SUM(age) AS s FROM customers", policy, engine).plan
    assert plan is not None
    amount, _ = spends(replace(plan, event=Event(plan.event.parts * 2)), "zcdp")
    assert amount > 1
