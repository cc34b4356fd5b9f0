"""Ledgers: the durable record of what was spent, and of the answers it bought.

A ledger knows `charge` and no refund: whatever happens after a charge, it stays.

Why there is none: SECURITY.md S4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from threading import TIMEOUT_MAX
from typing import Protocol

from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Event, Fact, Loss, Noisy


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that some may spend: `analysts` (None: all) of `budget` (None: of all together).

    `title` is what it is confirmed under.
    """

    title: str
    most: Loss
    budget: str | None = None
    analysts: frozenset[str] | None = None

    def covers(self, budget: str, analyst: str) -> bool:
        """Whether what this analyst spends of this budget counts."""
        return self.budget in {None, budget} and (self.analysts is None or analyst in self.analysts)

    def counts(self, holders: frozenset[str]) -> bool:
        """Whether it was debited for what these have; that of all in a budget always was."""
        return self.analysts is None or not self.analysts.isdisjoint(holders)

    @property
    def named(self) -> dict[str, str]:
        """Facts for a refusal: which cap it is, where it is not a budget itself."""
        whole = self.analysts is None and self.budget is not None
        return {} if whole else {"cap": self.title}


def altered(confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling]) -> list[str]:
    """Titles of ceilings that are not the ones confirmed; one that was never seen is none."""
    return [c.title for c in ceilings if confirmed.get(c.title, c) != c]


def removed(confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling]) -> list[str]:
    """Titles of the caps that were confirmed and are among these ceilings no more.

    Not of a budget, to which nothing is charged where the policy does not name it.
    """
    present = {c.title for c in ceilings}
    return [title for title, c in confirmed.items() if title not in present and c.named]


