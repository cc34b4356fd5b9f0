"""Memory accounts of sessions: prepared statements, bound values, rows of portals.

Bytes are counted per session, per analyst and for the server, each with a limit. So one client
cannot use up the memory of the others for free.

SECURITY.md S18.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from sys import getsizeof
from threading import Lock
from typing import Any, TypeVar

from dpsql.interfaces.pgwire.faults import Fault
from dpsql.model.dataclass import dataclass, field
from dpsql.model.resources import bytes_of
from dpsql.model.table import OnDemand, Table
from dpsql.policy.draft import ServerSettings as Limits

T = TypeVar("T")
FLAT = 1024
"""Fixed size of a portal or a statement, without its texts, values and rows."""
_ALL = 2
"""Divisor of the server's memory that all sessions together may keep."""


@dataclass(slots=True)
class ServerBytes:
    """Bytes of all sessions, by analyst. `shares` is the number of analysts who share them."""

    limits: Limits = field(default_factory=Limits)
    shares: int = 1
    taken: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def of(self, analyst: str) -> SessionBytes:
        """Return the account of one session of an analyst."""
        return SessionBytes(self, analyst)


@dataclass(slots=True)
class SessionBytes:
    """Bytes of one session."""

    server: ServerBytes = field(default_factory=ServerBytes)
    analyst: str = ""
    taken: int = 0
    ended: bool = False

    def end(self) -> None:
        """Release all bytes. Later changes by threads of the session no longer count."""
        with self.server.lock:
            self.server.taken[self.analyst] -= self.taken
            self.taken, self.ended = 0, True

    def change(self, size: int) -> None:
        """Add a number of bytes, maybe negative. Raises `Fault` if a limit is exceeded."""
        server, limits = self.server, self.server.limits
        most = bytes_of(limits.memory) // _ALL
        with server.lock:
            if self.ended:
                return
            if size > 0:
                own = bytes_of(limits.analyst_memory)
                analysts = min(own, most) if server.shares <= 1 else min(own, most // 2)
                _require("This session", self.taken + size, bytes_of(limits.session_memory))
                _require("Your sessions", server.taken[self.analyst] + size, analysts)
                _require("All sessions", server.taken.total() + size, most)
            self.taken += size
            server.taken[self.analyst] += size


def _require(who: str, size: int, most: int) -> None:
    if size > most:
        raise Fault(
            "53400",
            f"{who} would keep {size:,} bytes of prepared statements, bound values and fetched"
            f" rows; at most {most:,} may be kept.",
            "What was charged stays charged, and the same question is answered again for nothing.",
            "Close statements and cursors, end the transaction, or fetch all rows at once.",
        )


class KeptItems(MutableMapping[str, T]):
    """Named items of a session. Each is charged by `size` when it is stored.

    >>> account = SessionBytes()
    >>> kept = KeptItems(account, len)
    >>> kept["a"] = "text"
    >>> account.taken > 0, kept.pop("a"), account.taken
    (True, 'text', 0)
    """

    def __init__(self, account: SessionBytes, size: Callable[[T], int]) -> None:
        self.account, self._size = account, size
        self._items: dict[str, T] = {}
        self._sizes: dict[str, int] = {}

    def __getitem__(self, name: str) -> T:
        return self._items[name]

    def __setitem__(self, name: str, item: T) -> None:
        size = self._size(item) + getsizeof(name)
        self.account.change(size - self._sizes.get(name, 0))
        self._items[name], self._sizes[name] = item, size

    def __delitem__(self, name: str) -> None:
        del self._items[name]
        self.account.change(-self._sizes.pop(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def drop_unless(self, stays: Callable[[str, T], bool]) -> None:
        """Drop each item for which `stays` is False."""
        for name in [name for name, item in self._items.items() if not stays(name, item)]:
            del self[name]


def size_of_values(values: Iterable[Any]) -> int:
    """Return the approximate number of bytes of values, including those in lists."""
    return sum(
        getsizeof(value) + (size_of_values(value) if isinstance(value, list | tuple) else 0)
        for value in values
    )


def size_of_rows(rows: Sequence[Any]) -> int:
    """Return the approximate number of bytes of rows; 0 for rows in a file.

    >>> size_of_rows([(1, "a")]) > size_of_rows([]) == 0
    True
    """
    if isinstance(rows, OnDemand):
        return 0
    if isinstance(rows, Table):
        return sum(c.nbytes if hasattr(c, "nbytes") else size_of_values([c]) for c in rows.columns)
    return size_of_values(rows)
