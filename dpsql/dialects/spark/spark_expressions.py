"""Expressions as Spark's SQL that cannot raise for any rows.

A function without a row in the table is refused with the engine's name. Texts are compared byte by
byte, as columns of files are.

Why nothing may raise: SECURITY.md S8.

    >>> from dpsql.model.tree import INTEGER, Call, Literal, Ref
    >>> bucket = Call("int_div", (Ref(1, INTEGER), Literal(10, INTEGER)), INTEGER)
    >>> expression(bucket, lambda ref: 't1."n"')
    't1."n" div 10L'
"""

from __future__ import annotations

import re

from dpsql import functions as registry
from dpsql.dialects.aggregate_sql import aggregate, window
from dpsql.dialects.expression_printer import DIGITS, Column, ExpressionPrinter
from dpsql.dialects.relation_printer import RelationPrinter, SelectText
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark.spark_constants import constant, lacking
from dpsql.dialects.spark.spark_functions import FUNCTIONS
from dpsql.dialects.spark.spark_numbers import (
    as_decimal,
    converted,
    digits_of,
    in_one_type,
    one_value,
)
from dpsql.model import algebra, tree
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.schema import LONGEST_READ
from dpsql.model.walk import both

_APART = 10**9
"""Offset between ids of columns and of those derived from them; no statement has this many
columns.
"""
CHOOSING = frozenset("case coalesce nullif least greatest".split())
COMPARING = frozenset("eq ne lt le gt ge in is_distinct is_not_distinct".split())
_SUMMED_DIGITS = 28
"""Digits of a term with sums of at most 38 digits."""


def expression(e: tree.Expression, column: Column) -> str:
    """Return the SQL of a resolved expression; `column` returns the text of a column.

    Raises `Refused` for constructs without a form on Spark that cannot raise.
    """
    return SparkExpressions(column).text(e).sql


class SparkExpressions(ExpressionPrinter):
    """Printer of expressions for Spark."""

    functions = FUNCTIONS
    stored = re.compile(
        r't\d+\."(?:[^"]|"")*"|\(CASE WHEN octet_length\(t\d+\."(?:[^"]|"")*"\) <= [^()]*\)'
    )
    computed = DIGITS

    def constant(self, literal: tree.Literal) -> str:
        return constant(literal)

    def operands(self, function: registry.Function, args: tuple[Sized, ...]) -> tuple[Sized, ...]:
        """Return operands in one type if one of several exact numbers is chosen, or if comparing is
        unsafe.
        """
        kinds = function.operands(tuple(arg.type for arg in args))
        given = super().operands(function, args)
        exact = [arg for arg in given if arg.type.kind in (tree.Kind.INTEGER, tree.Kind.DECIMAL)]
        wide = exact and max(map(digits_of, exact)) + max(a.type.scale for a in exact) > DIGITS
        if function.name in CHOOSING or (wide and function.name in COMPARING):
            return in_one_type(given, kinds)
        return given

    def converted(self, arg: Sized, kind: tree.SqlType, span: tree.Span) -> Sized:
        return converted(arg, kind, span)

    def without_nan(self, sql: str) -> str:
        return f"nanvl({sql}, CAST(NULL AS DOUBLE))"

    def lacking(self, construct: str, span: tree.Span) -> Refused:
        return lacking(construct, span)

    def aggregate(
        self, call: tree.AggregateCall | tree.WindowCall, args: tuple[Sized, ...], where: str
    ) -> str | None:
        """Return SQL for an aggregate; sums are of DECIMALs with ten spare digits, or NULL if they
        overflow.

        A sum of BIGINT may overflow silently.
        """
        if call.function != "sum" or not args:
            return aggregate(call, args, where)
        (arg,) = args
        if arg.type.kind not in (tree.Kind.INTEGER, tree.Kind.DECIMAL):
            return None
        short = digits_of(arg) + arg.type.scale <= _SUMMED_DIGITS
        if not short and isinstance(call, tree.WindowCall):
            return None
        printed = aggregate(call, (Sized(as_decimal(arg), arg.type),), where)
        return printed if short or printed is None else f"try_{printed}"

    def window(self, call: tree.WindowCall, args: tuple[Sized, ...], where: str) -> str | None:
        frame = call.frame
        if frame is not None and (frame.unit == "GROUPS" or frame.exclude):
            return None
        if call.function in ("sum", "count", "min", "max", "bool_and", "bool_or"):
            distinct = call.distinct or call.ignore_nulls
            return None if distinct or where else self.aggregate(call, args, where)
        # The offset in rows is an INT there.
        away = (replace(arg, sql=arg.sql.removesuffix("L")) for arg in args[1:2])
        return window(call, (*args[:1], *away, *args[2:]), where)


