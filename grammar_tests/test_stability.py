"""Propose–test–release means: the constants by exact sums, the release by audit, and twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, exp, log

import numpy as np
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, Release
from dpsql.mechanisms.laws import Law
from dpsql.mechanisms.stability import means, stability
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Exact, Mechanism, Neighbours, Noise, SelectionEvent
from dpsql.release.release import Sampler, release
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.keys_kit import listing
from grammar_tests.laws import BUDGET, PlainEngine, compiled, no_noise, noised, noiseless
from grammar_tests.test_audit import EPSILON, RELEASES, excess, real
from grammar_tests.test_sparse_vector import at_least

ROWS = 20
DELTA = Decimal("0.01")
LOW, HIGH = -60, 60
"""Ages from 0 to 120, less their centre."""


def plan(accountant: str = "approximate", sql: str = "PTR_MEAN(age, 20)") -> BlockPlan:
    policy, _ = over(world.well_behaved(), constraints=True)
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    budget = replace(BUDGET, accountant=accountant, query_delta=DELTA)
    prepared = compiled(f"SELECT {sql} FROM customers", policy, engine, budget=budget)
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    spent = [part.delta for part in prepared.plan.event.parts if isinstance(part, SelectionEvent)]
    assert spent == [r.stability.delta for r in block.releases if r.stability is not None]
    return block


def exact(*ages: int) -> Exact:
    """The integers of a table of these ages, less their centre."""
    return Exact([()], [np.array([len(ages)]), np.array([sum(ages)])])


# --- constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 3, 20])
@pytest.mark.parametrize("delta", ["1e-9", "0.001", "0.2"])
def test_chance_passes_the_test_with_probability_delta_at_most(scale: int, delta: str) -> None:
    noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(scale))
    needed = stability(0, noise, ROWS, Fraction(delta)).least - (ROWS - 1)
    assert at_least(noise, needed) <= float(delta) * (1 + 1e-9)
    assert needed == 1 or at_least(noise, needed - 1) > float(delta)


def test_wrong_twin_half_of_the_threshold_is_too_low() -> None:
    noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10))
    recalled = ceil(log(2 / 0.001) / 2 * 10)
    assert at_least(noise, recalled) > 10 * 0.001


def test_one_row_moves_a_mean_by_no_more_than_proposed() -> None:
    """All tables of up to four rows: with as many as proposed the mean moves by b at most."""
    steps = 1000
    for rows in range(1, 5):
        distance = -(-(HIGH - LOW) * steps // rows)
        for size in range(rows):
            for table in product((LOW, -7, 0, HIGH), repeat=size + 1):
                pair = [means(np.array([sum(t)]), np.array([len(t)]), steps) for t in
                        (table, table[1:])]  # fmt: skip
                moved = abs(int(pair[0][0]) - int(pair[1][0]))
                assert moved <= distance or len(table) < rows
    assert abs(means(np.array([HIGH]), np.array([1]), steps)[0]) > (HIGH - LOW) * steps // 4


BY_STATUS = """
SELECT s, PTR_MEAN(q, 3) AS m
FROM (SELECT customer_id, status AS s, SUM(quantity) AS q FROM orders GROUP BY 1, 2) AS t GROUP BY s
"""
"""A customer is in three groups, with one row in each."""


def by_status() -> Prepared:
    policy, _ = over(world.well_behaved(), constraints=True)
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    budget = replace(BUDGET, accountant="approximate", query_delta=DELTA)
    return compiled(BY_STATUS, policy, engine, budget=budget)


def test_the_tests_of_all_groups_of_a_unit_share_the_delta() -> None:
    plan = by_status().plan
    assert plan is not None
    (block,) = plan.blocks
    count, mean = block.releases
    assert mean.stability is not None
    assert (block.l0, count.sensitivity.l0, mean.sensitivity.l0) == (3, 3, 3)
    chance = at_least(count.noise, mean.stability.least - 2)
    assert 0 < block.l0 * chance <= float(mean.stability.delta)
    spent = [part.delta for part in plan.event.parts if isinstance(part, SelectionEvent)]
    assert spent == [mean.stability.delta]


def test_one_test_of_several_with_all_of_the_delta_is_wrong() -> None:
    """The wrong twin: three groups with a row of one unit pass more often than is paid for."""
    plan = by_status().plan
    assert plan is not None
    noise = plan.blocks[0].releases[0].noise
    twin, right = (stability(0, noise, 3, Fraction(DELTA), groups) for groups in (1, 3))
    assert 1 - (1 - at_least(noise, twin.least - 2)) ** 3 > 1.1 * float(DELTA)
    assert 1 - (1 - at_least(noise, right.least - 2)) ** 3 <= float(DELTA)


def test_a_value_below_the_middle_of_its_bounds_stays_below_it() -> None:
    """A unit's total is its one row, less the centre, whichever way that lies."""
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    rows, _ = noiseless(by_status(), engine)
    plain = engine.rows(BY_STATUS)
    assert {s: round(float(m), 5) for s, m in rows} == {s: round(m, 5) for s, m in plain}


