"""Locked, verified transactions over the store of a ledger.

A writing call has two locked steps. First, in one transaction: verify new entries, check the mark,
decide, append, commit (fsync). Then, under a lock again: move the mark to that end. A crash between
the two leaves the mark behind. That is allowed, and happened before any release. If the mark were
written before the commit, it could name an entry that does not exist. If it were written without
the lock, it could move back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from dpsql.ledgers.book import Book
from dpsql.ledgers.chain import START, EntryKind, State
from dpsql.ledgers.ledger_store import LedgerSession, Store, UnknownCommit
from dpsql.ledgers.mark import Mark, mark_of
from dpsql.model.errors import LedgerError

# One call at a time in a process, and none while it forks. SQLite's locks do not survive a fork,
# but SQLite assumes that they do.
CALLS = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=CALLS.acquire,
        after_in_parent=CALLS.release,
        after_in_child=CALLS.release,
    )


def utc_now() -> datetime:
    """Return the present time: of an entry, and of the windows of budgets that renew."""
    return datetime.now(UTC)


class LedgerTransactions:
    """Transactions over the store of a ledger; safe across threads, processes and forks.

    `clock` stamps the entries where the store has no clock of its own.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now) -> None:
        self._store, self._clock = store, clock
        self._state, self._stamp = START, object()
        self._closed = False

    @classmethod
    def over(cls, store: Store, clock: Callable[[], datetime] = utc_now) -> Self:
        """Open the ledger in a store, created if there is none, and verify it.

        Raises LedgerError if it cannot be opened or trusted.
        """
        ledger = cls(store, clock)
        with store.failing_closed():
            store.create_place("")
            ledger._begin()
        return ledger

    def close(self) -> None:
        self._closed = True
        self._store.close()

    def stamp(self, seconds: float = threading.TIMEOUT_MAX) -> object:
        if not CALLS.acquire(timeout=seconds):
            return None
        try:
            with self._store.failing_closed():
                self._require_open()
                return self._store.stamp()
        finally:
            CALLS.release()

    def verify(self) -> tuple[int, str]:
        with self._reading() as book:
            book.catch_up(START)
            book.check_mark()
            for query_id in self._store.answered(book.opened):
                book.answer(query_id)
            return book.state.sequence, book.state.hash.hex()

    def ledger_id(self) -> str:
        """Return the id of the ledger, which a copy of it has too."""
        with self._reading() as book:
            return book.state.ledger

    @contextmanager
    def whole(self, close: str | None = None) -> Iterator[tuple[Store, Book]]:
        """Read the whole ledger in one transaction: its store, and its book, verified.

        With `close`, the name of another place, nothing is charged here from then on.
        """
        with self._reading() if close is None else self._writing() as book:
            book.catch_up(START)
            yield self._store, book
            if close is not None:
                self._store.retire(book.opened, book.state, close)

    def _begin(self) -> None:
        """Write the schema and the first entry into an empty store, and the first mark."""
        with CALLS, self._store.connection() as opened:
            self._store.prepare_schema(opened, lambda: self._write_first(opened))
            with self._verified(opened, write=False) as book:
                self._state = book.state
                unmarked = self._store.read_mark() is None
            if unmarked:
                self._move_mark(opened, book.state)

    def _write_first(self, opened: LedgerSession) -> None:
        """Append the first entry: the ledger's id, which is random."""
        book = self._book(opened)
        book.append(EntryKind.OPENED, detail=f"{self._store.random():032x}")
        self._store.write_head(opened, book.state)

    @contextmanager
    def _writing(self) -> Iterator[Book]:
        """Open a transaction that is durable and marked after the exit."""
        with self._store.failing_closed(), CALLS, self._store.connection() as opened:
            self._require_open()
            try:
                with self._verified(opened, write=True) as book:
                    before = book.state.sequence
                    yield book
                    self._store.write_head(opened, book.state)
            except UnknownCommit:
                if book.state.sequence == before:
                    raise  # no entry tells of it: the closing of an old place has none
                self._require_committed(opened, book.state)
            self._state = book.state
            self._move_mark(opened, book.state)

    @contextmanager
    def _reading(self) -> Iterator[Book]:
        with self._store.failing_closed(), CALLS, self._store.connection() as opened:
            self._require_open()
            with self._verified(opened, write=False) as book:
                self._state = book.state
                yield book
            if self._store.has_hosts:  # what others charged must not be missing later
                self._move_mark(opened, book.state)

    @contextmanager
    def _unchanged(self) -> Iterator[Book]:
        """Yield a book of the state that was verified last, unless the store changed since."""
        with ExitStack() as stack:
            stack.enter_context(self._store.failing_closed())
            stack.enter_context(CALLS)
            stamp = None if self._store.has_hosts else self._store.stamp()
            if stamp is None or stamp != self._stamp:
                yield stack.enter_context(self._reading())
                self._stamp = stamp
                return
            self._require_open()
            nothing: Any = None
            book = self._book(nothing)
            book.state = self._state
            yield book

    @contextmanager
    def _verified(self, opened: LedgerSession, *, write: bool) -> Iterator[Book]:
        """Open a transaction on a ledger after checking its schema, chain, end and mark."""
        with self._store.transaction(opened, write=write) as schema:
            self._store.require_schema(schema)
            book = self._book(opened)
            if self._state is START:
                book.resume()
            else:
                book.catch_up(self._state)
            self._store.check_head(opened, book.state)
            book.check_mark()
            yield book

    def _book(self, opened: LedgerSession) -> Book:
        return Book(self._store, opened, lambda: self._store.clock(opened) or self._clock())

    def _require_committed(self, opened: LedgerSession, reached: State) -> None:
        """Raise LedgerError unless a commit without a known outcome is in the ledger.

        The lock waits until that transaction ended. The hash of its last entry identifies it.
        """
        try:
            with self._store.failing_closed(), self._verified(opened, write=True) as book:
                recorded = self._store.hash_at(opened, reached.sequence) == reached.hash
                self._store.write_head(opened, book.state)  # a standby has what is before it, too
        except LedgerError:
            raise UnknownCommit(self._store.name) from None
        if not recorded:
            raise LedgerError(
                f"The ledger {self._store.name} lost the connection, and nothing was recorded. "
                "Ask again."
            )

    def _move_mark(self, opened: LedgerSession, reached: State) -> None:
        """Move the mark to this end, unless another process moved it far enough."""
        if not _is_behind(self._store.known_mark(opened), reached):
            return
        with self._store.marking(opened):
            if _is_behind(self._store.read_mark(), reached):
                self._store.write_mark(mark_of(reached, self._store.identity(opened)))

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerError(f"The ledger {self._store.name} is closed.")


def _is_behind(mark: Mark | None, reached: State) -> bool:
    return mark is None or mark.sequence < reached.sequence
