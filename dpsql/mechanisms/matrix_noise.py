"""Noise for running sums: drawn for whole combinations of groups, from which sums are computed.

A strategy C is a matrix of whole numbers over the n groups of a run, in its order. Measured is
C·x + z, with independent noise z of whole numbers. The groups are A·(C·x + z) with the inverse of
least squares A = (CᵀC)⁻¹Cᵀ, and their running sums are rounded to whole steps. There are two kinds:

* the square root of the matrix of running sums (coefficients of (1 - t)^(-1/2)), its columns scaled
  to one length and rounded to whole numbers: the least error known, up to 4 %, for Gaussian noise;
* a tree of sums of 1, b, b², … groups, for Laplace's noise, which few sums of each group pay for.

Proof (PRIVACY.md R113). A unit with at most c in each of K groups moves C·x by u = C·v, with
|v_i| <= c in K groups. So with G = CᵀC, |u|² = vᵀGv <= c²·K·max_i Σ of the K largest |G_ij|, and
|u|₁ <= c·K·max_j Σ_i |C_ij|. What follows reads C·x + z alone.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import chain

import numpy as np

from dpsql.mechanisms import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Mechanism, Neighbours, Noise, Norm, Sensitivity

MOST_GROUPS = 3 << 8
"""Largest number of groups of a run: a matrix of this size is inverted when a query is planned."""

_FINE = 1 << 12
"""Length of a column of the square root, in whole numbers."""

_WORD = 1 << 62

_ROUNDING = Fraction(1, 12)
"""Variance of rounding to whole steps, where the noise is at least a few steps wide."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A matrix over `size` groups: a tree of this `branching`, or (0) the square root."""

    size: int
    branching: int = 0

    @property
    def matrix(self) -> np.ndarray:
        """The whole numbers C, a row for each measured combination."""
        return _matrix(self)

    @property
    def inverse(self) -> np.ndarray:
        """The least squares inverse (CᵀC)⁻¹Cᵀ, as floats."""
        return _inverse(self)

    @property
    def variances(self) -> np.ndarray:
        """Variance of each running sum, relative to that of the noise."""
        return _variances(self)

    def distance(self, groups: int, mechanism: Mechanism) -> int:
        """Return the factor by which this matrix raises l0: squared L2 for Gaussian noise, else L1.

        >>> tree = Strategy(4, 2)
        >>> [tree.distance(groups, Mechanism.DISCRETE_GAUSSIAN) for groups in (1, 2, 4)]
        [2, 3, 3]
        >>> tree.distance(2, Mechanism.DISCRETE_LAPLACE)
        2
        """
        if mechanism is Mechanism.DISCRETE_LAPLACE:
            return int(np.abs(self.matrix).sum(axis=0).max())
        return int(_largest_products(self)[:, :groups].sum(axis=1).max())

    def combine(self, groups: np.ndarray) -> np.ndarray:
        """Return C·x in whole numbers of any size, of one run or of a run in each column."""
        largest = max(-int(groups.min()), int(groups.max()))
        if largest * int(np.abs(self.matrix).sum(axis=1).max()) < _WORD:
            return np.asarray((self.matrix @ groups.astype(np.int64)).astype(object))
        return np.asarray(self.matrix.astype(object) @ groups.astype(object))

    def running(self, measured: np.ndarray) -> np.ndarray:
        """Return the running sums of measured combinations, in whole numbers of any size.

        It is exact where there is no noise: what floats leave over is estimated once more.

        >>> tree = Strategy(3, 2)
        >>> tree.running(tree.combine(np.array([1, 2, 10**30], dtype=object)))[-1]
        1000000000000000000000000000003
        """
        first = _round(self.inverse @ measured.astype(float))
        rest = measured - self.combine(first)
        more = _round(np.cumsum(self.inverse @ rest.astype(float), axis=0))
        return np.asarray(np.cumsum(first, axis=0) + more)


def _round(numbers: np.ndarray) -> np.ndarray:
    """Return the nearest whole numbers, of any size."""
    whole = np.rint(numbers)
    if np.abs(whole).max() < _WORD:
        return np.asarray(whole.astype(np.int64).astype(object))
    return np.array([int(x) for x in whole.ravel()], dtype=object).reshape(whole.shape)


