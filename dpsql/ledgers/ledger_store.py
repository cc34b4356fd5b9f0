"""The place of a ledger: everything that depends on whether a file or a server keeps it.

A store has connections, transactions, rows and the mark of this host. It decides nothing: chain,
limits and refusals are the same over every store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from dpsql.ledgers.chain import EntryRow, State
from dpsql.ledgers.mark import Mark
from dpsql.model.errors import LedgerError


class UnknownCommit(LedgerError):
    """A transaction's commit has no known outcome: the connection ended before the reply."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The ledger {name} lost the connection while it recorded something. Whether it did is "
            "not known; if it did, that counts. Ask again."
        )


class LedgerSession(Protocol):
    """A connection to a store, for one call."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """Run one statement with `?` for each value; return its rows as a cursor."""


class Store(Protocol):
    """A file or a server that keeps one ledger. `name` is its name in messages.

    Where several hosts charge it, `has_hosts`, a host also marks the entries that it only read.
    """

    name: str
    has_hosts: bool

    def failing_closed(self) -> AbstractContextManager[None]:
        """Turn errors of the store and the system into a LedgerError with a fix."""

    def connection(self) -> AbstractContextManager[LedgerSession]:
        """Open a connection for one call."""

    def transaction(
        self, opened: LedgerSession, *, write: bool
    ) -> AbstractContextManager[Sequence[str]]:
        """Run one transaction, which yields the schema; commit if `write`, else roll back.

        Only one transaction that writes runs at a time. What it reads is the latest state.
        Raises `UnknownCommit` if the outcome of its commit is not known.
        """

    def create_place(self, ledger_id: str) -> None:
        """Make an empty place, unless there is one.

        Raises LedgerError if this host has a mark of a ledger with another id.
        """

    def prepare_schema(
        self, opened: LedgerSession, create: Callable[[], None], *, ledger_id: str = ""
    ) -> None:
        """Write the schema into an empty place, then call `create`; upgrade an earlier schema.

        Raises LedgerError as `create_place` does.
        """

    def require_schema(self, schema: Sequence[str]) -> None:
        """Raise LedgerError unless the schema is the one that this version writes."""

    # --- rows ---

    def insert_row(self, opened: LedgerSession, row: EntryRow, recorded: bytes) -> None:
        """Append one entry with its hash."""

    def insert_answer(self, opened: LedgerSession, query_id: str, payload: bytes) -> None:
        """Store the answer of one query."""

    def rows(self, opened: LedgerSession, first: int) -> Iterator[tuple[EntryRow, bytes]]:
        """Return the entries from `first` on, in order, each with its recorded hash."""

    def rows_where(
        self, opened: LedgerSession, condition: str, values: tuple[object, ...], limit: int
    ) -> list[EntryRow]:
        """Return the newest entries that meet an SQL condition, newest first."""

    def last_checkpoint(self, opened: LedgerSession) -> tuple[EntryRow, bytes] | None:
        """Return the newest checkpoint with its recorded hash; None if there is none."""

    def hash_at(self, opened: LedgerSession, sequence: int) -> bytes | None:
        """Return the recorded hash of one entry; None if there is no such entry."""

    def payload_of(self, opened: LedgerSession, query_id: str) -> bytes | None:
        """Return the stored answer of one query; None if there is none."""

    def answered(self, opened: LedgerSession) -> list[str]:
        """Return all queries with a stored or recorded answer."""

    # --- the end of the chain ---

    def check_head(self, opened: LedgerSession, state: State) -> None:
        """Raise LedgerError unless the store's own record of its end is this state."""

    def write_head(self, opened: LedgerSession, state: State) -> None:
        """Record this state as the end, in the transaction that appended to it."""

    def random(self) -> int:
        """Return a random number of 128 bits, for the ledger's id."""

    def clock(self, opened: LedgerSession) -> datetime | None:
        """Return the time of the store in this transaction; None if it has no clock."""

    def retire(self, opened: LedgerSession, state: State, why: str) -> None:
        """Record in a transaction that nothing is charged here until the owner accepts it.

        `state` is that of the last entry.
        """

    def reopen(self, opened: LedgerSession) -> None:
        """Record that the owner accepts the ledger here."""

    # --- the mark of this host ---

    def identity(self, opened: LedgerSession) -> str:
        """Return a text that differs for a copy of this ledger."""

    def read_mark(self) -> Mark | None:
        """Return this host's mark; None if there is none."""

    def known_mark(self, opened: LedgerSession) -> Mark | None:
        """Return this host's mark; in a transaction, one no later than what that reads."""

    def marking(self, opened: LedgerSession) -> AbstractContextManager[object]:
        """Keep other processes of this host from moving the mark."""

    def write_mark(self, mark: Mark) -> None:
        """Replace this host's mark atomically and durably; only inside `marking`."""

    # --- other processes ---

    def claimed(self, text: str) -> AbstractContextManager[bool]:
        """Claim a text until the exit; yield False if another process has it."""

    def running(self, analyst: str) -> AbstractContextManager[int]:
        """Count a running query until the exit; yield the number on all hosts, or 0 if the store
        counts none.
        """

    def stamp(self) -> object:
        """Return a value that changes with any write; nothing is verified."""

    def close(self) -> None:
        """Release all claims and connections."""
