"""A column of numbers as a line with bends: a linear spline over knots between its declared bounds.

Beside the place t of a number between its bounds, from -1 to 1, stand hats: one over both halves,
two over the quarters, four over the eighths, and so on, the system of Faber and Schauder (Faber
1910, "Über stetige Funktionen"). Each level has half as many squares in its hats as that before:
with them a function costs what the integral of its squared slope does, and what is linear needs
none of them. In a row one hat of each level is not zero, at most. Knots are evenly spaced, and no
row is read for them.

Proof (PRIVACY.md R90). t² and the squares of all hats of a row are no more than 1, together: a
column with bends makes no row longer than one without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Kind
from dpsql.systems.models.model_inputs import STEPS, Input, NumberInput

KNOTS = (2, 3, 5, 9, 17)
"""How many knots a column may have: of two it is a line."""


@dataclass(frozen=True, slots=True)
class BendInput:
    """The hats of one level of a column of numbers: each is a cell."""

    number: NumberInput
    level: int

    @property
    def cells(self) -> tuple[float, ...]:
        """The number under the tip of each hat."""
        places = ((2 * n + 1) / 2**self.level - 1 for n in range(2**self.level))
        return tuple(self.number.at(place) for place in places)

    @property
    def least(self) -> int:
        """The least that a cell holds, in steps."""
        return 0

    @property
    def has_squares(self) -> bool:
        """Whether the square of what a cell holds is another number than that itself, or 1."""
        return True

    def code(self, place: str) -> str:
        """The cell of a row in SQL, of the place of its number in steps."""
        width, count = 2 * STEPS >> self.level, 2**self.level
        ends = ((n, (n + 1) * width - STEPS) for n in range(count - 1))
        branches = " ".join(f"WHEN {place} < {end} THEN {n}" for n, end in ends)
        return f"CASE {branches} ELSE {count - 1} END" if branches else "0"

    def height(self, place: str) -> str:
        """What that cell holds in SQL, in steps, rounded toward zero: 0 at both bounds."""
        rest = f"({STEPS} - ABS({place}))"
        for level in range(1, self.level + 1):
            rest = f"({STEPS >> level} - ABS({STEPS >> level} - {rest}))"
        if self.level % 2 == 0:
            return f"{rest} * {2 ** (self.level // 2)}"
        return f"CAST(TRUNC(CAST({rest} AS DOUBLE) * {_times(self.level)!r}) AS BIGINT)"


InputPart: TypeAlias = Input | BendInput
"""What has one cell in each row that is not zero: a column, or the hats of one level of it."""


def _times(level: int) -> float:
    """How much higher a hat of a level is than wide, half of it: 2^(level / 2), or a little less,
    so that what is computed of whole numbers is exact. 181² is less than 2·128².
    """
    return 2.0 ** (level // 2) * (181 / 128 if level % 2 else 1.0)


def bent(columns: Sequence[Input], knots: int) -> tuple[Input, ...]:
    """The columns with so many knots in each column of numbers, or fewer where there are fewer
    whole numbers.
    """
    return tuple(
        replace(column, levels=_levels(column, knots))
        if isinstance(column, NumberInput)
        else column
        for column in columns
    )


def _levels(column: NumberInput, knots: int) -> int:
    span, levels = column.upper - column.lower, KNOTS.index(knots)
    if column.type.kind is Kind.INTEGER:
        return min(levels, max(int(span).bit_length() - 1, 0))
    return levels if span else 0


def parts_of(columns: Sequence[Input]) -> Iterator[tuple[int, InputPart]]:
    """The parts of columns, each behind the place of its column.

    >>> from fractions import Fraction
    >>> from dpsql.model.tree import DOUBLE
    >>> column = NumberInput("x", DOUBLE, Fraction(0), Fraction(8), nullable=False)
    >>> [part.cells for _, part in parts_of(bent([column], 5))]
    [(0,), (4.0,), (2.0, 6.0)]
    """
    for place, column in enumerate(columns):
        yield place, column
        if isinstance(column, NumberInput):
            yield from ((place, BendInput(column, level)) for level in range(column.levels))


def has_content(part: InputPart) -> bool:
    """Whether a cell of it holds something else than 1."""
    return isinstance(part, BendInput) or part.number is not None


def coded(columns: Sequence[Input], first: Sequence[str], source: str) -> str:
    """Rows in SQL: behind what stands `first` the cell f1, f2, … of each part, and v1, v2, … what
    it holds, of those that hold something else than 1.
    """
    own, bends, base = list(first), list[str](), ""
    for place, (_, part) in enumerate(parts_of(columns), 1):
        if isinstance(part, BendInput):
            bends += [f"{part.code(base)} AS f{place}", f"{part.height(base)} AS v{place}"]
            continue
        own.append(f"{part.code} AS f{place}")
        if part.number is not None:
            base = f"v{place}"
            own.append(f"{part.number} AS {base}")
    rows = f"SELECT {', '.join(own)} {source}"
    return f"SELECT *, {', '.join(bends)} FROM ({rows}) AS lines" if bends else rows


def heights(places: np.ndarray, levels: int) -> np.ndarray:
    """Of each place from -1 to 1 a row: itself, and what each hat of so many levels is there.

    >>> heights(np.array([-1.0, 0.0, 0.5]), 2).tolist()
    [[-1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.70703125]]
    """
    columns, rest = [places], 1 - np.abs(places)
    for level in range(levels):
        half = 2.0**-level
        rest = half - np.abs(half - rest) if level else rest
        which = np.clip(np.floor((places + 1) / (2 * half)), 0, 2**level - 1)
        columns += [np.where(which == n, rest * _times(level), 0.0) for n in range(2**level)]
    return np.stack(columns, axis=1)
