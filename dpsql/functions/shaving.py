"""What a predicate on an expression says of the column in it, whatever the functions between.

The ends of a column's interval are cut off as far as the predicate cannot be true there by the
interval rules alone: `year(day) = 2025` bounds `day`, `2 * x < 10` bounds `x`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import cast

from dpsql.functions.value_facts import facts, literal_facts
from dpsql.model.intervals import Bound, Facts, Interval
from dpsql.model.tree import Call, Cast, Expression, Kind, Literal, Ref, SqlType
from dpsql.model.walk import walk

MOST_NODES = 64
"""Larger predicates are not looked into: each cut takes some sixty looks."""

FIRST = datetime.min  # noqa: DTZ901
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The values of a type numbered in order, from `least` to `most`."""

    number: Callable[[Bound], int]
    end: Callable[[int], Bound]
    least: int
    most: int


def shaved(column: Facts, number: int, predicate: Expression) -> Facts:
    """The facts of a column among the rows for which `predicate`, which reads no other, is true.

    >>> from dpsql.model.tree import BOOLEAN, INTEGER
    >>> x = Ref(1, INTEGER)
    >>> double = Call("mul", (x, Literal(2, INTEGER)), INTEGER)
    >>> below = Call("lt", (double, Literal(10, INTEGER)), BOOLEAN)
    >>> shaved(Facts(INTEGER, Interval(Fraction(0), Fraction(99))), 1, below).interval.hi
    Fraction(4, 1)
    """
    grid = _grid(column.type)
    if grid is None or sum(1 for _ in walk(predicate)) > MOST_NODES:
        return column

    def excluded(lo: Bound | None, hi: Bound | None) -> bool:
        piece = replace(column, interval=Interval(lo, hi), domain=None)
        truths = _facts(predicate, number, piece).domain
        return truths is not None and True not in truths

    within = column.interval.inward(column.type)
    lo, hi = within.lo, within.hi
    first = grid.least if lo is None else grid.number(lo)
    last = grid.most if hi is None else grid.number(hi)
    if last < first:
        return column
    start = _cut(first, last, lambda n: excluded(lo, grid.end(n)))
    stop = -_cut(-last, -first, lambda n: excluded(grid.end(-n), hi))
    if stop < start:
        start = stop = first  # no row is left
    return replace(
        column,
        interval=Interval(
            lo if start == first else grid.end(start), hi if stop == last else grid.end(stop)
        ),
    )


def _facts(expression: Expression, number: int, piece: Facts) -> Facts:
    """Facts by the rules alone, where the column's are `piece`."""
    match expression:
        case Literal():
            return literal_facts(expression)
        case Ref(id=found) if found == number:
            return piece
        case Call(args=args):
            return facts(expression, tuple(_facts(arg, number, piece) for arg in args), 2)
        case Cast(arg=arg):
            return facts(expression, (_facts(arg, number, piece),), 2)
        case _:
            raise AssertionError(expression)


def _cut(first: int, last: int, excluded: Callable[[int], bool]) -> int:
    """The number behind the longest prefix that is excluded; `first` if none is.

    >>> _cut(0, 100, lambda n: n < 7), _cut(0, 100, lambda n: False)
    (7, 0)
    """
    if not excluded(first):
        return first
    known, open_ = first, last + 1  # all up to `known` is excluded
    while open_ - known > 1:
        middle = (known + open_) // 2
        if excluded(middle):
            known = middle
        else:
            open_ = middle
    return known + 1


def _grid(kind: SqlType) -> _Grid | None:
    match kind.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            step = Fraction(1, 10**kind.scale)
            most = 10**kind.precision - 1 if kind.kind is Kind.DECIMAL else 2**127 - 1
            return _Grid(
                lambda end: round(cast("Fraction", end) / step), lambda n: n * step, -most, most
            )
        case Kind.DATE:
            return _Grid(
                lambda end: cast("date", end).toordinal(),
                date.fromordinal,
                date.min.toordinal(),
                date.max.toordinal(),
            )
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            most = (datetime.max - FIRST) // MICROSECOND  # noqa: DTZ901
            return _Grid(_micros, lambda n: FIRST + n * MICROSECOND, 0, most)
        case _:
            return None


def _micros(end: Bound) -> int:
    assert isinstance(end, datetime)
    return (end - FIRST) // MICROSECOND
