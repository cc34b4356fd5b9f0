"""Calibration: the least noise that keeps a given loss. Scales are rationals, rounded up.

Proof (PRIVACY.md R30, R42, R43). b = D1/ε and σ² = D2²/(2ρ) keep the loss, and every rational here
is rounded up: more noise loses less. A distance counts as at least one step in one group.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, isqrt

from dpsql.model.vocabulary import Mechanism, Noise, Sensitivity

_LEAST_SCALE = Fraction(1, 64)
"""Least noise scale. At this scale a draw differs from zero at most once in 10**13."""

_WHOLE_SIGMA = 1 << 10
"""Least σ that is rounded up to a whole number: at most 0.1 % more noise, and a faster sampler."""

_ROOT = 1 << 32
"""Inverse of the step of square roots."""

_LAPLACE_BITS, _GAUSSIAN_BITS = 40, 26
"""Bits of numerators and denominators with which the samplers stay in 64-bit words."""


def effective(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity to calibrate and charge for: at least one grid step in one group.

    >>> effective(Sensitivity(3, 0, 0)).l1
    3
    """
    least = replace(sensitivity, l0=max(1, sensitivity.l0))
    return least if least.linf else replace(least, upper=1)


def laplace(distance: int, epsilon: Fraction) -> Noise:
    """Return discrete Laplace noise with b = D1/ε, which makes integers D1 = `distance` apart ε-DP.

    Raises ValueError if ε is not positive.

    >>> laplace(50, Fraction(1, 10)).scale
    Fraction(500, 1)
    """
    if epsilon <= 0:
        raise ValueError("noise needs a positive ε")
    scale = max(Fraction(distance) / epsilon, _LEAST_SCALE)
    return Noise(Mechanism.DISCRETE_LAPLACE, round_up(scale, _LAPLACE_BITS))


def gaussian(distance_squared: int, rho: Fraction, delta: Fraction = Fraction(0)) -> Noise:
    """Return discrete Gaussian noise with σ² = D2²/(2ρ), which makes integers D2 apart ρ-zCDP.

    Raises ValueError if ρ is not positive.

    >>> gaussian(2, Fraction(1, 10)).scale
    Fraction(10, 1)
    >>> gaussian(2, Fraction(1, 10**7)).scale  # σ = 3163 rather than 3162.28
    Fraction(10004569, 1)
    """
    if rho <= 0:
        raise ValueError("noise needs a positive ρ")
    variance = max(distance_squared / (2 * rho), _LEAST_SCALE)
    if variance < _WHOLE_SIGMA**2:
        variance = round_up(variance, _GAUSSIAN_BITS)
    else:
        variance = Fraction((isqrt(ceil(variance) - 1) + 1) ** 2)
    return Noise(Mechanism.DISCRETE_GAUSSIAN, variance, delta)


def root_down(x: Fraction) -> Fraction:
    """Return a rational slightly below or equal to the square root of x >= 0.

    >>> root_down(Fraction(1, 4))
    Fraction(1, 2)
    """
    return Fraction(isqrt(x.numerator * _ROOT**2 // x.denominator), _ROOT)


def round_up(x: Fraction, bits: int) -> Fraction:
    """Round up to a rational of a simple form: x itself if both its parts have <= `bits` bits.

    Otherwise the result is a multiple of a power of two with about `bits` bits, or a whole number.

    >>> round_up(Fraction(10**30 + 1, 10**30), 8)
    Fraction(65, 64)
    """
    if max(x.numerator.bit_length(), x.denominator.bit_length()) <= bits:
        return x
    shift = max(0, bits - ceil(x).bit_length())
    return Fraction(ceil(x * (1 << shift)), 1 << shift)
