"""The top keys: exact odds, the proof that no factor 2 is needed, the planner, two neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import ceil, exp, fsum, log
from pathlib import Path

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import TopKeys
from dpsql.mechanisms.laws import Softmax
from dpsql.mechanisms.top_keys import Top, error_of_noise, spread, top
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Exact,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    Sensitivity,
)
from dpsql.proxy import Proxy
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.draws import ENTROPY, pooled
from grammar_tests.keys_kit import chooses, top_keys
from grammar_tests.laws import BUDGET, compiled
from grammar_tests.proxy_kit import request
from grammar_tests.proxy_kit import shop as shop_on_disk
from grammar_tests.test_audit import RELEASES, excess, neighbours, real
from grammar_tests.test_audit import Neighbours as Audited

ONE = "SELECT country FROM customers GROUP BY country ORDER BY COUNT(*) DESC LIMIT 1"
TWO = "SELECT country FROM customers GROUP BY country ORDER BY COUNT(*) DESC LIMIT 2"
LOWEST = "SELECT country FROM customers GROUP BY country ORDER BY COUNT(*) LIMIT 1"
HOURS = (
    "SELECT HOUR(placed_at) AS h FROM orders GROUP BY 1 ORDER BY COUNT(DISTINCT customer_id) DESC"
    " LIMIT {}"
)


def odds(chosen: Top, scores: Sequence[int], order: Sequence[int]) -> float:
    """The probability of these places in this order, from the definitions, in floats."""
    sign, rate, left = -1 if chosen.lowest else 1, float(chosen.rate), [*range(len(scores))]
    result = 1.0
    for place in order:
        best = max(sign * scores[n] for n in left)
        weights = {n: exp(rate * (sign * scores[n] - best)) for n in left}
        others = [weights[n] for n in left if n != place]
        every = alone(others) if chosen.flips else 1 / fsum(weights.values())
        result *= weights[place] * every
        left.remove(place)
    return result


def alone(others: Sequence[float]) -> float:
    """The mean of 1 / (1 + how many of the others pass), each by a trial of its own."""
    passing = [1.0]
    for odd in others:
        passing = [
            (passing[n] * (1 - odd) if n < len(passing) else 0) + (passing[n - 1] * odd if n else 0)
            for n in range(len(passing) + 1)
        ]
    return fsum(chance / (1 + n) for n, chance in enumerate(passing))


def choice(
    count: int, *, lowest: bool = False, rate: Fraction = Fraction(1, 3), flips: bool = False
) -> Top:
    return Top(count, 4, lowest, rate, rate, flips)


def plan_of(sql: str, accountant: str = "zcdp", epsilon: Fraction = Fraction(1)) -> BlockPlan:
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(sql, policy, engine, budget=budget, epsilon=epsilon).plan
    assert plan is not None
    return plan.blocks[0]


# --- the law -------------------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("count", "lowest", "flips"),
    [(1, True, False), (2, False, False), (1, False, True), (2, True, True)],
)
def test_the_order_of_the_chosen_has_the_odds_of_the_definition(
    count: int, *, lowest: bool, flips: bool
) -> None:
    scores = {"SE": 3, "NO": -2, "IT": 5}
    block = plan_of(TWO)
    assert block.domain is not None
    keys = [str(key) for (key,) in block.domain]
    chosen = choice(count, lowest=lowest, flips=flips)
    exact = Exact([(key,) for key in scores], [np.array([*scores.values()], dtype=object)])
    seen = dict.fromkeys(permutations(range(3), count), 0)
    plan, draw = replace(block, keys=replace(top_keys(block), top=chosen)), pooled(real)
    for _ in range(6_000):
        noisy = release(exact, plan, draw)
        seen[tuple(keys.index(str(key)) for (key,) in noisy.keys)] += 1
    listed = [scores[key] for key in keys]
    excesses = {o: n / 6_000 - odds(chosen, listed, o) for o, n in seen.items()}
    # Six standard deviations of a frequency over 6,000 draws are below 0.04.
    assert max(map(abs, excesses.values())) < 0.04
    wrong = replace(chosen, rate=2 * chosen.rate)
    assert max(abs(n / 6_000 - odds(wrong, listed, o)) for o, n in seen.items()) > 0.06


def test_wide_scores_are_drawn_exactly() -> None:
    law = Softmax((2**70 + 1, 2**70, -(2**70)), Fraction(1, 2))
    drawn = mechanisms.sample(law, 4_000, ENTROPY)
    assert abs(float(np.mean(drawn == 0)) - 1 / (1 + exp(-0.5))) < 0.05
    assert not np.any(drawn == 2)


def test_the_noise_off_sampler_takes_the_best_and_then_the_first() -> None:
    assert choice(1).best_first([2, 7, 7, 9]) == [3, 1, 2, 0]
    assert choice(1, lowest=True).best_first([2, 7, 2, 9]) == [0, 2, 1, 3]


# --- the proof -----------------------------------------------------------------------------------


def log_ratios(
    sensitivity: Sensitivity, factor: int = 1, *, flips: bool = False
) -> tuple[float, float]:
    """The widest range of ln P/P' over keys, for every way a unit can move scores; and ε.

    Of permute-and-flip the largest of them.
    """
    chosen = top(1, 3, sensitivity, Fraction(1), lowest=False, flips=flips)
    chosen = replace(chosen, rate=factor * chosen.rate)
    lower, upper = min(0, sensitivity.lower), max(0, sensitivity.upper)
    ends = (lower, 0, upper)
    ways = list(product(ends, repeat=3))
    if sensitivity.neighbours is Neighbours.REPLACE:
        ways = [tuple(a - b for a, b in zip(new, old, strict=True)) for new in ways for old in ways]
    widest = 0.0
    for move in ways:
        here, there = [5, 3, 4], [s + m for s, m in zip((5, 3, 4), move, strict=True)]
        ratios = [log(odds(chosen, here, [n]) / odds(chosen, there, [n])) for n in range(3)]
        spans = map(abs, ratios) if flips else (max(ratios) - min(ratios),)
        widest = max(widest, *spans)
    return widest, float(chosen.epsilon)


SENSITIVITIES = [
    Sensitivity(3, 0, 4),
    Sensitivity(3, -2, 4),
    Sensitivity(3, -4, 0),
    Sensitivity(3, 0, 4, Neighbours.REPLACE),
    Sensitivity(3, -2, 4, Neighbours.REPLACE),
]


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
def test_a_round_has_the_range_that_is_charged(sensitivity: Sensitivity) -> None:
    widest, epsilon = log_ratios(sensitivity)
    assert widest == pytest.approx(epsilon)
    assert log_ratios(sensitivity, factor=2)[0] > 1.5 * epsilon


def test_one_unit_may_be_in_every_group() -> None:
    """The spread is that of one group's total, whatever L0 is."""
    assert spread(Sensitivity(1, 0, 7)) == spread(Sensitivity(500, 0, 7)) == 7