def unconfirmed(
    confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling], budget: str, analyst: str
) -> list[str]:
    """Titles of what limits this payer otherwise than was confirmed, or limits them no more."""
    covering = {title: c for title, c in confirmed.items() if c.covers(budget, analyst)}
    return [*altered(confirmed, ceilings), *removed(covering, ceilings)]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Who asked what, as the owner reads it later: the door, the client there, and the text.

    `requested` is the epsilon that was asked for, where memory told a part of it that is not paid.
    """

    door: str = ""
    client: str = ""
    sql: str = ""
    requested: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one query is about to spend, and for what.

    `question` is the sha256 (hex) of the canonical plan; `loss` is what `accountant` makes of
    `event`; `limit` is the most that `budget` may spend in total; `caps` are the ceilings below it
    or across budgets that cover this analyst.
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
    caps: tuple[Ceiling, ...] = ()
    inquiry: Inquiry = Inquiry()

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """All that may refuse this charge: the budget itself first."""
        return (Ceiling(f"budget {self.budget}", self.limit, self.budget), *self.caps)

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError("the epsilon of a charge is finite and positive")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a budget had spent before and after."""

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
class PaidAnswer:
    """What a query released: who asked it, at which price, and who has it by now.

    A table of a cube has as its `whole` all tables of that cube that the analyst lacks, who gets
    them together: their ids, the largest epsilon, the sum of their losses, who has all of them.
    """

    query_id: str
    epsilon: Decimal
    loss: Loss
    holders: frozenset[str]
    whole: PaidAnswer | None = None

    @property
    def lent(self) -> PaidAnswer:
        """Return what an analyst receives who takes this."""
        return self.whole or self

    @property
    def cube(self) -> str:
        """Return the name of the cube of which it is; empty where it is of none."""
        names = (h.removeprefix(CUBES) for h in self.holders if h.startswith(CUBES))
        return next(names, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge as the ledger recorded it; `time` is in UTC.

    `remembered` says whether its answer was recorded too: without one, the query failed or was
    cut off after its charge. It was of the data and the policy of these versions.
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
    policy_version: str
    data_version: int
    inquiry: Inquiry = Inquiry()


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """An answer that a budget had paid for others and an analyst got, as the ledger recorded it.

    `epsilon` and `loss` are what was paid for it, `before` those who had it. The budget did not pay
    again: only limits of the analyst did that cover none of these. Of a cube all tables come at
    once: `query_id` lists their ids, `epsilon` is the largest of theirs.
    """

    query_id: str
    time: datetime
    analyst: str
    budget: str
    accountant: str
    epsilon: Decimal
    loss: Loss
    before: tuple[str, ...]
    cube: str = ""


@dataclass(frozen=True, slots=True)
class OwnerAct:
    """What the owner did, as the ledger recorded it; `what` names the kind, `about` its object.

    `limit` is what was confirmed, by itself or with the first charge below it; None of a limit
    that was lifted.
    """

    time: datetime
    what: str
    about: str
    reason: str
    limit: Loss | None = None


CUBES = "cube "
"""So begins who pays for what the owner measures for all analysts of a budget, and no analyst."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A budget, or an analyst, for whom nothing new is charged until the owner lifts it."""

    budget: str | None
    analyst: str | None


class Ledger(Protocol):
    """The durable, append-only record shared by every proxy that guards one database.

    Every operation may raise `LedgerError`: the ledger cannot be used, or cannot be trusted.
    """

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        """Debit a budget durably: on return the debit survives any crash.

        All ceilings of the charge are compared, and the charge is written, in one transaction, and
        so are those of `more` of this budget: all of them or none. A ceiling that was never seen is
        recorded with it.
        Raises `Refused`, and then nothing was written: BUDGET_EXHAUSTED (with needed, left, limit,
        budget, accountant, and the cap where it is one) if what was spent under a ceiling and this
        loss do not fit it; LIMIT_CHANGED (with its title) if a ceiling is not the one that the
        owner confirmed, or one that was confirmed covers this charge and is not among its
        ceilings; STOPPED_BY_OWNER if the owner stopped the budget or the analyst.
        Raises `LedgerError` if the budget was ever charged under another accountant.
        """

    def claimed(self, text: str) -> AbstractContextManager[bool]:
        """Whether this process has the claim of this text until the end; if not, another has it.

        It does not wait, and a process that ended has none. Threads of a process share their
        claims.
        """

    def remember(self, query_id: str, answer: tuple[Noisy, ...]) -> None:
        """Record what a charged query released; once per query."""

    def recall(
        self, analyst: str, question: str, policy_version: str, epsilon: Decimal
    ) -> Remembered | None:
        """The answer this analyst got to this question, if at least `epsilon` was paid for it.

        Only under the same policy version and the present data version. Of several, the one with
        the largest epsilon, then the newest.
        """

    def released(
        self, analyst: str, budget: str, question: str, policy_version: str
    ) -> tuple[PaidAnswer, ...]:
        """All that this budget paid of this question and of which the answer was recorded: what
        this analyst has, in the order in which they got it, then the rest, the oldest
        first. Cubes that were stopped are left out.

        Only under the same policy version and the present data version.
        """

    def share(self, queries: Sequence[str], charge: Charge) -> Loss:
        """Let an analyst have what queries of this question released, which the budget of the
        charge paid: on return that survives any crash. With a table of a cube they have the whole
        cube, in one entry; what they have already is not written again.

        Each ceiling of the charge that covers nobody who has it is debited what it cost: the sum
        of that is returned. All of it in one transaction, or nothing. Raises as `charge` does.
        """

    def answer(self, query_id: str) -> tuple[Noisy, ...]:
        """The answer that was recorded of a query. Raises LedgerError where there is none."""

    def stamp(self, seconds: float = TIMEOUT_MAX) -> object:
        """A value that is another one after anything was recorded or tampered with, by anybody.

        Cheap: nothing is verified. Equal stamps mean that what was recalled before still holds.
        None if another thread is at work on the ledger for longer than `seconds`.
        """

    def spent(self, budget: str | None, analysts: frozenset[str] | None = None) -> Loss:
        """What was spent so far of a budget (None: of all), by these analysts (None: by all)."""

    def budgets(self) -> tuple[Charged, ...]:
        """Every budget that was ever charged, by name."""

    def confirmed(self) -> dict[str, Ceiling]:
        """The ceilings that the ledger holds the policy to, by title."""

    def confirm(self, ceiling: Ceiling, reason: str) -> None:
        """The owner's word that a ceiling is now this one."""

    def lift(self, title: str, reason: str) -> None:
        """The owner's word that no ceiling of this title holds any more."""

    def stop(self, whom: Stopped, reason: str) -> None:
        """The owner's act: nothing new is charged to this budget, or for this analyst."""

    def stopped(self) -> frozenset[Stopped]:
        """All that the owner stopped and did not resume."""

    def history(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Entry, ...]:
        """The latest charges, newest first, of those that are asked for: of everybody if
        `analyst` is None, from `since` on and before `until`.
        """

    def shares(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[SharedAnswer, ...]:
        """The latest answers that these analysts got of others, newest first; as `history`."""

    def acts(self, limit: int) -> tuple[OwnerAct, ...]:
        """What the owner did last, newest first: limits, stops, refreshes, acceptances."""

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

    def resume(self, whom: Stopped, reason: str = "") -> None:
        """The owner's act: a stop is lifted, and an analyst's late answers no longer count."""

    def facts_lapsed(self, identity: str) -> bool:
        """Whether facts were recorded once, and none of them counts for this data any more."""

    def verify(self) -> None:
        """Check every entry and every answer ever recorded; raises `LedgerError` on any doubt."""

    def close(self) -> None:
        """No operation is possible any more."""
