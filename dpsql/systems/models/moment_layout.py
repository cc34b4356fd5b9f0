"""Layout of second moments: a numbered entry for each measured pair of cells.

A row x starts with a 1 and has one nonzero cell of each column (see `inputs`). Only products
x_i·x_j that can be nonzero and distinct are measured. These are the pairs of cells of two columns,
and the squares of numeric columns. For one column of listed values, a product of two cells is zero,
and a square equals the product with the leading 1. The square of -1 and 1 is 1.

Products of two columns have √2 times the weight of squares, rounded down. With equal noise in all
entries, this halves their variance (PRIVACY.md R82).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.systems.models.bends import InputPart, parts_of
from dpsql.systems.models.model_inputs import Input, PairInput

MOST_CELLS = 500
"""Maximum number of cells of all columns. The arithmetic of fits has no deadline, and grows with
the cube of cells: 6 s at 500, minutes at 2,000.
"""
SQUARE, PRODUCT = 29, 41
"""Weights of a square and of a product: 41² is at most twice 29²."""


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """Two parts of columns; part 0 is the leading 1.

    The entry of their cells a and b is `base` + `width`·a + b. The measured number is their product
    times `weight`.
    """

    one: int
    other: int
    base: int
    width: int
    weight: int


@dataclass(frozen=True)
class Layout:
    """The entries of the second moments of some columns."""

    columns: tuple[Input, ...]

    @cached_property
    def parts(self) -> tuple[tuple[int, InputPart], ...]:
        """Parts of the columns, each with the index of its column."""
        return tuple(parts_of(self.columns))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each part, including the leading 1."""
        return (1, *(len(part.cells) for _, part in self.parts))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Index of each part's first cell."""
        return tuple(sum(self.sizes[:n]) for n in range(len(self.sizes)))

    @property
    def squared_norm(self) -> int:
        """Upper bound on the squared norm of a row."""
        return 1 + len(self.columns)

    def numbers_of(self, column: int) -> list[int]:
        """Return the indices of all cells of a column."""
        owned = (n for n, (place, _) in enumerate(self.parts, 1) if place == column)
        return [self.starts[n] + cell for n in owned for cell in range(self.sizes[n])]

    @cached_property
    def pairs(self) -> tuple[ColumnPair, ...]:
        """Measured pairs of parts, in the order of their entries."""
        squares = [0, *(n for n, (_, part) in enumerate(self.parts, 1) if part.has_squares)]
        base, result = 0, list[ColumnPair]()
        together = *((n, n) for n in squares), *combinations(range(len(self.sizes)), 2)
        for one, other in together:
            width = 0 if one == other else self.sizes[other]
            weight = SQUARE if one == other else PRODUCT
            result.append(ColumnPair(one, other, base, width, weight))
            base += self.sizes[one] * (width or 1)
        return tuple(result)

    @property
    def entries(self) -> int:
        """Number of measured entries."""
        last = self.pairs[-1]
        return last.base + self.sizes[last.one] * (last.width or 1)

    @cached_property
    def places(self) -> np.ndarray:
        """Matrix of the entry of each pair of cells; -1 for a product that is always zero."""
        count = sum(self.sizes)
        result = np.full((count, count), -1, dtype=np.int64)
        for pair in self.pairs:
            rows = np.arange(self.sizes[pair.one])
            first, second = self.starts[pair.one] + rows, self.starts[pair.other]
            if pair.one == pair.other:
                result[first, first] = pair.base + rows
                continue
            columns = np.arange(self.sizes[pair.other])
            entry = pair.base + pair.width * rows[:, None] + columns
            result[first[:, None], second + columns] = entry
            result[(second + columns)[:, None], first] = entry.T
        for n, (_, part) in enumerate(self.parts, 1):
            if not part.has_squares:
                cells = self.starts[n] + np.arange(self.sizes[n])
                result[cells, cells] = 0 if isinstance(part, PairInput) else result[0, cells]
        return result

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each entry."""
        result = np.empty(self.entries)
        for pair in self.pairs:
            result[pair.base :] = pair.weight
        return result


def layout_of(columns: Sequence[Input]) -> Layout:
    """Return the layout of these columns.

    >>> from dpsql.model.tree import BOOLEAN, VARCHAR
    >>> from dpsql.systems.models.model_inputs import ListedInput, PairInput
    >>> layout_of([ListedInput("a", VARCHAR, ("x", "y", "z"), nullable=False)]).places.tolist()
    [[0, 1, 2, 3], [1, 1, -1, -1], [2, -1, 2, -1], [3, -1, -1, 3]]
    >>> layout_of([PairInput("a", BOOLEAN, (False, True), nullable=False)]).places.tolist()
    [[0, 1], [1, 0]]
    """
    return Layout(tuple(columns))
