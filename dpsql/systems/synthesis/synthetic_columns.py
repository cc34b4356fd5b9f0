"""Columns of synthetic rows: listed values, or bins of a public grid, and NULL.

Texts that are not listed are selected privately first. Other texts become NULL.

The *cells* of a column are its values or bins in order, then NULL if it is nullable. Rare cells
share one *code*, which makes the other counts more precise. The cells follow from text and policy,
the codes from releases.
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
"""Maximum number of listed values of a column. Beyond it, numbers and times get a grid."""

BINS = 32
"""Number of bins of equal width, without a separate bin for zero."""

_BESIDE = 3
"""Additional cells: zero may split a bin into three, and NULL."""

_EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - of TIMESTAMP, which knows no zone
_WHOLE = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
_GRIDS = _WHOLE | {Kind.DOUBLE}

Codes: TypeAlias = tuple[int, ...]
"""Code of each cell."""


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column of a few listed values. If `selected`, all other values are NULL."""

    name: str
    type: SqlType
    values: tuple[Value, ...]
    nullable: bool
    selected: bool = False

    @property
    def valued(self) -> int:
        """Number of cells without NULL."""
        return len(self.values)

    def branches(self, codes: Codes) -> Iterator[tuple[str, tuple[Parameter, ...], int]]:
        """Yield a condition on the column, its parameters, and its code."""
        for code in dict.fromkeys(codes[: self.valued]):
            values = tuple(v for v, own in zip(self.values, codes, strict=False) if own == code)
            marks = ", ".join("?" * len(values))
            yield f"{identifier(self.name)} IN ({marks})", values, code

    def cell(self, value: Value) -> int | None:
        """Return the cell of a value, or None if it has none."""
        places = {own: place for place, own in enumerate(self.values)}
        return places.get(value, self.valued if self.selected else None)

    def filled(self, cells: np.ndarray, shares: np.ndarray) -> list[Value]:  # noqa: ARG002
        """Return a value for each cell."""
        values = (*self.values, None)
        return [values[cell] for cell in cells.tolist()]


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column of numbers or times. Bin n begins at `starts[n]` and ends before the next start.

    Starts are in whole steps of the type, or plain numbers for DOUBLE. The last bin ends before
    `end`, or at `end` for DOUBLE. Values outside are in the first or the last bin.
    """

    name: str
    type: SqlType
    starts: tuple[Fraction, ...]
    end: Fraction
    nullable: bool

    @property
    def valued(self) -> int:
        """Number of cells without NULL."""
        return len(self.starts)

    def branches(self, codes: Codes) -> Iterator[tuple[str, tuple[Parameter, ...], int]]:
        """Yield conditions with parameters and codes. The first condition that holds applies."""
        column = identifier(self.name)
        for place, start in enumerate(self.starts[1:]):
            yield f"{column} < ?", (_value(start, self.type),), codes[place]
        yield f"{column} IS NOT NULL", (), codes[self.valued - 1]

    def cell(self, value: Value) -> int | None:
        """Return the cell of a value, or None for NULL."""
        number = _number(value, self.type)
        return None if number is None else max(0, bisect_right(self.starts, number) - 1)

    def filled(self, cells: np.ndarray, shares: np.ndarray) -> list[Value]:
        """Return a value in each bin, by its share of the width; None for NULL."""
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
    """Return the number of cells, including NULL."""
    return column.valued + column.nullable


def column_of(name: str, facts: Facts, most: int = MOST_LISTED) -> SyntheticColumn:
    """Return a column with at most `most` cells, from facts that are known without reading data.

    Texts that are not listed get placeholder values until they are selected. Raises `Refused` for
    numbers and times without bounds, and for too many listed values.
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
    """Return the starts of bins, and the end of the last one."""
    whole = kind.kind in _WHOLE
    end = hi + 1 if whole else hi
    starts = {lo + (end - lo) * n / bins for n in range(bins)}
    if kind.is_numeric and lo <= 0 < hi:
        starts |= {Fraction(0), Fraction(1) if whole else Fraction(float_info.min)}
    if whole:
        starts = {Fraction(ceil(start)) for start in starts}
    return tuple(sorted(starts)), end


def _of_bound(bound: Bound, kind: SqlType) -> Fraction:
    """Return a declared bound in steps of the type."""
    number = _number(bound, kind)
    assert number is not None
    return number


def _number(value: Any, kind: SqlType) -> Fraction | None:
    """Return a value in steps of its type: last digits of a DECIMAL, days, or microseconds."""
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
    """Return the value of a number of steps of a type.

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
    """Return codes that are distinct for each cell.

    >>> alone(ListedColumn("a", SqlType(Kind.BOOLEAN), (False, True), nullable=True))
    (0, 1, 2)
    """
    return tuple(range(cells(column)))


def together(counts: np.ndarray, least: float) -> Codes:
    """Return codes in which all cells with counts below `least` share the last code.

    >>> together(np.array([50, 3, 70, 4]), 10)
    (0, 2, 1, 2)
    """
    frequent = [int(place) for place in np.flatnonzero(counts >= least)]
    numbers = {place: code for code, place in enumerate(frequent)}
    return tuple(numbers.get(place, len(frequent)) for place in range(len(counts)))


def coded(column: SyntheticColumn, codes: Codes) -> tuple[str, tuple[Parameter, ...]]:
    """Return SQL for the code of a row's value, and its parameters."""
    parts, parameters = list[str](), list[Parameter]()
    for condition, values, code in column.branches(codes):
        parts.append(f"WHEN {condition} THEN {code}")
        parameters += values
    if column.nullable:
        parts.append(f"WHEN {identifier(column.name)} IS NULL THEN {codes[-1]}")
    if isinstance(column, ListedColumn) and column.selected:
        parts.append(f"ELSE {codes[-1]}")
    # Conditions of a grid depend on their order. NULL meets none of them.
    return f"CASE {' '.join(parts)} END", tuple(parameters)


def members(codes: Codes) -> dict[int, Sequence[int]]:
    """Return the cells of each code.

    >>> members((0, 1, 0))
    {0: [0, 2], 1: [1]}
    """
    result: dict[int, list[int]] = {}
    for cell, code in enumerate(codes):
        result.setdefault(code, []).append(cell)
    return dict(sorted(result.items()))
