"""Expressions as Spark's SQL that cannot raise, whatever the rows.

What has no row in a table is refused with the engine's name. Texts are compared byte by byte, as
columns of files are.

Why nothing may raise: SECURITY.md S8.

    >>> from dpsql.model.tree import INTEGER, Call, Literal, Ref
    >>> bucket = Call("int_div", (Ref(1, INTEGER), Literal(10, INTEGER)), INTEGER)
    >>> expression(bucket, lambda ref: 't1."n"')
    't1."n" div 10L'
"""

from __future__ import annotations

import re

from dpsql.dialects.aggregate_sql import aggregate, window
from dpsql.dialects.expression_printer import DIGITS, Column, ExpressionPrinter
from dpsql.dialects.relation_printer import RelationPrinter
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark.spark_constants import constant, lacking
from dpsql.dialects.spark.spark_functions import FUNCTIONS
from dpsql.dialects.spark.spark_numbers import as_decimal, converted, digits_of
from dpsql.model.algebra import Apply, Field, Match, Recursion, Relation, Union
from dpsql.model.errors import Refused
from dpsql.model.tree import (
    AggregateCall,
    Expression,
    Kind,
    Literal,
    SortKey,
    Span,
    SqlType,
    StoredAs,
    WindowCall,
    identifier,
)

_SUMMED_DIGITS = 28
"""Digits of which sums have 38."""


def expression(e: Expression, column: Column) -> str:
    """The SQL of a resolved expression; `column` gives the text of a column.

    Raises `Refused` for what Spark has no form of that cannot raise.
    """
    return SparkExpressions(column).text(e).sql


class SparkExpressions(ExpressionPrinter):
    """Expressions as Spark writes them."""

    functions = FUNCTIONS
    stored = re.compile(r't\d+\."(?:[^"]|"")*"')
    computed = DIGITS

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def converted(self, arg: Sized, kind: SqlType, span: Span) -> Sized:
        return converted(arg, kind, span)

    def lacking(self, construct: str, span: Span) -> Refused:
        return lacking(construct, span)

    def aggregate(
        self, call: AggregateCall | WindowCall, args: tuple[Sized, ...], where: str
    ) -> str | None:
        """Sums are of DECIMALs, which have ten digits to spare, or are NULL where they overflow:
        sums of BIGINT may wrap around.
        """
        if call.function != "sum" or not args:
            return aggregate(call, args, where)
        (arg,) = args
        if arg.type.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return None
        short = digits_of(arg) + arg.type.scale <= _SUMMED_DIGITS
        if not short and isinstance(call, WindowCall):
            return None
        printed = aggregate(call, (Sized(as_decimal(arg), arg.type),), where)
        return printed if short or printed is None else f"try_{printed}"

    def window(self, call: WindowCall, args: tuple[Sized, ...], where: str) -> str | None:
        frame = call.frame
        if frame is not None and (frame.unit == "GROUPS" or frame.exclude):
            return None
        if call.function in ("sum", "count", "min", "max", "bool_and", "bool_or"):
            distinct = call.distinct or call.ignore_nulls
            return None if distinct or where else self.aggregate(call, args, where)
        return window(call, args, where)


class SparkPrinter(RelationPrinter):
    """Prints relations for Spark."""

    def expression(self, node: Expression, column: Column) -> str:
        return expression(node, column)

    def sort_key(self, key: SortKey, column: Column) -> str:
        return SparkExpressions(column).sort_key(key)

    def compared(self, left: Expression, right: Expression, column: Column) -> tuple[str, str]:
        return SparkExpressions(column).compared(left, right)

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def column(self, alias: str, column: Field, reading: StoredAs | None) -> str:
        return column_sql(alias, column, reading)

    def accept(self, relation: Relation) -> None:
        match relation:
            case Recursion():
                raise lacking("WITH RECURSIVE", relation.span)
            case Apply():
                raise lacking("a subquery that is computed for each row", relation.span)
            case Match(member=(_, _)):
                raise lacking("IN with a subquery", relation.span)
            case Union(kind=kind, all=True) if kind != "UNION":
                raise lacking(f"{kind} ALL", relation.span)
            case _:
                pass


def column_sql(alias: str, column: Field, reading: StoredAs | None) -> str:
    """A column of a table; FLOAT is read as DOUBLE, so that nothing is computed in 32 bits.

    >>> from dpsql.model.tree import VARCHAR
    >>> column_sql("t1", Field(1, "name", VARCHAR), None)
    't1."name"'
    """
    if reading is not None:
        raise lacking(f"a column that is read as another, like {column.name}")
    stored = f"{alias}.{identifier(column.name)}"
    return f"CAST({stored} AS DOUBLE)" if column.type.kind is Kind.DOUBLE else stored
