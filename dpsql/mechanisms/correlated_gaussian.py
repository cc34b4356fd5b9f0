"""Gaussian noise for a vector of groups: independent noise of each group, plus one shared draw.

A unit in many groups that changes each by a value in [0, c] (or in [-c, 0]) moves their sum far and
their differences little. Shared noise hides the sum at the price of one number, so each group needs
less noise. Released is X + Z + Y·1, with Z independent of variance t² and Y one draw of variance
s². The deviation of a group, √(t² + s²), is 0.75, 0.66, 0.57 and 0.54 of that of independent noise
where a unit may be in all of 4, 10, 50 and 200 groups. The sum of all groups errs more, differences
less.

Proof (PRIVACY.md R72). For a whole number a, with n the number of units in any group, X + Z + Y·1
is computed of X - a·n·1 + Z and a·n + Y. A unit that is in k of d groups moves the first by at most
c - a in k entries and by a in the others, as both |v - a| and its square are largest at an end of
[0, c], and the second by a. With a <= c/2 most where k is the most that is possible, K, so that by
R43

    ρ = (K·(c - a)² + (d - K)·a²)/(2t²) + a²/(2s²).

a has to be whole, and c may be 1. So noise is drawn on a finer grid, with c and a in its steps, and
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
"""Least number of steps of the finer grid in a clipping bound, so that rounding a costs little."""

_ROUNDING = Fraction(1, 12)
"""Variance of rounding to whole steps, where the noise is at least a few steps wide."""

_SMALLEST = 4
"""Least variance in steps, for which rounding adds at most a fiftieth."""

_GRAIN = 1 << 20
"""Inverse of the step of shares of ρ."""


@dataclass(frozen=True, slots=True)
class ManyGroups:
    """Bounds on a unit's contributions: at most `l0` of `groups`, each at most `most`, all of one
    sign.
    """

    groups: int
    l0: int
    most: int

    def squared(self, offset: int, parts: int = 1) -> int:
        """Return the largest squared L2 change of the groups by a unit besides the offset, in finer
        steps.
        """
        inside, outside = self.most * parts - offset, self.groups - self.l0
        return self.l0 * inside**2 + outside * offset**2


@dataclass(frozen=True, slots=True)
class CorrelatedNoise:
    """Noise of each group (`own`) and of all groups (`common`), on a grid of `parts` steps per
    step.

    `offset` is a: the part of a unit's contribution to the groups that it has `reached` that the
    common noise hides. `delta` is the total δ where Gaussian noise is charged one.
    """

    reached: ManyGroups
    own: Noise
    common: Noise
    offset: int
    parts: int
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Raise ValueError unless 0 <= offset <= half of the clipping bound.

        Above the middle another number of groups would be the worst case.
        """
        if not 0 <= 2 * self.offset <= self.reached.most * self.parts:
            raise ValueError("an offset lies between 0 and half of the clip")

    @property
    def alone(self) -> Noise:
        """The noise of one group by itself, for display only: no noise is drawn from it."""
        variance = (self.own.scale + self.common.scale) / self.parts**2
        rounded = variance + _ROUNDING * (self.parts > 1)
        return Noise(Mechanism.DISCRETE_GAUSSIAN, rounded, self.delta)

    @property
    def shared(self) -> Fraction:
        """Covariance of the noise of two groups, in squared steps."""
        return self.common.scale / self.parts**2

    @property
    def events(self) -> tuple[NoiseEvent, ...]:
        """Events of the loss: the groups that a unit is in, the other groups, and the offset."""
        inside = self.reached.most * self.parts - self.offset
        others = self.reached.groups - self.reached.l0
        return (
            NoiseEvent(self.own, Sensitivity(self.reached.l0, 0, inside)),
            *([NoiseEvent(self.own, Sensitivity(others, -self.offset, 0))] if others else []),
            NoiseEvent(self.common, Sensitivity(1, 0, self.offset)),
        )

    @property
    def rho(self) -> Fraction:
        """Total ρ of the events."""
        halves = (e.sensitivity.l2_squared / (2 * e.noise.scale) for e in self.events)
        return sum(halves, Fraction(0))

    def fits(self, groups: int) -> bool:
        """Test whether there is enough noise for this number of listed groups."""
        return groups <= self.reached.groups

    def covers(self, sensitivity: Sensitivity) -> bool:
        """Test whether the noise is enough for the changes of one unit that `sensitivity`
        bounds.
        """
        return (
            sensitivity.neighbours is Neighbours.ADD_REMOVE
            and 0 in (sensitivity.lower, sensitivity.upper)
            and sensitivity.linf <= self.reached.most
            and min(sensitivity.l0, self.reached.groups) <= self.reached.l0
        )

    def drawn(self, count: int, sampler: Callable[[Noise, int], np.ndarray]) -> np.ndarray:
        """Draw the noise of `count` groups in whole numbers; Python integers where 64 bits may
        overflow.
        """
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
    """Return the ρ-zCDP noise of least variance; None where independent noise is as good.

    It minimises t² + `sums`·s². A value of 1 gives the variance of each group. A larger value
    counts sums over groups: the square of the sum of their weights over the sum of the squares.
    Nothing is proved for replaced units.

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
    """Return the best a, relative to the clipping bound: it minimises √(K·(1 - a)² + (d - K)·a²) +
    a·√sums.

    Above the middle another k is the worst case.
    """
    d, k = reached.groups, reached.l0
    return min(0.5, (k - sqrt(sums * k * (d - k) / (d - sums))) / d)
