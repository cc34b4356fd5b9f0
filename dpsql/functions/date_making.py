"""Functions that make moments from numbers, texts and local times, or the reverse; time buckets.

A format is a constant of known specifiers. Where the moments are bounded, the texts are finitely
many: those of every period of the finest specifier, or every combination of digits if that is less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import product
from math import prod

from dpsql.functions import dates, row
from dpsql.functions.dates import names
from dpsql.functions.type_rules import as_double
from dpsql.functions.zone_names import UTC, ZONES
from dpsql.model.dataclass import dataclass
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import (
    DATE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Expression,
    Kind,
    Literal,
    SqlType,
    Value,
)

SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
FIRST_YEAR, LAST_YEAR = Fraction(1), Fraction(9999)


def _years(args: row.Args) -> tuple[int, int] | None:
    """Return the least and greatest year of the first argument; None unless all are from 1
    to 9999.
    """
    lo, hi = args[0].interval.lo, args[0].interval.hi
    if not (isinstance(lo, Fraction) and isinstance(hi, Fraction)):
        return None
    return (int(lo), int(hi)) if lo >= FIRST_YEAR and hi <= LAST_YEAR else None


def _date(args: row.Args, _kind: SqlType) -> Interval:
    years = _years(args)
    return Interval() if years is None else Interval(date(years[0], 1, 1), date(years[1], 12, 31))


def _time(args: row.Args, _kind: SqlType) -> Interval:
    """Return the interval of timestamps from the first year until the end of the last one.

    60 seconds may carry into the next year.
    """
    years = _years(args)
    if years is None or years[1] == LAST_YEAR:
        return Interval()
    return Interval(datetime(years[0], 1, 1), datetime(years[1] + 1, 1, 1))  # noqa: DTZ001


def _always(_args: row.Args, _kind: SqlType) -> bool:
    return True


def _counted(unit: timedelta) -> Callable[[row.Args, SqlType], Interval]:
    """Return the interval rule of whole units since 1970, rounded down or up to the next one."""

    def interval(args: row.Args, kind: SqlType) -> Interval:
        if kind == INTEGER:
            exact = dates.since_epoch(args[0], unit)
            return Interval(exact.map(_down).lo, exact.map(_up).hi)
        return _from_epoch(args[0].interval, unit)

    return interval


def _down(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction(end.numerator // end.denominator)


def _up(end: Bound) -> Fraction:
    return -_down(-end) if isinstance(end, Fraction) else Fraction(0)


def _from_epoch(numbers: Interval, unit: timedelta) -> Interval:
    """Return the interval of moments that are `numbers` units after 1970, two microseconds wider on
    each side.
    """

    def at(end: Bound, slack: int) -> datetime | None:
        assert isinstance(end, Fraction)
        micros = int(end * (unit // dates.MICROSECOND)) + slack
        return dates.later(dates.EPOCH, dates.MICROSECOND, micros) if abs(micros) < 2**62 else None

    return Interval(numbers.map(lambda e: at(e, -2)).lo, numbers.map(lambda e: at(e, 2)).hi)


def _seconds_later(args: row.Args, _kind: SqlType) -> Interval:
    return _from_epoch(as_double(args[0]), SECOND)


# --- TIME_BUCKET ------------------------------------------------------------------------------

MONDAY = datetime(2000, 1, 3)  # noqa: DTZ001
CENTURY = datetime(2000, 1, 1)  # noqa: DTZ001
"""Default origins of buckets: CENTURY for months, MONDAY for other units."""

MOST = {"month": 12 * 1000, "day": 366_000, "microseconds": 1000 * 366 * 86_400 * 10**6}
"""Largest widths of buckets: a thousand years."""


def _bucket_type(types: row.Types) -> SqlType | None:
    if len(types) not in (3, 4) or types[0].kind is not Kind.VARCHAR or types[1] != INTEGER:
        return None
    moment, *origin = types[2:]
    return moment if moment.is_temporal and all(o == moment for o in origin) else None


def _bucket_accepts(args: tuple[Expression, ...]) -> bool:
    """Test for a constant width from one unit to a thousand years, and a constant origin.

    A bucket of hours of a DATE is refused: its type has no hours.
    """
    unit, width, moment, *origin = args
    if not (names(dates.STEPS)(args) and isinstance(unit, Literal) and isinstance(width, Literal)):
        return False
    name = str(unit.value).lower()
    wide = isinstance(width.value, int) and 0 < width.value <= MOST[name]
    timed = name == "microseconds" and getattr(moment, "type", None) == DATE
    return wide and not timed and all(_is_origin(o, name) for o in origin)


def _is_origin(origin: Expression, unit: str) -> bool:
    """Test for a constant origin; for buckets of months, at the beginning of a month."""
    value = origin.value if isinstance(origin, Literal) else None
    if not isinstance(value, date):
        return False
    start = dates.naive(value)
    return unit != "month" or start == datetime(start.year, start.month, 1)  # noqa: DTZ001


def bucket_origin(unit: str, given: Value) -> datetime:
    """Return the origin of the buckets of a unit: the given one, or the default."""
    if isinstance(given, date):
        return dates.naive(given)
    return CENTURY if unit == "month" else MONDAY


def _bucket(args: row.Args) -> tuple[Callable[[datetime], datetime | None], str, int]:
    """Return a function to the start of a moment's bucket, with the unit and the width."""
    unit, width = dates.part_of(args), args[1].point
    assert isinstance(width, int)
    origin = bucket_origin(unit, args[3].point if len(args) > 3 else None)  # noqa: PLR2004

    def start(moment: datetime) -> datetime | None:
        if unit != "month":
            step = dates.LENGTHS[unit] * width
            return dates.later(origin, step, (moment - origin) // step)
        months = 12 * (moment.year - origin.year) + moment.month - origin.month
        return dates.moved(origin, unit, months // width * width)

    return start, unit, width


def _bucketed(args: row.Args, kind: SqlType) -> Interval:
    start, _, _ = _bucket(args)

    def first(end: Bound) -> Bound | None:
        assert isinstance(end, datetime)
        moment = start(end)
        return moment.date() if moment is not None and kind == DATE else moment

    return dates.moments(args[2]).map(first)


def _buckets(args: row.Args, kind: SqlType, interval: Interval, limit: int) -> row.Domain:
    _, unit, width = _bucket(args)
    return dates.every(kind, interval, limit, lambda moment: dates.moved(moment, unit, width))


DATE_MAKING = (
    row.Function(
        "make_date",
        row.fixed(DATE, row.WHOLE, row.WHOLE, row.WHOLE),
        _date,
        raises=_always,
        called=(3, 3),
    ),
    row.Function(
        "make_timestamp",
        row.fixed(TIMESTAMP, *(row.WHOLE,) * 5, frozenset({Kind.DOUBLE})),
        _time,
        raises=_always,
    ),
    row.Function(
        "to_timestamp",
        row.fixed(TIMESTAMPTZ, row.NUMBERS),
        _seconds_later,
        raises=lambda args, kind: not _seconds_later(args, kind).is_bounded,
    ),
    row.Function(
        "epoch_ms",
        lambda types: (
            row.fixed(TIMESTAMP, row.WHOLE)(types) or row.fixed(INTEGER, row.TEMPORAL)(types)
        ),
        _counted(MILLISECOND),
        nulls=dates.any_far,
        # Far moments may not exist.
        raises=lambda args, kind: not _counted(MILLISECOND)(args, kind).is_bounded,
    ),
    row.Function(
        "epoch_us",
        row.fixed(INTEGER, row.TEMPORAL),
        _counted(dates.MICROSECOND),
        nulls=dates.any_far,
        raises=lambda args, _kind: dates.is_far(args[0]),
        called=(1, 1),
    ),
    row.Function(
        "time_bucket",
        _bucket_type,
        _bucketed,
        raises=lambda args, kind: not _bucketed(args, kind).is_bounded,
        image=_buckets,
        accepts=_bucket_accepts,
    ),
)


MONTH_NAMES = tuple(
    """January February March April May June July August September October November
    December""".split()
)
DAY_NAMES = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
SHORT = 3


@dataclass(frozen=True, slots=True)
class _Specifier:
    """A format specifier: its text of a moment, the period in which the text is constant, and all
    texts.

    `texts` is None if they are no small set.
    """

    write: Callable[[datetime], str]
    period: str
    texts: tuple[str, ...] | None = None


def _numbers(lo: int, hi: int, digits: int) -> tuple[str, ...]:
    return tuple(f"{n:0{digits}}" for n in range(lo, hi + 1))


_HALVES = ("AM", "PM")

SPECIFIERS = {
    "%Y": _Specifier(lambda m: f"{m.year:04}", "year"),
    "%y": _Specifier(lambda m: f"{m.year % 100:02}", "year"),
    "%G": _Specifier(lambda m: f"{m.isocalendar()[0]:04}", "day"),
    "%m": _Specifier(lambda m: f"{m.month:02}", "month", _numbers(1, 12, 2)),
    "%-m": _Specifier(lambda m: f"{m.month}", "month", _numbers(1, 12, 1)),
    "%B": _Specifier(lambda m: MONTH_NAMES[m.month - 1], "month", MONTH_NAMES),
    "%b": _Specifier(
        lambda m: MONTH_NAMES[m.month - 1][:SHORT], "month", tuple(n[:SHORT] for n in MONTH_NAMES)
    ),
    "%V": _Specifier(lambda m: f"{m.isocalendar()[1]:02}", "day", _numbers(1, 53, 2)),
    "%d": _Specifier(lambda m: f"{m.day:02}", "day", _numbers(1, 31, 2)),
    "%-d": _Specifier(lambda m: f"{m.day}", "day", _numbers(1, 31, 1)),
    "%j": _Specifier(lambda m: f"{m.timetuple().tm_yday:03}", "day", _numbers(1, 366, 3)),
    "%A": _Specifier(lambda m: DAY_NAMES[m.weekday()], "day", DAY_NAMES),
    "%a": _Specifier(
        lambda m: DAY_NAMES[m.weekday()][:SHORT], "day", tuple(n[:SHORT] for n in DAY_NAMES)
    ),
    "%u": _Specifier(lambda m: f"{m.isoweekday()}", "day", _numbers(1, 7, 1)),
    "%w": _Specifier(lambda m: f"{m.isoweekday() % 7}", "day", _numbers(0, 6, 1)),
    "%H": _Specifier(lambda m: f"{m.hour:02}", "hour", _numbers(0, 23, 2)),
    "%-H": _Specifier(lambda m: f"{m.hour}", "hour", _numbers(0, 23, 1)),
    "%I": _Specifier(lambda m: f"{(m.hour + 11) % 12 + 1:02}", "hour", _numbers(1, 12, 2)),
    "%p": _Specifier(lambda m: _HALVES[m.hour >= 12], "hour", _HALVES),  # noqa: PLR2004
    "%M": _Specifier(lambda m: f"{m.minute:02}", "minute", _numbers(0, 59, 2)),
    "%S": _Specifier(lambda m: f"{m.second:02}", "second", _numbers(0, 59, 2)),
    "%f": _Specifier(lambda m: f"{m.microsecond:06}", "microseconds"),
    "%g": _Specifier(lambda m: f"{m.microsecond // 1000:03}", "milliseconds"),
}
"""Specifiers of STRFTIME. The locale has no influence."""

READABLE = frozenset("%Y %m %-m %d %-d %H %-H %I %p %M %S %f %b %B %y %j".split())
"""Specifiers of STRPTIME."""

FINEST = "year month day hour minute second milliseconds microseconds".split()
_PIECE = re.compile(r"%-?[A-Za-z]|[^%]")
LEAST_YEAR = 1000
"""Least year with four digits: engines write earlier years differently."""


def pieces(form: str) -> list[str] | None:
    """Split a format into specifiers and single characters; None if it has other parts.

    >>> pieces("%Y-%m")
    ['%Y', '-', '%m']
    """
    parts = _PIECE.findall(form)
    return parts if "".join(parts) == form else None


def _listed(table: frozenset[str]) -> Callable[[tuple[Expression, ...]], bool]:
    """Return a test for a constant format of these specifiers."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        form = args[1].value if isinstance(args[1], Literal) else None
        written = pieces(form) if isinstance(form, str) and "\0" not in form else None
        return bool(written) and all(p in table for p in written or () if p[0] == "%")

    return accepts


def _written(args: row.Args, _kind: SqlType, _interval: Interval, limit: int) -> row.Domain:
    assert isinstance(args[1].point, str)
    form, inside = pieces(args[1].point) or [], dates.moments(args[0])
    if not isinstance(inside.lo, datetime) or inside.hi is None or inside.lo.year < LEAST_YEAR:
        return None
    options = [SPECIFIERS[p].texts if p in SPECIFIERS else (p,) for p in form]
    possible = [texts for texts in options if texts is not None]
    free = prod(map(len, possible)) if len(possible) == len(options) else None
    listed = _of_periods(form, inside, limit if free is None else min(limit, free))
    if listed is None and free is not None and free <= limit:
        listed = ["".join(texts) for texts in product(*possible)]
    return None if listed is None else tuple(sorted(set(listed)))


def _of_periods(form: list[str], inside: Interval, limit: int) -> list[str] | None:
    """List the text of every period in an interval; None beyond `limit`."""
    specifiers = [SPECIFIERS[p] for p in form if p in SPECIFIERS]
    finest = max((FINEST.index(s.period) for s in specifiers), default=0)
    truncate, step = dates.UNITS[FINEST[finest]]

    def first(end: Bound) -> datetime | None:
        assert isinstance(end, datetime)
        return truncate(end)

    def following(moment: datetime) -> datetime | None:
        return truncate(inner) if (inner := dates.later(moment, step)) else None

    starts = dates.every(TIMESTAMP, inside.map(first), limit, following)
    if starts is None:
        return None
    return [
        "".join(SPECIFIERS[p].write(m) if p in SPECIFIERS else p for p in form)
        for m in starts
        if isinstance(m, datetime)
    ]


def _named(names: tuple[str, ...]) -> row.Function:
    def image(_args: row.Args, _kind: SqlType, _interval: Interval, _limit: int) -> row.Domain:
        return tuple(sorted(names))

    name = "monthname" if names is MONTH_NAMES else "dayname"
    return row.Function(
        name,
        row.fixed(VARCHAR, row.TEMPORAL),
        nulls=dates.any_far,
        raises=lambda args, _kind: not args[0].interval.is_bounded,
        image=image,
        called=(1, 1),
    )


DATE_TEXT = (
    _named(MONTH_NAMES),
    _named(DAY_NAMES),
    row.Function(
        "strftime",
        row.fixed(VARCHAR, row.TEMPORAL, row.TEXT),
        nulls=row.any_nullable,
        raises=lambda args, _kind: not args[0].interval.is_bounded,
        image=_written,
        accepts=_listed(frozenset(SPECIFIERS)),
    ),
    row.Function(
        "strptime",
        row.fixed(TIMESTAMP, row.TEXT, row.TEXT),
        raises=lambda _args, _kind: True,
        accepts=_listed(READABLE),
    ),
)


FARTHEST = timedelta(hours=16)
"""Bound on the distance of a local clock from UTC: local times before standard time come
closest.
"""


def _zoned_type(types: row.Types) -> SqlType | None:
    """Return the result type: TIMESTAMPTZ becomes TIMESTAMP, and TIMESTAMP becomes TIMESTAMPTZ.

    DATE is refused: it is a local midnight in DuckDB and one of UTC in PostgreSQL.
    """
    if len(types) != 2 or types[0].kind not in row.TEXT:  # noqa: PLR2004
        return None
    return {TIMESTAMPTZ: TIMESTAMP, TIMESTAMP: TIMESTAMPTZ}.get(types[1])


def _zoned(args: row.Args, _kind: SqlType) -> Interval:
    inside = args[1].interval
    if ZONES[dates.part_of(args)] in UTC:
        return inside
    return Interval(_moved(inside.lo, -FARTHEST), _moved(inside.hi, FARTHEST))


def _moved(end: Bound | None, step: timedelta) -> datetime | None:
    return dates.later(end, step) if isinstance(end, datetime) else None


ZONED = (
    row.Function(
        "timezone",
        _zoned_type,
        _zoned,
        raises=lambda args, _kind: dates.is_far(args[1]),
        accepts=names(ZONES),
        called=(2, 2),
    ),
)
