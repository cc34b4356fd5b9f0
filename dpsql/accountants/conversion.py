"""Conversion of zCDP to approximate DP and back: Canonne, Kamath, Steinke 2020, Corollary 13.

Proof (PRIVACY.md R58). ρ-zCDP implies (ε, δ)-DP for every α > 1 with δ = exp((α-1)(αρ-ε))/(α-1) ·
(1-1/α)^α. Solved for one unknown, each α gives a valid bound, so a search that misses the best α
loses accuracy only.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p, sqrt

_OUTWARD = 2.0**-30
"""Relative margin, far above the floating-point error of the expressions below."""

_LOWEST, _HIGHEST, _STEPS = -20.0, 45.0, 100
"""Range of ln(α-1) that is searched, and the number of golden-section steps over it."""

_GOLDEN = (sqrt(5) - 1) / 2


@lru_cache(maxsize=1024)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ, rounded down, such that ρ-zCDP implies (ε, δ)-DP; 0 if there is none.

    >>> round(float(rho_of(Fraction(1), Fraction(1, 10**6))), 5)
    0.02436
    """
    if epsilon <= 0 or delta <= 0:
        return Fraction(0)
    bound, log_delta = float(epsilon), log(min(delta, Fraction(1)))

    def negative_rho(y: float) -> float:
        return (_overhead(y, log_delta) - bound) / (1 + exp(y))

    return Fraction(max(0.0, -_least(negative_rho) * (1 - _OUTWARD)))


@lru_cache(maxsize=1024)
def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the least ε, rounded up, such that ρ-zCDP implies (ε, δ)-DP.

    Raises ValueError unless δ is positive.

    >>> round(float(epsilon_of(Fraction("0.02436"), Fraction(1, 10**6))), 3)
    1.0
    """
    if delta <= 0:
        raise ValueError("a conversion from zCDP needs a positive δ")
    if rho == 0:
        return Fraction(0)
    loss, log_delta = float(rho), log(min(delta, Fraction(1)))

    def epsilon(y: float) -> float:
        return (1 + exp(y)) * loss + _overhead(y, log_delta)

    return Fraction(max(0.0, _least(epsilon) * (1 + _OUTWARD)))


def _overhead(y: float, log_delta: float) -> float:
    """Return ε - αρ at α = 1 + exp(y)."""
    return (-log_delta - y - (1 + exp(y)) * log1p(exp(-y))) / exp(y)


def _least(function: Callable[[float], float]) -> float:
    """Return the least value that golden-section search finds."""
    low, high = _LOWEST, _HIGHEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return min(at_left, at_right)
