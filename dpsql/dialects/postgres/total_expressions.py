"""Expressions as PostgreSQL's SQL that cannot raise for any rows.

There is no TRY. Each function has its own guard, which holds in any order of conditions (see
`number_sql`). A function without a row in the table is refused with the engine's name. Computed
texts and constants are compared byte by byte, as columns are.

Why nothing may raise: SECURITY.md S8.

    >>> from dpsql.model.tree import INTEGER, Call, Literal, Ref
    >>> bucket = Call("int_div", (Ref(1, INTEGER), Literal(10, INTEGER)), INTEGER)
    >>> expression(bucket, lambda ref: 't1."n"')
    't1."n" / 10'
    >>> expression(Call("add", (bucket, Ref(2, INTEGER)), INTEGER), lambda ref: 't1."n"')
    '(t1."n" / 10)::numeric + t1."n"::numeric'
"""

from __future__ import annotations

import re

from dpsql.dialects.expression_printer import Column, ExpressionPrinter
from dpsql.dialects.postgres.constant_sql import constant
from dpsql.dialects.postgres.conversion_sql import converted
from dpsql.dialects.postgres.function_sql import FUNCTIONS
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.postgres.number_sql import COMPUTED_DIGITS
from dpsql.dialects.sized_text import Sized
from dpsql.model import tree
from dpsql.model.errors import Refused
from dpsql.model.tree import Literal


def expression(e: tree.Expression, column: Column) -> str:
    """Return the SQL of a resolved expression; `column` returns the text of a column.

    Raises `Refused` for constructs without a form on PostgreSQL that cannot raise.
    """
    return PostgresExpressions(column).text(e).sql


class PostgresExpressions(ExpressionPrinter):
    """Printer of expressions for PostgreSQL."""

    functions = FUNCTIONS
    stored = re.compile(
        r"""(NULLIF\()?t\d+\."(?:[^"]|"")*"(?(1), 'NaN'\))|"""
        r"""\(CASE WHEN octet_length\(t\d+\."(?:[^"]|"")*"\) <= \d+ THEN [^()]*\)"""
    )
    computed = COMPUTED_DIGITS

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def converted(self, arg: Sized, kind: tree.SqlType, span: tree.Span) -> Sized:
        return converted(arg, kind, span)

    def without_nan(self, sql: str) -> str:
        return f"NULLIF({sql}, 'NaN')"

    def lacking(self, construct: str, span: tree.Span) -> Refused:
        return lacking(construct, span)
