"""Accountants: charges by hand, amounts to noise and back, limits and filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, fsum, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql import accountants
from dpsql.accountants import Accountant
from dpsql.accountants.conversion import rho_of
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.calibration import laplace, round_up
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import (
    ATTO,
    NANO,
    ApproximateEvent,
    BoundedRangeEvent,
    Budget,
    Event,
    EventPart,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)
from grammar_tests.bound import shop
from grammar_tests.laws import compiled
from grammar_tests.outside_accountant import BASIC

LAPLACE, GAUSSIAN = Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN
ZCDP, PURE, APPROXIMATE = (accountants.get(n) for n in ("zcdp", "pure", "approximate"))
TIGHT = accountants.get("tight-32")
EACH: tuple[Accountant, ...] = (*accountants.ACCOUNTANTS, TIGHT, BASIC)
ALL = pytest.mark.parametrize("accountant", EACH, ids=lambda a: a.name)
SELECTING = pytest.mark.parametrize(
    "accountant", [a for a in EACH if a.supports_selection], ids=lambda a: a.name
)
MILLIONTH, BILLIONTH = Fraction(1, 10**6), Fraction(1, 10**9)


def event(*parts: EventPart) -> Event:
    return Event(parts)


# --- charges by hand ---------------------------------------------------------------------------

TWO_GROUPS = Sensitivity(2, 0, 5)
REPLACED = Sensitivity(2, -5, 5, Neighbours.REPLACE)


def test_charges_of_zcdp() -> None:
    wide = Noise(GAUSSIAN, Fraction(1000))
    assert ZCDP.loss(event(NoiseEvent(wide, TWO_GROUPS))) == Loss(25_000_000)  # 50 / 2000
    assert ZCDP.loss(event(NoiseEvent(wide, REPLACED))) == Loss(100_000_000)  # 2·10² / 2000
    pure = Noise(LAPLACE, Fraction(100))
    assert ZCDP.loss(event(NoiseEvent(pure, TWO_GROUPS))) == Loss(5_000_000)  # 0.1² / 2
    assert ZCDP.loss(event(NoiseEvent(pure, REPLACED))) == Loss(20_000_000)  # 0.2² / 2
    selected = event(NoiseEvent(wide, TWO_GROUPS), SelectionEvent(BILLIONTH))
    assert ZCDP.loss(selected) == Loss(25_000_000, 10**9)


def test_charges_of_pure() -> None:
    noise = Noise(LAPLACE, Fraction(100))
    both = event(NoiseEvent(noise, TWO_GROUPS), NoiseEvent(noise, REPLACED))
    assert PURE.loss(both) == Loss(300_000_000)  # 10/100 + 20/100
    for wrong in (
        SelectionEvent(BILLIONTH),
        NoiseEvent(replace(noise, mechanism=GAUSSIAN), REPLACED),
    ):
        with pytest.raises(ValueError, match="not ε-DP"):
            PURE.loss(event(wrong))


def test_charges_of_approximate() -> None:
    exact = NoiseEvent(Noise(LAPLACE, Fraction(100)), TWO_GROUPS)
    assert APPROXIMATE.loss(event(exact, SelectionEvent(MILLIONTH))) == Loss(10**8, 10**12)
    bell = Noise(GAUSSIAN, 25 / rho_of(Fraction(1), MILLIONTH), MILLIONTH)
    charged = APPROXIMATE.loss(event(NoiseEvent(bell, TWO_GROUPS)))
    assert charged.delta == 10**12
    assert NANO <= charged.amount <= NANO + 2


THRICE = BoundedRangeEvent(Fraction(1, 2), 3)
STEP = ApproximateEvent(Fraction(1, 2), BILLIONTH)


def test_charges_of_choices_and_of_steps() -> None:
    assert ZCDP.loss(event(THRICE)) == Loss(93_750_000)  # 3 · 0.5² / 8
    assert PURE.loss(event(THRICE)) == APPROXIMATE.loss(event(THRICE)) == Loss(1_500_000_000)
    assert ZCDP.loss(event(STEP)) == Loss(125_000_000, 10**9)  # 0.5² / 2
    assert APPROXIMATE.loss(event(STEP)) == Loss(500_000_000, 10**9)
    assert PURE.loss(event(replace(STEP, delta=Fraction(0)))) == Loss(500_000_000)
    with pytest.raises(ValueError, match="not ε-DP"):
        PURE.loss(event(STEP))


@pytest.mark.full("measures neighbours or further data sets")
@ALL
@given(st.fractions(Fraction(1, 10**6), 20), st.integers(1, 50))
def test_choices_and_steps_never_cost_more_than_their_amount(
    accountant: Accountant, amount: Fraction, rounds: int
) -> None:
    limit, room = ceil(amount * NANO), Fraction(1001, 1000)
    choice = accountant.choice(amount, rounds)
    assert accountant.loss(event(BoundedRangeEvent(choice, rounds))).amount <= limit
    assert accountant.loss(event(BoundedRangeEvent(choice * room, rounds))).amount > limit
    step = accountant.step(amount)
    assert accountant.loss(event(ApproximateEvent(step))).amount <= limit
    assert accountant.loss(event(ApproximateEvent(step * room))).amount > limit


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=6),
    st.lists(st.integers(-1, 1), min_size=6, max_size=6),
    st.floats(0.05, 3),
    st.floats(1.01, 30),
)
def test_the_exponential_mechanism_is_concentrated_as_charged(
    scores: list[int], moves: list[int], epsilon: float, order: float
) -> None:
    """Rényi divergence at order α of two score vectors that differ by at most Δ = 1."""
    here = np.array(scores, dtype=float)
    there = here + np.array(moves[: len(scores)])

    def law(values: np.ndarray) -> np.ndarray:
        logs = epsilon / 2 * (values - values.max())
        return np.asarray(logs - log(fsum(np.exp(logs))))

    p, q = law(here), law(there)
    divergence = log(fsum(np.exp(order * p + (1 - order) * q))) / (order - 1)
    assert divergence <= order * epsilon**2 / 8 + 1e-9


def test_charges_round_up_once() -> None:
    third = NoiseEvent(Noise(LAPLACE, Fraction(3)), Sensitivity(1, 0, 1))
    assert PURE.loss(event(third)).amount == 333_333_334
    assert PURE.loss(event(third, third, third)).amount == NANO
    assert PURE.loss(event()) == Loss(0)


@ALL
def test_a_measurement_that_cannot_change_is_charged_as_if_it_could(accountant: Accountant) -> None:
    still, moving = Sensitivity(1, 0, 0), Sensitivity(1, 0, 1)
    noise = accountant.noise(Fraction(1, 10), MILLIONTH, still)
    assert noise == accountant.noise(Fraction(1, 10), MILLIONTH, moving)
    charged = accountant.loss(event(NoiseEvent(noise, still)))
    assert charged == accountant.loss(event(NoiseEvent(noise, moving)))
    assert charged.amount > 0


@pytest.mark.full("measures neighbours or further data sets")
@ALL
@given(st.fractions(Fraction(1, 1000), 5), st.integers(1, 40))
def test_the_runner_up_is_worse_and_costs_no_more(
    accountant: Accountant, epsilon: Fraction, groups: int
) -> None:
    allowed = accountant.allowance(epsilon, MILLIONTH, selects_keys=False)
    share = allowed.amount, allowed.noise_delta, Sensitivity(groups, 0, 3)
    other = accountant.runner_up(*share)
    assert (other is None) is (len(accountant.laws) == 1)
    if other is None:
        return
    assert standard_deviation(accountant.noise(*share)) <= standard_deviation(other)
    charged = accountant.loss(event(NoiseEvent(other, share[2])))
    assert charged.amount <= ceil(allowed.amount * NANO)


# --- amounts to noise and back -----------------------------------------------------------------

SENSITIVITIES = st.builds(
    lambda l0, low, high, neighbours: Sensitivity(l0, -low, high, neighbours),
    st.integers(1, 1000),
    st.integers(0, 50 << 30),
    st.integers(0, 50 << 30),
    st.sampled_from(Neighbours),
)
SHARES = st.tuples(st.fractions(Fraction(1, 10**6), 20), st.integers(1, 7), st.booleans())


def charge_of(
    accountant: Accountant,
    share: tuple[Fraction, int, bool],
    sensitivity: Sensitivity,
    twin: Callable[[Noise], Noise] = lambda noise: noise,
) -> tuple[Loss, Loss]:
    """The charge of a query of equal measurements, and what it was allowed."""
    epsilon, parts, keys = share
    keys = keys and accountant.supports_selection
    allowed = accountant.allowance(epsilon, MILLIONTH, selects_keys=keys)
    noise = accountant.noise(allowed.amount / parts, allowed.noise_delta / parts, sensitivity)
    selections = (SelectionEvent(allowed.selection_delta),) if keys else ()
    measured = (NoiseEvent(twin(noise), sensitivity),) * parts
    delta = allowed.selection_delta + allowed.noise_delta
    limit = Loss(int(allowed.amount * NANO), int(delta * ATTO))
    return accountant.loss(event(*measured, *selections)), limit


@pytest.mark.full("measures neighbours or further data sets")
@ALL
@given(SHARES, SENSITIVITIES)
def test_a_charge_never_exceeds_its_allowance(
    accountant: Accountant, share: tuple[Fraction, int, bool], sensitivity: Sensitivity
) -> None:
    if accountant.allowance(share[0], MILLIONTH, selects_keys=False).amount < BILLIONTH * 10:
        return
    charge, limit = charge_of(accountant, share, sensitivity)
    assert charge.fits(limit)


@ALL
def test_less_noise_than_calibrated_would_exceed_the_allowance(accountant: Accountant) -> None:
    def thinner(noise: Noise) -> Noise:
        return replace(noise, scale=noise.scale * Fraction(99, 100))

    share = (Fraction(1), 3, False)
    for sensitivity in (Sensitivity(1, 0, 10), Sensitivity(100, 0, 1), REPLACED):
        charge, limit = charge_of(accountant, share, sensitivity, thinner)
        assert not charge.fits(limit)
        used = charge_of(accountant, share, sensitivity)[0].amount / limit.amount
        assert 0.999 < used <= 1


@pytest.mark.full("measures neighbours or further data sets")
@given(st.fractions(Fraction(1, 10**12), 10**12), st.integers(8, 40))
def test_scales_round_up_and_barely(x: Fraction, bits: int) -> None:
    rounded = round_up(x, bits)
    assert x <= rounded <= x + max(x, Fraction(1)) * Fraction(4, 1 << bits)
    assert rounded == round_up(rounded, max(bits, rounded.numerator.bit_length()))


def test_a_delta_is_spent_where_it_takes_less_of_the_budget_than_more_epsilon_would() -> None:
    """One count at ε = 0.01, as an owner who gives each query all of δ, or a little of it, pays."""
    count, share = Sensitivity(1, 0, 1, alone=True), Fraction(1, 100)

    def found(delta: str, epsilon: str = "1", name: str | None = None) -> tuple[Noise, Noise]:
        budget = Budget("b", Decimal(epsilon), Decimal("1e-3"), "approximate")
        payer, spent = accountants.preferring(budget, name, share), Fraction(delta)
        other = payer.runner_up(share, spent, count)
        assert other is not None
        return payer.noise(share, spent, count), other

    exact, bell = found("1e-3")
    assert (exact, bell.mechanism) == (laplace(1, share), GAUSSIAN)
    assert 1.4 < standard_deviation(exact) / standard_deviation(bell) < 1.6
    assert found("1e-3", name="gaussian") == (bell, exact)
    assert found("1e-3", epsilon="0.0049")[0] == bell  # half the budget's ε is worth all its δ
    assert APPROXIMATE.noise(share, Fraction("1e-3"), count) == bell  # where δ costs nothing


@pytest.mark.full("measures neighbours or further data sets")
@given(
    st.fractions(Fraction(1, 1000), 5),
    st.integers(1, 40),
    st.sampled_from([Fraction(1, 10**n) for n in (3, 4, 5, 6, 9)]),
    st.sampled_from([Decimal(1), Decimal(10), Decimal(1000)]),
)
def test_what_is_chosen_could_not_be_had_for_less_of_the_budget(
    amount: Fraction, groups: int, delta: Fraction, whole: Decimal
) -> None:
    budget = Budget("b", whole, Decimal("1e-3"), "approximate")
    payer, sensitivity = accountants.preferring(budget, None, amount), Sensitivity(groups, 0, 3)
    noise, other = (
        payer.noise(amount, delta, sensitivity),
        payer.runner_up(amount, delta, sensitivity),
    )
    instead = amount + delta * Fraction(whole) / Fraction("1e-3")
    exact = standard_deviation(laplace(3 * groups, instead))
    if noise.delta:
        assert standard_deviation(noise) <= exact * (1 + 1e-9)
    elif other is not None:
        assert standard_deviation(other) >= exact * (1 - 1e-9)


def test_the_least_noise_is_chosen() -> None:
    spread = {
        l0: APPROXIMATE.noise(Fraction(1), MILLIONTH, Sensitivity(l0, 0, 1)) for l0 in (8, 30)
    }
    assert spread[8] == laplace(8, Fraction(1))
    assert spread[30].mechanism is GAUSSIAN
    assert standard_deviation(spread[30]) < standard_deviation(laplace(30, Fraction(1)))
    assert APPROXIMATE.noise(Fraction(1), Fraction(0), Sensitivity(30, 0, 1)).mechanism is LAPLACE
    assert ZCDP.noise(Fraction(1, 50), Fraction(0), TWO_GROUPS).scale == 1250  # 50 / (2/50)
    assert PURE.noise(Fraction(1, 10), Fraction(0), REPLACED).scale == 200


@ALL
def test_nothing_to_spend_buys_no_noise(accountant: Accountant) -> None:
    with pytest.raises(ValueError, match="positive"):
        accountant.noise(Fraction(0), MILLIONTH, TWO_GROUPS)


# --- limits and filters ------------------------------------------------------------------------

BUDGET = Budget("default", Decimal(3), Decimal("1e-6"))


def test_limits() -> None:
    rho = rho_of(Fraction(3), MILLIONTH / 2)
    assert ZCDP.limit(BUDGET) == Loss(int(rho * NANO), 5 * 10**11)
    assert PURE.limit(BUDGET) == Loss(3 * NANO)
    assert APPROXIMATE.limit(BUDGET) == Loss(3 * NANO, 10**12)


@ALL
def test_a_whole_limit_spent_is_the_budget_promised(accountant: Accountant) -> None:
    limit = accountant.limit(BUDGET)
    assert accountant.epsilon(limit, MILLIONTH) == pytest.approx(3, rel=1e-6)
    assert accountant.epsilon(limit, MILLIONTH) <= 3 * (1 + 1e-9)


def test_a_budget_of_public_keys_converts_at_its_whole_delta() -> None:
    whole = ZCDP.limit(replace(BUDGET, only_public_keys=True))
    assert whole == Loss(int(rho_of(Fraction(3), MILLIONTH) * NANO))
    assert ZCDP.epsilon(whole, MILLIONTH) == pytest.approx(3, rel=1e-6)
    assert whole.amount > 1.04 * ZCDP.limit(BUDGET).amount
    assert ZCDP.epsilon(replace(whole, delta=ATTO // 10**12), MILLIONTH) > 3, "the twin selects"


@pytest.mark.parametrize(
    ("sql", "selects"),
    [
        ("SELECT status, COUNT(*) AS n FROM orders GROUP BY status", False),
        ("SELECT note, COUNT(*) AS n FROM orders GROUP BY note", True),
        (
            "SELECT AVG(n) AS a FROM (SELECT note, COUNT(*) AS n FROM orders GROUP BY note) AS o",
            False,
        ),
        ("SELECT note, COUNT(*) AS n FROM orders GROUP BY note ORDER BY n DESC LIMIT 1", True),
        ("SELECT PTR_MEAN(age, 20) AS m FROM customers", True),
    ],
)
def test_what_needs_a_delta_is_refused_by_a_budget_of_public_keys(
    sql: str,
    selects: bool,  # noqa: FBT001
) -> None:
    policy, engine = shop()
    budget = replace(BUDGET, query_epsilon=Decimal(1), query_delta=Decimal("1e-7"))

    def loss_of(budget: Budget) -> Loss:
        plan = compiled(sql, policy, engine, budget=budget).plan
        assert plan is not None
        return plan.loss

    assert bool(loss_of(budget).delta) is selects
    kept = replace(budget, only_public_keys=True)
    if not selects:
        assert not loss_of(kept).delta
        return
    with pytest.raises(Refused) as refused:
        loss_of(kept)
    assert refused.value.reason is Reason.PRIVATE_KEYS_NEED_DELTA


def test_a_conversion_at_the_whole_delta_would_promise_too_much() -> None:
    twin = Loss(int(rho_of(Fraction(3), MILLIONTH) * NANO), ATTO // 10**6)
    assert ZCDP.epsilon(twin, MILLIONTH) == inf
    half = replace(twin, delta=twin.delta // 2)
    assert ZCDP.epsilon(half, MILLIONTH) > 3.02


@SELECTING
def test_more_selection_than_delta_promises_nothing(accountant: Accountant) -> None:
    assert accountant.epsilon(Loss(1, 2 * 10**12), MILLIONTH) == inf


@SELECTING
def test_a_query_by_itself_keeps_its_epsilon_and_delta(accountant: Accountant) -> None:
    allowed = accountant.allowance(Fraction(1, 2), BILLIONTH, selects_keys=True)
    spent = Loss(int(allowed.amount * NANO), int(allowed.selection_delta * ATTO))
    assert accountant.epsilon(spent, BILLIONTH) <= 0.5 * (1 + 1e-9)
    assert accountant.epsilon(spent, BILLIONTH) == pytest.approx(0.5, rel=1e-5)
    assert allowed.selection_delta == (BILLIONTH if accountant is BASIC else BILLIONTH / 2)


def test_the_pure_accountant_selects_no_keys() -> None:
    assert not PURE.supports_selection
    with pytest.raises(ValueError, match="private keys"):
        PURE.allowance(Fraction(1), BILLIONTH, selects_keys=True)


@ALL
def test_a_filter_stops_before_its_limit_and_wastes_less_than_a_query(
    accountant: Accountant,
) -> None:
    limit, spent, answered = accountant.limit(BUDGET), Loss(0), 0
    share = (Fraction(1, 10), 2, accountant.supports_selection)
    charge, _ = charge_of(accountant, share, TWO_GROUPS)
    while (spent + charge).fits(limit):
        spent, answered = spent + charge, answered + 1
    assert spent.fits(limit)
    assert accountant.epsilon(spent, MILLIONTH) <= 3 * (1 + 1e-9)
    assert answered >= 1
    assert not (spent + charge).fits(limit)


def test_a_pure_budget_divides_into_as_many_queries_as_it_should() -> None:
    charge, _ = charge_of(PURE, (Fraction(1, 10), 3, False), TWO_GROUPS)
    assert charge == Loss(NANO // 10)


def test_an_unknown_accountant_is_refused() -> None:
    with pytest.raises(ValueError, match="zcdp, pure, approximate"):
        accountants.get("renyi")
