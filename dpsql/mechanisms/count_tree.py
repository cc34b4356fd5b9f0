"""Quantiles of many groups from trees of noisy counts, all read from one release.

A level of the tree cuts the cells of a histogram into nodes of equal width; a row counts in one
node of each. Once the nodes have noise the rest is arithmetic on what is released: the counts are
made consistent by weighted least squares up and down the tree (Hay, Rastogi, Miklau, Suciu 2010,
Section 4), where no node is below zero on the way down. Then the rows up to a cell never fall from
cell to cell, and quantiles read from them never cross.

Nodes that no quantile looks at need no noise: the lower levels of a large tree are drawn below the
nodes in which a quantile lies.

Proof (PRIVACY.md R51). A row counts in one node of each level, so that c rows of a unit move the
nodes of a level by at most c together. What is read of the noisy counts, and which lower nodes are
drawn, follows from released ones.

Between which cells a quantile surely lies: the rows up to a cell, less the share α of all rows, err
with a known variance: the estimates of a tree are linear in its noise before they are kept above
zero, which brings them nearer. Cell q holds the quantile where the rows up to q reach α of all and
those up to q - 1 do not. It is left out where one of these two contradicts the estimates by more
than their margin, so that the cell of the quantile in truth is left out no more often than a test
of either side fails (the inversion of a test; nothing depends on how many cells there are).
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
"""Adds noise to an array of counts."""

_READ_WHOLE = 1 << 12
"""Most nodes of the level down to which a tree is drawn whole."""

_HAIR = 1 / (2 * MOST_STEPS)

_AT_ONCE = 1 << 20
"""Nodes that are drawn together: about 50 MB of arrays."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`levels` levels below the root, in which a node has `branching` nodes below it.

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
        """How many levels are drawn whole."""
        widths = [self.branching**level for level in range(1, self.levels + 1)]
        return max(1, len([width for width in widths if width <= _READ_WHOLE]))

    @property
    def deviation(self) -> float:
        """The root mean squared error in rows of the rank of a cell, for noise of deviation 1.

        The total of a node of height h has variance v(0) = 1, 1/v(h) = 1 + 1/(b·v(h-1)), from what
        is below it. Given their sum, u of b such nodes vary by v·u·(1 - u/b): on the average over
        the place u that the cell has among them, by v·(b - 1)/6 (a Brownian bridge between nodes).
        Given the total, the levels' errors are independent.
        """
        branching, variance, total = self.branching, 1.0, 0.0
        for _ in range(self.levels):
            total += variance * (branching - 1) / 6
            variance = branching * variance / (1 + branching * variance)
        return sqrt(total)


def best_shape(cells: int, deviation: Callable[[int], float]) -> Shape:
    """The shape with the least error, where so many levels have noise of that deviation.

    >>> best_shape(65536, lambda levels: levels**0.5).branching  # Gaussian
    2
    >>> best_shape(65536, lambda levels: float(levels)).branching  # Laplace
    16
    """
    shapes = _shapes(cells)
    return min(shapes, key=lambda shape: shape.deviation * deviation(shape.levels))


def _shapes(cells: int) -> Iterable[Shape]:
    """For every number of levels the least branching with room for the cells."""
    for levels in range(1, max(1, (cells - 1).bit_length()) + 1):
        branching = max(2, round(cells ** (1 / levels)))
        yield Shape(branching + (branching**levels < cells), levels)