@lru_cache(maxsize=32)
def _matrix(strategy: Strategy) -> np.ndarray:
    size, branching = strategy.size, strategy.branching
    if branching:
        starts = np.arange(size)
        levels, width = [], 1
        while width < size:
            levels.append(np.arange(-(-size // width))[:, None] == starts // width)
            width *= branching
        return np.vstack(levels).astype(np.int64)
    factors = (2 * np.arange(1, size) - 1) / (2 * np.arange(1, size))
    coefficients = np.cumprod(np.concatenate([[1.0], factors]))
    apart = np.subtract.outer(np.arange(size), np.arange(size))
    root = np.where(apart >= 0, coefficients[np.maximum(apart, 0)], 0.0)
    root /= np.sqrt((root**2).sum(axis=0))
    return np.asarray(np.rint(root * _FINE).astype(np.int64))


@lru_cache(maxsize=32)
def _inverse(strategy: Strategy) -> np.ndarray:
    matrix = strategy.matrix.astype(float)
    if not strategy.branching:
        return np.asarray(np.linalg.inv(matrix))
    return np.asarray(np.linalg.solve(matrix.T @ matrix, matrix.T))


@lru_cache(maxsize=32)
def _variances(strategy: Strategy) -> np.ndarray:
    return np.asarray((np.cumsum(strategy.inverse, axis=0) ** 2).sum(axis=1))


@lru_cache(maxsize=32)
def _largest_products(strategy: Strategy) -> np.ndarray:
    """Return |CᵀC|, each row from its largest number on: floats, but whole and exact."""
    matrix = strategy.matrix.astype(float)  # sums of products are below 2**53
    return np.sort(np.abs(matrix.T @ matrix), axis=1)[:, ::-1]


@dataclass(frozen=True, slots=True)
class MatrixNoise:
    """Noise of the combinations of a strategy (`own`), for the groups of `runs` of equal length.

    Each run has the positions of its groups, in the order of the sums.
    """

    own: Noise
    strategy: Strategy
    runs: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Raise ValueError unless each group is in one run, and runs have the matrix's size."""
        places = sorted(chain.from_iterable(self.runs))
        sizes = {len(run) for run in self.runs}
        if places != list(range(len(places))) or sizes != {self.strategy.size}:
            raise ValueError("each group is in one run of the strategy's size")

    @property
    def variances(self) -> np.ndarray:
        """Variance of the running sum at each group, in squared steps."""
        own = standard_deviation(self.own) ** 2
        result = np.zeros(len(self.runs) * self.strategy.size)
        for run in self.runs:
            result[list(run)] = own * self.strategy.variances + float(_ROUNDING)
        return result

    @property
    def increments(self) -> np.ndarray:
        """Numbers for each group, of which the running sum is the variance of the groups' sum."""
        variances = self.variances
        for run in self.runs:
            variances[list(run)] = np.diff(variances[list(run)], prepend=0.0)
        return variances

    @property
    def largest_of_one(self) -> float:
        """Largest variance of one group by itself, in squared steps."""
        of_one = float((self.strategy.inverse**2).sum(axis=1).max())
        return standard_deviation(self.own) ** 2 * of_one + 2 * float(_ROUNDING)

    @property
    def alone(self) -> Noise:
        """Noise like that of the typical running sum, for display only: it is not drawn from."""
        ratio = Fraction(float(self.variances.mean()) / standard_deviation(self.own) ** 2)
        laplace = self.own.mechanism is Mechanism.DISCRETE_LAPLACE
        ratio = Fraction(float(ratio) ** 0.5) if laplace else ratio
        return replace(self.own, scale=self.own.scale * ratio)

    def combined(self, groups: Sensitivity) -> Sensitivity:
        """Return the sensitivity of the combinations, for groups of this one.

        Raises ValueError where none is proved. Of replaced units only groups of one sign count: two
        changes then have no negative product.
        """
        if not self.covers(groups):
            raise ValueError("no bound on combinations is proved for these groups")
        reached = min(max(1, groups.l0), len(self.runs) * self.strategy.size)
        distance = self.strategy.distance(reached, self.own.mechanism)
        return replace(groups, l0=reached * distance, alone=False)

    def fits(self, groups: int) -> bool:
        """Test whether there is noise for exactly this number of listed groups."""
        return groups == len(self.runs) * self.strategy.size

    def covers(self, groups: Sensitivity) -> bool:
        """Test whether a bound on combinations of such groups is proved."""
        both = groups.neighbours is Neighbours.REPLACE and groups.lower < 0 < groups.upper
        return groups.norm is Norm.MAX and groups.together == 1 and not both

    def add(self, groups: np.ndarray, sampler: Callable[[Noise, int], np.ndarray]) -> np.ndarray:
        """Return the groups with noise, in whole numbers of any size."""
        places = np.array(self.runs).T  # a run in each column
        exact = self.strategy.combine(groups[places])
        noise = sampler(self.own, exact.size).astype(object).reshape(exact.shape)
        sums = self.strategy.running(exact + noise)
        result = np.zeros(len(groups), dtype=object)
        result[places] = np.diff(sums, prepend=0, axis=0)
        return result
