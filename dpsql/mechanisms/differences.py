"""Differences of cells along some axes: what is left to measure where their totals are known.

Along an axis of n values the differences of x are n·x less its total: whole numbers that add up to
0. Along several axes they are taken one after the other. Of x they are what varies along all of
these axes, times the product of their sizes: see `dpsql.consistency.residuals`.

Proof (PRIVACY.md R84). A unit has a total t in one value of such an axis and nothing in the others.
There it moves n·x less the total by (n - 1)·t, and by -t in the n - 1 others: n·(n - 1)·t² in all,
squared. Each axis multiplies what one before has left, so that the L2 distance is as if the unit
had t in Π n·(n - 1) groups. Of the integers that are released, the least noise that pays for that
has Π (n - 1)/n of the variance of the cells' own, once they are divided by Π n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from dpsql.model.vocabulary import Mechanism, Neighbours, Noise, Norm, Sensitivity


def stretch(sizes: Sequence[int]) -> int:
    """How many times as large differences along axes of these sizes are as what they are of.

    >>> stretch([2, 3])
    6
    """
    return prod(sizes)


def distance(sizes: Sequence[int]) -> int:
    """In how many groups a unit would have moved as far as it moves differences along such axes.

    >>> distance([2, 3])
    12
    """
    return prod(size * (size - 1) for size in sizes)


def differences(cells: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The differences of whole numbers along these axes, of any size.

    >>> differences(np.array([[1, 2], [3, 6]], dtype=object), [1]).tolist()
    [[-1, 1], [-3, 3]]
    """
    for axis in axes:
        cells = cells * cells.shape[axis] - cells.sum(axis=axis, keepdims=True)
    return cells


def noise_of_differences(noise: Noise, sizes: Sequence[int]) -> Noise:
    """The noise that costs differences what this one costs the cells."""
    assert noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    return replace(noise, scale=noise.scale * distance(sizes))


def sensitivity_of_differences(cells: Sensitivity, sizes: Sequence[int]) -> Sensitivity | None:
    """What one unit changes of differences along axes of each of which it has one value; None where
    that is not known to be less than what it changes of as many cells.
    """
    if cells.neighbours is Neighbours.REPLACE or cells.norm is not Norm.MAX or cells.together > 1:
        return None
    return replace(cells, l0=cells.l0 * distance(sizes), alone=False)
