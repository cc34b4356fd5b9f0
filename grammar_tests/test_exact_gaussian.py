"""The discrete Gaussian's own δ against brute force, and noise by name: what it is and costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, erfc, exp, log, sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql import accountants
from dpsql.accountants import exact_gaussian
from dpsql.accountants.approximate import Approximate
from dpsql.accountants.conversion import rho_of
from dpsql.accountants.exact_gaussian import calibrated, delta_of, epsilon_at, is_exact
from dpsql.accountants.preference import TEXTBOOK
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.calibration import gaussian
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import (
    NANO,
    Event,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Sensitivity,
)
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, test_audit
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, charges, compiled

MILLIONTH = Fraction(1, 10**6)
COUNT = "COUNT(*) AS n FROM customers"
APPROXIMATE = replace(BUDGET, accountant="approximate")


def alone(groups: int, step: int) -> Sensitivity:
    return Sensitivity(groups, 0, step, alone=True)


def law(variance: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def divergence(shift: tuple[int, ...], variance: float, epsilon: float) -> float:
    """Σ max(0, P(x) - e^ε·P(x + shift)) over all x, term by term."""
    reach = ceil(9 * sqrt(variance)) + max(map(abs, shift))
    one = law(variance, reach)
    here, there = np.ones(()), np.ones(())
    for k in shift:
        here = np.multiply.outer(here, one)
        there = np.multiply.outer(there, np.roll(one, k))
    return float(np.maximum(0, here - exp(epsilon) * there).sum())


def continuous(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    phi = NormalDist().cdf
    return phi(mu / 2 - epsilon / mu) - exp(epsilon) * phi(-mu / 2 - epsilon / mu)


# --- δ -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize(
    ("groups", "step", "variance"), [(1, 1, 1), (1, 3, 9), (1, 40, 900), (2, 1, 16), (2, 9, 40)]
)
def test_delta_is_that_of_the_worst_shift(
    groups: int, step: int, variance: int, epsilon: float
) -> None:
    claimed = delta_of(alone(groups, step), Fraction(variance), Fraction(epsilon))
    exact = divergence((step,) * groups, variance, epsilon)
    assert exact <= claimed + 1e-14
    assert claimed <= exact * (1 + 1e-6) + 1e-14


def test_no_smaller_shift_is_worse() -> None:
    claimed = delta_of(alone(2, 4), Fraction(20), Fraction(1))
    found = {k: divergence(k, 20, 1) for k in product(range(-4, 5), repeat=2)}
    assert max(found.values()) <= claimed
    assert max(found, key=found.__getitem__) in {(4, 4), (-4, -4), (4, -4), (-4, 4)}
    assert divergence((5, 4), 20, 1) > claimed, "the twin: one step further"


@pytest.mark.parametrize("first", [-5000, 1, 3000, 9000, 15_000])
def test_tails_of_wide_noise_hold_the_sum(first: int) -> None:
    """The integral's ends around a sum of all terms, at σ = 3000."""
    terms = law(9e6, 60_000)
    exact = float(terms[first + 60_000 :].sum())
    low, high = exact_gaussian._tail(first, Fraction(9 * 10**6))
    assert low <= exact * (1 + 1e-12)
    assert exact <= high * (1 + 1e-12)
    assert high - low <= 1e-5 * exact
    naive = erfc(first / 3000 / sqrt(2)) / 2
    assert not low <= naive <= high, "the twin: without half a step"


def test_beyond_all_floats_a_tail_is_rounded_outward() -> None:
    low, high = exact_gaussian._tail(10**6, Fraction(100))
    assert low == 0 < high
    assert 0 < delta_of(alone(1, 1), Fraction(100), Fraction(10_000)) < 1e-200


@pytest.mark.parametrize(
    "wrong",
    [
        Sensitivity(1, 0, 3),
        Sensitivity(1, 0, 3, Neighbours.REPLACE, alone=True),
        Sensitivity(2, 0, 3, alone=True),
    ],
)
def test_what_is_not_proved_is_charged_through_zcdp(wrong: Sensitivity) -> None:
    """Measurements in one charge, replaced units, and sums of too little noise."""
    noise = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(15), MILLIONTH)
    assert not is_exact(wrong, noise.scale)
    with pytest.raises(ValueError, match="exact"):
        delta_of(wrong, noise.scale, Fraction(1))
    assert epsilon_at(wrong, noise, Fraction(7)) == 7
    known = gaussian(wrong.l2_squared, Fraction(1, 2), MILLIONTH)
    assert calibrated(wrong, Fraction(1), known) == known


SHARED = {
    "rows of one segment each": (
        "COUNT(*) FILTER (WHERE segment = 'consumer'), COUNT(*) FILTER (WHERE segment = 'business')"
    ),
    "a count and a sum": "COUNT(*), SUM(age)",
    "rows below rising limits": (
        "COUNT(*) FILTER (WHERE age < 20), COUNT(*) FILTER (WHERE age < 60), SUM(income)"
    ),
    "moments": "AVG(income), VAR_POP(age)",
}


@pytest.mark.parametrize("what", SHARED)
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_only_what_is_paid_for_by_itself_is_said_to_be_alone(what: str, law: str) -> None:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = '{law}') {SHARED[what]}"
    plan = compiled(
        f"{sql} FROM customers", *shop(), budget=replace(BUDGET, accountant="approximate")
    ).plan
    assert plan is not None
    (block,) = plan.blocks
    for charge in charges(block):
        alone = {block.releases[n].sensitivity.alone for n in charge}
        assert alone == {len(charge) == 1}


