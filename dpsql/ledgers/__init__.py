"""Ledgers: the durable record of spent privacy, and of the answers that it bought.

A ledger has `charge` and no refund: a charge stays, even after a failure. The reason: SECURITY.md
S4.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from threading import TIMEOUT_MAX
from typing import Protocol

from dpsql.model.calendars import Calendar
from dpsql.model.dataclass import dataclass
from dpsql.model.delegation import Chain, Delegation
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Event, Fact, Loss, Noisy


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A spending limit: the most that `analysts` (None: all) may spend of `budget` (None: all
    budgets).

    `title` is the name under which it is confirmed. With `renews` it is for one window of this
    calendar; with `periods`, the text of a rule, for each period of people (PRIVACY.md R103).
    """

    title: str
    most: Loss
    budget: str | None = None
    analysts: frozenset[str] | None = None
    renews: Calendar | None = None
    periods: str = ""

    def covers(self, budget: str, analyst: str) -> bool:
        """Test whether this analyst's spending of this budget counts against the limit."""
        return self.budget in {None, budget} and (self.analysts is None or analyst in self.analysts)

    def counts(self, holders: frozenset[str]) -> bool:
        """Test whether an answer that these analysts have was counted against the limit.

        A limit of all analysts always counted it.
        """
        return self.analysts is None or not self.analysts.isdisjoint(holders)

    @property
    def named(self) -> dict[str, str]:
        """Facts for a refusal: the title of a cap; empty if the limit is a whole budget."""
        return {} if self.title == f"budget {self.budget}" else {"cap": self.title}


def renewal_facts(renews: Calendar, window: str) -> dict[str, str]:
    """Return the facts for a refusal: the window, and the day on which the next one begins."""
    return {"window": window, "renewal": f"{renews.renewal_after(window)} ({renews.zone})"}


def altered(confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling]) -> list[str]:
    """Return titles of limits that differ from the confirmed ones; a new limit does not differ."""
    return [c.title for c in ceilings if confirmed.get(c.title, c) != c]


def removed(confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling]) -> list[str]:
    """Return titles of caps that were confirmed and are missing from these limits.

    A budget's own limit is not listed: nothing is charged to a budget that the policy does not
    name. A limit over all windows is listed like a cap.
    """
    present = {c.title for c in ceilings}
    return [title for title, c in confirmed.items() if title not in present and c.named]


def unconfirmed(
    confirmed: Mapping[str, Ceiling], ceilings: Sequence[Ceiling], budget: str, *analysts: str
) -> list[str]:
    """Return titles of limits that cover one of these analysts and differ from the confirmed ones,
    or are gone.
    """
    covering = {
        title: c
        for title, c in confirmed.items()
        if any(c.covers(budget, analyst) for analyst in analysts)
    }
    return [*altered(confirmed, ceilings), *removed(covering, ceilings)]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Origin of a query, as the owner reads it later: the interface, the client there, and the
    text.

    `requested` is the requested epsilon, if the answer cache provided a part of it for free.
    """

    door: str = ""
    client: str = ""
    sql: str = ""
    requested: str = ""


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge of one query, before it is recorded.

    `question` is the sha256 (hex) of the canonical plan. `loss` is the accountant's loss for
    `event`. `limit` is the most that `budget` may spend in total, in a window of `renews`, or in
    each of the `periods` to which it is charged. `caps` are further limits that cover this analyst.
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
    renews: Calendar | None = None
    periods: ChargedPeriods | None = None

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """All limits that may refuse this charge, the budget's own first."""
        rule = "" if self.periods is None else self.periods.rule.text
        own = Ceiling(
            f"budget {self.budget}", self.limit, self.budget, renews=self.renews, periods=rule
        )
        return (own, *self.caps)

    @property
    def whole(self) -> Loss:
        """The loss of all charged periods together."""
        times = 1 if self.periods is None else len(self.periods.names)
        further = tuple(coordinate * times for coordinate in self.loss.further)
        return Loss(self.loss.amount * times, self.loss.delta * times, further)

    @property
    def calendars(self) -> tuple[Calendar, ...]:
        """Calendars of all limits that renew, and that of its periods, each once."""
        calendars = [each.renews for each in self.ceilings if each.renews is not None]
        calendars += [] if self.periods is None else [self.periods.rule.calendar]
        return tuple(dict.fromkeys(calendars))

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError("the epsilon of a charge is finite and positive")


