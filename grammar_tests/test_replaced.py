"""Law 2 under REPLACE: what one unit's data becoming another's changes, for all that is released.

Sums, choices, flips, scans, trees, tops, thresholds and trials are compared exactly with what their
charge stands for. The twin is the same query as it is planned for units that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import erfc, expm1, isqrt, log1p, sqrt
from random import Random
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dpsql.compiler.plan.lattices import Choice
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import (
    ThresholdKeys,
    TopKeys,
    TrialKeys,
)
from dpsql.mechanisms.scores import HistogramCounts as Histograms
from dpsql.mechanisms.scores import Reached, candidates
from dpsql.mechanisms.tails import laplace_tail
from dpsql.mechanisms.threshold import Threshold
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Mechanism, Neighbours, Noise, Policy, Sensitivity
from dpsql.preparation.prepare import KnownSteps, prepare
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.fuzz_forms import form
from grammar_tests.fuzz_queries import query, swayed_query
from grammar_tests.laws import (
    BUDGET,
    Counted,
    PlainEngine,
    RememberingEngine,
    charges,
    claimed,
    compiled,
    integers,
    moved_nodes,
    noiseless_blocks,
    parsed,
    promised,
    sways,
    without_unit,
)
from grammar_tests.test_laws import ACCEPTED, private

Broken = tuple[str, str]
"""What kind of release broke its claim, and how."""


def broken(
    plan: Prepared, neighbours: Neighbours, here: Sequence[Counted], there: Sequence[Counted]
) -> Iterator[Broken]:
    """How two databases in which one unit's data differ break the claims of a plan."""
    assert plan.plan is not None
    for block, ours, theirs in zip(plan.plan.blocks, here, there, strict=True):
        yield from _sums(block, neighbours, ours, theirs)
        yield from _top(block, ours, theirs)
        for choice in block.choices:
            yield from _choice(choice, ours, theirs)
        for tree in block.trees:
            l1, l2_squared = moved_nodes(tree, ours, theirs)
            if l1 > tree.sensitivity.l1 or l2_squared > tree.sensitivity.l2_squared:
                yield "tree", f"moved by {l1} and {l2_squared}"
        yield from _keys(block, ours, theirs)


def _sums(
    block: BlockPlan, neighbours: Neighbours, ours: Counted, theirs: Counted
) -> Iterator[Broken]:
    """L1 and squared L2 of each charge, over all of its measurements and groups."""
    claims, zero = claimed(block, neighbours), (0,) * len(block.queries)
    for charge in charges(block):
        steps = [
            ours.get(key, zero)[n] - theirs.get(key, zero)[n]
            for key in ours | theirs
            for n in charge
            if n < len(block.keys.judged)
            or promised(block, n, ours.get(key, zero), theirs.get(key, zero))
        ]
        claim, l1 = claims[charge[0]], sum(map(abs, steps))
        l2_squared = sum(step * step for step in steps)
        if l1 > claim.l1 or l2_squared > claim.l2_squared:
            kind = "vector" if len(charge) > 1 else "sum"
            yield kind, f"{charge} moved by {l1} and {isqrt(l2_squared)}²"


def _top(block: BlockPlan, ours: Counted, theirs: Counted) -> Iterator[Broken]:
    """The most by which the difference of two scores moves, and the epsilon that it costs."""
    if not isinstance(block.keys, TopKeys):
        return
    top = block.keys.top
    nothing = (0,) * len(block.queries)
    steps = [ours.get(key, nothing)[0] - theirs.get(key, nothing)[0] for key in block.keys.domain]
    if top.rate * (max(steps) - min(steps)) > top.epsilon:
        yield "top", f"differences moved by {max(steps) - min(steps)}"


