"""Public data at compile time: ranges and values of public tables, and evaluated constants.

Public data is read once: PRIVACY.md R6, R21.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Protocol

from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import ScratchTable
from dpsql.functions import facts_of_values
from dpsql.model import tree
from dpsql.model.algebra import Evaluated, Field, Relation
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts, hull
from dpsql.model.table_names import address

Row = tuple[tree.Value, ...]


class _Engine(Protocol):
    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]: ...

    def evaluate(self, sql: str, tables: Sequence[ScratchTable]) -> Sequence[tuple[Any, ...]]: ...


TABLE = "evaluated"
MOST_CELLS = 1_000_000
"""Limit on the values of one public relation that is evaluated once and loaded for each query."""

MOST_KEPT = 4 * MOST_CELLS

MOST_SMALL = 1 << 22
"""Limit on the characters of all small cached answers: frequencies, and constant expressions."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that were evaluated once, and their digest."""

    digest: str
    rows: Sequence[tuple[Any, ...]]


def _cached_rows() -> BoundedCache[_Rows]:
    return BoundedCache(MOST_KEPT, lambda rows: 1 + sum(map(len, rows.rows[:1])) * len(rows.rows))


def _few() -> BoundedCache[Sequence[Row]]:
    return BoundedCache(MOST_SMALL, lambda rows: 200 + len(repr(rows)))  # with its digest


