"""Command → Result: the effect of each statement on a session, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

from dpsql.dialects.postgres.words import Piece
from dpsql.dialects.statements.commands import (
    Accepted,
    Ask,
    Begin,
    CloseCursor,
    Command,
    Copy,
    CreateView,
    Deallocate,
    Declare,
    Discard,
    Discarded,
    DropViews,
    ExecutePrepared,
    Fetch,
    Finish,
    Prepare,
    ReleaseSavepoint,
    Reset,
    Savepoint,
    SetConfig,
    SetTransaction,
    SetValue,
    Show,
    UnlockAll,
)
from dpsql.dialects.statements.statement_table import session_command
from dpsql.engines import Stop
from dpsql.interfaces.pgwire import session_state
from dpsql.interfaces.pgwire.answers import Answers, placed
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.kept_bytes import KeptItems
from dpsql.interfaces.pgwire.portals import (
    Columns,
    Portal,
    PreparedStatement,
    Result,
    keep_statements,
    moves_back,
)
from dpsql.interfaces.pgwire.session_views import created, expanded
from dpsql.interfaces.pgwire.transactions import BROKEN, IDLE, Transaction
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_parameters import BadValue, parameter
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.dataclass import dataclass, field, replace

_UNLOCKED = (WireColumn("pg_advisory_unlock_all", type_oids.VOID),)


@dataclass(slots=True)
class Runner:
    """Statements of one session, and their execution."""

    answers: Answers
    transaction: Transaction
    statements: KeptItems[PreparedStatement] = field(default_factory=keep_statements)

    # --- before running ---

    def prepare(
        self, piece: Piece | None, declared: Sequence[int], stop: Stop
    ) -> PreparedStatement:
        """Return a prepared statement with its types. Raises `Fault`."""
        if piece is None:
            return PreparedStatement(None, None, tuple(declared), None)
        command = self.command(piece, stop)
        self.require_healthy(command)
        match command:
            case Ask(piece=whole):
                description = self.answers.describe(
                    whole, declared, self.transaction.settings, stop
                )
                return PreparedStatement(
                    command, piece, description.parameters, description.columns
                )
            case _:
                if declared:
                    raise Fault("42601", "this statement takes no parameters")
                return PreparedStatement(command, piece, (), self.columns(command, stop))

    def command(self, piece: Piece, stop: Stop) -> Command:
        """Parse a statement. The views that a query names are expanded. Raises `Fault`."""
        with placed(piece):
            command = self.answers.read(session_command, piece, stop)
        match command:
            case Ask():
                return Ask(self._with_views(command.piece, stop))
            case Copy() | Declare() | CreateView():
                return replace(command, query=self._with_views(command.query, stop))
            case _:
                return command

    def _with_views(self, piece: Piece, stop: Stop) -> Piece:
        """Return a query with the session's views that it names. Raises `Fault`."""
        if not self.transaction.views:
            return piece
        with placed(piece):
            return self.answers.read(partial(expanded, views=self.transaction.views), piece, stop)

    def columns(self, command: Command, stop: Stop) -> Columns | None:
        """Return the columns of a statement without parameters. Raises `Fault`."""
        match command:
            case Ask(piece=piece):
                return self.answers.describe(piece, (), self.transaction.settings, stop).columns
            case SetConfig(column=column):
                return (WireColumn(column, type_oids.TEXT),)
            case Show(name=name):
                return session_state.setting_columns(name)
            case Fetch(cursor=name, move=False):
                return self._cursor(name).prepared.columns
            case ExecutePrepared(name=name):
                return self.statement(name).columns
            case UnlockAll():
                return _UNLOCKED
            case _:
                return None

    def require_healthy(self, command: Command) -> None:
        """Raise `Fault` if the transaction has failed, unless the command ends it."""
        ending = isinstance(command, Finish) or (
            isinstance(command, ReleaseSavepoint) and command.rollback
        )
        if self.transaction.status == BROKEN and not ending:
            raise Fault(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )

    def statement(self, name: str) -> PreparedStatement:
        """Return a prepared statement. Raises `Fault`."""
        prepared = self.statements.get(name)
        if prepared is None:
            raise Fault("26000", f'prepared statement "{name}" does not exist')
        return prepared

    # --- running ---

    def run_text(self, piece: Piece, stop: Stop, *, block: bool) -> Result:
        """Parse and run a statement without parameters, as `run` does."""
        return self.run(self.command(piece, stop), (), stop, block=block)

    def run(
        self, command: Command, values: Sequence[Any], stop: Stop, *, block: bool = False
    ) -> Result:
        """Run a statement. `block` means that its message has several statements.

        Raises `Fault`.
        """
        self.require_healthy(command)
        match command:
            case Ask(piece=piece):
                return self._ask(piece, values, stop)
            case Begin() | Finish() | Savepoint() | ReleaseSavepoint():
                return session_state.change_transaction(self.transaction, command)
            case SetTransaction() | SetValue() | SetConfig() | Reset() | Show():
                return session_state.change_settings(self.transaction, command)
            case Discard(what=what):
                return self._discard(what)
            case CreateView() | DropViews():
                return self._change_views(command, stop)
            case Declare():
                return self._declare(command, stop, block=block)
            case Fetch():
                return self._fetch(command, stop)
            case CloseCursor(name=name):
                return self._close(name)
            case Copy(query=query, options=options):
                result = self._ask(query, (), stop)
                return replace(result, tag="COPY", copy=options)
            case Prepare() | ExecutePrepared() | Deallocate():
                return self._prepared(command, stop)
            case Accepted(tag=tag):
                return Result(None, (), tag)
            case UnlockAll():
                return Result(_UNLOCKED, [("",)], "SELECT", counted=True)
            case _:
                assert_never(command)

    def _ask(
        self, piece: Piece, values: Sequence[Any], stop: Stop, announced: Columns | None = None
    ) -> Result:
        return self.answers.ask(piece, values, self.transaction, stop, announced or ())

    def _discard(self, what: Discarded) -> Result:
        if what is Discarded.ALL:
            if self.transaction.status != IDLE:
                raise Fault("25001", "DISCARD ALL cannot run inside a transaction block")
            self.transaction.portals.clear()
            self.transaction.settings.reset(None)
            self.statements.clear()
        if what in (Discarded.ALL, Discarded.TEMP):
            self.transaction.change_views(())
        return Result(None, (), f"DISCARD {what.value}")

    # --- views ---

    def _change_views(self, command: CreateView | DropViews, stop: Stop) -> Result:
        transaction = self.transaction
        match command:
            case CreateView(query=query):
                described = self.answers.describe(query, (), transaction.settings, stop)
                if described.parameters:
                    raise Fault("42P02", "there is no parameter $1")
                own = tuple(c for c in described.columns or () if not c.errors)
                transaction.change_views(created(command, own, transaction.views))
                return Result(None, (), "CREATE VIEW")
            case DropViews(names=names, missing=missing):
                absent = sorted(set(names) - {view.name for view in transaction.views})
                if absent and not missing:
                    raise Fault("42P01", f'view "{absent[0]}" does not exist')
                transaction.change_views(tuple(v for v in transaction.views if v.name not in names))
                notices = tuple(f'view "{name}" does not exist, skipping' for name in absent)
                return Result(None, (), "DROP VIEW", notices=notices)

    # --- cursors ---

    def _declare(self, command: Declare, stop: Stop, *, block: bool) -> Result:
        portals = self.transaction.portals
        if self.transaction.status == IDLE and not (command.hold or block):
            raise Fault("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if command.name in portals:
            raise Fault("42P03", f'cursor "{command.name}" already exists')
        query = Ask(command.query)
        prepared = PreparedStatement(query, command.query, (), self.columns(query, stop))
        self.transaction.open(
            Portal(
                prepared,
                formats=(int(command.binary),),
                hold=command.hold,
                backward=command.backward,
                cursor=True,
                name=command.name,
            )
        )
        return Result(None, (), "DECLARE CURSOR")

    def _cursor(self, name: str) -> Portal:
        portal = self.transaction.portals.get(name)
        if portal is None or not name:
            raise Fault("34000", f'cursor "{name}" does not exist')
        return portal

    def _fetch(self, command: Fetch, stop: Stop) -> Result:
        portal = self._cursor(command.cursor)
        if not portal.backward and moves_back(command.direction, command.count, portal.at):
            raise Fault(
                "55000", "cursor can only scan forward", hint="Declare it with SCROLL option."
            )
        self.start(portal, stop)
        self.keep(portal)
        assert portal.result is not None
        paid, portal.result = portal.result.receipt, portal.result.once_logged
        rows = portal.fetch(command.direction, command.count)
        if command.move:
            return Result(None, (), f"MOVE {len(rows)}", receipt=paid)
        form = portal.formats[0] if portal.cursor else 0
        return Result(portal.prepared.columns, rows, "FETCH", counted=True, form=form, receipt=paid)

    def start(self, portal: Portal, stop: Stop, *, block: bool = False) -> None:
        """Run a portal's statement unless it has run. It is charged once, however it is fetched."""
        if portal.result is None:
            portal.result = self._run_prepared(portal.prepared, portal.values, stop, block=block)

    def _run_prepared(
        self, prepared: PreparedStatement, values: Sequence[Any], stop: Stop, *, block: bool
    ) -> Result:
        """Run a statement with announced columns, as `run` does."""
        assert prepared.command is not None
        if not isinstance(prepared.command, Ask):
            return self.run(prepared.command, values, stop, block=block)
        self.require_healthy(prepared.command)
        return self._ask(prepared.command.piece, values, stop, prepared.columns)

    def keep(self, portal: Portal) -> None:
        """Store all rows of a portal that has run, for later fetches.

        The time of the next fetch is unknown, so the engine is released until then. The rows go
        into a file to save memory. Raises `Fault`.
        """
        assert portal.result is not None
        assert portal.prepared.piece is not None
        with placed(portal.prepared.piece):
            portal.result = portal.result.stored()
        try:
            self.transaction.portals[portal.name] = portal
        except Fault:
            portal.result = None  # it is asked again, for nothing
            raise

    def _close(self, name: str | None) -> Result:
        if name is None:
            self.transaction.portals.clear()
            return Result(None, (), "CLOSE CURSOR ALL")
        self._cursor(name)
        del self.transaction.portals[name]
        return Result(None, (), "CLOSE CURSOR")

    # --- prepared statements ---

    def _prepared(self, command: Prepare | ExecutePrepared | Deallocate, stop: Stop) -> Result:
        match command:
            case Prepare(name=name, types=types, query=query):
                if name in self.statements:
                    raise Fault("42P05", f'prepared statement "{name}" already exists')
                declared = [_type(kind) for kind in types]
                self.statements[name] = self.prepare(query, declared, stop)
                return Result(None, (), "PREPARE")
            case ExecutePrepared(name=name, arguments=arguments):
                return self._execute(name, arguments, stop)
            case Deallocate(name=name):
                if name is None:
                    self.statements.clear()
                else:
                    self.statement(name)
                    del self.statements[name]
                return Result(None, (), "DEALLOCATE" if name else "DEALLOCATE ALL")

    def _execute(self, name: str, arguments: Sequence[str | None], stop: Stop) -> Result:
        prepared = self.statement(name)
        if len(arguments) != len(prepared.parameters):
            raise Fault("42601", f'wrong number of parameters for prepared statement "{name}"')
        raw = [None if text is None else text.encode() for text in arguments]
        values = decoded(raw, prepared.parameters, ())
        result = self._run_prepared(prepared, values, stop, block=False)
        return replace(fitted(result, prepared.columns), repeatable=False)


def decoded(
    raw: Sequence[bytes | None], types: Sequence[int], formats: Sequence[int]
) -> tuple[Any, ...]:
    """Decode the values of parameters. Raises `Fault`."""
    forms = spread(formats, len(types))
    values: list[Any] = []
    for number, (value, oid, form) in enumerate(zip(raw, types, forms, strict=True), start=1):
        try:
            values.append(None if value is None else parameter(value, oid, form))
        except BadValue:
            state = "22P03" if form else "22P02"
            raise Fault(state, f"parameter ${number} is no value of its type") from None
    return tuple(values)


def spread(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """Return a format per column: () means text, and one format is for all. Raises `Fault`."""
    if any(form not in (0, 1) for form in formats):
        raise Fault("08P01", "a format is neither text nor binary")
    if len(formats) <= 1:
        return (formats[0] if formats else 0,) * count
    if len(formats) != count:
        raise Fault("08P01", f"there are {len(formats)} formats for {count} values")
    return tuple(formats)


def fitted(result: Result, columns: Columns | None) -> Result:
    """Return the result with the announced columns."""
    if columns is None or result.columns is None or columns == result.columns:
        return result
    return replace(result, columns=columns)


def _type(name: str) -> int:
    oid = type_oids.named(name)
    if oid is None:
        raise Fault("0A000", f"type {name} is not supported")
    return oid
