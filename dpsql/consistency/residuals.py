"""Sums over groups of the same rows, derived from all measured tables.

A table by attributes A is a sum of residuals, one of each subset S of A: its totals by S, less
their means along each attribute of S. Tables of one quantity share exactly the residuals of their
common attributes. Of a table by A with independent noise of variance σ² in each cell, n_i values of
attribute i, the residual of S has independent errors of precision

    w(S) = 1 / (σ² · Π_{i ∈ A∖S} n_i)    for S ⊆ A, and 0 otherwise,

projected as the residual is. A table of differences along some axes, less its means along these,
has the residuals alone that have all of these axes. So weighted least squares over all cells splits
into parts. Each residual is the average of its measurements weighted by w, of variance v(S) = 1 / Σ
w(S), and a table by T is the sum over S ⊆ T of the residuals, each divided among the values of T∖S.
A cell that adds up m of n values of an attribute (m = 1 where each value is a cell) has the
variance

    Σ_{S ⊆ T} v(S) · Π_{i ∈ S} (m_i - m_i²/n_i) · Π_{i ∈ T∖S} m_i²/n_i².

Let U be the keys of T that are not added up. Such cells are a sum of parts that err independently:
of each V ⊆ U what varies along all of V and is divided among the values of U∖V, by 1/n_i each, n_i
times. The largest variance of a weighted sum of the cells, with squared weights that add up to one,
is that of a sum within one of these parts,

    max_{V ⊆ U} Σ_{V ⊆ S ⊆ V ∪ T∖U} v(S) · Π_{i ∈ S∖V} (m_i - m_i²/n_i)
        · Π_{i ∈ T∖U∖S} m_i²/n_i² · Π_{i ∈ U∖V} 1/n_i.

It is post-processing of released integers and public variances: PRIVACY.md R79.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf, prod

import numpy as np

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class KnownTable:
    """A measured table by `axes`: `cells` has an axis for each, and `variance` is that of each
    cell.

    The means `along` some axes are unknown: the table holds differences along them.
    """

    axes: tuple[str, ...]
    variance: float
    cells: np.ndarray
    along: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AskedCells:
    """Cells by `axes`: one for each value, or one sum where values of an axis are `chosen`.

    `sizes` is the number of values of every attribute.
    """

    axes: tuple[str, ...]
    chosen: tuple[tuple[int, ...] | None, ...]
    sizes: Mapping[str, int]

    def precision(
        self, axes: Sequence[str], variance: float, along: Collection[str] = ()
    ) -> np.ndarray:
        """Return w(S) of a table by `axes`, with an axis of length two per own axis: S lacks it, S
        has it.

        Where the table holds differences `along` some axes, w(S) is 0 for each S without one of
        them.

        >>> AskedCells(("a",), (None,), {"a": 2, "b": 5}).precision(("a", "b"), 1.0).tolist()
        [0.1, 0.2]
        >>> AskedCells(("a",), (None,), {"a": 2}).precision(("a",), 1.0, {"a"}).tolist()
        [0.0, 1.0]
        """
        if not set(along) <= set(self.axes):
            return np.zeros([2] * len(self.axes))
        result = np.array(1 / (variance * prod(self.sizes[x] for x in axes if x not in self.axes)))
        for axis in self.axes:
            part = [1 / self.sizes[axis], 1.0] if axis in axes else [1.0, 0.0]
            part = [0.0, 1.0] if axis in along else part
            result = np.multiply.outer(result, part)
        return result

    def variance(self, precision: np.ndarray) -> float:
        """Return the variance of each cell from the total precisions; infinite if a residual is
        unknown.

        >>> asked = AskedCells((), (), {"a": 2})
        >>> asked.variance(asked.precision(("a",), 3.0))
        6.0
        """
        return float(_variances(precision, self.shares()).sum())

    def largest_variance(self, precision: np.ndarray) -> float:
        """Return the largest variance of a weighted sum of the cells, with squared weights that add
        up to one.

        >>> asked = AskedCells(("a",), (None,), {"a": 2})
        >>> known = asked.precision(("a",), 3.0) + asked.precision((), 0.1)
        >>> round(asked.variance(known), 2), asked.largest_variance(known)
        (1.52, 3.0)
        """
        summed = [place for place, chosen in enumerate(self.chosen) if chosen is not None]
        every = _variances(
            precision, self._shared([[1 / n, float(n > 1)] for n, _ in self._numbers])
        )
        return float(every.sum(axis=tuple(summed)).max())

    def shares(self, *, largest: bool = False) -> np.ndarray:
        """Return the factor of each v(S) in the variance of a cell, with an axis of length two per
        own axis.

        `largest` gives the factors of the part that varies along all keys instead. It has the
        largest variance where all tables are whole.

        >>> AskedCells(("a",), (None,), {"a": 2}).shares().tolist()
        [0.25, 0.5]
        """
        own = ([0.0, 1.0], [1.0, 0.0])
        shares = [own[size == 1] if largest else _shares(size, 1) for size, _ in self._numbers]
        return self._shared(shares)

    def _shared(self, whole: Sequence[Sequence[float]]) -> np.ndarray:
        """Multiply the factors of each axis: those of a sum where values are chosen, else
        `whole`.
        """
        result = np.array(1.0)
        for (size, many), chosen, own in zip(self._numbers, self.chosen, whole, strict=True):
            factor = own if chosen is None else _shares(size, many)
            result = np.multiply.outer(result, factor)
        return result

    @property
    def _numbers(self) -> list[tuple[int, int]]:
        """The number of values of each axis, and how many of them a cell adds up."""
        return [
            (self.sizes[axis], 1 if chosen is None else len(chosen))
            for axis, chosen in zip(self.axes, self.chosen, strict=True)
        ]

    def estimated(self, tables: Sequence[KnownTable]) -> np.ndarray:
        """Estimate the cells by weighted least squares, in whole steps. Axes with chosen values are
        summed.

        >>> asked = AskedCells((), (), {"a": 2})
        >>> int(asked.estimated([KnownTable(("a",), 1.0, np.array([3, 4]))]))
        7
        """
        values: np.ndarray = np.zeros(())
        weights: np.ndarray = np.zeros(())
        for table in tables:
            precision = self.precision(table.axes, table.variance, table.along)
            for place, axis in enumerate(self.axes):  # from each S to each place of its residual
                precision = np.repeat(precision, [1, self.sizes[axis]], axis=place)
            values = values + self._residuals(table) * precision
            weights = weights + precision
        result = np.divide(values, weights, out=np.zeros(weights.shape), where=weights > 0)
        for axis, chosen in zip(self.axes, self.chosen, strict=True):
            # The first axis is processed, and its remainder moves to the end.
            cells = result[0] / self.sizes[axis] + result[1:]
            summed = None if chosen is None else cells[list(chosen)].sum(axis=0)
            result = np.moveaxis(cells, 0, -1) if summed is None else summed
        whole: np.ndarray = np.rint(result)
        return whole

    def _residuals(self, table: KnownTable) -> np.ndarray:
        """Return all residuals: along each axis first the total (S without it), then the deviations
        (S with it).
        """
        common = [axis for axis in self.axes if axis in table.axes]
        others = tuple(n for n, axis in enumerate(table.axes) if axis not in common)
        left = [axis for axis in table.axes if axis in common]
        order = [left.index(axis) for axis in common]
        cells: np.ndarray = table.cells.sum(axis=others).astype(float).transpose(order)
        for place, axis in enumerate(self.axes):
            if axis in common:
                total = cells.sum(axis=place, keepdims=True)
                cells = np.concatenate([total, cells - total / self.sizes[axis]], axis=place)
            else:
                nothing = np.zeros((self.sizes[axis], *cells.shape))
                both = np.concatenate([cells[np.newaxis], nothing])
                cells = np.moveaxis(both, 0, place)
        return cells


def _shares(size: int, many: int) -> list[float]:
    """Return the share of a sum of `many` of `size` values in the axis total and in the
    residual.
    """
    return [many**2 / size**2, many - many**2 / size]


def _variances(precision: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return v(S) of each S times its share; infinite where a residual is unknown."""
    unknown = (shares > 0) & (precision <= 0)
    each = np.divide(shares, precision, out=np.zeros(shares.shape), where=precision > 0)
    result: np.ndarray = np.where(unknown, inf, each)
    return result
