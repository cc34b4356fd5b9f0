"""Waiting without a thread: a query that has to wait is left, and restarted from the beginning.

A call that would wait raises `Parked` if its query has a `Parking`. The driver of the query
releases its thread, waits until the parking rings, and makes the same call again. That is sound as
long as nothing was charged: earlier work is free, and is remembered or repeated. From its first
charge on (`settle`) a query waits in its thread, and goes before all others.

SECURITY.md S20.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import NoReturn, Protocol

from dpsql.model.dataclass import dataclass, field


class Parked(BaseException):
    """The call would wait; nothing was charged, and it can be repeated.

    It is not an error: only the driver of the query handles it.
    """


class Place(Protocol):
    """A place at which a query waits without a thread."""

    def leave(self) -> None:
        """Stop waiting here, and return a reserved worker or turn."""


@dataclass(slots=True, eq=False)
class Parking:
    """State of one query's wait without a thread.

    Any thread calls `ring` when the query may continue. If `seconds` is set, the query continues
    after that time without a ring. `deadlines` hold the ends of waits that are repeated.
    """

    ring: Callable[[], None]
    is_settled: bool = False
    place: Place | None = None
    seconds: float | None = None
    deadlines: dict[Hashable, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin another step: nothing was charged for it yet."""
        self.leave()
        self.is_settled = False
        self.deadlines.clear()

    def stand(self, place: Place) -> None:
        """Wait at this place, and leave any other."""
        if place is not self.place:
            self.leave()
            self.place = place

    def park(self, place: Place | None, seconds: float | None = None) -> NoReturn:
        """Wait at a place, or for `seconds`. Raises `Parked`."""
        if place is None:
            self.leave()
        else:
            self.stand(place)
        self.seconds = seconds
        raise Parked

    def leave(self) -> None:
        """Leave the present place, if any."""
        place, self.place = self.place, None
        if place is not None:
            place.leave()


class Line:
    """Queries that wait without a thread for one resource, first come first served; thread-safe.

    `count` is called with 1 when a query joins and with -1 when it leaves, while no lock is
    held.
    """

    def __init__(self, count: Callable[[int], object] = lambda _: None) -> None:
        self._count, self._lock = count, Lock()
        self._standing: list[_Standing] = []

    def join(self, parking: Parking) -> None:
        """Join the line; the holder of the resource rings when it is free.

        The caller tests once more whether it is free, because it may have become free before.
        """
        place = parking.place
        if not isinstance(place, _Standing) or place.line is not self:
            place = _Standing(self, parking.ring)
            self._count(1)
            parking.stand(place)
        with self._lock:
            if place not in self._standing:
                # A query that was called but came too late is the next again.
                self._standing.insert(0 if place.called else len(self._standing), place)
            place.called = False

    def enter(self, parking: Parking) -> None:
        """Leave the line with the resource."""
        place = parking.place
        if isinstance(place, _Standing) and place.line is self:
            place.called = False
            parking.leave()

    def call_next(self) -> None:
        """Let the first of the line go on."""
        with self._lock:
            place = self._standing.pop(0) if self._standing else None
            if place is not None:
                place.called = True
        if place is not None:
            place.ring()

    def drop(self, place: _Standing) -> None:
        """Remove a place; if it was called and does not come, call the next one."""
        with self._lock:
            if place in self._standing:
                self._standing.remove(place)
        self._count(-1)
        if place.called:
            self.call_next()


@dataclass(slots=True, eq=False)
class _Standing:
    """A place in a line; `called` means that the resource was free for it."""

    line: Line
    ring: Callable[[], None]
    called: bool = False

    def leave(self) -> None:
        self.line.drop(self)
