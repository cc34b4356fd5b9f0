"""The ledger inside one transaction: its verified state, and how it grows.

LossSums are exact, and are charged in the transaction that read them: SECURITY.md S12.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from dpsql.ledgers import chain
from dpsql.ledgers.chain import link
from dpsql.ledgers.delegates import names_below
from dpsql.ledgers.ledger_store import LedgerSession, Store
from dpsql.ledgers.mark import check_mark
from dpsql.ledgers.store import RESTORE
from dpsql.ledgers.windows import OpenWindow, window_now
from dpsql.model.calendars import Calendar
from dpsql.model.errors import LedgerError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST = 2**63 - 1
"""SQLite's largest integer."""

CHECKPOINT_EVERY = 10_000
"""Number of entries between checkpoints, which state the sums; opening a ledger reads no more."""


class Book:
    """The ledger in one open transaction: verified up to `state`, appended to by `append`.

    Every method may raise an error of the store.
    """

    def __init__(self, store: Store, opened: LedgerSession, clock: Callable[[], datetime]) -> None:
        self._store, self.opened, self._clock = store, opened, clock
        self.state = chain.START

    def catch_up(self, state: chain.State) -> None:
        """Verify all entries after `state`; raises LedgerError if the chain is broken."""
        if state.sequence >= 0 and self._store.hash_at(self.opened, state.sequence) != state.hash:
            raise self.edited(state.sequence)
        try:
            self.state = chain.extend(state, self._store.rows(self.opened, state.sequence + 1))
        except chain.BrokenChain as broken:
            raise self.edited(broken.sequence) from None

    def resume(self) -> None:
        """Verify all entries after the last checkpoint, or all if there is none.

        `SqliteLedger.verify` checks the entries before it and its sums.
        """
        last = self._store.last_checkpoint(self.opened)
        if last is None:
            self.catch_up(chain.START)
            return
        row, recorded = last
        self.confirm(row)
        try:
            state = chain.checkpointed(row, recorded)
        except chain.BrokenChain as broken:
            raise self.edited(broken.sequence) from None
        self.catch_up(state)

    def check_mark(self) -> None:
        """Raise LedgerError unless this ledger is the marked one, possibly with more entries."""
        mark = self._store.known_mark(self.opened)
        digest = None if mark is None else self._store.hash_at(self.opened, mark.sequence)
        marked = None if digest is None else digest.hex()
        identity = self._store.identity(self.opened)
        check_mark(mark, self.state, marked, self._store.name, identity)

    def moment(self) -> datetime:
        """Return the present moment."""
        return self._clock()

    def ledger_time(self) -> int:
        """Return the present moment in microseconds since 1970; with delegations never an earlier
        one than that of an entry.
        """
        return max(self.state.time, (self._clock() - EPOCH) // timedelta(microseconds=1))

    def current_window(self, calendar: Calendar) -> OpenWindow:
        """Return the window to which a charge at this moment counts."""
        state = self.state
        return window_now(state.windows.get(calendar.text), calendar, self._clock(), state.sums)

    def latest(
        self, kind: chain.EntryKind, limit: int, analyst: str | None, of: tuple[object, ...]
    ) -> list[chain.EntryRow]:
        """Return the newest entries of a kind, of an analyst with all agents and of a budget, if
        any, in a period.
        """
        names = [] if analyst is None else sorted(names_below(self.state.delegations, (analyst,)))
        whom = f"analyst IN ({', '.join('?' * len(names))}) AND " if names else ""
        condition = f"{whom}budget = coalesce(?, budget) AND time >= ? AND time < ?"
        rows = self.find(kind, condition, *names, *of, limit=limit)
        for row in rows:
            self.confirm(row)
        return rows

    def append(self, kind: chain.EntryKind, **columns: Any) -> None:
        """Append one entry, and a checkpoint if one is due."""
        self._append(kind, columns)
        if self.state.sequence - max(self.state.checkpoint, 0) >= CHECKPOINT_EVERY:
            self._append(chain.EntryKind.CHECKPOINT, {"detail": self.state.text()})

    def _append(self, kind: chain.EntryKind, columns: dict[str, Any]) -> None:
        whole = kind is chain.EntryKind.REFRESH and "detail" not in columns
        version = self.state.data_version + whole
        moment = (self._clock() - EPOCH) // timedelta(microseconds=1)
        row = chain.EntryRow(self.state.sequence + 1, kind.value, moment, version, **columns)
        recorded = link(self.state.hash, row)
        self._store.insert_row(self.opened, row, recorded)
        self.state = chain.extend(self.state, [(row, recorded)])

    def find(
        self, kind: chain.EntryKind, condition: str, *values: object, limit: int = LARGEST
    ) -> list[chain.EntryRow]:
        """Return entries of a kind, newest first."""
        where = f"kind = '{kind.value}' AND {condition}"
        return self._store.rows_where(self.opened, where, values, limit)

    def answer(self, query_id: str) -> bytes | None:
        """Return the stored answer of a query if it is the recorded one; None without one.

        Raises LedgerError if the stored answer or its entry was edited.
        """
        payload = self._store.payload_of(self.opened, query_id)
        answers = self.find(chain.EntryKind.ANSWER, "query_id = ?", query_id)
        if payload is None and not answers:
            return None
        if payload is None or not answers or answers[0].detail != sha256(payload).hexdigest():
            raise LedgerError(
                f"The ledger {self._store.name} was edited: an answer of it is not what was "
                f"recorded. {RESTORE}"
            )
        self.confirm(answers[0])
        return payload

    def answered(self, query_id: str | None) -> bool:
        """Test whether an answer of this query was recorded."""
        return bool(self.find(chain.EntryKind.ANSWER, "query_id = ?", query_id))

    def confirm(self, row: chain.EntryRow) -> None:
        """Raise LedgerError if a row that is read again does not match its recorded hash."""
        before = self._store.hash_at(self.opened, row.sequence - 1)
        if before is None or link(before, row) != self._store.hash_at(self.opened, row.sequence):
            raise self.edited(row.sequence)

    def edited(self, sequence: int) -> LedgerError:
        """Return the error that names the place of the broken chain."""
        return LedgerError(
            f"The ledger {self._store.name} was edited or rolled back: entry {sequence} is not "
            f"what was written there. {RESTORE}"
        )