@dataclass(frozen=True, slots=True)
class Spent:
    """Spending of a budget before and after a charge."""

    before: Loss
    after: Loss


@dataclass(frozen=True, slots=True)
class Charged:
    """A charged budget, under its name at that time."""

    budget: str
    accountant: str
    spent: Loss


@dataclass(frozen=True, slots=True)
class Remembered:
    """A released answer: the query that paid for it, the epsilon that it paid, and its noisy
    blocks.
    """

    query_id: str
    epsilon: Decimal
    answer: tuple[Noisy, ...]


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """The released answer of a query: its price, and the analysts who have it.

    If it is a table of a cube, `whole` describes all tables of that cube that the analyst lacks,
    since they are received together. It holds their ids, the largest epsilon, the sum of their
    losses, and the analysts who have them all. `periods` has the rule and the names of the charged
    periods of people, if any.
    """

    query_id: str
    epsilon: Decimal
    loss: Loss
    holders: frozenset[str]
    whole: PaidAnswer | None = None
    periods: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def lent(self) -> PaidAnswer:
        """The answer that an analyst receives: the whole cube for a table of one."""
        return self.whole or self

    @property
    def cube(self) -> str:
        """Name of its cube; empty if it is not of a cube."""
        names = (h.removeprefix(CUBES) for h in self.holders if h.startswith(CUBES))
        return next(names, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded charge; `time` is in UTC.

    `remembered` is true if its answer was recorded too; otherwise the query failed or was
    interrupted after its charge. The versions are those of its data and policy.
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
    periods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """A recorded transfer: a budget had paid for an answer, and another analyst received it.

    `epsilon` and `loss` are its price, `before` lists the analysts who had it. The budget did not
    pay again. Only limits of the analyst paid that cover none of these. All tables of a cube are
    received at once: `query_id` lists their ids, `epsilon` is the largest.
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
    """A recorded act of the owner; `what` is its kind, `about` its object.

    `limit` is the limit that was confirmed, by itself or with the first charge below it; None if a
    limit was lifted.
    """

    time: datetime
    what: str
    about: str
    reason: str
    limit: Loss | None = None


CUBES = "cube "
"""Prefix of the payer of a cube, which the owner measures for all analysts of a budget."""


@dataclass(frozen=True, slots=True)
class CurrentWindow:
    """The window of a calendar to which charges now count.

    `waits` is true if the clock says another window: the next one opens, or the clock is
    corrected, by `confirm_clock` alone.
    """

    renews: Calendar
    name: str
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """A budget, or an analyst, for whom nothing is charged until the owner resumes it."""

    budget: str | None
    analyst: str | None


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Place of a ledger: a file `path`; or a server `url`, with this host's mark beside `path`.

    With an `id` no other ledger is opened there, and none is begun.
    """

    path: str
    url: str = ""
    id: str = ""

    @property
    def is_begun(self) -> bool:
        """True if a ledger may be there already; a server is always asked."""
        return bool(self.url) or os.path.exists(self.path)  # noqa: PTH110


class LedgerRecords(Protocol):
    """The part of a ledger that is read.

    Every operation may raise `LedgerError`: the ledger cannot be used, or cannot be trusted.
    """

    def recall(
        self,
        analyst: str,
        question: str,
        policy_version: str,
        epsilon: Decimal,
        without: frozenset[str] = frozenset(),
    ) -> Remembered | None:
        """Return this analyst's answer to this question if it cost at least `epsilon`, else
        None.

        Only answers under the same policy version and the present data version count. Of several,
        returns the one with the largest epsilon, then the newest. Queries `without` do not count.
        """

    def released(
        self, analyst: str, budget: str, question: str, policy_version: str
    ) -> tuple[PaidAnswer, ...]:
        """Return all recorded answers to this question that this budget paid for.

        First come those that this analyst has, in the order of receipt, then the others, the oldest
        first. Stopped cubes are left out. Only answers under the same policy version and the
        present data version count.
        """

    def unanswered(self, charge: Charge) -> str:
        """Return the newest query with this very charge that has no recorded answer, or "".

        Only its id and the limits may differ. Raises `Refused` if the owner stopped its payer.
        """

    def answer(self, query_id: str) -> tuple[Noisy, ...]:
        """Return the recorded answer of a query. Raises LedgerError if there is none."""

    def stamp(self, seconds: float = TIMEOUT_MAX) -> object:
        """Return a value that changes with any write to the ledger, also by others.

        Cheap: nothing is verified. If stamps are equal, earlier results of `recall` still hold.
        None if another thread uses the ledger for longer than `seconds`.
        """

    def spent(
        self,
        budget: str | None,
        analysts: frozenset[str] | None = None,
        renews: Calendar | None = None,
    ) -> Loss:
        """Return the spending of a budget (None: of all), by these analysts (None: by all).

        With a calendar, only that in the window to which a charge would now count.
        """

    def spent_in(
        self,
        budget: str | None,
        periods: ChargedPeriods,
        analysts: frozenset[str] | None = None,
    ) -> tuple[Loss, ...]:
        """Return the spending of a budget (None: of all), by these analysts (None: by all), in each
        of these periods of people.

        Charges without periods, and those under another rule, count in each of them.
        """

    def window(self, renews: Calendar) -> CurrentWindow:
        """Return the window of a calendar to which a charge would now count."""

    def budgets(self) -> tuple[Charged, ...]:
        """Return all charged budgets, by name."""

    def confirmed(self) -> dict[str, Ceiling]:
        """Return the confirmed limits of policies, by title: not those of delegations."""

    def chain(self, analyst: str) -> Chain:
        """Return the delegations of an agent, its own first; () for a person.

        Raises `Refused` (DELEGATION_ENDED) if one of them was revoked, or ended by ledger time.
        """

    def person_of(self, analyst: str) -> str:
        """Return the person for whom an agent asks, whose late answers count; else the analyst."""

    def delegations(self) -> Mapping[str, Delegation]:
        """Return all delegations by agent, also ended ones."""

    def stopped(self) -> frozenset[Stopped]:
        """Return all stops that the owner has not lifted."""

    def history(
        self,
        analyst: str | None = None,
        limit: int = 20,
        *,
        budget: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[Entry, ...]:
        """Return the latest charges that match, newest first.

        `analyst` None means all. `since` is included, `until` excluded.
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
        """Return the latest answers that analysts received from others, newest first, like
        `history`.
        """

    def acts(self, limit: int) -> tuple[OwnerAct, ...]:
        """Return the owner's last acts, newest first: limits, stops, refreshes, acceptances,
        clocks.
        """

    def data_version(self) -> int:
        """Return the present data version, from 1."""

    def period_versions(self, rule: str) -> tuple[tuple[str, int], ...]:
        """Return the data version of each period of a rule that was refreshed alone, from 2.

        The number of such refreshes under other rules stands first, under an empty name: they
        count for every period.
        """

    def facts(self, identity: str) -> frozenset[Fact]:
        """Return the facts recorded last, confirmed by that check.

        Empty if they are about another data version or files with another identity.
        """

    def guarantee(self) -> Mapping[str, str]:
        """Return what each key of the policy said last of what the guarantee protects."""

    def late(self, analyst: str) -> int:
        """Return the number of late answers of an analyst and all agents since the last resume.

        An agent has its person's number.
        """

    def facts_lapsed(self, identity: str) -> bool:
        """Test whether facts were recorded once and none of them counts for this data."""

    def verify(self) -> tuple[int, str]:
        """Check every recorded entry and answer; return the last entry's number and hash (hex).

        Raises `LedgerError` on any doubt.
        """

    def close(self) -> None:
        """Close the ledger; later operations fail."""


class Ledger(LedgerRecords, Protocol):
    """The durable, append-only record shared by every proxy that guards one database."""

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        """Debit a budget durably: on return the debit survives any crash.

        One transaction compares all limits and writes the charge, and those of `more` of this
        budget: all of them or none. A new limit is recorded with the charge.

        Raises `Refused`; then nothing was written. BUDGET_EXHAUSTED (with needed, left, limit,
        budget, accountant, and the cap if it is one): the loss does not fit below a limit.
        LIMIT_CHANGED (with its title): a limit differs from the confirmed one, or a confirmed limit
        that covers this charge is missing. STOPPED_BY_OWNER: the owner stopped the budget or the
        analyst.

        Raises `LedgerError` if the budget was ever charged under another accountant.
        """

    def claimed(self, text: str) -> AbstractContextManager[bool]:
        """Claim a text for this process until the exit; yield False if another process has it.

        Does not wait. A claim ends with its process. Threads of a process share its claims.
        """

    def running(self, analyst: str, most: int) -> AbstractContextManager[bool]:
        """Count a running query of an analyst on all servers until the exit; does not wait.

        Yield False if running and late queries together would be more than `most`. A ledger in a
        file counts late queries alone: its processes count their own running ones.
        """

    def remember(
        self, query_id: str, answer: tuple[Noisy, ...], *more: tuple[str, tuple[Noisy, ...]]
    ) -> None:
        """Record the released answers of charged queries, all or none; once per query."""

    def share(self, queries: Sequence[str], charge: Charge) -> Loss:
        """Give an analyst answers to this question that the budget of the charge has paid for.

        On return that survives any crash. With a table of a cube the analyst receives the whole
        cube, in one entry. Answers that the analyst has are not written again.

        Each limit of the charge that covers none of the present holders is debited the price. The
        sum of these debits is returned. All of it happens in one transaction, or nothing. Raises as
        `charge` does.
        """

    def confirm_clock(self, reason: str) -> tuple[CurrentWindow, ...]:
        """Record that the owner confirms the clock; return the changed windows, as they are now.

        The window of the clock opens, even if it is several windows later. If ledger time is ahead
        of the clock, the open window gets the name of the clock's window and keeps its charges.
        """

    def confirm(self, ceiling: Ceiling, reason: str) -> None:
        """Record the owner's confirmation of a limit."""

    def lift(self, title: str, reason: str) -> None:
        """Record that the owner lifts the limit with this title."""

    def delegate(self, new: Delegation, most: Loss, reason: str, periods: str = "") -> None:
        """Record a delegation, or its new terms, with the most that its agent may spend: in all, or
        in each of the `periods` of people of a rule.

        Raises `LedgerError` for a chain that would be too long or a cycle, for a second delegator,
        and for an agent that was charged before. Raises `Refused` as `chain` does.
        """

    def revoke(self, agent: str, reason: str) -> None:
        """Record that a delegation ends now, and so do those of the agent's own agents."""

    def stop(self, whom: Stopped, reason: str) -> None:
        """Record a stop: nothing more is charged to this budget, or for this analyst."""

    def refresh(self) -> int:
        """Start a new data version and return it: earlier answers and facts do not count any
        more.
        """

    def refresh_periods(self, rule: str, periods: Sequence[str]) -> None:
        """Start a new data version of these periods of a rule alone.

        Answers about other periods still count. Recorded facts do not.
        """

    def record_facts(self, facts: frozenset[Fact], identity: str) -> None:
        """Record the facts that a check found for the database files with this identity.

        Replaces earlier facts.
        """

    def record_roles(self, roles: str) -> None:
        """Record what the roles of the policy grant, in words, unless that was recorded last."""

    def record_login(self, name: str, act: str) -> None:
        """Record what the owner did with the login of a user: an act in one word."""

    def record_guarantee(self, said: Mapping[str, str], reason: str) -> None:
        """Record what keys of the policy say by now of what the guarantee protects."""

    def record_late(self, analyst: str, query_id: str) -> None:
        """Record durably that a query's answer came later than predicted."""

    def resume(self, whom: Stopped, reason: str = "") -> None:
        """Record that a stop is lifted; an analyst's earlier late answers do not count any more."""
