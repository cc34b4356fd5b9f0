"""Bytes that sessions keep between messages: prepared statements, bound values, rows of portals.

They are counted for each session, for each analyst and for the server, and each has a limit: one
client cannot take the memory of the others, for free.

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
"""Bytes of a portal or a statement beside its texts, values and rows."""
_ALL = 2
"""All sessions keep at most this part of what the server may hold."""


@dataclass(slots=True)
class ServerBytes:
    """What all sessions keep, by analyst; `shares` is how many analysts have to share it."""

    limits: Limits = field(default_factory=Limits)
    shares: int = 1
    taken: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def of(self, analyst: str) -> SessionBytes:
        """Return the account of one session of an analyst."""
        return SessionBytes(self, analyst)


@dataclass(slots=True)
class SessionBytes:
    """What one session keeps."""

    server: ServerBytes = field(default_factory=ServerBytes)
    analyst: str = ""
    taken: int = 0
    ended: bool = False

    def end(self) -> None:
        """Give all of it back; what a thread of the session still keeps counts no more."""
        with self.server.lock:
            self.server.taken[self.analyst] -= self.taken
            self.taken, self.ended = 0, True

    def change(self, size: int) -> None:
        """Count so many bytes more, or less. Raises `Fault` where a limit is exceeded."""
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
    """Items of a session by name, of which each counts as `size` says when it is put here.

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
        """Drop every item that does not stay."""
        for name in [name for name, item in self._items.items() if not stays(name, item)]:
            del self[name]


def size_of_values(values: Iterable[Any]) -> int:
    """Return about how many bytes values take, those within lists too."""
    return sum(
        getsizeof(value) + (size_of_values(value) if isinstance(value, list | tuple) else 0)
        for value in values
    )


def size_of_rows(rows: Sequence[Any]) -> int:
    """Return about how many bytes rows take; those that are in a file take none.

    >>> size_of_rows([(1, "a")]) > size_of_rows([]) == 0
    True
    """
    if isinstance(rows, OnDemand):
        return 0
    if isinstance(rows, Table):
        return sum(c.nbytes if hasattr(c, "nbytes") else size_of_values([c]) for c in rows.columns)
    return size_of_values(rows)
