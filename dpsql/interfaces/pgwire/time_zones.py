"""Time zones in PostgreSQL's TimeZone: names of the tz database, hours, and POSIX offsets."""

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
    """Return the stored form of SET TIME ZONE's value. Raises ValueError for an unknown zone.

    Plain numbers and intervals are hours east of UTC. Offsets of POSIX are hours west, as in
    PostgreSQL.

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
    if text.lower() not in _names_by_lower_case():
        raise ValueError
    return _names_by_lower_case()[text.lower()]


def zone(name: str) -> tzinfo:
    """Return the zone for a result of `zone_name`."""
    if name == "UTC":
        return UTC
    return _of_posix(name) if _POSIX.match(name) else ZoneInfo(name)


@cache
def _names_by_lower_case() -> dict[str, str]:
    """Return the names of the tz database, keyed by their lower-case form."""
    return {name.lower(): name for name in available_timezones()}


def _offset(sign: str | None, *parts: str | None) -> timedelta:
    """Return an offset of hours, minutes and seconds. Raises ValueError from one day on."""
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
    """Return the POSIX name of a zone with this offset east of UTC, as PostgreSQL writes it."""
    if abs(offset) >= _MOST:
        raise ValueError
    minutes, seconds = divmod(abs(round(offset.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours:02}" + f":{minutes:02}" * bool(minutes or seconds)
    shown += f":{seconds:02}" * bool(seconds)
    east, west = ("-", "+") if offset < timedelta(0) else ("+", "-")
    return f"<{east}{shown}>{west}{shown}"
