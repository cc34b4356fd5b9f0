"""Intervals as whole microseconds, and AGE: years, months and days between two moments.

AGE is that of PostgreSQL: the fields of the earlier moment are subtracted from those of the later
one, and a negative field borrows from the next larger field. So months do not grow evenly with
time, but they never fall: the interval of months is that of the ends.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from dpsql.functions.dates import any_far, is_far, moments, names
from dpsql.functions.row import NUMBERS, TEMPORAL, TEXT, Args, Function, Types, fixed
from dpsql.functions.type_rules import INT64, as_double
from dpsql.model.durations import DAY_US, MONTH_US
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import DATE, DOUBLE, INTEGER, INTERVAL, TIMESTAMP, Kind, SqlType

LENGTH = frozenset({Kind.INTERVAL})

AGE_PARTS = {
    "month": (-11, 11),
    "day": (-31, 31),
    "hour": (-23, 23),
    "minute": (-59, 59),
    "second": (-59, 59),
    "milliseconds": (-59_999, 59_999),
    "microseconds": (-59_999_999, 59_999_999),
}
"""Parts of an AGE that EXTRACT may name besides years, with their ranges."""


def _whole(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of microseconds, rounded to whole ones."""
    if args[0].type == INTEGER:
        return args[0].interval
    margin = Interval(Fraction(-1), Fraction(1))
    return as_double(args[0]) + margin


def months_between(later: datetime, earlier: datetime) -> int:
    """Return the months of AGE, negative where `later` comes first.

    >>> months_between(datetime(2024, 2, 29), datetime(2024, 1, 31))
    0
    """
    if later < earlier:
        return -months_between(earlier, later)
    months = 12 * (later.year - earlier.year) + later.month - earlier.month
    rest = (later.day, later.time()) < (earlier.day, earlier.time())
    return months - rest


def _months(args: Args) -> Interval:
    """Return the interval of months between the last two arguments; the first of them is the later
    moment.
    """
    later, earlier = map(moments, args[-2:])

    def between(a: Bound | None, b: Bound | None) -> Fraction | None:
        if not (isinstance(a, datetime) and isinstance(b, datetime)):
            return None
        return Fraction(months_between(a, b))

    return Interval(between(later.lo, earlier.hi), between(later.hi, earlier.lo))


def _age_part(args: Args, _kind: SqlType) -> Interval:
    part = args[0].point
    assert isinstance(part, str)
    if part == "year":
        return _months(args).map(_years)
    least, most = AGE_PARTS[part]
    return Interval(Fraction(least), Fraction(most))


def _years(months: Bound) -> Fraction:
    assert isinstance(months, Fraction)
    return Fraction(int(months / 12))


def _age_us(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of microseconds: months of 30 days, and at most 31 days more."""
    most = Fraction(32 * DAY_US)
    month = Interval(Fraction(MONTH_US), Fraction(MONTH_US))
    return _months(args) * month + Interval(-most, most)


def _age_seconds(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of seconds: years of 365.25 days, other months of 30, and at most 31 days
    more.
    """
    most = Fraction(32 * 86_400)
    shortest, longest = Fraction(30 * 86_400), Fraction(31 * 86_400)
    month = Interval(shortest, longest)
    return (_months(args) * month + Interval(-most, most)).outward(DOUBLE)


def _age_raises(args: Args, _kind: SqlType) -> bool:
    return any(map(is_far, args[-2:]))


def _age_operands(types: Types) -> tuple[SqlType | None, ...]:
    """Return the operand types of AGE: dates count as their midnights."""
    return tuple(TIMESTAMP if kind == DATE else None for kind in types)


ELAPSED = (
    Function(
        "interval_of",
        fixed(INTERVAL, NUMBERS),
        _whole,
        raises=lambda args, kind: not _whole(args, kind).within(-INT64, INT64 - 1024),
    ),
    Function("interval_us", fixed(INTEGER, LENGTH), lambda args, _kind: args[0].interval),
    Function(
        "age_part",
        fixed(INTEGER, TEXT, TEMPORAL, TEMPORAL),
        _age_part,
        operands=_age_operands,
        nulls=any_far,
        raises=_age_raises,
        accepts=names(("year", *AGE_PARTS)),
    ),
    Function(
        "age_us",
        fixed(INTEGER, TEMPORAL, TEMPORAL),
        _age_us,
        operands=_age_operands,
        nulls=any_far,
        raises=_age_raises,
    ),
    Function(
        "age_seconds",
        fixed(DOUBLE, TEMPORAL, TEMPORAL),
        _age_seconds,
        operands=_age_operands,
        nulls=any_far,
        raises=_age_raises,
    ),
)
