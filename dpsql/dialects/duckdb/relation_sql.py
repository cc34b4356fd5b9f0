"""Relations as DuckDB SQL: the parts that are specific to DuckDB.

Proof (PRIVACY.md R99, R101). Every DOUBLE of a table is read here, and becomes canonical here.
"""

from __future__ import annotations

from typing import ClassVar

from dpsql.dialects.duckdb.expression_sql import compared, expression, sort_key, without_nan
from dpsql.dialects.literal_sql import constant
from dpsql.dialects.relation_printer import Column, RelationPrinter, Text
from dpsql.model import tree, walk
from dpsql.model.algebra import Field, Relation
from dpsql.model.comparisons import against_constant
from dpsql.model.table_names import WITHIN, address

_RANGES = frozenset({"lt", "le", "gt", "ge"})
"""Comparisons that are pushed into scans. Not `=`: a Bloom filter distinguishes 0.0 from -0.0 by
bytes.
"""


class Printer(RelationPrinter):
    """Printer of relations for DuckDB, which supports all of them; with `nan`, NaN is kept."""

    nan: ClassVar[bool] = False

    def expression(self, node: tree.Expression, column: Column) -> str:
        return expression(node, column, nan=self.nan)

    def sort_key(self, key: tree.SortKey, column: Column) -> str:
        return sort_key(key, column, nan=self.nan)

    def compared(
        self, left: tree.Expression, right: tree.Expression, column: Column
    ) -> tuple[str, str]:
        return compared(left, right, column, nan=self.nan)

    def constant(self, literal: tree.Literal) -> str:
        return constant(literal)

    def column(self, alias: str, column: Field, reading: tree.StoredAs | None) -> str:
        return column_sql(alias, column, reading)

    def stored(self, alias: str, column: Field) -> str | None:
        return f"{_named(alias, column)}::DOUBLE" if column.type.kind is tree.Kind.DOUBLE else None

    def condition(self, predicate: tree.Expression, columns: Text, stored: Text) -> str:
        """Print a condition of WHERE; ranges of DOUBLE columns compare stored values.

        `CASE WHEN isnan(x) THEN NULL ELSE x + 0.0 END > 1` and `x > 1 AND NOT isnan(x)` are true of
        the same rows, and the second form takes half the time.
        """
        conjuncts, tested = list[str](), dict[str, None]()
        for part in walk.conjuncts(predicate):
            here = against_constant(part)
            double = stored.get(here[1].id) if here and isinstance(here[1], tree.Ref) else None
            if here is None or double is None or here[0] not in _RANGES:
                conjuncts.append(self.text(part, columns))
                continue
            conjuncts.append(self.text(part, {**columns, **stored}))
            tested |= {f"NOT isnan({double})": None}
        if not tested:
            return self.text(predicate, columns)
        return " AND ".join(f"({each})" for each in [*conjuncts, *tested])

    def table(self, name: str) -> str:
        """Return the SQL name of a table, with the schema "main" if a stage of our statement has
        the same name.
        """
        return f'"main".{tree.identifier(name)}' if name.lower() in WITHIN else address(name)

    def accept(self, relation: Relation) -> None:
        pass


def column_sql(alias: str, column: Field, reading: tree.StoredAs | None) -> str:
    """Return SQL for a column of a table. A DOUBLE has one zero, and NULL for NaN; a FLOAT is read
    as DOUBLE.

    No filter of this form is pushed into a scan, where Parquet's statistics would leave NaN out.
    Pushed ranges have another form: `Printer.condition`.
    """
    if reading is not None:
        text = _read(f"{alias}.{tree.identifier(reading.column)}", reading, column.type)
        if reading.most and not reading.json:
            text = f"left({text}, {reading.most})"
        return without_nan(f"{text} + 0.0") if column.type.kind is tree.Kind.DOUBLE else text
    name = _named(alias, column)
    if column.type.kind is not tree.Kind.DOUBLE:
        return name
    return f"CASE WHEN isnan({name}) THEN NULL ELSE {name}::DOUBLE + 0.0 END"


def _named(alias: str, column: Field) -> str:
    return f"{alias}.{tree.identifier(column.name)}"


def _read(stored: str, reading: tree.StoredAs, kind: tree.SqlType) -> str:
    """Return the value at a path, in its type; NULL for a text that is not JSON, or a long one.

    To parse JSON takes many times its memory: one of some megabytes would make a query fail.
    """
    if reading.json:
        if reading.most:
            stored = f"CASE WHEN strlen({stored}) <= {reading.most} THEN {stored} END"
        way = "".join(f"[{s - 1}]" if isinstance(s, int) else f".{_key(s)}" for s in reading.path)
        path = constant(tree.Literal(f"${way}", tree.VARCHAR))
        return f"TRY_CAST(TRY(json_extract_string({stored}, {path})) AS {tree.type_name(kind)})"
    for step in reading.path:
        extract = "list_extract" if isinstance(step, int) else "struct_extract"
        place = step if isinstance(step, int) else constant(tree.Literal(step, tree.VARCHAR))
        stored = f"{extract}({stored}, {place})"
    return _within_type(f"TRY_CAST({stored} AS {tree.type_name(kind)})", kind)


def _within_type(sql: str, kind: tree.SqlType) -> str:
    """Return SQL for a part of a stored value, NULL beyond its type's range: Parquet can hold such
    values.
    """
    match kind.kind:
        case tree.Kind.TIME:
            least, most = "TIME '00:00:00'", "TIME '24:00:00'"
        case tree.Kind.DECIMAL:
            digits = "9" * (kind.precision - kind.scale) + "." + "9" * kind.scale
            least, most = (
                f"CAST('{sign}{digits}' AS {tree.type_name(kind)})" for sign in ("-", "")
            )
        case tree.Kind.TIMESTAMP:
            first, none = "TIMESTAMP '290309-12-22 (BC) 00:00:00'", "TIMESTAMP '-infinity'"
            return f"CASE WHEN {sql} >= {first} OR {sql} = {none} THEN {sql} END"
        case _:
            return sql
    return f"CASE WHEN {sql} BETWEEN {least} AND {most} THEN {sql} END"


def _key(name: str) -> str:
    """Return a name in a JSON path, in quotes."""
    return '"' + name.replace('"', '\\"') + '"'


def statement(relation: Relation, outputs: tuple[tree.Expression, ...]) -> str:
    """Return a SELECT of these columns of a relation without released tables."""
    return Printer(lambda _relation: None).select(relation, outputs)
