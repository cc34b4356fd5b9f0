"""Tails and moments of integer noise, rounded outward.

Proof (PRIVACY.md R45). The Laplace tail is a geometric series. A discrete Gaussian is convex from σ
on, so that each term is at most its integral over the unit interval around it, and its normaliser
is at least σ·sqrt(2π). Floats are moved outward by more than their error.

Proof (PRIVACY.md R45) of the sum of several independent draws. Discrete Laplace, q = e^(-1/b) and p
= 1 - q. A draw is the difference of two independent geometric numbers, P(G = n) = p·q^n, since Σ_j
p²·q^(2j+|x|) = p/(1+q)·q^|x|. So the sum of k draws is N - N', each the number of failures before
the k-th of independent trials that succeed with probability p. For m >= 1, N reaches m if the m-th
failure comes after fewer than k successes:

    P(N >= m) = q^m · Σ_{i<k} C(m+i-1, i)·p^i.

Let m = t + N' for t >= 1. By Vandermonde's identity C(t+i-1+N', i) = Σ_{j<=i} C(t+i-1, i-j)·C(N',
j), and from the binomial series E[C(N', j)·q^N'] = C(k+j-1, j)·q^(2j)·p^k / (1-q²)^(k+j), where 1 -
q² = p·(1+q). Together

    P(N - N' >= t) = q^t/(1+q)^k · Σ_{i<k} Σ_{j<=i} C(t+i-1, i-j)·p^(i-j) · C(k+j-1, j)·r^j,

r = q²/(1+q): for k = 1 the q^t/(1+q) of one draw; for k = 2 q^t/(1+q)² · (1 + t·p + 2·r). No term
is negative, so that floats lose nothing but their last bits.

Discrete Gaussian: E[e^(λZ)] <= e^(λ²σ²/2) for every λ (Canonne, Kamath, Steinke 2020), since
completing the square leaves Σ_x e^(-(x-λσ²)²/2σ²), which is largest where λσ² is whole. The sum of
k draws is then at least t with probability at most e^(-t²/(2kσ²)), by Chernoff's bound at λ =
t/(kσ²).
"""

from __future__ import annotations

from math import ceil, comb, exp, expm1, log, log1p, prod, sqrt
from statistics import NormalDist
from typing import assert_never

import numpy as np

from dpsql.model.vocabulary import Mechanism, Noise

OUTWARD = 1 + 2.0**-30
"""Factor above the floating-point error of any expression below, always applied to the safe
side.
"""

_SUMMED_SCALE = 1024
"""Largest σ for which the tail of the discrete Gaussian is summed term by term."""


def reach(noise: Noise, probability: float) -> int:
    """Return the least t >= 1 with P(Z >= t) <= probability, never too small.

    Raises ValueError unless 0 < probability < 1.

    >>> from fractions import Fraction
    >>> reach(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1)), 0.1)
    2
    """
    if not 0 < probability < 1:
        raise ValueError("a tail probability lies strictly between 0 and 1")
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            # P(Z >= t) = exp(-t/b) / (1 + exp(-1/b)) for t >= 1, a geometric series.
            scale = float(noise.scale)
            exponent = -log(probability) - log1p(exp(-1 / scale))
            return max(1, ceil(scale * exponent * OUTWARD))
        case Mechanism.DISCRETE_GAUSSIAN:
            return _gaussian_reach(sqrt(noise.scale), probability)
        case _:
            assert_never(noise.mechanism)


def gaussian_weights(scale: float, stop: int) -> np.ndarray:
    """Return exp(-x²/(2σ²)) for x = 0, ..., stop - 1."""
    x = np.arange(stop, dtype=np.float64)
    return np.exp(-((x / scale) ** 2) / 2)


def _gaussian_reach(scale: float, probability: float) -> int:
    """Return the t of a Gaussian tail: an exact sum; above `_SUMMED_SCALE` the continuous tail from
    t - 1/2.

    Where the density is convex, from σ on, each term is at most its integral over the unit interval
    around it, and the normaliser is at least σ·sqrt(2π): P(Z >= t) <= Φ((1/2 - t)/σ).
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


def reach_of_sum(noise: Noise, draws: int, probability: float) -> int:
    """Return the least t >= 1 with P(Z1 + ... + Zk >= t) <= probability, k = `draws`; never too
    small.

    For several Gaussian draws it is a bound slightly above the least. Raises ValueError unless 0 <
    probability < 1.

    >>> from fractions import Fraction
    >>> noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1))
    >>> reach_of_sum(noise, 1, 1e-6), reach_of_sum(noise, 2, 1e-6)
    (14, 16)
    """
    if draws == 1:
        return reach(noise, probability)
    if not 0 < probability < 1:
        raise ValueError("a tail probability lies strictly between 0 and 1")
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            return _laplace_sum_reach(float(noise.scale), draws, probability)
        case Mechanism.DISCRETE_GAUSSIAN:
            variance = draws * float(noise.scale)
            return max(1, ceil(sqrt(-2 * log(probability) * variance) * OUTWARD))
        case _:
            assert_never(noise.mechanism)


def laplace_tail(scale: float, draws: int, t: int) -> float:
    """Return P(Z1 + ... + Zk >= t) for t >= 1, by the formula above.

    >>> round(laplace_tail(1.0, 2, 3), 6)
    0.082333
    """
    q, p = exp(-1 / scale), -expm1(-1 / scale)
    ratio = q * q / (1 + q)
    terms = (
        prod((t + i - 1 - n) * p / (n + 1) for n in range(i - j))
        * comb(draws + j - 1, j)
        * ratio**j
        for i in range(draws)
        for j in range(i + 1)
    )
    return exp(-t / scale) * sum(terms) / (1 + q) ** draws


def _laplace_sum_reach(scale: float, draws: int, probability: float) -> int:
    """Find the least t by bisection: the tail falls as t rises."""

    def rare(t: int) -> bool:
        return laplace_tail(scale, draws, t) * OUTWARD <= probability / OUTWARD

    low, high = 0, 1
    while not rare(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rare(middle) else (middle, high)
    return high
