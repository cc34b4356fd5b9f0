"""DATE_TRUNC and EXTRACT.

Parts are the ISO ones: weeks begin on Monday and belong to the year of their Thursday (`isoyear`),
`dow` counts from Sunday = 0, `isodow` from Monday = 1. Infinite dates have no parts: NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from fractions import Fraction

from dpsql.functions.row import (
    TEMPORAL,
    TEXT,
    Args,
    Domain,
    Function,
    Types,
    fixed,
)
from dpsql.functions.types import midnights
from dpsql.intervals import Bound, Interval
from dpsql.tree import (
    DATE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    Expression,
    Literal,
    SqlType,
    Value,
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a date: its least and greatest value, or how it grows with time.

    `raises_on` are the types on which DuckDB raises for some far date.
    """

    lo: int = 0
    hi: int = 0
    growing: Callable[[datetime], int] | None = None
    raises_on: frozenset[SqlType] = frozenset({TIMESTAMPTZ})


WEEKLY = frozenset({DATE, TIMESTAMPTZ})

PARTS = {
    "year": _Part(growing=lambda moment: moment.year),
    "isoyear": _Part(growing=lambda moment: moment.isocalendar()[0], raises_on=WEEKLY),
    "quarter": _Part(1, 4),
    "month": _Part(1, 12),
    "week": _Part(1, 53, raises_on=WEEKLY),
    "day": _Part(1, 31),
    "dow": _Part(0, 6),
    "isodow": _Part(1, 7),
    "doy": _Part(1, 366),
    "hour": _Part(0, 23),
    "minute": _Part(0, 59),
    "second": _Part(0, 59),
}
"""What EXTRACT can name. Not EPOCH, whose type is another."""


def _month(moment: datetime, months: int) -> datetime:
    """The first moment of the period of `months` months that `moment` is in."""
    return datetime(moment.year, (moment.month - 1) // months * months + 1, 1)  # noqa: DTZ001


def _day(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time())


UNITS: dict[str, tuple[Callable[[datetime], datetime], timedelta]] = {
    "year": (lambda moment: _month(moment, 12), timedelta(days=367)),
    "quarter": (lambda moment: _month(moment, 3), timedelta(days=93)),
    "month": (lambda moment: _month(moment, 1), timedelta(days=32)),
    "week": (lambda moment: _day(moment) - timedelta(days=moment.weekday()), timedelta(days=7)),
    "day": (_day, timedelta(days=1)),
    "hour": (lambda moment: moment.replace(minute=0, second=0, microsecond=0), timedelta(hours=1)),
    "minute": (lambda moment: moment.replace(second=0, microsecond=0), timedelta(minutes=1)),
    "second": (lambda moment: moment.replace(microsecond=0), timedelta(seconds=1)),
}
"""What DATE_TRUNC can name: how to truncate, and a step that leads into the next period."""


def _names(parts: Container[str]) -> Callable[[tuple[Expression, ...]], bool]:
    """Whether the first argument is a literal that names one of these parts."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        name = args[0].value if isinstance(args[0], Literal) else None
        return isinstance(name, str) and name.lower() in parts

    return accepts


def _part(args: Args) -> str:
    """The part that the first argument names, in lower case."""
    name = args[0].point
    assert isinstance(name, str)
    return name.lower()


def _moments(args: Args) -> Interval:
    """The second argument as timestamps."""
    return midnights(args[1].interval) if args[1].type == DATE else args[1].interval


def _truncated_type(types: Types) -> SqlType | None:
    if len(types) != 2 or types[0].kind not in TEXT or not types[1].is_temporal:  # noqa: PLR2004
        return None
    return TIMESTAMPTZ if types[1] == TIMESTAMPTZ else TIMESTAMP


def _truncated(args: Args, _kind: SqlType) -> Interval:
    truncate, _ = UNITS[_part(args)]

    def first(end: Bound) -> datetime:
        assert isinstance(end, datetime)
        return truncate(end)

    return _moments(args).map(first)


def _truncated_values(args: Args, _kind: SqlType, interval: Interval, limit: int) -> Domain:
    truncate, step = UNITS[_part(args)]
    moment, last = interval.lo, interval.hi
    if not (isinstance(moment, datetime) and isinstance(last, datetime)):
        return None
    values: list[Value] = [moment]
    while moment < last:
        if len(values) >= limit:
            return None
        moment = truncate(moment + step)
        values.append(moment)
    return tuple(values)


def _unbounded(args: Args, _kind: SqlType) -> bool:
    return not args[1].interval.is_bounded


def _extracted(args: Args, _kind: SqlType) -> Interval:
    name, moments = _part(args), _moments(args)
    part = PARTS[name]
    if part.growing is None:
        return _in_one_year(name, moments) or Interval(Fraction(part.lo), Fraction(part.hi))
    growing = part.growing

    def grown(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        return Fraction(growing(end))

    return moments.map(grown)


def _in_one_year(name: str, moments: Interval) -> Interval | None:
    """Months and quarters of an interval that lies within one year."""
    lo, hi = moments.lo, moments.hi
    if not (isinstance(lo, datetime) and isinstance(hi, datetime)) or lo.year != hi.year:
        return None
    match name:
        case "month":
            return Interval(Fraction(lo.month), Fraction(hi.month))
        case "quarter":
            return Interval(Fraction((lo.month + 2) // 3), Fraction((hi.month + 2) // 3))
        case _:
            return None


def _absent(args: Args) -> bool:
    """An infinite date has no parts."""
    return args[1].nullable or not args[1].interval.is_bounded


def _extraction_raises(args: Args, kind: SqlType) -> bool:
    return args[1].type in PARTS[_part(args)].raises_on and _unbounded(args, kind)


DATES = (
    Function(
        "date_trunc",
        _truncated_type,
        _truncated,
        raises=_unbounded,
        image=_truncated_values,
        accepts=_names(UNITS),
    ),
    Function(
        "extract",
        fixed(INTEGER, TEXT, TEMPORAL),
        _extracted,
        nulls=_absent,
        raises=_extraction_raises,
        accepts=_names(PARTS),
    ),
)
