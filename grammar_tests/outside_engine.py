"""An engine as somebody else would write one: a database of its own kind, with SQL of its own.

What runs there is DuckDB, since what is tested is that nothing in `dpsql/` knows of it: its SQL is
marked, so that a statement of the one engine on the other is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.compiler.rewrite.dialect import Columns, Dialect, Tables
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines import Engine, MadeTotals, OwnersDatabase, ScratchTable, Stop, Unrun
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.paired import Paired
from dpsql.model.algebra import Field, Relation
from dpsql.model.resources import Database, Limits
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.tree import Expression, Literal, StoredAs
from dpsql.model.vocabulary import Exact
from dpsql.preparation.engine_kinds import scratch

MARK = "/* toy */"
HOST = "host"


class _ToyDialect:
    def query(
        self,
        relation: Relation,
        outputs: tuple[Expression, ...],
        tables: Tables = lambda _relation: None,
    ) -> str:
        return f"{MARK} {DUCKDB.query(relation, outputs, tables)}"

    def block(self, plan: BlockPlan) -> BlockSql:
        block = DUCKDB.block(plan)
        return replace(block, sql=f"{MARK} {block.sql}")

    def expression(self, expression: Expression, columns: Columns) -> str:
        return f"{MARK} {DUCKDB.expression(expression, columns)}"

    def constant(self, literal: Literal) -> str:
        return DUCKDB.constant(literal)

    def column(self, table: str, column: Field, reading: StoredAs | None) -> str:
        return DUCKDB.column(table, column, reading)

    def integer(self, part: ClippedSum, x: str) -> str:
        return DUCKDB.integer(part, x)


TOY_SQL = _ToyDialect()


@dataclass(eq=False)
class ToyDatabase:
    """The owner's database, and no scratch; `calls` are the statements that it was given."""

    inner: OwnersDatabase
    calls: list[tuple[str, str]] = field(default_factory=list)

    def schema(self) -> Schema:
        return self.inner.schema()

    @property
    def accepted(self) -> Any:
        return self.inner.accepted

    def follow(self, accepted: Any) -> None:
        self.inner.follow(accepted)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        self.inner.ready(data, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        self.calls += [("bind", statement.sql) for statement in statements]
        self.inner.bind(statements, stop, data)

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
        stop: Stop | None = None,
        data: str | None = None,
        totals: MadeTotals | None = None,  # noqa: ARG002 - nothing here is made for several
    ) -> Exact:
        self.calls.append(("aggregate", sql))
        return self.inner.aggregate(sql, keys, parts, sampling_key, tables, stop, data)

    def drop_made(self, key: str) -> None:
        """There is nothing to drop."""

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        self.calls.append(("rows", sql))
        return self.inner.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        self.calls.append(("few", sql))
        return self.inner.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        self.calls.append(("each", sql))
        self.inner.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        self.calls.append(("evaluate", sql))
        return self.inner.evaluate(sql, tables, stop)

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[ToyDatabase]:
        with self.inner.taken(stop) as inner:
            yield ToyDatabase(inner, self.calls)

    def cancel(self) -> None:
        self.inner.cancel()

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class ToyKind:
    """What a policy with engine = "toy" names; `opened` are the databases that it has opened."""

    name: str = "toy"
    keys: tuple[str, ...] = ("path", HOST)
    dialect: Dialect = TOY_SQL
    opened: list[ToyDatabase] = field(default_factory=list)

    def objection(self, database: Database) -> str | None:
        return None if dict(database.settings).get(HOST) else "A toy needs a host."

    def open(self, database: Database, limits: Limits) -> Engine:
        toy = ToyDatabase(DuckDBEngine(database, limits))
        self.opened.append(toy)
        return Paired(toy, scratch(limits))


TOY = ToyKind()
