"""Differences of cells along some axes, measured where the totals along them are known already.

Along an axis of n values the differences of x are n·x less its total: whole numbers that add up to
0. Along several axes they are taken one by one. They are the part of x that varies along all of
these axes, times the product of their sizes: see `dpsql.consistency.residuals`.

Proof (PRIVACY.md R84). A unit has a total t at one value of such an axis and 0 at the others. There
it moves n·x less the total by (n - 1)·t, and by -t in the n - 1 others: n·(n - 1)·t² in all,
squared. Each axis multiplies the distance of the axes before, so the L2 distance is that of a unit
with t in Π n·(n - 1) groups. Of the integers that are released, the least noise that pays for that
has Π (n - 1)/n of the variance of the cells' own, once they are divided by Π n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from dpsql.model.vocabulary import Mechanism, Neighbours, Noise, Norm, Sensitivity


def stretch(sizes: Sequence[int]) -> int:
    """Return the factor between differences along axes of these sizes and the values themselves.

    >>> stretch([2, 3])
    6
    """
    return prod(sizes)


def distance(sizes: Sequence[int]) -> int:
    """Return the number of groups with the same L2 distance as differences along axes of these
    sizes.

    >>> distance([2, 3])
    12
    """
    return prod(size * (size - 1) for size in sizes)


def differences(cells: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return the differences of whole numbers of any size along these axes.

    >>> differences(np.array([[1, 2], [3, 6]], dtype=object), [1]).tolist()
    [[-1, 1], [-3, 3]]
    """
    for axis in axes:
        cells = cells * cells.shape[axis] - cells.sum(axis=axis, keepdims=True)
    return cells


def noise_of_differences(noise: Noise, sizes: Sequence[int]) -> Noise:
    """Return the noise for differences that costs as much as `noise` does for the cells."""
    assert noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    return replace(noise, scale=noise.scale * distance(sizes))


def sensitivity_of_differences(cells: Sensitivity, sizes: Sequence[int]) -> Sensitivity | None:
    """Return the sensitivity of differences along axes where each unit has one value.

    Returns None where it is not known to be at most that of the same number of cells.
    """
    if cells.neighbours is Neighbours.REPLACE or cells.norm is not Norm.MAX or cells.together > 1:
        return None
    return replace(cells, l0=cells.l0 * distance(sizes), alone=False)
