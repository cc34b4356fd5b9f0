"""Names of paid objects (models, synthetic tables), read from the texts in the ledger.

A name lasts as long as the data. Its object is there as long as the policy says the same of what
its measurement reads. A free object, remembered under another name, is recorded too, up to a limit
that protects the ledger. Beyond it, a name lasts as long as the process.

Proof (PRIVACY.md R105). Objects are kept under the rights with which they were made or read. With
other rights, their statements are planned again, and may be refused.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Generic, Protocol, Self, TypeAlias, TypeVar

from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.ledgers import Entry, Inquiry
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import NO_TIME, ChargedPeriods
from dpsql.model.table_names import unknown_name
from dpsql.model.tree import VARCHAR
from dpsql.model.vocabulary import (
    DEFAULT_SPELLING,
    SPELLINGS,
    Answer,
    Column,
    Event,
    Loss,
    Receipt,
    Request,
)
from dpsql.policy.restrict import rights_of
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Cost, account
from dpsql.vault.vault import Vault

DROPPED = (Column("dropped", VARCHAR),)
"""Column of the answer to a DROP statement."""
AS_THE_DATA, AS_THE_PROCESS = "as long as the data", "as long as this process"
MOST_ENTRIES = 10_000
"""Number of the ledger's entries that are searched for names."""
MOST_NEWS = 100
"""Number of latest entries that are read first after a change of the ledger.

An entry with an answer later than this many newer charges of the analyst is seen after a
restart.
"""
MOST_NAMES = 1_000
"""Limit on the names of one analyst, of one kind."""
MOST_FREE = 1_000
"""Limit on free entries about the names of one analyst, of one kind."""

Owner: TypeAlias = tuple[str, str, str, int]
"""An analyst with its rights, the policy's version, and the data version."""


class PaidName(Protocol):
    """Object of a name, which can be made again from remembered answers."""

    @property
    def name(self) -> str:
        """Name in its spelling."""

    @property
    def what(self) -> object:
        """Identity of the object, at any epsilon."""

    @property
    def recorded(self) -> bool:
        """True if the ledger has the name."""

    def as_recorded(self, *, recorded: bool) -> Self:
        """Return the object with another value of `recorded`."""


T = TypeVar("T", bound=PaidName)

Reader: TypeAlias = Callable[[Entry], tuple[str, T | None] | None]
"""Function that reads an entry: the name and its object, or None as object if it is dropped; None
for entries without names. May raise `Refused`.
"""


def owner(compiler: Compiler, vault: Vault, analyst: str) -> Owner:
    """Return the present key of an analyst's names."""
    policy = compiler.policy
    return analyst, rights_of(policy, analyst), policy.version, vault.ledger.data_version()


def request_of(entry: Entry) -> Request:
    """Return the request that an entry was made for."""
    door = entry.inquiry.door
    spelling = door if door in SPELLINGS else DEFAULT_SPELLING
    return Request(entry.inquiry.sql, entry.analyst, spelling, epsilon=entry.epsilon, door=door)


def write_down(compiler: Compiler, vault: Vault, request: Request) -> str:
    """Record a request in the ledger without a charge; return the entry's id.

    Raises `Refused` if the budget takes no more charges.
    """
    payer = account(compiler.policy, request.analyst, request.epsilon, chain=request.chain)
    if payer.rule is not None:  # a loss of 0 in some period
        payer = replace(payer, periods=ChargedPeriods(payer.rule, (NO_TIME,), ""))
    query_id = secrets.token_hex(8)
    inquiry = Inquiry(request.door, request.client, request.sql)
    cost = Cost(sha256(query_id.encode()).hexdigest(), Event(()), Loss(0))
    vault.ledger.charge(payer.charge(query_id, cost, BY_PLAN, inquiry))
    vault.ledger.remember(query_id, ())
    return query_id


@dataclass(frozen=True, slots=True)
class _Seen:
    """Progress in reading the ledger: its stamp then, its newest entry, and those without an
    answer.

    An entry without an answer yet may belong to another process that is still at work.
    """

    stamp: object
    newest: str | None
    waiting: frozenset[str]


