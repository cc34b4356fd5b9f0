"""The error of integer noise: floats, for people to read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import exp, expm1, fsum, sqrt
from typing import assert_never

from dpsql.mechanisms.tails import reach
from dpsql.model.vocabulary import Mechanism, Noise

_SMOOTH = 8
"""Least σ at which the discrete Gaussian's deviation is σ to the last bit of a float."""

_COARSE, _BENT = 2, 1e-3
"""Largest deviation of coarse noise, in grid steps, and how far a formula may bend over one
step.
"""


def standard_deviation(noise: Noise) -> float:
    """Return the standard deviation of the noise, in grid steps.

    >>> from fractions import Fraction
    >>> round(standard_deviation(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10))), 3)
    14.136
    """
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            rate = 1 / float(noise.scale)
            return sqrt(2) * exp(-rate / 2) / -expm1(-rate)
        case Mechanism.DISCRETE_GAUSSIAN:
            scale = sqrt(noise.scale)
            if scale >= _SMOOTH:
                return scale
            return _deviation_of_steps(scale)
        case _:
            assert_never(noise.mechanism)


@lru_cache(1000)
def _deviation_of_steps(scale: float) -> float:
    """Return the standard deviation of a discrete Gaussian with steps that matter."""
    # NumPy's exponentials and sums differ between processors in the last digit.
    weights = [exp(-((x / scale) ** 2) / 2) for x in range(40 * _SMOOTH)]
    squares = fsum(x * x * weight for x, weight in enumerate(weights))
    return sqrt(2 * squares / (2 * fsum(weights) - 1))


def margin(noise: Noise, confidence: float = 0.95) -> float:
    """Return the least half-width h >= 0, in grid steps, with P(|Z| <= h) >= confidence.

    >>> from fractions import Fraction
    >>> margin(Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(100)))
    20.0
    """
    return float(reach(noise, (1 - confidence) / 2) - 1)


def widest(noises: Iterable[Noise], confidence: float = 0.95) -> float:
    """Return the largest ratio of half-width to standard error among these noises; 0 without
    noises.

    >>> widest([])
    0.0
    """
    return max((_factor(noise, confidence) for noise in noises), default=0.0)


def _factor(noise: Noise, confidence: float) -> float:
    """Return the ratio of half-width to standard error, a little larger for coarse noise.

    Its whole numbers must stay inside the interval through a curved formula.
    """
    deviation = standard_deviation(noise)
    return margin(noise, confidence) / deviation * (1 + _BENT * (deviation < _COARSE))
