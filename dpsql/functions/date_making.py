"""Moments from numbers and numbers from moments; buckets of time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.functions.date_arithmetic import LENGTHS, STEPS, moved
from dpsql.functions.dates import EPOCH, MICROSECOND, since_epoch
from dpsql.functions.instants import any_far, every, is_far, later, moments, naive, names, part_of
from dpsql.functions.row import NUMBERS, TEMPORAL, WHOLE, Args, Domain, Function, Types, fixed
from dpsql.functions.type_rules import as_double
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import (
    DATE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    Expression,
    Kind,
    Literal,
    SqlType,
    Value,
)

SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
FIRST_YEAR, LAST_YEAR = Fraction(1), Fraction(9999)


def _years(args: Args) -> tuple[int, int] | None:
    """The years that the first argument can be, None unless all are from 1 to 9999."""
    lo, hi = args[0].interval.lo, args[0].interval.hi
    if not (isinstance(lo, Fraction) and isinstance(hi, Fraction)):
        return None
    return (int(lo), int(hi)) if lo >= FIRST_YEAR and hi <= LAST_YEAR else None


def _date(args: Args, _kind: SqlType) -> Interval:
    years = _years(args)
    return Interval() if years is None else Interval(date(years[0], 1, 1), date(years[1], 12, 31))


def _time(args: Args, _kind: SqlType) -> Interval:
    """Until the end of the year, and 60 seconds may carry into the next one."""
    years = _years(args)
    if years is None or years[1] == LAST_YEAR:
        return Interval()
    return Interval(datetime(years[0], 1, 1), datetime(years[1] + 1, 1, 1))  # noqa: DTZ001


def _always(_args: Args, _kind: SqlType) -> bool:
    return True


def _time_type(types: Types) -> SqlType | None:
    return fixed(TIMESTAMP, *(WHOLE,) * 5, frozenset({Kind.DOUBLE}))(types)


def _epoch_type(types: Types) -> SqlType | None:
    """EPOCH_MS goes both ways."""
    return fixed(TIMESTAMP, WHOLE)(types) or fixed(INTEGER, TEMPORAL)(types)


def _counted(unit: timedelta) -> Callable[[Args, SqlType], Interval]:
    """Whole units since 1970, rounded down or up to the next one at most."""

    def interval(args: Args, kind: SqlType) -> Interval:
        if kind == INTEGER:
            exact = since_epoch(args[0], unit)
            return Interval(exact.map(_down).lo, exact.map(_up).hi)
        return _from_epoch(args[0].interval, unit)

    return interval


def _down(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction(end.numerator // end.denominator)


def _up(end: Bound) -> Fraction:
    return -_down(-end) if isinstance(end, Fraction) else Fraction(0)


def _from_epoch(numbers: Interval, unit: timedelta) -> Interval:
    """So many units after 1970, and a microsecond for rounding on either side."""

    def at(end: Bound, slack: int) -> datetime | None:
        assert isinstance(end, Fraction)
        micros = int(end * (unit // MICROSECOND)) + slack
        return later(EPOCH, MICROSECOND, micros) if abs(micros) < 2**62 else None

    return Interval(numbers.map(lambda e: at(e, -2)).lo, numbers.map(lambda e: at(e, 2)).hi)


def _seconds_later(args: Args, _kind: SqlType) -> Interval:
    return _from_epoch(as_double(args[0]), SECOND)


def _unknown_end(interval: Callable[[Args, SqlType], Interval]) -> Callable[[Args, SqlType], bool]:
    """Raises unless the result is bounded: far moments may not exist."""
    return lambda args, kind: not interval(args, kind).is_bounded


def _seconds_raise(args: Args, kind: SqlType) -> bool:
    return args[0].may_be_nan or not _seconds_later(args, kind).is_bounded


# --- TIME_BUCKET ------------------------------------------------------------------------------

MONDAY = datetime(2000, 1, 3)  # noqa: DTZ001
CENTURY = datetime(2000, 1, 1)  # noqa: DTZ001
"""Where buckets begin to count, unless an origin is given: those of months, and all others."""

MOST = {"month": 12 * 1000, "day": 366_000, "microseconds": 1000 * 366 * 86_400 * 10**6}
"""The widest buckets: a thousand years."""


def _bucket_type(types: Types) -> SqlType | None:
    if len(types) not in (3, 4) or types[0].kind is not Kind.VARCHAR or types[1] != INTEGER:
        return None
    moment, *origin = types[2:]
    return moment if moment.is_temporal and all(o == moment for o in origin) else None


def _bucket_accepts(args: tuple[Expression, ...]) -> bool:
    """A constant width from one unit to a thousand years, and a constant origin.

    A bucket of hours of a DATE is refused: its type has no hours.
    """
    unit, width, moment, *origin = args
    if not (names(STEPS)(args) and isinstance(unit, Literal) and isinstance(width, Literal)):
        return False
    name = str(unit.value).lower()
    wide = isinstance(width.value, int) and 0 < width.value <= MOST[name]
    timed = name == "microseconds" and getattr(moment, "type", None) == DATE
    return wide and not timed and all(_is_origin(o, name) for o in origin)


def _is_origin(origin: Expression, unit: str) -> bool:
    """A constant; for buckets of months, one at which a month begins."""
    value = origin.value if isinstance(origin, Literal) else None
    if not isinstance(value, date):
        return False
    start = naive(value)
    return unit != "month" or start == datetime(start.year, start.month, 1)  # noqa: DTZ001


def bucket_origin(unit: str, given: Value) -> datetime:
    """Where the buckets of a unit begin to count: the origin that is given, or the default."""
    if isinstance(given, date):
        return naive(given)
    return CENTURY if unit == "month" else MONDAY


def _bucket(args: Args) -> tuple[Callable[[datetime], datetime | None], str, int]:
    """What gives the start of the bucket that a moment is in, and the width."""
    unit, width = part_of(args), args[1].point
    assert isinstance(width, int)
    origin = bucket_origin(unit, args[3].point if len(args) > 3 else None)  # noqa: PLR2004

    def start(moment: datetime) -> datetime | None:
        if unit != "month":
            step = LENGTHS[unit] * width
            return later(origin, step, (moment - origin) // step)
        months = 12 * (moment.year - origin.year) + moment.month - origin.month
        return moved(origin, unit, months // width * width)

    return start, unit, width


def _bucketed(args: Args, kind: SqlType) -> Interval:
    start, _, _ = _bucket(args)

    def first(end: Bound) -> Bound | None:
        assert isinstance(end, datetime)
        found = start(end)
        return found.date() if found is not None and kind == DATE else found

    return moments(args[2]).map(first)


def _buckets(args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    _, unit, width = _bucket(args)
    return every(kind, interval, limit, lambda moment: moved(moment, unit, width))


def _bucket_raises(args: Args, kind: SqlType) -> bool:
    return not _bucketed(args, kind).is_bounded


DATE_MAKING = (
    Function("make_date", fixed(DATE, WHOLE, WHOLE, WHOLE), _date, raises=_always),
    Function("make_timestamp", _time_type, _time, raises=_always),
    Function(
        "to_timestamp",
        fixed(TIMESTAMPTZ, NUMBERS),
        _seconds_later,
        raises=_seconds_raise,
    ),
    Function(
        "epoch_ms",
        _epoch_type,
        _counted(MILLISECOND),
        nulls=any_far,
        raises=_unknown_end(_counted(MILLISECOND)),
    ),
    Function(
        "epoch_us",
        fixed(INTEGER, TEMPORAL),
        _counted(MICROSECOND),
        nulls=any_far,
        raises=lambda args, _kind: is_far(args[0]),
    ),
    Function(
        "time_bucket",
        _bucket_type,
        _bucketed,
        raises=_bucket_raises,
        image=_buckets,
        accepts=_bucket_accepts,
    ),
)