class PublicTables:
    """Measures public tables once and caches the results; these tables are public entirely.

    One query needs the same values and frequencies several times, whenever a column's facts are
    inferred. `dialect` is the SQL of the owner's database, with functions that define the values.
    """

    def __init__(self, engine: _Engine, dialect: Dialect) -> None:
        self._engine, self._dialect = engine, dialect
        self._facts: dict[tuple[str, str, int], Facts] = {}
        self._sizes: dict[str, int] = {}
        self._evaluated: BoundedCache[_Rows] = _cached_rows()
        self._answered, self._computed = _few(), _few()

    def forget(self) -> None:
        """Drop all cached measurements; running ones are not cached."""
        self._facts, self._sizes, self._evaluated = {}, {}, _cached_rows()
        self._answered, self._computed = _few(), _few()

    def values(self, table: str, column: str) -> list[Any]:
        """Return the distinct non-NULL values of a public column, in order."""
        return self._distinct(table, tree.identifier(column), "")

    def facts(
        self,
        table: str,
        column: str,
        kind: tree.SqlType,
        limit: int,
        reading: tree.StoredAs | None = None,
    ) -> Facts:
        facts, key = self._facts, (table, column, limit)
        if key not in facts:
            name = self._dialect.column("t", Field(0, column, kind), reading)
            facts[key] = self._measured(table, name, kind, limit)
        return facts[key]

    def size(self, table: str) -> int:
        """Return the number of rows of a public table."""
        sizes = self._sizes
        if table not in sizes:
            sizes[table] = self._engine.rows(f"SELECT COUNT(*) FROM {address(table)}")[0][0]
        return sizes[table]

    def contents(self, table: str, columns: Sequence[str]) -> str:
        """Return a digest of these columns of a public table, of its rows in any order.

        A new one may be that of other rows with a probability of 2^-64.
        """
        texts = [f"CAST(t.{tree.identifier(column)} AS VARCHAR)" for column in columns]
        # Each text follows its length, so that no two rows are written alike.
        values = ", ".join(f"coalesce(strlen({text}) || ' ' || {text}, '-')" for text in texts)
        row = f"md5_number_lower(concat({values}))" if values else "1"
        ((rows, total),) = self._rows(f"SELECT COUNT(*), SUM({row}) FROM {address(table)} AS t")
        return f"{rows} rows {total}"

    def frequency(self, relation: Relation, columns: tuple[tree.Ref, ...]) -> int:
        """Return the largest number of rows of a public relation that agree on these columns.

        All rows agree on no columns. The result is at least one, since a row without a match does
        not multiply.
        """
        if isinstance(relation, Evaluated):
            places = {f.id: f"c{n}" for n, f in enumerate(relation.fields)}
            sql = _most(TABLE, [places[column.id] for column in columns])
            fields = ((f"c{n}", f.type) for n, f in enumerate(relation.fields))
            table = ScratchTable(TABLE, tuple(fields), relation.rows)
            frequency = self._engine.evaluate(sql, [table])
        else:
            rows = self._dialect.query(relation, columns)
            sql = _most(f"({rows}) AS r", [f"c{n}" for n in range(len(columns))])
            frequency = self._rows(sql)
        return max(1, frequency[0][0] or 0)

    def once(self, relation: Relation) -> Evaluated:
        """Return the rows of a public relation, evaluated once for this data.

        Raises `Refused` if they are very many.
        """
        writer = Writer()
        writer.number(relation)
        evaluated, key = self._evaluated, writer.write(relation)
        sql = self._dialect.query(relation, tuple(f.ref for f in relation.fields))
        evaluated_rows = evaluated.get(key)
        if evaluated_rows is None:
            most = MOST_CELLS // max(1, len(relation.fields))
            rows = self._engine.rows(f"SELECT * FROM ({sql}) AS r LIMIT {most + 1}")
            if len(rows) > most:
                what = "rows in a public subquery or view that private rows are joined to"
                raise Refused(Reason.TOO_LARGE, what=what, limit=most)
            evaluated_rows = _Rows(_digest(relation, rows), rows)
            evaluated.put(key, evaluated_rows)
        return Evaluated(evaluated_rows.digest, relation.fields, evaluated_rows.rows, sql)

    def distinct(
        self, relation: Relation, outputs: tuple[tree.Expression, ...], limit: int
    ) -> list[Row]:
        rows = self._dialect.query(relation, outputs)
        order = ", ".join(str(n) for n in range(1, len(outputs) + 1))
        return self._rows(f"SELECT DISTINCT * FROM ({rows}) AS r ORDER BY {order} LIMIT {limit}")

    def _rows(self, sql: str) -> list[Row]:
        answers, key = self._answered, sha256(sql.encode("utf-8", "surrogatepass")).digest()
        rows = answers.get(key)
        if rows is None:
            rows = tuple(self._engine.rows(sql))
            answers.put(key, rows)
        return list(rows)

    def evaluate(
        self, outputs: tuple[tree.Expression, ...], fields: tuple[Field, ...], rows: Sequence[Row]
    ) -> list[Row]:
        """Return values of expressions over rows of constants, by the engine's own functions."""
        names = {field.id: f'"v{n}"' for n, field in enumerate(fields)}
        listed = ", ".join(self._dialect.expression(node, names) for node in outputs)
        columns = tuple((f"v{n}", field.type) for n, field in enumerate(fields))
        numbered = [(*row, place) for place, row in enumerate(rows)]
        # By their texts: 0.0 and -0.0, 1 and TRUE are equal, but functions of them may differ.
        written = repr((listed, columns, numbered))
        answers, key = self._computed, sha256(written.encode("utf-8", "surrogatepass")).digest()
        computed = answers.get(key)
        if computed is None:
            table = ScratchTable("given", (*columns, ("place", tree.INTEGER)), numbered)
            sql = f"SELECT {listed} FROM given ORDER BY place"
            computed = tuple(self._engine.evaluate(sql, [table]))
            answers.put(key, computed)
        return list(computed)

    def _measured(self, table: str, name: str, kind: tree.SqlType, limit: int) -> Facts:
        values = self._distinct(table, name, f" LIMIT {limit + 1}")
        # Not every engine orders truth values and UUIDs, and these have no interval.
        least = "NULL, NULL" if kind in (tree.BOOLEAN, tree.UUID) else f"MIN({name}), MAX({name})"
        lowest, highest, absent = self._engine.rows(
            f"SELECT {least}, COUNT(*) - COUNT({name}) FROM {address(table)} AS t"
        )[0]
        inferred = facts_of_values(kind, values)
        return Facts(
            kind,
            hull([v for v in (lowest, highest) if v is not None]),
            absent > 0,
            inferred.domain if len(values) <= limit else None,
        )

    def _distinct(self, table: str, name: str, limit: str) -> list[Any]:
        sql = f"SELECT DISTINCT {name} FROM {address(table)} AS t WHERE {name} IS NOT NULL"
        return [row[0] for row in self._engine.rows(f"{sql} ORDER BY 1{limit}")]


def _most(source: str, columns: Sequence[str]) -> str:
    """Return the SQL of the largest number of rows that agree on these columns."""
    group = f" GROUP BY {', '.join(columns)}" if columns else ""
    return f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {source}{group}) AS counts"


def _digest(relation: Relation, rows: Sequence[tuple[Any, ...]]) -> str:
    """Return the sha256 (hex) of rows in any order, and of the types of their columns."""
    types = ",".join(str(field.type) for field in relation.fields)
    return sha256("\n".join([types, *sorted(map(repr, rows))]).encode()).hexdigest()
