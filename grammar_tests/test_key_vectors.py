"""Private keys shown by a vector of moments: its tail, its threshold, its odds and its intervals.

What is random here is seeded, or the law of a sum that is convolved term by term.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from math import isclose, nan

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ThresholdKeys
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.tails import laplace_tail, reach, reach_of_sum
from dpsql.mechanisms.threshold import UnitCounting, threshold
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Exact, Mechanism, Neighbours, Noise, Policy
from dpsql.preparation.describe_blocks import describe
from dpsql.release.finish import finish
from dpsql.release.release import Sampler, release
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.keys_kit import threshold_of, with_threshold
from grammar_tests.laws import BUDGET, SAMPLING_KEY, PlainEngine, compiled, no_noise
from grammar_tests.test_finish import RECEIPT, crowd

LAPLACE, GAUSSIAN = Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN
SCALES = (Fraction(1, 5), Fraction(1), Fraction(7, 4), Fraction(125), Fraction(640, 3))
DELTA = Fraction(1, 10**6)
BY_CITY = "SELECT city, {} FROM customers GROUP BY city"
APPROXIMATE = replace(BUDGET, accountant="approximate")


def law(noise: Noise) -> np.ndarray:
    """P(Z = x) for x from -n to n, beyond which a float sees nothing."""
    laplace = noise.mechanism is LAPLACE
    width = float(noise.scale) if laplace else float(noise.scale) ** 0.5
    x = np.arange(-int(50 * width) - 50, int(50 * width) + 51, dtype=np.float64)
    weights = np.exp(-np.abs(x) / width if laplace else -(x**2) / (2 * width**2))
    return np.asarray(weights / weights.sum())


@cache
def tails(noise: Noise, draws: int) -> np.ndarray:
    """P(Z1 + ... + Zk >= t) for t = 0, 1, ..., by convolution, to about 1e-12."""
    one = law(noise)
    size = draws * (len(one) - 1) + 1
    summed = np.fft.irfft(np.fft.rfft(one, size) ** draws, size)
    return np.asarray(np.cumsum(summed[::-1])[::-1][size // 2 :])


# --- the tail of a sum --------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", SCALES)
def test_the_tail_is_that_of_the_convolution(scale: Fraction, draws: int) -> None:
    found = tails(Noise(LAPLACE, scale), draws)
    steps = sorted({1, 2, 3, 7, *(int(n * scale) + 1 for n in range(1, 22))})
    seen = [t for t in steps if found[t] > 1e-7]
    assert len(seen) >= 2
    assert all(isclose(laplace_tail(float(scale), draws, t), found[t], rel_tol=1e-5) for t in seen)
    assert laplace_tail(float(scale), draws + 1, seen[-1]) > 1.1 * found[seen[-1]], "the twin"


@pytest.mark.parametrize("noise", [Noise(m, s) for m in (LAPLACE, GAUSSIAN) for s in SCALES])
@pytest.mark.parametrize("draws", [2, 3])
def test_a_sum_reaches_no_further(noise: Noise, draws: int) -> None:
    found = tails(noise, draws)
    for probability in (0.3, 1e-3, 1e-8):
        t = reach_of_sum(noise, draws, probability)
        assert found[t] <= probability
        before = t - 1 if noise.mechanism is LAPLACE else t // 3  # a bound, and not an absurd one
        assert t == 1 or found[before] > probability


def test_the_widest_scale_has_the_same_tail() -> None:
    wide = Noise(LAPLACE, Fraction(1 << 50))
    assert reach_of_sum(wide, 2, 1e-6) / 2**50 == pytest.approx(
        reach_of_sum(Noise(LAPLACE, Fraction(1 << 20)), 2, 1e-6) / 2**20, rel=1e-5
    )


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_a_tail_is_a_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        reach_of_sum(Noise(LAPLACE, Fraction(1)), 2, probability)


# --- the threshold ------------------------------------------------------------------------------


@pytest.mark.parametrize("l0", [1, 3])
@pytest.mark.parametrize("columns", [2, 3])
def test_a_threshold_of_a_sum_is_the_least_that_keeps_delta(columns: int, l0: int) -> None:
    noise, most = Noise(LAPLACE, Fraction(25)), 12
    found = tails(noise, columns)

    def lone(value: int) -> float:
        return -float(np.expm1(l0 * np.log1p(-found[value - most])))

    chosen = threshold(noise, l0, DELTA, counted=UnitCounting(columns, 10, most))
    assert lone(chosen.value) <= DELTA < lone(chosen.value - 1)
    assert chosen.units == chosen.value / 10
    one = threshold(noise, l0, DELTA, counted=UnitCounting(1, 10, most))
    assert lone(one.value) > 2 * DELTA, "the twin: the tail of one draw"


def test_a_threshold_of_a_sum_has_a_floor_and_sees_the_keys_of_two_units() -> None:
    noise, counted = Noise(LAPLACE, Fraction(25)), UnitCounting(2, 10, 12)
    assert threshold(noise, 1, DELTA, floor=500, counted=counted).units == 500
    free = threshold(noise, 2, DELTA, counted=counted)
    assert threshold(noise, 1, DELTA, Neighbours.REPLACE, counted=counted) == free
    assert threshold(noise, 1, DELTA, floor=2, counted=counted).value < free.value


def test_keys_are_kept_by_sums_that_64_bits_do_not_hold() -> None:
    wide = np.array([2**62 + 5, 1])
    chosen = threshold(Noise(LAPLACE, Fraction(2**60)), 1, DELTA, counted=UnitCounting(3, 1, 1))
    assert chosen.value > 2**63
    assert chosen.shown([wide] * 3).tolist() == []
    assert replace(chosen, value=3 * 2**62).shown([wide] * 3).tolist() == [0]


# --- plans --------------------------------------------------------------------------------------


def block(asked: str, accountant: str = "approximate", floor: int = 1) -> BlockPlan:
    policy, engine = shop()
    policy = replace(policy, limits=Limits(min_units_per_group=floor))
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(BY_CITY.format(asked), policy, engine, budget=budget).plan
    assert plan is not None
    return plan.blocks[0]


def test_the_number_of_units_falls_short_of_the_owners_floor_by_no_vector() -> None:
    found = threshold_of(block("COUNT(*), AVG(income)", floor=700))
    assert found.counted.columns == 2
    assert found.units == 700


def test_a_vector_is_chosen_where_it_errs_less_and_explain_names_both() -> None:
    policy, engine = shop()
    asked = BY_CITY.format("COUNT(*), AVG(income)")
    prepared = compiled(asked, policy, engine, budget=APPROXIMATE)
    assert prepared.plan is not None
    (found,) = prepared.plan.blocks
    keys = describe(found, prepared.rewritten.blocks[0], policy).keys
    assert isinstance(found.keys, ThresholdKeys)
    assert found.keys.runner_up is not None
    assert "unit count, the sum of its first 2 measurements, reaches" in keys
    assert "; otherwise: a key is shown if its noisy unit count reaches" in keys
    other = block("COUNT(*), AVG(income)", "zcdp").keys
    assert isinstance(other, ThresholdKeys)
    assert other.runner_up is None


# --- the odds of a key that one unit has, from the law of its noise ------------------------------


LONE = ("COUNT(*), AVG(age)", "SUM(age), COUNT(*)", "AVG(age) FILTER (WHERE vip), COUNT(*)")


def lonely(age: int | None) -> world.Tables:
    tables = world.flood()
    tables["customers"] = [
        (*row[:3], "Nowhere", age, nan, *row[6:]) if row[0] == 7 else row
        for row in tables["customers"]
    ]
    return tables


@cache
def lonely_shop(age: int | None) -> tuple[Policy, PlainEngine]:
    policy, _ = over(lonely(age), constraints=True)
    return policy, PlainEngine(world.build(lonely(age), constraints=False))


def alone(asked: str, age: int | None) -> tuple[BlockPlan, Exact]:
    """The block of a query, and the integers of the one key that unit 7 alone has."""
    policy, engine = lonely_shop(age)
    budget = replace(APPROXIMATE, query_delta=Decimal("0.001"))
    prepared = compiled(BY_CITY.format(asked), policy, engine, budget=budget)
    assert prepared.plan is not None
    (plan,), (sql,) = prepared.plan.blocks, prepared.rewritten.blocks
    exact = engine.aggregate(sql.sql, len(sql.keys), sql.parts, SAMPLING_KEY)
    place = exact.keys.index(("Nowhere",))
    return plan, Exact([("Nowhere",)], [part[[place]] for part in exact.parts])


def odds(plan: BlockPlan, exact: Exact) -> float:
    """That the one key is shown."""
    chosen = threshold_of(plan)
    columns = chosen.counted.columns
    assert columns > 1
    total = sum(int(part[0]) for part in exact.parts[:columns])
    return float(tails(plan.releases[0].noise, columns)[chosen.value - total])


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("age", [None, -50, 37, 500])
@pytest.mark.parametrize("asked", LONE)
def test_a_key_of_one_unit_is_shown_with_probability_delta(asked: str, age: int | None) -> None:
    plan, exact = alone(asked, age)
    delta = threshold_of(plan).delta
    assert 0.5 * delta <= odds(plan, exact) <= delta


def test_the_tail_of_one_draw_shows_it_too_often() -> None:
    plan, exact = alone(LONE[0], 37)
    found = threshold_of(plan)
    low = found.counted.most + reach(found.noise, float(found.delta))
    assert odds(with_threshold(plan, replace(found, value=low)), exact) > 2 * found.delta


# --- errors -------------------------------------------------------------------------------------


ROUNDS = 2_000
COVERED = {
    "a count": "COUNT(*)",
    "a mean": "AVG(age)",
    "a sum": "SUM(age)",
    "a mean of some": "AVG(age) FILTER (WHERE vip)",
    "a variance": "VAR_POP(age)",
    "a mean of means": "AVG(age) + AVG(income) / 1000",
}


def held(asked: str, prepared: Prepared, engine: PlainEngine, factor: float = 1.0) -> float:
    """The share of many releases of one city whose interval holds what there is without noise."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    (found,), (sql,) = plan.blocks, rewritten.blocks
    exact = engine.aggregate(sql.sql, len(sql.keys), sql.parts, SAMPLING_KEY)
    many = Exact([(f"{n}",) for n in range(ROUNDS)], [np.repeat(p, ROUNDS) for p in exact.parts])
    entropy = Entropy(np.random.default_rng(len(asked)).bytes)
    samplers: list[Sampler] = [partial(mechanisms.sample, entropy=entropy), no_noise]
    answers = [
        finish(plan, rewritten, [release(e, found, s)], engine.rows, engine.scratch, RECEIPT)
        for e, s in zip((many, exact), samplers, strict=True)
    ]
    assert len(answers[0].rows) == ROUNDS
    ((_, truth),) = answers[1].rows
    inside = [
        margin is not None and bool(abs(value - truth) <= factor * margin)
        for (_, value), (_, margin) in zip(answers[0].rows, answers[0].margins, strict=True)
    ]
    return sum(inside) / ROUNDS


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("what", COVERED)
def test_intervals_cover(what: str) -> None:
    policy, engine = crowd()
    # At half of the ε a whole number of steps comes near to 95 % where a count is all there is.
    sql, half = BY_CITY.format(COVERED[what]), Fraction(1, 2)
    prepared = compiled(sql, policy, engine, budget=APPROXIMATE, epsilon=half)
    assert prepared.plan is not None
    assert threshold_of(prepared.plan.blocks[0])
    assert 0.93 <= held(what, prepared, engine) <= 0.97
    assert held(what, prepared, engine, factor=0.5) < 0.85
