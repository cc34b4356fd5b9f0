"""Calendars of budgets that renew: days, weeks, months, quarters and years of a time zone.

A window has a name that depends on the local date alone, so a time zone whose rules change opens
no window twice: PRIVACY.md R110.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import assert_never

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import LedgerError


class Renewal(StrEnum):
    """Lengths of a window."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


_LONGEST = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
"""Most days of a window: its first day and these days lead into the next window."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Windows of one length in one time zone, such as the months of Europe/Berlin.

    >>> months = Calendar(Renewal.MONTH, "Europe/Berlin")
    >>> months.text, months.window_at(datetime(2026, 11, 30, 23, 30, tzinfo=UTC))
    ('month Europe/Berlin', '2026-12')
    """

    renews: Renewal
    zone: str = "UTC"

    @property
    def text(self) -> str:
        """The calendar as the ledger writes it."""
        return f"{self.renews.value} {self.zone}"

    def window_at(self, moment: datetime) -> str:
        """Return the name of the window of a moment.

        Raises `LedgerError` if this machine does not know the time zone.

        >>> Calendar(Renewal.WEEK).window_at(datetime(2027, 1, 3, tzinfo=UTC))
        '2026-W53'
        """
        return self._name_of(moment.astimezone(find_zone(self.zone)).date())

    def first_day(self, window: str) -> date:
        """Return the first day of a window. Raises ValueError for a name that it never gives.

        >>> Calendar(Renewal.QUARTER).first_day("2026-Q4")
        datetime.date(2026, 10, 1)
        """
        match self.renews:
            case Renewal.DAY:
                first = date.fromisoformat(window)
            case Renewal.WEEK:
                first = date.fromisoformat(f"{window}-1")
            case Renewal.MONTH:
                first = date.fromisoformat(f"{window}-01")
            case Renewal.QUARTER:
                year, number = window.split("-Q")
                first = date(int(year), 3 * int(number) - 2, 1)
            case Renewal.YEAR:
                first = date(int(window), 1, 1)
            case _:
                assert_never(self.renews)
        if self._name_of(first) != window:
            raise ValueError("this is no name of a window")
        return first

    def next_window(self, window: str) -> str:
        """Return the name of the window after this one.

        >>> Calendar(Renewal.DAY).next_window("2028-02-28")
        '2028-02-29'
        """
        return self._name_of(self.first_day(window) + timedelta(days=_LONGEST[self.renews]))

    def renewal_after(self, window: str) -> date:
        """Return the local date on which the window after this one begins."""
        return self.first_day(self.next_window(window))

    def _name_of(self, day: date) -> str:
        match self.renews:
            case Renewal.DAY:
                return day.isoformat()
            case Renewal.WEEK:
                year, week, _ = day.isocalendar()
                return f"{year:04}-W{week:02}"
            case Renewal.MONTH:
                return day.isoformat()[:7]
            case Renewal.QUARTER:
                return f"{day.isoformat()[:4]}-Q{(day.month + 2) // 3}"
            case Renewal.YEAR:
                return day.isoformat()[:4]
            case _:
                assert_never(self.renews)


def read_calendar(text: str) -> Calendar:
    """Return the calendar of a text that the ledger wrote. Raises ValueError for another text.

    >>> read_calendar("day UTC")
    Calendar(renews=<Renewal.DAY: 'day'>, zone='UTC')
    """
    renews, _, zone = text.partition(" ")
    return Calendar(Renewal(renews), zone)


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name in the tz database. Raises `LedgerError` for an unknown
    one.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - most policies never renew

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise LedgerError(
            f"This machine does not know the time zone {name}, by which a budget renews. Install "
            "its time zones (the package tzdata), or correct the name in the policy."
        ) from None
