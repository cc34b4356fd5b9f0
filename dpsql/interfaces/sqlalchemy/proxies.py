"""One proxy for all connections of an engine: opened for the first, closed with the last."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from threading import Lock

from dpsql.interfaces.dbapi import Connection, connection_to, open_proxy
from dpsql.proxy import Proxy


@dataclass(slots=True)
class _Shared:
    proxy: Proxy
    users: int = 0


class SharedProxies:
    """The open proxies of an engine by policy; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, _Shared] = {}

    def connect(
        self,
        policy: str,
        analyst: str | None = None,
        epsilon: Decimal | str | None = None,
        *,
        confirm: bool = False,
    ) -> Connection:
        """A connection in Postgres' spelling; raises as `dpsql.connect` does."""
        with self._lock:
            shared = self._open.get(policy) or _Shared(open_proxy(policy))
            self._open[policy] = shared
            shared.users += 1
        release = partial(self._left, policy)
        asked = shared.proxy, analyst, "postgres", epsilon, release
        return connection_to(*asked, confirm=confirm)

    def _left(self, policy: str) -> None:
        """A connection has ended; with the last one goes the proxy."""
        with self._lock:
            shared = self._open[policy]
            shared.users -= 1
            if not shared.users:
                del self._open[policy]
                shared.proxy.close()
