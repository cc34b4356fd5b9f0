"""Dates as text, and text as dates: names of days and months, STRFTIME and STRPTIME.

A format is a constant of known specifiers. Where the moments are bounded, the texts are finitely
many: those of every period of the finest specifier, or every combination of digits if that is less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from math import prod

from dpsql.functions.dates import UNITS
from dpsql.functions.instants import any_far, every, later, moments
from dpsql.functions.row import TEMPORAL, TEXT, Args, Domain, Function, any_nullable, fixed
from dpsql.model.intervals import Bound, Interval
from dpsql.model.tree import TIMESTAMP, VARCHAR, Expression, Literal, SqlType

MONTH_NAMES = tuple(
    """January February March April May June July August September October November
    December""".split()
)
DAY_NAMES = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
SHORT = 3


@dataclass(frozen=True, slots=True)
class _Specifier:
    """How a specifier writes a moment, the period in which it is constant, and all its texts.

    `texts` is None where they are not a small set of their own.
    """

    write: Callable[[datetime], str]
    period: str
    texts: tuple[str, ...] | None = None


def _numbers(lo: int, hi: int, digits: int) -> tuple[str, ...]:
    return tuple(f"{n:0{digits}}" for n in range(lo, hi + 1))


def _hour12(moment: datetime) -> int:
    return (moment.hour + 11) % 12 + 1


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
    "%I": _Specifier(lambda m: f"{_hour12(m):02}", "hour", _numbers(1, 12, 2)),
    "%p": _Specifier(lambda m: _HALVES[m.hour >= 12], "hour", _HALVES),  # noqa: PLR2004
    "%M": _Specifier(lambda m: f"{m.minute:02}", "minute", _numbers(0, 59, 2)),
    "%S": _Specifier(lambda m: f"{m.second:02}", "second", _numbers(0, 59, 2)),
    "%f": _Specifier(lambda m: f"{m.microsecond:06}", "microseconds"),
    "%g": _Specifier(lambda m: f"{m.microsecond // 1000:03}", "milliseconds"),
}
"""What STRFTIME can write. The locale plays no part."""

READABLE = frozenset("%Y %m %-m %d %-d %H %-H %I %p %M %S %f %b %B %y %j".split())
"""What STRPTIME can read."""

FINEST = "year month day hour minute second milliseconds microseconds".split()
_PIECE = re.compile(r"%-?[A-Za-z]|[^%]")
FIRST_YEAR = 1000
"""Years before have fewer than four digits, which engines write differently."""


def pieces(form: str) -> list[str] | None:
    """A format as specifiers and single characters, None if it has others.

    >>> pieces("%Y-%m")
    ['%Y', '-', '%m']
    """
    found = _PIECE.findall(form)
    return found if "".join(found) == form else None


def _listed(table: frozenset[str]) -> Callable[[tuple[Expression, ...]], bool]:
    """Accepts a constant format of these specifiers."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        form = args[1].value if isinstance(args[1], Literal) else None
        found = pieces(form) if isinstance(form, str) and "\0" not in form else None
        return bool(found) and all(p in table for p in found or () if p[0] == "%")

    return accepts


def _format(args: Args) -> list[str]:
    form = args[1].point
    assert isinstance(form, str)
    return pieces(form) or []


def _written(args: Args, _kind: SqlType, _interval: Interval, limit: int) -> Domain:
    form, inside = _format(args), moments(args[0])
    if not isinstance(inside.lo, datetime) or inside.hi is None or inside.lo.year < FIRST_YEAR:
        return None
    options = [SPECIFIERS[p].texts if p in SPECIFIERS else (p,) for p in form]
    known = [texts for texts in options if texts is not None]
    free = prod(map(len, known)) if len(known) == len(options) else None
    listed = _of_periods(form, inside, limit if free is None else min(limit, free))
    if listed is None and free is not None and free <= limit:
        listed = ["".join(texts) for texts in product(*known)]
    return None if listed is None else tuple(sorted(set(listed)))


def _of_periods(form: list[str], inside: Interval, limit: int) -> list[str] | None:
    """The text of every period in an interval, at most `limit`."""
    specifiers = [SPECIFIERS[p] for p in form if p in SPECIFIERS]
    finest = max((FINEST.index(s.period) for s in specifiers), default=0)
    truncate, step = UNITS[FINEST[finest]]

    def first(end: Bound) -> datetime | None:
        assert isinstance(end, datetime)
        return truncate(end)

    def following(moment: datetime) -> datetime | None:
        return truncate(inner) if (inner := later(moment, step)) else None

    starts = every(TIMESTAMP, inside.map(first), limit, following)
    if starts is None:
        return None
    return ["".join(_text(p, m) for p in form) for m in starts if isinstance(m, datetime)]


def _text(piece: str, moment: datetime) -> str:
    return SPECIFIERS[piece].write(moment) if piece in SPECIFIERS else piece


def _named(names: tuple[str, ...]) -> Function:
    def image(_args: Args, _kind: SqlType, _interval: Interval, _limit: int) -> Domain:
        return tuple(sorted(names))

    name = "monthname" if names is MONTH_NAMES else "dayname"
    return Function(
        name,
        fixed(VARCHAR, TEMPORAL),
        nulls=any_far,
        raises=lambda args, _kind: not args[0].interval.is_bounded,
        image=image,
    )


DATE_TEXT = (
    _named(MONTH_NAMES),
    _named(DAY_NAMES),
    Function(
        "strftime",
        fixed(VARCHAR, TEMPORAL, TEXT),
        nulls=any_nullable,
        raises=lambda args, _kind: not args[0].interval.is_bounded,
        image=_written,
        accepts=_listed(frozenset(SPECIFIERS)),
    ),
    Function(
        "strptime",
        fixed(TIMESTAMP, TEXT, TEXT),
        raises=lambda _args, _kind: True,
        accepts=_listed(READABLE),
    ),
)
