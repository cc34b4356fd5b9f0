"""The chain: each entry's hash covers the entry and the hash before it.

What a ledger knows (amounts spent, data version, facts) is folded from entries whose hashes were
checked, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from dpsql.ledgers.codec import canonical, decode_facts
from dpsql.model import Fact, Loss


class Kind(StrEnum):
    """What an entry records."""

    OPENED = "opened"  # detail: the ledger's id
    CHARGE = "charge"
    ANSWER = "answer"  # detail: sha256 (hex) of the stored answer of query_id
    REFRESH = "refresh"
    FACTS = "facts"  # detail: facts and the identity of the files
    ACCEPTED = "accepted"  # detail: the file's identity


class Row(NamedTuple):
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
    """What the entries up to `sequence` say; `hash` is the last one's."""

    sequence: int = -1
    hash: bytes = bytes(32)
    ledger: str = ""
    data_version: int = 1
    files: str = ""
    facts: frozenset[Fact] = frozenset()
    pots: dict[str, Pot] = field(default_factory=dict)

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


def link(previous: bytes, row: Row) -> bytes:
    """The hash of an entry: sha256 of the previous hash and the row as a JSON list.

    >>> link(bytes(32), Row(0, "opened", 0, 1)).hex()[:16]
    'c7c6ee484db9dc41'
    """
    return sha256(previous + canonical(row).encode("ascii")).digest()


def extend(state: State, rows: Iterable[tuple[Row, bytes]]) -> State:
    """The state after these rows, each with its recorded hash, in order.

    Raises BrokenChain at the first row that does not follow from the one before.
    """
    pots = dict(state.pots)
    for row, recorded in rows:
        if row.sequence != state.sequence + 1 or link(state.hash, row) != recorded:
            raise BrokenChain(state.sequence + 1)
        try:
            state = _folded(state, row, recorded, pots)
        except (TypeError, ValueError, KeyError):
            raise BrokenChain(row.sequence) from None
    return replace(state, pots=pots)


def _folded(state: State, row: Row, recorded: bytes, pots: dict[str, Pot]) -> State:
    """The state after one checked row; the new total of a charged budget goes into `pots`."""
    ledger, version = state.ledger, state.data_version
    files, facts = state.files, state.facts
    match Kind(row.kind):
        case Kind.OPENED:
            ledger = str(row.detail)
        case Kind.CHARGE:
            _debit(row, pots)
        case Kind.REFRESH:
            version, files, facts = version + 1, "", frozenset()
        case Kind.FACTS:
            files, facts = decode_facts(str(row.detail))
        case Kind.ANSWER | Kind.ACCEPTED:
            pass
    if row.data_version != version:
        raise ValueError("data versions follow one another")
    return State(row.sequence, recorded, ledger, version, files, facts, state.pots)


def _debit(row: Row, pots: dict[str, Pot]) -> None:
    if row.budget is None or row.accountant is None or row.amount is None or row.delta is None:
        raise ValueError("a charge names its budget, its accountant and its loss")
    before = pots.get(row.budget, Pot(row.accountant, Loss(0)))
    if before.accountant != row.accountant:
        raise ValueError("accountants are never mixed")
    after = before.spent + Loss(row.amount, row.delta)
    pots[row.budget] = Pot(row.accountant, after)