def _choice(choice: Choice, ours: Counted, theirs: Counted) -> Iterator[Broken]:
    """Each group that is swayed costs; a scan may be swayed one way, by one row."""
    if choice.scan is not None:
        steps = [step for step in _reached(choice, ours, theirs) if step.any()]
        if len(steps) > choice.rounds:
            yield "scan", f"{len(steps)} groups swayed, {choice.rounds} paid for"
        if any(step.max() > 1 or step.min() < -1 or np.ptp(step) > 1 for step in steps):
            yield "scan", "a group swayed by more than one row one way"
        return
    costs = [choice.rate * sway for sway in sways(choice, ours, theirs).values()]
    squares = sum((cost**2 for cost in costs), Fraction(0))
    total, epsilon = sum(costs, Fraction(0)), choice.epsilon
    if total > choice.rounds * epsilon or squares > choice.rounds * epsilon**2:
        yield "flip" if choice.flips else "choice", f"swayed by {costs}"


def _reached(choice: Choice, ours: Counted, theirs: Counted) -> Iterator[np.ndarray]:
    """By group, how many rows more reach each cell here than there."""
    assert isinstance(choice.aim, Reached)
    histogram = choice.query.histogram
    cells = np.arange(histogram.grid.cells)
    for at in {at for at in ours.cells | theirs.cells if at[0] == histogram}:
        sides = []
        for side in (ours, theirs):
            counted = sorted(side.cells.get(at, {}).items())
            places, counts = (np.array([c[n] for c in counted], dtype=np.int64) for n in (0, 1))
            found = candidates(Histograms(1, len(cells), places, counts), choice.aim)
            sides.append(found.best[0] - found.behind_at(cells))
        yield sides[0] - sides[1]


def _keys(block: BlockPlan, ours: Counted, theirs: Counted) -> Iterator[Broken]:
    """Lone keys are shown with probability delta at most; counts that trials see move by one."""
    if isinstance(block.keys, TrialKeys):
        trials = block.keys.trials
        steps = [ours.get(k, (0,))[0] - theirs.get(k, (0,))[0] for k in ours | theirs]
        moved = sum(map(bool, steps))
        if moved > trials.keys or any(abs(step) > 1 for step in steps):
            yield "trials", f"{moved} counts moved, {trials.keys} paid for"
    if isinstance(block.keys, ThresholdKeys):
        threshold = block.keys.threshold
        lone = [side[key] for side in (ours, theirs) for key in side if key in _lone(ours, theirs)]
        columns = threshold.counted.columns
        misses = [log1p(-_chance(threshold, sum(parts[:columns]))) for parts in lone]
        shown = -expm1(sum(misses))
        if shown > float(threshold.delta) * (1 + 1e-6):
            yield "threshold", f"{len(lone)} lone keys are shown with probability {shown}"


def _lone(ours: Counted, theirs: Counted) -> set[Any]:
    return {*ours} ^ {*theirs}


_FINE = 10**4
"""Steps of a deviation from which on both tails differ by less than 1e-7 of them up to 7 σ."""


def _chance(threshold: Threshold, count: int) -> float:
    """That a key of this exact count of units, in steps, is shown."""
    reach, noise = threshold.value - count, threshold.noise
    draws = threshold.counted.columns
    if noise.mechanism is Mechanism.DISCRETE_LAPLACE:
        return laplace_tail(float(noise.scale), draws, reach)
    if draws > 1:
        return 1 - NormalDist().cdf((reach - 0.5) / sqrt(draws * noise.scale))
    return _gaussian_tail(noise, reach)


@cache
def _gaussian_tail(noise: Noise, reach: int) -> float:
    """Summed exactly; of a grid that is fine the normal tail half a step below is as good."""
    deviation = isqrt(int(noise.scale)) + 1
    if deviation > _FINE:
        return erfc((reach - 0.5) / sqrt(2 * noise.scale)) / 2
    x = np.arange(-60 * deviation, 60 * deviation + 1)
    weights = np.exp(-(x.astype(float) ** 2) / (2 * float(noise.scale)))
    return float(weights[x >= reach].sum() / weights.sum())


# --- every kind of release, as it is planned for replaced units, and its twin --------------------

