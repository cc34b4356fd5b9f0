"""What the rows about time share: parts named by literals, and moments as interval ends.

An end is a naive datetime, in UTC for TIMESTAMPTZ; DATE counts from its midnight. Infinite and far
dates lie only in unbounded intervals.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Container, Iterable
from datetime import UTC, date, datetime, timedelta

from dpsql.functions.row import Args, Domain
from dpsql.functions.type_rules import midnights
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import DATE, TIMESTAMPTZ, Expression, Literal, SqlType, Value

LAST_MONTH = 12 * 9999 + 11
"""December 9999 as a month number: the months of a year y are 12·y to 12·y + 11."""


def names(*parts: Container[str]) -> Callable[[tuple[Expression, ...]], bool]:
    """Whether the first arguments are literals that name one of these parts each."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        return all(_written(arg) in known for arg, known in zip(args, parts, strict=False))

    return accepts


def _written(arg: Expression) -> str:
    name = arg.value if isinstance(arg, Literal) else None
    return name.lower() if isinstance(name, str) else ""


def part_of(args: Args) -> str:
    """The part that the first argument names, in lower case."""
    name = args[0].point
    assert isinstance(name, str)
    return name.lower()


def moments(arg: Facts) -> Interval:
    """The argument's interval as timestamps."""
    return midnights(arg.interval) if arg.type == DATE else arg.interval


def is_far(arg: Facts) -> bool:
    """Whether the argument may be infinite, or beyond the years 1 to 9999."""
    return not arg.interval.is_bounded


def any_far(args: Args) -> bool:
    """NULL where a moment is NULL or may be infinite."""
    return any(arg.nullable or (arg.type.is_temporal and is_far(arg)) for arg in args)


def midnight(day: date) -> datetime:
    """The first moment of the day that `day` is, or is in."""
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001


def naive(value: date) -> datetime:
    """A value as an end: a day's midnight, a time in UTC without its zone."""
    if not isinstance(value, datetime):
        return midnight(value)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def months_later(moment: datetime, months: int) -> datetime | None:
    """The same day so many months later, the last of the month if it has no such day.

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
    """The moment so many steps later, None beyond the years 1 to 9999."""
    try:
        return moment + step * count
    except OverflowError:
        return None


def values(kind: SqlType, found: Iterable[datetime]) -> tuple[Value, ...]:
    """Ends as values of a type: dates, or times with the zone that the type needs."""
    if kind == DATE:
        return tuple(moment.date() for moment in found)
    if kind == TIMESTAMPTZ:
        return tuple(moment.replace(tzinfo=UTC) for moment in found)
    return tuple(found)


def every(
    kind: SqlType, interval: Interval, limit: int, following: Callable[[datetime], datetime | None]
) -> Domain:
    """The values from one end of an interval of periods to the other; None beyond `limit`."""
    moment, last = interval.lo, interval.hi
    if not (isinstance(moment, date) and isinstance(last, date)):
        return None
    current: datetime | None = moment if isinstance(moment, datetime) else midnight(moment)
    end = last if isinstance(last, datetime) else midnight(last)
    found: list[datetime] = []
    while current is not None and current <= end:
        if len(found) >= limit:
            return None
        found.append(current)
        current = following(current)
    return values(kind, found)
