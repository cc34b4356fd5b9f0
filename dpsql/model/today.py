"""The day that CURRENT_DATE says."""

from __future__ import annotations

from datetime import UTC, date, datetime


def today() -> date:
    """The date in UTC.

    >>> today() >= date(2026, 1, 1)
    True
    """
    return datetime.now(UTC).date()
