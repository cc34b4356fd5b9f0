"""Intervals of quantiles read from trees: the variance behind them, what they cover, the answer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, isnan

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms import count_tree
from dpsql.mechanisms.count_tree import Found, Shape, ends_of_cells, quantiles, reserve
from dpsql.mechanisms.scores import HistogramCounts, Rank
from dpsql.release.finish import margin_factor
from grammar_tests.bound import shop
from grammar_tests.laws import compiled, noiseless
from grammar_tests.test_count_tree import NINE, listed, lower

RELEASES = 2_000
CELLS = 121
CHANCE = np.random.default_rng(7)
ROWS = {
    "even": CHANCE.integers(0, CELLS, 4_000),
    "ties": CHANCE.choice([12, 40, 41, 90], 4_000),
    "skewed": np.minimum(CHANCE.exponential(4, 4_000).astype(int), CELLS - 1),
    "few": CHANCE.integers(30, 60, 150),
}
DEVIATION = 30.0


# --- the variance behind an interval -------------------------------------------------------------


def exact_variance(shape: Shape, fraction: float) -> list[float]:
    """That of the rows up to each end less their share, by least squares over all noisy nodes."""
    cells, widths = shape.cells, [shape.branching**level for level in range(shape.levels)]
    nodes = np.concatenate([np.repeat(np.eye(cells // width), width, 1) for width in widths])
    covariance = np.linalg.inv(nodes.T @ nodes)
    upto = np.concatenate([np.zeros((1, cells)), np.tril(np.ones((cells, cells)))]) - fraction
    return [float(each @ covariance @ each) for each in upto]


@pytest.mark.parametrize("shape", [Shape(2, 4), Shape(3, 3), Shape(7, 1)])
@pytest.mark.parametrize("fraction", [0.5, 0.1])
def test_the_variance_is_that_of_least_squares(shape: Shape, fraction: float) -> None:
    off = ends_of_cells(shape.cells, shape.branching, shape.levels).of_share(fraction)
    assert off**2 == pytest.approx(exact_variance(shape, fraction))


def test_a_place_below_a_node_varies_as_in_the_whole_tree() -> None:
    """With noise in one level only there is nothing that two trees could know differently."""
    inner = ends_of_cells(3, 3, 1).within(np.zeros((1, 1), dtype=int), 4, 1)
    assert inner.inside.tolist()[0][-1] == pytest.approx(1 / 4)
    assert inner.of_share(0.5)[0][-1] == pytest.approx(ends_of_cells(4, 4, 1).of_share(0.5)[1])


# --- coverage ------------------------------------------------------------------------------------


def seeded(deviation: float) -> Callable[[np.ndarray], np.ndarray]:
    chance = np.random.default_rng(11)
    return lambda counts: counts + np.rint(chance.normal(0, deviation, counts.shape)).astype(int)


def read(rows: np.ndarray, shape: Shape, margin: float) -> list[Found]:
    """Deciles of many releases of the same rows."""
    cells, counts = np.unique(rows, return_counts=True)
    places = (CELLS * np.arange(RELEASES)[:, None] + cells).ravel()
    many = HistogramCounts(RELEASES, CELLS, places, np.tile(counts, RELEASES))
    return quantiles(shape, many, [lower(f) for f in NINE], seeded(DEVIATION), margin)


def covered(rows: np.ndarray, shape: Shape, margin: float) -> list[float]:
    """How often the value is between the ends, for each decile."""
    wanted = [np.sort(rows)[ceil(f * len(rows)) - 1] for f in NINE]
    found = zip(read(rows, shape, margin), wanted, strict=True)
    return [float(np.mean((each.low <= value) & (value <= each.high))) for each, value in found]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("branching", "whole"), [(2, 4096), (2, 16), (5, 4096)])
def test_intervals_cover(
    name: str, branching: int, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the lower levels are read below the upper ones."""
    monkeypatch.setattr(count_tree, "_READ_WHOLE", whole)
    shape = Shape(2, 7) if branching == 2 else Shape(5, 3)
    assert (shape.whole < shape.levels) == (whole == 16)
    assert min(covered(ROWS[name], shape, 1.96 * DEVIATION)) >= 0.95


def test_intervals_of_half_the_margin_would_be_seen() -> None:
    assert min(covered(ROWS["even"], Shape(2, 7), 0.5 * 1.96 * DEVIATION)) < 0.9


@pytest.mark.full("measures neighbours or further data sets")
def test_ties_are_certain_and_wide_gaps_are_not() -> None:
    """Half of the rows at one value; a tenth of the others, where no row is for long."""
    rows = np.array([40] * 2_000 + [10] * 1_000 + [100] * 1_000)
    (middle,) = {(int(a), int(b)) for a, b in zip(*ends(rows, 4), strict=True)}
    assert middle == (40, 40)
    low, high = ends(np.array([10] * 2_000 + [100] * 2_000), 4)
    assert ((low == 10) & (high == 100)).mean() > 0.9


def ends(rows: np.ndarray, decile: int) -> tuple[np.ndarray, np.ndarray]:
    found = read(rows, Shape(2, 7), 1.96 * DEVIATION)[decile]
    return found.low, found.high


