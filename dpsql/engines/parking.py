"""Waiting without a thread: a question that has to wait is left, and asked again from the start.

A call that would wait for others raises `Parked` where its question has a `Parking`. Whoever drives
the question lets its thread go, waits until the parking rings, and makes the same call again. That
is sound as long as nothing was charged: what ran before is free, and is remembered or done again.
From its first charge on (`settle`) a question waits in its thread, and goes before all others.

SECURITY.md S20.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import NoReturn, Protocol

from dpsql.model.dataclass import dataclass, field


class Parked(BaseException):
    """The call would wait for others; nothing was charged, and it can be made again.

    It is no error: only whoever drives the question handles it.
    """


class Place(Protocol):
    """Where a question waits without a thread."""

    def leave(self) -> None:
        """Wait here no longer, and give back what was handed out meanwhile."""


@dataclass(slots=True, eq=False)
class Parking:
    """How one question waits without a thread.

    `ring` is called by any thread when the question may go on. Where `seconds` are given nobody
    may ring: then it goes on after so long. `deadlines` say when a wait ends that is begun again.
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
        """Wait at this place, and at no other any more."""
        if place is not self.place:
            self.leave()
            self.place = place

    def park(self, place: Place | None, seconds: float | None = None) -> NoReturn:
        """Wait at a place, or for so many seconds. Raises `Parked`."""
        if place is None:
            self.leave()
        else:
            self.stand(place)
        self.seconds = seconds
        raise Parked

    def leave(self) -> None:
        """Wait nowhere any more."""
        place, self.place = self.place, None
        if place is not None:
            place.leave()


class Line:
    """Questions that wait without a thread for one thing, first come first: thread-safe.

    `count` is told of each that comes (1) and leaves (-1), while no lock is held.
    """

    def __init__(self, count: Callable[[int], object] = lambda _: None) -> None:
        self._count, self._lock = count, Lock()
        self._standing: list[_Standing] = []

    def join(self, parking: Parking) -> None:
        """Stand in the line: whoever has the thing calls when it is free.

        The caller looks once more whether it is free, which may have been before this.
        """
        place = parking.place
        if not isinstance(place, _Standing) or place.line is not self:
            place = _Standing(self, parking.ring)
            self._count(1)
            parking.stand(place)
        with self._lock:
            if place not in self._standing:
                # Who was called, and came too late, is the next again.
                self._standing.insert(0 if place.called else len(self._standing), place)
            place.called = False

    def enter(self, parking: Parking) -> None:
        """Leave the line with what was waited for."""
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
        """Forget a place; who was called and does not come lets the next one go on."""
        with self._lock:
            if place in self._standing:
                self._standing.remove(place)
        self._count(-1)
        if place.called:
            self.call_next()


@dataclass(slots=True, eq=False)
class _Standing:
    """A place in a line; `called` says that the thing was free for it."""

    line: Line
    ring: Callable[[], None]
    called: bool = False

    def leave(self) -> None:
        self.line.drop(self)
