"""Two neighbours, many releases, one event: whether P(event) <= e^ε·P'(event) + δ can be refuted.

Exact integers come once from the engine; releases are made by `release` with the real sampler.
What the outer query makes of them is post-processing and could only hide a violation. The auditor
knows both databases: the event is a threshold on the logarithm of the likelihood ratio, chosen
on one half of the releases and judged on the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import exp, inf, isclose, sqrt
from typing import Any

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.mechanisms.laws import Law
from dpsql.model.vocabulary import Exact, Mechanism, Noise, Policy
from dpsql.release.release import Sampler, release
from grammar_tests import clopper_pearson, world
from grammar_tests.bound import over
from grammar_tests.draws import ENTROPY, pooled
from grammar_tests.keys_kit import listing, threshold_of, with_threshold
from grammar_tests.laws import BUDGET, SAMPLING_KEY, PlainEngine, compiled, noised, without_unit

RELEASES, BATCH = 20_000, 1_000
ALPHA = 0.001
EPSILON = Fraction(1)
DELTA = Decimal("0.01")
"""Large, so that a wrong δ shows among so few releases."""
UNIT = 7
COUNT = "SELECT COUNT(*) FROM customers"
SUM = "SELECT SUM(quantity) FROM orders"
AVG = "SELECT AVG(income) FROM customers"
MOMENTS = "SELECT VAR_POP(age), AVG(age) FROM customers"
MEANS = "SELECT segment, AVG(age) FROM customers GROUP BY segment"
PUBLIC_KEYS = "SELECT HOUR(placed_at) AS h, COUNT(DISTINCT customer_id) FROM orders GROUP BY 1"
PRIVATE_KEY = "SELECT city, COUNT(*) FROM customers GROUP BY city"
PRIVATE_KEYS = "SELECT device, COUNT(*) FROM events GROUP BY device"
MOMENTS_BY_KEY = "SELECT city, COUNT(*), AVG(age) FROM customers GROUP BY city"
Part = tuple[int, ...]


# --- what is audited ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Neighbours:
    """One block and its exact integers with and without the unit; claimed is (ε, δ)."""

    plan: BlockPlan
    here: Exact
    there: Exact
    delta: float


def lonely() -> world.Tables:
    """A shop in which unit 7 alone lives where it lives, and has an income beyond the bounds."""
    tables = world.flood()
    tables["customers"] = [
        (*row[:3], "Nowhere", row[4], 1e12, *row[6:]) if row[0] == UNIT else row
        for row in tables["customers"]
    ]
    return tables


@cache
def shop_of_the_lonely() -> tuple[Policy, PlainEngine]:
    policy, _ = over(lonely(), constraints=True)
    return policy, PlainEngine(world.build(lonely(), constraints=False))


def neighbours(
    sql: str, accountant: str, damage: Callable[[str], str] = lambda sql: sql
) -> Neighbours:
    """The block of a query over a shop with and without unit 7; `damage` changes its SQL."""
    policy, engine = shop_of_the_lonely()
    delta = Decimal(0) if accountant == "pure" else DELTA
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    prepared = compiled(sql, policy, engine, budget=budget, epsilon=EPSILON)
    assert prepared.plan is not None
    (plan,), (block,) = prepared.plan.blocks, prepared.rewritten.blocks
    block = replace(block, sql=damage(block.sql))
    here = _exact(engine, block)
    with without_unit(engine.connection, world.deletions(UNIT)):
        there = _exact(engine, block)
    return Neighbours(plan, here, there, float(delta))


def _exact(engine: PlainEngine, block: BlockSql) -> Exact:
    return engine.aggregate(block.sql, len(block.keys), block.parts, SAMPLING_KEY)


def real(noise: Law, count: int) -> np.ndarray:
    return mechanisms.sample(noise, count, ENTROPY)


# --- the audit -----------------------------------------------------------------------------------


def losses(
    exact: Exact, plan: BlockPlan, by_key: dict[Any, tuple[Part, Part]], sampler: Sampler
) -> np.ndarray:
    """ln(likelihood here / likelihood there) of each of many releases of one database."""
    laws = [(r.noise.mechanism, float(r.noise.scale)) for r in plan.releases]
    copies, many = copied(*_of_keys(exact, plan, by_key))
    result = np.zeros(RELEASES)
    for start in range(0, RELEASES, BATCH):
        noisy = release(copies, many, sampler)
        for (n, *key), parts in zip(noisy.keys, noisy.parts, strict=True):
            if pair := by_key.get(tuple(key)):
                result[start + n] += sum(
                    _loss(law, x, a, b) for law, x, a, b in zip(laws, parts, *pair, strict=True)
                )
    return result


def _of_keys(
    exact: Exact, plan: BlockPlan, by_key: dict[Any, tuple[Part, Part]]
) -> tuple[Exact, BlockPlan]:
    """The groups that differ: the noise of all others is independent, and tells nothing."""
    places = [n for n, key in enumerate(exact.keys) if key in by_key]
    if plan.domain is not None:
        plan = listing(plan, tuple(key for key in plan.domain if key in by_key))
    return Exact([exact.keys[n] for n in places], [part[places] for part in exact.parts]), plan


def copied(exact: Exact, plan: BlockPlan, count: int = BATCH) -> tuple[Exact, BlockPlan]:
    """Independent releases as one: every key so often, each time with a number."""
    numbered = [(n, *key) for n in range(count) for key in exact.keys]
    if plan.domain is not None:
        plan = listing(plan, tuple((n, *key) for n in range(count) for key in plan.domain))
    return Exact(numbered, [np.tile(p, count) for p in exact.parts]), plan


def _loss(law: tuple[Mechanism, float], x: int | None, a: int, b: int) -> float:
    """By noise of a mechanism and a scale.

    Where a key exists on one side only (the other's part is None) it is conclusive.
    """
    if a is None or b is None:
        return inf if b is None else -inf
    assert x is not None
    mechanism, scale = law
    if mechanism is Mechanism.DISCRETE_LAPLACE:
        return (abs(x - b) - abs(x - a)) / scale
    return ((x - b) ** 2 - (x - a) ** 2) / (2 * scale)


def _pairs(case: Neighbours) -> dict[Any, tuple[Any, Any]]:
    """Per key whose integers differ, those of both sides."""
    here, there = _by_key(case.here), _by_key(case.there)
    width = len(case.plan.releases)
    absent = (0 if case.plan.domain is not None else None,) * width
    return {
        key: pair
        for key in here.keys() | there.keys()
        if (pair := (here.get(key, absent), there.get(key, absent)))[0] != pair[1]
    }


def _by_key(exact: Exact) -> dict[Any, tuple[int, ...]]:
    return {key: tuple(int(p[n]) for p in exact.parts) for n, key in enumerate(exact.keys)}


def excess(ours: np.ndarray, theirs: np.ndarray, delta: float) -> float:
    """A lower bound of P(loss >= t) - e^ε·P'(loss >= t) - δ for a good t: positive refutes."""
    half = len(ours) // 2
    grow = exp(EPSILON)

    def promise(t: float) -> float:
        p, q = np.mean(ours[:half] >= t), np.mean(theirs[:half] >= t)
        doubt = 3 * (sqrt(p / half) + grow * sqrt((q + 1 / half) / half))
        return float(p - grow * q - doubt)

    candidates = np.unique(np.quantile(ours[:half], np.linspace(0, 1, 200), method="lower"))
    best = max((float(t) for t in candidates), key=promise)
    p = clopper_pearson.lower(int(np.sum(ours[half:] >= best)), half, ALPHA)
    q = clopper_pearson.upper(int(np.sum(theirs[half:] >= best)), half, ALPHA)
    return p - grow * q - delta


def refuted(case: Neighbours, sampler: Sampler = real) -> bool:
    """Whether the claim fails in one of the two directions."""
    by_key = _pairs(case)
    assert by_key, "the unit changes nothing: such an audit is empty"
    many = pooled(sampler)
    here = losses(case.here, case.plan, by_key, many)
    there = losses(case.there, case.plan, by_key, many)
    return excess(here, there, case.delta) > 0 or excess(-there, -here, case.delta) > 0


HONEST = (
    *(
        (sql, kind)
        for sql in (COUNT, SUM, AVG, MOMENTS, MEANS, PUBLIC_KEYS)
        for kind in ("pure", "zcdp")
    ),
    *((sql, kind) for sql in (PRIVATE_KEY, PRIVATE_KEYS) for kind in ("approximate", "zcdp")),
    (MOMENTS_BY_KEY, "approximate"),
)


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(("sql", "accountant"), HONEST)
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(neighbours(sql, accountant))


# --- what must be caught -------------------------------------------------------------------------


def half_sensitivity(case: Neighbours) -> Neighbours:
    """Noise for half of what a unit can change."""

    def less(noise: Noise) -> Noise:
        laplace = noise.mechanism is Mechanism.DISCRETE_LAPLACE
        return replace(noise, scale=noise.scale / (2 if laplace else 4))

    releases = tuple(noised(r, less(r.noise)) for r in case.plan.releases)
    return replace(case, plan=replace(case.plan, releases=releases))


def half_noise(noise: Law, count: int) -> np.ndarray:
    halved: np.ndarray = real(noise, count) // 2
    return halved


def low_threshold(case: Neighbours) -> Neighbours:
    """A key is shown at half of its threshold."""
    found = threshold_of(case.plan)
    lowered = replace(found, value=found.value // 2)
    return replace(case, plan=with_threshold(case.plan, lowered))


def any_groups(sql: str) -> str:
    """The choice of a unit's groups forgotten."""
    return re.sub(r" HAVING COUNT\(\*\) > \d+", " HAVING FALSE", sql)


def clamp_after_sum(sql: str) -> str:
    """The clip of a unit's total forgotten."""
    return re.sub(r"WHEN (s0 [<>] -?\d+ )", r"WHEN NULL AND \1", sql)


def unclamped(sql: str) -> str:
    """The statement in which what is above the bounds stays as it is."""
    huge = re.sub(r"WHEN (x\d+) > (\S+) THEN \2", r"WHEN \1 > \2 THEN \1", sql)
    assert huge != sql
    return huge


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_too_little_noise_is_refuted(accountant: str) -> None:
    honest = neighbours(COUNT, accountant)
    assert refuted(half_sensitivity(honest))
    assert refuted(honest, half_noise)


@pytest.mark.parametrize(
    ("sql", "damage"),
    [
        pytest.param(PUBLIC_KEYS, any_groups, marks=pytest.mark.full("as of private keys below")),
        (SUM, clamp_after_sum),
        (AVG, unclamped),
    ],
)
def test_an_unbounded_contribution_is_refuted(sql: str, damage: Callable[[str], str]) -> None:
    assert refuted(neighbours(sql, "zcdp", damage))


@pytest.mark.full("measures neighbours or further data sets")
def test_a_key_shown_too_early_is_refuted() -> None:
    assert refuted(low_threshold(neighbours(PRIVATE_KEY, "approximate")))
    assert refuted(neighbours(PRIVATE_KEYS, "zcdp", any_groups))


# --- the bounds themselves -----------------------------------------------------------------------


def known() -> Iterator[tuple[float, float]]:
    """Closed forms at the ends, and a tabulated interval: 3 of 10 at 95 %."""
    yield clopper_pearson.upper(0, 20, 0.025), 1 - 0.025 ** (1 / 20)
    yield clopper_pearson.lower(20, 20, 0.025), 0.025 ** (1 / 20)
    yield clopper_pearson.lower(1, 10_000, ALPHA), 1 - (1 - ALPHA) ** (1 / 10_000)
    yield clopper_pearson.lower(3, 10, 0.025), 0.06673951
    yield clopper_pearson.upper(3, 10, 0.025), 0.6524529


def test_the_bounds_are_those_of_clopper_and_pearson() -> None:
    assert all(isclose(found, expected, rel_tol=1e-6) for found, expected in known())
    assert clopper_pearson.lower(0, 10, ALPHA) == 0
    assert clopper_pearson.upper(10, 10, ALPHA) == 1
