"""Error intervals of counts that are released because they reached a threshold.

A group of n units, in steps, is released as y = n + Z if y >= T. Z is symmetric and log-concave,
with tail S(k) = P(Z >= k). An interval holds the true n of 95 % of the *released* groups if it
holds all n for which neither P(n + Z >= y | n + Z >= T) nor P(n + Z <= y | n + Z >= T) is 2.5 % or
less.

* The first is S(k) / S(k - d) for k = y - n and d = y - T. It falls as k grows, since hazard rates
  of log-concave distributions rise. So the interval reaches down to y - g(d), with g(d) the last k
  for which it is more than 2.5 %: far below y where y is close to T, and S(g) > 2.5 % elsewhere.
* The second is (F(y) - F(T - 1)) / (1 - F(T - 1)) <= F(y), F the distribution of n + Z: above, the
  interval without a threshold reaches far enough.

A group without units is never released, so an interval need not reach below one.

It is post-processing: PRIVACY.md R68.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from math import ceil, erfc, sqrt
from typing import assert_never

from dpsql.mechanisms.tails import gaussian_weights, laplace_tail
from dpsql.mechanisms.threshold import Threshold
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Mechanism

_OUTSIDE = 0.025
"""Probability on either side of a 95 % interval."""

_LINES = 8
_SUMMED_SCALE = 1024
"""Largest σ for which the tail of the discrete Gaussian is summed term by term."""

_FAR = 38
"""Number of deviations at which a float tail is zero."""


@dataclass(frozen=True, slots=True)
class Widening:
    """The growth of the half-width of a released count towards its threshold.

    The half-width of a count of y steps is `margin` times the largest of 1 and `a + b·y` for
    `lines` (a, b), but at most y - `unit`. From about `until` steps on it is `margin` itself.
    """

    margin: int
    unit: int
    until: int
    lines: tuple[tuple[float, float], ...]

    def of(self, count: int) -> float:
        """Return the half-width of a released count.

        >>> from fractions import Fraction
        >>> from dpsql.mechanisms.threshold import threshold
        >>> from dpsql.model.vocabulary import Noise
        >>> noise = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(100))
        >>> chosen = threshold(noise, 1, Fraction(1, 10**6))
        >>> wider = widening(chosen)
        >>> [round(wider.of(chosen.value + d)) for d in (0, 10, 20, 60)]
        [49, 40, 25, 20]
        """
        factor = max(1.0, *(a + b * count for a, b in self.lines))
        return self.margin * min(factor, max(1.0, (count - self.unit) / self.margin))

    def largest_factor(self, least: int) -> float:
        """Return the largest growth of counts of at least this many steps.

        The lines fall, the whole count rises: the growth is largest where they meet.
        """
        meet = [(a * self.margin + self.unit) / (1 - b * self.margin) for a, b in self.lines]
        count = max(least, *meet) if meet else least
        return max([1.0, *(a + b * count for a, b in self.lines)])


@lru_cache(maxsize=256)
def widening(threshold: Threshold) -> Widening | None:
    """Return how half-widths grow towards a threshold; None where the noise is less than a step."""
    tail, least = _tail(threshold), threshold.value
    margin = _last(lambda k: tail(k + 1) > _OUTSIDE, 0) + 1 if tail(1) > _OUTSIDE else 0
    if not margin:
        return None

    def reach(d: int) -> int:
        """Return g(d), at most the whole count."""
        most = least + d - threshold.counted.unit

        def inside(k: int) -> bool:
            return k <= most and tail(k) > _OUTSIDE * tail(k - d)

        return _last(inside, margin) if inside(margin) else margin

    def everything(d: int) -> bool:
        return reach(d) >= least + d - threshold.counted.unit

    begin = _last(everything, 0) if everything(0) else 0
    end = _last(lambda d: reach(d) > margin, begin) + 1
    lines = tuple(_chords(list(_places(begin, end)), reach, least, margin))
    return Widening(margin, threshold.counted.unit, least + end, lines)


def _places(begin: int, end: int) -> Iterator[int]:
    """Yield places from `begin` to `end`, denser at the beginning."""
    first, ratio = begin, (end - begin) ** (1 / _LINES)
    yield first
    for n in range(1, _LINES + 1):
        place = begin + round(ratio**n)
        if first < place <= end:
            yield (first := place)
    if first < end:
        yield end


def _chords(
    places: list[int], reach: Callable[[int], int], least: int, margin: int
) -> Iterator[tuple[float, float]]:
    """Yield lines through g at these places, raised by one step because g is a step function.

    Where g falls faster farther on, its line there lies above. Each line falls faster than those
    behind it, and the largest of the lines is never below g.
    """
    heights = [(reach(d) + 1) / margin for d in places]
    chords = list(zip(pairwise(places), pairwise(heights), strict=True))[::-1]
    steepest = 0.0
    for (d, e), (at_d, at_e) in chords:
        slope = (at_e - at_d) / (e - d)
        if slope < steepest:
            steepest = slope
            yield at_d - slope * (least + d), slope


def _last(holds: Callable[[int], bool], start: int) -> int:
    """Return the last whole number up to which a condition holds, from `start`, where it holds."""
    step = 1
    while holds(start + step):
        step *= 2
    low, high = start + step // 2, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _tail(threshold: Threshold) -> Callable[[int], float]:
    """Return S(k) of the sum of the draws that a threshold compares."""
    noise, draws = threshold.noise, threshold.counted.columns
    upper: Callable[[int], float]
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            upper = partial(laplace_tail, float(noise.scale), draws)
        case Mechanism.DISCRETE_GAUSSIAN:
            upper = _gaussian_tail(sqrt(draws * noise.scale))
        case _:
            assert_never(noise.mechanism)
    return lambda k: upper(k) if k > 0 else 1 - upper(1 - k)


def _gaussian_tail(scale: float) -> Callable[[int], float]:
    if scale > _SUMMED_SCALE:
        return lambda k: erfc((k - 0.5) / (scale * sqrt(2))) / 2
    weights = gaussian_weights(scale, ceil(_FAR * scale) + 3)
    tails = weights[::-1].cumsum()[::-1] / (2 * weights.sum() - 1)
    return lambda k: float(tails[k]) if k < len(tails) else 0.0
