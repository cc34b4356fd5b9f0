"""The names that analysts gave to what they paid for: read from the ledger, which has their texts.

A name lasts as long as policy and data; a name of what cost nothing, being remembered under
another, is in no ledger and lasts as long as the process.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

from dpsql.answering.vault import Vault
from dpsql.ledgers import Entry
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS, Request
from dpsql.preparation.compilation import Compiler

T = TypeVar("T")

AS_THE_DATA, AS_THE_PROCESS = "as long as the data", "as long as this process"
MOST_ENTRIES = 10_000
"""Entries of the ledger among which a name is looked for."""
MOST_NAMES = 1_000
"""PaidNames of one analyst, of one kind."""

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
    return Request(entry.inquiry.sql, entry.analyst, spelling, door=door)


class PaidNames(Generic[T]):
    """What the names of all analysts stand for, by them in lower case: thread-safe."""

    def __init__(self, read: Reader[T]) -> None:
        self._read = read
        self._names: dict[Owner, dict[str, T]] = {}
        self._lock = Lock()

    def of(self, vault: Vault, whose: Owner) -> dict[str, T]:
        """The names of an analyst; what is changed in it stays."""
        with self._lock:
            if whose not in self._names:
                self._names[whose] = self._recorded(vault, whose[0])
            return self._names[whose]

    def _recorded(self, vault: Vault, analyst: str) -> dict[str, T]:
        """Those of the ledger, oldest first, so that a later one of the same name counts."""
        result = dict[str, T]()
        for entry in reversed(vault.ledger.history(analyst, MOST_ENTRIES)):
            try:
                meaning_of = self._read(entry) if entry.remembered else None
            except Refused:
                continue
            if meaning_of is None:
                continue
            name, meaning = meaning_of
            result.pop(name.lower(), None)
            if meaning is not None:
                result[name.lower()] = meaning
        return result
