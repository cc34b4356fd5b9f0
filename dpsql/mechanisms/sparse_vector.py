"""Sparse vector: which queries of a stream lie above a threshold, paid for by the alarms alone.

Lyu, Su and Li 2017, Algorithm 1, in integers. Query i has an exact value v and a distance D, the
most by which one unit changes v. With discrete Laplace noise ρ, drawn once, and ν, drawn for each
query, it is above if v + D·ν >= t + D·ρ, that is if q + ν >= ρ with q = (v - t)/D. The run ends
with the alarm number c.

Proof (PRIVACY.md R52) of (1/b1 + k·c/b2)-DP, b1 the scale of ρ and b2 of ν. Neighbours have |q -
q'| <= 1. Fix the answers, of which at most c are alarms; what is asked next depends on them alone.
Given ρ = z, the answers are independent. A step of ρ or ν by a whole number s has a likelihood
ratio of at most exp(s/b), whatever z and q are.

* In general, k = 2. P(q + ν < z) <= P(q' + ν < z + 1), and P(q + ν >= z) <= P(q' + ν >= z - 1)
  <= exp(2/b2)·P(q' + ν >= z + 1). Sum over z and move ρ by one step: exp(1/b1 + 2c/b2).
* If all q move one way, k = 1. Upwards, q <= q' <= q + 1: P(q + ν < z) <= P(q' + ν < z + 1), and
  P(q + ν >= z) <= P(q' + ν >= z) <= exp(1/b2)·P(q' + ν >= z + 1); then ρ moves by one step.
  Downwards, q' <= q <= q' + 1: P(q + ν < z) <= P(q' + ν < z), and P(q + ν >= z)
  <= exp(1/b2)·P(q' + ν >= z); ρ does not move.

With b1 = 1/ε1 and b2 = k·c/ε2 this is ε1 + ε2.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import NoReturn

import numpy as np

from dpsql.mechanisms.calibration import laplace
from dpsql.model.vocabulary import ApproximateEvent, Noise

_GRAIN = 1 << 10
"""The two parts of ε are in a ratio of whole multiples of its inverse."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Noise, alarms and charge in one: made by `sparse_vector` only.

    `threshold` and `query` are the laws of ρ and ν, in units of each query's distance.
    """

    alarms: int
    one_way: bool
    threshold: Noise
    query: Noise
    event: ApproximateEvent


def sparse_vector(epsilon: Fraction, alarms: int, *, one_way: bool = False) -> SparseVector:
    """The run that ends after `alarms` alarms and is ε-DP, whatever is asked.

    `one_way` promises that one unit moves all queries up, or all of them down. ε is split as
    1 : (k·c)^(2/3), which minimises the variance of ρ - ν (Lyu, Su and Li 2017, section 4.2).
    Raises ValueError unless ε and `alarms` are positive.

        >>> law = sparse_vector(Fraction(1), 4)
        >>> law.threshold.scale, law.query.scale
        (Fraction(5, 1), Fraction(10, 1))
    """
    if alarms < 1:
        raise ValueError("a run has at least one alarm")
    shifts = alarms if one_way else 2 * alarms
    ratio = Fraction(round(_GRAIN * shifts ** (2 / 3)), _GRAIN)
    first = epsilon / (1 + ratio)
    noises = laplace(1, first), laplace(shifts, epsilon - first)
    return SparseVector(alarms, one_way, *noises, ApproximateEvent(epsilon))


class Run:
    """One run: the noisy threshold, known to this object alone, and the alarms that are left.

    Safe across threads, and of no use in another process: a fork would have its own alarms at the
    same noisy threshold. `sampler` draws integers of a noise law.
    """

    __slots__ = ("_draw", "_law", "_left", "_lock", "_process", "_threshold")

    def __init__(self, law: SparseVector, sampler: Callable[[Noise, int], np.ndarray]) -> None:
        self._law, self._draw, self._left = law, sampler, law.alarms
        self._lock, self._process = Lock(), os.getpid()
        self._threshold = int(sampler(law.threshold, 1)[0])

    @property
    def left(self) -> int:
        """The alarms that are left; with none the run is over. Zero in another process."""
        return self._left if os.getpid() == self._process else 0

    def above(self, value: int, threshold: Fraction, distance: int) -> bool:
        """Whether an exact value that one unit changes by at most `distance` is above, noisily.

        Raises ValueError if the run is over or the distance is not positive.
        """
        if distance < 1:
            raise ValueError("a query can move by at least one step")
        with self._lock:
            if not self.left:
                raise ValueError("the run is over")
            noise = int(self._draw(self._law.query, 1)[0]) - self._threshold
            alarm = value + distance * noise >= threshold
            self._left -= alarm
            return alarm

    def __repr__(self) -> str:
        return f"Run(left={self.left}, threshold=<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run is never copied or serialised")
