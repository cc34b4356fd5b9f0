"""The schema of a database as its engine reports it: declarations only, no measurements.

A value that is never stored as NULL may be read as NULL: PRIVACY.md R99.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.model.dataclass import dataclass
from dpsql.model.prepared_store import PreparedStore
from dpsql.model.tree import DOUBLE, SqlType, StoredAs

if TYPE_CHECKING:
    from dpsql.model.algebra import Relation

LONGEST_READ = 65_536
"""Longest text, in bytes, that is read whole. Trimming or hashing a text of a gigabyte takes
minutes, or exhausts memory, and so reveals that some row holds it.
"""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as declared in the database; `type` is None where dpsql has no such type.

    With a `reading` it is a part of a column, or a column of a type that is read as another. Its
    whole numbers fit in `bits`, with a sign. Reading a `computed` column evaluates an expression of
    the database. `identifies` is False where the engine treats values as equal that differ here. A
    text that `may_be_long` is cut by our statements; one that is `cut` was long and is cut below.
    """

    name: str
    type: SqlType | None
    type_name: str
    not_null: bool = False
    enum_values: tuple[str, ...] = ()
    reading: StoredAs | None = None
    bits: int = 64
    computed: bool = False
    identifies: bool = True
    may_be_long: bool = False
    cut: bool = False

    @property
    def is_never_null(self) -> bool:
        """True if read values are never NULL. A stored NaN is read as NULL."""
        return self.not_null and self.type != DOUBLE


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key: columns reference table.referenced, enforced by the engine.

    It is `exact` where the engine's equality is ours: elsewhere it proves nothing.
    """

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A table as declared in the database: constraints only, no measurements.

    A `view` is the database's own, evaluated whenever it is read; one that is `materialized` was
    evaluated before. The rows of a `foreign` table are elsewhere. `query` is the SELECT of a view,
    spelled as `spelling`; `rows` is the same as a relation, and `problem` says why it is missing.
    """

    name: str
    columns: tuple[SchemaColumn, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[str, ...] = ()
    view: bool = False
    materialized: bool = False
    foreign: bool = False
    query: str | None = None
    spelling: str = ""
    rows: Relation | None = None
    problem: str = ""

    @property
    def is_derived(self) -> bool:
        """True if rows are computed from others: they may depend on other units than those they
        name.
        """
        return self.view or self.materialized


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables and views of a database, with the identity of its files when they were read.

    A `store` was prepared from these files. `moves` says that others write to the database
    meanwhile: each opening finds a state of its own.
    """

    tables: tuple[SchemaTable, ...]
    identity: str = ""
    store: PreparedStore | None = None
    moves: bool = False

    def table(self, name: str) -> SchemaTable | None:
        """Return the table called `name`, ignoring case."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)