SPARSE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector')"
NINE = ", ".join(f"QUANTILE_DISC(quantity, {n / 10})" for n in range(1, 10))
TOTALS = "SELECT SUM(quantity) AS x FROM orders GROUP BY customer_id"
STATUSES = "SELECT status AS s FROM orders GROUP BY s"
KINDS = {
    "sum": ("SELECT status, SUM(quantity - 10) AS n FROM orders GROUP BY status", "zcdp"),
    "vector": (f"SELECT AVG(x) AS a FROM ({TOTALS}) AS t", "pure"),
    "choice": ("SELECT HOUR(placed_at) AS h, MODE(status) AS m FROM orders GROUP BY 1", "zcdp"),
    "flip": ("SELECT MODE(country) AS m FROM customers", "pure"),
    "scan": (
        f"SELECT {SPARSE} HOUR(placed_at) AS h, MAX(quantity) AS m FROM orders GROUP BY 1",
        "zcdp",
    ),
    "tree": (f"SELECT HOUR(placed_at) AS h, {NINE} FROM orders GROUP BY 1", "zcdp"),
    "top": (f"{STATUSES} ORDER BY SUM(quantity - 10) DESC, s LIMIT 1", "zcdp"),
    "threshold": ("SELECT device, COUNT(*) AS n FROM events GROUP BY device", "zcdp"),
    "trials": ("SELECT DISTINCT device FROM events", "approximate"),
}
UNITS = (1, 7, 8)


def found(sql: str, accountant: str, neighbours: Neighbours) -> set[str]:
    """The kinds of release whose claims break where one rival's data become another's."""
    policy, _ = over(world.rivals(), constraints=False, neighbours=neighbours)
    engine = PlainEngine(world.build(world.rivals(), constraints=False))
    plan = compiled(sql, policy, engine, budget=replace(BUDGET, accountant=accountant))
    sides = []
    for unit in UNITS:
        with without_unit(engine.connection, world.deletions(unit)):
            sides.append(integers(plan, engine))
    pairs = ((here, there) for n, here in enumerate(sides) for there in sides[n + 1 :])
    return {kind for pair in pairs for kind, _ in broken(plan, neighbours, *pair)}


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_its_claim_for_replaced_units_and_not_for_added_ones(kind: str) -> None:
    sql, accountant = KINDS[kind]
    assert found(sql, accountant, Neighbours.REPLACE) == set()
    assert kind in found(sql, accountant, Neighbours.ADD_REMOVE)


# --- every case ----------------------------------------------------------------------------------

TURNS = {
    "rivals": (world.rivals, UNITS, 4, 0),
    "second rivals": (world.rivals, UNITS, 4, 1),
    "third rivals": (world.rivals, UNITS, 4, 2),
    "fourth rivals": (world.rivals, UNITS, 4, 3),
    "adversarial": (world.adversarial, (1, 2), 6, 0),
}
"""Data, whose data become whose, on how many cases each of which one is compared, and which."""
OTHERS = [
    pytest.param(name, marks=pytest.mark.campaign)
    for name in ("second rivals", "third rivals", "fourth rivals")
]
PARTS = 5
"""Tests among which the cases are divided."""


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", ["rivals", "adversarial", *OTHERS])
def test_a_replaced_unit_moves_no_more_than_claimed(name: str, part: int) -> None:
    """Remove one unit here, another there; the two databases are neighbours."""
    made, units, turns, first = TURNS[name]
    policy, _ = over(made(), constraints=False, neighbours=Neighbours.REPLACE)
    engine = PlainEngine(world.build(made(), constraints=False))
    plans = [
        (case.id, plan)
        for case, plan in private(policy, ACCEPTED[part * turns + first :: PARTS * turns])
    ]
    staged = [noiseless_blocks(plan, engine) if plan.rewritten.stages else [] for _, plan in plans]
    sides = []
    for unit in units:
        with without_unit(engine.connection, world.deletions(unit)):
            without = RememberingEngine(engine.connection)
            sides.append(
                [
                    integers(plan, without, released)
                    for (_, plan), released in zip(plans, staged, strict=True)
                ]
            )
    for n, one in enumerate(sides):
        for other in sides[n + 1 :]:
            for (case, plan), here, there in zip(plans, one, other, strict=True):
                assert list(broken(plan, Neighbours.REPLACE, here, there)) == [], case


