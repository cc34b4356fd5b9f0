"""What a translated expression is, DuckDB text with the type behind it, and what names mean."""

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
"""PostgreSQL's name for a column whose expression suggests none."""


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column of a relation; `zero` says that its arrays count from 0."""

    name: str
    oid: int
    typmod: int = -1
    zero: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of the catalogue: how the shadow calls it, its columns and its OID."""

    sql: str
    columns: tuple[PgColumn, ...]
    oid: int | None = None


class Names(Protocol):
    """Objects by name, as the casts to regclass and its kin look them up."""

    def relation(self, schema: str | None, name: str) -> Relation | None:
        """The catalogue relation called so; without a schema as the search path finds it."""

    def function(self, name: str) -> Relation | None:
        """The rows that a function of this name returns without arguments, where they are kept."""

    def number(self, kind: int, text: str) -> int | None:
        """The OID of what `text` names among the objects of the reg-type `kind`."""

    def base(self, schema: str, name: str) -> int | None:
        """The type below a domain of that name."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression printed for DuckDB.

    `name` is what PostgreSQL would call its column; `literal` is the text of a constant whose type
    its surroundings decide; `parameter` is the number of a parameter without a type so far.
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
        """What an expression in a SELECT list is to the query outside."""
        return PgColumn(self.name, self.oid, self.typmod, self.zero)


NULL = Term("NULL", oids.UNKNOWN)
SYSTEM_COLUMNS = {
    "xmin": Term("CAST(1 AS BIGINT)", oids.XID),
    "xmax": Term("CAST(0 AS BIGINT)", oids.XID),
    "cmin": Term("CAST(0 AS BIGINT)", oids.CID),
    "cmax": Term("CAST(0 AS BIGINT)", oids.CID),
    "ctid": Term("'(0,1)'", oids.TID),
}
"""Columns that every table has beside its own: here no row is ever written again."""


def refused(construct: str) -> Refused:
    """What is said of everything that the catalogue does not answer."""
    return Refused(Reason.UNSUPPORTED_SYNTAX, construct=f"{construct} over the catalogue")


def refuse(construct: str) -> NoReturn:
    """Raise `refused`."""
    raise refused(construct)


def unknown_literal(text: str) -> Term:
    """A string constant, whose type its surroundings decide."""
    constant = scratch_dialect().constant(Literal(text, VARCHAR))
    return Term(constant, oids.UNKNOWN, literal=text)


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

    def query(self, node: exp.Expression) -> Printed:
        """A query inside this one. Raises `Refused`."""
        return self.reading.query(node, self)

    def cte(self, name: str) -> tuple[PgColumn, ...] | None:
        """The columns of the nearest common table expression of that name."""
        if name in self.ctes:
            return self.ctes[name]
        return self.parent.cte(name) if self.parent else None

    def column(self, name: str, table: str | None) -> Term:
        """The column that a name means. Raises `Refused`."""
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
        """The columns of the table called so, unless a column is called so."""
        if any(c.name == name for s in self.sources for c in s.columns):
            return None
        if any(s.alias == name for s in self.sources):
            return self.star(name)
        return self.parent.row(name) if self.parent else None

    def star(self, table: str | None) -> list[Term]:
        """The columns that `*` or `table.*` means, those of USING first and once."""
        chosen = [s for s in self.sources if table in (None, s.alias)]
        if not chosen:
            raise Refused(Reason.UNKNOWN_TABLE, table=table or "*", known=())
        merged = self.merged if table is None else []
        first = [self.column(name, None) for name in merged]
        return first + [_term(c, s) for s in chosen for c in s.columns if c.name not in merged]


def _term(column: PgColumn, source: PgSource | None) -> Term:
    """A reference to a column, qualified where its source is given."""
    prefix = "" if source is None else f"{identifier(source.alias)}."
    sql = prefix + identifier(column.name)
    return Term(sql, column.oid, column.name, column.typmod, column.zero)
