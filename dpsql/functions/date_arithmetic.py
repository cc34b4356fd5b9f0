"""Time and numbers: moments so many units later, the units between two moments, buckets.

An interval of SQL is one or more `date_add(unit, count, moment)`, as the engines add it: months
first, then days, then the rest. A month later is the same day, or the last of a shorter month.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.functions.dates import MICROSECOND, since_epoch
from dpsql.functions.instants import (
    any_far,
    every,
    is_far,
    later,
    moments,
    months_later,
    naive,
    names,
    part_of,
    values,
)
from dpsql.functions.row import TEMPORAL, TEXT, WHOLE, Args, Domain, Function, Types, fixed
from dpsql.functions.type_rules import INT64
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ, Kind, SqlType

DAY = frozenset({Kind.DATE})
INT32 = 2**31 - 1

STEPS = {"month": INT32, "day": INT32, "microseconds": INT64}
"""What DATE_ADD can name, and the most of them that DuckDB's INTERVAL holds."""

SEVEN = Interval(Fraction(7), Fraction(7))

LENGTHS = {
    "microseconds": MICROSECOND,
    "milliseconds": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
}
"""Units of one length each."""

MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
"""Units of whole months."""


def moved(value: date, unit: str, count: int) -> datetime | None:
    """The moment so many units later, in UTC and without a zone; None beyond the years 1 to 9999.

    >>> moved(date(2024, 1, 31), "month", 1)
    datetime.datetime(2024, 2, 29, 0, 0)
    """
    moment = naive(value)
    if unit == "month":
        return months_later(moment, count)
    return later(moment, LENGTHS[unit], count)


def _added_type(types: Types) -> SqlType | None:
    match types:
        case (SqlType(kind=Kind.VARCHAR), SqlType(kind=Kind.INTEGER), moment):
            if moment.is_temporal:
                return TIMESTAMPTZ if moment == TIMESTAMPTZ else TIMESTAMP
    return None


def _added(args: Args, _kind: SqlType) -> Interval:
    """Later moments and larger counts give later results."""
    unit, counts, start = part_of(args), args[1].interval, moments(args[2])
    return Interval(_end(start.lo, unit, counts.lo), _end(start.hi, unit, counts.hi))


def _end(moment: Bound | None, unit: str, count: Bound | None) -> datetime | None:
    if not (isinstance(moment, datetime) and isinstance(count, Fraction)):
        return None
    return moved(moment, unit, int(count))


def _added_raises(args: Args, kind: SqlType) -> bool:
    most = STEPS[part_of(args)]
    return not (args[1].interval.within(-most, most) and _added(args, kind).is_bounded)


def _added_values(args: Args, kind: SqlType, _interval: Interval, limit: int) -> Domain:
    counts, starts = args[1].domain, args[2].domain
    if counts is None or starts is None or len(counts) * len(starts) > limit:
        return None
    unit = part_of(args)
    found: set[datetime] = set()
    for start in starts:
        for count in counts:
            assert isinstance(start, date)
            assert isinstance(count, int)
            end = moved(start, unit, count)
            if end is None:
                return None
            found.add(end)
    return values(kind, sorted(found))


def _days_later(args: Args, _kind: SqlType) -> Interval:
    start, counts = moments(args[0]), args[1].interval
    lo, hi = _end(start.lo, "day", counts.lo), _end(start.hi, "day", counts.hi)
    return Interval(None if lo is None else lo.date(), None if hi is None else hi.date())


def _days_raise(args: Args, kind: SqlType) -> bool:
    within = args[1].interval.within(-INT32, INT32)
    return not (within and _days_later(args, kind).is_bounded)


def _index(unit: str) -> Callable[[Bound], Fraction]:
    """The number of the period that a moment is in, where periods can be numbered."""

    def of(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        if unit in MONTHS:
            return Fraction((12 * end.year + end.month - 1) // MONTHS[unit])
        return Fraction((end - datetime.min) // LENGTHS[unit])  # noqa: DTZ901

    return of


def _crossings(args: Args, _kind: SqlType) -> Interval:
    """Boundaries of the unit between two moments; of weeks, DuckDB divides those of days by 7."""
    unit = part_of(args)
    weeks = unit == "week"
    first, second = (moments(arg).map(_index("day" if weeks else unit)) for arg in args[1:])
    between = second - first
    return (between / SEVEN).map(_towards_zero) if weeks else between


def _whole_units(args: Args, kind: SqlType) -> Interval:
    """Complete units between two moments: at most one less than boundaries, in either sign."""
    unit = part_of(args)
    if unit in MONTHS:
        return _crossings(args, kind).union(Interval(Fraction(0), Fraction(0)))
    first, second = (since_epoch(arg, LENGTHS[unit]) for arg in args[1:])
    return (second - first).map(_towards_zero)


def _towards_zero(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction(int(end))


def _between_raises(args: Args, _kind: SqlType) -> bool:
    return is_far(args[1]) or is_far(args[2])


def _between_operands(types: Types) -> tuple[SqlType | None, ...]:
    """Two moments of one type."""
    return (None, None, None) if types[1] == types[2] else (None, TIMESTAMP, TIMESTAMP)


def _between_type(types: Types) -> SqlType | None:
    if fixed(INTEGER, TEXT, TEMPORAL, TEMPORAL)(types) is None:
        return None
    mixed = types[1] != types[2] and TIMESTAMPTZ in types
    return None if mixed else INTEGER


def _last_day(args: Args, _kind: SqlType) -> Interval:
    def last(end: Bound) -> date:
        assert isinstance(end, datetime)
        return end.date().replace(day=monthrange(end.year, end.month)[1])

    return moments(args[0]).map(last)


def _last_days(_args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    return every(kind, interval, limit, _next_last_day)


def _next_last_day(day: datetime) -> datetime | None:
    """The last day of the month after a last day."""
    first = later(day, timedelta(days=1))
    return None if first is None else first.replace(day=monthrange(first.year, first.month)[1])


def _far(args: Args, _kind: SqlType) -> bool:
    return is_far(args[0])


DATE_ARITHMETIC = (
    Function(
        "date_add",
        _added_type,
        _added,
        raises=_added_raises,
        image=_added_values,
        accepts=names(STEPS),
    ),
    Function(
        "add_days", fixed(DATE, frozenset({Kind.DATE}), WHOLE), _days_later, raises=_days_raise
    ),
    Function(
        "date_diff",
        _between_type,
        _crossings,
        operands=_between_operands,
        nulls=any_far,
        raises=_between_raises,
        accepts=names(LENGTHS | MONTHS),
    ),
    Function(
        "date_sub",
        _between_type,
        _whole_units,
        operands=_between_operands,
        nulls=any_far,
        raises=_between_raises,
        accepts=names(LENGTHS | MONTHS),
    ),
    Function(
        "last_day", fixed(DATE, TEMPORAL), _last_day, nulls=any_far, raises=_far, image=_last_days
    ),
)