# --- the planner and the charge ------------------------------------------------------------------


@pytest.mark.parametrize("sensitivity", SENSITIVITIES)
def test_a_flip_is_as_private_as_is_charged(sensitivity: Sensitivity) -> None:
    """Also where a unit moves some scores up and others down: only differences count."""
    widest, epsilon = log_ratios(sensitivity, flips=True)
    assert widest <= epsilon * (1 + 1e-9)
    assert log_ratios(sensitivity, factor=2, flips=True)[0] > epsilon


@pytest.mark.parametrize("flips", [False, True])
def test_a_choice_errs_by_no_more_than_is_said(*, flips: bool) -> None:
    """However many keys are just so far behind the best, one of them is chosen once in twenty."""
    for keys in (2, 3, 24, 500):
        chosen = top(1, keys, Sensitivity(1, 0, 1), Fraction(1, 50), lowest=False, flips=flips)
        behind = [0] + [-ceil(chosen.error)] * (keys - 1)
        assert odds(chosen, behind, [0]) >= 0.95
        closer = [0] + [-ceil(chosen.error / 2)] * (keys - 1)
        assert odds(chosen, closer, [0]) < 0.95


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_way_with_the_smaller_error_is_taken(count: int, accountant: str) -> None:
    block = plan_of(HOURS.format(count), accountant)
    if not isinstance(block.keys, TopKeys):
        (scored,) = block.releases
        policy_free = top(count, 24, scored.sensitivity, Fraction(1), lowest=False)
        assert error_of_noise(scored.noise, 24) <= policy_free.error * count
    else:
        assert block.releases == ()
        made = block.keys.top
        assert made.error < block.keys.otherwise
        epsilon = made.epsilon
        flipped = ApproximateEvent(epsilon, rounds=count)
        ranged = BoundedRangeEvent(epsilon, count)
        assert made.event == (ranged if accountant == "zcdp" else flipped)


def test_both_ways_are_taken_somewhere() -> None:
    assert chooses(plan_of(HOURS.format(1)))
    assert not chooses(plan_of(HOURS.format(20)))


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
def test_the_charge_fits_the_query(accountant: str) -> None:
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(HOURS.format(2), policy, engine, budget=budget).plan
    whole = compiled("SELECT COUNT(*) FROM orders", policy, engine, budget=budget).plan
    assert plan is not None
    assert whole is not None
    assert chooses(plan.blocks[0])
    assert plan.loss.fits(Loss(whole.loss.amount + 2, whole.loss.delta))
    assert plan.loss.amount > 0.99 * whole.loss.amount


