"""Which numbers are measured of second moments: entries of pairs of cells, numbered.

A row x has a 1 first, and one cell of each column that is not zero (see `inputs`). Of its products
x_i·x_j those are measured that can differ from zero and from one another: of two columns the pairs
of their cells, of one column of numbers its squares. Of one column of listed values the product of
two cells is zero, and the square of one is its product with the 1 before; that of -1 and 1 is 1.

A product of two columns counts √2 times one of a column with itself, rounded down: noise of one
size for all entries has half of the variance there (PRIVACY.md R82).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.systems.models.bends import InputPart, parts_of
from dpsql.systems.models.model_inputs import Input, PairInput

MOST_CELLS = 2_000
"""Most cells of all columns: every pair of them has a place in a matrix of 32 MB, and fits make
several such matrices."""
SQUARE, PRODUCT = 29, 41
"""What a square counts, and a product: 41² is no more than twice 29²."""


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """Two parts of columns, 0 being the 1 before them: the entry of their cells a and b is
    `base` + `width`·a + b; what is measured is their product times the `weight`.
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
        """The parts of the columns, each behind the place of its column."""
        return tuple(parts_of(self.columns))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each part, of the 1 before them too."""
        return (1, *(len(part.cells) for _, part in self.parts))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of each part's first cell."""
        return tuple(sum(self.sizes[:n]) for n in range(len(self.sizes)))

    @property
    def squared_norm(self) -> int:
        """The most that the square of a row's norm can be."""
        return 1 + len(self.columns)

    def numbers_of(self, column: int) -> list[int]:
        """The numbers of all cells of a column."""
        owned = (n for n, (place, _) in enumerate(self.parts, 1) if place == column)
        return [self.starts[n] + cell for n in owned for cell in range(self.sizes[n])]

    @cached_property
    def pairs(self) -> tuple[ColumnPair, ...]:
        """What is measured, in the order of its entries."""
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
        """How many numbers are measured."""
        last = self.pairs[-1]
        return last.base + self.sizes[last.one] * (last.width or 1)

    @cached_property
    def places(self) -> np.ndarray:
        """The entry of each pair of cells; -1 of a product that is always zero."""
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
        """What the product of each entry counts."""
        result = np.empty(self.entries)
        for pair in self.pairs:
            result[pair.base :] = pair.weight
        return result


def layout_of(columns: Sequence[Input]) -> Layout:
    """The layout of these columns.

    >>> from dpsql.model.tree import BOOLEAN, VARCHAR
    >>> from dpsql.systems.models.model_inputs import ListedInput, PairInput
    >>> layout_of([ListedInput("a", VARCHAR, ("x", "y", "z"), nullable=False)]).places.tolist()
    [[0, 1, 2, 3], [1, 1, -1, -1], [2, -1, 2, -1], [3, -1, -1, 3]]
    >>> layout_of([PairInput("a", BOOLEAN, (False, True), nullable=False)]).places.tolist()
    [[0, 1], [1, 0]]
    """
    return Layout(tuple(columns))
