"""Admission to the server, so that no client can shut out the others.

Before the login, only the address of a client is known. If there are too many such clients, the
oldest one of the most frequent address has to leave. Repeated failed logins have to wait. After the
login, each analyst has a share of the connections.

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
"""Maximum number of failed logins of a user from one address within `FAILURE_SECONDS`."""
FAILURES_OF_ADDRESS = 100
"""Maximum number of failed logins from one address."""
_MOST_REMEMBERED = 10_000
_SHARES = 4
"""Divisor of the least share: an analyst may use at least a quarter of all connections."""


def share(limits: Limits, analysts: int) -> int:
    """Return the maximum number of connections of one of `analysts` analysts."""
    fair = ceil(limits.max_connections / max(1, min(analysts, _SHARES)))
    return limits.max_connections_per_analyst or fair


@dataclass(slots=True)
class Strangers:
    """Connections before their login: at most `most`."""

    most: int
    _waiting: dict[Task, str] = field(default_factory=dict)

    def came(self, task: Task, address: str) -> Task | None:
        """Add a connection. Returns the connection that has to leave for it, or None."""
        self._waiting[task] = place_of(address)
        if len(self._waiting) <= self.most:
            return None
        places = list(self._waiting.values())
        crowded = max(places, key=places.count)
        return next(other for other, place in self._waiting.items() if place == crowded)

    def gone(self, task: Task) -> None:
        """Remove a connection that has logged in or left."""
        self._waiting.pop(task, None)


@dataclass(slots=True)
class Failures:
    """Recent failed logins. `clock` returns seconds."""

    clock: Callable[[], float]
    _times: dict[tuple[str, ...], deque[float]] = field(default_factory=dict)

    def may_try(self, address: str, user: str) -> bool:
        """Test whether another login may be tried. Unknown users are treated the same."""
        place = place_of(address)
        return self._count((place, user)) < FAILURES and self._count((place,)) < FAILURES_OF_ADDRESS

    def failed(self, address: str, user: str) -> None:
        """Count a failed login."""
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
