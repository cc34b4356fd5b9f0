"""What a column of synthetic rows can hold: listed values, or bins of a public grid, and NULL.

Texts that nobody listed are selected privately before all else; those that were not are NULL.

A column's *cells* are its values or bins in their order, and behind them NULL where there may be
NULL. Cells that are seen by few people are put together under one *code*, for a finer look at the
others. Which cells there are follows from the text and the policy; which codes, from what was
released.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil
from sys import float_info
from typing import Any, TypeAlias

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Bound, Facts
from dpsql.model.tree import Kind, Parameter, SqlType, Value, identifier

MOST_LISTED = 100
"""A column of more values is refused, or a grid where it is of numbers or times."""

BINS = 32
"""Bins of equal width; zero is one of its own beside them."""

_BESIDE = 3
"""Zero may divide a bin into three, and there may be NULL."""

_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - of TIMESTAMP, which knows no zone
_WHOLE = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
_GRIDS = _WHOLE | {Kind.DOUBLE}

Codes: TypeAlias = tuple[int, ...]
"""The code of each cell."""


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column of a few listed values; where they were `selected`, all others are NULL."""

    name: str
    type: SqlType
    values: tuple[Value, ...]
    nullable: bool
    selected: bool = False

    @property
    def valued(self) -> int:
        """The cells other than NULL."""
        return len(self.values)

    def branches(self, codes: Codes) -> Iterator[tuple[str, tuple[Parameter, ...], int]]:
        """Conditions on the column, their parameters, and the code that each means."""
        for code in dict.fromkeys(codes[: self.valued]):
            values = tuple(v for v, own in zip(self.values, codes, strict=False) if own == code)
            marks = ", ".join("?" * len(values))
            yield f"{identifier(self.name)} IN ({marks})", values, code

    def cell(self, value: Value) -> int | None:
        """Where a value is, None if nowhere."""
        places = {own: place for place, own in enumerate(self.values)}
        return places.get(value, self.valued if self.selected else None)

    def filled(self, cells: np.ndarray, shares: np.ndarray) -> list[Value]:  # noqa: ARG002
        """A value for each cell."""
        values = (*self.values, None)
        return [values[cell] for cell in cells.tolist()]


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column of numbers or times: bin n is from `starts[n]` on, below the next start.

    Starts are in whole steps of the type, and of DOUBLE numbers themselves. The last bin ends
    before `end`, or of DOUBLE there. What lies outside is in the first bin or the last.
    """

    name: str
    type: SqlType
    starts: tuple[Fraction, ...]
    end: Fraction
    nullable: bool

    @property
    def valued(self) -> int:
        """The cells other than NULL."""
        return len(self.starts)

    def branches(self, codes: Codes) -> Iterator[tuple[str, tuple[Parameter, ...], int]]:
        """Conditions in their order, of which the first that holds counts."""
        column = identifier(self.name)
        for place, start in enumerate(self.starts[1:]):
            yield f"{column} < ?", (_value(start, self.type),), codes[place]
        yield f"{column} IS NOT NULL", (), codes[self.valued - 1]

    def cell(self, value: Value) -> int | None:
        """Where a value is, None if it is NULL."""
        number = _number(value, self.type)
        return None if number is None else max(0, bisect_right(self.starts, number) - 1)

    def filled(self, cells: np.ndarray, shares: np.ndarray) -> list[Value]:
        """A value within each bin, by its share of the way through; None for NULL."""
        ends = (*self.starts[1:], self.end)
        result = list[Value]()
        for cell, share in zip(cells.tolist(), shares.tolist(), strict=True):
            if cell == self.valued:
                result.append(None)
                continue
            start = self.starts[cell]
            number = start + Fraction(share) * (ends[cell] - start)
            whole = self.type.kind in _WHOLE
            value = _value(Fraction(number // 1) if whole else number, self.type)
            result.append(value if self.cell(value) == cell else _value(start, self.type))
        return result


SyntheticColumn: TypeAlias = ListedColumn | GridColumn


def cells(column: SyntheticColumn) -> int:
    """How many there are, NULL included."""
    return column.valued + column.nullable


def column_of(name: str, facts: Facts, most: int = MOST_LISTED) -> SyntheticColumn:
    """The cells of a column, at most so many, by what is known of it before any data is read.

    Texts that are not listed are as many made-up ones, until they are selected. Raises `Refused`
    for numbers and times without bounds, and for too many listed values.
    """
    kind, nullable = facts.type, facts.nullable
    few = facts.domain is not None and 0 < len(facts.domain) <= min(most, MOST_LISTED) - nullable
    if facts.domain is not None and few:
        return ListedColumn(name, kind, facts.domain, nullable)
    lo, hi = facts.interval.lo, facts.interval.hi
    bins = min(BINS, most - _BESIDE)
    if kind.kind in _GRIDS and lo is not None and hi is not None and bins > 0:
        starts, end = _grid(_of_bound(lo, kind), _of_bound(hi, kind), kind, bins)
        return GridColumn(name, kind, starts, end, nullable)
    texts = min(most, MOST_LISTED) - 1
    if kind.kind is Kind.VARCHAR and facts.domain is None and texts > 0:
        return ListedColumn(name, kind, tuple(map(str, range(texts))), nullable=True, selected=True)
    raise Refused(
        Reason.UNBOUNDED_INPUT,
        column=name,
        fix=f"Leave {name} out; or ask the owner to declare its values (at most {most}) or "
        "its bounds.",
    )


def _grid(
    lo: Fraction, hi: Fraction, kind: SqlType, bins: int
) -> tuple[tuple[Fraction, ...], Fraction]:
    """Where bins start, and where the last one ends."""
    whole = kind.kind in _WHOLE
    end = hi + 1 if whole else hi
    starts = {lo + (end - lo) * n / bins for n in range(bins)}
    if kind.is_numeric and lo <= 0 < hi:
        starts |= {Fraction(0), Fraction(1) if whole else Fraction(float_info.min)}
    if whole:
        starts = {Fraction(ceil(start)) for start in starts}
    return tuple(sorted(starts)), end


def _of_bound(bound: Bound, kind: SqlType) -> Fraction:
    """A declared end in steps of the type."""
    number = _number(bound, kind)
    assert number is not None
    return number


def _number(value: Any, kind: SqlType) -> Fraction | None:
    """A value in steps of its type: of DECIMAL its last digit, days, or microseconds."""
    match value:
        case None:
            return None
        case datetime():
            return Fraction((value - _EPOCH) // timedelta(microseconds=1))
        case date():
            return Fraction(value.toordinal())
        case _:
            number = Fraction(value)
            return number * 10**kind.scale if kind.kind is Kind.DECIMAL else number


def _value(number: Fraction, kind: SqlType) -> Any:
    """The value so many steps of a type are.

    >>> _value(Fraction(125), SqlType(Kind.DECIMAL, 10, 2))
    Decimal('1.25')
    """
    match kind.kind:
        case Kind.INTEGER:
            return int(number)
        case Kind.DECIMAL:
            return Decimal(f"{int(number)}E-{kind.scale}")
        case Kind.DOUBLE:
            return float(number)
        case Kind.DATE:
            return date.fromordinal(int(number))
        case Kind.TIMESTAMP:
            return _EPOCH + timedelta(microseconds=int(number))
        case _:
            raise AssertionError(kind)


def alone(column: SyntheticColumn) -> Codes:
    """Codes under which each cell is by itself.

    >>> alone(ListedColumn("a", SqlType(Kind.BOOLEAN), (False, True), nullable=True))
    (0, 1, 2)
    """
    return tuple(range(cells(column)))


def together(counts: np.ndarray, least: float) -> Codes:
    """Codes under which all cells of fewer people than `least` are one, the last.

    >>> together(np.array([50, 3, 70, 4]), 10)
    (0, 2, 1, 2)
    """
    frequent = [int(place) for place in np.flatnonzero(counts >= least)]
    numbers = {place: code for code, place in enumerate(frequent)}
    return tuple(numbers.get(place, len(frequent)) for place in range(len(counts)))


def coded(column: SyntheticColumn, codes: Codes) -> tuple[str, tuple[Parameter, ...]]:
    """The code of a row's value in SQL, and the parameters of its text."""
    parts, parameters = list[str](), list[Parameter]()
    for condition, values, code in column.branches(codes):
        parts.append(f"WHEN {condition} THEN {code}")
        parameters += values
    if column.nullable:
        parts.append(f"WHEN {identifier(column.name)} IS NULL THEN {codes[-1]}")
    if isinstance(column, ListedColumn) and column.selected:
        parts.append(f"ELSE {codes[-1]}")
    # The order of conditions on one grid counts; NULL fulfils none of them.
    return f"CASE {' '.join(parts)} END", tuple(parameters)


def members(codes: Codes) -> dict[int, Sequence[int]]:
    """The cells of each code.

    >>> members((0, 1, 0))
    {0: [0, 2], 1: [1]}
    """
    result: dict[int, list[int]] = {}
    for cell, code in enumerate(codes):
        result.setdefault(code, []).append(cell)
    return dict(sorted(result.items()))
