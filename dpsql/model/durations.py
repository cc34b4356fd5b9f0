"""Intervals: the units of an INTERVAL, the strings that denote one, and the length of a month.

An INTERVAL has a number of months, days and microseconds, as in PostgreSQL and DuckDB. For
comparisons a month is 30 days and a day 24 hours, as there. The difference of two moments has no
months.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

MICROSECOND = timedelta(microseconds=1)
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
MONTH_US = 30 * DAY_US

ORDER = ("month", "day", "microseconds")
"""Parts of an interval in the order in which the engines add them."""

PART_US = {"month": MONTH_US, "day": DAY_US, "microseconds": 1}
"""Length of each part in microseconds, for comparisons of intervals."""

UNITS = {
    name: unit
    for names, unit in (
        ("microsecond microseconds us usec usecs", ("microseconds", 1)),
        ("millisecond milliseconds ms msec msecs", ("microseconds", 1_000)),
        ("second seconds s sec secs", ("microseconds", 1_000_000)),
        ("minute minutes min mins", ("microseconds", 60_000_000)),
        ("hour hours h hr hrs", ("microseconds", 3_600_000_000)),
        ("day days d", ("day", 1)),
        ("week weeks w", ("day", 7)),
        ("month months mon mons", ("month", 1)),
        ("quarter quarters", ("month", 3)),
        ("year years y yr yrs", ("month", 12)),
        ("decade decades", ("month", 120)),
        ("century centuries", ("month", 1200)),
    )
    for name in names.split()
}
"""Units of an interval: the part that each one counts, and its size in that part."""

_PIECE = re.compile(r"\s*([+-]?)\s*((?:\d{1,18}\.?\d{0,18}|\.\d{1,18}))\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"\s*([+-]?)\s*(\d{1,4}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?\s*")


def parts_of(text: str) -> dict[str, int] | None:
    """Parse a string such as '1 day 02:00:00' into its parts; None if it is no interval.

    >>> parts_of("1 month 02:00")
    {'month': 1, 'day': 0, 'microseconds': 7200000000}
    """
    totals = dict.fromkeys(ORDER, Fraction(0))
    rest = text
    while (piece := _PIECE.match(rest)) and piece.group(3).lower() in UNITS:
        part, size = UNITS[piece.group(3).lower()]
        number = Fraction(piece.group(2))
        totals[part] += (-number if piece.group(1) == "-" else number) * size
        rest = rest[piece.end() :]
    if clock := _CLOCK.fullmatch(rest):
        sign, hours, minutes, seconds = clock.groups()
        moment = 3600 * int(hours) + 60 * int(minutes) + Fraction(seconds or 0)
        totals["microseconds"] += SECOND_US * moment * (-1 if sign == "-" else 1)
        rest = ""
    if rest or rest == text or any(n.denominator > 1 for n in totals.values()):
        return None
    return {part: int(n) for part, n in totals.items()}


def spelled(length: timedelta) -> str:
    """Format an interval in PostgreSQL's style "postgres": days apart, and hours of the same sign.

    >>> spelled(timedelta(days=-1, hours=-2)), spelled(timedelta(seconds=1.5))
    ('-1 days -02:00:00', '00:00:01.5')
    """
    days, rest = days_and_rest(length)
    seconds, micros = divmod(abs(rest), SECOND_US)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if micros:
        clock += f".{micros:06d}".rstrip("0")
    if not days:
        return f"{'-' * (rest < 0)}{clock}"
    shown = f"{days} day{'' if days == 1 else 's'}"
    return f"{shown} {'-' * (rest < 0)}{clock}" if rest else shown


def days_and_rest(length: timedelta) -> tuple[int, int]:
    """Return whole days towards zero, and the remaining microseconds, of the same sign."""
    total = length // MICROSECOND
    days, rest = divmod(abs(total), DAY_US)
    return (-days, -rest) if total < 0 else (days, rest)
