"""Ledgers: the durable record of what was spent, and of the answers it bought.

A ledger knows `charge` and no refund: whatever happens after a charge, it stays.

Why there is none: SECURITY.md S4.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from threading import TIMEOUT_MAX
from typing import Protocol

from dpsql.model.vocabulary import Event, Fact, Loss, Noisy


@dataclass(frozen=True, slots=True)
class Charge:
    """What one query is about to spend, and for what.

    `question` is the sha256 (hex) of the canonical plan; `loss` is what `accountant` makes of
    `event`; `limit` is the most that `budget` may spend in total.
    Raises ValueError unless `epsilon` is finite and positive.
    """

    query_id: str
    analyst: str
    budget: str
    accountant: str
    epsilon: Decimal
    event: Event
    loss: Loss
    limit: Loss
    question: str
    policy_version: str

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError("the epsilon of a charge is finite and positive")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a budget had spent before and after one charge."""

    before: Loss
    after: Loss


@dataclass(frozen=True, slots=True)
class Charged:
    """A budget that was charged, under the name that it had then."""

    budget: str
    accountant: str
    spent: Loss


@dataclass(frozen=True, slots=True)
class Remembered:
    """A released answer: the query that paid for it, the epsilon it paid, and its noisy blocks."""

    query_id: str
    epsilon: Decimal
    answer: tuple[Noisy, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge as the ledger recorded it; `time` is in UTC.

    `remembered` says whether its answer was recorded too: without one, the query failed or was
    cut off after its charge.
    """

    query_id: str
    time: datetime
    analyst: str
    budget: str
    accountant: str
    epsilon: Decimal
    loss: Loss
    event: Event
    question: str
    remembered: bool


class Ledger(Protocol):
    """The durable, append-only record shared by every proxy that guards one database.

    Every operation may raise `LedgerError`: the ledger cannot be used, or cannot be trusted.
    """

    def charge(self, charge: Charge) -> Spent:
        """Debit a budget durably: on return the debit survives any crash.

        Raises `Refused` (BUDGET_EXHAUSTED, with needed, left, limit, budget and accountant) if
        what the budget has spent and this loss do not fit the limit: then nothing was written.
        Raises `LedgerError` if the budget was ever charged under another accountant.
        """

    def remember(self, query_id: str, answer: tuple[Noisy, ...]) -> None:
        """Record what a charged query released; once per query."""

    def recall(
        self, analyst: str, question: str, policy_version: str, epsilon: Decimal
    ) -> Remembered | None:
        """The answer this analyst got to this question, if it paid at least `epsilon`.

        Only under the same policy version and the present data version. Of several, the one with
        the largest epsilon, then the newest.
        """

    def stamp(self, seconds: float = TIMEOUT_MAX) -> object:
        """A value that is another one after anything was recorded or tampered with, by anybody.

        Cheap: nothing is verified. Equal stamps mean that what was recalled before still holds.
        None if another thread is at work on the ledger for longer than `seconds`.
        """

    def spent(self, budget: str) -> Loss:
        """What a budget has spent so far: zero if it was never charged."""

    def budgets(self) -> tuple[Charged, ...]:
        """Every budget that was ever charged, by name."""

    def history(self, analyst: str | None, limit: int) -> tuple[Entry, ...]:
        """The latest charges, newest first; of everybody if `analyst` is None."""

    def data_version(self) -> int:
        """The present data version, from 1."""

    def refresh(self) -> int:
        """Start a new data version, and return it: no earlier answer or fact counts any more."""

    def record_facts(self, facts: frozenset[Fact], identity: str) -> None:
        """Record what a check found true of the database files with this identity.

        Replaces what was recorded before.
        """

    def facts(self, identity: str) -> frozenset[Fact]:
        """The facts recorded last, vouched for by that check.

        None if that was for another data version or for files with another identity.
        """

    def record_late(self, analyst: str, query_id: str) -> None:
        """Record durably that the answer of a query came later than predicted."""

    def late(self, analyst: str) -> int:
        """How many of this analyst's answers came late since the owner last acted."""

    def resume(self, analyst: str) -> None:
        """The owner's act: the late answers of this analyst no longer count."""

    def facts_lapsed(self, identity: str) -> bool:
        """Whether facts were recorded once, and none of them counts for this data any more."""

    def verify(self) -> None:
        """Check every entry and every answer ever recorded; raises `LedgerError` on any doubt."""

    def close(self) -> None:
        """No operation is possible any more."""
