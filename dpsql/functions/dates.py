"""Moments and their parts: DATE_TRUNC, EXTRACT, addition of units, and units between moments.

Parts are the ISO ones: weeks begin on Monday and belong to the year of their Thursday (`isoyear`),
`dow` counts from Sunday = 0, `isodow` from Monday = 1. Infinite dates have no parts: NULL.

An end of an interval is a naive datetime, in UTC for TIMESTAMPTZ; DATE counts from its midnight.
Infinite and far dates lie only in unbounded intervals.

A SQL interval is one or more `date_add(unit, count, moment)`, as engines add it: months first, then
days, then the rest. A month later is the same day, or the last of a shorter month.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Container, Iterable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from dpsql.functions import row
from dpsql.functions.type_rules import INT64, midnights
from dpsql.model import tree
from dpsql.model.dataclass import dataclass
from dpsql.model.intervals import Bound, Facts, Interval

LAST_MONTH = 12 * 9999 + 11
"""December 9999 as a month number: the months of a year y are 12·y to 12·y + 11."""


def names(*parts: Container[str]) -> Callable[[tuple[tree.Expression, ...]], bool]:
    """Return a test that the first arguments are literals that name one of these parts each."""

    def accepts(args: tuple[tree.Expression, ...]) -> bool:
        return all(_written(arg) in allowed for arg, allowed in zip(args, parts, strict=False))

    return accepts


def _written(arg: tree.Expression) -> str:
    name = arg.value if isinstance(arg, tree.Literal) else None
    return name.lower() if isinstance(name, str) else ""


def part_of(args: row.Args) -> str:
    """Return the part that the first argument names, in lower case."""
    name = args[0].point
    assert isinstance(name, str)
    return name.lower()


def moments(arg: Facts) -> Interval:
    """Return the argument's interval as timestamps."""
    return midnights(arg.interval) if arg.type == tree.DATE else arg.interval


def is_far(arg: Facts) -> bool:
    """Test whether the argument may be infinite or outside the years 1 to 9999."""
    return not arg.interval.is_bounded


def any_far(args: row.Args) -> bool:
    """Test whether an argument may be NULL, or a moment that may be infinite: the result is NULL
    there.
    """
    return any(arg.nullable or (arg.type.is_temporal and is_far(arg)) for arg in args)


def midnight(day: date) -> datetime:
    """Return the first moment of a day, or of the day of a moment."""
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001


