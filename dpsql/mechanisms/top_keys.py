"""Top-k selection: the highest keys of a public list, without their values.

Each of k rounds is an exponential mechanism over the keys that are left, P(key) ∝ exp(r·score), or
permute-and-flip at that rate.

Proof (PRIVACY.md R48, R54). One unit that comes or goes moves every score by its own clipped total,
a number in [L, U] with L <= 0 <= U, and so the difference of any two scores by at most U - L. The
number of keys that it touches does not matter. Then r·(U - L) bounds the range of the
log-likelihood ratios over the keys:

    ln P(i)/P'(i) = r·(s_i - s'_i) - ln Z/Z',

whose second term is the same for all i. That is ε-bounded range with ε = r·(U - L), without the
usual factor 2, because a shift of all scores changes nothing (Durfee and Rogers 2019). A replaced
unit moves a difference by at most 2·(U - L). The rounds compose adaptively.

Permute-and-flip (McKenna and Sheldon 2020) is the place of the largest of scores with exponential
noise of rate r (Ding et al. 2021), and a shift of all scores changes nothing there either. So the
scores may be taken to move by numbers in [0, U - L]. Then a key's lead over all others shrinks by
at most U - L, and by the noise's tail its probability by a factor of at most exp(r·(U - L)). It is
ε-DP with the same ε, and at equal ε errs less; bounded range costs less under zCDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log, sqrt
from statistics import NormalDist
from typing import assert_never

from dpsql.mechanisms.exponential import rate_down
from dpsql.mechanisms.laws import Flips, Law, Softmax
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Mechanism,
    Neighbours,
    Noise,
    Sensitivity,
)

_DOUBT = 0.05
"""Probability that an answer's error is exceeded."""


@dataclass(frozen=True, slots=True)
class Top:
    """Mechanism and charge of choosing the `count` keys with the highest scores. Only `top` makes
    it.

    With `lowest` it chooses the lowest scores. `keys` is the number of keys to choose from. Of
    equal scores, the key that is listed first counts as the better one.
    """

    count: int
    keys: int
    lowest: bool
    rate: Fraction
    epsilon: Fraction
    flips: bool = False

    @property
    def event(self) -> BoundedRangeEvent | ApproximateEvent:
        """Event of the rounds, for the accountant."""
        if self.flips:
            return ApproximateEvent(self.epsilon, rounds=self.count)
        return BoundedRangeEvent(self.epsilon, self.count)

    @property
    def error(self) -> float:
        """A 95 % bound on the excess of a key passed over over the chosen one, in steps of scores.

        It is a union bound over the keys: one behind by t is e^(-r·t) times as likely as the best.
        In permute-and-flip it passes as rarely, and the best has passed too, so its probability is
        half of that.
        """
        odds = self.keys / (2 * _DOUBT) if self.flips else self.keys / _DOUBT - 1
        return log(odds) / float(self.rate)

    def law(self, scores: Sequence[int]) -> Law:
        """Return the distribution of a round: a place among these scores, which are given best
        first.
        """
        falling = tuple(-s for s in scores) if self.lowest else tuple(scores)
        return Flips(falling, self.rate) if self.flips else Softmax(falling, self.rate)

    def best_first(self, scores: Sequence[int]) -> list[int]:
        """Return the places of the scores from the best to the worst, equal ones in their order.

        >>> Top(1, 3, False, Fraction(1), Fraction(1)).best_first([3, 5, 5])
        [1, 2, 0]
        """
        sign = 1 if self.lowest else -1
        return sorted(range(len(scores)), key=lambda place: (sign * scores[place], place))


def spread(sensitivity: Sensitivity) -> int:
    """Return the largest change of the difference of two scores by one unit.

    >>> spread(Sensitivity(3, -2, 5)), spread(Sensitivity(3, 0, 5, Neighbours.REPLACE))
    (7, 10)
    """
    once = max(0, sensitivity.upper) - min(0, sensitivity.lower)
    return max(1, 2 * once if sensitivity.neighbours is Neighbours.REPLACE else once)


def top(
    count: int,
    keys: int,
    sensitivity: Sensitivity,
    epsilon: Fraction,
    *,
    lowest: bool,
    flips: bool = False,
) -> Top:
    """Return a choice of `count` keys, each round of at most ε-bounded range, or ε-DP if it
    flips.
    """
    distance = spread(sensitivity)
    rate = rate_down(epsilon, distance)
    return Top(
        count=count, keys=keys, lowest=lowest, rate=rate, epsilon=rate * distance, flips=flips
    )


def error_of_noise(noise: Noise, keys: int) -> float:
    """Return the 95 % error where all scores are released with noise and then ordered.

    The difference of two draws exceeds it with probability at most 5 % / keys.

    >>> round(error_of_noise(Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(100)), 20), 1)
    39.7
    """
    tail = _DOUBT / keys
    match noise.mechanism:
        case Mechanism.DISCRETE_GAUSSIAN:
            return sqrt(2 * noise.scale) * -NormalDist().inv_cdf(tail)
        case Mechanism.DISCRETE_LAPLACE:
            return float(noise.scale) * _two_laplace(tail)
        case _:
            assert_never(noise.mechanism)


def _two_laplace(tail: float) -> float:
    """Return the t that the difference of two Laplace draws of scale 1 exceeds with this
    probability.

    P(difference > t) = e^-t·(1/2 + t/4), from the sum of two densities e^-|x|/2.
    """
    low, high = 0.0, 100.0
    while high - low > 1e-9:  # noqa: PLR2004
        t = (low + high) / 2
        low, high = (t, high) if exp(-t) * (1 / 2 + t / 4) > tail else (low, t)
    return high
