"""Columns of a model as numbers from -1 to 1: listed values, or numbers between bounds.

The *cells* of a column are its values, or one cell for a number, and then NULL if it is nullable.
Two values share one cell: -1 for the first and 1 for the second, which halves the noise in their
difference. In each row exactly one cell of a column is not zero. It is 1 for a value or NULL, and
for a number its scaled position from -1 to 1. The cells follow from text and policy, and no row is
read for them. Proof that no number is larger: PRIVACY.md R82.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from dpsql.dialects.literal_sql import constant
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.tree import DOUBLE, Kind, Literal, SqlType, Value, identifier

STEPS = 1 << 12
"""Number of steps that 1 is divided into."""

MOST_LISTED = 100
"""Maximum number of values of a column."""


@dataclass(frozen=True, slots=True)
class ListedInput:
    """A column of listed values, not two. Each value is a cell."""

    name: str
    type: SqlType
    values: tuple[Value, ...]
    nullable: bool

    @property
    def cells(self) -> tuple[Value, ...]:
        """Value of each cell; None stands for NULL."""
        return (*self.values, None) if self.nullable else self.values

    @property
    def code(self) -> str:
        """SQL for the index of a row's cell; NULL for a value that is not listed."""
        column, branches = identifier(self.name), list[str]()
        for place, value in enumerate(self.values):
            branches.append(f"WHEN {column} = {constant(Literal(value, self.type))} THEN {place}")
        if self.nullable:
            branches.append(f"WHEN {column} IS NULL THEN {len(self.values)}")
        return f"CASE {' '.join(branches)} END"

    @property
    def number(self) -> str | None:
        """SQL for the content of a row's cell in steps, or None if it is always 1."""
        return None

    @property
    def least(self) -> int:
        """Smallest content of a cell that is not zero, in steps."""
        return STEPS

    @property
    def has_squares(self) -> bool:
        """True if the square of a cell's content differs from the content and from 1."""
        return False


@dataclass(frozen=True, slots=True)
class PairInput:
    """A column of two values: -1 or 1."""

    name: str
    type: SqlType
    values: tuple[Value, Value]
    nullable: bool

    @property
    def cells(self) -> tuple[Value, ...]:
        """Value of each cell: the second value, and None for NULL."""
        return (self.values[1], None) if self.nullable else (self.values[1],)

    @property
    def code(self) -> str:
        """SQL for the index of a row's cell; NULL for a value that is not listed."""
        column = identifier(self.name)
        there = f"{column} = {self._second} THEN 0 WHEN {column} = {self._first} THEN 0"
        return f"CASE WHEN {there}{f' WHEN {column} IS NULL THEN 1' * self.nullable} END"

    @property
    def number(self) -> str | None:
        """SQL for the content of a row's cell, in steps."""
        return f"CASE WHEN {identifier(self.name)} = {self._first} THEN -{STEPS} ELSE {STEPS} END"

    @property
    def least(self) -> int:
        """Smallest content of a cell that is not zero, in steps."""
        return -STEPS

    @property
    def has_squares(self) -> bool:
        """True if the square of a cell's content differs from the content and from 1."""
        return self.nullable

    @property
    def _first(self) -> str:
        return constant(Literal(self.values[0], self.type))

    @property
    def _second(self) -> str:
        return constant(Literal(self.values[1], self.type))


