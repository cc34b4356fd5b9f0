"""DuckDB's dialect, as a value."""

from __future__ import annotations

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.compiler.rewrite.dialect import Columns, Dialect, Tables
from dpsql.dialects.duckdb.block_statement import block_sql
from dpsql.dialects.duckdb.expression_sql import expression as expression_sql
from dpsql.dialects.duckdb.relation_sql import Printer, column_sql
from dpsql.dialects.duckdb.total_sql import row_integer
from dpsql.dialects.literal_sql import constant
from dpsql.model.algebra import Field, Relation
from dpsql.model.tree import Expression, Literal, StoredAs


class _DuckDB:
    """Dialect of the owner's database, in which there is no NaN."""

    printer: type[Printer] = Printer

    def query(
        self,
        relation: Relation,
        outputs: tuple[Expression, ...],
        tables: Tables = lambda _relation: None,
    ) -> str:
        return self.printer(tables).select(relation, outputs)

    def block(self, plan: BlockPlan) -> BlockSql:
        return block_sql(plan)

    def expression(self, expression: Expression, columns: Columns) -> str:
        return expression_sql(expression, lambda ref: columns[ref.id])

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def column(self, table: str, column: Field, reading: StoredAs | None) -> str:
        return column_sql(table, column, reading)

    def integer(self, part: ClippedSum, x: str) -> str:
        return row_integer(part, x)


class _ScratchPrinter(Printer):
    """Printer for released rows, which may be NaN, like unknown errors."""

    nan = True


class _Scratch(_DuckDB):
    printer = _ScratchPrinter


DUCKDB: Dialect = _DuckDB()
SCRATCH: Dialect = _Scratch()
"""Dialect of the engine that computes over released rows."""
