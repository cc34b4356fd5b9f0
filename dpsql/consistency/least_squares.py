"""Weighted least squares that makes measurements of the same rows agree, at no cost in privacy.

Where several lists of measurements each add up to the same unknown number, the noisy y should
satisfy C·y = 0. C has a row for each difference of two lists. With V the variances of the
independent noise, the nearest such vector in the norm of V⁻¹ is

    y' = y - V·Cᵀ·(C·V·Cᵀ)⁻¹·C·y, of covariance V' = V - V·Cᵀ·(C·V·Cᵀ)⁻¹·C·V,

the best linear unbiased estimate (Gauss and Markov): no variance grows. Both follow from the
pseudoinverse of C·√V. Corrections are whole steps of the quantisation grid, so sums agree to the
last digit.

It is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.model.ticking import tick

Row = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Lists of measurements by place; each list adds up to the same number.

    A place is in one list only. The place of a one-element list may occur in an earlier agreement.
    """

    lists: tuple[tuple[int, ...], ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(place for listed in self.lists for place in listed)

    def renumbered(self, new: Mapping[int, int]) -> Agreement:
        """Return the same agreement with new numbers of the places."""
        return Agreement(tuple(tuple(new[place] for place in listed) for listed in self.lists))


def dependent(agreements: Sequence[Agreement]) -> list[frozenset[int]]:
    """Group the places with dependent errors: agreements with common places are one group."""
    groups: list[frozenset[int]] = []
    for agreement in agreements:
        own = frozenset(agreement.places)
        apart = [group for group in groups if not group & own]
        groups = [*apart, own.union(*(group for group in groups if group & own))]
    return groups


def covariance(agreements: Sequence[Agreement], deviations: Sequence[float]) -> np.ndarray:
    """Return the covariance of all measurements after they are made to agree.

    `deviations` are the standard deviations of their independent noise.

    >>> whole_and_halves = Agreement(((0,), (1, 2)))
    >>> covariance([whole_and_halves], [1.0, 1.0, 1.0]).diagonal().round(3).tolist()
    [0.667, 0.667, 0.667]
    """
    scale = np.asarray(deviations, dtype=float)
    result: np.ndarray = np.diag(scale**2)
    for group in dependent(agreements):
        tick()
        places = sorted(group)
        position = {place: n for n, place in enumerate(places)}
        own = [a.renumbered(position) for a in agreements if not group.isdisjoint(a.places)]
        result[np.ix_(places, places)] = _covariance_of_dependent(own, scale[places])
    return result


def _covariance_of_dependent(agreements: Sequence[Agreement], scale: np.ndarray) -> np.ndarray:
    """Return the covariance of measurements in one dependent group; a single agreement in closed
    form.

    Its total is then the mean of the lists' totals t weighed by their precisions 1/s, of variance
    1/W for W = sum of 1/s, and y' = y + v/s * (total - t), where y - v/s * t is independent of it.
    """
    variances, (first, *others) = scale**2, agreements
    share = np.zeros((len(first.lists), len(scale)))
    for n, listed in enumerate(first.lists):
        share[n, list(listed)] = variances[list(listed)]
    sums = share.sum(axis=1)
    if others or not sums.all():
        weighed = _weighed(agreements, scale.tolist())
        projection = np.eye(len(scale)) - np.linalg.pinv(weighed) @ weighed
        return np.asarray(scale[:, None] * projection * scale)
    share /= sums[:, None]
    moved = share.sum(axis=0)
    within = share.T @ (share * sums[:, None])
    result: np.ndarray = np.diag(variances) - within + np.outer(moved, moved) / (1 / sums).sum()
    return result


def agreed(
    rows: Sequence[Row], agreements: Sequence[Agreement], deviations: Sequence[float]
) -> list[Row]:
    """Adjust the rows so that their measurements agree; values remain whole numbers.

    >>> agreed([(9, 2, 4)], [Agreement(((0,), (1, 2)))], [1.0, 1.0, 1.0])
    [(8, 3, 5)]
    """
    places = sorted({place for agreement in agreements for place in agreement.places})
    if not rows or not places:
        return list(rows)
    values = np.array([[row[place] for place in places] for row in rows], dtype=object)
    position = {place: n for n, place in enumerate(places)}
    local = [agreement.renumbered(position) for agreement in agreements]
    corrected = _corrected(values, local, [deviations[place] for place in places])
    return [
        tuple(
            int(new[position[place]]) if place in position else old for place, old in enumerate(row)
        )
        for row, new in zip(rows, corrected, strict=True)
    ]


def _corrected(
    values: np.ndarray, agreements: Sequence[Agreement], deviations: Sequence[float]
) -> np.ndarray:
    """Adjust columns of integers, one per measurement, so that they agree."""
    residuals = (values @ constraints(agreements, len(deviations)).T.astype(int)).astype(float)
    steps = residuals @ corrections(agreements, deviations).T
    result = values.copy()
    settled: set[int] = set()
    for agreement in agreements:
        first = agreement.lists[0]
        if not settled.issuperset(first):
            result[:, first] += _whole(steps[:, first])
        total = result[:, first].sum(axis=1)
        for listed in agreement.lists[1:]:
            moves = _whole(steps[:, listed])
            rest = total - (values[:, listed] + moves).sum(axis=1)
            result[:, listed] = values[:, listed] + moves
            result[:, listed[-1]] += rest
        settled.update(agreement.places)
    return result


def corrections(agreements: Sequence[Agreement], deviations: Sequence[float]) -> np.ndarray:
    """Return the move of each measurement (row) per unit of difference between two lists (column).

    >>> whole_and_halves = Agreement(((0,), (1, 2)))
    >>> corrections([whole_and_halves], [1.0, 1.0, 1.0]).round(3).tolist()
    [[0.333], [-0.333], [-0.333]]
    """
    inverse = np.linalg.pinv(_weighed(agreements, deviations))
    result: np.ndarray = -np.asarray(deviations)[:, None] * inverse
    return result


def _whole(steps: np.ndarray) -> np.ndarray:
    """Round steps to whole numbers with the nearest partial sums."""
    sums = np.rint(np.cumsum(steps, axis=1))
    moves: np.ndarray = np.diff(sums, axis=1, prepend=0.0)
    return np.array([[int(move) for move in row] for row in moves], dtype=object)


def _weighed(agreements: Sequence[Agreement], deviations: Sequence[float]) -> np.ndarray:
    weighed: np.ndarray = constraints(agreements, len(deviations)) * np.asarray(deviations)
    return weighed


def constraints(agreements: Sequence[Agreement], count: int) -> np.ndarray:
    """Return the matrix C: a row for the excess of each further list over the first of its
    agreement.
    """
    rows = []
    for agreement in agreements:
        first, *others = agreement.lists
        for other in others:
            row = np.zeros(count)
            row[list(other)], row[list(first)] = 1.0, -1.0
            rows.append(row)
    return np.array(rows).reshape(len(rows), count)
