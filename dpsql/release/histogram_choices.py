"""Choices and quantiles from exact histograms: the chosen cell of each group and its value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dpsql.compiler.plan.lattices import Choice, Grid
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms import margin
from dpsql.mechanisms.count_tree import Found, quantiles
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.exponential import Candidates, exponential, permute_and_flip
from dpsql.mechanisms.scores import HistogramCounts, Rank, Reached, candidates
from dpsql.mechanisms.sparse_vector import first_reached
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Exact, Noise

Key: TypeAlias = tuple[Any, ...]
Chooser: TypeAlias = Callable[[Choice, Candidates], np.ndarray]
"""A function that chooses a cell in every list: the plan's mechanism, or the best cell in tests."""

Columns: TypeAlias = dict[int, np.ndarray]
"""Integers of each group by the id of the released column."""

Noised: TypeAlias = Callable[[Noise, np.ndarray], np.ndarray]
"""A function that adds noise to integers."""


@dataclass(frozen=True, slots=True)
class CountedCells:
    """The cells with rows, as the engine counted them. Its repr hides all values, as that of
    `Exact`.

    `keys[i]` is the group of cell i, and `cells[i]` its place in all histograms one after another.
    """

    keys: list[Key]
    cells: np.ndarray
    counts: np.ndarray

    def __repr__(self) -> str:
        return "Cells(<hidden>)"


def chosen(choice: Choice, listed: Candidates, entropy: Entropy) -> np.ndarray:
    """Choose a cell in every list by the plan's mechanism."""
    if choice.scan is not None:
        assert isinstance(choice.aim, Reached)
        return first_reached(listed, choice.aim, choice.scan, entropy)
    choose = permute_and_flip if choice.flips else exponential
    return choose(listed, choice.rate, entropy)


def separated(exact: Exact, plan: BlockPlan) -> tuple[Exact, CountedCells]:
    """Separate the groups' sums from the cells of their histograms."""
    if not plan.histograms:
        return exact, CountedCells([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    places = np.array([-1 if key[-1] is None else key[-1] for key in exact.keys], dtype=np.int64)
    groups, cells = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
    sums = Exact([exact.keys[n][:-1] for n in groups], [part[groups] for part in exact.parts[:-1]])
    keys = [exact.keys[n][:-1] for n in cells]
    return sums, CountedCells(keys, places[cells], exact.parts[-1][cells])


def chosen_columns(
    cells: CountedCells,
    keys: Sequence[Key],
    plan: BlockPlan,
    chooser: Chooser | None,
    noised: Noised,
) -> Columns:
    """Return the integer of the chosen cell, or of the quantile read from a tree, for each key.

    Cells of groups that are not among the keys are left out. Quantiles of the same values are
    sorted where separate choices have crossed: that costs nothing and never increases the error.
    """
    if not keys:
        return {column.id: np.zeros(0, dtype=object) for column in plan.noisy}
    counted = dict(zip(plan.histograms, _counted(cells, keys, plan), strict=True))
    chosen: Columns = {}
    for choice in plan.choices:
        own = counted[choice.query.histogram]
        assert chooser is not None
        chosen[choice.field.id] = chooser(choice, candidates(own, choice.aim))
    read: dict[int, Found] = {}
    for tree in plan.trees:
        read_cells = quantiles(
            tree.shape,
            counted[tree.histogram],
            tree.read,
            partial(noised, tree.noise),
            margin(tree.noise),
        )
        read |= {field.id: one for field, one in zip(tree.fields, read_cells, strict=True)}
    points = _ordered(plan, {**chosen, **{column: one.cell for column, one in read.items()}})
    grids = {field.id: tree.histogram.grid for tree in plan.trees for field in tree.fields}
    return {
        **points,
        **{half: _half(grids[n], points[n], read[n]) for n, half in plan.halves.items()},
    }


def _half(grid: Grid, points: np.ndarray, read: Found) -> np.ndarray:
    """Return, for each integer, the half-width of an interval around it that holds the true
    quantile.

    A DOUBLE value is rounded to the grid, so it may lie half a step beyond its cell.
    """
    rounded = int(grid.lattice.base == 2)  # noqa: PLR2004
    ends = zip(points.tolist(), read.low.tolist(), read.high.tolist(), strict=True)
    halves = (max(x - grid.ends(low)[0], grid.ends(high)[1] - x) for x, low, high in ends)
    return np.array([half + rounded for half in halves], dtype=object)


def _counted(
    cells: CountedCells, keys: Sequence[Key], plan: BlockPlan
) -> Iterator[HistogramCounts]:
    """Yield the histograms of all keys, one after another."""
    if not plan.histograms:
        return  # without looking at the keys, which may be many
    places = {comparable(key): place for place, key in enumerate(keys)}
    groups = np.array([places.get(comparable(key), -1) for key in cells.keys], dtype=np.int64)
    first = 0
    for histogram in plan.histograms:
        size = histogram.grid.cells
        own = (cells.cells >= first) & (cells.cells < first + size)
        here = np.flatnonzero((groups >= 0) & own)
        located = groups[here] * size + (cells.cells[here] - first)
        order = np.argsort(located)
        yield HistogramCounts(len(keys), size, located[order], cells.counts[here][order])
        first += size


def _ordered(plan: BlockPlan, cells: Columns) -> Columns:
    """Return the integers of cells, with quantiles of the same values in increasing order."""
    scored = {c.field.id: (c.query.histogram, c.query.aim) for c in plan.choices}
    for tree in plan.trees:
        ranks = zip(tree.fields, tree.ranks, strict=True)
        scored |= {field.id: (tree.histogram, rank) for field, rank in ranks}
    alike: dict[tuple[object, ...], list[tuple[Rank, int]]] = defaultdict(list)
    for column, (histogram, aim) in scored.items():
        if isinstance(aim, Rank):
            values = histogram.argument, histogram.condition, histogram.grid
            alike[values].append((aim, column))
    integers = {
        column: np.array([histogram.grid.point(int(c)) for c in cells[column]], dtype=object)
        for column, (histogram, _) in scored.items()
    }
    for same in alike.values():
        columns = [column for _, column in sorted(same, key=lambda rank: rank[0].place)]
        rising = np.sort(np.stack([integers[column] for column in columns]), axis=0)
        integers |= dict(zip(columns, rising, strict=True))
    return integers


def comparable(key: Key) -> Key:
    """Return the key with one object for all NaN, because Python's NaN differs from itself.

    >>> comparable((float("nan"), 1)) == comparable((float("nan"), 1))
    True
    """
    return tuple(_NAN if value != value else value for value in key)  # noqa: PLR0124


_NAN = object()
