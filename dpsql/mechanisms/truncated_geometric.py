"""Private keys of which nothing but themselves is asked: a trial for each, the likeliest allowed.

Desfontaines, Voss, Gipson and Mandayam 2022, "Differentially private partition selection": a key
of n units is shown with probability π(n), π(0) = 0 and

    π(n) = min(r·π(n-1) + δ, 1 - (1 - π(n-1) - δ)/r, 1),  r = e^ε,

the largest probabilities for which one unit more or less is (ε, δ)-DP.

Proof (PRIVACY.md R46). Theirs, of neighbouring values; `_probabilities` rounds so that it holds of
the very numbers that are used. The keys of one unit are so many steps, with δ shared among them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpsql.mechanisms.laws import Uniform
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import ApproximateEvent, Neighbours

CERTAIN = 1 << 62
"""Probabilities are multiples of its inverse, rounded down."""

_EXPONENT_BITS = 128
_MOST_EPSILON = 40
"""From here on e^ε is beyond what a probability can grow by."""

_MOST_STEPS = 1 << 16
"""No law that needs more units than this until it shows a key for certain."""


@dataclass(frozen=True, slots=True)
class KeyTrials:
    """Mechanism, law and charge in one: made by `key_trials` only.

    One unit more or less changes the count of at most `keys` keys, each by one, and each trial is
    (`epsilon`, `delta`)-DP in its own count; the trials are independent, so all together are the
    composition of `keys` such steps. Keys of fewer units than `floor` are never shown: the law
    of n units is that of n - floor + 1, which keeps its steps.
    """

    epsilon: Fraction
    delta: Fraction
    keys: int
    floor: int = 1

    @property
    def event(self) -> ApproximateEvent:
        """What showing the keys costs."""
        return ApproximateEvent(self.epsilon, self.delta, self.keys)

    @property
    def draw(self) -> Uniform:
        """What is drawn for each key."""
        return Uniform(CERTAIN)

    @property
    def even(self) -> int:
        """The least number of units with which a key is shown at least every other time."""
        return self.floor - 1 + int(np.searchsorted(self._law, CERTAIN // 2))

    @property
    def certain(self) -> int:
        """The least number of units with which a key is always shown."""
        return self.floor - 1 + len(self._law) - 1

    def shown(self, counts: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Which keys of these counts are shown, given a draw for each."""
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
    """Trials of which each is (ε, δ/k)-DP, k the keys that one unit can have: see `keys_of_unit`.

    None where δ/k is too small to show anything, or ε so small that the law has no end in sight.

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
    """Most keys whose count of units changes by one: under REPLACE those of two units."""
    return 2 * l0 if neighbours is Neighbours.REPLACE else l0


@lru_cache(maxsize=32)
def _probabilities(epsilon: Fraction, delta: Fraction) -> np.ndarray | None:
    """π(0), π(1), ... up to the first 1, in multiples of 1/CERTAIN.

    Each is rounded down, and the next follows from it as rounded: what the theorem asks of two
    neighbouring values holds of those that are used. r too is rounded down, which asks for more.
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
    """e^x in multiples of 2^-128, rounded down: the series of positive terms, each rounded down.

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
