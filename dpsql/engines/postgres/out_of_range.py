"""Dates and times that Python cannot hold: infinite ones, and those outside of years 1 to 9999."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from psycopg import DataError
from psycopg.types.datetime import DateLoader, TimeLoader, TimestampLoader, TimestamptzLoader


class Beyond:
    """A marker for such a value, with the nearest value that Python can hold."""

    __slots__ = ("nearest",)

    def __init__(self, nearest: date | time) -> None:
        self.nearest = nearest


def nearest(value: Any) -> Any:
    """Return a value that Python can hold, the nearest if needed; timestamps are in UTC.

    >>> nearest(Beyond(date.max)), nearest(1)
    (datetime.date(9999, 12, 31), 1)
    """
    value = value.nearest if isinstance(value, Beyond) else value
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(UTC) if zoned and value.tzinfo is not UTC else value


def _is_early(data: Any) -> bool:
    text = bytes(data)
    return text.startswith(b"-") or text.endswith(b"BC")


class _Day(DateLoader):
    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except DataError:
            return Beyond(date.min if _is_early(data) else date.max)


class _Timestamp(TimestampLoader):
    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except DataError:
            return Beyond(datetime.min if _is_early(data) else datetime.max)  # noqa: DTZ901


class _Moment(TimestamptzLoader):
    def load(self, data: Any) -> Any:
        try:
            return super().load(data).astimezone(UTC)
        except (DataError, OverflowError):
            end = datetime.min if _is_early(data) else datetime.max  # noqa: DTZ901
            return Beyond(end.replace(tzinfo=UTC))


class _Time(TimeLoader):
    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except DataError:
            return Beyond(time.max)


def register(connection: Any) -> None:
    """Make a connection return `Beyond` for such dates and times."""
    loaders = {"date": _Day, "timestamp": _Timestamp, "timestamptz": _Moment, "time": _Time}
    for name, loader in loaders.items():
        connection.adapters.register_loader(name, loader)
