"""Sparse vector: it finds the queries of a stream above a threshold, and only alarms cost budget.

Lyu, Su and Li 2017, Algorithm 1, in integers. Query i has an exact value v and a distance D, the
most by which one unit changes v. With discrete Laplace noise ρ, drawn once, and ν, drawn for each
query, it is above if v + D·ν >= t + D·ρ, that is if q + ν >= ρ with q = (v - t)/D. The run ends
with the alarm number c.

Proof (PRIVACY.md R52) of (1/b1 + k·c/b2)-DP, b1 the scale of ρ and b2 of ν. Neighbours have |q -
q'| <= 1. Fix the answers, with at most c alarms; the next queries depend on them alone. Given ρ =
z, the answers are independent. A step of ρ or ν by a whole number s has a likelihood ratio of at
most exp(s/b), for any z and q.

* In general, k = 2. P(q + ν < z) <= P(q' + ν < z + 1), and P(q + ν >= z) <= P(q' + ν >= z - 1) <=
  exp(2/b2)·P(q' + ν >= z + 1). Sum over z and move ρ by one step: exp(1/b1 + 2c/b2).
* If all q move one way, k = 1. Upwards, q <= q' <= q + 1: P(q + ν < z) <= P(q' + ν < z + 1), and
  P(q + ν >= z) <= P(q' + ν >= z) <= exp(1/b2)·P(q' + ν >= z + 1); then ρ moves by one step.
  Downwards, q' <= q <= q' + 1: P(q + ν < z) <= P(q' + ν < z), and P(q + ν >= z) <= exp(1/b2)·P(q' +
  ν >= z); ρ does not move.

With b1 = 1/ε1 and b2 = k·c/ε2 this is ε1 + ε2.

A scan of a histogram finds the outermost cell that enough rows reach. From the outer end on, it
tests cell after cell until the first passes with noise. This one alarm is the whole cost, however
many cells are passed over. If none passes, the result is the innermost cell. One row changes each
count by at most 1, a row that comes none downwards: the run is one way. One row of each unit counts
in a group.

A unit that is replaced moves the counts of a group one way too: its row comes, goes, or moves
outwards or inwards. But it may do so in its old groups and in its new ones, twice as many.

Proof (PRIVACY.md R53). Sparse vector with one alarm and distance 1 for each group: one row of each
unit counts, which raises the counts of some cells by 1 and lowers none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import NoReturn

import numpy as np

from dpsql.mechanisms.calibration import laplace
from dpsql.mechanisms.draw import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.exponential import Candidates
from dpsql.mechanisms.scores import Reached
from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import ApproximateEvent, Noise

_GRAIN = 1 << 10
"""Inverse of the step of the ratio of the two parts of ε."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Noise, alarms and charge of a run. Only `sparse_vector` makes it.

    `threshold` and `query` are the distributions of ρ and ν, in units of each query's distance.
    """

    alarms: int
    one_way: bool
    threshold: Noise
    query: Noise
    event: ApproximateEvent


def sparse_vector(epsilon: Fraction, alarms: int, *, one_way: bool = False) -> SparseVector:
    """Return the run that ends after `alarms` alarms and is ε-DP for any queries.

    `one_way` promises that one unit moves all queries up, or all of them down. ε is split as 1 :
    (k·c)^(2/3), which minimises the variance of ρ - ν (Lyu, Su and Li 2017, section 4.2). Raises
    ValueError unless ε and `alarms` are positive.

    >>> law = sparse_vector(Fraction(1), 4)
    >>> law.threshold.scale, law.query.scale
    (Fraction(5, 1), Fraction(10, 1))
    """
    if alarms < 1:
        raise ValueError("a run has at least one alarm")
    shifts = alarms if one_way else 2 * alarms
    ratio = Fraction(round(_GRAIN * shifts ** (2 / 3)), _GRAIN)
    first = epsilon / (1 + ratio)
    return SparseVector(
        alarms,
        one_way,
        laplace(1, first),
        laplace(shifts, epsilon - first),
        ApproximateEvent(epsilon),
    )


@dataclass(frozen=True, slots=True)
class AlarmNumbers:
    """Noisy values for `alarms` alarms, each release ε-DP, charged when a run begins.

    >>> numbers = AlarmNumbers(Fraction(1, 2), 4)
    >>> numbers.noise(10).scale, numbers.event.rounds
    (Fraction(20, 1), 4)
    """

    epsilon: Fraction
    alarms: int

    @property
    def event(self) -> ApproximateEvent:
        return ApproximateEvent(self.epsilon, rounds=self.alarms)

    def noise(self, distance: int) -> Noise:
        """Return the noise of a value that one unit changes by at most `distance`."""
        return laplace(distance, self.epsilon)


class Run:
    """A run: the noisy threshold, which only this object knows, and the remaining alarms.

    Safe across threads. It does not work in another process, because a fork would have its own
    alarms at the same noisy threshold. `sampler` draws integers from a noise distribution.
    """

    __slots__ = ("_draw", "_law", "_left", "_lock", "_process", "_threshold", "_unmeasured")

    def __init__(self, law: SparseVector, sampler: Callable[[Noise, int], np.ndarray]) -> None:
        self._law, self._draw, self._left = law, sampler, law.alarms
        self._lock, self._process, self._unmeasured = Lock(), os.getpid(), 0
        self._threshold = int(sampler(law.threshold, 1)[0])

    @property
    def left(self) -> int:
        """Number of remaining alarms; with 0 the run is over. It is 0 in another process."""
        return self._left if os.getpid() == self._process else 0

    def above(self, value: int, threshold: Fraction, distance: int) -> bool:
        """Test with noise whether a value that one unit changes by at most `distance` is above the
        threshold.

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
            self._unmeasured += alarm
            return alarm

    def number(self, value: int, noise: Noise) -> int:
        """Return an exact value plus noise, once for each alarm so far.

        Raises ValueError for more.
        """
        with self._lock:
            if not self._unmeasured:
                raise ValueError("an alarm is measured once")
            self._unmeasured -= 1
            return value + int(self._draw(noise, 1)[0])

    def __repr__(self) -> str:
        return f"Run(left={self.left}, threshold=<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run is never copied or serialised")


