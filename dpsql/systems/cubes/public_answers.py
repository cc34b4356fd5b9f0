"""CREATE DP TABLE: an answer that the owner publishes as a table, for the analysts of a budget.

It is measured and charged once, as a cube is. An analyst reads it by name, for free, if the roles
let them ask the same question. Columns with the ends of its intervals stand behind its own. The
first time an analyst reads it, it counts against their caps (PRIVACY.md R114).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import isfinite
from operator import add
from threading import Lock
from typing import Any, NoReturn

from dpsql.answering.free_tables import FreeTable, TablesAlone, missing_table
from dpsql.answering.shared_answers import shared
from dpsql.answering.side_systems import OpenSystem, Parts
from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.interfaces.data_frames import unique
from dpsql.interfaces.records import ENDS
from dpsql.ledgers import CUBES, Entry, Ledger, PaidAnswer, Stopped
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.delegation import Chain
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.row_notices import Published
from dpsql.model.tree import DOUBLE, INTERVAL
from dpsql.model.vocabulary import Answer, Column, ColumnPolicy, Loss, Request, TablePolicy
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.question import Question
from dpsql.systems.cubes.cubes import PUBLISHED, refuse_analyst
from dpsql.vault.answer_cache import MOST_CELLS

ABOUT = "published: noisy numbers, each with the ends of its 95 % interval in columns beside it"
"""Comment on a published table."""
_KIND = "published tables"
_FEW, _MORE = 100, 10


@dataclass(frozen=True, slots=True, eq=False)
class PublicAnswer:
    """A published table as one analyst sees it: its entry, and its question as theirs.

    `measured` are the places of noisy columns.
    """

    name: str
    entry: Entry
    query: Question
    columns: tuple[Column, ...]
    measured: tuple[int, ...]

    @property
    def policy(self) -> TablePolicy:
        """The table for a policy: its columns, then the ends of their intervals."""
        taken = {column.name for column in self.columns}
        noisy = [self.columns[n] for n in self.measured]
        ends = (
            Column(
                unique(end.replace("*", c.name), taken), INTERVAL if c.type == INTERVAL else DOUBLE
            )
            for pair in ENDS.values()
            for c in noisy
            for end in pair
        )
        listed = tuple(
            ColumnPolicy(column.name, column.type, nullable=True)
            for column in (*self.columns, *ends)
        )
        return TablePolicy(self.name, private=False, columns=listed, about=ABOUT)

    def rows(self, answer: Answer) -> Iterator[tuple[Any, ...]]:
        """Yield the rows with the ends of their intervals.

        An end that is unknown is NULL; both ends of an exact number are the number.
        """
        for row, intervals in zip(answer.rows, answer.intervals, strict=True):
            pairs = (intervals[n] or (row[n], row[n]) for n in self.measured)
            ends = tuple(map(_end, (end for pair in pairs for end in pair)))
            yield (*row, *ends * len(ENDS))

    def paid(self, parts: Parts) -> PaidAnswer:
        """Return the answer with its price. Raises `Refused` for a table of earlier data."""
        ledger, payer, entry = parts.vault.ledger, self.query.account, self.entry
        every = ledger.released(payer.analyst, payer.budget.name, entry.question, BY_PLAN)
        paid = next((each for each in every if each.query_id == entry.query_id), None)
        if paid is None:
            raise Refused(Reason.UNKNOWN_TABLE, table=self.name, old=f"{entry.time:%Y-%m-%d}")
        return paid

    def price(self, parts: Parts) -> Loss:
        """Return what reading it counts against this analyst's caps now."""
        payer, paid = self.query.account, self.paid(parts)
        return Loss(0) if payer.has(paid) else payer.price_of(paid)

    def receive(self, parts: Parts) -> Loss:
        """Record that the analyst has the table, if this is new; return what it counts now."""
        paid, query = self.paid(parts), self.query
        if query.account.has(paid):
            return Loss(0)
        try:
            return shared(parts.vault, query, self.entry.question, [paid])
        except Refused as refused:
            facts = {name: fact for name, fact in refused.facts.items() if name != "cube"}
            raise Refused(refused.reason, refused.span, **facts) from None

    def load(self, parts: Parts) -> FreeTable:
        """Return the rows of a table that the analyst has. Raises `Failed` if they have it not."""
        vault, query, paid = parts.vault, self.query, self.paid(parts)
        if not query.account.has(paid):
            raise Failed(paid.query_id, charged=False)
        question = self.entry.question
        answer = vault.memory.paid(parts.compiler, query, paid, question, vault.engine)
        return FreeTable(self.policy, tuple(self.rows(answer)))


