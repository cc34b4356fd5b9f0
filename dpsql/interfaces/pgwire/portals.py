"""Statements and portals of a session: prepared statements, and results being fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.dialects.postgres.words import Piece
from dpsql.dialects.statements.commands import Command, CopyOptions, Direction
from dpsql.interfaces.pgwire.kept_bytes import (
    FLAT,
    KeptItems,
    SessionBytes,
    size_of_rows,
    size_of_values,
)
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.stored import Flow, tables_of
from dpsql.model.vocabulary import Receipt

Row = tuple[Any, ...]
Columns = tuple[WireColumn, ...]
Warned = tuple[str, str] | None
"""SQLSTATE and text of a warning, or None."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a statement: rows if it has columns, and the tag. COPY has its options.

    `counted` means that the tag ends with the number of rows. `form` is 1 for the rows of a binary
    cursor. `repeatable` means that it stays the same until data, ledger or day change. There is a
    receipt if private data were queried. If there is a `flow`, it holds the rows, to be read once.
    """

    columns: Columns | None
    rows: Sequence[Row]
    tag: str
    counted: bool = False
    notices: tuple[str, ...] = ()
    copy: CopyOptions | None = None
    form: int = 0
    warning: Warned = None
    repeatable: bool = False
    receipt: Receipt | None = None
    flow: Flow | None = None

    @property
    def charged(self) -> bool:
        """True if it was charged now."""
        return self.receipt is not None and not self.receipt.remembered

    @property
    def once_logged(self) -> Result:
        """The result once its charge is in the log: later fetches of it cost nothing."""
        if not self.charged or self.receipt is None:
            return self
        return replace(self, receipt=replace(self.receipt, remembered=True))

    def tables(self) -> Iterator[Sequence[Row]]:
        """Yield the rows in chunks."""
        return tables_of(self.rows) if self.flow is None else self.flow.tables()

    def stored(self) -> Result:
        """Return the result with all of its rows. Raises `Refused` if there is no room for them."""
        if self.flow is None:
            return self
        return replace(self, rows=self.flow.stored(), flow=None)


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement with its parameter types and columns; None for an empty text."""

    command: Command | None
    piece: Piece | None
    parameters: tuple[int, ...]
    columns: Columns | None

    @property
    def size(self) -> int:
        """Approximate size in bytes, including the words of its text."""
        inner = getattr(self.command, "piece", None) or getattr(self.command, "query", None)
        texts = {id(each): each.size for each in (self.piece, inner) if isinstance(each, Piece)}
        return FLAT + sum(texts.values()) + size_of_values([self.parameters, self.columns or ()])


@dataclass(slots=True)
class Portal:
    """A bound statement, run once when the first row is requested.

    `at` is the position among the rows: 0 before the first, n on the nth, one more after the
    last.
    """

    prepared: PreparedStatement
    values: tuple[Any, ...] = ()
    formats: tuple[int, ...] = ()
    hold: bool = False
    backward: bool = False
    cursor: bool = False
    result: Result | None = None
    at: int = field(default=0)
    name: str = ""
    number: int = 0

    @property
    def size(self) -> int:
        """Approximate size in bytes of its values and rows, without its statement."""
        rows = () if self.result is None else self.result.rows
        return FLAT + size_of_values([self.values, self.formats]) + size_of_rows(rows)

    def forward(self, limit: int) -> tuple[Sequence[Row], bool]:
        """Return the next rows, at most `limit` or all for 0, and whether more remain."""
        assert self.result is not None
        rows = self.result.rows
        stop = len(rows) if limit == 0 else min(len(rows), self.at + limit)
        ahead = rows[self.at : stop]
        self.at = stop
        return ahead, stop < len(rows)

    def fetch(self, direction: Direction, count: int | None) -> Sequence[Row]:
        """Return the rows of a FETCH. `at` moves to the last of them, or off the end.

        PostgreSQL's manual, FETCH: a count of 0 repeats the current row, and a negative count
        reverses the direction.
        """
        assert self.result is not None
        rows = self.result.rows
        if direction in (Direction.FORWARD, Direction.BACKWARD):
            return self._run(rows, direction, len(rows) + 1 if count is None else count)
        steps = count or 0
        if direction is Direction.RELATIVE:
            target = self.at + steps
        else:
            target = steps if steps >= 0 else len(rows) + 1 + steps
        self.at = min(max(target, 0), len(rows) + 1)
        return rows[self.at - 1 : self.at] if self.at else ()

    def _run(self, rows: Sequence[Row], direction: Direction, count: int) -> Sequence[Row]:
        if count == 0:
            return rows[self.at - 1 : self.at] if self.at else ()
        step = count if direction is Direction.FORWARD else -count
        here = self.at
        self.at = min(max(here + step, 0), len(rows) + 1)
        if step > 0:
            return rows[here : self.at]
        return rows[max(self.at - 1, 0) : max(here - 1, 0)][::-1]


def keep_statements(account: SessionBytes | None = None) -> KeptItems[PreparedStatement]:
    """Return room for the prepared statements of a session, by name."""
    return KeptItems(account or SessionBytes(), lambda prepared: prepared.size)


def keep_portals(account: SessionBytes | None = None) -> KeptItems[Portal]:
    """Return room for the portals of a session, by name."""
    return KeptItems(account or SessionBytes(), lambda portal: portal.size)


def moves_back(direction: Direction, count: int | None, at: int) -> bool:
    """Test whether a FETCH moves backward from position `at` of a cursor."""
    match direction:
        case Direction.FORWARD:
            return count is not None and count < 0
        case Direction.BACKWARD:
            return count is None or count > 0
        case Direction.RELATIVE:
            return (count or 0) < 0
        case Direction.ABSOLUTE:
            return (count or 0) < at
