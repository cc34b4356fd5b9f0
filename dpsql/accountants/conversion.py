"""Conversion of zCDP and Gaussian DP to approximate DP and back.

Proof (PRIVACY.md R58, R109). ρ-zCDP implies (ε, δ)-DP for every α > 1 with δ =
exp((α-1)(αρ-ε))/(α-1) · (1-1/α)^α (Canonne, Kamath, Steinke 2020, Corollary 13). Solved for one
unknown, each α gives a valid bound, so a search that misses the best α loses accuracy only. The
same holds of the search for a μ of Gaussian DP.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, log, log1p, sqrt

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


# --- Gaussian DP -------------------------------------------------------------------------------

_TAILS = 2.0**-40
"""Relative margin, far above the floating-point error of the tails of the normal distribution."""

_LARGEST_EXPONENT = 700.0
"""Largest ε for which e^ε is computed."""

_HALVINGS = 60


@lru_cache(maxsize=1024)
def squared_mu_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ², rounded down, such that μ-Gaussian DP implies (ε, δ)-DP; 0 if there is
    none.

    >>> round(float(squared_mu_of(Fraction(1), Fraction(1, 10**6))), 5)
    0.05603
    """
    bound, most = min(float(epsilon), _LARGEST_EXPONENT), float(delta) * (1 - _TAILS)
    if bound <= 0 or most <= 0:
        return Fraction(0)
    low = 0.0
    high = _doubled(lambda mu: _gaussian_delta(bound, mu) > most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = _gaussian_delta(bound, middle) <= most
        low, high = (middle, high) if fits else (low, middle)
    return Fraction((low * (1 - _OUTWARD)) ** 2)


def epsilon_of_squared_mu(squared_mu: Fraction, delta: Fraction) -> float:
    """Return the least ε, rounded up, such that μ-Gaussian DP implies (ε, δ)-DP.

    >>> round(epsilon_of_squared_mu(Fraction("0.05603"), Fraction(1, 10**6)), 3)
    1.0
    """
    mu, most = sqrt(squared_mu) * (1 + _OUTWARD), float(delta) * (1 - _TAILS)
    if not squared_mu:
        return 0.0
    low, high = 0.0, _doubled(lambda epsilon: _gaussian_delta(epsilon, mu) <= most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = _gaussian_delta(middle, mu) <= most
        low, high = (low, middle) if fits else (middle, high)
    return high * (1 + _OUTWARD)


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the δ, rounded up, of N(0, 1) and N(μ, 1) at ε: Balle and Wang 2018, Theorem 8."""
    if not mu:
        return 0.0
    middle, half = epsilon / mu, mu / 2
    more = erfc((middle - half) / _ROOT_OF_TWO) * (1 + _TAILS)
    if epsilon > _LARGEST_EXPONENT:
        return more / 2
    return (more - exp(epsilon) * erfc((middle + half) / _ROOT_OF_TWO) * (1 - _TAILS)) / 2


_ROOT_OF_TWO = sqrt(2)


def _doubled(is_enough: Callable[[float], bool]) -> float:
    """Return the first power of two, from 2^-40 on, that is enough."""
    value = 2.0**-40
    while not is_enough(value):
        value *= 2
    return value


# --- Rényi DP ----------------------------------------------------------------------------------


def renyi_overhead(order: float, delta: Fraction) -> float:
    """Return ε - R of (ε, δ)-DP for a Rényi divergence R: Canonne, Kamath, Steinke 2020,
    Proposition 12.
    """
    return log1p(-1 / order) - (log(delta) + log(order)) / (order - 1)
