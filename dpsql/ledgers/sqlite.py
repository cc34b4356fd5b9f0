"""The ledger over a store, and the embedded one: an SQLite file shared by processes and threads.

A writing call has two locked steps. First, in one transaction: verify new entries, check the mark,
decide, append, commit (fsync). Then, under a lock again: move the mark to that end. A crash between
the two leaves the mark behind. That is allowed, and happened before any release. If the mark were
written before the commit, it could name an entry that does not exist. If it were written without
the lock, it could move back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, Self

from dpsql.ledgers import (
    Ceiling,
    Charge,
    Charged,
    CurrentWindow,
    Entry,
    OwnerAct,
    PaidAnswer,
    Remembered,
    SharedAnswer,
    Spent,
    Stopped,
    debits,
)
from dpsql.ledgers.book import EPOCH, LARGEST, Book
from dpsql.ledgers.chain import START, EntryKind, State
from dpsql.ledgers.codec import (
    canonical,
    decode_answer,
    encode_answer,
    encode_facts,
    encode_versions,
)
from dpsql.ledgers.debits import append_limit, recalled, released
from dpsql.ledgers.delegates import live_chain, names_above, names_below
from dpsql.ledgers.entry_values import OWNER_ACTS, read_act, read_charge, read_share
from dpsql.ledgers.ledger_store import LedgerSession, Store, UnknownCommit
from dpsql.ledgers.mark import mark_of
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.model.calendars import Calendar
from dpsql.model.delegation import Chain, Delegation, is_delegation
from dpsql.model.errors import LedgerError
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Fact, Loss, Noisy

# One call at a time in a process, and none while it forks. SQLite's locks do not survive a fork,
# but SQLite assumes that they do.
_CALLS = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CALLS.acquire,
        after_in_parent=_CALLS.release,
        after_in_child=_CALLS.release,
    )


def utc_now() -> datetime:
    """Return the present time: of an entry, and of the windows of budgets that renew."""
    return datetime.now(UTC)


class StoredLedger:
    """A `Ledger` over a store; safe across threads, processes and forks.

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
        """Close the ledger; later operations fail."""
        self._closed = True
        self._store.close()

    # --- writing ---

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        """Debit a budget durably; see `Ledger.charge`."""
        with self._writing() as book:
            before = book.state.spent(charge.budget)
            for each in (charge, *more):
                if each.calendars:
                    debits.open_windows(book, each)
                spent = debits.spent_after(book, each)
                debits.append_charge(book, each)
        return replace(spent, before=before)

    def share(self, queries: Sequence[str], charge: Charge) -> Loss:
        """Give an analyst answers of others; see `Ledger.share`."""
        with self._writing() as book:
            return debits.append_shares(book, queries, charge)

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        """Claim a text for this process; see `Ledger.claimed`."""
        with ExitStack() as stack:
            with self._store.failing_closed():
                own = stack.enter_context(self._store.claimed(text))
            yield own

    @contextmanager
    def running(self, analyst: str, most: int) -> Iterator[bool]:
        """Count a running query on all servers; see `Ledger.running`."""
        with ExitStack() as stack:
            person = self.person_of(analyst)
            with self._store.failing_closed():
                number = stack.enter_context(self._store.running(person))
            # Late answers are recorded before their query ends: read now, none is left out.
            yield self.late(person) + number <= most

    def remember(self, query_id: str, answer: tuple[Noisy, ...]) -> None:
        """Record the answer of a charged query; see `Ledger.remember`."""
        payload = encode_answer(answer)
        with self._writing() as book:
            if not book.find(EntryKind.CHARGE, "query_id = ?", query_id):
                raise LedgerError(f"Query {query_id} was never charged; its answer is not kept.")
            digest = sha256(payload).hexdigest()
            book.append(EntryKind.ANSWER, query_id=query_id, detail=digest)
            self._store.insert_answer(book.opened, query_id, payload)

    def refresh(self) -> int:
        """Start a new data version; see `Ledger.refresh`."""
        with self._writing() as book:
            book.append(EntryKind.REFRESH)
            return book.state.data_version

    def refresh_periods(self, rule: str, periods: Sequence[str]) -> None:
        """Start a data version of some periods; see `Ledger.refresh_periods`."""
        with self._writing() as book:
            before = book.state.refreshed.get(rule, {})
            versions = {name: before.get(name, 1) + 1 for name in periods}
            book.append(EntryKind.REFRESH, detail=encode_versions(rule, versions))

    def record_facts(self, facts: frozenset[Fact], identity: str) -> None:
        """Record the facts of a check; see `Ledger.record_facts`."""
        with self._writing() as book:
            book.append(EntryKind.FACTS, detail=encode_facts(facts, identity))

    def record_roles(self, roles: str) -> None:
        """Record the roles of the policy if they are others; see `Ledger.record_roles`."""
        with self._reading() as book:
            before = book.state.roles
        if before != roles:
            with self._writing() as book:
                if book.state.roles != roles:
                    book.append(EntryKind.ACCEPTED, event=roles)

    def guarantee(self) -> Mapping[str, str]:
        """Return what the guarantee protected last, by key; see `Ledger.guarantee`."""
        with self._reading() as book:
            return dict(book.state.guarantee)

    def record_guarantee(self, said: Mapping[str, str], reason: str) -> None:
        """Record what the guarantee protects by now; see `Ledger.record_guarantee`."""
        with self._writing() as book:
            book.append(EntryKind.ACCEPTED, question=canonical(said), detail=reason)

    def record_late(self, analyst: str, query_id: str) -> None:
        """Record a late answer; see `Ledger.record_late`."""
        with self._writing() as book:
            book.append(EntryKind.LATE, analyst=self.person_of(analyst), detail=query_id)

    def confirm(self, ceiling: Ceiling, reason: str) -> None:
        """Confirm a limit; see `Ledger.confirm`."""
        with self._writing() as book:
            append_limit(book, ceiling, reason)

    def lift(self, title: str, reason: str) -> None:
        """Lift a limit; see `Ledger.lift`."""
        with self._writing() as book:
            book.append(EntryKind.LIMIT, budget=title, detail=reason)

    def delegate(self, new: Delegation, most: Loss, reason: str, periods: str = "") -> None:
        """Record a delegation; see `Ledger.delegate`."""
        with self._writing() as book:
            debits.append_delegation(book, new, most, reason, periods)

    def revoke(self, agent: str, reason: str) -> None:
        """End a delegation; see `Ledger.revoke`."""
        with self._writing() as book:
            own = book.state.delegations[agent]
            book.append(EntryKind.LIMIT, analyst=agent, budget=own.title, detail=reason)

    def chain(self, analyst: str) -> Chain:
        """Return the delegations of an agent; see `Ledger.chain`."""
        with self._reading() as book:
            return live_chain(book.state.delegations, analyst, book.ledger_time)

    def person_of(self, analyst: str) -> str:
        """Return the person for whom an agent asks; see `Ledger.person_of`.

        A delegation is read before its agent asks anything, and no name changes its person.
        """
        return names_above(self._state.delegations, analyst)[-1]

    def delegations(self) -> Mapping[str, Delegation]:
        """Return all delegations; see `Ledger.delegations`."""
        with self._reading() as book:
            return book.state.delegations

    def confirm_clock(self, reason: str) -> tuple[CurrentWindow, ...]:
        """Confirm the clock; see `Ledger.confirm_clock`."""
        with self._writing() as book:
            return tuple(
                _current(book, calendar) for calendar in debits.confirm_windows(book, reason)
            )

    def stop(self, whom: Stopped, reason: str) -> None:
        """Stop charges; see `Ledger.stop`."""
        with self._writing() as book:
            book.append(EntryKind.STOPPED, budget=whom.budget, analyst=whom.analyst, detail=reason)

    def resume(self, whom: Stopped, reason: str = "") -> None:
        """Lift a stop, and forget late answers; see `Ledger.resume`."""
        with self._writing() as book:
            book.append(EntryKind.RESUMED, budget=whom.budget, analyst=whom.analyst, detail=reason)

    # --- reading ---

    def late(self, analyst: str) -> int:
        """Return the number of late answers; see `Ledger.late`."""
        with self._reading() as book:
            return book.state.late.get(self.person_of(analyst), 0)

    def recall(
        self,
        analyst: str,
        question: str,
        policy_version: str,
        epsilon: Decimal,
        without: frozenset[str] = frozenset(),
    ) -> Remembered | None:
        """Return the answer of an earlier identical question; see `Ledger.recall`."""
        with self._reading() as book:
            return recalled(book, analyst, (question, policy_version), epsilon, without)

    def released(
        self, analyst: str, budget: str, question: str, policy_version: str
    ) -> tuple[PaidAnswer, ...]:
        """Return this budget's answers to a question; see `Ledger.released`."""
        with self._reading() as book:
            return released(book, analyst, budget, question, policy_version)

    def answer(self, query_id: str) -> tuple[Noisy, ...]:
        """Return the recorded answer of a query; see `Ledger.answer`."""
        with self._reading() as book:
            payload = book.answer(query_id)
        if payload is None:
            raise LedgerError(f"No answer of query {query_id} was recorded.")
        return decode_answer(payload)

    def stamp(self, seconds: float = threading.TIMEOUT_MAX) -> object:
        """Return a value that changes with any write; see `Ledger.stamp`."""
        if not _CALLS.acquire(timeout=seconds):
            return None
        try:
            with self._store.failing_closed():
                self._require_open()
                return self._store.stamp()
        finally:
            _CALLS.release()

    def spent(
        self,
        budget: str | None,
        analysts: frozenset[str] | None = None,
        renews: Calendar | None = None,
    ) -> Loss:
        """Return the spending of a budget; see `Ledger.spent`."""
        with self._reading() as book:
            whole = book.state.spent(budget, analysts)
            if renews is None:
                return whole
            if analysts is not None:
                analysts = names_below(book.state.delegations, analysts)
            before = book.current_window(renews).before.spent(budget, analysts)
        return whole - before

    def spent_in(
        self, budget: str | None, periods: ChargedPeriods, analysts: frozenset[str] | None = None
    ) -> tuple[Loss, ...]:
        """Return the spending of a budget in periods of people; see `Ledger.spent_in`."""
        with self._unchanged() as book:
            return book.state.spent_in(budget, periods.rule.text, periods.names, analysts)

    def window(self, renews: Calendar) -> CurrentWindow:
        """Return the present window of a calendar; see `Ledger.window`."""
        with self._unchanged() as book:
            return _current(book, renews)

    def confirmed(self) -> dict[str, Ceiling]:
        """Return the confirmed limits; see `Ledger.confirmed`."""
        with self._reading() as book:
            limits = book.state.limits.items()
            return {title: c for title, c in limits if not is_delegation(title)}

    def stopped(self) -> frozenset[Stopped]:
        """Return the owner's stops; see `Ledger.stopped`."""
        with self._reading() as book:
            return book.state.stopped

    def budgets(self) -> tuple[Charged, ...]:
        """Return all charged budgets; see `Ledger.budgets`."""
        with self._reading() as book:
            state = book.state
        names = sorted(state.accountants.items())
        return tuple(Charged(name, accountant, state.spent(name)) for name, accountant in names)

    def history(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Entry, ...]:
        """Return the latest charges, newest first; see `Ledger.history`."""
        of = budget, _moment(since, 0), _moment(until, LARGEST)
        with self._reading() as book:
            charges = book.latest(EntryKind.CHARGE, limit, analyst, of)
            return tuple(
                read_charge(row, remembered=book.answered(row.query_id)) for row in charges
            )

    def shares(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[SharedAnswer, ...]:
        """Return received answers of others, newest first; see `Ledger.shares`."""
        of = budget, _moment(since, 0), _moment(until, LARGEST)
        with self._reading() as book:
            return tuple(map(read_share, book.latest(EntryKind.SHARED, limit, analyst, of)))

    def acts(self, limit: int = 20) -> tuple[OwnerAct, ...]:
        """Return the owner's last acts; see `Ledger.acts`."""
        kinds = ", ".join(f"'{kind}'" for kind in OWNER_ACTS)
        with self._reading() as book:
            by_owner = (
                f"kind IN ({kinds}) AND (kind <> 'window' OR event <> 'next')"
                " AND NOT (kind = 'accepted' AND question IS NOT NULL AND detail = '')"
            )
            rows = self._store.rows_where(book.opened, by_owner, (), limit)
            for row in rows:
                book.confirm(row)
        return tuple(read_act(row) for row in rows)

    def data_version(self) -> int:
        """Return the present data version."""
        with self._reading() as book:
            return book.state.data_version

    def period_versions(self, rule: str) -> tuple[tuple[str, int], ...]:
        """Return the data versions of refreshed periods; see `Ledger.period_versions`."""
        with self._unchanged() as book:
            refreshed = book.state.refreshed
        others = sum(n - 1 for of in refreshed if of != rule for n in refreshed[of].values())
        of_others = (("", others),) if others else ()
        return (*of_others, *sorted(refreshed.get(rule, {}).items()))

    def facts(self, identity: str) -> frozenset[Fact]:
        """Return the facts recorded for this data version and these files."""
        with self._reading() as book:
            return book.state.facts if book.state.files == identity else frozenset()

    def facts_lapsed(self, identity: str) -> bool:
        """Test whether no recorded fact counts any more; see `Ledger.facts_lapsed`."""
        with self._reading() as book:
            return book.state.recorded and not (book.state.facts and book.state.files == identity)

    def verify(self) -> tuple[int, str]:
        """Check every entry, every answer and the mark; see `Ledger.verify`."""
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

    # --- transactions ---

    def _begin(self) -> None:
        """Write the schema and the first entry into an empty store, and the first mark."""
        with _CALLS, self._store.connection() as opened:
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
        with self._store.failing_closed(), _CALLS, self._store.connection() as opened:
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
        with self._store.failing_closed(), _CALLS, self._store.connection() as opened:
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
            stack.enter_context(_CALLS)
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
        if not self._is_behind(reached):
            return
        with self._store.marking(opened):
            if self._is_behind(reached):
                self._store.write_mark(mark_of(reached, self._store.identity(opened)))

    def _is_behind(self, reached: State) -> bool:
        mark = self._store.read_mark()
        return mark is None or mark.sequence < reached.sequence

    def _require_open(self) -> None:
        if self._closed:
            raise LedgerError(f"The ledger {self._store.name} is closed.")


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
    with store.failing_closed(), _CALLS, store.connection() as opened:
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


def _current(book: Book, renews: Calendar) -> CurrentWindow:
    """Return the window of a calendar to which charges now count."""
    name = book.current_window(renews).name
    return CurrentWindow(renews, name, waits=name != renews.window_at(book.moment()))


def _moment(at: datetime | None, otherwise: int) -> int:
    return otherwise if at is None else (at - EPOCH) // timedelta(microseconds=1)
