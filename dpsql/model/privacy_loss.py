"""Sensitivity, noise, events and privacy loss, in the units of the ledger.

Distances of a `Sensitivity` and filters of a `Loss`: PRIVACY.md R30, R73, R75, R109.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from math import isqrt
from operator import add, le, sub
from typing import TypeAlias, assert_never

from dpsql.model.dataclass import dataclass


class Neighbours(StrEnum):
    """The change of one unit between neighbours: added or removed, or replaced."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


class Norm(StrEnum):
    """The norm that combines the totals of one unit over all groups into one number."""

    L1 = "L1"
    L2 = "L2"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The change by one unit: at most `l0` groups, each by at most `linf` grid steps.

    `lower`, `upper` are the clipping bounds of one unit's total in one group, in grid steps, with
    linf = max(|lower|, |upper|). Under REPLACE the L1 distance doubles and one group can move by
    upper - lower (PRIVACY.md R30). `alone` says that no other measurement shares it. With an L1 or
    L2 `norm`, that norm of the unit's totals over all groups is at most linf too (PRIVACY.md R73).
    For several measurements `together`, linf bounds the L2 change of a group (PRIVACY.md R75).

    >>> Sensitivity(l0=2, lower=0, upper=500).l1
    1000
    >>> Sensitivity(2, -3, 4, Neighbours.REPLACE).l2_squared
    98
    >>> Sensitivity(50, 0, 7, norm=Norm.L2).l2_squared
    49
    >>> both = Sensitivity(1, -5, 5, together=2)
    >>> both.l1, both.l2_squared  # √2·5, rounded up to 2·5
    (10, 25)
    """

    l0: int
    lower: int
    upper: int
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    alone: bool = False
    norm: Norm = Norm.MAX
    together: int = 1

    @property
    def linf(self) -> int:
        return max(abs(self.lower), abs(self.upper))

    @property
    def l1(self) -> int:
        match self.norm:
            case Norm.MAX:
                groups = self.l0
            case Norm.L2:
                groups = 1 + isqrt(self.l0 - 1) if self.l0 else 0
            case Norm.L1:
                groups = min(1, self.l0)
            case _:
                assert_never(self.norm)
        once = groups * self.linf * (1 + isqrt(self.together - 1))
        return 2 * once if self.neighbours is Neighbours.REPLACE else once

    @property
    def l2_squared(self) -> int:
        groups = self.l0 if self.norm is Norm.MAX else min(1, self.l0)
        if self.neighbours is Neighbours.REPLACE:
            apart = 2 * self.linf if self.together > 1 else self.upper - self.lower
            return groups * max(2 * self.linf**2, apart**2)
        return groups * self.linf**2


class Mechanism(StrEnum):
    """The additive integer mechanisms."""

    DISCRETE_LAPLACE = "discrete Laplace"
    DISCRETE_GAUSSIAN = "discrete Gaussian"


@dataclass(frozen=True, slots=True)
class Noise:
    """An integer noise distribution.

    `scale` is b for Laplace (P(x) ∝ exp(-|x|/b)) and σ² for Gaussian. `delta` is the δ this noise
    spends by itself: zero except for a Gaussian under the approximate accountant.
    """

    mechanism: Mechanism
    scale: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class NoiseEvent:
    """The privacy loss of one noised column, as a record that accountants interpret."""

    noise: Noise
    sensitivity: Sensitivity


@dataclass(frozen=True, slots=True)
class SelectionEvent:
    """The δ spent by publishing the private keys of one release."""

    delta: Fraction


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent:
    """Adaptive choices in `rounds` that one unit can influence, each with ε-bounded range.

    The exponential mechanism at ε is one: it is ε-DP and ε²/8-zCDP (Durfee and Rogers 2019; Cesar
    and Rogers 2021).
    """

    epsilon: Fraction
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """Adaptive steps in `rounds` that one unit can influence, each (ε, δ)-DP without further
    structure.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rounds: int = 1


EventPart: TypeAlias = NoiseEvent | SelectionEvent | BoundedRangeEvent | ApproximateEvent


