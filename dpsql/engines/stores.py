"""Writers of prepared stores, for any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from dpsql.model.dataclass import dataclass
from dpsql.model.prepared_store import PreparedStore


@dataclass(frozen=True, slots=True)
class Grown:
    """A table that at most gained rows since a store was made of it.

    `since` is an item of FROM that reads them. `new` is true if there are any, `complete` if the
    store has all earlier rows.
    """

    since: str
    new: bool
    complete: bool


class StoreWriter(Protocol):
    """Writer of one store, first next to its place, then moved there; a context manager.

    Private values are only in its folder, which no other user may read. An unfinished store is
    continued: each table is there whole, or not at all. Raises `errors.Unreachable` if data or disk
    cannot be used, and KeyboardInterrupt if a statement is cancelled.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    @property
    def identity(self) -> str:
        """Identity of the data, as `OwnersDatabase.schema` returns it."""
        ...

    @property
    def room(self) -> int:
        """Free bytes on the store's disk."""
        ...

    def grown(self, store: PreparedStore) -> Mapping[str, Grown] | None:
        """Return the tables that only gained rows since the store in this place was made.

        None if there is no store, or one of another description. The earlier store is attached as
        `BEFORE`.
        """
        ...

    def begin(self, store: PreparedStore) -> frozenset[str]:
        """Return the tables that exist already in an unfinished store of the same description."""
        ...

    def make(self, statement: str) -> None:
        """Run a statement that makes one table of the store."""
        ...

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over the data and the store."""
        ...

    def progress(self) -> float:
        """Return the progress of the running statement, from 0 to 1; thread-safe, like `cancel`."""
        ...

    def cancel(self) -> None:
        """Stop the running statement; finished tables are kept for the next time."""
        ...

    def finish(self) -> None:
        """Move the store into its place atomically; programs with the old one open keep it.

        Does nothing of the kind if the data has changed meanwhile.
        """
        ...
