"""Trees of noisy counts: what is read from them, their error, what a unit moves, and audits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import cycle
from math import ceil, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql import accountants, mechanisms
from dpsql.compiler.plan.lattices import TreeRelease
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms.count_tree import Shape, best_shape, quantiles
from dpsql.mechanisms.scores import HistogramCounts, Rank
from dpsql.model.vocabulary import Exact, Mechanism, Neighbours, Noise, NoiseEvent
from dpsql.release.histogram_choices import separated
from dpsql.release.release import release
from grammar_tests import test_audit, world
from grammar_tests.bound import over, shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    moved_nodes,
    no_noise,
    violation,
)
from grammar_tests.laws import without_unit as without

RELEASES = test_audit.RELEASES
NINE = [Fraction(n, 10) for n in range(1, 10)]


def listed(column: str, fractions: Sequence[Fraction] = NINE) -> str:
    return ", ".join(f"QUANTILE_DISC({column}, {float(f)})" for f in fractions)


AGES = f"SELECT {listed('age')} FROM customers"
SOME_AGES = f"SELECT {listed('age')} FROM customers WHERE age BETWEEN 62 AND 77"
QUANTITIES = f"SELECT {listed('quantity')} FROM orders"
BY_STATUS = f"SELECT status, {listed('quantity')} FROM orders GROUP BY status"


def lower(fraction: Fraction) -> Rank:
    """The row of rank ⌈fraction·n⌉."""
    return Rank(2 * fraction.numerator, 2 * fraction.denominator, -1)


def counted(lists: Sequence[Sequence[int]], size: int) -> HistogramCounts:
    """Histograms of lists of cells."""
    located = [cell + n * size for n, cells in enumerate(lists) for cell in cells]
    places, counts = np.unique(np.array(located, dtype=np.int64), return_counts=True)
    return HistogramCounts(len(lists), size, places, counts)


def exactly(counts: np.ndarray) -> np.ndarray:
    return counts


def normal(deviation: float) -> Callable[[np.ndarray], np.ndarray]:
    """Noise that is the same in every run: no draw decides a test."""
    chance = np.random.default_rng(17)
    return lambda counts: counts + np.rint(chance.normal(0, deviation, counts.shape)).astype(int)


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
@given(
    st.lists(st.lists(st.integers(0, 69), min_size=1, max_size=30), min_size=1, max_size=4),
    st.sampled_from([Shape(2, 7), Shape(3, 4), Shape(70, 1), Shape(9, 2)]),
)
def test_without_noise_every_quantile_is_that_of_the_rows(
    lists: list[list[int]], shape: Shape
) -> None:
    found = quantiles(shape, counted(lists, 70), [lower(f) for f in NINE], exactly)
    for fraction, cells in zip(NINE, found, strict=True):
        wanted = [sorted(rows)[ceil(fraction * len(rows)) - 1] for rows in lists]
        assert cells.cell.tolist() == wanted


@pytest.mark.parametrize("fraction", NINE, ids=str)
def test_a_rank_with_a_shift_is_read_as_many_rows_away(fraction: Fraction) -> None:
    rows = sorted([3, 5, 8, 13, 21, 34, 55, 60, 61, 65, 68])
    rank = lower(fraction)
    whole = [
        quantiles(Shape(3, 4), counted([rows], 70), [replace(rank, offset=offset)], exactly)
        for offset in (-1 - rank.denominator, rank.denominator - 1)
    ]
    before, behind = ceil(fraction * len(rows)) - 1, ceil(fraction * len(rows)) + 1
    wanted = [rows[max(1, before) - 1], rows[min(len(rows), behind) - 1]]
    assert [found[0].cell.tolist() for found in whole] == [[cell] for cell in wanted]


@pytest.mark.parametrize("shape", [Shape(2, 16), Shape(16, 4)])
def test_the_lower_levels_of_a_large_tree_are_read_below_the_upper_ones(shape: Shape) -> None:
    rows = [[0, 0, 1, 40_000, 65_000], [65_535], [7] * 9 + [60_001]]
    assert shape.whole < shape.levels
    found = quantiles(shape, counted(rows, 65_536), [lower(f) for f in NINE], exactly)
    wanted = [[sorted(r)[ceil(f * len(r)) - 1] for r in rows] for f in NINE]
    assert [cells.cell.tolist() for cells in found] == wanted


def test_quantiles_never_cross_and_stay_in_the_grid_whatever_the_noise() -> None:
    lists = [[3, 50], [], [69] * 5, list(range(70))] * 50
    for shape in (Shape(2, 7), Shape(5, 3)):
        read = quantiles(shape, counted(lists, 70), [lower(f) for f in NINE], normal(5.0))
        found = np.stack([cells.cell for cells in read])
        assert (np.diff(found, axis=0) >= 0).all()
        assert found.min() >= 0
        assert found.max() <= 69


def rank_error(shape: Shape, deviation: float) -> float:
    """The root mean square of how far the ranks of deciles are off, over cells of 50 rows each."""
    lists, each = 100, 50
    places = np.arange(lists * shape.cells)
    rows = HistogramCounts(lists, shape.cells, places, np.full(places.size, each))
    found = quantiles(shape, rows, [lower(f) for f in NINE], normal(deviation))
    wanted = [float(f) * shape.cells for f in NINE]
    off = [(cells.cell + 0.5 - at) * each for cells, at in zip(found, wanted, strict=True)]
    return sqrt(np.mean(np.square(off)))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("shape", [Shape(2, 7), Shape(11, 2), Shape(5, 3), Shape(2, 12)])
def test_ranks_err_as_the_planner_expects(shape: Shape) -> None:
    assert 0.75 < rank_error(shape, 150.0) / (shape.deviation * 150.0) < 1.1


def test_counts_that_were_not_made_consistent_would_be_seen() -> None:
    """Then every level would err as the lowest does: by (b - 1)/6 of the noise's variance."""
    shape = Shape(2, 12)
    apart = sqrt(shape.levels * (shape.branching - 1) / 6)
    assert rank_error(shape, 150.0) / (apart * 150.0) < 0.75


