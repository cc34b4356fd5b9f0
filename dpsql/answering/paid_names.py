"""The names that analysts gave to what they paid for: read from the ledger, which has their texts.

A name lasts as long as policy and data. What cost nothing, being remembered under another name, is
written down too, so often that nobody fills the ledger with it; after that, a name lasts as long as
the process.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

from dpsql.answering.vault import Vault
from dpsql.ledgers import Entry, Inquiry
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS, Event, Loss, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Cost, account

T = TypeVar("T")

AS_THE_DATA, AS_THE_PROCESS = "as long as the data", "as long as this process"
MOST_ENTRIES = 10_000
"""Entries of the ledger among which a name is looked for."""
MOST_NAMES = 1_000
"""Names of one analyst, of one kind; and entries about them that cost nothing."""

Owner: TypeAlias = tuple[str, str, int]
"""An analyst, the policy's version, and the data version."""

Reader: TypeAlias = Callable[[Entry], tuple[str, T | None] | None]
"""The name that an entry is about and what it now stands for, nothing if it is given up; None of an
entry about no name. May raise `Refused`."""


def owner(compiler: Compiler, vault: Vault, analyst: str) -> Owner:
    """Whose names an analyst has, now."""
    return analyst, compiler.policy.version, vault.ledger.data_version()


def request_of(entry: Entry) -> Request:
    """The request that an entry was made for."""
    door = entry.inquiry.door
    spelling = door if door in SPELLINGS else DEFAULT_SPELLING
    return Request(entry.inquiry.sql, entry.analyst, spelling, epsilon=entry.epsilon, door=door)


def write_down(compiler: Compiler, vault: Vault, request: Request) -> None:
    """An entry of the ledger that has the text of a request, and costs nothing.

    Raises `Refused` where the budget takes no charge any more.
    """
    payer = account(compiler.policy, request.analyst, request.epsilon)
    query_id = secrets.token_hex(8)
    inquiry = Inquiry(request.door, request.client, request.sql)
    cost = Cost(sha256(query_id.encode()).hexdigest(), Event(()), Loss(0))
    vault.ledger.charge(payer.charge(query_id, cost, compiler.policy.version, inquiry))
    vault.ledger.remember(query_id, ())


class PaidNames(Generic[T]):
    """What the names of all analysts stand for, by them in lower case: thread-safe."""

    def __init__(self, read: Reader[T]) -> None:
        self._read = read
        self._names: dict[Owner, dict[str, T]] = {}
        self._free: Counter[Owner] = Counter()
        self._lock = Lock()

    def of(self, vault: Vault, whose: Owner) -> dict[str, T]:
        """The names of an analyst; what is changed in it stays."""
        with self._lock:
            if whose not in self._names:
                self._names[whose] = self._recorded(vault, whose)
            return self._names[whose]

    def written_down(
        self, compiler: Compiler, vault: Vault, whose: Owner, request: Request
    ) -> bool:
        """Whether the ledger has a request about a name, which cost nothing, from now on.

        Not where that would be too many, or its budget takes no charge any more.
        """
        with self._lock:
            if self._free[whose] >= MOST_NAMES:
                return False
            self._free[whose] += 1
        try:
            write_down(compiler, vault, request)
        except Refused:
            return False
        return True

    def _recorded(self, vault: Vault, whose: Owner) -> dict[str, T]:
        """Those of the ledger, oldest first, so that a later one of the same name counts."""
        result, (analyst, *versions) = dict[str, T](), whose
        for entry in reversed(vault.ledger.history(analyst, MOST_ENTRIES)):
            if not entry.remembered or [entry.policy_version, entry.data_version] != versions:
                continue
            try:
                meaning_of = self._read(entry)
            except Refused:
                continue
            if meaning_of is None:
                continue
            self._free[whose] += entry.loss == Loss(0)
            name, meaning = meaning_of
            result.pop(name.lower(), None)
            if meaning is not None:
                result[name.lower()] = meaning
        return result
