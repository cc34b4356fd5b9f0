"""The columns of a model as numbers from -1 to 1: listed values, or what lies between bounds.

A column's *cells* are its values, one each, or one for the number itself, and behind them NULL
where there may be NULL. Of two values one cell tells: -1 is the first, 1 the second, so that noise
hides half as much of the difference. In each row one cell of a column is not zero: 1 for a value or
for NULL, for a number its place between its bounds, from -1 to 1. What a column can hold follows
from the text and the policy, and no row is read for it. That no number is larger: PRIVACY.md R82.
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
"""Into so many parts 1 is divided."""

MOST_LISTED = 100
"""A column of more values is refused."""


@dataclass(frozen=True, slots=True)
class ListedInput:
    """A column of listed values, other than two: each is a cell."""

    name: str
    type: SqlType
    values: tuple[Value, ...]
    nullable: bool

    @property
    def cells(self) -> tuple[Value, ...]:
        """What each cell stands for."""
        return (*self.values, None) if self.nullable else self.values

    @property
    def code(self) -> str:
        """The cell of a row in SQL, NULL for a value that is not listed."""
        column, branches = identifier(self.name), list[str]()
        for place, value in enumerate(self.values):
            branches.append(f"WHEN {column} = {constant(Literal(value, self.type))} THEN {place}")
        if self.nullable:
            branches.append(f"WHEN {column} IS NULL THEN {len(self.values)}")
        return f"CASE {' '.join(branches)} END"

    @property
    def number(self) -> str | None:
        """What the cell of a row holds in SQL, in steps; None where that is always 1."""
        return None

    @property
    def least(self) -> int:
        """The least that a cell holds, of those that tell of a row, in steps."""
        return STEPS

    @property
    def has_squares(self) -> bool:
        """Whether the square of what a cell holds is another number than that itself, or 1."""
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
        """What each cell stands for: the second value, beside the first."""
        return (self.values[1], None) if self.nullable else (self.values[1],)

    @property
    def code(self) -> str:
        """The cell of a row in SQL, NULL for a value that is not listed."""
        column = identifier(self.name)
        there = f"{column} = {self._second} THEN 0 WHEN {column} = {self._first} THEN 0"
        return f"CASE WHEN {there}{f' WHEN {column} IS NULL THEN 1' * self.nullable} END"

    @property
    def number(self) -> str | None:
        """What the cell of a row holds in SQL, in steps."""
        return f"CASE WHEN {identifier(self.name)} = {self._first} THEN -{STEPS} ELSE {STEPS} END"

    @property
    def least(self) -> int:
        """The least that a cell holds, of those that tell of a row, in steps."""
        return -STEPS

    @property
    def has_squares(self) -> bool:
        """Whether the square of what a cell holds is another number than that itself, or 1."""
        return self.nullable

    @property
    def _first(self) -> str:
        return constant(Literal(self.values[0], self.type))

    @property
    def _second(self) -> str:
        return constant(Literal(self.values[1], self.type))


@dataclass(frozen=True, slots=True)
class NumberInput:
    """A column of numbers between bounds: what lies outside counts as the bound. With `levels` it
    has bends at knots between them (see `bends`).
    """

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
        """Whether every value is a whole number of steps: whole numbers that are not too many."""
        whole = self.lower.denominator == self.upper.denominator == 1
        few = 1 <= self.upper - self.lower <= STEPS
        return self.type.kind is Kind.INTEGER and whole and few and not self.levels

    @property
    def unit(self) -> Fraction:
        """What 1 is in units of the column: half of the distance between the bounds, or of whole
        numbers a little more.
        """
        span = self.upper - self.lower
        if self.is_exact:
            return Fraction(STEPS, 2 * (STEPS // int(span)))
        return span / 2 or Fraction(1)

    @property
    def times(self) -> float:
        """Into how many steps a unit of the column is divided."""
        return float(STEPS / self.unit)

    @property
    def most(self) -> int:
        """How many steps a bound is from the middle."""
        if self.is_exact:
            return int(self.times) * int(self.upper - self.lower) // 2
        return STEPS

    @property
    def half(self) -> float:
        """`unit` as a number."""
        return float(self.unit)

    @property
    def knots(self) -> tuple[float, ...]:
        """The numbers between which it is linear."""
        count = 2**self.levels
        return tuple(self.at(2 * n / count - 1) for n in range(count + 1))

    def at(self, place: float) -> float:
        """The number at a place from -1 to 1.

        >>> from dpsql.model.tree import INTEGER
        >>> NumberInput("x", INTEGER, Fraction(0), Fraction(10), nullable=False).at(0)
        5.0
        """
        return float((self.lower + self.upper) / 2 + self.unit * Fraction(place))

    @property
    def cells(self) -> tuple[Value, ...]:
        """What each cell stands for: 0 for the number."""
        return (0, None) if self.nullable else (0,)

    @property
    def code(self) -> str:
        """The cell of a row in SQL."""
        return f"CASE WHEN {identifier(self.name)} IS NULL THEN 1 ELSE 0 END" * self.nullable or "0"

    @property
    def number(self) -> str | None:
        """What the cell of a row holds in SQL, in steps: rounded toward zero, and no more than 1,
        which the last clip makes true of whole numbers, whatever the engine does with others.
        """
        column = identifier(self.name)
        middle, times = (constant(Literal(value, DOUBLE)) for value in (self.middle, self.times))
        place = f"(CAST({column} AS DOUBLE) - {middle}) * {times}"
        whole = f"CAST(TRUNC({_within(place, f'{self.most}e0')}) AS BIGINT)"
        inside = _within(whole, str(self.most))
        return f"CASE WHEN {column} IS NULL THEN {STEPS * self.nullable} ELSE {inside} END"

    @property
    def least(self) -> int:
        """The least that a cell holds, of those that tell of a row, in steps."""
        return -self.most

    @property
    def has_squares(self) -> bool:
        """Whether the square of what a cell holds is another number than that itself, or 1."""
        return True


Input: TypeAlias = ListedInput | PairInput | NumberInput


def _within(number: str, most: str) -> str:
    return f"LEAST(GREATEST({number}, -{most}), {most})"


def input_of(name: str, facts: Facts) -> Input:
    """What a column is to a model, by what is known of it before any data is read.

    Raises `Refused` where its values are neither listed nor numbers within bounds.
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
