"""What makes a store of the owner's data, whichever engine it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from dpsql.model.dataclass import dataclass
from dpsql.model.prepared_store import PreparedStore


@dataclass(frozen=True, slots=True)
class Grown:
    """A table to which rows may have been added, and nothing else, since a store was made of it.

    `since` is what reads them, an item of FROM; `new` whether there are any, `complete` whether
    that store has all rows that there were.
    """

    since: str
    new: bool
    complete: bool


class StoreWriter(Protocol):
    """Writes one store, beside its place, and then puts it there; a context manager.

    Private values are in its folder alone, which nobody else may read. What is not finished is
    taken up again: each table is there whole, or not at all. Raises `errors.Unreachable` where data
    or disk cannot be used, and KeyboardInterrupt where a statement is cancelled.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    @property
    def identity(self) -> str:
        """That of the data, as `OwnersDatabase.schema` tells it."""
        ...

    @property
    def room(self) -> int:
        """Bytes that are free where the store will be."""
        ...

    def grown(self, store: PreparedStore) -> Mapping[str, Grown] | None:
        """The tables that have only grown since the store was made that is in the place of this.

        None where there is none, or one that was to be another; it is called `BEFORE` then.
        """
        ...

    def begin(self, store: PreparedStore) -> frozenset[str]:
        """The tables that are there already, of a store that was to be as this one."""
        ...

    def make(self, statement: str) -> None:
        """Run a statement that makes one table of the store."""
        ...

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over the data and the store."""
        ...

    def progress(self) -> float:
        """How far the running statement is, from 0 to 1; safe in other threads, as `cancel` is."""
        ...

    def cancel(self) -> None:
        """Stop the running statement; what is made stays for the next time."""
        ...

    def finish(self) -> None:
        """Put the store into its place at once: whoever has the old one open keeps that.

        Not where the data has changed meanwhile.
        """
        ...
