"""The exact (ε, δ) of the discrete Gaussian, as the analytic formula gives it for continuous noise.

One measurement of many groups, each number with noise of P(x) ∝ exp(-x²/(2σ²)). A unit that comes
or goes moves at most d of them, each by at most D whole steps.

Proof (PRIVACY.md R60). The hockey-stick divergence of X and X + k is max_t P(X >= t) - γ·P(X >= t +
k), since their likelihood ratio rises. It grows with |k| for every γ > 0. With all coordinates but
one held, the divergence of a product is a weighted sum of such divergences of that one (with γ
times the ratio of the others). So it grows in every coordinate, and the worst case moves all d by
D.

There the ratio depends on S, the sum of d independent draws, alone, and with v = dσ²
    δ(ε) = P(S > a) - e^ε·P(S > a + dD),    a = εσ²/D - dD/2
(for d = 1: Canonne, Kamath and Steinke 2020, Theorem 7; it has the form of Balle and Wang 2018,
Theorem 8, at μ² = dD²/σ²).

The distribution of S is the discrete Gaussian of variance parameter v: for d = 1 by definition; for
more up to a factor. Convolving exp(-x²/(2kσ²)) with exp(-x²/(2σ²)) gives exp(-s²/(2(k+1)σ²)) times
the sum of a Gaussian of parameter τ² = kσ²/(k+1) >= σ²/2 over shifted integers, which by Poisson's
formula is τ·sqrt(2π)·(1 + θ), |θ| <= 2·Σ exp(-2π²τ²j²) < 10^-67 for σ >= 4: less than all rounding
here.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, exp, floor, sqrt

import numpy as np

from dpsql.mechanisms.calibration import gaussian
from dpsql.mechanisms.tails import gaussian_weights
from dpsql.model.vocabulary import Neighbours, Noise, Sensitivity

_OUTWARD = 2.0**-30
"""Relative margin, far above the floating-point error of any tail below."""

_SUMMED_SCALE = 1024
"""Largest sqrt(v) for which tails are summed term by term."""

_LEAST_VARIANCE = 16
"""Least σ² for which the distribution of a sum of several draws is known well enough."""

_FAR = 10
"""Number of further deviations beyond which a tail has less than exp(-50) of its probability."""

_LARGEST_EXPONENT = 700
"""Largest ε for which e^ε is computed. Beyond it, P(S > a) is the bound on δ."""

_LEAST = 1e-290
"""Least positive tail. Smaller ones are rounded down to 0 and up to this."""

_HALVINGS = 44


def is_exact(sensitivity: Sensitivity, variance: Fraction) -> bool:
    """Test whether δ is known exactly: one measurement by itself, add/remove neighbours, enough
    noise.
    """
    alone = sensitivity.alone and sensitivity.neighbours is Neighbours.ADD_REMOVE
    return alone and (sensitivity.l0 == 1 or variance >= _LEAST_VARIANCE)


@lru_cache(maxsize=1024)
def delta_of(sensitivity: Sensitivity, variance: Fraction, epsilon: Fraction) -> float:
    """Return the least δ, rounded up, at which noise of this σ² is (ε, δ)-DP.

    Raises ValueError unless `is_exact`.

    >>> three = Sensitivity(1, 0, 3, alone=True)
    >>> round(delta_of(three, Fraction(150), Fraction(1)), 8)
    1.99e-06
    """
    if not is_exact(sensitivity, variance):
        raise ValueError("no formula is exact here")
    step, groups = sensitivity.linf, sensitivity.l0
    first = floor(epsilon * variance / step - Fraction(groups * step, 2)) + 1
    _, most = _tail(first, groups * variance)
    if epsilon > _LARGEST_EXPONENT:
        return max(_LEAST, most)
    least, _ = _tail(first + groups * step, groups * variance)
    return max(_LEAST, most - exp(epsilon) * least)


@lru_cache(maxsize=1024)
def epsilon_at(sensitivity: Sensitivity, noise: Noise, textbook: Fraction) -> Fraction:
    """Return the least ε, rounded up, at which the noise is (ε, its own δ)-DP.

    `textbook` is an ε at which it is, and the result where no exact formula is known.
    """
    if not is_exact(sensitivity, noise.scale):
        return textbook
    low, high = Fraction(0), textbook
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = delta_of(sensitivity, noise.scale, middle) <= noise.delta
        low, high = (low, middle) if fits else (middle, high)
    return high


@lru_cache(maxsize=1024)
def calibrated(sensitivity: Sensitivity, epsilon: Fraction, textbook: Noise) -> Noise:
    """Return the least noise found that is (ε, δ)-DP with the δ of `textbook`.

    `textbook` is noise that has this guarantee; the result never has more variance.
    """
    low, high, best = textbook.scale / 8, textbook.scale, textbook
    for _ in range(_HALVINGS // 2):
        middle = (low + high) / 2
        noise = gaussian(1, 1 / (2 * middle), textbook.delta)
        fits = noise.scale <= textbook.scale and is_exact(sensitivity, noise.scale)
        fits = fits and delta_of(sensitivity, noise.scale, epsilon) <= noise.delta
        low, high, best = (low, middle, noise) if fits else (middle, high, best)
    return best


def _tail(first: int, variance: Fraction) -> tuple[float, float]:
    """Return P(X >= first) of the discrete Gaussian, rounded down and rounded up.

    For sqrt(v) > `_SUMMED_SCALE` it uses the integral of exp(-y²/(2v)) over [x - 1/2, x + 1/2].
    This is between exp(-1/(8v)) and exp(x²/(24v²)) times the term of x, as sinh(c)/c is in [1,
    exp(c²/6)].
    """
    if first <= 0:
        below, above = _tail(1 - first, variance)
        return 1 - above, 1 - below
    scale = sqrt(variance)
    if scale <= _SUMMED_SCALE:
        width = ceil(_FAR * scale) + 3
        terms = np.exp(-(((float(first) + np.arange(width)) / scale) ** 2) / 2)
        ends = (float(terms.sum()) / (2 * float(gaussian_weights(scale, width).sum()) - 1),) * 2
    else:
        z = float(Fraction(2 * first - 1, 2)) / scale
        middle = erfc(z / sqrt(2)) / 2
        ends = middle * exp(-((z + _FAR) ** 2) / (24 * scale**2)), middle * exp(1 / (8 * scale**2))
    least, most = ends
    return (least * (1 - _OUTWARD) if least > _LEAST else 0.0), max(most * (1 + _OUTWARD), _LEAST)
