"""Statements and portals of a session: what was prepared, and what is being fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.dialects.postgres.words import Piece
from dpsql.interfaces.pgwire.kept_bytes import (
    FLAT,
    KeptItems,
    SessionBytes,
    size_of_rows,
    size_of_values,
)
from dpsql.interfaces.pgwire.statements.commands import Command, CopyOptions, Direction
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.stored import Flow, tables_of
from dpsql.model.vocabulary import Receipt

Row = tuple[Any, ...]
Columns = tuple[WireColumn, ...]
Warned = tuple[str, str] | None
"""A warning's SQLSTATE and text, if there is one."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement returned: rows if it has columns, and the tag; COPY has its options.

    `counted` says that the tag ends with the number of rows told; `form` is 1 for the rows of a
    binary cursor; `repeatable` says that it stays the same until the data, the ledger or the day
    change. Where private data were asked there is a receipt. Where there is a `flow` the rows are
    in it, to be read once.
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
        """Whether it was paid for now."""
        return self.receipt is not None and not self.receipt.remembered

    def tables(self) -> Iterator[Sequence[Row]]:
        """The rows, some at a time."""
        return tables_of(self.rows) if self.flow is None else self.flow.tables()

    def stored(self) -> Result:
        """The result with all of its rows. Raises `Refused` where there is no room for them."""
        if self.flow is None:
            return self
        return replace(self, rows=self.flow.stored(), flow=None)


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement with the types of its parameters and its columns; None: an empty text."""

    command: Command | None
    piece: Piece | None
    parameters: tuple[int, ...]
    columns: Columns | None

    @property
    def size(self) -> int:
        """About how many bytes it takes, with the words of its text."""
        inner = getattr(self.command, "piece", None) or getattr(self.command, "query", None)
        texts = {id(each): each.size for each in (self.piece, inner) if isinstance(each, Piece)}
        return FLAT + sum(texts.values()) + size_of_values([self.parameters, self.columns or ()])


@dataclass(slots=True)
class Portal:
    """A bound statement, run once when the first row is asked for.

    `at` is the place among the rows: 0 before the first, n on the nth, one more behind the last.
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
        """About how many bytes it keeps beside its statement: its values, and rows that it has."""
        rows = () if self.result is None else self.result.rows
        return FLAT + size_of_values([self.values, self.formats]) + size_of_rows(rows)

    def forward(self, limit: int) -> tuple[Sequence[Row], bool]:
        """The next rows, at most `limit` unless it is 0, and whether more are left."""
        assert self.result is not None
        rows = self.result.rows
        stop = len(rows) if limit == 0 else min(len(rows), self.at + limit)
        ahead = rows[self.at : stop]
        self.at = stop
        return ahead, stop < len(rows)

    def fetch(self, direction: Direction, count: int | None) -> Sequence[Row]:
        """The rows that FETCH names; `at` moves to the last of them, or off the end.

        PostgreSQL's manual, FETCH: a count of 0 is the present row again, a negative count goes
        the other way.
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
    """Whether a FETCH goes against the order of a cursor that stands at `at`."""
    match direction:
        case Direction.FORWARD:
            return count is not None and count < 0
        case Direction.BACKWARD:
            return count is None or count > 0
        case Direction.RELATIVE:
            return (count or 0) < 0
        case Direction.ABSOLUTE:
            return (count or 0) < at
