"""The chain: each entry's hash covers the entry and the hash before it.

What a ledger knows (amounts spent, data version, facts) is folded from entries whose hashes were
checked, and from nothing else.

Edits are found: SECURITY.md S16.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from dpsql.ledgers.codec import canonical, decode_facts
from dpsql.model.vocabulary import Fact, Loss


class EntryKind(StrEnum):
    """What an entry records."""

    OPENED = "opened"  # detail: the ledger's id
    CHARGE = "charge"
    ANSWER = "answer"  # detail: sha256 (hex) of the stored answer of query_id
    REFRESH = "refresh"
    FACTS = "facts"  # detail: facts and the identity of the files
    ACCEPTED = "accepted"  # detail: the file's identity
    LATE = "late"  # of an analyst; detail: the query id
    RESUMED = "resumed"  # of an analyst, whose late answers no longer count


class EntryRow(NamedTuple):
    """One entry, column by column; `time` in microseconds since 1970 UTC.

    `amount` and `delta` are those of a `Loss`; fields that a kind does not use are None.
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
class Pot:
    """What one budget has spent, and under which accountant."""

    accountant: str
    spent: Loss


@dataclass(frozen=True, slots=True)
class State:
    """What the entries up to `sequence` say; `hash` is the last one's.

    `recorded` says that facts were ever recorded, `facts` those of the present data version.
    """

    sequence: int = -1
    hash: bytes = bytes(32)
    ledger: str = ""
    data_version: int = 1
    files: str = ""
    facts: frozenset[Fact] = frozenset()
    recorded: bool = False
    pots: dict[str, Pot] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)

    def spent(self, budget: str) -> Loss:
        """What a budget has spent: zero if it was never charged."""
        pot = self.pots.get(budget)
        return Loss(0) if pot is None else pot.spent


START = State()


class BrokenChain(Exception):
    """Entry `sequence` is not what was written there."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        super().__init__(f"entry {sequence} is not what was written")


def link(previous: bytes, row: EntryRow) -> bytes:
    """The hash of an entry: sha256 of the previous hash and the row as a JSON list.

    >>> link(bytes(32), EntryRow(0, "opened", 0, 1)).hex()[:16]
    'c7c6ee484db9dc41'
    """
    return sha256(previous + canonical(row).encode("ascii")).digest()


def extend(state: State, rows: Iterable[tuple[EntryRow, bytes]]) -> State:
    """The state after these rows, each with its recorded hash, in order.

    Raises BrokenChain at the first row that does not follow from the one before.
    """
    fold, sequence, last = _Fold(state), state.sequence, state.hash
    for row, recorded in rows:
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
    """A state being added up; opening a ledger of 100,000 entries waits for this."""

    def __init__(self, state: State) -> None:
        self._ledger, self._version = state.ledger, state.data_version
        self._files, self._facts, self._recorded = state.files, state.facts, state.recorded
        self._totals = {
            (budget, pot.accountant): (pot.spent.amount, pot.spent.delta)
            for budget, pot in state.pots.items()
        }
        self._late = dict(state.late)

    def add(self, row: EntryRow) -> None:
        """Take in one checked row; raises ValueError, TypeError or KeyError if it is none."""
        match row.kind:
            case EntryKind.CHARGE:
                self._debit(row)
            case EntryKind.ANSWER | EntryKind.ACCEPTED:
                pass
            case EntryKind.LATE:
                self._late[str(row.analyst)] = self._late.get(str(row.analyst), 0) + 1
            case EntryKind.RESUMED:
                self._late.pop(str(row.analyst), None)
            case EntryKind.OPENED:
                self._ledger = str(row.detail)
            case EntryKind.REFRESH:
                self._version, self._files, self._facts = self._version + 1, "", frozenset()
            case EntryKind.FACTS:
                self._files, self._facts = decode_facts(str(row.detail))
                self._recorded = self._recorded or bool(self._facts)
            case _:
                raise ValueError("an entry of no known kind")
        if row.data_version != self._version:
            raise ValueError("data versions follow one another")

    def _debit(self, row: EntryRow) -> None:
        budget, accountant, amount, delta = row.budget, row.accountant, row.amount, row.delta
        if budget is None or accountant is None or amount is None or delta is None:
            raise ValueError("a charge names its budget, its accountant and its loss")
        if amount < 0 or delta < 0:
            raise ValueError("a charge is never negative")
        before = self._totals.get((budget, accountant), (0, 0))
        self._totals[budget, accountant] = (before[0] + amount, before[1] + delta)

    def state(self, sequence: int, last: bytes) -> State:
        """The state so far; raises BrokenChain if a budget was charged under two accountants."""
        pots = {
            budget: Pot(accountant, Loss(amount, delta))
            for (budget, accountant), (amount, delta) in self._totals.items()
        }
        if len(pots) != len(self._totals):
            raise BrokenChain(sequence)
        facts = self._ledger, self._version, self._files, self._facts, self._recorded
        return State(sequence, last, *facts, pots, self._late)
