"""Rows drawn from a distribution over cliques of columns, as evenly as whole rows allow.

A column is filled at once for all rows that agree in the columns it depends on. Each of its values
gets its share of them in whole rows. The fraction that is rounded off is carried to the next such
rows, in total and by each of these columns. The rows that get a value are chosen at random. So the
tables of the rows are those of the distribution to within rounding; independent draws would add
sampling error.

The random numbers are computed from a public text, so the same rows can be drawn again. They hide
nothing (PRIVACY.md R66).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import shake_256

import numpy as np

from dpsql.consistency.graphical_model import Fit
from dpsql.model.ticking import tick


class PublicDice:
    """Pseudorandom numbers from a public text: each call of a method returns new ones.

    >>> PublicDice("a").words(2).tolist() == PublicDice("a").words(2).tolist()
    True
    """

    def __init__(self, text: str) -> None:
        self._text, self._calls = text, 0

    def words(self, count: int) -> np.ndarray:
        """Return `count` words of 64 bits."""
        self._calls += 1
        stream = shake_256(f"{self._text}/{self._calls}".encode())
        return np.frombuffer(stream.digest(8 * count), dtype="<u8")

    def shares(self, count: int) -> np.ndarray:
        """Return `count` numbers in [0, 1)."""
        result: np.ndarray = (self.words(count) >> np.uint64(11)) * 2.0**-53
        return result


def drawn(fit: Fit, rows: int, dice: PublicDice) -> dict[int, np.ndarray]:
    """Draw rows from a fitted distribution: for each column, the index of its value in every row.

    >>> from dpsql.consistency.graphical_model import GraphicalModel
    >>> model = GraphicalModel.of((2, 2), [(0, 1)])
    >>> found = drawn(Fit(model, {}, {(0, 1): np.eye(2), (1,): np.ones(2)}), 4, PublicDice("a"))
    >>> [np.bincount(column).tolist() for column in found.values()]
    [[2, 2], [2, 2]]
    """
    columns = dict[int, np.ndarray]()
    for clique in reversed(fit.model.cliques):
        column, *around = clique
        places = np.zeros(rows, dtype=np.int64)
        for other in around:
            places = places * fit.model.sizes[other] + columns[other]
        table = fit.tables[clique].reshape(fit.model.sizes[column], -1).T
        columns[column] = _filled(places, table, dice, fit.model.shape(clique[1:]))
    return columns


def _filled(
    places: np.ndarray, table: np.ndarray, dice: PublicDice, around: tuple[int, ...] = ()
) -> np.ndarray:
    """Draw a value for each row, in the shares of line `places[row]` of the table."""
    tick()
    counts = apportioned(table, np.bincount(places, minlength=len(table)), around)
    order = np.lexsort((dice.words(len(places)), places))
    result = np.empty(len(places), dtype=np.int64)
    result[order] = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), counts.ravel())
    return result


def apportioned(table: np.ndarray, sizes: np.ndarray, around: tuple[int, ...] = ()) -> np.ndarray:
    """Round the shares of each line of a table to whole numbers that add up to the line's size.

    Where lines are numbered by several keys, with `around` values each, the totals by each key's
    value are rounded as evenly as the lines.

    >>> apportioned(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([3, 3])).tolist()
    [[2, 1], [1, 2]]
    """
    carried = [np.zeros((size, table.shape[1])) for size in (1, *around)]
    lines = np.flatnonzero(sizes)
    keys = np.array([np.zeros_like(lines), *(np.unravel_index(lines, around) if around else ())])
    result = np.zeros(table.shape, dtype=np.int64)
    for line, own in zip(lines, keys.T, strict=True):
        weights, size = table[line], sizes[line]
        total = weights.sum()
        shares = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
        due = size * shares
        whole = np.floor(due).astype(np.int64)
        left = due - whole + sum(rest[n] for rest, n in zip(carried, own, strict=True))
        missing = int(size - whole.sum())
        whole[np.argsort(np.where(shares > 0, -left, np.inf), kind="stable")[:missing]] += 1
        for rest, n in zip(carried, own, strict=True):
            rest[n] += due - whole
        result[line] = whole
    return result


def spread(cells: np.ndarray, parts: Mapping[int, np.ndarray], dice: PublicDice) -> np.ndarray:
    """Assign each row to one of the weighted parts of its cell, and return the part's number.

    >>> parts = {0: np.array([1.0]), 1: np.array([1.0, 1.0])}
    >>> spread(np.array([0, 1, 1]), parts, PublicDice("a")).tolist() in ([0, 0, 1], [0, 1, 0])
    True
    """
    width = max(len(weights) for weights in parts.values())
    table = np.zeros((len(parts), width))
    for cell, weights in parts.items():
        table[cell, : len(weights)] = weights
    return _filled(cells, table, dice)
