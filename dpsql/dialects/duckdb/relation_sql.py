"""Relations as DuckDB SQL: what DuckDB writes in its own way."""

from __future__ import annotations

from dpsql.dialects.duckdb.expression_sql import compared, expression, sort_key
from dpsql.dialects.literal_sql import constant
from dpsql.dialects.relation_printer import Column, RelationPrinter
from dpsql.model.algebra import Field, Relation
from dpsql.model.tree import (
    VARCHAR,
    Expression,
    Kind,
    Literal,
    SortKey,
    SqlType,
    StoredAs,
    identifier,
    type_name,
)


class Printer(RelationPrinter):
    """Prints relations for DuckDB, which has all of them."""

    def expression(self, node: Expression, column: Column) -> str:
        return expression(node, column)

    def sort_key(self, key: SortKey, column: Column) -> str:
        return sort_key(key, column)

    def compared(self, left: Expression, right: Expression, column: Column) -> tuple[str, str]:
        return compared(left, right, column)

    def constant(self, literal: Literal) -> str:
        return constant(literal)

    def column(self, alias: str, column: Field, reading: StoredAs | None) -> str:
        return column_sql(alias, column, reading)

    def accept(self, relation: Relation) -> None:
        pass


def column_sql(alias: str, column: Field, reading: StoredAs | None) -> str:
    """A column of a table; FLOAT is read as DOUBLE, so that nothing is computed in 32 bits."""
    if reading is not None:
        return _read(f"{alias}.{identifier(reading.column)}", reading, column.type)
    name = f"{alias}.{identifier(column.name)}"
    return f"{name}::DOUBLE" if column.type.kind is Kind.DOUBLE else name


def _read(stored: str, reading: StoredAs, kind: SqlType) -> str:
    """What a path leads to, in its type; a text that is no JSON has nothing anywhere."""
    if reading.json:
        way = "".join(f"[{s - 1}]" if isinstance(s, int) else f".{_key(s)}" for s in reading.path)
        path = constant(Literal(f"${way}", VARCHAR))
        return f"TRY_CAST(TRY(json_extract_string({stored}, {path})) AS {type_name(kind)})"
    for step in reading.path:
        extract = "list_extract" if isinstance(step, int) else "struct_extract"
        place = step if isinstance(step, int) else constant(Literal(step, VARCHAR))
        stored = f"{extract}({stored}, {place})"
    return f"TRY_CAST({stored} AS {type_name(kind)})"


def _key(name: str) -> str:
    """A name in a path of JSON, in quotes."""
    return '"' + name.replace('"', '\\"') + '"'


def statement(relation: Relation, outputs: tuple[Expression, ...]) -> str:
    """A SELECT of these columns of a relation without released tables."""
    return Printer(lambda _relation: None).select(relation, outputs)
