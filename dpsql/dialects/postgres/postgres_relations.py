"""Relations as PostgreSQL's SQL: how columns are read, and relations that it lacks."""

from __future__ import annotations

from dpsql.dialects.postgres.constant_sql import COLLATE, constant
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.postgres.total_expressions import PostgresExpressions, expression
from dpsql.dialects.relation_printer import Column, RelationPrinter
from dpsql.model.algebra import Field, Join, Recursion, Relation
from dpsql.model.schema import LONGEST_READ
from dpsql.model.table_names import FIRST, parts
from dpsql.model.tree import Expression, JoinKind, Kind, Literal, SortKey, StoredAs, identifier


class PostgresPrinter(RelationPrinter):
    """Printer of relations for PostgreSQL."""

    def expression(self, node: Expression, column: Column) -> str:
        return expression(node, column)

    def sort_key(self, key: SortKey, column: Column) -> str:
        return PostgresExpressions(column).sort_key(key)

    def compared(self, left: Expression, right: Expression, column: Column) -> tuple[str, str]:
        return PostgresExpressions(column).compared(left, right)

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def column(self, alias: str, column: Field, reading: StoredAs | None) -> str:
        return column_sql(alias, column, reading)

    def table(self, name: str) -> str:
        schema, table = parts(name) or (None, name)
        return f"{identifier(schema or FIRST[0])}.{identifier(table)}"

    def accept(self, relation: Relation) -> None:
        match relation:
            case Join(kind=JoinKind.FULL):
                raise lacking("a FULL JOIN", relation.span)
            case Recursion():
                raise lacking("WITH RECURSIVE", relation.span)
            case _:
                pass


def column_sql(alias: str, column: Field, reading: StoredAs | None) -> str:
    """Return a column of a table: a text compares byte by byte, no number is NaN, and 0 has no
    sign.

    A very long text is cut, or NULL without a `reading`: PRIVACY.md R101.

    >>> from dpsql.model.tree import VARCHAR
    >>> column_sql("t1", Field(1, "n", VARCHAR), None)
    '(CASE WHEN octet_length(t1."n") <= 65536 THEN t1."n"::text END COLLATE "C")'
    >>> column_sql("t1", Field(1, "n", VARCHAR), StoredAs("n", most=9))
    '(CASE WHEN octet_length(t1."n") <= 9 THEN t1."n"::text ELSE left(t1."n"::text, 9) END COLLATE "C")'
    """  # noqa: E501
    if reading is not None and (reading.path or not reading.most):
        raise lacking(f"a column that is read as another, like {column.name}")
    name = f"{alias}.{identifier(column.name)}"
    match column.type.kind:
        case Kind.VARCHAR:
            most = LONGEST_READ if reading is None else reading.most
            rest = "" if reading is None else f" ELSE left({name}::text, {most})"
            short = f"CASE WHEN octet_length({name}) <= {most} THEN {name}::text{rest} END"
            return f"({short} {COLLATE})"
        case Kind.DECIMAL:
            return f"NULLIF({name}, 'NaN')"
        case Kind.DOUBLE:
            return f"(NULLIF({name}::float8, 'NaN') + 0)"
        case _:
            return name
