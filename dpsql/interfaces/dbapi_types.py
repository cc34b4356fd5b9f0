"""Type objects and constructors of PEP 249."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time

from dpsql.model.tree import Kind

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802
    """The local date of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks).date()  # noqa: DTZ006


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The local time of day of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks).time()  # noqa: DTZ006


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The local timestamp of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks)  # noqa: DTZ006


@dataclass(frozen=True, slots=True, eq=False)
class TypeObject:
    """Equal to the type code of every kind it covers.

    >>> NUMBER == "DECIMAL", STRING == "DECIMAL"
    (True, False)
    """

    kinds: frozenset[str]

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other in self.kinds)

    def __hash__(self) -> int:
        return hash(self.kinds)


def _covering(*kinds: Kind) -> TypeObject:
    return TypeObject(frozenset(kind.value for kind in kinds))


STRING = _covering(Kind.VARCHAR)
BINARY = _covering()
NUMBER = _covering(Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
DATETIME = _covering(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
ROWID = TypeObject(frozenset({"ROWID"}))
BOOLEAN = _covering(Kind.BOOLEAN)
