"""Groups that share some of their noise: where the planner takes it, what it costs, what is told.

The mechanism by itself is in `test_correlated_gaussian.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from math import erfc, exp, sqrt

import numpy as np
import pytest

from dpsql.accountants import get
from dpsql.compiler.calibrate.common_noise import events_of_noise
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, Unpaid
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.mechanisms import sample, standard_deviation
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise
from dpsql.model.vocabulary import Event, Exact, Neighbours, NoiseEvent, Policy
from dpsql.preparation.describe_blocks import _common  # what `explain` says of it
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import BUDGET, NO_NOISE, PlainEngine, compiled, noised

USERS = "COUNT(DISTINCT customer_id) AS n FROM orders"
BY_MINUTE = f"SELECT MINUTE(placed_at) AS m, {USERS} GROUP BY m"
BY_HOUR = f"SELECT HOUR(placed_at) AS h, {USERS} GROUP BY h"
MINUTES = 60


@cache
def open_shop() -> tuple[Policy, PlainEngine]:
    """The shop without limits of groups: a unit may be in all of them."""
    policy, engine = shop()
    tables = (
        replace(table, max_groups_per_unit=None, max_rows_per_unit=100) for table in policy.tables
    )
    return replace(policy, tables=tuple(tables)), engine


def planned(
    sql: str, accountant: str = "zcdp", neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> Prepared:
    policy, engine = open_shop()
    policy = replace(policy, unit=replace(policy.unit, neighbours=neighbours))
    return compiled(sql, policy, engine, budget=replace(BUDGET, accountant=accountant))


def blocks(prepared: Prepared) -> tuple[BlockPlan, ...]:
    assert prepared.plan is not None
    return prepared.plan.blocks


def shared(prepared: Prepared) -> list[CorrelatedNoise]:
    payments = (payment for block in blocks(prepared) for payment in block.payments)
    return [p.noise for p in payments if isinstance(p.noise, CorrelatedNoise)]


def by_minute() -> BlockPlan:
    (block,) = blocks(planned(BY_MINUTE))
    return block


def test_many_groups_err_less_for_no_more() -> None:
    """0.57 of independent noise where a unit may be in all of them."""
    prepared = planned(BY_MINUTE)
    assert prepared.plan is not None
    (payment,) = by_minute().payments
    independent = payment.runner_up
    assert independent is not None
    assert len(by_minute().domain or ()) == by_minute().l0 == MINUTES
    assert standard_deviation(payment.alone) <= 0.6 * standard_deviation(independent)
    alone = Event((NoiseEvent(independent, payment.sensitivity),))
    assert prepared.plan.event == Event(events_of_noise(payment))
    law = get("zcdp")
    assert prepared.plan.loss == law.loss(prepared.plan.event)
    assert 0.999 * law.loss(alone).amount <= prepared.plan.loss.amount <= law.loss(alone).amount


def lost(noise: CorrelatedNoise) -> float:
    """The ρ of the worst unit of which groups have one step at most."""
    own, common = float(noise.own.scale), float(noise.common.scale)
    inverse = np.linalg.inv(own * np.eye(MINUTES) + common) * noise.parts**2 / 2
    units = (np.arange(MINUTES) < k for k in range(MINUTES + 1))
    return max(float(unit @ inverse @ unit) for unit in units)


def test_no_unit_loses_more_than_the_plan_is_charged() -> None:
    """By the inverse of the covariance that is released, over all numbers of groups."""
    prepared = planned(BY_MINUTE)
    assert prepared.plan is not None
    (noise,) = shared(prepared)

    charged = prepared.plan.loss.amount / 1e9
    assert 0.99 * charged <= lost(noise) <= charged
    common = replace(noise.common, scale=noise.common.scale / 4)
    assert lost(replace(noise, common=common)) > 1.2 * charged, "the twin: too little is common"


@pytest.mark.parametrize(
    "sql",
    [
        BY_MINUTE,
        f"SELECT m, n FROM ({BY_MINUTE}) AS t WHERE n > 3 ORDER BY n DESC",
        f"{BY_MINUTE} HAVING n > 3 ORDER BY n",
        "SELECT HOUR(placed_at) AS h, COUNT(*) AS n FROM orders GROUP BY h",
        "SELECT HOUR(placed_at) AS h, SUM(quantity) AS n FROM orders GROUP BY h",
    ],
)
def test_groups_that_are_shown_one_by_one_share_noise(sql: str) -> None:
    assert len(shared(planned(sql))) == 1


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(n) AS n FROM ({BY_HOUR}) AS t",
        f"SELECT h, n, SUM(n) OVER () AS every FROM ({BY_HOUR}) AS t",
        f"SELECT a.h, a.n - b.n AS more FROM ({BY_HOUR}) AS a JOIN ({BY_HOUR}) AS b ON a.h = b.h",
        f"SELECT h, n, (SELECT MAX(n) FROM ({BY_HOUR}) AS t) AS most FROM ({BY_HOUR}) AS u",
        f"SELECT HOUR(placed_at) AS h, {USERS} GROUP BY ROLLUP (h)",
        f"SELECT {USERS}",
        "SELECT city, COUNT(*) AS n FROM customers GROUP BY city",
        "SELECT HOUR(placed_at) AS h, SUM(quantity - 9) AS n FROM orders GROUP BY h",
    ],
    ids="added window joined compared rollup one-group one-group-of-a-unit signed".split(),
)
def test_where_groups_are_used_together_or_gain_nothing_noise_is_independent(sql: str) -> None:
    assert shared(planned(sql)) == []


def test_laplace_noise_is_independent() -> None:
    assert shared(planned(BY_MINUTE, "pure")) == []


def test_what_is_shared_where_noise_is_charged_a_delta_keeps_it() -> None:
    """By the law of the Gaussian whose loss is that of the worst unit."""
    prepared = planned(BY_MINUTE, "approximate")
    assert prepared.plan is not None
    (noise,) = shared(prepared)
    independent = blocks(prepared)[0].payments[0].runner_up
    assert independent is not None
    assert standard_deviation(noise.alone) <= 0.75 * standard_deviation(independent)
    law, sensitivity = get("approximate"), blocks(prepared)[0].payments[0].sensitivity
    price = law.loss(Event((NoiseEvent(independent, sensitivity),)))
    assert 0.999 * price.amount <= prepared.plan.loss.amount <= price.amount
    assert prepared.plan.loss.delta == price.delta > 0

    def delta(noise: CorrelatedNoise) -> float:
        mu, epsilon = sqrt(2 * lost(noise)), price.amount / 1e9
        above, below = (erfc((epsilon / mu + sign * mu / 2) / sqrt(2)) / 2 for sign in (-1, 1))
        return above - exp(epsilon) * below

    assert delta(noise) <= price.delta / 1e18
    common = replace(noise.common, scale=noise.common.scale / 16)
    assert delta(replace(noise, common=common)) > price.delta / 1e18, "the twin: too little"


def test_replaced_units_have_independent_noise() -> None:
    assert shared(planned(BY_MINUTE, neighbours=Neighbours.REPLACE)) == []


def test_a_limit_of_few_groups_has_independent_noise() -> None:
    policy, engine = shop()
    assert shared(compiled(BY_MINUTE, policy, engine)) == []


def test_what_is_made_of_several_groups_is_another_question() -> None:
    """Its errors are others, and a remembered answer has those of the plan that was paid for."""
    shown = planned(BY_HOUR).question
    assert planned(f"SELECT h, 2 * n AS twice FROM ({BY_HOUR}) AS t").question == shown
    assert planned(f"{BY_HOUR} ORDER BY n").question == shown
    assert planned(f"SELECT SUM(n) AS n FROM ({BY_HOUR}) AS t").question != shown
    few, engine = shop()
    assert (
        compiled(BY_HOUR, few, engine).question
        == compiled(f"SELECT SUM(n) AS n FROM ({BY_HOUR}) AS t", few, engine).question
    ), "with independent noise they are one"


def test_too_little_noise_pays_for_no_column() -> None:
    block = by_minute()
    (payment,) = block.payments
    noise = payment.noise
    assert isinstance(noise, CorrelatedNoise)
    assert replace(block, releases=block.releases) == block
    for change in ({"l0": 1}, {"most": 0}):
        few = replace(noise.reached, **change)
        with pytest.raises((Unpaid, ValueError)):
            replace(payment, noise=replace(noise, reached=few))
    more = replace(payment.sensitivity, upper=2)
    for sensitivity in (more, replace(more, lower=-1), replace(more, lower=-1, upper=1)):
        with pytest.raises(Unpaid):
            replace(payment, sensitivity=sensitivity)
    with pytest.raises(Unpaid):
        replace(payment, sensitivity=replace(more, upper=1, neighbours=Neighbours.REPLACE))
    with pytest.raises(Unpaid):
        replace(payment, columns=(*payment.columns, -1))
    with pytest.raises(Unpaid):
        replace(block, keys=ListedKeys(((-1,), *(block.domain or ()))))


@pytest.mark.full("draws random questions or values")
def test_what_is_released_has_the_covariance_and_the_error_that_are_told() -> None:
    block = by_minute()
    (payment,) = block.payments
    noise = payment.noise
    assert isinstance(noise, CorrelatedNoise)
    assert block.domain is not None
    exact = Exact([block.domain[3]], [np.array([40])])
    draw = partial(sample, entropy=ENTROPY)
    rows = [release(exact, block, draw).parts for _ in range(150)]
    drawn = np.array(rows, dtype=float)[:, :, 0]
    deviation = standard_deviation(block.releases[0].noise)
    assert drawn.mean() == pytest.approx(40 / MINUTES, abs=0.2 * deviation)
    assert drawn[:, 3].mean() == pytest.approx(40, abs=6 * deviation / sqrt(150))
    assert drawn.std(axis=0).mean() == pytest.approx(deviation, rel=0.05)
    told = _common(noise, 1.0)
    total = sqrt(MINUTES * (deviation**2 + (MINUTES - 1) * float(noise.shared)))
    assert drawn.sum(axis=1).std() == pytest.approx(total, rel=0.15)
    assert drawn.sum(axis=1).std() > 1.3 * deviation * sqrt(MINUTES), "the twin: errors in squares"
    assert f"shared by all {MINUTES} groups" in told
    assert f"{total:.0f}" in told


def test_noise_that_is_off_is_off() -> None:
    block = by_minute()
    (only,) = block.releases
    assert noised(only, NO_NOISE).noise == NO_NOISE
    exact = Exact(list(block.domain or ()), [np.arange(MINUTES)])
    silent = release(exact, block, lambda _law, count: np.zeros(count, dtype=np.int64))
    assert [n for (n,) in silent.parts] == list(range(MINUTES))
