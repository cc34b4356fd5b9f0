"""DATE_TRUNC and EXTRACT.

Parts are the ISO ones: weeks begin on Monday and belong to the year of their Thursday (`isoyear`),
`dow` counts from Sunday = 0, `isodow` from Monday = 1. Infinite dates have no parts: NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from dpsql.functions.instants import (
    any_far,
    every,
    is_far,
    later,
    midnight,
    moments,
    names,
    part_of,
)
from dpsql.functions.row import (
    TEMPORAL,
    TEXT,
    Args,
    Domain,
    Function,
    Types,
    fixed,
)
from dpsql.model.intervals import Bound, Facts, Interval
from dpsql.model.tree import DATE, DOUBLE, INTEGER, TIMESTAMP, TIMESTAMPTZ, SqlType

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
MICROSECOND = timedelta(microseconds=1)


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


def _year_of_week(moment: datetime) -> int:
    return moment.isocalendar()[0]


def _year_and_week(moment: datetime) -> int:
    year, week, _ = moment.isocalendar()
    return 100 * year + week


PARTS = {
    "millennium": _Part(growing=lambda moment: (moment.year + 999) // 1000),
    "century": _Part(growing=lambda moment: (moment.year + 99) // 100),
    "decade": _Part(growing=lambda moment: moment.year // 10),
    "year": _Part(growing=lambda moment: moment.year),
    "isoyear": _Part(growing=_year_of_week, raises_on=WEEKLY),
    "yearweek": _Part(growing=_year_and_week, raises_on=WEEKLY),
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
    "milliseconds": _Part(0, 59_999),
    "microseconds": _Part(0, 59_999_999),
    "era": _Part(0, 1),
}
"""What EXTRACT can name. Not EPOCH, whose type is another."""


def _month(moment: datetime, months: int) -> datetime:
    """The first moment of the period of `months` months that `moment` is in."""
    return datetime(moment.year, (moment.month - 1) // months * months + 1, 1)  # noqa: DTZ001


def _years(count: int) -> Callable[[datetime], datetime | None]:
    """Periods of so many years, from the year 0: the first one has no datetime."""

    def first(moment: datetime) -> datetime | None:
        year = moment.year // count * count
        return datetime(year, 1, 1) if year else None  # noqa: DTZ001

    return first


UNITS: dict[str, tuple[Callable[[datetime], datetime | None], timedelta]] = {
    "millennium": (_years(1000), timedelta(days=365_300)),
    "century": (_years(100), timedelta(days=36_530)),
    "decade": (_years(10), timedelta(days=3_660)),
    "year": (_years(1), timedelta(days=367)),
    "quarter": (lambda moment: _month(moment, 3), timedelta(days=93)),
    "month": (lambda moment: _month(moment, 1), timedelta(days=32)),
    "week": (lambda moment: midnight(moment) - timedelta(moment.weekday()), timedelta(days=7)),
    "day": (midnight, timedelta(days=1)),
    "hour": (lambda moment: moment.replace(minute=0, second=0, microsecond=0), timedelta(hours=1)),
    "minute": (lambda moment: moment.replace(second=0, microsecond=0), timedelta(minutes=1)),
    "second": (lambda moment: moment.replace(microsecond=0), timedelta(seconds=1)),
    "milliseconds": (
        lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000),
        timedelta(milliseconds=1),
    ),
    "microseconds": (lambda moment: moment, MICROSECOND),
}
"""What DATE_TRUNC can name: how to truncate, and a step that leads into the next period."""


def _truncated_type(types: Types) -> SqlType | None:
    if len(types) != 2 or types[0].kind not in TEXT or not types[1].is_temporal:  # noqa: PLR2004
        return None
    return TIMESTAMPTZ if types[1] == TIMESTAMPTZ else TIMESTAMP


def _truncated(args: Args, _kind: SqlType) -> Interval:
    truncate, _ = UNITS[part_of(args)]

    def first(end: Bound) -> datetime | None:
        assert isinstance(end, datetime)
        return truncate(end)

    return moments(args[1]).map(first)


def _truncated_values(args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    truncate, step = UNITS[part_of(args)]

    def following(moment: datetime) -> datetime | None:
        inside = later(moment, step)
        return None if inside is None else truncate(inside)

    return every(kind, interval, limit, following)


def _unbounded(args: Args, _kind: SqlType) -> bool:
    return is_far(args[1])


def _extracted(args: Args, _kind: SqlType) -> Interval:
    name, inside = part_of(args), moments(args[1])
    part = PARTS[name]
    if part.growing is None:
        return _in_one_year(name, inside) or Interval(Fraction(part.lo), Fraction(part.hi))
    growing = part.growing

    def grown(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        return Fraction(growing(end))

    return inside.map(grown)


def _in_one_year(name: str, inside: Interval) -> Interval | None:
    """Months and quarters of an interval that lies within one year."""
    lo, hi = inside.lo, inside.hi
    if not (isinstance(lo, datetime) and isinstance(hi, datetime)) or lo.year != hi.year:
        return None
    match name:
        case "month":
            return Interval(Fraction(lo.month), Fraction(hi.month))
        case "quarter":
            return Interval(Fraction((lo.month + 2) // 3), Fraction((hi.month + 2) // 3))
        case _:
            return None


def _extraction_raises(args: Args, _kind: SqlType) -> bool:
    return args[1].type in PARTS[part_of(args)].raises_on and is_far(args[1])


def _seconds(args: Args, _kind: SqlType) -> Interval:
    return since_epoch(args[0], timedelta(seconds=1)).outward(DOUBLE)


def since_epoch(arg: Facts, unit: timedelta) -> Interval:
    """How many units a moment is after 1970."""

    def count(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        return Fraction((end - EPOCH) // MICROSECOND, unit // MICROSECOND)

    return moments(arg).map(count)


DATES = (
    Function(
        "date_trunc",
        _truncated_type,
        _truncated,
        raises=_unbounded,
        image=_truncated_values,
        accepts=names(UNITS),
    ),
    Function(
        "extract",
        fixed(INTEGER, TEXT, TEMPORAL),
        _extracted,
        nulls=any_far,
        raises=_extraction_raises,
        accepts=names(PARTS),
    ),
    Function("epoch", fixed(DOUBLE, TEMPORAL), _seconds, nulls=any_far),
)
