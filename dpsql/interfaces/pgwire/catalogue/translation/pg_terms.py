"""What a translated expression is: DuckDB text with the PostgreSQL type behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn, Protocol

from dpsql.dialects.duckdb.literal_sql import constant
from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import VARCHAR, Literal

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


NULL = Term("NULL", oids.UNKNOWN)


def refused(construct: str) -> Refused:
    """What is said of everything that the catalogue does not answer."""
    return Refused(Reason.UNSUPPORTED_SYNTAX, construct=f"{construct} over the catalogue")


def refuse(construct: str) -> NoReturn:
    """Raise `refused`."""
    raise refused(construct)


def unknown_literal(text: str) -> Term:
    """A string constant, whose type its surroundings decide."""
    return Term(constant(Literal(text, VARCHAR)), oids.UNKNOWN, literal=text)