def test_of_nothing_all_is_possible() -> None:
    nothing = HistogramCounts(1, CELLS, np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    (found,) = quantiles(Shape(2, 7), nothing, [Rank(2, 4, -1)], lambda counts: counts, 5.0)
    assert (found.low.tolist(), found.high.tolist()) == ([0], [CELLS - 1])


# --- ends ----------------------------------------------------------------------------------------


def passed(shape: Shape, rows: int) -> float:
    """How often the reading of either end is beyond all rows, which are in the middle."""
    inside = np.unique(ROWS["few"], return_counts=True)
    places = (CELLS * np.arange(RELEASES)[:, None] + inside[0]).ravel()
    many = HistogramCounts(RELEASES, CELLS, places, np.tile(20 * inside[1], RELEASES))
    asked = [Rank(0, 2, 1).at(rows), Rank(2, 2, -1).at(rows)]
    low, high = quantiles(shape, many, asked, seeded(DEVIATION))
    beyond = [low.cell < ROWS["few"].min(), high.cell > ROWS["few"].max()]
    return float(max(np.mean(beyond, axis=1)))


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("shape", [Shape(2, 7), Shape(5, 3)])
def test_noise_seldom_passes_for_an_end(shape: Shape) -> None:
    assert passed(shape, reserve(shape, 1.96 * DEVIATION)) < 0.06
    assert passed(shape, 1) > 0.5


def block(select: str) -> BlockPlan:
    policy, engine = shop()
    plan = compiled(select, policy, engine).plan
    assert plan is not None
    return plan.blocks[0]


def test_ends_are_read_from_the_tree_of_the_quantiles() -> None:
    """They cost nothing more, and are closer to the ends than choices that share the budget."""
    alone = block(f"SELECT {listed('age')} FROM customers")
    with_ends = block(f"SELECT {listed('age')}, MIN(age), MAX(age) FROM customers")
    assert not with_ends.choices
    (tree,) = with_ends.trees
    assert tree.noise == alone.trees[0].noise
    assert [rank.is_extreme for rank in tree.read] == [*[False] * 9, True, True]
    assert all(rank.rows == tree.reserve > 1 for rank in tree.read[-2:])
    chosen = block("SELECT MEDIAN(age), MIN(age), MAX(age) FROM customers").choices
    assert all(c.aim.rows > tree.reserve for c in chosen[1:] if isinstance(c.aim, Rank))


def test_ends_of_many_rows_each_are_chosen_by_people() -> None:
    made = block(f"SELECT {listed('quantity')}, MAX(quantity) FROM orders")
    assert len(made.trees) == len(made.choices) == 1


# --- in an answer --------------------------------------------------------------------------------


def errors(select: str) -> tuple[Prepared, list[float | None], list[object]]:
    """The errors and the values of one row without noise, and its plan."""
    policy, engine = shop()
    plan = compiled(select, policy, engine)
    assert plan.plan is not None
    assert plan.plan.blocks[0].trees
    rows, margins = noiseless(plan, engine)
    return plan, list(margins[0]), list(rows[0])


def test_an_answer_has_the_half_width_as_its_margin() -> None:
    plan, found, values = errors(
        f"SELECT {listed('age')}, 2 * MEDIAN(age) AS e, DP_INTERVAL_HIGH(e) FROM customers"
    )
    assert plan.plan is not None
    *margins, twice = [e * margin_factor(plan.plan) for e in found[:-1] if e is not None]
    assert len(margins) == 9
    assert all(0 < m == pytest.approx(round(m)) for m in margins)
    assert all(m >= round(m) for m in margins)
    assert twice == pytest.approx(2 * margins[4])
    assert found[-1] is None
    assert values[-1] == pytest.approx(2 * float(str(values[4])) + twice)


@pytest.mark.parametrize(
    "last",
    [
        "QUANTILE_DISC(age, 0.9) - QUANTILE_DISC(age, 0.1)",
        "QUANTILE_DISC(age, [0.1, 0.9])",
        "MODE(age)",
        "MAX(age)",
    ],
)
def test_an_error_that_is_not_known_is_not_told(last: str) -> None:
    """Of two quantiles of one tree, of a text of them, and of what is chosen beside them."""
    _, found, _ = errors(f"SELECT {listed('age')}, {last} FROM customers")
    assert [e is not None and isnan(e) for e in found] == [*[False] * 9, True]


def test_quantiles_of_dates_have_no_margin_in_numbers() -> None:
    fractions = [Fraction(n, 40) for n in range(1, 40)]
    _, found, _ = errors(f"SELECT {listed('joined', fractions)} FROM customers")
    assert all(e is not None and isnan(e) for e in found)


def test_half_of_every_interval_is_a_column_of_its_own() -> None:
    policy, engine = shop()
    plan = compiled(f"SELECT {listed('age')} FROM customers", policy, engine)
    assert plan.plan is not None
    (made,) = plan.plan.blocks
    assert len(made.halves) == len(made.trees[0].ranks) == 9
    assert len(made.noisy) == len(made.columns) == 18
    assert accountants.get("zcdp").loss(plan.plan.event) == plan.plan.loss
    assert all(e is not None and isnan(e) for e in plan.rewritten.expected)
