"""Quantiles of many groups from trees of noisy counts, all read from one release.

A level of the tree divides the cells of a histogram into nodes of equal width. A row counts in one
node of each level. Once the nodes have noise the rest is post-processing. The counts are made
consistent by weighted least squares up and down the tree (Hay, Rastogi, Miklau, Suciu 2010, Section
4), and on the way down no node is negative. So the rows up to a cell never decrease from cell to
cell, and the quantiles never cross.

Nodes that no quantile reads need no noise: in a large tree the lower levels are drawn only below
nodes that hold a quantile.

Proof (PRIVACY.md R51). A row counts in one node of each level, so that c rows of a unit move the
nodes of a level by at most c together. Which lower nodes are drawn follows from released counts.

The interval of cells that holds a quantile: the rows up to a cell, less the share α of all rows,
have a known error variance. The estimates of a tree are linear in its noise before they are kept
above zero, which only brings them nearer. Cell q holds the quantile where the rows up to q reach α
of all and those up to q - 1 do not. Cell q is excluded where one of these two contradicts the
estimates by more than their half-width. So the true cell is excluded no more often than a test of
either side fails (the inversion of a test; nothing depends on how many cells there are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, sqrt
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.entropy import distinct
from dpsql.mechanisms.scores import MOST_STEPS, HistogramCounts, Rank
from dpsql.model.dataclass import dataclass

Noised: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""A function that adds noise to an array of counts."""

_READ_WHOLE = 1 << 12
"""Largest width of a level down to which a tree is drawn completely."""

_HAIR = 1 / (2 * MOST_STEPS)

_AT_ONCE = 1 << 20
"""Number of nodes that are drawn together: about 50 MB of arrays."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A tree of `levels` levels below the root, where each node has `branching` children.

    >>> Shape(4, 3).cells
    64
    """

    branching: int
    levels: int

    @property
    def cells(self) -> int:
        return int(self.branching**self.levels)

    @property
    def whole(self) -> int:
        """Number of levels that are drawn completely."""
        widths = [self.branching**level for level in range(1, self.levels + 1)]
        return max(1, len([width for width in widths if width <= _READ_WHOLE]))

    @property
    def deviation(self) -> float:
        """Root mean squared rank error of a cell, in rows, for noise of deviation 1.

        The total of a node of height h has variance v(0) = 1, 1/v(h) = 1 + 1/(b·v(h-1)), from the
        levels below. Given their sum, u of b such nodes vary by v·u·(1 - u/b): on average over the
        position u of the cell among them, by v·(b - 1)/6 (a Brownian bridge between nodes). Given
        the total, the levels' errors are independent.
        """
        branching, variance, total = self.branching, 1.0, 0.0
        for _ in range(self.levels):
            total += variance * (branching - 1) / 6
            variance = branching * variance / (1 + branching * variance)
        return sqrt(total)


def best_shape(cells: int, deviation: Callable[[int], float]) -> Shape:
    """Return the shape with the least error, given the noise deviation for a number of levels.

    >>> best_shape(65536, lambda levels: levels**0.5).branching  # Gaussian
    2
    >>> best_shape(65536, lambda levels: float(levels)).branching  # Laplace
    16
    """
    shapes = _shapes(cells)
    return min(shapes, key=lambda shape: shape.deviation * deviation(shape.levels))


def _shapes(cells: int) -> Iterable[Shape]:
    """Yield, for every number of levels, the shape of least branching with room for the cells."""
    for levels in range(1, max(1, (cells - 1).bit_length()) + 1):
        branching = max(2, round(cells ** (1 / levels)))
        yield Shape(branching + (branching**levels < cells), levels)


@dataclass(frozen=True, slots=True)
class Found:
    """A quantile of each list: its estimated cell, and the first and last cell of its interval."""

    cell: np.ndarray
    low: np.ndarray
    high: np.ndarray


