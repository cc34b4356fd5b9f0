"""PostgreSQL's dialect, as a value."""

from __future__ import annotations

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.compiler.rewrite.dialect import Columns, Dialect, Tables
from dpsql.dialects.postgres.constant_sql import constant
from dpsql.dialects.postgres.lattice_sql import row_integer
from dpsql.dialects.postgres.postgres_block import block_sql
from dpsql.dialects.postgres.postgres_relations import PostgresPrinter, column_sql
from dpsql.dialects.postgres.total_expressions import expression as expression_sql
from dpsql.model.algebra import Field, Relation
from dpsql.model.tree import Expression, Literal, StoredAs


class _Postgres:
    def query(
        self,
        relation: Relation,
        outputs: tuple[Expression, ...],
        tables: Tables = lambda _relation: None,
    ) -> str:
        return PostgresPrinter(tables).select(relation, outputs)

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


POSTGRES: Dialect = _Postgres()