def _end(value: Any) -> Any:
    """Return an end of an interval as a value of its column."""
    if isinstance(value, int | float) or hasattr(value, "as_tuple"):
        return float(value) if isfinite(value) else None
    return value


@dataclass(frozen=True, slots=True)
class ReadTables:
    """Answers to a request over published tables. `empty` has the same tables without rows."""

    tables: tuple[PublicAnswer, ...]
    empty: TablesAlone
    cache: BoundedCache[FreeTable]

    def answer(self, parts: Parts, request: Request) -> Answer:
        """Answer as `Proxy.ask` does.

        Empty tables are asked first, so that nothing counts for a request that is refused.
        """
        self.empty.answer(parts, request)
        counted = reduce(add, (table.receive(parts) for table in self.tables))
        loaded = [self._loaded(parts, table) for table in self.tables]
        answer = _alone(parts, self.tables, loaded).answer(parts, request)
        if counted == Loss(0) or answer.receipt is None:
            return answer
        return replace(answer, receipt=replace(answer.receipt, charged=counted, remembered=False))

    def _loaded(self, parts: Parts, table: PublicAnswer) -> FreeTable:
        """Return the rows of a table that was received, from memory if they are there."""
        key = table.query.request.analyst, table.entry.query_id
        loaded = self.cache.get(key)
        if loaded is None:
            loaded = table.load(parts)
            self.cache.put(key, loaded)
        return loaded

    def explain(self, parts: Parts, request: Request) -> Explanation:
        return self._priced(parts, self.empty.explain(parts, request))

    def inside(self, parts: Parts, request: Request) -> tuple[Parts, Request]:
        """Return parts that know empty tables of these names."""
        return self.empty.inside(parts, request)

    def _priced(self, parts: Parts, explanation: Explanation) -> Explanation:
        """Return a plan with what a first reading counts."""
        price = reduce(add, (table.price(parts) for table in self.tables))
        if price == Loss(0):
            return explanation
        standing, entry = (
            parts.vault.till.standing(self.tables[0].query.account),
            self.tables[0].entry,
        )
        return replace(
            explanation,
            charge=price,
            event=entry.event,
            epsilon=entry.epsilon,
            spent=standing.spent,
            limit=standing.limit,
            cap=standing.cap,
            window=standing.window,
        )


