"""Between which cells a quantile read from a tree of noisy counts surely lies.

The rows up to a cell, less the share α of all rows, err with a known variance: the estimates of a
tree are linear in its noise before they are kept above zero, which brings them nearer. Cell q holds
the quantile where the rows up to q reach α of all and those up to q - 1 do not. It is left out
where one of these two contradicts the estimates by more than their margin, so that the cell of the
quantile in truth is left out no more often than a test of either side fails (the inversion of a
test; nothing depends on how many cells there are).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Off:
    """How far the rows up to a place may be off, in units of the noise of a count.

    `inside` is the fraction of a node's cells that are below the place, `variance` what the rows
    of these vary by, given the rows of the node; `total` is the variance of all rows of the tree.
    """

    inside: np.ndarray
    variance: np.ndarray
    total: float = 0.0

    def within(self, nodes: np.ndarray, branching: int, levels: int) -> Off:
        """The same places in a tree of so many levels that has them in these of its lowest nodes.

        Nodes of height h that share a parent vary by v(h) each, v(0) = 1 and
        1/v(h + 1) = 1 + 1/(b·v(h)), and by what they share of the parent's error. With d nodes and
        a of another one below, that is v·(d + a² - (d + a)²/b), and (d + a)/b of the parent's.
        """
        inside, variance, own, total = self.inside, self.variance, 1.0, 0.0
        for _ in range(levels):
            nodes, before = np.divmod(nodes, branching)
            below = before + inside
            variance = variance + own * (before + inside**2 - below**2 / branching)
            inside, total = below / branching, branching * own
            own = total / (1 + total)
        return Off(inside, variance, total)

    def of_share(self, fraction: float) -> np.ndarray:
        """Of the rows up to each place less this share of all rows."""
        return np.asarray(np.sqrt(self.variance + (self.inside - fraction) ** 2 * self.total))


def ends_of_cells(cells: int, branching: int, levels: int) -> Off:
    """Of the rows up to where the first of the cells of a tree begins, and up to each one's end.

    >>> [round(float(x), 3) for x in ends_of_cells(4, 2, 2).of_share(0.5)]
    [0.577, 0.816, 0.577, 0.816, 0.577]
    """
    inside = np.concatenate([np.zeros(1), np.ones(cells)])
    nodes = np.maximum(np.arange(-1, cells), 0)
    return Off(inside, np.zeros(cells + 1)).within(nodes, branching, levels)


def between(
    rows: np.ndarray, target: np.ndarray, off: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last cell of each list that may hold the row of the target.

    `rows` are those of each cell, `off` is how far those up to each end may be off, with a column
    for where the first cell begins. The given `cell` always may.

    >>> rows, off = np.array([[5.0, 9.0, 5.0]]), np.array([[2.0, 2.0, 5.0, 2.0]])
    >>> between(rows, np.array([10.0]), off, np.array([1]))
    (array([1]), array([2]))
    """
    upto = rows.cumsum(axis=1) - target[:, None]
    possible = (upto - rows < off[..., :-1]) & (upto > -off[..., 1:])
    possible[np.arange(len(cell)), cell] = True
    last = possible.shape[1] - 1
    return possible.argmax(axis=1), last - possible[:, ::-1].argmax(axis=1)
