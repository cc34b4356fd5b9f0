"""Sparse vector over the cells of a histogram: the outermost cell that enough rows reach.

From the outer end on, cell after cell is asked whether so many rows reach it, until the first
noisily does: one alarm of `mechanisms.sparse_vector`, which is all that is paid for, however many
cells are passed over. If none does, it is the innermost. One row changes each count by at most 1, a
row that comes none downwards: the run is one way. Of a unit one row of a group counts.

A unit that is replaced moves the counts of a group one way too: its row comes, goes, or moves
outwards or inwards. But it may do so in its old groups and in its new ones, twice as many.

Proof (PRIVACY.md R53). Sparse vector with one alarm and distance 1 for each group: of a unit one
row counts, which raises the counts of some cells by 1 and lowers none.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.mechanisms.draw import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.exponential import Candidates
from dpsql.mechanisms.scores import Reached
from dpsql.mechanisms.sparse_vector import SparseVector, sparse_vector
from dpsql.mechanisms.tails import reach

_BLOCK = 1 << 17
"""Cells that are looked at together: a few MB of arrays."""

_UNSURE = 0.05
"""How probably a cell that no row reaches is taken for one that enough do."""


def scanning(epsilon: Fraction) -> SparseVector:
    """The ε-DP run that ends with its first alarm."""
    return sparse_vector(epsilon, 1, one_way=True)


def least_rows(law: SparseVector, cells: int) -> int:
    """How many rows must noisily reach a cell, so that with `1 - _UNSURE` none is taken for more.

    >>> least_rows(scanning(Fraction(1)), 100)
    21
    """
    threshold, query = reach(law.threshold, _UNSURE / 2), reach(law.query, _UNSURE / (2 * cells))
    return max(1, threshold + query - 2)


def first_reached(
    candidates: Candidates, aim: Reached, law: SparseVector, entropy: Entropy
) -> np.ndarray:
    """For every list the first cell, from the outer end on, that `aim.rows` rows noisily reach.

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
