"""Each case under the accountants that it does not name: compiled, and within what it may spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, PrivatePlan
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import ATTO, NANO, Budget, Event, Neighbours
from dpsql.preparation import prepare as preparing
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.preparation.private_bounds import without_delta
from grammar_tests import casefile
from grammar_tests.bound import shop, unlimited
from grammar_tests.casefile import Case
from grammar_tests.laws import BUDGET, compiled, found, parsed

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
@pytest.mark.parametrize("accountant", ["pure", "approximate", "tight"])
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


def polls_refused(accountant: str, cases: Sequence[Case]) -> tuple[int, list[str]]:
    """Count the polls of these cases over rows without limits, and list those that are refused.

    Polls are compiled as they are paid for: without a δ where ε has a meaning without one.
    """
    policy, engine = unlimited()
    public, evaluate = engine.public, engine.public.evaluate
    budget, held, refusals = replace(BUDGET, accountant=accountant), 0, list[str]()

    def plan(case: Case, budget: Budget, steps: KnownSteps) -> Prepared:
        statement = parsed(case.sql, case.setting("dialect", "duckdb"))
        return prepare(statement, policy, budget, Fraction(1), public, evaluate, steps)

    for case in cases:
        known: dict[str, FoundNorm] = {}
        try:
            while needed := plan(case, budget, KnownSteps(known)).polls:
                keys, held = tuple(poll.key for poll in needed), held + 1
                try:
                    plan(case, without_delta(budget), KnownSteps(known, keys))
                except Refused as refused:
                    refusals.append(f"{case.id}: {refused}")
                known |= {poll.key: found(poll, Fraction(5)) for poll in needed}
        except Refused:
            continue
    return held, refusals


WITHOUT_LIMITS = [case for case in casefile.all_cases() if case.accepted and case.catalog == "shop"]
SLICED = [case for n, case in enumerate(WITHOUT_LIMITS) if n % 12 == 0 or "Gaussian" in case.title]
"""The cases of the full tier."""


@pytest.mark.full("compiles one case in twelve twice")
@pytest.mark.parametrize("accountant", ["approximate", "zcdp", "pure"])
def test_polls_are_answered_wherever_their_question_is(accountant: str) -> None:
    held, refusals = polls_refused(accountant, SLICED)
    assert held >= 20
    assert refusals == []


@pytest.mark.campaign
@pytest.mark.parametrize("accountant", ["approximate", "zcdp", "pure"])
def test_all_polls_are_answered_wherever_their_question_is(accountant: str) -> None:
    held, refusals = polls_refused(accountant, WITHOUT_LIMITS)
    assert held >= 200
    assert refusals == []


def test_polls_without_a_delta_for_the_keys_of_their_question_would_be_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparing, "_ANY_DELTA", Decimal(0))
    assert any(polls_refused("approximate", [case])[1] for case in SLICED)
