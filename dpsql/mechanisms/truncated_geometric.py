"""Partition selection without counts: one trial for each key, with the highest probability allowed.

Desfontaines, Voss, Gipson and Mandayam 2022, "Differentially private partition selection": a key of
n units is shown with probability π(n), π(0) = 0 and

    π(n) = min(r·π(n-1) + δ, 1 - (1 - π(n-1) - δ)/r, 1),  r = e^ε,

the largest probabilities for which one unit more or less is (ε, δ)-DP.

Proof (PRIVACY.md R46). Theirs, of neighbouring values; `_probabilities` rounds so that the
inequality holds for the numbers that are used. Each key of a unit is a step, and δ is shared among
them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpsql.mechanisms.laws import Uniform
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import ApproximateEvent, Neighbours

CERTAIN = 1 << 62
"""Inverse of the step of probabilities, which are rounded down."""

_EXPONENT_BITS = 128
_MOST_EPSILON = 40
"""Largest ε. From here on e^ε is more than a probability can grow by."""

_MOST_STEPS = 1 << 16
"""Largest number of units after which a key must be released with certainty."""


@dataclass(frozen=True, slots=True)
class KeyTrials:
    """Mechanism, distribution and charge of trials. Only `key_trials` makes it.

    One unit more or less changes the count of at most `keys` keys, each by one. Each trial is
    (`epsilon`, `delta`)-DP in its own count. The trials are independent, so together they are the
    composition of `keys` such steps. Keys of fewer units than `floor` are never released: the
    probability for n units is that for n - floor + 1 without a floor.
    """

    epsilon: Fraction
    delta: Fraction
    keys: int
    floor: int = 1

    @property
    def event(self) -> ApproximateEvent:
        """Event of the selection, for the accountant."""
        return ApproximateEvent(self.epsilon, self.delta, self.keys)

    @property
    def draw(self) -> Uniform:
        """Distribution of the draw for each key."""
        return Uniform(CERTAIN)

    @property
    def even(self) -> int:
        """Least number of units with which a key is released with probability at least one half."""
        return self.floor - 1 + int(np.searchsorted(self._law, CERTAIN // 2))

    @property
    def certain(self) -> int:
        """Least number of units with which a key is always released."""
        return self.floor - 1 + len(self._law) - 1

    def shown(self, counts: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Test which keys of these counts are released, given a draw for each."""
        law = self._law
        steps = np.clip(counts - (self.floor - 1), 0, len(law) - 1).astype(np.int64)
        shown: np.ndarray = draws < law[steps]
        return shown

    @property
    def _law(self) -> np.ndarray:
        law = _probabilities(self.epsilon, self.delta)
        assert law is not None
        return law


def key_trials(
    epsilon: Fraction,
    delta: Fraction,
    l0: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    floor: int = 1,
) -> KeyTrials | None:
    """Return trials that are each (ε, δ/k)-DP, k the keys that one unit can have: see
    `keys_of_unit`.

    Returns None where δ/k is too small to release anything, or ε is so small that certainty takes
    too many units.

    >>> trials = key_trials(Fraction(1), Fraction(1, 10**6), 1)
    >>> trials.even, trials.certain
    (14, 28)
    """
    keys = keys_of_unit(l0, neighbours)
    each = delta / keys
    if _probabilities(epsilon, each) is None:
        return None
    return KeyTrials(epsilon, each, keys, floor)


def keys_of_unit(l0: int, neighbours: Neighbours) -> int:
    """Return the most keys with a change of one in their count of units: under REPLACE those of two
    units.
    """
    return 2 * l0 if neighbours is Neighbours.REPLACE else l0


@lru_cache(maxsize=32)
def _probabilities(epsilon: Fraction, delta: Fraction) -> np.ndarray | None:
    """Return π(0), π(1), ... up to the first 1, in multiples of 1/CERTAIN.

    Each is rounded down, and the next follows from the rounded one: the theorem's inequality holds
    for the numbers that are used. r is rounded down too, which is stricter.
    """
    step = delta.numerator * CERTAIN // delta.denominator
    if step < 1 or epsilon <= 0:
        return None
    growth = _exponential_down(min(epsilon, Fraction(_MOST_EPSILON)))
    law = [0]
    while law[-1] < CERTAIN:
        if len(law) > _MOST_STEPS:
            return None
        grown = (growth * law[-1] >> _EXPONENT_BITS) + step
        missing = max(0, CERTAIN - law[-1] - step)
        shrunk = CERTAIN - -(-(missing << _EXPONENT_BITS) // growth)
        law.append(min(grown, shrunk, CERTAIN))
    return np.array(law, dtype=np.int64)


def _exponential_down(x: Fraction) -> int:
    """Return e^x in multiples of 2^-128, rounded down: the series of positive terms, each rounded
    down.

    >>> _exponential_down(Fraction(1)) * 10**12 >> 128
    2718281828459
    """
    term = total = 1 << _EXPONENT_BITS
    n = 1
    while term:
        term = term * x.numerator // (x.denominator * n)
        total += term
        n += 1
    return total
