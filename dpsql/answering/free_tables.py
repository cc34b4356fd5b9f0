"""Tables of released rows, which queries read by name for free, by themselves.

Their rows are of no private table any more. Queries on them run under a policy that has only these
tables, on an engine that holds their rows (PRIVACY.md R78, R114). The errors of all numbers are
unknown, and are marked so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsql.answering.any_statement import ask_any, explain_any
from dpsql.answering.side_systems import NoSystems, Parts
from dpsql.engines import Engine, ScratchTable, Stop
from dpsql.engines.broadcast_tables import narrowed
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.table import Repeated, Table
from dpsql.model.table_names import DATABASE, FIRST
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Answer, Policy, Receipt, Request, TablePolicy
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.explanation import Explanation, unknown_errors
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import account
from dpsql.vault.vault import Vault


def missing_table(refused: Refused) -> str:
    """Return the table that a refused text names, in lower case; "" unless it is of the first
    schema.
    """
    *schemas, name = str(refused.facts.get("table", "")).lower().split(".")
    return name if set(schemas) <= {DATABASE, *FIRST} else ""


class ReleasedRows:
    """An engine that has only released tables. The owner's database evaluates its queries."""

    def __init__(self, engine: Engine, tables: Sequence[ScratchTable]) -> None:
        self._engine, self._tables = engine, tables

    def rows(
        self,
        sql: str,
        stop: Stop | None = None,
        data: str | None = None,  # noqa: ARG002
    ) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query on these tables."""
        tables = (table for table in self._tables if identifier(table.name) in sql)
        read = [narrowed(t, {n for n, _ in t.columns if identifier(n) in sql}) for t in tables]
        return self._engine.evaluate(sql, read, stop)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """Return a small result as `Engine.few` does."""
        rows = self.rows(sql, stop)
        columns = [list(column) for column in zip(*rows, strict=True)]
        return None if len(rows) * len(columns) > cells else Table(len(rows), columns)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Pass the result to `take` as `Engine.each` does, in one chunk."""
        rows = self.rows(sql, stop)
        take(Table(len(rows), [list(column) for column in zip(*rows, strict=True)]))

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Return the values of constants."""
        return self._engine.evaluate(sql, tables, stop)

    def drop_made(self, key: str) -> None:
        """Drop results as `Engine.drop_made` does."""
        self._engine.drop_made(key)


@dataclass(frozen=True, slots=True, eq=False)
class FreeTable:
    """A table of released rows, as a policy describes it."""

    policy: TablePolicy
    rows: Sequence[tuple[Any, ...]]

    @property
    def loaded(self) -> ScratchTable:
        """The table as an engine reads it."""
        columns = tuple((column.name, column.type) for column in self.policy.columns)
        return ScratchTable(self.policy.name, columns, self.rows)


@dataclass(frozen=True, slots=True)
class TablesAlone:
    """Compiler and vault for queries on such tables, which are of one `kind`.

    `notice` goes with all answers. `paid` is the receipt of the first table.
    """

    compiler: Compiler
    vault: Vault
    paid: Receipt
    kind: str
    notice: Notice

    @classmethod
    def over(
        cls,
        policy: Policy,
        vault: Vault,
        tables: Sequence[FreeTable],
        *,
        paid: Receipt,
        kind: str,
        notice: Notice,
    ) -> TablesAlone:
        """Return compiler and vault for queries on these tables."""
        listed = tuple(table.policy for table in tables)
        alone = replace(policy, tables=listed, facts=frozenset(), data=None, roles=())
        engine: Any = ReleasedRows(vault.engine, [table.loaded for table in tables])
        compiler = Compiler(alone, PublicTables(engine, dialects(alone.database).database))
        own = Vault(vault.ledger, engine, vault.sampler)
        return cls(compiler, own, paid, kind=kind, notice=notice)

    def answer(self, parts: Parts, request: Request) -> Answer:
        """Answer as `Proxy.ask` does. The errors of all numbers are unknown."""
        request = replace(request, flowing=False)
        try:
            parts, request = self.inside(parts, request)
            given = ask_any(parts, request)
        except Refused as refused:
            if refused.reason is not Reason.UNKNOWN_TABLE:
                raise
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                refused.span,
                construct=f"{self.kind} together with others",
                fix=f"Ask about {self.kind} by themselves.",
            ) from None
        doubts = Repeated(unknown_errors(given.columns), len(given.rows))
        payer = account(self.compiler.policy, request.analyst, chain=request.chain)
        payer = replace(payer, epsilon=self.paid.epsilon)
        receipt = self.vault.till.receipt(payer, self.paid.query_id)
        notices = (*given.notices, self.notice)
        return replace(given, errors=doubts, margins=doubts, notices=notices, receipt=receipt)

    def explain(self, parts: Parts, request: Request) -> Explanation:
        parts, request = self.inside(parts, request)
        explanation = explain_any(parts, request)
        notices = (*explanation.notices, self.notice)
        return replace(explanation, expected=unknown_errors(explanation.columns), notices=notices)

    def inside(self, parts: Parts, request: Request) -> tuple[Parts, Request]:
        """Return parts that know these tables alone."""
        return Parts(self.compiler, self.vault, NoSystems(), parts.stop), request
