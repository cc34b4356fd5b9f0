"""A numeric column as a piecewise linear function: a linear spline over knots.

The number is scaled to t from -1 to 1. Next to t stand hat functions: one over both halves, two
over the quarters, four over the eighths, and so on. This is the system of Faber and Schauder (Faber
1910, "Über stetige Funktionen"). Each level has half the square sum of the level before, so a
function costs the integral of its squared slope. Linear functions need no hats. In a row at most
one hat of each level is not zero. Knots are evenly spaced, and no row is read for them.

Proof (PRIVACY.md R90). In each row, t² plus the squares of all hats is at most 1. So hats do not
raise the bound on the norm of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Kind
from dpsql.systems.models.model_inputs import STEPS, Input, NumberInput

KNOTS = (2, 3, 5, 9, 17)
"""Allowed numbers of knots of a column; 2 knots give a straight line."""


@dataclass(frozen=True, slots=True)
class BendInput:
    """The hats of one level of a numeric column. Each hat is a cell."""

    number: NumberInput
    level: int

    @property
    def cells(self) -> tuple[float, ...]:
        """The number at the tip of each hat."""
        places = ((2 * n + 1) / 2**self.level - 1 for n in range(2**self.level))
        return tuple(self.number.at(place) for place in places)

    @property
    def least(self) -> int:
        """Lower bound of the content of a cell, in steps."""
        return 0

    @property
    def has_squares(self) -> bool:
        """True if the square of a cell's content differs from the content and from 1."""
        return True

    def code(self, place: str) -> str:
        """Return the SQL expression for the index of a row's hat, from its place in steps."""
        width, count = 2 * STEPS >> self.level, 2**self.level
        ends = ((n, (n + 1) * width - STEPS) for n in range(count - 1))
        branches = " ".join(f"WHEN {place} < {end} THEN {n}" for n, end in ends)
        return f"CASE {branches} ELSE {count - 1} END" if branches else "0"

    def height(self, place: str) -> str:
        """Return the SQL expression for the height of a row's hat, in steps, rounded toward
        zero.

        The height is 0 at both bounds.
        """
        rest = f"({STEPS} - ABS({place}))"
        for level in range(1, self.level + 1):
            rest = f"({STEPS >> level} - ABS({STEPS >> level} - {rest}))"
        if self.level % 2 == 0:
            return f"{rest} * {2 ** (self.level // 2)}"
        return f"CAST(TRUNC(CAST({rest} AS DOUBLE) * {_times(self.level)!r}) AS BIGINT)"


InputPart: TypeAlias = Input | BendInput
"""A part with exactly one nonzero cell in each row: a column, or one level of hats."""


def _times(level: int) -> float:
    """Return the height of a level's hats divided by half their width: 2^(level / 2).

    For odd levels it is slightly smaller, so that computations on whole numbers are exact: 181² is
    less than 2·128².
    """
    return 2.0 ** (level // 2) * (181 / 128 if level % 2 else 1.0)


def bent(columns: Sequence[Input], knots: int) -> tuple[Input, ...]:
    """Return the columns with `knots` knots in each numeric column.

    Integer columns with few values get fewer knots.
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
    """Yield the parts of columns, each with the index of its column.

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
    """Test whether a cell of a part holds other values than 1."""
    return isinstance(part, BendInput) or part.number is not None


def coded(columns: Sequence[Input], first: Sequence[str], source: str) -> str:
    """Return SQL for the coded rows.

    After the columns `first`, each part has its cell f1, f2, …. Parts with other contents than 1
    also have v1, v2, ….
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
    """Return a matrix with one row per place from -1 to 1: the place, then the height of each
    hat.

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