def test_errors_of_noise_are_those_of_its_law() -> None:
    """The difference of two draws exceeds the error once in so many, here by sampling."""
    for noise in (
        Noise(Mechanism.DISCRETE_LAPLACE, Fraction(50)),
        Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(2500)),
    ):
        a, b = (mechanisms.sample(noise, 40_000, ENTROPY) for _ in range(2))
        share = float(np.mean(a - b > error_of_noise(noise, 2)))
        assert 0.02 < share < 0.03


@pytest.mark.full("measures neighbours or further data sets")
def test_explain_names_the_choice_and_the_runner_up(tmp_path: Path) -> None:
    with Proxy.open(str(shop_on_disk(tmp_path / "shop"))) as proxy:
        keys = proxy.explain(request(HOURS.format(1))).blocks[0].keys
        rows = proxy.ask(request(HOURS.format(3))).rows
    assert "h: 1 of 24 public keys, chosen one after another by the highest number of units" in keys
    assert "otherwise: every key with noise" in keys
    assert len(set(rows)) == 3


@pytest.mark.full("measures neighbours or further data sets")
def test_noise_on_every_group_that_was_paid_for_is_used(tmp_path: Path) -> None:
    every = "SELECT HOUR(placed_at) AS h, COUNT(DISTINCT customer_id) AS n FROM orders GROUP BY 1"
    with Proxy.open(str(shop_on_disk(tmp_path / "shop"))) as proxy:
        counts = proxy.ask(request(every)).rows
        paid = proxy.budgets()
        best = proxy.ask(request(HOURS.format(3)))
        plan = proxy.explain(request(HOURS.format(1)))
        assert proxy.budgets() == paid
    assert best.receipt is not None
    assert best.receipt.remembered
    chosen = {h for (h,) in best.rows}
    assert min(n for h, n in counts if h in chosen) >= max(n for h, n in counts if h not in chosen)
    assert plan.remembered
    assert "chosen" not in plan.blocks[0].keys


@pytest.mark.full("measures neighbours or further data sets")
def test_counts_that_were_paid_for_show_their_keys(tmp_path: Path) -> None:
    every = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city"
    with Proxy.open(str(shop_on_disk(tmp_path / "shop"))) as proxy:
        counts = proxy.ask(request(every)).rows
        keys = proxy.ask(request("SELECT city FROM customers GROUP BY city"))
    assert keys.receipt is not None
    assert keys.receipt.remembered
    assert [city for city, _ in counts] == [city for (city,) in keys.rows]


# --- two neighbours, many releases ---------------------------------------------------------------


def losses(case: Audited, *, here: bool) -> np.ndarray:
    """ln(likelihood here / likelihood there) of each of many choices."""
    chosen, domain = top_keys(case.plan).top, top_keys(case.plan).domain
    sides = []
    for exact in (case.here, case.there):
        found = dict(zip(exact.keys, map(int, exact.parts[0]), strict=True))
        sides.append([found.get(key, 0) for key in domain])
    assert sides[0] != sides[1], "the unit changes nothing: such an audit is empty"
    place = {key: n for n, key in enumerate(domain)}
    known = {
        order: log(odds(chosen, sides[0], order) / odds(chosen, sides[1], order))
        for order in permutations(range(len(domain)), chosen.count)
    }
    exact = case.here if here else case.there
    draw = pooled(real)
    drawn = (release(exact, case.plan, draw).keys for _ in range(RELEASES))
    return np.array([known[tuple(place[key] for key in keys)] for keys in drawn])


def refuted(case: Audited) -> bool:
    ours, theirs = (losses(case, here=side) for side in (True, False))
    return excess(ours, theirs, case.delta) > 0 or excess(-theirs, -ours, case.delta) > 0


def eager(case: Audited) -> Audited:
    """A range four times too small."""
    keys = top_keys(case.plan)
    wrong = replace(keys, top=replace(keys.top, rate=4 * keys.top.rate))
    return replace(case, plan=replace(case.plan, keys=wrong))


def same(case: Audited) -> Audited:
    return case


@pytest.mark.parametrize(
    ("sql", "accountant", "damage", "caught"),
    [
        pytest.param(ONE, "pure", same, False, marks=pytest.mark.full("audits a true claim")),
        pytest.param(
            TWO, "zcdp", same, False, marks=pytest.mark.full("audits of further questions")
        ),
        pytest.param(
            LOWEST, "zcdp", same, False, marks=pytest.mark.full("audits of further questions")
        ),
        (ONE, "pure", eager, True),
        pytest.param(
            ONE, "zcdp", eager, True, marks=pytest.mark.full("audits of further questions")
        ),
    ],
)
def test_the_claim_stands_and_a_wrong_one_falls(
    sql: str, accountant: str, damage: Callable[[Audited], Audited], *, caught: bool
) -> None:
    assert refuted(damage(neighbours(sql, accountant))) is caught