class SparkPrinter(RelationPrinter):
    """Printer of relations for Spark."""

    def expression(self, node: tree.Expression, column: Column) -> str:
        return expression(node, column)

    def sort_key(self, key: tree.SortKey, column: Column) -> str:
        return SparkExpressions(column).sort_key(key)

    def compared(
        self, left: tree.Expression, right: tree.Expression, column: Column
    ) -> tuple[str, str]:
        return SparkExpressions(column).compared(left, right)

    def constant(self, literal: tree.Literal) -> str:
        return constant(literal)

    def column(self, alias: str, column: algebra.Field, reading: tree.StoredAs | None) -> str:
        return column_sql(alias, column, reading)

    def accept(self, relation: algebra.Relation) -> None:
        match relation:
            case algebra.Recursion():
                raise lacking("WITH RECURSIVE", relation.span)
            case algebra.Apply():
                raise lacking("a subquery that is computed for each row", relation.span)
            case _:
                pass

    def _looked_into(self, relation: algebra.Relation) -> SelectText:
        match relation:
            case algebra.Filter(
                algebra.Match(member=(_, _)) as membership, tree.Ref(id=number)
            ) if number == membership.mark.id:
                relation = algebra.Filter(
                    _where_equal(membership, membership.mark), relation.predicate
                )
            case algebra.Match(member=(_, _)):
                relation = _by_three_tests(relation)
            case _:
                pass
        return super()._looked_into(relation)

    def _union(self, relation: algebra.Union) -> SelectText:
        """Return INTERSECT ALL and EXCEPT ALL: the nth of equal rows is, or is not, on the
        right.
        """
        if relation.kind == "UNION" or not relation.all:
            return super()._union(relation)
        left, right = (self._numbered(side, relation) for side in (relation.left, relation.right))
        names = [f"c{n}" for n in range(len(relation.fields))]
        same = (f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in (*names, "place"))
        join = f"LEFT {'SEMI' if relation.kind == 'INTERSECT' else 'ANTI'} JOIN"
        pairs = zip(names, relation.fields, strict=True)
        listed = ", ".join(f"a.{name} AS c{field.id}" for name, field in pairs)
        return self._derived(
            f"SELECT {listed} FROM ({left}) AS a {join} ({right}) AS b ON {' AND '.join(same)}",
            [field.id for field in relation.fields],
        )

    def _numbered(self, side: algebra.Relation, relation: algebra.Union) -> str:
        """Return SQL for the rows of a side, numbered among equal rows."""
        items = [
            f"{one_value(f'c{n}', field.type)} AS c{n}" for n, field in enumerate(relation.fields)
        ]
        names = ", ".join(f"c{n}" for n in range(len(items)))
        place = f"ROW_NUMBER() OVER (PARTITION BY {names} ORDER BY {names}) AS place"
        values = f"SELECT {', '.join(items)} FROM ({self._as(side, relation.fields)}) AS v"
        return f"SELECT *, {place} FROM ({values}) AS r"


def _where_equal(membership: algebra.Match, mark: algebra.Field) -> algebra.Match:
    """Return the test whether a value equals some option, ignoring NULL, as EXISTS."""
    assert membership.member is not None
    return _tested(membership, tree.Call("eq", membership.member, tree.BOOLEAN), mark)


def _tested(
    membership: algebra.Match, test: tree.Expression | None, mark: algebra.Field
) -> algebra.Match:
    tests = tuple(each for each in (membership.condition, test) if each is not None)
    return replace(membership, condition=both(tests), mark=mark, member=None)


def _by_three_tests(membership: algebra.Match) -> algebra.Project:
    """Return IN with SQL's rules of NULL, from three tests: an equal option, a NULL option, any
    option.
    """
    assert membership.member is not None
    value, option = membership.member
    first, mark = membership.input, membership.mark
    equal, null, some = (
        algebra.Field(mark.id + n * _APART, mark.name, tree.BOOLEAN) for n in (1, 2, 3)
    )
    matched = replace(_where_equal(membership, equal), input=first)
    matched = replace(
        _tested(membership, tree.Call("is_null", (option,), tree.BOOLEAN), null), input=matched
    )
    matched = replace(_tested(membership, None, some), input=matched)
    of_null = tree.Call(
        "and", (tree.Call("is_null", (value,), tree.BOOLEAN), some.ref), tree.BOOLEAN
    )
    unknown = tree.Call("or", (null.ref, of_null), tree.BOOLEAN)
    yes, no, neither = (tree.Literal(said, tree.BOOLEAN) for said in (True, False, None))
    said = tree.Call("case", (equal.ref, yes, unknown, neither, no), tree.BOOLEAN)
    columns = tuple(algebra.Item(each, each.ref) for each in first.fields)
    return algebra.Project(matched, (*columns, algebra.Item(mark, said)))


def column_sql(alias: str, column: algebra.Field, reading: tree.StoredAs | None) -> str:
    """Return SQL for a column of a table. A DOUBLE has one zero, and NULL for NaN; a FLOAT is read
    as DOUBLE.

    A very long text is cut, or NULL without a `reading`: PRIVACY.md R101.

    >>> from dpsql.model.tree import VARCHAR
    >>> column_sql("t1", algebra.Field(1, "n", VARCHAR), None)
    '(CASE WHEN octet_length(t1."n") <= 65536 THEN t1."n" END)'
    >>> column_sql("t1", algebra.Field(1, "n", VARCHAR), tree.StoredAs("n", most=9))
    '(CASE WHEN octet_length(t1."n") <= 9 THEN t1."n" ELSE left(t1."n", 9) END)'
    """
    if reading is not None and (reading.path or not reading.most):
        raise lacking(f"a column that is read as another, like {column.name}")
    stored = f"{alias}.{tree.identifier(column.name)}"
    if column.type.kind is tree.Kind.VARCHAR:
        most = LONGEST_READ if reading is None else reading.most
        rest = "" if reading is None else f" ELSE left({stored}, {most})"
        return f"(CASE WHEN octet_length({stored}) <= {most} THEN {stored}{rest} END)"
    if column.type.kind is not tree.Kind.DOUBLE:
        return stored
    return f"(nanvl(CAST({stored} AS DOUBLE), CAST(NULL AS DOUBLE)) + 0D)"