# --- random queries ------------------------------------------------------------------------------

WRITERS = (query, swayed_query, form)
ACCOUNTANTS = ("zcdp", "pure", "approximate", "tight")


def broken_at_random(seed: int, count: int, neighbours: Neighbours) -> dict[str, list[Broken]]:
    """Random queries, and searches for their limits, whose claims break for replaced units."""
    policy, _ = over(world.rivals(), constraints=False, neighbours=neighbours)
    engine = PlainEngine(world.build(world.rivals(), constraints=False))
    chance = Random(seed)  # noqa: S311
    plans: dict[str, Prepared] = {}
    while len(plans) < count:
        sql = chance.choice(WRITERS)(chance.randbytes(chance.randrange(40, 400)))
        for plan in _planned(sql, policy, engine, chance.choice(ACCOUNTANTS)):
            plans[f"{len(plans)}: {sql}"] = plan
    staged = {
        sql: noiseless_blocks(plan, engine) if plan.rewritten.stages else []
        for sql, plan in plans.items()
    }
    sides = []
    for unit in UNITS:
        with without_unit(engine.connection, world.deletions(unit)):
            without = RememberingEngine(engine.connection)
            sides.append({s: integers(plan, without, staged[s]) for s, plan in plans.items()})
    said: dict[str, list[Broken]] = {}
    for (sql, plan), (here, there) in product(plans.items(), combinations(sides, 2)):
        said.setdefault(sql, []).extend(broken(plan, neighbours, here[sql], there[sql]))
    return {sql: why for sql, why in said.items() if why}


def _planned(sql: str, policy: Policy, engine: PlainEngine, accountant: str) -> Iterator[Prepared]:
    """A query's plan and, where limits are to be found, that of its search; none if refused."""
    budget = replace(BUDGET, accountant=accountant)
    public = engine.public
    try:
        asked = parsed(sql, "duckdb"), policy, budget, Fraction(1), public, public.evaluate
        plans = [prepare(*asked)]
        polls = tuple(poll.key for poll in plans[0].polls)
        plans += [prepare(*asked, KnownSteps({}, polls))] if polls else []
    except Refused:
        return
    yield from (plan for plan in plans if plan.plan is not None)


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        pytest.param(0, 15, marks=pytest.mark.full("a slice of a campaign")),
        *(pytest.param(seed, 500, marks=pytest.mark.campaign) for seed in range(1, 9)),
    ],
)
def test_random_queries_keep_their_claims_for_replaced_units(seed: int, count: int) -> None:
    assert broken_at_random(seed, count, Neighbours.REPLACE) == {}


@pytest.mark.full("hundreds of random queries")
def test_wrong_twin_random_queries_planned_for_units_that_come_and_go_break_theirs() -> None:
    said = broken_at_random(0, 12, Neighbours.ADD_REMOVE)
    assert {kind for why in said.values() for kind, _ in why} >= {"sum"}


# --- the distances that a sensitivity claims -----------------------------------------------------


@pytest.mark.parametrize("l0", [1, 2])
@pytest.mark.parametrize("clip", [(0, 5), (-5, 0), (-3, 4), (-4, 3), (2, 3), (-1, 6), (0, 0)])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_sensitivity_is_the_largest_distance_of_neighbours(
    neighbours: Neighbours, clip: tuple[int, int], l0: int
) -> None:
    """By all units in up to `l0` of enough groups, with totals of 0 or at an end of the clip."""
    ends = {0, *clip}
    units = [u for u in product(ends, repeat=2 * l0) if sum(map(bool, u)) <= l0]
    others = units if neighbours is Neighbours.REPLACE else [(0,) * (2 * l0)]
    steps = [[a - b for a, b in zip(*pair, strict=True)] for pair in product(units, others)]
    claim = Sensitivity(l0, *clip, neighbours)
    assert claim.l1 == max(sum(map(abs, step)) for step in steps)
    assert claim.l2_squared == max(sum(x * x for x in step) for step in steps)
