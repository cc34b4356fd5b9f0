"""What a name means where it stands: the sources of a FROM, those around it, and the CTEs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import Names, PgColumn, Term
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import identifier


@dataclass(frozen=True, slots=True)
class Printed:
    """A query printed for DuckDB, and its columns."""

    sql: str
    columns: tuple[PgColumn, ...]


@dataclass(slots=True)
class Reading:
    """What one translation knows: names, the values of parameters if they are given, and `query`.

    `types` collects the type that each parameter turns out to have.
    """

    names: Names
    values: tuple[Any, ...] | None
    query: Callable[[exp.Expression, PgScope], Printed]
    types: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PgSource:
    """A table of a FROM under the name its columns are qualified with, and its own OID."""

    alias: str
    columns: tuple[PgColumn, ...]
    number: int | None = None


@dataclass(slots=True)
class PgScope:
    """The sources in sight, nearest first; `merged` are the columns that USING made one."""

    reading: Reading
    parent: PgScope | None = None
    sources: list[PgSource] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    ctes: dict[str, tuple[PgColumn, ...]] = field(default_factory=dict)

    def inner(self) -> PgScope:
        """The scope of a query inside this one."""
        return PgScope(self.reading, self)

    def cte(self, name: str) -> tuple[PgColumn, ...] | None:
        """The columns of the nearest common table expression of that name."""
        if name in self.ctes:
            return self.ctes[name]
        return self.parent.cte(name) if self.parent else None

    def column(self, name: str, table: str | None) -> Term:
        """The column that a name means. Raises `Refused`."""
        found = [
            (source, column)
            for source in self.sources
            if table is None or source.alias == table
            for column in source.columns
            if column.name == name
        ]
        if len(found) > 1 and (table is not None or name not in self.merged):
            raise Refused(Reason.AMBIGUOUS_COLUMN, column=name)
        if found:
            source, column = found[0]
            qualified = table is not None or name not in self.merged
            prefix = f"{identifier(source.alias)}." if qualified else ""
            return term(column, prefix)
        numbers = [s.number for s in self.sources if s.number and table in (None, s.alias)]
        if name == "tableoid" and len(numbers) == 1:
            return Term(str(numbers[0]), oids.OID, name)
        if self.parent is None:
            raise Refused(Reason.UNKNOWN_COLUMN, column=name, known=())
        return self.parent.column(name, table)

    def star(self, table: str | None) -> list[Term]:
        """The columns that `*` or `table.*` means, those of USING first and once."""
        chosen = [s for s in self.sources if table is None or s.alias == table]
        if not chosen:
            raise Refused(Reason.UNKNOWN_TABLE, table=table or "*", known=())
        merged = self.merged if table is None else []
        first = [self.column(name, None) for name in merged]
        rest = [
            term(column, f"{identifier(source.alias)}.")
            for source in chosen
            for column in source.columns
            if column.name not in merged
        ]
        return first + rest


def term(column: PgColumn, prefix: str) -> Term:
    """A reference to a column."""
    sql = prefix + identifier(column.name)
    return Term(sql, column.oid, column.name, column.typmod, column.zero)


def column_of(item: Term) -> PgColumn:
    """What an expression in a SELECT list is to the query outside."""
    return PgColumn(item.name, item.oid, item.typmod, item.zero)
