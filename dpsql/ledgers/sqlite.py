"""The ledger over a store, and the embedded one: an SQLite file shared by processes and threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Self

from dpsql.ledgers import (
    Ceiling,
    Charge,
    CurrentWindow,
    Spent,
    Stopped,
    debits,
)
from dpsql.ledgers.book import Book
from dpsql.ledgers.chain import START, EntryKind
from dpsql.ledgers.codec import (
    canonical,
    encode_answer,
    encode_facts,
    encode_versions,
)
from dpsql.ledgers.debits import append_limit
from dpsql.ledgers.ledger_store import Store
from dpsql.ledgers.ledger_transactions import CALLS, utc_now
from dpsql.ledgers.mark import mark_of
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.ledgers.stored_records import StoredRecords, current_window
from dpsql.model.delegation import Delegation
from dpsql.model.errors import LedgerError
from dpsql.model.vocabulary import Fact, Loss, Noisy


class StoredLedger(StoredRecords):
    """A `Ledger` over a store."""

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        with self._writing() as book:
            before = book.state.spent(charge.budget)
            for each in (charge, *more):
                if each.calendars:
                    debits.open_windows(book, each)
                spent = debits.spent_after(book, each)
                debits.append_charge(book, each)
        return replace(spent, before=before)

    def share(self, queries: Sequence[str], charge: Charge) -> Loss:
        with self._writing() as book:
            return debits.append_shares(book, queries, charge)

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        with ExitStack() as stack:
            with self._store.failing_closed():
                own = stack.enter_context(self._store.claimed(text))
            yield own

    @contextmanager
    def running(self, analyst: str, most: int) -> Iterator[bool]:
        with ExitStack() as stack:
            person = self.person_of(analyst)
            with self._store.failing_closed():
                number = stack.enter_context(self._store.running(person))
            # Late answers are recorded before their query ends: read now, none is left out.
            yield self.late(person) + number <= most

    def remember(
        self, query_id: str, answer: tuple[Noisy, ...], *more: tuple[str, tuple[Noisy, ...]]
    ) -> None:
        payloads = [(name, encode_answer(each)) for name, each in ((query_id, answer), *more)]
        with self._writing() as book:
            for name, payload in payloads:
                if not book.find(EntryKind.CHARGE, "query_id = ?", name):
                    raise LedgerError(f"Query {name} was never charged; its answer is not kept.")
                digest = sha256(payload).hexdigest()
                book.append(EntryKind.ANSWER, query_id=name, detail=digest)
                self._store.insert_answer(book.opened, name, payload)

    def refresh(self) -> int:
        with self._writing() as book:
            book.append(EntryKind.REFRESH)
            return book.state.data_version

    def refresh_periods(self, rule: str, periods: Sequence[str]) -> None:
        with self._writing() as book:
            before = book.state.refreshed.get(rule, {})
            versions = {name: before.get(name, 1) + 1 for name in periods}
            book.append(EntryKind.REFRESH, detail=encode_versions(rule, versions))

    def record_facts(self, facts: frozenset[Fact], identity: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.FACTS, detail=encode_facts(facts, identity))

    def record_roles(self, roles: str) -> None:
        with self._reading() as book:
            before = book.state.roles
        if before != roles:
            with self._writing() as book:
                if book.state.roles != roles:
                    book.append(EntryKind.ACCEPTED, event=roles)

    def record_login(self, name: str, act: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.ACCEPTED, analyst=name, detail=act)

    def record_guarantee(self, said: Mapping[str, str], reason: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.ACCEPTED, question=canonical(said), detail=reason)

    def record_late(self, analyst: str, query_id: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.LATE, analyst=self.person_of(analyst), detail=query_id)

    def confirm(self, ceiling: Ceiling, reason: str) -> None:
        with self._writing() as book:
            append_limit(book, ceiling, reason)

    def lift(self, title: str, reason: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.LIMIT, budget=title, detail=reason)

    def delegate(self, new: Delegation, most: Loss, reason: str, periods: str = "") -> None:
        with self._writing() as book:
            debits.append_delegation(book, new, most, reason, periods)

    def revoke(self, agent: str, reason: str) -> None:
        with self._writing() as book:
            own = book.state.delegations[agent]
            book.append(EntryKind.LIMIT, analyst=agent, budget=own.title, detail=reason)

    def confirm_clock(self, reason: str) -> tuple[CurrentWindow, ...]:
        with self._writing() as book:
            return tuple(
                current_window(book, calendar) for calendar in debits.confirm_windows(book, reason)
            )

    def stop(self, whom: Stopped, reason: str) -> None:
        with self._writing() as book:
            book.append(EntryKind.STOPPED, budget=whom.budget, analyst=whom.analyst, detail=reason)

    def resume(self, whom: Stopped, reason: str = "") -> None:
        with self._writing() as book:
            book.append(EntryKind.RESUMED, budget=whom.budget, analyst=whom.analyst, detail=reason)


class SqliteLedger(StoredLedger):
    """A `Ledger` in one SQLite file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = SqliteLedger.open(f"{folder}/dpsql.ledger")
    ...     ledger.spent("default"), ledger.data_version()
    (Loss(amount=0, delta=0), 1)
    """

    @classmethod
    def open(
        cls,
        path: str,
        *,
        clock: Callable[[], datetime] = utc_now,
        patience: Patience | None = None,
    ) -> Self:
        """Open the ledger at `path`; see `StoredLedger.over`."""
        return cls.over(SqliteStore(os.path.realpath(path), patience or Patience()), clock)


def accept(path: str) -> None:
    """Record that the owner trusts the ledger at `path`; see `accept_store`."""
    accept_store(SqliteStore(os.path.realpath(path), Patience()))


def accept_store(store: Store, clock: Callable[[], datetime] = utc_now) -> None:
    """Record that the owner trusts the ledger in a store as it is now.

    For a ledger that was moved, restored or rolled back. Its chain must hold from the first entry
    to the last; then the mark is set to it. The acceptance itself is recorded. An earlier schema is
    upgraded first. Raises LedgerError if the chain is broken: an edited ledger cannot be accepted.
    """
    with store.failing_closed(), CALLS, store.connection() as opened:
        store.prepare_schema(opened, lambda: store.require_schema(()))  # an empty place is none
        with store.transaction(opened, write=True) as schema:
            store.require_schema(schema)
            book = Book(store, opened, lambda: store.clock(opened) or clock())
            book.catch_up(START)
            book.append(EntryKind.ACCEPTED, detail=store.identity(opened))
            store.reopen(opened)
            store.write_head(opened, book.state)
        with store.marking(opened):
            store.write_mark(mark_of(book.state, store.identity(opened)))