@dataclass(frozen=True, slots=True)
class Found:
    """A quantile of each list: its cell, and the first and the last that it may be in truth."""

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
    """For every rank the cell of each histogram that holds the row of that rank.

    An extreme rank is so many rows from its end as it says, or half of all rows if these are fewer.
    The cells that a quantile may be in follow from the `margin` of the noise of a count.

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
    ends = zip(*((part.cell, part.low, part.high) for part in parts), strict=True)
    return Found(*map(np.concatenate, ends))


def _read(
    shape: Shape, counted: HistogramCounts, ranks: Sequence[Rank], noised: Noised, margin: float
) -> list[Found]:
    branching, left = shape.branching, shape.levels - shape.whole
    width = branching**left
    rows = _estimates(branching, shape.whole, counted.nodes(width), noised)
    empty = rows.sum(axis=1) <= 0
    rows[empty] = 1  # nothing is known: anywhere is as good
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
    """No farther than the last cell; of lists of which nothing is known, all cells."""
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
    """The same quantiles in cells: those of the lower levels, of the nodes that hold quantiles."""
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
    """So many rows, a hair to the side of the rank: where the rows are whole, it tells them apart.

    Half a row, as in the scores of choices, would let the quantiles of less than a row cross.
    """
    if rank.is_extreme:
        inside = np.minimum(rank.rows - _HAIR, total / 2)
        return np.asarray(total - inside if rank.numerator else inside)
    return np.asarray(float(rank.fraction) * total + np.sign(rank.offset) * _HAIR)


def reserve(shape: Shape, margin: float) -> int:
    """How many rows from the end an extreme rank must be, so that noise does not pass for them.

    `margin` is that of the noise of a count: no end of a cell errs by more.

    >>> reserve(Shape(2, 7), 20.0)
    22
    """
    off = ends_of_cells(shape.branching**shape.whole, shape.branching, shape.whole)
    return max(1, ceil(margin * float(np.sqrt(off.variance.max()))))


def _passed(rows: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first cell of each list up to which there are the rows of the target.

    With it comes how many of them are in the cell itself.
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
    """Consistent rows of all nodes of the lowest level, none below zero: a list in each row.

    Without a `total` of each list it is the one that fits best.
    """
    widths = [branching**level for level in range(levels)]
    noisy = [noised(counted.nodes(width).table()).astype(float) for width in widths]
    upward = [(noisy[0], np.ones(noisy[0].shape[1]))]
    for own in noisy[1:]:
        below, variance = (_families(each, branching).sum(axis=-1) for each in upward[-1])
        # Own count of variance 1 and sum of what is below, each by the inverse of its variance.
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
    """The nodes below each node of the level above, zeros where there are none."""
    *rest, count = nodes.shape
    missing = -count % branching
    filled = np.concatenate([nodes, np.zeros((*rest, missing))], axis=-1)
    return filled.reshape(*rest, -1, branching)


def _spread(
    parents: np.ndarray, fit: np.ndarray, variance: np.ndarray, branching: int
) -> np.ndarray:
    """The nearest counts to those that fit, by their variance, none negative, with these sums.

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
    """How far the rows up to a place may be off, in units of the noise of a count.

    `inside` is the fraction of a node's cells that are below the place, `variance` what the rows
    of these vary by, given the rows of the node; `total` is the variance of all rows of the tree.
    """

    inside: np.ndarray
    variance: np.ndarray
    total: float = 0.0

    def within(self, nodes: np.ndarray, branching: int, levels: int) -> Off:
        """The same places in a tree of so many levels that has them in these of its lowest nodes.

        Nodes of height h that share a parent vary by v(h) each, v(0) = 1 and
        1/v(h + 1) = 1 + 1/(b·v(h)), and by what they share of the parent's error. With d nodes and
        a of another one below, that is v·(d + a² - (d + a)²/b), and (d + a)/b of the parent's.
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
        """Of the rows up to each place less this share of all rows."""
        return np.asarray(np.sqrt(self.variance + (self.inside - fraction) ** 2 * self.total))


def ends_of_cells(cells: int, branching: int, levels: int) -> Off:
    """Of the rows up to where the first of the cells of a tree begins, and up to each one's end.

    >>> [round(float(x), 3) for x in ends_of_cells(4, 2, 2).of_share(0.5)]
    [0.577, 0.816, 0.577, 0.816, 0.577]
    """
    inside = np.concatenate([np.zeros(1), np.ones(cells)])
    nodes = np.maximum(np.arange(-1, cells), 0)
    return Off(inside, np.zeros(cells + 1)).within(nodes, branching, levels)


def between(
    rows: np.ndarray, target: np.ndarray, off: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last cell of each list that may hold the row of the target.

    `rows` are those of each cell, `off` is how far those up to each end may be off, with a column
    for where the first cell begins. The given `cell` always may.

    >>> rows, off = np.array([[5.0, 9.0, 5.0]]), np.array([[2.0, 2.0, 5.0, 2.0]])
    >>> between(rows, np.array([10.0]), off, np.array([1]))
    (array([1]), array([2]))
    """
    upto = rows.cumsum(axis=1) - target[:, None]
    possible = (upto - rows < off[..., :-1]) & (upto > -off[..., 1:])
    possible[np.arange(len(cell)), cell] = True
    last = possible.shape[1] - 1
    return possible.argmax(axis=1), last - possible[:, ::-1].argmax(axis=1)
