"""Whom the server lets in, so that nobody can shut out the others.

Before the login an address is all that is known of somebody. Whoever is silent there makes room,
the longest first, of the address with the most. Logins that fail again and again have to wait.
After the login each analyst has a share of the connections.

SECURITY.md S18.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import ceil
from typing import TypeAlias

from dpsql.interfaces.hosts import place_of
from dpsql.model.dataclass import dataclass, field
from dpsql.policy.draft import ServerSettings as Limits

Task: TypeAlias = "asyncio.Task[None]"
FAILURE_SECONDS = 60.0
FAILURES = 10
"""How often a user's login may fail from one address within `FAILURE_SECONDS`."""
FAILURES_OF_ADDRESS = 100
"""How often any login may, from one address."""
_MOST_REMEMBERED = 10_000
_SHARES = 4
"""An analyst has a quarter of the connections at least, all where there is no other analyst."""


def share(limits: Limits, analysts: int) -> int:
    """The most connections of one of so many analysts."""
    fair = ceil(limits.max_connections / max(1, min(analysts, _SHARES)))
    return limits.max_connections_per_analyst or fair


@dataclass(slots=True)
class Strangers:
    """Connections before their login: at most `most`."""

    most: int
    _waiting: dict[Task, str] = field(default_factory=dict)

    def came(self, task: Task, address: str) -> Task | None:
        """Take somebody in; who has to leave for that, if there are too many now."""
        self._waiting[task] = place_of(address)
        if len(self._waiting) <= self.most:
            return None
        places = list(self._waiting.values())
        crowded = max(places, key=places.count)
        return next(other for other, place in self._waiting.items() if place == crowded)

    def gone(self, task: Task) -> None:
        """Somebody has logged in, or left."""
        self._waiting.pop(task, None)


@dataclass(slots=True)
class Failures:
    """Logins that failed of late; `clock` tells seconds."""

    clock: Callable[[], float]
    _times: dict[tuple[str, ...], deque[float]] = field(default_factory=dict)

    def may_try(self, address: str, user: str) -> bool:
        """Whether one more login may be tried. It does not matter whether the user exists."""
        place = place_of(address)
        return self._count((place, user)) < FAILURES and self._count((place,)) < FAILURES_OF_ADDRESS

    def failed(self, address: str, user: str) -> None:
        """A login has failed."""
        place = place_of(address)
        for key in ((place, user), (place,)):
            times = self._times.pop(key, deque())
            times.append(self.clock())
            self._times[key] = times  # the latest is the last
        while len(self._times) > _MOST_REMEMBERED:
            del self._times[next(iter(self._times))]

    def _count(self, key: tuple[str, ...]) -> int:
        times = self._times.get(key, deque())
        while times and times[0] <= self.clock() - FAILURE_SECONDS:
            times.popleft()
        if not times:
            self._times.pop(key, None)
        return len(times)
