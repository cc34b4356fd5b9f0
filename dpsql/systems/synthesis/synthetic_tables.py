"""Synthetic tables by name: visible only to the analysts who paid, and free to query.

A name lasts as long as the data version. If it is not in memory, it is read from the text of the
charged query in the ledger. Queries on such tables run without access to private data, under a
policy that has only these tables and on an engine that holds their rows. The errors of all numbers
are unknown, and are marked so.

Readers of the tables: PRIVACY.md R69, R78.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

from dpsql.answering.explain import PlannedCreation, explained_creation
from dpsql.answering.free_tables import FreeTable, TablesAlone, missing_table
from dpsql.answering.paid_names import DROPPED, Owner, PaidNames, owner, request_of
from dpsql.answering.side_systems import OpenSystem, OtherAnswers, Parts
from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.engines import Stop
from dpsql.interfaces.comments import SYNTHETIC
from dpsql.ledgers import Entry
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.row_notices import Synthetic
from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.vocabulary import Answer, Column, ColumnPolicy, Request, TablePolicy
from dpsql.policy.restrict import restrict_to
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Explanation, unknown_errors
from dpsql.preparation.row_sources import clipping_of
from dpsql.systems.synthesis.synthesis import RowsWish, SyntheticTable, remembered, synthesised
from dpsql.systems.synthesis.synthesis_plan import SynthesisPlan, SynthesisWish, columns_of, planned
from dpsql.systems.synthesis.synthetic_statement import (
    CreateSynthetic,
    DropSynthetic,
    synthetic_statement,
)
from dpsql.vault.vault import Vault

SyntheticStatement: TypeAlias = CreateSynthetic | DropSynthetic
CREATED = (
    Column("synthetic_table", VARCHAR),
    Column("rows", INTEGER),
    Column("lasts", VARCHAR),
)
"""Columns of the answer to CREATE SYNTHETIC TABLE. Names last as long as the tables."""
MOST_CELLS = 20_000_000
"""Maximum number of values in the cache of tables. Other tables are made again when needed."""


@dataclass(frozen=True, slots=True)
class _Named:
    """The request that recreates a table, and whether the ledger holds its name."""

    name: str
    wish: SynthesisWish
    rows: int | None
    recorded: bool = False

    @property
    def what(self) -> tuple[object, ...]:
        """The definition without name and ε: two names with equal definitions hold the same."""
        return self.wish.request.sql, self.wish.keep, self.rows

    @property
    def identity(self) -> tuple[object, ...]:
        """Key that distinguishes its rows from all others."""
        return self.name, *self.what, self.wish.request.epsilon

    def as_recorded(self, *, recorded: bool) -> _Named:
        return replace(self, recorded=recorded)


class SyntheticTables(OpenSystem):
    """The synthetic tables of all analysts by name. Thread-safe."""

    def __init__(self) -> None:
        self.names = PaidNames("synthetic table", _recorded)
        self._tables: BoundedCache[SyntheticTable] = BoundedCache(
            MOST_CELLS, lambda table: 1 + len(table.rows) * len(table.columns)
        )
        self._alone: BoundedCache[TablesAlone] = BoundedCache(16)

    @property
    def changes(self) -> int:
        return self.names.changes

    def ask(self, parts: Parts, request: Request, statement: SyntheticStatement) -> Answer:
        """Make a table or forget one."""
        if isinstance(statement, DropSynthetic):
            return self.names.drop(parts.compiler, parts.vault, request, statement.name)
        return self.create(parts.compiler, parts.vault, request, statement, parts.stop)

    def explain(self, parts: Parts, request: Request, statement: SyntheticStatement) -> Explanation:
        """Return the plan of a statement: runs nothing, charges nothing."""
        return self.explained(parts.compiler, parts.vault, request, statement, parts.stop)

    def columns(self, statement: SyntheticStatement) -> tuple[Column, ...]:
        return DROPPED if isinstance(statement, DropSynthetic) else CREATED

    def tables(self, parts: Parts, analyst: str) -> tuple[TablePolicy, ...]:
        """Return the tables of an analyst by name."""
        return self.listed(parts.compiler, parts.vault, analyst, parts.stop)

    def create(
        self,
        compiler: Compiler,
        vault: Vault,
        request: Request,
        statement: CreateSynthetic,
        stop: Stop,
    ) -> Answer:
        """Create a table. It is charged unless it is remembered. Raises as `Proxy.ask` does."""
        named = _named(request, statement)
        whose = owner(compiler, vault, request.analyst)
        if restrict_to(compiler.policy, request.analyst, request.chain).granted(named.name):
            why, fix = f"there is a table {named.name}", "Take another name."
            raise Refused(Reason.BAD_OPTION, option="name", why=why, fix=fix)
        self.names.require_free(vault, whose, named)
        table = synthesised(compiler, vault, named.wish, stop, RowsWish(named.rows))
        own = replace(request, epsilon=named.wish.request.epsilon)
        lasts = self.names.put(compiler, vault, own, named, table.receipt)
        self._tables.put((whose, named.identity), table)
        row = (named.name, len(table.rows), lasts)
        exact = (None,) * len(row)
        notices = _clipping(planned(compiler, named.wish, stop))
        return Answer(CREATED, (row,), (exact,), (exact,), table.receipt, notices=notices)

    def explained(
        self,
        compiler: Compiler,
        vault: Vault,
        request: Request,
        statement: SyntheticStatement,
        stop: Stop,
    ) -> Explanation:
        """Explain the effect and the price of `create`. Runs and charges nothing."""
        if isinstance(statement, DropSynthetic):
            raise Refused(Reason.UNSUPPORTED_STATEMENT, statement="EXPLAIN of DROP SYNTHETIC TABLE")
        wish = _named(request, statement).wish
        plan = planned(compiler, wish, stop)
        columns = tuple(Column(column.name, column.type) for column in plan.columns)
        creation = PlannedCreation(
            columns,
            unknown_errors(columns),
            plan.source.rows,
            plan.summary,
            (Synthetic((statement.name,)), *_clipping(plan)),
        )
        return explained_creation(compiler, vault, plan.source.payer, plan.cost, creation)

    def instead(self, parts: Parts, request: Request, refused: Refused) -> OtherAnswers | None:
        """Return the answers to a request with an unknown table, if it is a synthetic one.

        Returns None if the request names no synthetic table of the analyst. Raises `Refused` if its
        tables are not remembered any more.
        """
        compiler, vault, stop = parts.compiler, parts.vault, parts.stop
        whose = owner(compiler, vault, request.analyst)
        names = self.names.of(vault, whose)
        if missing_table(refused) not in names:
            return None
        text = request.sql.lower()
        tables = {
            name: table
            for name, named in names.items()
            if name in text
            and (table := self._table(compiler, vault, whose, named, stop)) is not None
        }
        if not tables:
            raise self.names.unknown(vault, whose, str(refused.facts["table"]))
        key = whose, tuple((names[n].identity, t.receipt.query_id) for n, t in tables.items())
        alone = self._alone.get(key)
        if alone is None:
            listed = [_free(names[name].name, table) for name, table in tables.items()]
            paid = next(iter(tables.values())).receipt
            notice = Synthetic(tuple(each.policy.name for each in listed))
            policy = compiler.policy
            alone = TablesAlone.over(
                policy, vault, listed, paid=paid, kind="synthetic tables", notice=notice
            )
            self._alone.put(key, alone)
        return alone

    def listed(
        self, compiler: Compiler, vault: Vault, analyst: str, stop: Stop
    ) -> tuple[TablePolicy, ...]:
        """Return the tables of an analyst, sorted by name. Draws no rows and plans nothing."""
        names = self.names.of(vault, owner(compiler, vault, analyst))
        tables = list[TablePolicy]()
        for _, named in sorted(names.items()):
            with suppress(Refused):
                drawn = columns_of(compiler, named.wish, stop)
                columns = (ColumnPolicy(column.name, column.type) for column in drawn)
                tables.append(_policy(named.name, *columns))
        return tuple(tables)

    def _table(
        self, compiler: Compiler, vault: Vault, whose: Owner, named: _Named, stop: Stop
    ) -> SyntheticTable | None:
        """Return the rows, made again from remembered tables; None if they are not remembered."""
        table = self._tables.get((whose, named.identity))
        if table is None:
            with suppress(Refused):  # in another spelling, say
                table = remembered(compiler, vault, named.wish, stop, RowsWish(named.rows))
            if table is not None:
                self._tables.put((whose, named.identity), table)
        return table


def _clipping(plan: SynthesisPlan) -> tuple[Notice, ...]:
    """Return notices on the source rows, for the second column of `CREATED`."""
    return clipping_of(plan.singles[0], 1)


def _recorded(entry: Entry) -> tuple[str, _Named | None] | None:
    """Return name and table of a CREATE entry of the ledger, name and None of a DROP, or None."""
    text = entry.inquiry.sql
    said = read_system_statement(text) if "synthetic" in text.lower() else None
    if said is None or said.kind != "synthetic table":
        return None
    statement = synthetic_statement(said)
    if isinstance(statement, DropSynthetic):
        return statement.name, None
    return statement.name, replace(_named(request_of(entry), statement), recorded=True)


def _named(request: Request, statement: CreateSynthetic) -> _Named:
    epsilon = request.epsilon if statement.epsilon is None else statement.epsilon
    of_query = replace(request, sql=statement.query, epsilon=epsilon, flowing=False)
    wish = SynthesisWish(of_query, statement.keep, request.sql)
    return _Named(statement.name, wish, statement.rows)


def _free(name: str, table: SyntheticTable) -> FreeTable:
    columns = (ColumnPolicy(c.name, c.type, nullable=c.nullable) for c in table.columns)
    return FreeTable(_policy(name, *columns), table.rows)


def _policy(name: str, *columns: ColumnPolicy) -> TablePolicy:
    """Return the description of a table for its analyst."""
    return TablePolicy(name, private=False, columns=columns, about=SYNTHETIC)
