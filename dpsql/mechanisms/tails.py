"""How far integer noise reaches: tails and moments, rounded outward.

Proof (PRIVACY.md R45). The Laplace tail is a geometric series. A discrete Gaussian is convex from σ
on, so that each term is at most its integral over the unit interval around it, and its normaliser
is at least σ·sqrt(2π). Floats are moved outward by more than their error.
"""

from __future__ import annotations

from math import ceil, exp, log, log1p, sqrt
from statistics import NormalDist
from typing import assert_never

import numpy as np

from dpsql.model.vocabulary import Mechanism, Noise

OUTWARD = 1 + 2.0**-30
"""More than the float error of any expression below; always applied to the safe side."""

_SUMMED_SCALE = 1024
"""Up to this σ the tail of the discrete Gaussian is summed term by term."""


def reach(noise: Noise, probability: float) -> int:
    """The least t >= 1 with P(Z >= t) <= probability, never too small.

    Raises ValueError unless 0 < probability < 1.

        >>> from fractions import Fraction
        >>> reach(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1)), 0.1)
        2
    """
    if not 0 < probability < 1:
        raise ValueError("a tail probability lies strictly between 0 and 1")
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            return _laplace_reach(float(noise.scale), probability)
        case Mechanism.DISCRETE_GAUSSIAN:
            return _gaussian_reach(sqrt(noise.scale), probability)
        case _:
            assert_never(noise.mechanism)


def gaussian_weights(scale: float, stop: int) -> np.ndarray:
    """exp(-x²/(2σ²)) for x = 0, ..., stop - 1."""
    x = np.arange(stop, dtype=np.float64)
    return np.exp(-((x / scale) ** 2) / 2)


def _laplace_reach(scale: float, probability: float) -> int:
    """P(Z >= t) = exp(-t/b) / (1 + exp(-1/b)) for t >= 1, a geometric series."""
    exponent = -log(probability) - log1p(exp(-1 / scale))
    return max(1, ceil(scale * exponent * OUTWARD))


def _gaussian_reach(scale: float, probability: float) -> int:
    """An exact tail sum; beyond `_SUMMED_SCALE` the continuous tail from t - 1/2.

    Where the density is convex, from σ on, each term is at most its integral over the unit
    interval around it, and the normaliser is at least σ·sqrt(2π): P(Z >= t) <= Φ((1/2 - t)/σ).
    """
    if scale > _SUMMED_SCALE:
        z = max(1.0, -NormalDist().inv_cdf(probability))
        return ceil(scale * z * OUTWARD + 0.5)
    # The terms beyond `stop` add less than 2**-30 of the probability.
    stop = ceil(scale * sqrt(2 * (log(1 / probability) + 40))) + 3
    weights = gaussian_weights(scale, stop)
    tails = np.cumsum(weights[::-1])[::-1]
    too_likely = tails * (OUTWARD / (2 * tails[0] - 1)) > probability / OUTWARD
    return max(1, int(np.count_nonzero(too_likely)))
