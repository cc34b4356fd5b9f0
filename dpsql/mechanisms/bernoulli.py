"""Exact trials with probability exp(-γ), vectorised, from uniform integers alone.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 1. The
rate γ is kept as a product of fractions: a trial with probability a·b is a trial with probability
a and then one with probability b, so no integer ever outgrows a single denominator.

Proof (PRIVACY.md R41). With K the first k whose trial with probability γ/k fails, P(K > k) =
γ^k/k!, and the alternating sum of these, P(K odd), is exp(-γ). Larger rates are products of trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.mechanisms.entropy import Entropy


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """numerator / denominator in [0, 1]; a numerator array holds one value per draw."""

    numerator: int | np.ndarray
    denominator: int

    def at(self, places: np.ndarray) -> Factor:
        """The factor of the draws at `places`, in their order."""
        if isinstance(self.numerator, int):
            return self
        return Factor(self.numerator.take(places), self.denominator)

    def succeed(self, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Those of `places` whose trial with this probability succeeds."""
        if isinstance(self.numerator, int) and self.numerator == self.denominator:
            return places
        threshold = self.at(places).numerator
        hit = entropy.below(self.denominator, places.size) < threshold
        return places.take(np.flatnonzero(hit))


@dataclass(frozen=True, slots=True, eq=False)
class Decay:
    """The probability exp(-γ), γ = whole + Π factors / divisor, with every factor in [0, 1].

    >>> Decay.of(Fraction(7, 2)).whole
    3
    """

    whole: int = 0
    factors: tuple[Factor, ...] = ()
    divisor: int = 1

    @classmethod
    def of(cls, rate: Fraction) -> Decay:
        """exp(-rate) for a rational rate > 0."""
        whole = -(-rate.numerator // rate.denominator) - 1
        rest = rate - whole
        return cls(whole, (Factor(rest.numerator, rest.denominator),))

    def survivors(self, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Those of `places` whose trial with this probability succeeds."""
        for _ in range(self.whole):
            if not places.size:
                return places
            places = _algorithm_1(places, (), 1, entropy)
        return _algorithm_1(places, self.factors, self.divisor, entropy)

    def repeated(self, times: np.ndarray, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Those of `places` whose `times[place]` independent trials all succeed.

        The order of the result is not that of `places`.
        """
        done = []
        rounds = 0
        while places.size:
            more = times.take(places) > rounds
            done.append(places.take(np.flatnonzero(~more)))
            places = self.survivors(places.take(np.flatnonzero(more)), entropy)
            rounds += 1
        return np.concatenate([*done, places])

    def run_lengths(self, count: int, entropy: Entropy) -> np.ndarray:
        """How many trials succeed before the first failure: P(v) ∝ exp(-γ·v), v >= 0."""
        lengths = np.zeros(count, dtype=np.int64)
        places = np.arange(count)
        while places.size:
            places = self.survivors(places, entropy)
            lengths[places] += 1
        return lengths


def _algorithm_1(
    places: np.ndarray, factors: tuple[Factor, ...], divisor: int, entropy: Entropy
) -> np.ndarray:
    """Draw K, the first k whose trial with probability γ/k fails; succeed where K is odd."""
    local = tuple(factor.at(places) for factor in factors)
    first_failure_is_odd = np.ones(places.size, dtype=bool)
    inside = np.arange(places.size)
    k = 1
    while inside.size:
        for factor in (Factor(1, k * divisor), *local):
            inside = factor.succeed(inside, entropy)
        first_failure_is_odd[inside] = k % 2 == 0
        k += 1
    return places.take(np.flatnonzero(first_failure_is_odd))