@dataclass(frozen=True, slots=True)
class Event:
    """The privacy loss of one query: the composition of its parts."""

    parts: tuple[EventPart, ...]


NANO = 10**9
ATTO = 10**18


UNBOUNDED = 10**30
"""A filter's coordinate of a loss that it does not bound: more than any limit, and it adds up."""


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """An amount of privacy loss in ledger units: integers, so NaN and infinity cannot occur.

    `amount` is in 1e-9 (ρ under zcdp, μ² under tight, ε otherwise), `delta` in 1e-18. An accountant
    with several filters has the coordinates of the other ones in `further`, each in 1e-9. What a
    loss does not state of these is unbounded, or 0 if nothing was lost.

    >>> limit = Loss(10, 5, (20, 30))
    >>> Loss(11, 5, (9, 31)).fits(limit), Loss(11, 5, (21, 31)).fits(limit), Loss(11).fits(limit)
    (True, False, False)
    """

    amount: int
    delta: int = 0
    further: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(self.amount, self.delta, *self.further) < 0:
            msg = "a privacy loss is never negative"
            raise ValueError(msg)
        if self.further and not (self.amount or any(self.further)):
            object.__setattr__(self, "further", ())  # equal to any loss of nothing

    def __repr__(self) -> str:
        further = f", further={self.further}" if self.further else ""
        return f"Loss(amount={self.amount}, delta={self.delta}{further})"

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.amount + other.amount, self.delta + other.delta, self._with(other, add))

    def __sub__(self, part: Loss) -> Loss:
        """Subtract a part of this loss; raises ValueError if it is larger in any coordinate."""
        return Loss(self.amount - part.amount, self.delta - part.delta, self._with(part, sub))

    def without(self, part: Loss) -> Loss:
        """Subtract a part from this loss in each coordinate, but never below 0."""
        further = zip(self.further, part.filters(len(self.further)), strict=False)
        return Loss(
            max(0, self.amount - part.amount),
            max(0, self.delta - part.delta),
            tuple(max(0, whole - less) for whole, less in further),
        )

    def _with(self, other: Loss, change: Callable[[int, int], int]) -> tuple[int, ...]:
        count = max(len(self.further), len(other.further))
        return tuple(map(change, self.filters(count), other.filters(count)))

    def filters(self, count: int) -> tuple[int, ...]:
        """Return `count` coordinates of further filters."""
        missing = UNBOUNDED if self.amount else 0
        return (*self.further, *(missing,) * (count - len(self.further)))

    def fits(self, limit: Loss) -> bool:
        """Test whether this total stays within δ, and within at least one filter."""
        return self.delta <= limit.delta and any(
            map(le, self._coordinates(limit), (limit.amount, *limit.further))
        )

    def is_within(self, other: Loss) -> bool:
        """Test whether this loss is at most the other one, in every coordinate."""
        filters = zip(self.filters(len(other.further)), other.further, strict=False)
        within = all(spent <= most for spent, most in filters)
        return within and self.amount <= other.amount and self.delta <= other.delta

    def share_of(self, limit: Loss) -> Fraction:
        """Return the used part of a limit: of δ, or of the filter that has the most left.

        >>> Loss(11, 4, (5, 31)).share_of(Loss(10, 5, (20, 30)))
        Fraction(4, 5)
        """
        of = zip(self._coordinates(limit), (limit.amount, *limit.further), strict=True)
        filters = [Fraction(spent, most) for spent, most in of if most]
        delta = Fraction(self.delta, limit.delta) if limit.delta else Fraction(0)
        return max(delta, min(filters, default=Fraction(0)))

    def rest_of(self, limit: Loss) -> int:
        """Return what is left of a limit's amount, or the same share of the filter that has more
        left.
        """
        further = zip(self.filters(len(limit.further)), limit.further, strict=False)
        shares = (limit.amount * (most - spent) // most for spent, most in further if most)
        return max(limit.amount - self.amount, *shares, -(1 << 62))

    def _coordinates(self, limit: Loss) -> tuple[int, ...]:
        return (self.amount, *self.filters(len(limit.further)))
