"""Which of several histograms reaches highest, by how many rows must change until it does.

There is a list of counts for each option, over the same levels. The option that m rows reach the
highest level of is to be found: one row is too few, since any one that comes may be the highest.
Option c is it where at some level t at least m of its rows are at or above t, and of every other
option fewer than m are above t. The rows that must come or go until then are

    d(c) = min over t of max(0, m - n_c(>= t)) + Σ_{c' ≠ c} max(0, n_c'(> t) - (m - 1)).

Proof (PRIVACY.md R50). A row that comes to option x lowers the first term of x and raises the
second of all others, each by at most one at every t, and a row that goes does the reverse: all d
move by at most one, that of x one way and those of the others the other way, so that differences
move by at most two. It is a distance, and so the score of the inverse sensitivity mechanism (Asi
and Duchi 2020).
"""

from __future__ import annotations

import numpy as np


def distances(counts: np.ndarray, rows: int) -> np.ndarray:
    """The d of each option: `counts` has a line for each, with a column for each level, rising.

    Levels without rows may be left out: at the next one below that has some, both terms are as
    small or smaller.

    >>> distances(np.array([[5, 0, 2], [0, 4, 0]]), 3).tolist()
    [1, 0]
    """
    reached = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    beyond = np.maximum(reached - counts - (rows - 1), 0)
    missing = np.maximum(rows - reached, 0)
    return np.asarray(np.min(missing + beyond.sum(axis=0) - beyond, axis=1))