def test_the_planner_takes_the_shape_of_the_least_error() -> None:
    assert best_shape(2, sqrt) == Shape(2, 1)
    assert best_shape(121, sqrt) == Shape(2, 7)
    assert best_shape(121, float).branching > 2  # Laplace: fewer levels
    assert all(best_shape(n, sqrt).cells >= n for n in range(1, 200))


# --- what a unit moves, and what is charged ------------------------------------------------------


def trees(prepared: Prepared) -> tuple[TreeRelease, ...]:
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    assert block.trees
    assert not block.choices
    return block.trees


def with_sensitivity(prepared: Prepared, levels: int) -> Prepared:
    """The plan whose claim is for so many levels."""
    assert prepared.plan is not None

    def claim(tree: TreeRelease) -> TreeRelease:
        l0 = tree.sensitivity.l0 // tree.shape.levels * levels
        return replace(tree, sensitivity=replace(tree.sensitivity, l0=l0))

    blocks = tuple(replace(b, trees=tuple(map(claim, b.trees))) for b in prepared.plan.blocks)
    return replace(prepared, plan=replace(prepared.plan, blocks=blocks))


@pytest.mark.parametrize("sql", [AGES, QUANTITIES, BY_STATUS])
def test_a_unit_moves_no_more_nodes_than_claimed(sql: str) -> None:
    policy, _ = over(world.flood(), constraints=False)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    plan = compiled(sql, policy, engine)
    (tree,) = trees(plan)
    here = integers(plan, engine)
    for unit in [*world.units(world.flood())[::8], 7]:
        with without(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)
        assert violation(plan, here, there) is None
    assert violation(with_sensitivity(plan, tree.shape.levels // 2), here, there) is not None


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("sql", [AGES, BY_STATUS])
def test_a_replaced_unit_moves_no_more_nodes_than_claimed(sql: str) -> None:
    policy, _ = over(world.flood(), constraints=False, neighbours=Neighbours.REPLACE)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    plan = compiled(sql, policy, engine)
    (tree,) = trees(plan)
    sides = []
    for unit in (1, 2, 7):
        with without(engine.connection, world.deletions(unit)):
            sides += integers(plan, engine)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        l1, l2_squared = moved_nodes(tree, sides[one], sides[other])
        assert l1 <= tree.sensitivity.l1
        assert l2_squared <= tree.sensitivity.l2_squared


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("sql", [AGES, BY_STATUS])
def test_the_charge_is_one_release_of_all_levels_and_groups(sql: str, accountant: str) -> None:
    policy, engine = shop()
    plan = compiled(sql, policy, engine, budget=replace(BUDGET, accountant=accountant))
    assert plan.plan is not None
    (tree,) = trees(plan)
    assert plan.plan.event.parts == (NoiseEvent(tree.noise, tree.sensitivity),)
    assert tree.sensitivity.l0 == tree.shape.levels * plan.plan.blocks[0].l0
    assert tree.error < tree.otherwise
    law = accountants.get(accountant)
    limit = law.allowance(Fraction(1), Fraction(BUDGET.query_delta), selects_keys=False)
    assert limit.amount * 99 / 100 <= Fraction(plan.plan.loss.amount, 10**9) <= limit.amount


@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_few_quantiles_are_chosen_and_many_are_read(accountant: str) -> None:
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)
    ways = []
    for count in range(1, 10):
        sql = f"SELECT {listed('age', NINE[:count])} FROM customers"
        plan = compiled(sql, policy, engine, budget=budget).plan
        assert plan is not None
        (block,) = plan.blocks
        assert all(c.expected is not None and c.otherwise is not None for c in block.choices)
        ways.append(len(block.trees))
    assert ways == sorted(ways)
    assert (ways[0], ways[-1]) == (0, 1)


def test_quantiles_chosen_one_by_one_are_put_in_order() -> None:
    policy, engine = shop()
    sql = (
        "SELECT QUANTILE_DISC(age, 0.9), MAX(age), MEDIAN(age), MIN(age), MODE(age) FROM customers"
    )
    plan = compiled(sql, policy, engine).plan
    assert plan is not None
    (block,) = plan.blocks
    falling = iter([[10], [9], [50], [30], [4]])
    noisy = release(
        Exact([], [np.zeros(0, dtype=np.int64)]),
        block,
        no_noise,
        lambda *_: np.array(next(falling)),
    )
    assert noisy.parts == ((30, 50, 10, 9, 4),)


# --- audits --------------------------------------------------------------------------------------


def histogram(exact: Exact, plan: BlockPlan) -> HistogramCounts:
    """The one histogram of a block without keys."""
    _, cells = separated(exact, plan)
    order = np.argsort(cells.cells)
    size = plan.trees[0].histogram.grid.cells
    return HistogramCounts(1, size, cells.cells[order], cells.counts[order])


def nodes(rows: HistogramCounts, shape: Shape) -> list[np.ndarray]:
    """The counts of every level, the lowest first."""
    return [rows.nodes(shape.branching**level).table()[0] for level in range(shape.levels)]


def losses(
    tree: TreeRelease, noise: Noise, ours: HistogramCounts, theirs: HistogramCounts
) -> np.ndarray:
    """ln(likelihood of `ours` / likelihood of `theirs`) of many readings of `ours`."""
    levels = cycle(zip(nodes(ours, tree.shape), nodes(theirs, tree.shape), strict=True))
    found: list[np.ndarray] = []

    def noised(counts: np.ndarray) -> np.ndarray:
        a, b = next(levels)
        assert (counts == a).all()
        noisy = counts + mechanisms.sample(noise, counts.size, ENTROPY).reshape(counts.shape)
        far, near, scale = np.abs(noisy - b), np.abs(noisy - a), float(noise.scale)
        if noise.mechanism is Mechanism.DISCRETE_GAUSSIAN:
            far, near, scale = far**2, near**2, 2 * scale
        found.append((far - near).sum(axis=1) / scale)
        return np.asarray(noisy)

    places = (ours.places + ours.size * np.arange(RELEASES)[:, None]).ravel()
    many = HistogramCounts(RELEASES, ours.size, places, np.tile(ours.counts, RELEASES))
    quantiles(tree.shape, many, tree.ranks, noised)
    height = tree.shape.levels
    parts = [np.concatenate(found[level::height]) for level in range(height)]
    return np.asarray(np.sum(parts, axis=0))


def refuted(sql: str, accountant: str, less: int = 1) -> bool:
    """Whether the claim fails; noise is divided by `less`."""
    case = test_audit.neighbours(sql, accountant)
    (tree,) = case.plan.trees
    power = 1 if tree.noise.mechanism is Mechanism.DISCRETE_LAPLACE else 2
    noise = replace(tree.noise, scale=tree.noise.scale / less**power)
    here, there = histogram(case.here, case.plan), histogram(case.there, case.plan)
    mine, others = losses(tree, noise, here, there), -losses(tree, noise, there, here)
    return (
        test_audit.excess(mine, others, case.delta) > 0
        or test_audit.excess(-others, -mine, case.delta) > 0
    )


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize("sql", [SOME_AGES, QUANTITIES])
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(sql, accountant)


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_noise_for_one_level_is_refuted(accountant: str) -> None:
    assert refuted(SOME_AGES, accountant, less=3)
