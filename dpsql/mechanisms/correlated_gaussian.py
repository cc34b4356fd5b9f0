"""Gaussian noise of a vector of groups: some of each group's own, and one draw that all share.

A unit that is in many groups and changes each by something from 0 to c (or from -c to 0) moves
their sum far and their differences little. Noise that all groups share hides the sum at the price
of one number, so that less is needed in each: X + Z + Y·1, with Z independent of variance t² and Y
one draw of variance s². The deviation of a group, √(t² + s²), is 0.75, 0.66, 0.57 and 0.54 of that
of independent noise where a unit may be in all of 4, 10, 50 and 200 groups. The sum of all groups
errs more, differences less.

Proof (PRIVACY.md R72). For a whole number a, with n the number of units that have something,
X + Z + Y·1 is computed of X - a·n·1 + Z and a·n + Y. A unit that is in k of d groups moves the
first by at most c - a in k entries and by a in the others, as both |v - a| and its square are
largest at an end of [0, c], and the second by a. With a <= c/2 most where k is the most that is
possible, K, so that by R43

    ρ = (K·(c - a)² + (d - K)·a²)/(2t²) + a²/(2s²).

a has to be whole, and c may be 1: noise is drawn on a finer grid, with c and a in its steps, and
rounded to whole steps, which is post-processing as X is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor, sqrt

import numpy as np

from dpsql.mechanisms.calibration import gaussian
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Mechanism, Neighbours, Noise, NoiseEvent, Sensitivity

_FINE = 1 << 10
"""A clip has at least so many steps of the finer grid: rounding a costs nothing that is seen."""

_ROUNDING = Fraction(1, 12)
"""The variance of rounding to whole steps, where noise is no less than a few of them."""

_SMALLEST = 4
"""The least variance, in steps, of which rounding is no more than a fiftieth."""

_GRAIN = 1 << 20
"""Shares of ρ are whole multiples of its inverse."""


@dataclass(frozen=True, slots=True)
class ManyGroups:
    """Over how many groups a unit's contributions are: at most `l0` of `groups`, each at most
    `most`, all of one sign.
    """

    groups: int
    l0: int
    most: int

    def squared(self, offset: int, parts: int = 1) -> int:
        """The most, squared, by which a unit moves the groups beside the offset, in finer steps."""
        inside, outside = self.most * parts - offset, self.groups - self.l0
        return self.l0 * inside**2 + outside * offset**2


@dataclass(frozen=True, slots=True)
class CorrelatedNoise:
    """`own` noise of each group and `common` noise of all, in steps of which `parts` are one.

    `offset` is a, the part of what a unit has in the groups it has `reached` that the common noise
    hides; `delta` is what all of it spends of δ where Gaussian noise is charged one.
    """

    reached: ManyGroups
    own: Noise
    common: Noise
    offset: int
    parts: int
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Beyond the middle another number of groups would be the worst."""
        if not 0 <= 2 * self.offset <= self.reached.most * self.parts:
            raise ValueError("an offset lies between 0 and half of the clip")

    @property
    def alone(self) -> Noise:
        """The noise of one group by itself, for people to read: nothing is drawn from it."""
        variance = (self.own.scale + self.common.scale) / self.parts**2
        rounded = variance + _ROUNDING * (self.parts > 1)
        return Noise(Mechanism.DISCRETE_GAUSSIAN, rounded, self.delta)

    @property
    def shared(self) -> Fraction:
        """The covariance of two groups, in steps squared."""
        return self.common.scale / self.parts**2

    @property
    def events(self) -> tuple[NoiseEvent, ...]:
        """What is lost: the groups that a unit is in, those that it is not in, and the offset."""
        inside = self.reached.most * self.parts - self.offset
        others = self.reached.groups - self.reached.l0
        return (
            NoiseEvent(self.own, Sensitivity(self.reached.l0, 0, inside)),
            *([NoiseEvent(self.own, Sensitivity(others, -self.offset, 0))] if others else []),
            NoiseEvent(self.common, Sensitivity(1, 0, self.offset)),
        )

    @property
    def rho(self) -> Fraction:
        """The ρ of all of it."""
        halves = (e.sensitivity.l2_squared / (2 * e.noise.scale) for e in self.events)
        return sum(halves, Fraction(0))

    def covers(self, sensitivity: Sensitivity) -> bool:
        """Whether it is enough for what one unit changes."""
        return (
            sensitivity.neighbours is Neighbours.ADD_REMOVE
            and 0 in (sensitivity.lower, sensitivity.upper)
            and sensitivity.linf <= self.reached.most
            and min(sensitivity.l0, self.reached.groups) <= self.reached.l0
        )

    def drawn(self, count: int, sampler: Callable[[Noise, int], np.ndarray]) -> np.ndarray:
        """Noise of so many groups, whole numbers; Python's own where 64 bits may not suffice."""
        own, common = sampler(self.own, count), int(sampler(self.common, 1)[0])
        if self.parts == 1 and own.dtype != object and abs(common) < 1 << 61:
            return np.asarray(own + common)
        fine = [2 * (int(z) + common) + self.parts for z in own]
        rounded = np.array([z // (2 * self.parts) for z in fine], dtype=object)
        small = all(abs(z) < 1 << 62 for z in rounded)
        return rounded.astype(np.int64) if small else rounded


def correlated(
    reached: ManyGroups,
    rho: Fraction,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    sums: float = 1.0,
) -> CorrelatedNoise | None:
    """The noise of least variance that is ρ-zCDP; None where independent noise errs no more.

    What is least is t² + `sums`·s²: with 1 the variance of each group, with more where sums over
    groups are asked for, each having the square of the sum of its weights to the sum of their
    squares. Of units that are replaced nothing is proved.

    >>> noise = correlated(ManyGroups(50, 50, 1), Fraction(1, 50))
    >>> independent = gaussian(50, Fraction(1, 50))
    >>> round(float(noise.alone.scale / independent.scale) ** 0.5, 2)
    0.57
    >>> correlated(ManyGroups(50, 1, 1), Fraction(1, 50)) is None
    True
    """
    if neighbours is not Neighbours.ADD_REMOVE or min(reached.groups, reached.l0) <= max(1.0, sums):
        return None
    assert reached.l0 <= reached.groups
    parts = 1 << max(0, (_FINE // reached.most).bit_length() - 1)
    # Whole numbers: a float of a clip above 2^53 may be more than the clip.
    offset = floor(reached.most * parts * Fraction(_offset(reached, sums)))
    apart, within = sqrt(reached.squared(offset, parts)), offset * sqrt(sums)
    share = Fraction(round(_GRAIN * within / (apart + within)), _GRAIN)
    if not 0 < share < 1:
        return None
    own = gaussian(reached.squared(offset, parts), rho * (1 - share))
    common = gaussian(offset**2, rho * share)
    noise = CorrelatedNoise(reached, own, common, offset, parts)
    independent = gaussian(reached.l0 * reached.most**2, rho).scale
    error = float(noise.alone.scale) + (sums - 1) * float(noise.shared)
    return noise if noise.alone.scale >= _SMALLEST and error < independent else None


def _offset(reached: ManyGroups, sums: float) -> float:
    """The best a, in parts of the clip: the least of √(K·(1 - a)² + (d - K)·a²) + a·√sums.

    Beyond the middle another k is the worst.
    """
    d, k = reached.groups, reached.l0
    return min(0.5, (k - sqrt(sums * k * (d - k) / (d - sums))) / d)
