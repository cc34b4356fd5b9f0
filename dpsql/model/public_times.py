"""Times of queries on a public grid, so that a repeated query is the same query."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from dpsql.model.errors import Unreachable
from dpsql.model.tree import TIMESTAMP, TIMESTAMPTZ, Expression, Literal

RECENT = timedelta(days=35)
"""Largest age of a constant that a tool computed from the clock, such as the start of last
month.
"""


class Resolution(StrEnum):
    """The steps of the grid, in UTC."""

    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"

    def floor(self, moment: datetime) -> datetime:
        """Return the last step of the grid; moments with a zone are in UTC.

        >>> Resolution.HOUR.floor(datetime(2026, 5, 4, 3, 2, 1)).isoformat()
        '2026-05-04T03:00:00'
        """
        begun = moment.replace(second=0, microsecond=0)
        if self is not Resolution.MINUTE:
            begun = begun.replace(minute=0)
        return begun.replace(hour=0) if self is Resolution.DAY else begun


def now() -> datetime:
    """Return the current moment in UTC.

    >>> now() >= datetime(2026, 1, 1, tzinfo=UTC)
    True
    """
    return datetime.now(UTC)


read_clock: Callable[[], float] = time.time


def require_clock() -> None:
    """Raise `Unreachable` if the machine's clock is beyond the years that Python supports.

    Python counts nanoseconds in 64 bits, up to 11 April 2262. Even `import logging` fails later.
    """
    try:
        read_clock()
    except OverflowError:
        raise Unreachable(
            "This machine's clock says a year after 2262, and Python cannot tell such a time."
            " Nothing was charged. Set the clock, then try again."
        ) from None


_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}


def word(text: str, instant: datetime) -> datetime | None:
    """Return the moment that a PostgreSQL word such as 'today' means at this instant; else None.

    >>> word(" Yesterday", datetime(2026, 5, 4, 3)).isoformat()
    '2026-05-03T00:00:00'
    """
    said = text.strip().lower()
    if said == "now":
        return instant
    days = _DAYS.get(said)
    return None if days is None else Resolution.DAY.floor(instant) + timedelta(days=days)


def rounded(constant: Expression, resolution: Resolution, instant: datetime) -> Expression:
    """Round a recent time constant down to the grid; other constants are unchanged.

    >>> from dpsql.model.tree import VARCHAR
    >>> rounded(Literal("x", VARCHAR), Resolution.DAY, now()).value
    'x'
    """
    if not isinstance(constant, Literal) or constant.type not in (TIMESTAMP, TIMESTAMPTZ):
        return constant
    if not isinstance(constant.value, datetime):
        return constant
    moment = constant.value
    since = instant - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    grid = resolution.floor(moment)
    if not -timedelta(days=1) <= since <= RECENT or grid == moment:
        return constant
    return Literal(grid, constant.type, constant.span)
