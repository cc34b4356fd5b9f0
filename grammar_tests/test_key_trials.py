"""Private keys by trial: the law and its closed form, what neighbours promise, the charge."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import exp, floor, inf, log
from typing import Any

import numpy as np
import pytest

from dpsql import accountants
from dpsql.accountants import Accountant
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ThresholdKeys, TrialKeys
from dpsql.mechanisms.threshold import threshold
from dpsql.mechanisms.truncated_geometric import CERTAIN, KeyTrials, key_trials
from dpsql.model.vocabulary import (
    ApproximateEvent,
    Budget,
    Event,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
)
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.keys_kit import key_trials_of
from grammar_tests.laws import BUDGET, compiled
from grammar_tests.test_audit import (
    BATCH,
    RELEASES,
    any_groups,
    copied,
    excess,
    neighbours,
    real,
)
from grammar_tests.test_audit import Neighbours as Audited

LAWS = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 10), Fraction(1, 10**9)),
    (Fraction(1, 100), Fraction(1, 3)),
    (Fraction(5), Fraction(1, 10**12)),
    (Fraction(30), Fraction(1, 10**8)),
]


def law(trials: KeyTrials, most: int | None = None) -> list[Fraction]:
    """The probability of every count of units, as the mechanism itself decides by its draws."""
    stop = (trials.certain if most is None else most) + 1
    return [Fraction(_least_draw_that_hides(trials, n), CERTAIN) for n in range(stop)]


def _least_draw_that_hides(trials: KeyTrials, n: int) -> int:
    low, high = 0, CERTAIN
    while low < high:
        middle = (low + high) // 2
        if trials.shown(np.array([n]), np.array([middle]))[0]:
            low = middle + 1
        else:
            high = middle
    return low


def closed_form(epsilon: float, delta: float, n: int) -> float:
    """Theorem 1 of Desfontaines et al. 2022, in floats: rising, then its mirror image."""

    def rising(m: int) -> float:
        return (exp(epsilon * m) - 1) / (exp(epsilon) - 1) * delta

    turn = 1 + floor(log((exp(epsilon) + 2 * delta - 1) / (delta * (exp(epsilon) + 1))) / epsilon)
    if n <= turn:
        return rising(n)
    left = exp(-epsilon * (n - turn)) * (1 - rising(turn))
    gained = delta * sum(exp(-epsilon * i) for i in range(1, n - turn + 1))
    return min(1.0, 1 - left + gained)


def trials_of(epsilon: Fraction, delta: Fraction) -> KeyTrials:
    found = key_trials(epsilon, delta, 1)
    assert found is not None
    return found


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(("epsilon", "delta"), LAWS)
def test_the_law_is_the_optimal_one(epsilon: Fraction, delta: Fraction) -> None:
    trials = trials_of(epsilon, delta)
    for n, p in enumerate(law(trials, trials.certain + 3)):
        expected = closed_form(float(epsilon), float(delta), n)
        assert float(p) == pytest.approx(expected, rel=1e-6, abs=1e-15)
    chances = law(trials)
    assert chances[trials.even] >= Fraction(1, 2) > chances[trials.even - 1]
    assert chances[trials.certain] == 1 > chances[trials.certain - 1]


def kept_promise(chances: list[Fraction], epsilon: Fraction, delta: Fraction) -> bool:
    """Whether one unit more or less is (ε, δ)-DP at every count, both for shown and for hidden."""
    with localcontext() as context:
        context.prec = 60
        grow = Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp())
    pairs = pairwise(chances)
    return all(
        p <= grow * q + delta
        for a, b in pairs
        for p, q in ((a, b), (b, a), (1 - a, 1 - b), (1 - b, 1 - a))
    )


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(("epsilon", "delta"), LAWS)
def test_neighbouring_counts_keep_the_promise_exactly(epsilon: Fraction, delta: Fraction) -> None:
    chances = law(trials_of(epsilon, delta))
    assert kept_promise(chances, epsilon, delta)
    assert not kept_promise(chances, epsilon, delta * 99 / 100)
    assert not kept_promise(chances, epsilon * 99 / 100, delta) or len(chances) < 4


def test_one_step_above_the_law_breaks_the_promise() -> None:
    epsilon, delta = LAWS[0]
    chances = law(trials_of(epsilon, delta))
    chances[5] += Fraction(2, CERTAIN) + chances[5] / 10**9
    assert not kept_promise(chances, epsilon, delta)


def test_a_floor_shifts_the_law() -> None:
    free, floored = key_trials(*LAWS[0], 1), key_trials(*LAWS[0], 1, floor=20)
    assert free is not None
    assert floored is not None
    assert law(floored) == [Fraction(0)] * 19 + law(free)
    assert floored.even == free.even + 19


def test_a_threshold_is_never_below_the_floor() -> None:
    noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1))
    free = threshold(noise, 1, Fraction(1, 1000))
    assert threshold(noise, 1, Fraction(1, 1000), floor=50) == replace(free, value=50)
    assert threshold(noise, 1, Fraction(1, 1000), floor=free.value - 1) == free


def test_the_keys_of_one_unit_share_the_promise() -> None:
    trials = key_trials(Fraction(1), Fraction(1, 1000), 4)
    assert trials == KeyTrials(Fraction(1), Fraction(1, 4000), 4)
    replaced = key_trials(Fraction(1), Fraction(1, 1000), 4, Neighbours.REPLACE)
    assert replaced == KeyTrials(Fraction(1), Fraction(1, 8000), 8)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(Fraction(1), Fraction(1, 10**19)), (Fraction(1, 10**8), Fraction(1, 10**9))],
)
def test_a_law_that_shows_nothing_is_none(epsilon: Fraction, delta: Fraction) -> None:
    assert key_trials(epsilon, delta, 1) is None


# --- the charge, and who is chosen -------------------------------------------------------------


def test_the_trials_of_one_unit_compose() -> None:
    event = Event((ApproximateEvent(Fraction(1, 2), Fraction(1, 1000), 8),))
    assert accountants.get("approximate").loss(event) == Loss(4 * 10**9, 8 * 10**15)
    assert accountants.get("zcdp").loss(event) == Loss(10**9, 8 * 10**15)
    with pytest.raises(ValueError, match="δ"):
        accountants.get("pure").loss(event)
    pure = Event((ApproximateEvent(Fraction(1, 2), rounds=8),))
    assert accountants.get("pure").loss(pure) == Loss(4 * 10**9)


def block(sql: str, budget: Budget, epsilon: Fraction = Fraction(1)) -> tuple[BlockPlan, Loss]:
    policy, engine = shop()
    plan = compiled(sql, policy, engine, budget=budget, epsilon=epsilon).plan
    assert plan is not None
    (found,) = plan.blocks
    return found, plan.loss


APPROXIMATE = replace(BUDGET, accountant="approximate")


@pytest.mark.parametrize("table", ["city FROM customers", "device FROM events"])
def test_trials_spend_what_the_query_may_and_no_more(table: str) -> None:
    chosen, loss = block(f"SELECT DISTINCT {table}", APPROXIMATE)
    assert isinstance(chosen.keys, TrialKeys)
    assert loss.fits(Loss(10**9, int(APPROXIMATE.query_delta * 10**18)))
    assert not loss.fits(Loss(10**9 - 2, 10**18))
    assert not loss.fits(Loss(10**9, int(APPROXIMATE.query_delta * 10**18) - 10))


@pytest.mark.parametrize("budget", [BUDGET, APPROXIMATE], ids=lambda b: b.accountant)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
def test_the_way_that_shows_smaller_keys_is_taken(budget: Budget, epsilon: Fraction) -> None:
    chosen, _ = block("SELECT DISTINCT device FROM events", budget, epsilon)
    keys = chosen.keys
    if isinstance(keys, ThresholdKeys):
        assert isinstance(keys.runner_up, KeyTrials)
        assert keys.threshold.value <= keys.runner_up.even
    else:
        assert isinstance(keys, TrialKeys)
        assert keys.trials.even < keys.runner_up.value


def test_each_accountant_has_its_way() -> None:
    """A trial that is ε-DP costs ε²/2 under zCDP, much more than a Gaussian of equal use."""
    sql = "SELECT DISTINCT city FROM customers"
    assert isinstance(block(sql, APPROXIMATE)[0].keys, TrialKeys)
    assert isinstance(block(sql, BUDGET)[0].keys, ThresholdKeys)


def test_a_step_of_the_accountants_is_what_they_charge() -> None:
    zcdp: Accountant = accountants.get("zcdp")
    epsilon = zcdp.step(Fraction(1, 50))
    event = Event((ApproximateEvent(epsilon, Fraction(0), 7),))
    assert zcdp.loss(event).amount <= 7 * 10**9 // 50


# --- two neighbours, many releases ---------------------------------------------------------------

DISTINCT_KEY = "SELECT DISTINCT city FROM customers"
DISTINCT_KEYS = "SELECT DISTINCT device FROM events"


def losses(case: Audited, *, here: bool) -> np.ndarray:
    """ln(likelihood here / likelihood there) of each of many sets of keys."""
    trials = key_trials_of(case.plan)
    chances = law(trials, 100)
    sides = [dict(zip(e.keys, map(int, e.parts[0]), strict=True)) for e in (case.here, case.there)]
    pairs = {
        key: (chances[sides[0].get(key, 0)], chances[sides[1].get(key, 0)])
        for key in sides[0].keys() | sides[1].keys()
        if sides[0].get(key) != sides[1].get(key)
    }
    assert pairs, "the unit changes nothing: such an audit is empty"
    outcomes = [(key, _loss(p, q), _loss(1 - p, 1 - q)) for key, (p, q) in pairs.items()]
    exact = case.here if here else case.there
    result = np.empty(RELEASES)
    copies, many = copied(exact, case.plan)
    for start in range(0, RELEASES, BATCH):
        shown = [set[Any]() for _ in range(BATCH)]
        for n, *key in release(copies, many, real).keys:
            shown[n].add(tuple(key))
        result[start : start + BATCH] = [
            sum(seen if key in keys else hidden for key, seen, hidden in outcomes) for keys in shown
        ]
    return result


def _loss(p: Fraction, q: Fraction) -> float:
    if not p or not q:
        return inf if p else -inf
    return log(p / q)


def refuted(case: Audited) -> bool:
    ours, theirs = (losses(case, here=side) for side in (True, False))
    return excess(ours, theirs, case.delta) > 0 or excess(-theirs, -ours, case.delta) > 0


def generous(case: Audited) -> Audited:
    """A law for ten times the δ that is charged."""
    keys = case.plan.keys
    assert isinstance(keys, TrialKeys)
    wrong = replace(keys.trials, delta=10 * keys.trials.delta)
    return replace(case, plan=replace(case.plan, keys=replace(keys, trials=wrong)))


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("sql", [DISTINCT_KEY, DISTINCT_KEYS])
def test_the_claim_stands(sql: str) -> None:
    case = neighbours(sql, "approximate")
    assert key_trials_of(case.plan)
    assert not refuted(case)
    assert refuted(generous(case))


def test_keys_beyond_the_limit_of_a_unit_are_refuted() -> None:
    case = neighbours(DISTINCT_KEYS, "approximate", any_groups)
    assert key_trials_of(case.plan)
    assert refuted(case)