_BLOCK = 1 << 17
"""Number of cells that are processed together: a few MB of arrays."""

_UNSURE = 0.05
"""Probability that a cell without rows is taken for one that enough rows reach."""


def scanning(epsilon: Fraction) -> SparseVector:
    """Return the ε-DP run that ends with its first alarm."""
    return sparse_vector(epsilon, 1, one_way=True)


def least_rows(law: SparseVector, cells: int) -> int:
    """Return the rows that must noisily reach a cell, so that no empty cell passes with `1 -
    _UNSURE`.

    >>> least_rows(scanning(Fraction(1)), 100)
    21
    """
    threshold, query = reach(law.threshold, _UNSURE / 2), reach(law.query, _UNSURE / (2 * cells))
    return max(1, threshold + query - 2)


def first_reached(
    candidates: Candidates, aim: Reached, law: SparseVector, entropy: Entropy
) -> np.ndarray:
    """Return, for every list, the first cell from the outer end that `aim.rows` rows noisily reach.

    >>> law = scanning(Fraction(100))
    >>> first_reached(Candidates.of([90, 50, 0]), Reached(True, 20), law, Entropy()).tolist()
    [1]
    """
    chosen = [
        _first(candidates, block, aim, law, entropy)
        for block in np.array_split(
            np.arange(candidates.lists), -(-candidates.lists * candidates.size // _BLOCK)
        )
    ]
    return np.concatenate(chosen)


def _first(
    candidates: Candidates, lists: np.ndarray, aim: Reached, law: SparseVector, entropy: Entropy
) -> np.ndarray:
    size = candidates.size
    cells = np.arange(size)[::-1] if aim.highest else np.arange(size)
    places = lists[:, None] * size + cells
    counts = candidates.best[lists][:, None] - candidates.behind_at(places.ravel()).reshape(
        -1, size
    )
    thresholds = aim.rows + sample(law.threshold, lists.size, entropy)
    noisy = counts + sample(law.query, places.size, entropy).reshape(-1, size)
    above = noisy >= thresholds[:, None]
    above[:, -1] = True
    return np.asarray(cells[above.argmax(axis=1)])