@dataclass(frozen=True, slots=True)
class NumberInput:
    """A column of numbers, clipped to bounds. With `levels` it has bends at knots (see `bends`)."""

    name: str
    type: SqlType
    lower: Fraction
    upper: Fraction
    nullable: bool
    levels: int = 0

    @property
    def middle(self) -> float:
        return float((self.lower + self.upper) / 2)

    @property
    def is_exact(self) -> bool:
        """True if every value is a whole number of steps: an integer column with few values."""
        whole = self.lower.denominator == self.upper.denominator == 1
        few = 1 <= self.upper - self.lower <= STEPS
        return self.type.kind is Kind.INTEGER and whole and few and not self.levels

    @property
    def unit(self) -> Fraction:
        """Distance from the middle that scales to 1, in units of the column.

        It is half of the distance between the bounds, or slightly more for integer columns.
        """
        span = self.upper - self.lower
        if self.is_exact:
            return Fraction(STEPS, 2 * (STEPS // int(span)))
        return span / 2 or Fraction(1)

    @property
    def times(self) -> float:
        """Number of steps in one unit of the column."""
        return float(STEPS / self.unit)

    @property
    def most(self) -> int:
        """Distance of a bound from the middle, in steps."""
        if self.is_exact:
            return int(self.times) * int(self.upper - self.lower) // 2
        return STEPS

    @property
    def half(self) -> float:
        """`unit` as a floating-point number."""
        return float(self.unit)

    @property
    def knots(self) -> tuple[float, ...]:
        """Knots of the column; the spline is linear between them."""
        count = 2**self.levels
        return tuple(self.at(2 * n / count - 1) for n in range(count + 1))

    def at(self, place: float) -> float:
        """Return the number at a position from -1 to 1.

        >>> from dpsql.model.tree import INTEGER
        >>> NumberInput("x", INTEGER, Fraction(0), Fraction(10), nullable=False).at(0)
        5.0
        """
        return float((self.lower + self.upper) / 2 + self.unit * Fraction(place))

    @property
    def cells(self) -> tuple[Value, ...]:
        """Value of each cell: 0 for the number, None for NULL."""
        return (0, None) if self.nullable else (0,)

    @property
    def code(self) -> str:
        """SQL for the index of a row's cell."""
        return f"CASE WHEN {identifier(self.name)} IS NULL THEN 1 ELSE 0 END" * self.nullable or "0"

    @property
    def number(self) -> str | None:
        """SQL for the content of a row's cell in steps, rounded toward zero and at most 1.

        The last clip guarantees this in whole numbers, independent of the engine's floating-point
        arithmetic.
        """
        column = identifier(self.name)
        middle, times = (constant(Literal(value, DOUBLE)) for value in (self.middle, self.times))
        place = f"(CAST({column} AS DOUBLE) - {middle}) * {times}"
        whole = f"CAST(TRUNC({_within(place, f'{self.most}e0')}) AS BIGINT)"
        inside = _within(whole, str(self.most))
        return f"CASE WHEN {column} IS NULL THEN {STEPS * self.nullable} ELSE {inside} END"

    @property
    def least(self) -> int:
        """Smallest content of a cell that is not zero, in steps."""
        return -self.most

    @property
    def has_squares(self) -> bool:
        """True if the square of a cell's content differs from the content and from 1."""
        return True


Input: TypeAlias = ListedInput | PairInput | NumberInput


def _within(number: str, most: str) -> str:
    return f"LEAST(GREATEST({number}, -{most}), {most})"


def input_of(name: str, facts: Facts) -> Input:
    """Return the input for a column, from facts that are known without reading data.

    Raises `Refused` if its values are neither listed nor numbers between bounds.
    """
    kind, domain = facts.type, facts.domain
    lo, hi = facts.interval.lo, facts.interval.hi
    if kind.is_numeric and isinstance(lo, Fraction) and isinstance(hi, Fraction):
        return NumberInput(name, kind, lo, hi, facts.nullable)
    if domain is not None and 0 < len(domain) <= MOST_LISTED:
        values = tuple(value for value in domain if value is not None)
        if len(values) == 2:  # noqa: PLR2004
            return PairInput(name, kind, (values[0], values[1]), facts.nullable)
        return ListedInput(name, kind, values, facts.nullable)
    raise Refused(
        Reason.UNBOUNDED_INPUT,
        column=name,
        fix=f"Leave {name} out; or ask the owner to declare its values (at most {MOST_LISTED}) or "
        "its bounds.",
    )