class PublicAnswers(OpenSystem):
    """The published tables of all budgets, read from the ledger. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stamp: object = None
        self._newest: str | None = None
        self._entries: dict[tuple[str, str], Entry] = {}
        self._cache: BoundedCache[FreeTable] = BoundedCache(
            MOST_CELLS, lambda table: 1 + len(table.rows) * len(table.policy.columns)
        )

    def ask(self, parts: Parts, request: Request, statement: Any) -> NoReturn:
        """Refuse: statements about them are the owner's."""
        del parts, request
        refuse_analyst(statement)

    def explain(self, parts: Parts, request: Request, statement: Any) -> NoReturn:
        """Refuse: statements about them are the owner's."""
        del parts, request
        refuse_analyst(statement)

    def columns(self, statement: Any) -> NoReturn:
        """Refuse: statements about them are the owner's."""
        refuse_analyst(statement)

    def tables(self, parts: Parts, analyst: str) -> tuple[TablePolicy, ...]:
        """Return the tables that an analyst may read. Nothing is counted."""
        is_agent = parts.compiler.policy.budget_of(analyst) is None
        chain = parts.vault.ledger.chain(analyst) if is_agent else ()
        entries = self._published(parts, analyst, chain)
        seen = (_seen(parts, analyst, chain, each) for _, each in sorted(entries.items()))
        return tuple(table.policy for table in seen if table is not None)

    def instead(self, parts: Parts, request: Request, refused: Refused) -> ReadTables | None:
        """Return the answers to a request with an unknown table, if it is a published one."""
        entries = self._published(parts, request.analyst, request.chain)
        tables, unknown = dict[str, PublicAnswer](), refused
        while unknown.reason is Reason.UNKNOWN_TABLE:
            name = missing_table(unknown)
            if name not in entries or name in tables:
                break
            table = _seen(parts, request.analyst, request.chain, entries[name])
            if table is None:
                break
            tables[name] = table
            empty = _alone(parts, tuple(tables.values()))
            try:
                empty.compiler.prepared(empty.compiler.read(request, parts.stop))
            except Refused as again:
                unknown = again
            else:
                break
        every = tuple(tables.values())
        return ReadTables(every, _alone(parts, every), self._cache) if every else None

    def _published(self, parts: Parts, analyst: str, chain: Chain) -> Mapping[str, Entry]:
        """Return the last entry of each table of an analyst's budget, by its name in lower case."""
        policy, ledger = parts.compiler.policy, parts.vault.ledger
        budget = policy.budget_of(chain[-1].delegator if chain else analyst)
        if budget is None:
            return {}
        with self._lock:
            self._read_on(ledger)
            entries = {name: e for (of, name), e in self._entries.items() if of == budget.name}
        stopped = ledger.stopped() if entries else frozenset()
        return {n: e for n, e in entries.items() if Stopped(None, e.analyst) not in stopped}

    def _read_on(self, ledger: Ledger) -> None:
        """Read the entries that are new in the ledger."""
        stamp, count = ledger.stamp(), _FEW
        if stamp == self._stamp:
            return
        while True:
            entries = ledger.history(None, count)
            new = [each.query_id for each in entries]
            if self._newest in new or len(entries) < count:
                break
            count *= _MORE
        behind = new.index(self._newest) if self._newest in new else len(new)
        for entry in reversed(entries[:behind]):
            if entry.analyst.startswith(CUBES) and entry.inquiry.client == PUBLISHED:
                name = entry.analyst.removeprefix(CUBES).lower()
                self._entries[entry.budget, name] = entry
        self._stamp, self._newest = stamp, new[0] if new else None


def _seen(parts: Parts, analyst: str, chain: Chain, entry: Entry) -> PublicAnswer | None:
    """Return a table as an analyst sees it; None unless they may ask its question themselves."""
    request = Request(entry.inquiry.sql, analyst, entry.inquiry.door, confirmed=True, chain=chain)
    try:
        query = parts.compiler.in_periods(parts.compiler.read(request, parts.stop))
        query = query.at(entry.epsilon)
        if entry.question not in parts.compiler.questions(query):
            return None
        described = parts.compiler.described(query, entry.epsilon, entry.question)
    except Refused:
        return None
    columns = parts.compiler.prepared(query).columns
    measured = tuple(
        n
        for n, error in enumerate(described.expected)
        if error is not None and columns[n].type.is_measured
    )
    return PublicAnswer(entry.analyst.removeprefix(CUBES), entry, query, columns, measured)


def _alone(
    parts: Parts, tables: tuple[PublicAnswer, ...], loaded: Sequence[FreeTable] = ()
) -> TablesAlone:
    """Return compiler and vault for queries on these tables, which are empty unless `loaded`."""
    given = loaded or [FreeTable(table.policy, ()) for table in tables]
    first = tables[0]
    paid = parts.vault.till.receipt(first.query.account, first.entry.query_id)
    notice = Published(tuple(table.name for table in tables))
    policy, vault = parts.compiler.policy, parts.vault
    return TablesAlone.over(policy, vault, given, paid=paid, kind=_KIND, notice=notice)