# --- calibration ---------------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
@given(
    st.fractions(Fraction(1, 1000), 20),
    st.integers(1, 400),
    st.integers(1, 50 << 30),
    st.sampled_from([MILLIONTH, Fraction(1, 10**12), Fraction(1, 100)]),
    st.sampled_from(["gaussian", TEXTBOOK]),
)
def test_noise_costs_no_more_than_it_may(
    epsilon: Fraction, groups: int, step: int, delta: Fraction, name: str
) -> None:
    if name == TEXTBOOK and epsilon >= 1:
        return
    sensitivity = alone(groups, step)
    accountant = accountants.preferring(APPROXIMATE, name, epsilon)
    noise = accountant.noise(epsilon, delta, sensitivity)
    assert noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    assert noise.delta == delta
    charged = accountant.loss(Event((NoiseEvent(noise, sensitivity),)))
    assert charged.amount <= ceil(epsilon * NANO)


@pytest.mark.parametrize("groups", [1, 10, 100])
def test_less_noise_than_through_zcdp_and_no_less_than_needed(groups: int) -> None:
    ours, old = alone(groups, 1000), Sensitivity(groups, 0, 1000)
    by_name = accountants.preferring(APPROXIMATE, "gaussian", Fraction(1))
    ratio = [standard_deviation(by_name.noise(Fraction(1), MILLIONTH, s)) for s in (ours, old)]
    assert 0.9 < ratio[0] / ratio[1] < 0.95
    noise = by_name.noise(Fraction(1), MILLIONTH, ours)
    thin = replace(noise, scale=noise.scale * Fraction(99, 100))
    assert by_name.loss(Event((NoiseEvent(thin, ours),))).amount > NANO


def test_the_continuous_formula_is_wrong_for_small_whole_numbers() -> None:
    """At its σ the discrete Gaussian's δ is larger, so that it is not used."""
    low, high = 0.5, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if continuous(1 / middle, 1) <= 1e-5 else (middle, high)
    assert divergence((1,), high**2, 1.0) > 1.03e-5


def test_many_groups_get_the_gaussian_earlier() -> None:
    groups = [
        n for n in range(1, 15) if Approximate().noise(Fraction(1), MILLIONTH, alone(n, 1)).delta
    ]
    through_zcdp = Sensitivity(groups[0], 0, 1)
    assert not Approximate().noise(Fraction(1), MILLIONTH, through_zcdp).delta


# --- by name -------------------------------------------------------------------------------------


def named(name: str, rest: str = COUNT, accountant: str = "zcdp", epsilon: str = "0.5") -> Noise:
    policy, engine = shop()
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = '{name}') {rest}"
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(sql, policy, engine, budget=budget, epsilon=Fraction(epsilon)).plan
    assert plan is not None
    return plan.blocks[0].releases[0].noise


@pytest.mark.parametrize(
    ("accountant", "name", "deviation"),
    [
        ("zcdp", "laplace", sqrt(1 / rho_of(Fraction(1, 2), MILLIONTH))),
        ("zcdp", "gaussian", sqrt(1 / (2 * rho_of(Fraction(1, 2), MILLIONTH)))),
        ("pure", "laplace", 2.8),
        ("approximate", "laplace", 2.8),
        ("approximate", "gaussian", 8.0),
        ("approximate", TEXTBOOK, 2 * sqrt(2 * log(1.25e6))),
    ],
)
def test_a_law_by_name(accountant: str, name: str, deviation: float) -> None:
    noise = named(name, accountant=accountant)
    assert standard_deviation(noise) == pytest.approx(deviation, rel=0.01)


@pytest.mark.parametrize(
    ("name", "rest", "accountant", "epsilon"),
    [
        ("cauchy", COUNT, "zcdp", "0.5"),
        (TEXTBOOK, COUNT, "zcdp", "0.5"),
        ("gaussian", COUNT, "pure", "0.5"),
        (TEXTBOOK, COUNT, "approximate", "1"),
        ("laplace", "MEDIAN(age) FROM customers", "zcdp", "0.5"),
        ("laplace", "segment FROM customers GROUP BY 1 ORDER BY COUNT(*) LIMIT 1", "zcdp", "0.5"),
    ],
)
def test_a_law_that_does_not_fit_is_refused(
    name: str, rest: str, accountant: str, epsilon: str
) -> None:
    with pytest.raises(Refused) as caught:
        named(name, rest, accountant, epsilon)
    assert caught.value.reason is Reason.BAD_OPTION
    assert caught.value.facts["option"] == "mechanism"


@pytest.mark.full("opens a proxy for each item")
def test_another_law_is_another_question(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        texts = [f"SELECT {COUNT}"] + [
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = '{name}') {COUNT}"
            for name in ("laplace", "gaussian", "laplace")
        ]
        receipts = [proxy.ask(proxy_kit.request(text)).receipt for text in texts]
        assert [r.remembered for r in receipts if r] == [False, False, False, True]


@pytest.mark.full("measures neighbours or further data sets")
def test_the_claim_of_a_named_gaussian_stands_and_of_less_noise_does_not() -> None:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian') {COUNT}"
    honest = test_audit.neighbours(sql, "approximate")
    assert honest.plan.releases[0].noise.delta
    assert not test_audit.refuted(honest)
    assert test_audit.refuted(test_audit.half_sensitivity(honest))