def naive(value: date) -> datetime:
    """Convert a value to an end of an interval: a day's midnight, or a time in UTC without its
    zone.
    """
    if not isinstance(value, datetime):
        return midnight(value)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def months_later(moment: datetime, months: int) -> datetime | None:
    """Return the same day `months` months later, or the last day of a shorter month.

    Returns None outside the years 1 to 9999.

    >>> months_later(datetime(2024, 1, 31), 1)
    datetime.datetime(2024, 2, 29, 0, 0)
    """
    number = 12 * moment.year + moment.month - 1 + months
    if not 12 <= number <= LAST_MONTH:  # noqa: PLR2004 - January of the year 1
        return None
    year, month = divmod(number, 12)
    day = min(moment.day, monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def later(moment: datetime, step: timedelta, count: int = 1) -> datetime | None:
    """Return the moment `count` steps later; None outside the years 1 to 9999."""
    try:
        return moment + step * count
    except OverflowError:
        return None


def values(kind: tree.SqlType, ends: Iterable[datetime]) -> tuple[tree.Value, ...]:
    """Convert ends to values of a type: dates, or times with the zone that the type needs."""
    if kind == tree.DATE:
        return tuple(moment.date() for moment in ends)
    if kind == tree.TIMESTAMPTZ:
        return tuple(moment.replace(tzinfo=UTC) for moment in ends)
    return tuple(ends)


def every(
    kind: tree.SqlType,
    interval: Interval,
    limit: int,
    following: Callable[[datetime], datetime | None],
) -> row.Domain:
    """List the values from one end of an interval of periods to the other; None beyond `limit`."""
    moment, last = interval.lo, interval.hi
    if not (isinstance(moment, date) and isinstance(last, date)):
        return None
    current: datetime | None = moment if isinstance(moment, datetime) else midnight(moment)
    end = last if isinstance(last, datetime) else midnight(last)
    ends: list[datetime] = []
    while current is not None and current <= end:
        if len(ends) >= limit:
            return None
        ends.append(current)
        current = following(current)
    return values(kind, ends)


EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a date: its least and greatest value, or a function that increases with time.

    `raises_on` are the types on which DuckDB raises for some far date.
    """

    lo: int = 0
    hi: int = 0
    growing: Callable[[datetime], int] | None = None
    raises_on: frozenset[tree.SqlType] = frozenset({tree.TIMESTAMPTZ})


WEEKLY = frozenset({tree.DATE, tree.TIMESTAMPTZ})


CLOCK = frozenset("hour minute second milliseconds microseconds".split())
"""Parts of a TIME."""

DAY_OF_SECONDS = Interval(Fraction(0), Fraction(86_400))


def _year_and_week(moment: datetime) -> int:
    year, week, _ = moment.isocalendar()
    return 100 * year + week


PARTS = {
    "millennium": _Part(growing=lambda moment: (moment.year + 999) // 1000),
    "century": _Part(growing=lambda moment: (moment.year + 99) // 100),
    "decade": _Part(growing=lambda moment: moment.year // 10),
    "year": _Part(growing=lambda moment: moment.year),
    "isoyear": _Part(growing=lambda moment: moment.isocalendar()[0], raises_on=WEEKLY),
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
"""Parts that EXTRACT may name. EPOCH is missing because its type differs."""


def _month(moment: datetime, months: int) -> datetime:
    """Return the first moment of the period of `months` months that contains `moment`."""
    return datetime(moment.year, (moment.month - 1) // months * months + 1, 1)  # noqa: DTZ001


def _years(count: int) -> Callable[[datetime], datetime | None]:
    """Return the truncation to periods of `count` years, from year 0; the first has no datetime."""

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
"""Units of DATE_TRUNC: the truncation, and a step that leads into the next period."""


def _truncated_type(types: row.Types) -> tree.SqlType | None:
    if len(types) != 2 or types[0].kind not in row.TEXT or not types[1].is_temporal:  # noqa: PLR2004
        return None
    return tree.TIMESTAMPTZ if types[1] == tree.TIMESTAMPTZ else tree.TIMESTAMP


def _truncated(args: row.Args, _kind: tree.SqlType) -> Interval:
    truncate, _ = UNITS[part_of(args)]

    def first(end: Bound) -> datetime | None:
        assert isinstance(end, datetime)
        return truncate(end)

    return moments(args[1]).map(first)


def _truncated_values(
    args: row.Args, kind: tree.SqlType, interval: Interval, limit: int
) -> row.Domain:
    truncate, step = UNITS[part_of(args)]

    def following(moment: datetime) -> datetime | None:
        inside = later(moment, step)
        return None if inside is None else truncate(inside)

    return every(kind, interval, limit, following)


def _extracted(args: row.Args, _kind: tree.SqlType) -> Interval:
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
    """Return the months or quarters of an interval within one year; else None."""
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


def _seconds(args: row.Args, _kind: tree.SqlType) -> Interval:
    if args[0].type == tree.TIME:
        return DAY_OF_SECONDS
    return since_epoch(args[0], timedelta(seconds=1)).outward(tree.DOUBLE)


def since_epoch(arg: Facts, unit: timedelta) -> Interval:
    """Return the interval of units between 1970 and a moment."""

    def count(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        return Fraction((end - EPOCH) // MICROSECOND, unit // MICROSECOND)

    return moments(arg).map(count)


DATES = (
    row.Function(
        "date_trunc",
        _truncated_type,
        _truncated,
        raises=lambda args, _kind: is_far(args[1]),
        image=_truncated_values,
        accepts=names(UNITS),
        called=(2, 2),
    ),
    row.Function(
        "extract",
        row.fixed(tree.INTEGER, row.TEXT, row.TEMPORAL | {tree.Kind.TIME}),
        _extracted,
        nulls=any_far,
        raises=lambda args, _kind: (
            args[1].type in PARTS[part_of(args)].raises_on and is_far(args[1])
        ),
        accepts=lambda args: names(CLOCK if row.type_at(args, 1) == tree.TIME else PARTS)(args),
    ),
    row.Function(
        "epoch", row.fixed(tree.DOUBLE, row.TEMPORAL | {tree.Kind.TIME}), _seconds, nulls=any_far
    ),
)


DAY = frozenset({tree.Kind.DATE})
INT32 = 2**31 - 1

STEPS = {"month": INT32, "day": INT32, "microseconds": INT64}
"""Units of DATE_ADD, and the largest count that DuckDB's INTERVAL holds."""

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
"""Units of fixed length."""

MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
"""Units of whole months."""


def moved(value: date, unit: str, count: int) -> datetime | None:
    """Return the moment `count` units later, in UTC without a zone; None outside the years 1 to
    9999.

    >>> moved(date(2024, 1, 31), "month", 1)
    datetime.datetime(2024, 2, 29, 0, 0)
    """
    moment = naive(value)
    if unit == "month":
        return months_later(moment, count)
    return later(moment, LENGTHS[unit], count)


def _added_type(types: row.Types) -> tree.SqlType | None:
    match types:
        case (tree.SqlType(kind=tree.Kind.VARCHAR), tree.SqlType(kind=tree.Kind.INTEGER), moment):
            if moment.is_temporal:
                return tree.TIMESTAMPTZ if moment == tree.TIMESTAMPTZ else tree.TIMESTAMP
    return None


def _added(args: row.Args, _kind: tree.SqlType) -> Interval:
    """Return the interval of sums: later moments and larger counts give later results."""
    unit, counts, start = part_of(args), args[1].interval, moments(args[2])
    return Interval(_end(start.lo, unit, counts.lo), _end(start.hi, unit, counts.hi))


def _end(moment: Bound | None, unit: str, count: Bound | None) -> datetime | None:
    if not (isinstance(moment, datetime) and isinstance(count, Fraction)):
        return None
    return moved(moment, unit, int(count))


def _added_raises(args: row.Args, kind: tree.SqlType) -> bool:
    most = STEPS[part_of(args)]
    return not (args[1].interval.within(-most, most) and _added(args, kind).is_bounded)


def _added_values(
    args: row.Args, kind: tree.SqlType, _interval: Interval, limit: int
) -> row.Domain:
    counts, starts = args[1].domain, args[2].domain
    if counts is None or starts is None or len(counts) * len(starts) > limit:
        return None
    unit = part_of(args)
    ends: set[datetime] = set()
    for start in starts:
        for count in counts:
            assert isinstance(start, date)
            assert isinstance(count, int)
            end = moved(start, unit, count)
            if end is None:
                return None
            ends.add(end)
    return values(kind, sorted(ends))


def _days_later(args: row.Args, _kind: tree.SqlType) -> Interval:
    start, counts = moments(args[0]), args[1].interval
    lo, hi = _end(start.lo, "day", counts.lo), _end(start.hi, "day", counts.hi)
    return Interval(None if lo is None else lo.date(), None if hi is None else hi.date())


def _index(unit: str) -> Callable[[Bound], Fraction]:
    """Return the number of the period of a moment, for units with numbered periods."""

    def of(end: Bound) -> Fraction:
        assert isinstance(end, datetime)
        if unit in MONTHS:
            return Fraction((12 * end.year + end.month - 1) // MONTHS[unit])
        return Fraction((end - datetime.min) // LENGTHS[unit])  # noqa: DTZ901

    return of


def _crossings(args: row.Args, _kind: tree.SqlType) -> Interval:
    """Return the interval of unit boundaries between two moments.

    For weeks, DuckDB divides the boundaries of days by 7.
    """
    unit = part_of(args)
    weeks = unit == "week"
    first, second = (moments(arg).map(_index("day" if weeks else unit)) for arg in args[1:])
    between = second - first
    return (between / SEVEN).map(_towards_zero) if weeks else between


def _whole_units(args: row.Args, kind: tree.SqlType) -> Interval:
    """Return the interval of complete units between two moments.

    They are at most one less than the boundaries, in either sign.
    """
    unit = part_of(args)
    if unit in MONTHS:
        return _crossings(args, kind).union(Interval(Fraction(0), Fraction(0)))
    first, second = (since_epoch(arg, LENGTHS[unit]) for arg in args[1:])
    return (second - first).map(_towards_zero)


def _towards_zero(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction(int(end))


def _between_raises(args: row.Args, _kind: tree.SqlType) -> bool:
    return is_far(args[1]) or is_far(args[2])


def _between_operands(types: row.Types) -> tuple[tree.SqlType | None, ...]:
    """Return operand types with one type for both moments."""
    return (None, None, None) if types[1] == types[2] else (None, tree.TIMESTAMP, tree.TIMESTAMP)


def _between_type(types: row.Types) -> tree.SqlType | None:
    if row.fixed(tree.INTEGER, row.TEXT, row.TEMPORAL, row.TEMPORAL)(types) is None:
        return None
    mixed = types[1] != types[2] and tree.TIMESTAMPTZ in types
    return None if mixed else tree.INTEGER


def _last_day(args: row.Args, _kind: tree.SqlType) -> Interval:
    def last(end: Bound) -> date:
        assert isinstance(end, datetime)
        return end.date().replace(day=monthrange(end.year, end.month)[1])

    return moments(args[0]).map(last)


def _next_last_day(day: datetime) -> datetime | None:
    """Return the last day of the month after a last day."""
    first = later(day, timedelta(days=1))
    return None if first is None else first.replace(day=monthrange(first.year, first.month)[1])


DATE_ARITHMETIC = (
    row.Function(
        "date_add",
        _added_type,
        _added,
        raises=_added_raises,
        image=_added_values,
        accepts=names(STEPS),
    ),
    row.Function(
        "add_days",
        row.fixed(tree.DATE, frozenset({tree.Kind.DATE}), row.WHOLE),
        _days_later,
        raises=lambda args, kind: (
            not (args[1].interval.within(-INT32, INT32) and _days_later(args, kind).is_bounded)
        ),
    ),
    row.Function(
        "date_diff",
        _between_type,
        _crossings,
        operands=_between_operands,
        nulls=any_far,
        raises=_between_raises,
        accepts=names(LENGTHS | MONTHS),
        called=(3, 3),
    ),
    row.Function(
        "date_sub",
        _between_type,
        _whole_units,
        operands=_between_operands,
        nulls=any_far,
        raises=_between_raises,
        accepts=names(LENGTHS | MONTHS),
    ),
    row.Function(
        "last_day",
        row.fixed(tree.DATE, row.TEMPORAL),
        _last_day,
        nulls=any_far,
        raises=lambda args, _kind: is_far(args[0]),
        image=lambda _args, kind, interval, limit: every(kind, interval, limit, _next_last_day),
        called=(1, 1),
    ),
)
