"""The chain: each entry's hash covers the entry and the hash before it.

The ledger's state (amounts spent, data version, facts) is computed only from entries with checked
hashes.

Edits are found: SECURITY.md S16. A shared answer counts once: PRIVACY.md R85.
Periods that are refreshed alone have data versions: PRIVACY.md R103.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from hashlib import sha256
from itertools import chain as joined
from typing import NamedTuple

from dpsql.ledgers import Ceiling, Stopped, codec, delegates
from dpsql.ledgers.delegates import names_below
from dpsql.ledgers.windows import (
    LossSums,
    OpenWindow,
    Share,
    loss_of,
    numbers_of,
    period_key,
    read_sums,
    read_window,
)
from dpsql.model.calendars import Calendar, read_calendar
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.vocabulary import Fact, Loss


class EntryKind(StrEnum):
    """Kinds of entries."""

    OPENED = "opened"  # detail: the ledger's id
    CHARGE = "charge"
    ANSWER = "answer"  # detail: sha256 (hex) of the stored answer of query_id
    REFRESH = "refresh"  # detail: the data versions of some periods; None for all data
    FACTS = "facts"  # detail: facts and the identity of the files
    ACCEPTED = "accepted"  # detail: the file's identity, or what became of an analyst's login;
    # or event: the roles; or question: the guarantee
    LATE = "late"  # of an analyst; detail: the query id
    STOPPED = "stopped"  # a budget or an analyst; detail: the owner's reason
    RESUMED = "resumed"  # as above; clears an analyst's late answers
    LIMIT = "limit"  # budget: a title; event: its scope; detail: the reason; analyst: an agent
    SHARED = "shared"  # with an analyst; detail: the query id; event: earlier holders
    WINDOW = "window"  # budget: a calendar; question: a name; event: a `Turn`; detail: the reason
    CHECKPOINT = "checkpoint"  # detail: the state after the entries before it


class Turn(StrEnum):
    """Reasons for which a window opens, or gets another name."""

    NEXT = "next"  # a charge came later than the open window
    CONFIRMED = "confirmed"  # the owner opened it
    CORRECTED = "corrected"  # the owner corrected a clock that ran ahead: nothing opens


class EntryRow(NamedTuple):
    """One entry, column by column; `time` in microseconds since 1970 UTC.

    `amount` and `delta` are those of a `Loss`, whose further coordinates are in the `detail` of a
    charge, or the `event` of a share. Fields that a kind does not use are None.
    """

    sequence: int
    kind: str
    time: int
    data_version: int
    query_id: str | None = None
    analyst: str | None = None
    budget: str | None = None
    accountant: str | None = None
    epsilon: str | None = None
    amount: int | None = None
    delta: int | None = None
    event: str | None = None
    question: str | None = None
    policy_version: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """State after the entries up to `sequence`; `hash` is the last one's.

    `recorded` is true if facts were ever recorded; `facts` are those of the present data version.
    `accountants` are by budget, `losses` by budget (in a period of people, or whole) and
    analyst, `limits` by title. `shared` is the
    price of shared answers, by budget, analyst, and earlier holders. `checkpoint` is the last entry
    that states all of this. `windows` are the open ones, by the text of their calendar.
    `delegations` are by agent, also ended ones. `time` is the latest since the first of them.
    `refreshed` has the data versions of periods that were refreshed alone, by rule.
    `roles` are those of the policy that was opened last, in words. `guarantee` has what each of its
    keys said last of what is protected.
    """

    sequence: int = -1
    hash: bytes = bytes(32)
    ledger: str = ""
    data_version: int = 1
    files: str = ""
    facts: frozenset[Fact] = frozenset()
    recorded: bool = False
    checkpoint: int = -1
    accountants: dict[str, str] = field(default_factory=dict)
    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)
    shared: dict[Share, Loss] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    limits: dict[str, Ceiling] = field(default_factory=dict)
    stopped: frozenset[Stopped] = frozenset()
    windows: dict[str, OpenWindow] = field(default_factory=dict)
    delegations: delegates.Delegations = field(default_factory=dict)
    time: int = 0
    refreshed: dict[str, dict[str, int]] = field(default_factory=dict)
    roles: str = ""
    guarantee: dict[str, str] = field(default_factory=dict)

    def charged(self) -> set[str]:
        """Return all analysts with losses, and all who received answers."""
        return {by for _, by in self.losses} | {by for _, by, _ in self.shared}

    @property
    def sums(self) -> LossSums:
        """All sums since the first entry."""
        return LossSums(self.losses, self.shared)

    def spent(
        self,
        budget: str | None,
        analysts: frozenset[str] | None = None,
        calendar: Calendar | None = None,
    ) -> Loss:
        """Return the spending of a budget (None: of all), by these analysts (None: by all).

        With a calendar, only that in its open window. Agents spend for their delegators. A shared
        answer counts once for the analysts, with the first of them who had it.
        """
        analysts = None if analysts is None else names_below(self.delegations, analysts)
        window = None if calendar is None else self.windows.get(calendar.text)
        whole = self.sums.spent(budget, analysts)
        if window is None:
            return whole
        return whole - window.before.spent(budget, analysts)

    def spent_in(
        self,
        budget: str | None,
        rule: str,
        periods: Sequence[str],
        analysts: frozenset[str] | None = None,
    ) -> tuple[Loss, ...]:
        """Return the spending of a budget (None: of all) in each of these periods of people.

        Analysts are as in `spent`.
        """
        analysts = None if analysts is None else names_below(self.delegations, analysts)
        budgets = [*self.accountants] if budget is None else [budget]
        every = [(Loss(0),) * len(periods)]
        every += [self.sums.spent_in(name, rule, periods, analysts) for name in budgets]
        return tuple(sum(losses, Loss(0)) for losses in zip(*every, strict=True))

    def text(self) -> str:
        """Return the state as canonical JSON, without its place in the chain."""
        losses, shared = self.sums.lists()
        limits = {
            title: [c.most.amount, c.most.delta, *codec.scope(c)]
            for title, c in self.limits.items()
        }
        stopped = sorted([s.budget or "", s.analyst or ""] for s in self.stopped)
        windows = {text: window.lists() for text, window in self.windows.items()}
        agents = delegates.delegation_lists(self.delegations)
        return codec.canonical(
            {
                **({"shared": shared} if shared else {}),
                **({"windows": windows} if windows else {}),
                **({"delegations": agents, "time": self.time} if agents else {}),
                **({"refreshed": self.refreshed} if self.refreshed else {}),
                **({"roles": self.roles} if self.roles else {}),
                **({"guarantee": self.guarantee} if self.guarantee else {}),
                "ledger": self.ledger,
                "data_version": self.data_version,
                "facts": codec.encode_facts(self.facts, self.files),
                "recorded": self.recorded,
                "accountants": self.accountants,
                "losses": losses,
                "late": self.late,
                "limits": limits,
                "stopped": stopped,
            }
        )


def checkpointed(row: EntryRow, recorded: bytes) -> State:
    """Return the state in a checkpoint; raises BrokenChain if it is not one.

    Its hash is in the chain that the mark ends: trust in the end includes this.
    """
    try:
        read = json.loads(str(row.detail))
        files, facts = codec.decode_facts(read["facts"])
        sums = read_sums(read["losses"], read.get("shared", []))
        return State(
            row.sequence,
            recorded,
            read["ledger"],
            read["data_version"],
            files=files,
            facts=facts,
            recorded=read["recorded"] is True,
            checkpoint=row.sequence,
            accountants=dict(read["accountants"]),
            losses=dict(sums.losses),
            shared=dict(sums.shared),
            late=dict(read["late"]),
            limits={
                title: codec.ceiling_of(title, parts) for title, parts in read["limits"].items()
            },
            stopped=frozenset(Stopped(of or None, by or None) for of, by in read["stopped"]),
            windows={text: read_window(of) for text, of in read.get("windows", {}).items()},
            delegations=delegates.read_delegations(read.get("delegations", ())),
            time=max(row.time, read["time"]) if "time" in read else 0,
            refreshed={rule: dict(of) for rule, of in read.get("refreshed", {}).items()},
            roles=str(read.get("roles", "")),
            guarantee=dict(read.get("guarantee", {})),
        )
    except (TypeError, ValueError, KeyError):
        raise BrokenChain(row.sequence) from None


START = State()


class BrokenChain(Exception):
    """Entry `sequence` is not the entry that was written there."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        super().__init__(f"entry {sequence} is not what was written")


