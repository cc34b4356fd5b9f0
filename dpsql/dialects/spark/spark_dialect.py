"""Spark's dialect, as a value."""

from __future__ import annotations

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.compiler.rewrite.dialect import Columns, Dialect, Tables
from dpsql.dialects.spark.spark_block import block_sql
from dpsql.dialects.spark.spark_constants import constant
from dpsql.dialects.spark.spark_expressions import SparkPrinter, column_sql
from dpsql.dialects.spark.spark_expressions import expression as expression_sql
from dpsql.dialects.spark.spark_lattice import row_integer
from dpsql.model.algebra import Field, Relation
from dpsql.model.tree import Expression, Literal, StoredAs


class _Spark:
    def query(
        self,
        relation: Relation,
        outputs: tuple[Expression, ...],
        tables: Tables = lambda _relation: None,
    ) -> str:
        return SparkPrinter(tables).select(relation, outputs)

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


SPARK: Dialect = _Spark()
