"""Times as questions know them: on a public grid, so that who asks again asks the same question."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from dpsql.model.errors import Unreachable
from dpsql.model.tree import TIMESTAMP, TIMESTAMPTZ, Expression, Literal

RECENT = timedelta(days=35)
"""How old a constant may be that a tool computed itself, as for the last month."""


class Resolution(StrEnum):
    """The steps of the grid, in UTC."""

    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"

    def floor(self, moment: datetime) -> datetime:
        """The last step of the grid; moments with a zone are in UTC.

        >>> Resolution.HOUR.floor(datetime(2026, 5, 4, 3, 2, 1)).isoformat()
        '2026-05-04T03:00:00'
        """
        begun = moment.replace(second=0, microsecond=0)
        if self is not Resolution.MINUTE:
            begun = begun.replace(minute=0)
        return begun.replace(hour=0) if self is Resolution.DAY else begun


def now() -> datetime:
    """The moment in UTC.

    >>> now() >= datetime(2026, 1, 1, tzinfo=UTC)
    True
    """
    return datetime.now(UTC)


read_clock: Callable[[], float] = time.time


def require_clock() -> None:
    """Raise `Unreachable` where the machine's clock says a year that Python cannot tell.

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
    """What PostgreSQL's words for times mean at this instant; None for another text.

    >>> word(" Yesterday", datetime(2026, 5, 4, 3)).isoformat()
    '2026-05-03T00:00:00'
    """
    said = text.strip().lower()
    if said == "now":
        return instant
    days = _DAYS.get(said)
    return None if days is None else Resolution.DAY.floor(instant) + timedelta(days=days)


def rounded(constant: Expression, resolution: Resolution, instant: datetime) -> Expression:
    """A time of the last days down to the grid; as it is where it is older, later or none.

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