def link(previous: bytes, row: EntryRow) -> bytes:
    """Return the hash of an entry: sha256 of the previous hash and the row as a JSON list.

    >>> link(bytes(32), EntryRow(0, "opened", 0, 1)).hex()[:16]
    'c7c6ee484db9dc41'
    """
    return sha256(previous + codec.canonical(row).encode("ascii")).digest()


def extend(state: State, rows: Iterable[tuple[EntryRow, bytes]]) -> State:
    """Return the state after these rows, each with its recorded hash, in order.

    Raises BrokenChain at the first row that does not follow from the one before.
    """
    entries = iter(rows)
    first = next(entries, None)
    if first is None:
        return state  # every call checks this, and most of them have nothing new
    fold, sequence, last = _Fold(state), state.sequence, state.hash
    for row, recorded in joined((first,), entries):
        sequence += 1
        if row.sequence != sequence or link(last, row) != recorded:
            raise BrokenChain(sequence)
        try:
            fold.add(row)
        except (TypeError, ValueError, KeyError):
            raise BrokenChain(sequence) from None
        last = recorded
    return fold.state(sequence, last)


class _Fold:
    """A state to which rows are added; opening a ledger of 100,000 entries waits for this."""

    def __init__(self, state: State) -> None:
        self._ledger, self._version = state.ledger, state.data_version
        self._files, self._facts, self._recorded = state.files, state.facts, state.recorded
        self._checkpoint = state.checkpoint
        self._accountants = dict(state.accountants)
        self._losses = {key: numbers_of(loss) for key, loss in state.losses.items()}
        self._shared = dict(state.shared)
        self._late, self._limits = dict(state.late), dict(state.limits)
        self._stopped, self._windows = set(state.stopped), dict(state.windows)
        self._delegations, self._time = dict(state.delegations), state.time
        self._refreshed = dict(state.refreshed)
        self._roles, self._guarantee = state.roles, dict(state.guarantee)

    def add(self, row: EntryRow) -> None:
        """Add one checked row; raises ValueError, TypeError or KeyError if it is invalid."""
        match row.kind:
            case EntryKind.CHARGE:
                self._debit(row)
            case EntryKind.SHARED:
                self._share(row)
            case EntryKind.ANSWER:
                pass
            case EntryKind.ACCEPTED:
                self._roles = self._roles if row.event is None else row.event
                self._guarantee |= json.loads(row.question or "{}")
            case EntryKind.LATE:
                self._late[str(row.analyst)] = self._late.get(str(row.analyst), 0) + 1
            case EntryKind.STOPPED:
                self._stopped.add(Stopped(row.budget, row.analyst))
            case EntryKind.RESUMED:
                self._stopped.discard(Stopped(row.budget, row.analyst))
                self._late.pop(str(row.analyst), None)
            case EntryKind.LIMIT:
                self._limit(row)
            case EntryKind.WINDOW:
                self._turn(row)
            case EntryKind.CHECKPOINT:
                if row.detail != self.state(row.sequence, b"").text():
                    raise ValueError("a checkpoint is not what the entries before it say")
                self._checkpoint = row.sequence
            case EntryKind.OPENED:
                self._ledger = str(row.detail)
            case EntryKind.REFRESH:
                self._refresh(row.detail)
            case EntryKind.FACTS:
                self._files, self._facts = codec.decode_facts(str(row.detail))
                self._recorded = self._recorded or bool(self._facts)
            case _:
                raise ValueError("an entry of no known kind")
        if row.data_version != self._version:
            raise ValueError("data versions follow one another")
        if self._delegations:
            self._time = max(self._time, row.time)

    def _debit(self, row: EntryRow) -> None:
        budget, analyst, accountant = row.budget, row.analyst, row.accountant
        if budget is None or analyst is None or accountant is None:
            raise ValueError("a charge names its budget, its analyst and its accountant")
        if self._accountants.setdefault(budget, accountant) != accountant:
            raise ValueError("a budget was charged under two accountants")
        self._require_windows(codec.decode_windows(row.detail))
        numbers = (*_amounts(row), *codec.decode_further(row.detail))
        rule, periods = codec.decode_periods(row.detail)
        for name in [period_key(budget, rule, each) for each in periods] or [budget]:
            before = self._losses.get((name, analyst), (0, 0))
            if len(before) == len(numbers) == 2:  # noqa: PLR2004
                after: tuple[int, ...] = (before[0] + numbers[0], before[1] + numbers[1])
            else:
                after = numbers_of(loss_of(*before) + loss_of(*numbers))
            self._losses[name, analyst] = after

    def _share(self, row: EntryRow) -> None:
        budget, analyst = row.budget, row.analyst
        before, windows = codec.decode_holders(row.event or "[]")
        self._require_windows(windows)
        if budget is None or analyst is None or not before or analyst in before:
            raise ValueError("an answer is shared with an analyst by those who had it")
        rule, periods = codec.decode_periods(row.event)
        for name in [period_key(budget, rule, each) for each in periods] or [budget]:
            share = name, analyst, before
            self._shared[share] = self._shared.get(share, Loss(0)) + loss_in(row)

    def _refresh(self, periods: str | None) -> None:
        """Start a data version of all data, or of some periods; facts are of earlier data."""
        self._files, self._facts = "", frozenset()
        if periods is None:
            self._version += 1
            return
        rule, versions = codec.decode_versions(periods)
        before = self._refreshed.get(rule, {})
        if not versions or any(n != before.get(name, 1) + 1 for name, n in versions.items()):
            raise ValueError("data versions of a period follow one another")
        self._refreshed[rule] = before | versions

    def _require_windows(self, windows: dict[str, str]) -> None:
        """Check that a charge names the open window of each of its calendars."""
        if any(self._windows[text].name != name for text, name in windows.items()):
            raise ValueError("a charge counts in the open window")

    def _turn(self, row: EntryRow) -> None:
        """Open a window, or correct the name of the open one; time goes back for the owner
        alone.
        """
        calendar, name, turn = (
            read_calendar(str(row.budget)),
            str(row.question),
            Turn(str(row.event)),
        )
        first, before = calendar.first_day(name), self._windows.get(calendar.text)
        if before is None:
            self._windows[calendar.text] = OpenWindow(name)
            return
        later = first > calendar.first_day(before.name)
        if later != (turn is not Turn.CORRECTED) or (before.leapt and turn is Turn.NEXT):
            raise ValueError("ledger time goes forward by one window, and never back")
        if turn is Turn.CORRECTED:
            self._windows[calendar.text] = before.correct(calendar, name)
            return
        losses = {key: loss_of(*sums) for key, sums in self._losses.items()}
        opened = before.follow(calendar, name, LossSums(losses, dict(self._shared)))
        leapt = opened.leapt and turn is Turn.NEXT
        self._windows[calendar.text] = replace(opened, leapt=leapt)

    def _limit(self, row: EntryRow) -> None:
        """Set a limit from this row on; remove it if the row has no amount."""
        title = str(row.budget)
        if row.analyst is not None:
            self._delegate(row, row.analyst)
        if row.amount is None:
            self._limits.pop(title, None)
            return
        self._limits[title] = limit_in(row)

    def _delegate(self, row: EntryRow, agent: str) -> None:
        """Begin, change or revoke a delegation."""
        if row.amount is None:
            self._delegations[agent] = replace(self._delegations[agent], revoked=True)
            return
        scope_of = json.loads(str(row.event))
        budget, epsilon, terms = str(scope_of[0]), str(row.epsilon), str(row.policy_version)
        new = delegates.read_delegation(agent, str(row.question), budget, epsilon, terms)
        if row.budget != new.title or scope_of[1:3] not in ([[agent]], [[agent], None]):
            raise ValueError("the limit of a delegation covers its agent")
        charged = {by for _, by in self._losses} | {by for _, by, _ in self._shared}
        delegates.require_chain(self._delegations, new, charged)
        self._delegations[agent] = new

    def state(self, sequence: int, last: bytes) -> State:
        """Return the state so far."""
        return State(
            sequence,
            last,
            self._ledger,
            self._version,
            files=self._files,
            facts=self._facts,
            recorded=self._recorded,
            checkpoint=self._checkpoint,
            accountants=self._accountants,
            losses={key: loss_of(*sums) for key, sums in self._losses.items()},
            shared=dict(self._shared),
            late=self._late,
            limits=self._limits,
            stopped=frozenset(self._stopped),
            windows=dict(self._windows),
            delegations=dict(self._delegations),
            time=self._time,
            refreshed=dict(self._refreshed),
            roles=self._roles,
            guarantee=dict(self._guarantee),
        )


def limit_in(row: EntryRow) -> Ceiling:
    """Return the limit of an entry; raises ValueError if it has no amounts."""
    return codec.ceiling_of(str(row.budget), [*_amounts(row), *json.loads(row.event or "[]")])


def loss_in(row: EntryRow) -> Loss:
    """Return the loss of a charge or a share; raises ValueError if it is invalid."""
    text = row.event if row.kind == EntryKind.SHARED else row.detail
    return loss_of(*_amounts(row), *codec.decode_further(text))


def _amounts(row: EntryRow) -> tuple[int, int]:
    if row.amount is None or row.delta is None or row.amount < 0 or row.delta < 0:
        raise ValueError("an amount of privacy is never negative")
    return row.amount, row.delta