class PaidNames(Generic[T]):
    """Objects of all analysts' names, by the name in lower case: thread-safe.

    `kind` is their kind in statements; `changes` counts the changes of names.
    """

    def __init__(self, kind: str, read: Reader[T]) -> None:
        self.kind = kind
        self.changes = 0
        self._read = read
        self._names: dict[Owner, dict[str, T]] = {}
        self._seen: dict[Owner, _Seen] = {}
        self._own: set[tuple[Owner, str]] = set()
        self._free: Counter[Owner] = Counter()
        self._lock = Lock()

    def of(self, vault: Vault, whose: Owner) -> dict[str, T]:
        """Return the names of an analyst, including those from other processes with the same
        ledger.
        """
        with self._lock:
            stamp, seen = vault.ledger.stamp(), self._seen.get(whose)
            if seen is None or seen.stamp != stamp:
                self._names[whose] = self._read_on(vault, whose, seen, stamp)
            return self._names[whose]

    def unknown(self, vault: Vault, whose: Owner, name: str) -> Refused:
        """Return the refusal of an unknown name, or of a name with a forgotten object."""
        names = self.of(vault, whose)
        if (named := names.get(name.lower())) is not None:
            return Refused(Reason.UNKNOWN_NAME, role=self.kind, lost=named.name)
        return unknown_name(self.kind, name, tuple(each.name for each in names.values()))

    def require_free(self, vault: Vault, whose: Owner, named: T) -> None:
        """Raise `Refused` if the name means something else, or if there are too many."""
        names = self.of(vault, whose)
        before = names.get(named.name.lower())
        if before is None and len(names) >= MOST_NAMES:
            raise Refused(Reason.TOO_LARGE, what=f"{self.kind}s", limit=MOST_NAMES)
        if before is not None and before.what != named.what:
            why = f"there is a {self.kind} {named.name}"
            fix = f"Take another name, or DROP {self.kind.upper()} {named.name}."
            raise Refused(Reason.BAD_OPTION, option="name", why=why, fix=fix)

    def put(
        self, compiler: Compiler, vault: Vault, request: Request, named: T, receipt: Receipt
    ) -> str:
        """Set a name for the result of a request. Returns its duration in words."""
        whose, key = owner(compiler, vault, request.analyst), named.name.lower()
        names = self.of(vault, whose)
        recorded = not receipt.remembered or (key in names and names[key].recorded)
        recorded = recorded or self._written_down(compiler, vault, whose, request)
        self._change(whose, key, named.as_recorded(recorded=recorded), receipt.query_id)
        return AS_THE_DATA if recorded else AS_THE_PROCESS

    def drop(self, compiler: Compiler, vault: Vault, request: Request, name: str) -> Answer:
        """Drop a name, also in the ledger if it is there; paid answers stay remembered.

        Raises `Refused` if there is none.
        """
        whose = owner(compiler, vault, request.analyst)
        names, key = self.of(vault, whose), name.lower()
        named = names.get(key)
        if named is None:
            raise self.unknown(vault, whose, name)
        entry = write_down(compiler, vault, request) if named.recorded else ""
        self._change(whose, key, None, entry)
        return Answer(DROPPED, ((named.name,),), ((None,),), ((None,),))

    def _written_down(
        self, compiler: Compiler, vault: Vault, whose: Owner, request: Request
    ) -> bool:
        """Record a free request about a name; return True if the ledger has it now.

        False if there are too many, or if its budget takes no more charges.
        """
        with self._lock:
            if self._free[whose] >= MOST_FREE:
                return False
            self._free[whose] += 1
        try:
            self._own.add((whose, write_down(compiler, vault, request)))
        except Refused:
            return False
        return True

    def _change(self, whose: Owner, key: str, named: T | None, entry: str) -> None:
        """Set or drop a name by an entry of this process."""
        with self._lock:
            others = {name: each for name, each in self._names[whose].items() if name != key}
            self._names[whose] = others if named is None else {**others, key: named}
            self._own.add((whose, entry))
            self.changes += 1  # the ledger's stamp does not show unrecorded names

    def _read_on(
        self, vault: Vault, whose: Owner, seen: _Seen | None, stamp: object
    ) -> dict[str, T]:
        """Return the names after the entries of others, oldest first; the latest of a name
        counts.
        """
        analyst, _rights, version, data = whose
        entries = _latest(vault, analyst, seen)
        names, waiting = dict(self._names.get(whose, {})), set[str]()
        for entry in reversed(entries):
            if entry.data_version != data or entry.policy_version not in {BY_PLAN, version}:
                continue
            if (whose, entry.query_id) in self._own:
                continue
            try:
                meaning_of = self._read(entry)
            except Refused:
                continue
            if meaning_of is None:
                continue
            if not entry.remembered:
                waiting.add(entry.query_id)
                continue
            self._free[whose] += entry.loss == Loss(0)
            name, meaning = meaning_of
            names.pop(name.lower(), None)
            if meaning is not None:
                names[name.lower()] = meaning
        newest = entries[0].query_id if entries else None
        newest = newest if seen is None or newest not in seen.waiting else seen.newest
        self._seen[whose] = _Seen(stamp, newest, frozenset(waiting))
        self.changes += seen is not None
        return names


def _latest(vault: Vault, analyst: str, seen: _Seen | None) -> list[Entry]:
    """Return an analyst's entries, newest first, that are new or had no answer at the last
    reading.
    """
    if seen is None:
        return list(vault.ledger.history(analyst, MOST_ENTRIES))
    count = MOST_NEWS
    while True:
        entries = vault.ledger.history(analyst, count)
        places = [n for n, entry in enumerate(entries) if entry.query_id == seen.newest]
        if places or len(entries) < count or count >= MOST_ENTRIES:
            break
        count = min(MOST_ENTRIES, 10 * count)
    behind = places[0] if places else len(entries)
    old = [entry for entry in entries[behind:] if entry.query_id in seen.waiting]
    return [*entries[:behind], *old]
