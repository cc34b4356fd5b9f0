"""The tight accountant: three filters of which one has to hold (PRIVACY.md R109).

Transcripts of adaptive questions are enumerated, with an analyst who knows the worst question of
each step. Twins of every part of the proof pass δ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from math import erfc, exp, fsum, inf, log, sqrt
from statistics import NormalDist

import numpy as np
import pytest

from dpsql import accountants
from dpsql.accountants import get_for, tight
from dpsql.accountants.conversion import renyi_overhead, squared_mu_of
from dpsql.accountants.tight import ORDERS, squared_mu
from dpsql.model.dataclass import replace
from dpsql.model.vocabulary import (
    UNBOUNDED,
    ApproximateEvent,
    BoundedRangeEvent,
    Budget,
    Event,
    EventPart,
    Loss,
    Mechanism,
    Noise,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)

NORMAL = NormalDist()
ONE = Sensitivity(1, 0, 1)
Law = tuple[Sequence[float], Sequence[float]]
"""Probabilities of each outcome, for one database and for its neighbour."""


def bell(variance: Fraction | int, sensitivity: Sensitivity = ONE) -> NoiseEvent:
    return NoiseEvent(Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(variance)), sensitivity)


def loss_of(*parts: EventPart, order: int = 8) -> Loss:
    return accountants.get(f"tight-{order}").loss(Event(parts))


# --- what one mechanism loses ------------------------------------------------------------------


def discrete(variance: float) -> np.ndarray:
    """Probabilities of discrete Gaussian noise on a window of whole numbers that holds all."""
    steps = np.arange(-400, 401)
    weights = np.exp(-(steps**2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The hockey-stick divergence of N(0, 1) and N(μ, 1)."""
    least = 1 - exp(epsilon) if epsilon < 0 else 0.0
    if mu <= 0:
        return least
    middle, half = epsilon / mu, mu / 2
    tails = [erfc((middle + side) / sqrt(2)) / 2 for side in (-half, half)]
    return max(least, tails[0] - exp(epsilon) * tails[1])


def exceeds_gaussian(variance: float, mu: float, step: int = 1) -> bool:
    """Whether noise moved by a step is told apart better, at some ε, than N(0, 1) and N(μ, 1)."""
    law = discrete(variance)
    moved = np.roll(law, step)
    return any(
        np.maximum(law - exp(e) * moved, 0).sum() > gaussian_delta(e, mu) + 1e-12
        for e in np.linspace(0, 6, 61)
    )


@pytest.mark.parametrize("variance", [0.4, 1, 1.5, 3, 10, 100])
def test_discrete_gaussian_noise_is_gaussian_dp_of_its_mu(variance: float) -> None:
    mu = sqrt(squared_mu(Fraction(variance)))
    assert not exceeds_gaussian(variance, mu)
    assert not exceeds_gaussian(variance, 3 * mu, 3)
    exact = 2 * NORMAL.inv_cdf((1 + discrete(variance).max()) / 2)
    assert exact <= mu
    assert variance < 1 or mu <= exact * 1.0002


def test_wrong_twin_the_mu_of_continuous_noise_is_too_small() -> None:
    assert exceeds_gaussian(1, 1)
    assert not exceeds_gaussian(1, 1.046)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 3, 8])
def test_pure_parts_are_gaussian_dp_of_their_mu(epsilon: float) -> None:
    exactly = Fraction(epsilon)
    mu = sqrt(loss_of(ApproximateEvent(exactly)).amount / 1e9)
    assert -2 * NORMAL.inv_cdf(1 / (1 + exp(epsilon))) <= mu
    mu = sqrt(loss_of(BoundedRangeEvent(exactly)).amount / 1e9)
    for middle in np.linspace(-epsilon - 4, epsilon + 4, 101):
        seen, unseen = (
            NORMAL.inv_cdf(1 / (1 + exp(-middle - part))) for part in (epsilon / 2, -epsilon / 2)
        )
        assert seen - unseen <= mu


