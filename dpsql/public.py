"""Public data at compile time: ranges and values of public tables, and constants evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dpsql.algebra import Field, Relation
from dpsql.dialects.duckdb import statement
from dpsql.dialects.duckdb_expressions import expression
from dpsql.dialects.duckdb_literals import identifier
from dpsql.engines import ScratchTable
from dpsql.functions import facts_of_values
from dpsql.intervals import Facts, hull
from dpsql.tree import INTEGER, Expression, Ref, SqlType, Value

Row = tuple[Value, ...]


class _Engine(Protocol):
    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]: ...

    def scratch(self, sql: str, tables: Sequence[ScratchTable] = ()) -> list[tuple[Any, ...]]: ...


class PublicTables:
    """What may be measured: public tables are public entirely. Measures once, then remembers."""

    def __init__(self, engine: _Engine) -> None:
        self._engine = engine
        self._facts: dict[tuple[str, str, int], Facts] = {}
        self._sizes: dict[str, int] = {}

    def forget(self) -> None:
        """Measure anew from here on; what is being measured now is not remembered."""
        self._facts, self._sizes = {}, {}

    def values(self, table: str, column: str) -> list[Any]:
        """The distinct non-NULL values of a public column, in order."""
        return self._distinct(table, column, "")

    def facts(self, table: str, column: str, kind: SqlType, limit: int) -> Facts:
        """Range, nullability and, up to `limit` values, the domain of a public column."""
        known, key = self._facts, (table, column, limit)
        if key not in known:
            known[key] = self._measured(table, column, kind, limit)
        return known[key]

    def size(self, table: str) -> int:
        """How many rows a public table has."""
        known = self._sizes
        if table not in known:
            known[table] = self._engine.rows(f"SELECT COUNT(*) FROM {identifier(table)}")[0][0]
        return known[table]

    def frequency(self, relation: Relation, columns: tuple[Ref, ...]) -> int:
        """Most rows of a public relation that agree on these columns; all rows if there are none.

        A row that meets none does not multiply, so the answer is at least one.
        """
        listed = ", ".join(f"c{n}" for n in range(len(columns)))
        group = f" GROUP BY {listed}" if columns else ""
        rows = statement(relation, columns)
        sql = f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({rows}){group})"
        return max(1, self._engine.rows(sql)[0][0] or 0)

    def distinct(
        self, relation: Relation, outputs: tuple[Expression, ...], limit: int
    ) -> list[Row]:
        """The different rows of these expressions over a public relation, at most `limit`."""
        rows = statement(relation, outputs)
        sql = f"SELECT DISTINCT * FROM ({rows}) ORDER BY ALL LIMIT {limit}"
        return list(self._engine.rows(sql))

    def evaluate(
        self, outputs: tuple[Expression, ...], fields: tuple[Field, ...], rows: Sequence[Row]
    ) -> list[Row]:
        """Values of expressions over rows of constants, by the engine's own functions."""
        names = {field.id: f'"v{n}"' for n, field in enumerate(fields)}
        listed = ", ".join(expression(node, lambda ref: names[ref.id]) for node in outputs)
        columns = tuple((f"v{n}", field.type) for n, field in enumerate(fields))
        numbered = [(*row, place) for place, row in enumerate(rows)]
        table = ScratchTable("given", (*columns, ("place", INTEGER)), numbered)
        return self._engine.scratch(f"SELECT {listed} FROM given ORDER BY place", [table])

    def _measured(self, table: str, column: str, kind: SqlType, limit: int) -> Facts:
        values = self._distinct(table, column, f" LIMIT {limit + 1}")
        name = identifier(column)
        lowest, highest, absent = self._engine.rows(
            f"SELECT MIN({name}), MAX({name}), COUNT(*) - COUNT({name}) FROM {identifier(table)}"
        )[0]
        known = facts_of_values(kind, values)
        return Facts(
            kind,
            hull([v for v in (lowest, highest) if v is not None]),
            absent > 0,
            known.domain if len(values) <= limit else None,
            known.nan or len(values) > limit,
        )

    def _distinct(self, table: str, column: str, limit: str) -> list[Any]:
        name = identifier(column)
        sql = f"SELECT DISTINCT {name} FROM {identifier(table)} WHERE {name} IS NOT NULL"
        return [row[0] for row in self._engine.rows(f"{sql} ORDER BY 1{limit}")]
