"""The reading half of a ledger over a store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal

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
    Stopped,
)
from dpsql.ledgers.book import EPOCH, LARGEST, Book
from dpsql.ledgers.chain import EntryKind
from dpsql.ledgers.codec import (
    decode_answer,
)
from dpsql.ledgers.debits import recalled, released, unanswered
from dpsql.ledgers.delegates import live_chain, names_above, names_below
from dpsql.ledgers.entry_values import OWNER_ACTS, read_act, read_charge, read_share
from dpsql.ledgers.ledger_transactions import LedgerTransactions
from dpsql.model.calendars import Calendar
from dpsql.model.delegation import Chain, Delegation, is_delegation
from dpsql.model.errors import LedgerError
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Fact, Loss, Noisy


class StoredRecords(LedgerTransactions):
    """The `LedgerRecords` in a store."""

    def recall(
        self,
        analyst: str,
        question: str,
        policy_version: str,
        epsilon: Decimal,
        without: frozenset[str] = frozenset(),
    ) -> Remembered | None:
        with self._reading() as book:
            return recalled(book, analyst, (question, policy_version), epsilon, without)

    def released(
        self, analyst: str, budget: str, question: str, policy_version: str
    ) -> tuple[PaidAnswer, ...]:
        with self._reading() as book:
            return released(book, analyst, budget, question, policy_version)

    def unanswered(self, charge: Charge) -> str:
        with self._reading() as book:
            return unanswered(book, charge)

    def answer(self, query_id: str) -> tuple[Noisy, ...]:
        with self._reading() as book:
            payload = book.answer(query_id)
        if payload is None:
            raise LedgerError(f"No answer of query {query_id} was recorded.")
        return decode_answer(payload)

    def spent(
        self,
        budget: str | None,
        analysts: frozenset[str] | None = None,
        renews: Calendar | None = None,
    ) -> Loss:
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
        with self._unchanged() as book:
            return book.state.spent_in(budget, periods.rule.text, periods.names, analysts)

    def window(self, renews: Calendar) -> CurrentWindow:
        with self._unchanged() as book:
            return current_window(book, renews)

    def budgets(self) -> tuple[Charged, ...]:
        with self._reading() as book:
            state = book.state
        names = sorted(state.accountants.items())
        return tuple(Charged(name, accountant, state.spent(name)) for name, accountant in names)

    def confirmed(self) -> dict[str, Ceiling]:
        with self._reading() as book:
            limits = book.state.limits.items()
            return {title: c for title, c in limits if not is_delegation(title)}

    def stopped(self) -> frozenset[Stopped]:
        with self._reading() as book:
            return book.state.stopped

    def history(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Entry, ...]:
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
        of = budget, _moment(since, 0), _moment(until, LARGEST)
        with self._reading() as book:
            return tuple(map(read_share, book.latest(EntryKind.SHARED, limit, analyst, of)))

    def acts(self, limit: int = 20) -> tuple[OwnerAct, ...]:
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
        with self._reading() as book:
            return book.state.data_version

    def period_versions(self, rule: str) -> tuple[tuple[str, int], ...]:
        with self._unchanged() as book:
            refreshed = book.state.refreshed
        others = sum(n - 1 for of in refreshed if of != rule for n in refreshed[of].values())
        of_others = (("", others),) if others else ()
        return (*of_others, *sorted(refreshed.get(rule, {}).items()))

    def facts(self, identity: str) -> frozenset[Fact]:
        with self._reading() as book:
            return book.state.facts if book.state.files == identity else frozenset()

    def facts_lapsed(self, identity: str) -> bool:
        with self._reading() as book:
            return book.state.recorded and not (book.state.facts and book.state.files == identity)

    def guarantee(self) -> Mapping[str, str]:
        with self._reading() as book:
            return dict(book.state.guarantee)

    def late(self, analyst: str) -> int:
        with self._reading() as book:
            return book.state.late.get(self.person_of(analyst), 0)

    def chain(self, analyst: str) -> Chain:
        with self._reading() as book:
            return live_chain(book.state.delegations, analyst, book.ledger_time)

    def person_of(self, analyst: str) -> str:
        """Return the person for whom an agent asks.

        A delegation is read before its agent asks anything, and no name changes its person.
        """
        return names_above(self._state.delegations, analyst)[-1]

    def delegations(self) -> Mapping[str, Delegation]:
        with self._reading() as book:
            return book.state.delegations


def _moment(at: datetime | None, otherwise: int) -> int:
    return otherwise if at is None else (at - EPOCH) // timedelta(microseconds=1)


def current_window(book: Book, renews: Calendar) -> CurrentWindow:
    """Return the window of a calendar to which charges now count."""
    name = book.current_window(renews).name
    return CurrentWindow(renews, name, waits=name != renews.window_at(book.moment()))