def quantiles(
    shape: Shape,
    counted: HistogramCounts,
    ranks: Sequence[Rank],
    noised: Noised,
    margin: float = 0.0,
) -> list[Found]:
    """Find, for every rank, the cell of each histogram that holds the row of that rank.

    An extreme rank counts rows from its end, but at most half of all rows. The interval of cells
    follows from `margin`, the half-width of the noise of a count.

    >>> rows = HistogramCounts(1, 10, np.array([2, 5]), np.array([3, 2]))
    >>> ranks = [Rank(2, 4, -1), Rank(16, 20, -1)]
    >>> [found.cell for found in quantiles(Shape(2, 4), rows, ranks, lambda counts: counts)]
    [array([2]), array([5])]
    """
    step = max(1, _AT_ONCE // (2 * shape.branching**shape.whole))
    parts = [
        _read(shape, counted.between(n, min(n + step, counted.lists)), ranks, noised, margin)
        for n in range(0, counted.lists, step)
    ]
    return [_joined([part[n] for part in parts]) for n in range(len(ranks))]


def _joined(parts: Sequence[Found]) -> Found:
    return Found(
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
    )


def _read(
    shape: Shape, counted: HistogramCounts, ranks: Sequence[Rank], noised: Noised, margin: float
) -> list[Found]:
    branching, left = shape.branching, shape.levels - shape.whole
    width = branching**left
    rows = _estimates(branching, shape.whole, counted.nodes(width), noised)
    empty = rows.sum(axis=1) <= 0
    rows[empty] = 1  # nothing is known: any cell is as good
    total = rows.sum(axis=1)
    off = ends_of_cells(rows.shape[1], branching, shape.whole)
    parts = []
    for rank in ranks:
        target = _target(rank, total)
        node, beyond = _passed(rows, target)
        near = margin * off.of_share(float(rank.fraction))
        low, high = between(rows, target, near, node)
        parts.append((Found(node, low, high), beyond))
    if left:
        parts = _below(shape, counted, ranks, rows, parts, noised, margin)
    return [_clamped(each, empty, counted.size - 1) for each, _ in parts]


def _clamped(read: Found, empty: np.ndarray, last: int) -> Found:
    """Limit cells to the last one; lists without known rows get all cells as their interval."""
    cell, low, high = (np.minimum(cells, last) for cells in (read.cell, read.low, read.high))
    return Found(cell, np.where(empty, 0, low), np.where(empty, last, high))


def _below(
    shape: Shape,
    counted: HistogramCounts,
    ranks: Sequence[Rank],
    rows: np.ndarray,
    levels: Sequence[tuple[Found, np.ndarray]],
    noised: Noised,
    margin: float,
) -> list[tuple[Found, np.ndarray]]:
    """Refine quantiles from nodes to cells, by drawing the lower levels below nodes that hold
    quantiles.
    """
    branching, left = shape.branching, shape.levels - shape.whole
    width = branching**left
    own = np.arange(len(rows)) * rows.shape[1]
    nodes = distinct(np.concatenate([own + each.cell for each, _ in levels]))
    inside = counted.below(nodes, width)
    lower = _estimates(branching, left, inside, noised, rows.ravel()[nodes])
    off = ends_of_cells(width, branching, left)
    cells = []
    for rank, (each, beyond) in zip(ranks, levels, strict=True):
        node = each.cell
        tree = lower[np.searchsorted(nodes, own + node)]
        cell, rest = _passed(tree, beyond)
        near = off.within(node[:, None], branching, shape.whole).of_share(float(rank.fraction))
        low, high = between(tree, beyond, margin * near, cell)
        low = np.where(each.low == node, node * width + low, each.low * width)
        high = np.where(each.high == node, node * width + high, (each.high + 1) * width - 1)
        cells.append((Found(node * width + cell, low, high), rest))
    return cells


def _target(rank: Rank, total: np.ndarray) -> np.ndarray:
    """Return the target number of rows, a hair to the side of the rank, to separate whole rows.

    Half a row, as in the scores of choices, would let the quantiles of less than a row cross.
    """
    if rank.is_extreme:
        inside = np.minimum(rank.rows - _HAIR, total / 2)
        return np.asarray(total - inside if rank.numerator else inside)
    plain = abs(rank.offset) == 1
    beside = np.sign(rank.offset) * _HAIR if plain else rank.offset / rank.denominator
    return np.asarray(float(rank.fraction) * total + beside)


def reserve(shape: Shape, margin: float) -> int:
    """Return the least distance in rows from the end of an extreme rank, so that noise is not taken
    for rows.

    `margin` is the half-width of the noise of a count, the largest error at any end of a cell.

    >>> reserve(Shape(2, 7), 20.0)
    22
    """
    off = ends_of_cells(shape.branching**shape.whole, shape.branching, shape.whole)
    return max(1, ceil(margin * float(np.sqrt(off.variance.max()))))


def _passed(rows: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first cell of each list at which the cumulated rows reach the target.

    The second array says how many of the target's rows are in the cell itself.
    """
    upto = rows.cumsum(axis=1)
    cell = np.minimum((upto < target[:, None]).sum(axis=1), rows.shape[1] - 1)
    lists = np.arange(len(rows))
    return cell, target - (upto[lists, cell] - rows[lists, cell])


def _estimates(
    branching: int,
    levels: int,
    counted: HistogramCounts,
    noised: Noised,
    total: np.ndarray | None = None,
) -> np.ndarray:
    """Estimate the rows of all nodes of the lowest level, consistent and not negative: one list per
    row.

    Without a `total` of each list, the best-fitting total is used.
    """
    widths = [branching**level for level in range(levels)]
    noisy = [noised(counted.nodes(width).table()).astype(float) for width in widths]
    upward = [(noisy[0], np.ones(noisy[0].shape[1]))]
    for own in noisy[1:]:
        below, variance = (_families(each, branching).sum(axis=-1) for each in upward[-1])
        # Own count of variance 1 and the sum of lower nodes, each by its inverse variance.
        fit = (own * variance + below) / (1 + variance)
        upward.append((fit, variance / (1 + variance)))
    top = upward[-1][0]
    rows = (top.sum(axis=1) if total is None else total)[:, None]
    branches = top.shape[1]
    for fit, variance in reversed(upward):
        rows = _spread(np.maximum(rows, 0), fit, variance, branches)
        branches = branching
    return rows


def _families(nodes: np.ndarray, branching: int) -> np.ndarray:
    """Group the nodes below each node of the level above, padded with zeros."""
    *rest, count = nodes.shape
    missing = -count % branching
    filled = np.concatenate([nodes, np.zeros((*rest, missing))], axis=-1)
    return filled.reshape(*rest, -1, branching)


def _spread(
    parents: np.ndarray, fit: np.ndarray, variance: np.ndarray, branching: int
) -> np.ndarray:
    """Return the nearest nonnegative counts to `fit`, weighted by variance, with the parents' sums.

    They are max(0, fit - λ·variance), λ by family: of the families' k largest fit/variance, for the
    largest k whose smallest stays above λ = (Σfit - sum)/Σvariance.
    """
    values, weights = _families(fit, branching), _families(variance, branching)
    weights = np.broadcast_to(weights, values.shape)
    ratio = np.where(weights > 0, values / np.where(weights > 0, weights, 1), -np.inf)
    order = np.argsort(-ratio, axis=-1)
    values, weights, ratio = (np.take_along_axis(a, order, -1) for a in (values, weights, ratio))
    level = (values.cumsum(axis=-1) - parents[..., None]) / weights.cumsum(axis=-1)
    last = np.maximum((ratio > level).sum(axis=-1) - 1, 0)[..., None]
    level = np.take_along_axis(level, last, -1)
    rows = np.maximum(values - level * weights, 0)
    back = np.empty_like(rows)
    np.put_along_axis(back, order, rows, -1)
    return np.asarray(back.reshape(len(parents), -1)[:, : fit.shape[1]])


@dataclass(frozen=True, slots=True)
class Off:
    """Error variance of the rows up to a place, in units of the noise of a count.

    `inside` is the fraction of a node's cells that are below the place. `variance` is that of their
    rows, given the rows of the node. `total` is the variance of all rows of the tree.
    """

    inside: np.ndarray
    variance: np.ndarray
    total: float = 0.0

    def within(self, nodes: np.ndarray, branching: int, levels: int) -> Off:
        """Return the errors of the same places in a tree with these nodes on its lowest of `levels`
        levels.

        Nodes of height h that share a parent vary by v(h) each, v(0) = 1 and 1/v(h + 1) = 1 +
        1/(b·v(h)), plus their share of the parent's error. With d nodes and a of another one below,
        that is v·(d + a² - (d + a)²/b), and (d + a)/b of the parent's.
        """
        inside, variance, own, total = self.inside, self.variance, 1.0, 0.0
        for _ in range(levels):
            nodes, before = np.divmod(nodes, branching)
            below = before + inside
            variance = variance + own * (before + inside**2 - below**2 / branching)
            inside, total = below / branching, branching * own
            own = total / (1 + total)
        return Off(inside, variance, total)

    def of_share(self, fraction: float) -> np.ndarray:
        """Return the standard error of the rows up to each place less this share of all rows."""
        return np.asarray(np.sqrt(self.variance + (self.inside - fraction) ** 2 * self.total))


def ends_of_cells(cells: int, branching: int, levels: int) -> Off:
    """Return the errors of the rows up to the beginning of the first cell and to the end of each
    cell.

    >>> [round(float(x), 3) for x in ends_of_cells(4, 2, 2).of_share(0.5)]
    [0.577, 0.816, 0.577, 0.816, 0.577]
    """
    inside = np.concatenate([np.zeros(1), np.ones(cells)])
    nodes = np.maximum(np.arange(-1, cells), 0)
    return Off(inside, np.zeros(cells + 1)).within(nodes, branching, levels)


def between(
    rows: np.ndarray, target: np.ndarray, off: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last cell of each list that may hold the row of the target.

    `rows` are those of each cell. `off` bounds the error of the rows up to each end, with a first
    column for the beginning of the first cell. The given `cell` is always inside.

    >>> rows, off = np.array([[5.0, 9.0, 5.0]]), np.array([[2.0, 2.0, 5.0, 2.0]])
    >>> between(rows, np.array([10.0]), off, np.array([1]))
    (array([1]), array([2]))
    """
    upto = rows.cumsum(axis=1) - target[:, None]
    possible = (upto - rows < off[..., :-1]) & (upto > -off[..., 1:])
    possible[np.arange(len(cell)), cell] = True
    last = possible.shape[1] - 1
    return possible.argmax(axis=1), last - possible[:, ::-1].argmax(axis=1)