def test_wrong_twin_the_mu_of_continuous_laplace_noise_is_too_small_for_one_step() -> None:
    """Discrete Laplace noise of one step is randomised response, which tells more."""
    epsilon = 1.0
    response = -2 * NORMAL.inv_cdf(1 / (1 + exp(epsilon)))
    assert response > 1.15 * -2 * NORMAL.inv_cdf(exp(-epsilon / 2) / 2)
    whole = NoiseEvent(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1)), ONE)
    assert loss_of(whole).amount / 1e9 >= response**2


def test_charges_by_hand() -> None:
    half_pi = Fraction(355, 226)
    choice = BoundedRangeEvent(Fraction(1, 10), 3)
    told = loss_of(choice, SelectionEvent(Fraction(1, 10**9)))
    assert told.amount == -(-3 * half_pi * 10**7 // 4)
    assert told.delta == 10**9
    assert told.further[0] == 3 * 10**8
    assert told.further[1] == pytest.approx(3e7, rel=1e-5)  # 3 · 8 · 0.1² / 8
    noise = loss_of(bell(100))
    assert noise.amount == pytest.approx(1e7 * (1 + 1 / 1200), rel=1e-5)
    assert noise.further[0] == UNBOUNDED
    assert noise.further[1] == pytest.approx(8e9 / 200, abs=2)
    assert loss_of() == Loss(0)
    assert loss_of(ApproximateEvent(Fraction(0), Fraction(1, 10**9))) == Loss(0, 10**9)


# --- transcripts -------------------------------------------------------------------------------

EPSILON, DELTA, ORDER = 1.0, 0.01, 8


def binary(epsilon: float, divergence: float, order: float) -> float:
    """The largest hockey-stick divergence of two outcomes within a Rényi divergence, both ways."""
    least = max(0.0, 1 - exp(epsilon))
    if divergence <= 0:
        return least
    p = np.concatenate([np.logspace(-5, -0.31, 120), 1 - np.logspace(-0.31, -5, 40)])
    low, high = np.full_like(p, -600.0), np.log(p)

    def told(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        inside = np.exp(order * np.log(left) + (1 - order) * np.log(right))
        outside = np.exp(order * np.log1p(-left) + (1 - order) * np.log1p(-right))
        return np.asarray(np.log(inside + outside) / (order - 1))

    with np.errstate(all="ignore"):
        for _ in range(40):
            middle = (low + high) / 2
            q = np.exp(middle)
            fits = np.maximum(told(p, q), told(q, p)) <= divergence
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return max(least, float((p - exp(epsilon) * np.exp(high)).max()))


def two_steps(mu: float, second: Callable[[float], float]) -> float:
    """δ of Gaussian noise that is seen in cells, followed by the worst step for each cell."""
    edges = np.linspace(-5, 5, 25)
    here, there = (np.diff([NORMAL.cdf(edge + shift) for edge in edges]) for shift in (0, mu))
    both = zip(here.tolist(), there.tolist(), strict=True)
    return fsum(p * second(EPSILON - log(p / q)) for p, q in both)


def two_filters(gaussian: float, renyi: float, orders: Sequence[int] = (ORDER,)) -> float:
    """δ of an analyst whose second step fits Gaussian DP at one δ, or some order at the other."""
    whole = float(squared_mu_of(Fraction(EPSILON), Fraction(gaussian))) if gaussian else 0.0
    first = 0.028
    rest = {a: EPSILON - renyi_overhead(a, Fraction(renyi)) - a * first / 2 for a in orders}

    def second(epsilon: float) -> float:
        best = max(binary(epsilon, left, a) for a, left in rest.items())
        return max(best, gaussian_delta(epsilon, sqrt(max(0.0, whole - first))))

    return two_steps(sqrt(first), second)


def test_two_filters_that_share_delta_keep_it() -> None:
    assert two_filters(0.98 * DELTA, 0.02 * DELTA) <= DELTA
    assert two_filters(0.5 * DELTA, 0.5 * DELTA) <= DELTA


def test_wrong_twin_two_filters_with_the_whole_delta_each() -> None:
    assert two_filters(DELTA, DELTA) > 1.1 * DELTA


def test_wrong_twin_some_order_without_its_share_of_delta() -> None:
    assert two_filters(0, DELTA) <= DELTA
    assert two_filters(0, DELTA, (6, 8, 10, 12)) > 1.1 * DELTA


BIG = Budget("b", Decimal(1), Decimal("0.05"), "tight-8")


def response(epsilon: float) -> tuple[Law, EventPart]:
    """Randomised response, the worst ε-DP question."""
    p = 1 / (1 + exp(-epsilon))
    return ((p, 1 - p), (1 - p, p)), ApproximateEvent(Fraction(epsilon))


def ranged(epsilon: float, middle: float) -> tuple[Law, EventPart]:
    """Two outcomes of ε-bounded range, the worst ones for some trade-off."""
    p, q = (1 / (1 + exp(-middle - side)) for side in (epsilon / 2, -epsilon / 2))
    return ((p, 1 - p), (q, 1 - q)), BoundedRangeEvent(Fraction(epsilon))


def windowed(variance: int) -> tuple[Law, EventPart]:
    """Discrete Gaussian noise of which nothing is seen beyond a window."""
    law = discrete(variance)
    return (tuple(law[394:407]), tuple(law[393:406])), bell(variance)


STEPS: tuple[tuple[Law, EventPart], ...] = (
    *map(response, (0.25, 0.5, 1.0)),
    *(ranged(epsilon, middle) for epsilon in (0.5, 1.0) for middle in (-1.0, 0.0, 1.0)),
    *map(windowed, (4, 12)),
    (((0.9875, 0.0125), (0.9875, 0.0)), SelectionEvent(Fraction(1, 80))),
)
"""Questions with their laws, and what they lose."""


def worst(limit: Loss, add: Callable[[Loss, Loss], Loss] = Loss.__add__, depth: int = 3) -> float:
    """δ at ε of all transcripts of an analyst who asks the worst question that is admitted."""
    of = accountants.get(BIG.accountant)
    priced = [(law, of.loss(Event((part,)))) for law, part in STEPS]

    @cache
    def value(spent: Loss, rest: float, steps: int) -> float:
        """The hockey-stick divergence of the rest, at ε less the privacy loss so far."""
        best = max(0.0, 1 - exp(rest))
        for law, loss in priced if steps else ():
            total = add(spent, loss)
            if total.fits(limit):
                best = max(best, sum(map(partial(outcome, total, rest, steps), *law)))
        return best

    def outcome(total: Loss, rest: float, steps: int, p: float, q: float) -> float:
        if not p:
            return 0.0
        return p * value(total, rest - log(p / q) if q else -inf, steps - 1)

    return value(Loss(0), float(BIG.epsilon), depth)


def test_no_transcript_of_admitted_questions_passes_the_budget() -> None:
    limit = accountants.get(BIG.accountant).limit(BIG)
    assert float(BIG.delta) / 2 < worst(limit) <= float(BIG.delta)


def test_wrong_twin_a_delta_that_each_filter_counts_for_itself() -> None:
    """Selections beside noise count for the Gaussian filter, and those beside choices for others:
    each filter then admits the whole δ of selection.
    """
    selection = Fraction(1, 40)
    both = 1 - (1 - float(selection)) ** 2
    limit = accountants.get(BIG.accountant).limit(BIG)
    once = Loss(0, int(selection * 10**18))
    assert once.fits(limit)
    assert not (once + once).fits(limit)
    converted = float(BIG.delta) / 2
    assert both + (1 - both) * converted > float(BIG.delta)


def test_wrong_twin_filters_that_hold_one_after_the_other() -> None:
    """Each question fits some filter by itself, but no filter holds for all of them."""
    limit = accountants.get(BIG.accountant).limit(BIG)

    def forget(spent: Loss, loss: Loss) -> Loss:
        whole = spent + loss
        return whole if whole.fits(limit) else Loss(loss.amount, whole.delta, loss.further)

    assert worst(limit, forget) > float(BIG.delta)


# --- the budget --------------------------------------------------------------------------------


def test_a_budget_gets_the_order_that_allows_the_most_noise() -> None:
    for epsilon in ("0.1", "0.5", "1", "3", "10"):
        name = get_for("tight", Decimal(epsilon), Decimal("1e-6")).name
        budget = Budget("b", Decimal(epsilon), Decimal("1e-6"), name)

        def rho(order: int, budget: Budget = budget) -> float:
            return accountants.get(f"tight-{order}").limit(budget).further[1] / order

        assert max(ORDERS, key=rho) == int(name.removeprefix("tight-"))
    assert get_for("pure", Decimal(1), Decimal(0)).name == "pure"


def test_noise_of_a_part_has_the_mu_that_was_asked_for() -> None:
    """The inverse of μ² ends within a millionth of it, and never above."""
    for part in range(1, 44):
        squared = Fraction(part, 40)
        reached = squared_mu(1 / tight._inverse_variance(squared))
        assert squared * (1 - Fraction(1, 10**6)) <= reached <= squared


def test_raising_a_budget_raises_every_limit_of_its_order() -> None:
    of = accountants.get("tight-12")
    small = Budget("b", Decimal(1), Decimal("1e-6"), of.name)
    for larger in (replace(small, epsilon=Decimal(2)), replace(small, delta=Decimal("1e-5"))):
        assert of.limit(small).is_within(of.limit(larger))
    public = of.limit(replace(small, only_public_keys=True))
    assert of.limit(small).is_within(replace(public, delta=10**12))


def test_each_filter_alone_keeps_the_budget() -> None:
    of, delta = accountants.get("tight-32"), Fraction(1, 10**6)
    limit = of.limit(Budget("b", Decimal(1), Decimal("1e-6"), of.name))
    for place in range(3):
        numbers = [10**15] * 3
        numbers[place] = (limit.amount, *limit.further)[place]
        spent = Loss(numbers[0], limit.delta, tuple(numbers[1:]))
        assert spent.fits(limit)
        assert of.epsilon(spent, delta) == pytest.approx(1, rel=1e-6)
        assert of.epsilon(spent, delta) <= 1 + 1e-9


def test_pure_questions_are_counted_exactly() -> None:
    of = accountants.get("tight-32")
    spent = of.loss(Event((ApproximateEvent(Fraction(1, 10)),) * 2))
    assert of.epsilon(spent, Fraction(1, 10**6)) == 0.2
    assert of.epsilon(spent + Loss(0, 10**12), Fraction(1, 10**6)) == 0.2
    noisy = spent + of.loss(Event((bell(10**6),)))
    assert of.epsilon(noisy + Loss(0, 10**12), Fraction(1, 10**6)) == inf


def test_a_loss_that_states_no_filter_is_bounded_by_none() -> None:
    limit = Loss(10, 5, (20, 30))
    assert Loss(10, 5).fits(limit)
    assert not Loss(11, 5).fits(limit)
    assert not (Loss(11) + Loss(1, 0, (1, 1))).fits(limit)
    assert Loss(0, 0, (0, 0)) == Loss(0)
    assert (Loss(0) + Loss(11, 0, (1, 1))).fits(limit)
    assert not Loss(1, 6, (1, 1)).fits(limit)
    assert limit.without(Loss(3, 1, (25, 5))) == Loss(7, 4, (0, 25))
    with pytest.raises(ValueError, match="negative"):
        _ = Loss(5, 0, (1, 1)) - Loss(4, 0, (2, 1))
