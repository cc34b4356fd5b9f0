"""Translated expressions: DuckDB text with a PostgreSQL type, and the scope of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import VARCHAR, Literal, identifier
from dpsql.preparation.engine_kinds import scratch_dialect

UNNAMED = "?column?"
"""Name in PostgreSQL of a column without a suggested name."""


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column of a relation. `zero` marks arrays that count from 0."""

    name: str
    oid: int
    typmod: int = -1
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the catalogue: its name in the shadow, its columns and its OID."""

    sql: str
    columns: tuple[PgColumn, ...]
    oid: int | None = None


class Names(Protocol):
    """Objects by name, for casts to regclass and similar types."""

    def relation(self, schema: str | None, name: str) -> Relation | None:
        """Return the catalogue relation of a name. Without a schema the search path is used."""

    def function(self, name: str) -> Relation | None:
        """Return the recorded rows of a function without arguments, or None."""

    def number(self, kind: int, text: str) -> int | None:
        """Return the OID of the object of reg-type `kind` named in `text`."""

    def base(self, schema: str, name: str) -> int | None:
        """Return the base type of a domain."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression printed for DuckDB.

    `name` is PostgreSQL's name of its column. `literal` is the text of a constant without a type of
    its own. `parameter` is the number of a parameter without a type yet.
    """

    sql: str
    oid: int
    name: str = UNNAMED
    typmod: int = -1
    zero: bool = False
    literal: str | None = None
    parameter: int | None = None

    def named(self, name: str) -> Term:
        return replace(self, name=name)

    @property
    def column(self) -> PgColumn:
        """The column that an expression in a SELECT list makes for the outer query."""
        return PgColumn(self.name, self.oid, self.typmod, self.zero)


NULL = Term("NULL", oids.UNKNOWN)
SYSTEM_COLUMNS = {
    "xmin": Term("CAST(1 AS BIGINT)", oids.XID),
    "xmax": Term("CAST(0 AS BIGINT)", oids.XID),
    "cmin": Term("CAST(0 AS BIGINT)", oids.CID),
    "cmax": Term("CAST(0 AS BIGINT)", oids.CID),
    "ctid": Term("'(0,1)'", oids.TID),
}
"""System columns of every table. Rows here are never updated."""


def refused(construct: str) -> Refused:
    """Return the refusal of unsupported catalogue queries."""
    return Refused(Reason.UNSUPPORTED_SYNTAX, construct=f"{construct} over the catalogue")


def refuse(construct: str) -> NoReturn:
    """Raise `refused`."""
    raise refused(construct)


def unknown_literal(text: str) -> Term:
    """Return a string constant with a type from its context."""
    constant = scratch_dialect().constant(Literal(text, VARCHAR))
    return Term(constant, oids.UNKNOWN, literal=text)


@dataclass(frozen=True, slots=True)
class Printed:
    """A query printed for DuckDB, and its columns."""

    sql: str
    columns: tuple[PgColumn, ...]


@dataclass(slots=True)
class Reading:
    """State of one translation: names, parameter values if given, and the translator `query`.

    `types` collects the types of parameters.
    """

    names: Names
    values: tuple[Any, ...] | None
    query: Callable[[exp.Expression, PgScope], Printed]
    types: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PgSource:
    """A table of a FROM clause: its alias, its columns, and its OID."""

    alias: str
    columns: tuple[PgColumn, ...]
    number: int | None = None


@dataclass(slots=True)
class PgScope:
    """The visible sources, nearest first. `merged` are the columns joined by USING."""

    reading: Reading
    parent: PgScope | None = None
    sources: list[PgSource] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    ctes: dict[str, tuple[PgColumn, ...]] = field(default_factory=dict)

    def query(self, node: exp.Expression) -> Printed:
        """Translate a subquery. Raises `Refused`."""
        return self.reading.query(node, self)

    def cte(self, name: str) -> tuple[PgColumn, ...] | None:
        """Return the columns of the nearest common table expression with this name, or None."""
        if name in self.ctes:
            return self.ctes[name]
        return self.parent.cte(name) if self.parent else None

    def column(self, name: str, table: str | None) -> Term:
        """Return the column with this name. Raises `Refused`."""
        sources = [s for s in self.sources if table in (None, s.alias)]
        columns = [(s, c) for s in sources for c in s.columns if c.name == name]
        merged = table is None and name in self.merged
        if len(columns) > 1 and not merged:
            raise Refused(Reason.AMBIGUOUS_COLUMN, column=name)
        if columns:
            source, column = columns[0]
            return _term(column, None if merged else source)
        numbers = [s.number for s in sources if s.number]
        if len(numbers) == 1 and name in SYSTEM_COLUMNS:
            return SYSTEM_COLUMNS[name].named(name)
        if name == "tableoid" and len(numbers) == 1:
            return Term(str(numbers[0]), oids.OID, name)
        if self.parent is None:
            raise Refused(Reason.UNKNOWN_COLUMN, column=name, known=())
        return self.parent.column(name, table)

    def row(self, name: str) -> list[Term] | None:
        """Return the columns of the table with this name, unless a column has it."""
        if any(c.name == name for s in self.sources for c in s.columns):
            return None
        if any(s.alias == name for s in self.sources):
            return self.star(name)
        return self.parent.row(name) if self.parent else None

    def star(self, table: str | None) -> list[Term]:
        """Return the columns of `*` or `table.*`. Those of USING come first, once."""
        chosen = [s for s in self.sources if table in (None, s.alias)]
        if not chosen:
            raise Refused(Reason.UNKNOWN_TABLE, table=table or "*", known=())
        merged = self.merged if table is None else []
        first = [self.column(name, None) for name in merged]
        return first + [_term(c, s) for s in chosen for c in s.columns if c.name not in merged]


def _term(column: PgColumn, source: PgSource | None) -> Term:
    """Return a reference to a column, qualified if its source is given."""
    prefix = "" if source is None else f"{identifier(source.alias)}."
    sql = prefix + identifier(column.name)
    return Term(sql, column.oid, column.name, column.typmod, column.zero)
