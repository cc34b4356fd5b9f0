"""Partition selection: a private key is published if the noisy count of its units reaches a
threshold.

The count may be the sum of several measurements of one group, each with its own draw of the noise,
such as moments that are measured together (`dpsql.compiler.calibrate.key_vectors`). Or the
contribution of a unit to all of its counts is scaled to a norm. A unit with many keys then adds
less to each, but has more keys that noise may lift above the threshold.

Proof (PRIVACY.md R44, R76). Measuring is one step and looking at the sum costs no more of it: where
others have the key too, both neighbours show noisy measurements. A key that one unit alone has is
absent without it. With it, the key is shown only if the sum of the draws reaches T less the unit's
addition to the sum: with probability at most δ1 each. So the k keys of a unit are independent (0,
δ1) steps besides the noise, (0, δ) together. Where the addition to each depends on k, T is the
largest that any k requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import expm1, isqrt, log1p
from typing import assert_never

import numpy as np

from dpsql.mechanisms.tails import reach_of_sum
from dpsql.mechanisms.truncated_geometric import keys_of_unit
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Neighbours, Noise, Norm

_ONE_BY_ONE = 2**10


@dataclass(frozen=True, slots=True)
class UnitCounting:
    """The counting of a group's units by the sum of its first `columns` measurements.

    A unit counts `unit` steps of their grid; with rounding it may add up to `most`. With an L1 or
    L2 `norm`, `most` bounds that norm of its equal additions to all of its keys.
    """

    columns: int = 1
    unit: int = 1
    most: int = 1
    norm: Norm = Norm.MAX

    def added(self, keys: int) -> int:
        """Return the most that a unit with this number of keys adds to the count of each.

        >>> UnitCounting(unit=10, most=20, norm=Norm.L2).added(9)
        6
        """
        match self.norm:
            case Norm.MAX:
                return self.most
            case Norm.L1:
                return min(self.unit, self.most // keys)
            case Norm.L2:
                return min(self.unit, isqrt(self.most**2 // keys))
            case _:
                assert_never(self.norm)


ALONE = UnitCounting()
"""Counting by one separate measurement."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Mechanism, threshold and charge of δ. Only `threshold` makes it.

    A key is kept if its exact count of units, each measurement plus a draw of `noise`, is at least
    `value` grid steps. With probability at least 1 - `delta`, every kept key has more than one
    unit.
    """

    value: int
    noise: Noise
    delta: Fraction
    counted: UnitCounting = ALONE

    @property
    def units(self) -> float:
        """Number of units that the noisy count must reach."""
        return self.value / self.counted.unit

    def shown(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Return the places of the groups that are released, given the noisy measurements.

        >>> from dpsql.model.vocabulary import Mechanism
        >>> steps = [np.array([60, 10]), np.array([70, 20])]
        >>> noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1))
        >>> Threshold(100, noise, Fraction(1, 100), UnitCounting(columns=2)).shown(steps)
        array([0])
        """
        first, *others = columns[: self.counted.columns]
        total = first
        for column in others:
            total = total.astype(object) + column  # which 64 bits might not hold
        places: np.ndarray = np.flatnonzero(total >= self.value)
        return places


@lru_cache(maxsize=256)
def threshold(
    noise: Noise,
    l0: int,
    delta: Fraction,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    floor: int = 1,
    counted: UnitCounting = ALONE,
) -> Threshold:
    """Return the least threshold for counts of units, where a unit has at most l0 keys.

    T = the most that a unit adds, one step if it is counted alone, + the least t with P(Z1 + ... +
    Zc >= t) <= δ1 = 1 - (1-δ)^(1/k). Here c is the number of summed measurements and k the number
    of keys of one unit: l0, or 2·l0 under REPLACE, where two units' keys come and go. Where a unit
    adds less to each of more keys, T is the largest of these for a unit of 1, 2, ..., l0 keys, or
    slightly more for thousands of keys. It is at least `floor` units. Raises ValueError unless 0 <
    δ < 1 and l0 >= 1.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> unit = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1))
    >>> threshold(unit, 1, Fraction(1, 10**6)).value
    15
    """
    if not 0 < delta < 1 or l0 < 1:
        raise ValueError("a threshold needs 0 < δ < 1 and at least one key per unit")

    def lone(fewest: int, most: int) -> int:
        """Return the threshold for units with `fewest` to `most` keys: exact where the two are
        equal.
        """
        one_key = -expm1(log1p(-float(delta)) / keys_of_unit(most, neighbours))
        return counted.added(fewest) + reach_of_sum(noise, counted.columns, one_key)

    alike = counted.norm is Norm.MAX
    least = lone(l0, l0) if alike else max(lone(few, most) for few, most in _numbers(l0))
    return Threshold(max(floor * counted.unit, least), noise, delta, counted)


def _numbers(l0: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of numbers of keys up to l0: single numbers, then ranges between powers of two.

    A unit with that many keys adds little to any.

    >>> list(_numbers(2500))[-3:]
    [(1024, 1024), (1025, 2048), (2049, 2500)]
    """
    yield from ((keys, keys) for keys in range(1, min(l0, _ONE_BY_ONE) + 1))
    fewest = _ONE_BY_ONE
    while fewest < l0:
        yield fewest + 1, min(2 * fewest, l0)
        fewest *= 2
