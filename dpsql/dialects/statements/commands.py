"""The closed union of statements, as frozen values.

A query is parsed further in `dpsql.dialects.reading`. An interface runs the members that it has,
and passes the others on to the proxy, which refuses those of a session.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from dpsql.dialects.postgres.words import Piece
from dpsql.dialects.statements.creations import SystemStatement
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import NOWHERE, PlanForm, Span

Modes: TypeAlias = tuple[tuple[str, str], ...]
"""Modes of a transaction, as names and values of settings."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A query or any other text, for the catalogue or the proxy."""

    piece: Piece


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [PRIVACY] of the statement that begins at `start`, with the plan in a `form`."""

    form: PlanForm
    start: int

    def inner(self, text: str) -> str:
        """Return the explained statement, at its place in the text."""
        return " " * self.start + text[self.start :]


@dataclass(frozen=True, slots=True)
class Listing:
    """SHOW TABLES, or DESCRIBE `table`, which is named at `span`."""

    table: tuple[str, ...] = ()
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Begin:
    """BEGIN or START TRANSACTION. `tag` is the reply, and `modes` are settings."""

    tag: str
    modes: Modes = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """COMMIT or ROLLBACK of a transaction. With `chain` the next one begins at once."""

    commit: bool
    chain: bool


@dataclass(frozen=True, slots=True)
class Savepoint:
    """SAVEPOINT name."""

    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint:
    """RELEASE name, or with `rollback` ROLLBACK TO name."""

    name: str
    rollback: bool


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """SET TRANSACTION, or with `session` SET SESSION CHARACTERISTICS AS TRANSACTION."""

    modes: Modes
    session: bool


@dataclass(frozen=True, slots=True)
class SetValue:
    """SET name: `value` None is the default; `local` ends with the transaction."""

    name: str
    value: str | None
    local: bool


@dataclass(frozen=True, slots=True)
class SetConfig:
    """SELECT set_config(name, value, local): sets, and answers with the value as `column`."""

    name: str
    value: str | None
    local: bool
    column: str


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET name; None is ALL."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW name; None is ALL."""

    name: str | None


class Discarded(StrEnum):
    """Objects of DISCARD."""

    ALL = "ALL"
    PLANS = "PLANS"
    SEQUENCES = "SEQUENCES"
    TEMP = "TEMP"


@dataclass(frozen=True, slots=True)
class Discard:
    """DISCARD."""

    what: Discarded


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE name CURSOR FOR query; `hold` outlives the transaction."""

    name: str
    query: Piece
    hold: bool
    backward: bool
    binary: bool


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] TEMP VIEW name (columns) AS query; no columns are the query's own."""

    name: str
    columns: tuple[str, ...]
    query: Piece
    replace: bool


@dataclass(frozen=True, slots=True)
class DropViews:
    """DROP VIEW [IF EXISTS] names."""

    names: tuple[str, ...]
    missing: bool


class Direction(StrEnum):
    """Directions of FETCH and MOVE: by several rows, or to one row."""

    FORWARD = "forward"
    BACKWARD = "backward"
    ABSOLUTE = "absolute"
    RELATIVE = "relative"


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH or MOVE; `count` None is ALL."""

    cursor: str
    direction: Direction
    count: int | None
    move: bool


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE name; None is ALL."""

    name: str | None


class CopyFormat(StrEnum):
    """Formats of COPY."""

    TEXT = "text"
    CSV = "csv"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of COPY … TO STDOUT, with PostgreSQL's defaults filled in.

    `force_quote` names columns; None is every column.
    """

    format: CopyFormat = CopyFormat.TEXT
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    force_quote: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (query) TO STDOUT."""

    query: Piece
    options: CopyOptions


@dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE name (types) AS query."""

    name: str
    types: tuple[str, ...]
    query: Piece


@dataclass(frozen=True, slots=True)
class ExecutePrepared:
    """EXECUTE name (constants)."""

    name: str
    arguments: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE name; None is ALL."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """LISTEN, UNLISTEN and SET CONSTRAINTS, without effect: nothing is notified or checked
    later.
    """

    tag: str


@dataclass(frozen=True, slots=True)
class UnlockAll:
    """SELECT pg_advisory_unlock_all(), which connection pools send. There are no locks."""


Command: TypeAlias = (
    Ask
    | Begin
    | Finish
    | Savepoint
    | ReleaseSavepoint
    | SetTransaction
    | SetValue
    | SetConfig
    | Reset
    | Show
    | Discard
    | CreateView
    | DropViews
    | Declare
    | Fetch
    | CloseCursor
    | Copy
    | Prepare
    | ExecutePrepared
    | Deallocate
    | Accepted
    | UnlockAll
)
"""Query, or statement of a session."""

OtherStatement: TypeAlias = Explain | SystemStatement
"""Statement of the proxy other than a query."""

Statement: TypeAlias = Command | Listing | OtherStatement
"""Any statement."""