# --- what is released ----------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
def test_a_failed_test_shows_nothing_and_of_the_count_one_bit() -> None:
    block = plan()
    test = block.releases[1].stability
    assert test is not None
    for n, bit in ((test.least, 1), (test.least - 1, 0)):
        ((passed, mean),) = release(exact(*[30] * n), block, no_noise).parts
        assert passed == bit
        assert (mean is None) == (not bit)
        assert mean is None or mean == 30 * 10**6


def test_a_noisy_mean_stays_within_the_bounds() -> None:
    block = plan()

    def huge(_law: Law, count: int) -> np.ndarray:
        return np.full(count, 10**12)

    ((_, mean),) = release(exact(*[30] * 5), block, huge).parts
    assert mean == HIGH * 10**6


@pytest.mark.parametrize("accountant", ["approximate", "zcdp"])
def test_test_and_mean_are_paid_for_alike(accountant: str) -> None:
    count, mean = plan(accountant).releases
    ratio = float(mean.noise.scale / count.noise.scale) / mean.sensitivity.linf ** (
        1 if mean.noise.mechanism is Mechanism.DISCRETE_LAPLACE else 2
    )
    assert 0.8 < ratio < 1.25
    assert mean.sensitivity.linf == (HIGH - LOW) * 10**6 // ROWS


@pytest.mark.full("opens a proxy for each item")
def test_where_nothing_is_proved_it_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        plan("pure")
    assert refused.value.reason is Reason.UNSUPPORTED_AGGREGATE
    policy, _ = over(world.well_behaved(), constraints=True)
    replaced = replace(policy, unit=replace(policy.unit, neighbours=Neighbours.REPLACE))
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    assert compiled("SELECT PTR_MEAN(age, 5) FROM customers", replaced, engine).plan
    with pytest.raises(Refused) as refused:
        compiled("SELECT segment, PTR_MEAN(age, 5) FROM customers GROUP BY 1", replaced, engine)
    assert "REPLACE" in str(refused.value.facts["name"])


# --- the audit: 20,000 releases a side -----------------------------------------------------------


def read(block: BlockPlan, table: Exact, sampler: Sampler = real) -> np.ndarray:
    """What the attacker reads: the mean, far below all means where it is withheld.

    Many groups with the same integers are as many independent releases.
    """
    many = tuple((n,) for n in range(RELEASES))
    copies = Exact(list(many), [np.repeat(part, RELEASES) for part in table.parts])
    noisy = release(copies, listing(block, many), sampler)
    return np.array([-1e18 if mean is None else float(mean) for _, mean in noisy.parts])


def refuted(block: BlockPlan, here: Exact, there: Exact, sampler: Sampler = real) -> bool:
    ours, theirs = read(block, here, sampler), read(block, there, sampler)
    delta = float(DELTA)
    return excess(ours, theirs, delta) > 0 or excess(theirs, ours, delta) > 0


def changed(block: BlockPlan, change: Callable[[Release], Release]) -> BlockPlan:
    return replace(block, releases=tuple(map(change, block.releases)))


def untested(made: Release) -> Release:
    """The mean is always shown."""
    return replace(made, stability=made.stability and replace(made.stability, least=-(10**9)))


def less_noise(made: Release) -> Release:
    """Noise for a quarter of what a row changes, and no test."""
    return untested(noised(made, replace(made.noise, scale=made.noise.scale / 4)))


def only_the_mean_has_noise(law: Law, count: int) -> np.ndarray:
    assert isinstance(law, Noise)
    return no_noise(law, count) if law.scale < 1000 else real(law, count)


ALONE, NOBODY = exact(HIGH), exact()
PROPOSED, ONE_LESS = exact(*[LOW] * (ROWS - 1), HIGH), exact(*[LOW] * (ROWS - 1))


def at_the_edge(block: BlockPlan) -> tuple[Exact, Exact]:
    """Just as many rows as pass the test without noise, and one row less."""
    test = block.releases[1].stability
    assert test is not None
    return exact(*[30] * test.least), exact(*[30] * (test.least - 1))


@pytest.mark.full("opens a proxy for each item")
def test_the_claim_stands() -> None:
    block = plan()
    for here, there in ((ALONE, NOBODY), (PROPOSED, ONE_LESS), at_the_edge(block)):
        assert not refuted(block, here, there)
    assert not refuted(changed(block, untested), PROPOSED, ONE_LESS)


def test_what_is_broken_is_refuted() -> None:
    block = plan()
    assert refuted(changed(block, untested), ALONE, NOBODY)
    assert refuted(changed(block, less_noise), PROPOSED, ONE_LESS)
    assert refuted(block, *at_the_edge(block), only_the_mean_has_noise)


def test_epsilon_of_the_audit_is_that_of_the_query() -> None:
    count, mean = plan().releases
    used = 1 / count.noise.scale + mean.sensitivity.l1 / mean.noise.scale
    assert used <= EPSILON
    assert exp(used) > exp(EPSILON) * 0.99
