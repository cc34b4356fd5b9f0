"""Time zones as PostgreSQL's TimeZone names them: of the tz database, hours, and POSIX offsets."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_HOURS = re.compile(r"[+-]?\d{1,2}(?:\.\d{1,9})?\Z")
_OFFSET = r"([+-]?)(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?"
_POSIX = re.compile(rf"(?:<[+-]?\w{{1,8}}(?::\d\d){{0,2}}>|[A-Za-z]{{3,}})?{_OFFSET}\Z")
_INTERVAL = re.compile(rf"interval\s*'\s*{_OFFSET}\s*'\Z", re.IGNORECASE)
_MOST = timedelta(hours=24)
_UTC = frozenset({"utc", "gmt", "z", "zulu", "universal"})


def zone_name(value: str) -> str:
    """What SET TIME ZONE keeps of a value. Raises ValueError where it names no zone.

    Whole texts of digits, and intervals, are hours east of UTC; the offsets of POSIX are to the
    west, as in PostgreSQL.

    >>> zone_name("-7"), zone_name("interval '+05:30'"), zone_name("europe/berlin")
    ('<-07>+07', '<+05:30>-05:30', 'Europe/Berlin')
    >>> zone_name("+02:00"), zone("+02:00").utcoffset(None)
    ('+02:00', datetime.timedelta(days=-1, seconds=79200))
    """
    text = value.strip()
    if text.lower() in _UTC:
        return "UTC"
    if _HOURS.match(text):
        return _east(timedelta(seconds=round(float(text) * 3600)))
    interval = _INTERVAL.match(text)
    if interval is not None:
        return _east(_offset(*interval.groups()))
    if _POSIX.match(text):
        _of_posix(text)
        return text
    return (
        _names_by_lower_case()[text.lower()] if text.lower() in _names_by_lower_case() else _fail()
    )


def zone(name: str) -> tzinfo:
    """The zone of a name that `zone_name` gave."""
    if name == "UTC":
        return UTC
    return _of_posix(name) if _POSIX.match(name) else ZoneInfo(name)


def _fail() -> str:
    raise ValueError


@cache
def _names_by_lower_case() -> dict[str, str]:
    """The names of the tz database, by themselves in lower case."""
    return {name.lower(): name for name in available_timezones()}


def _offset(sign: str | None, *parts: str | None) -> timedelta:
    """Hours, minutes and seconds. Raises ValueError beyond a day."""
    hours, minutes, seconds = (int(part or 0) for part in parts)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if offset >= _MOST:
        raise ValueError
    return -offset if sign == "-" else offset


def _of_posix(text: str) -> tzinfo:
    posix = _POSIX.match(text)
    assert posix is not None
    return timezone(-_offset(*posix.groups()))


def _east(offset: timedelta) -> str:
    """The POSIX name of a zone so far east of UTC, as PostgreSQL writes it."""
    if abs(offset) >= _MOST:
        raise ValueError
    minutes, seconds = divmod(abs(round(offset.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours:02}" + f":{minutes:02}" * bool(minutes or seconds)
    shown += f":{seconds:02}" * bool(seconds)
    east, west = ("-", "+") if offset < timedelta(0) else ("+", "-")
    return f"<{east}{shown}>{west}{shown}"
