"""Exact confidence bounds of a proportion (Clopper and Pearson 1934), by bisection on the tail."""

from __future__ import annotations

from functools import cache
from math import lgamma, log, log1p

import numpy as np

STEPS = 50


@cache
def _log_choose(trials: int) -> np.ndarray:
    """ln C(trials, k) for each k."""
    whole = lgamma(trials + 1)
    return np.array([whole - lgamma(k + 1) - lgamma(trials - k + 1) for k in range(trials + 1)])


def at_least(successes: int, trials: int, p: float) -> float:
    """P(X >= successes) for X of `trials` draws of probability 0 < p < 1.

    >>> round(at_least(2, 3, 0.5), 12)
    0.5
    """
    k = np.arange(successes, trials + 1)
    terms = _log_choose(trials)[successes:] + k * log(p) + (trials - k) * log1p(-p)
    return float(np.exp(terms).sum())


def lower(successes: int, trials: int, alpha: float) -> float:
    """The proportion lies below this with probability at most alpha.

    >>> round(lower(3, 10, 0.025), 4)
    0.0667
    """
    if successes == 0:
        return 0.0
    below, above = 0.0, 1.0
    for _ in range(STEPS):
        middle = (below + above) / 2
        if at_least(successes, trials, middle) < alpha:
            below = middle
        else:
            above = middle
    return below


def upper(successes: int, trials: int, alpha: float) -> float:
    """The proportion lies above this with probability at most alpha.

    >>> round(upper(3, 10, 0.025), 4)
    0.6525
    """
    return 1.0 - lower(trials - successes, trials, alpha)
