"""One session: messages in, bytes out. It implements the protocol without a socket.

One thread at a time drives a session. `cancel` may come from any thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from threading import TIMEOUT_MAX
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, TypeVar, assert_never

from dpsql.dialects.postgres.words import Piece
from dpsql.engines import Pace, Stop
from dpsql.engines.parking import Parked, Parking
from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.answers import CatalogueAnswers
from dpsql.interfaces.pgwire.copy_formats import copied
from dpsql.interfaces.pgwire.faults import Fault, fault_of, internal
from dpsql.interfaces.pgwire.outcomes import Outcome, normalised
from dpsql.interfaces.pgwire.portals import Columns, Portal, Result, Row
from dpsql.interfaces.pgwire.repeats import Repeats, is_repeatable
from dpsql.interfaces.pgwire.settings import milliseconds
from dpsql.interfaces.pgwire.statement_runner import Runner, decoded, fitted, spread
from dpsql.interfaces.pgwire.time_zones import zone
from dpsql.interfaces.pgwire.transactions import IDLE
from dpsql.interfaces.pgwire.values.data_rows import data_rows
from dpsql.interfaces.pgwire.values.wire_encoding import OutOfRange
from dpsql.model.errors import DpsqlError, Failed
from dpsql.model.stored import tables_of

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

CHUNK_BYTES = 1 << 17
"""Number of bytes gathered before a chunk is sent."""
CHUNK_ROWS = 4096
NO_ROOM = "The server has no memory for this statement; what was charged stays charged."
MOMENT = 0.005
"""Seconds for which the event loop waits for a look at the ledger, which takes far less.

Without waiting, a batch that meets another look would run in a thread. Its own look would then
delay the next batches, so one slow batch would slow down all.
"""

T = TypeVar("T")
Part: TypeAlias = bytes | Parking
Report = Callable[[Outcome], None]
"""Callback with the outcome of every statement."""


class Session:
    """Prepared statements, portals and settings of one connection, and its replies.

    `report` receives the outcome of each statement, with its text if `texts` is set. With a
    `parking`, a waiting statement holds no thread: see `handle`.
    """

    def __init__(
        self,
        runner: Runner,
        report: Report,
        pace: Pace | None = None,
        parking: Parking | None = None,
        *,
        texts: bool = False,
    ) -> None:
        self._runner, self._report, self._pace, self._texts = runner, report, pace, texts
        self._parking = parking
        self._outcomes: list[Outcome] = []
        self._began = 0.0
        self._piece: Piece | None = None
        self._transaction = runner.transaction
        self._reported = self._transaction.settings.reported()
        self._skipping = False
        self._stop = Stop()
        self._late = False
        self._repeats = Repeats()
        self._resting = False
        self._repeatable: bool | None = None

    @property
    def in_transaction(self) -> bool:
        """True if a transaction of several statements is open."""
        return self._transaction.status != IDLE

    @property
    def statement_seconds(self) -> float:
        """Time limit of a statement in seconds; 0 stands for none."""
        return milliseconds(self._transaction.settings["statement_timeout"]) / 1000

    def take_up(self, proxy: Proxy, catalogue: Callable[..., CatalogueAnswers]) -> None:
        """Use another proxy and catalogue from the next message on. Statements and portals stay."""
        self._runner.answers.take_up(proxy, catalogue)

    def cancel(self, *, late: bool = False) -> None:
        """Stop the running statement. `late` says that its time limit is over."""
        self._late = late
        self._stop.requested = True
        if self._parking is not None:
            self._parking.ring()

    def end(self) -> None:
        """Release everything that the session keeps."""
        self._transaction.portals.account.end()
        self._transaction.portals.clear()

    def again(self, messages: tuple[frontend.Message, ...]) -> bytes | None:
        """Return the cached reply to a batch, within `MOMENT`; None if `handle` must run.

        Between two batches any thread may call it.
        """
        if not self._resting or self._transaction.status != IDLE:
            return None
        runner, key = self._runner, self._transaction.key()
        repeat = self._repeats.get(messages, key, runner.statements)
        if repeat is None or repeat.stamp != self._stamp(MOMENT):
            return None
        if repeat.left is not None:
            runner.statements[""] = repeat.left
        for outcome in repeat.outcomes:
            self._report(outcome)
        return repeat.data

    def _stamp(self, seconds: float) -> object:
        try:
            return self._runner.answers.stamp(seconds)
        except DpsqlError:
            return None

    def handle(self, messages: Sequence[frontend.Message]) -> Generator[Part, None, None]:
        """Yield the replies to messages in chunks. Yields the parking when it must ring first."""
        stamp = self._stamp(TIMEOUT_MAX) if is_repeatable(messages) else None
        self._resting, self._repeatable = False, None
        self._outcomes, self._began = [], monotonic()
        gathered: list[bytes] = []
        size = chunks = 0
        for message in messages:
            for part in self._answer(message):
                if isinstance(part, Parking):
                    yield part
                    continue
                gathered.append(part)
                size += len(part)
                if size >= CHUNK_BYTES:
                    yield b"".join(gathered)
                    gathered, size, chunks = [], 0, chunks + 1
        data = b"".join(gathered)
        if stamp is not None and not chunks:
            self._keep(tuple(messages), stamp, data)
        yield data

    def without_memory(self, last: frontend.Message) -> bytes:
        """Return the reply to a batch that ran out of memory: an error and its end."""
        done = isinstance(last, frontend.Query | frontend.Sync | frontend.FunctionCall)
        failed = self._failed(Fault("53200", NO_ROOM), skip=not done)
        return b"".join([*failed, *(self._waiting() if done else ())])

    def _keep(self, messages: tuple[frontend.Message, ...], stamp: object, data: bytes) -> None:
        """Store the reply to a batch if all of it is repeatable."""
        if self._repeatable and self._resting and self._transaction.status == IDLE:
            key, statements = self._transaction.key(), self._runner.statements
            outcomes = tuple(replace(outcome, seconds=0.0) for outcome in self._outcomes)
            self._repeats.put(messages, key, statements, stamp, data, outcomes)

    def _answer(self, message: frontend.Message) -> Iterator[Part]:
        match message:
            case frontend.Query(sql=sql):
                yield from self._guarded(self._simple(sql))
                yield from self._waiting()
            case frontend.Sync():
                self._skipping = False
                yield from self._waiting()
            case frontend.FunctionCall():
                yield from self._failed(Fault("0A000", "function calls are not supported"))
                yield from self._waiting()
            case frontend.Flush() | frontend.Terminate() | frontend.Response() | frontend.CopyIn():
                return
            case (
                frontend.Parse()
                | frontend.Bind()
                | frontend.Describe()
                | frontend.Execute()
                | frontend.Close()
            ):
                if not self._skipping:
                    yield from self._guarded(self._extended(message), skip=True)
            case _:
                assert_never(message)

    def _waiting(self) -> Iterator[bytes]:
        """Yield the end of a series: ends an implicit transaction and reports changed settings."""
        if self._transaction.status == IDLE:
            self._transaction.over()
        now = self._transaction.settings.reported()
        for name, value in now.items():
            if self._reported[name] != value:
                yield backend.parameter_status(name, value)
        self._reported = now
        self._resting = True
        yield backend.ready(self._transaction.status)

    # --- errors ---

    def _guarded(self, answers: Iterator[Part], *, skip: bool = False) -> Iterator[Part]:
        """Yield replies, and an error at the place where they fail."""
        try:
            yield from answers
        except Fault as fault:
            yield from self._failed(fault, skip=skip)
        except DpsqlError as error:
            yield from self._failed(fault_of(error), skip=skip)
        except OutOfRange:
            what = "a number is out of the range of its type"
            yield from self._failed(Fault("22003", what, hint="CAST it to NUMERIC."), skip=skip)
        except MemoryError:
            yield from self._failed(Fault("53200", NO_ROOM), skip=skip)
        except Exception as error:  # noqa: BLE001 - its text may hold anything
            unknown = internal(secrets.token_hex(8))
            unknown.log = type(error).__name__
            yield from self._failed(unknown, skip=skip)

    def _failed(self, fault: Fault, *, skip: bool = False) -> Iterator[bytes]:
        if self._late and fault.sqlstate == "57014":
            fault.message = fault.message.replace("was cancelled", "timed out")
        self._tell(Outcome.of(fault, monotonic() - self._began, self._text()))
        self._transaction.broke()
        self._repeatable = False
        self._skipping = skip
        yield backend.error(fault.fields)

    def _tell(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._report(outcome)

    def _report_result(self, result: Result) -> None:
        """Report a statement, or a part of its rows, with what it cost."""
        seconds = monotonic() - self._began
        self._tell(Outcome(seconds, receipt=result.receipt, text=self._text()))

    def _text(self) -> str:
        """Return the statement's text for the log, even after the statement was cancelled."""
        if not self._texts or self._piece is None:
            return ""
        try:
            return self._runner.answers.read(normalised, self._piece, Stop())
        except Failed:
            return normalised(self._piece)

    def _begin_statement(self, piece: Piece | None = None) -> Stop:
        self._began, self._piece = monotonic(), piece
        owner = self._runner.answers.person
        self._stop, self._late = Stop(pace=self._pace, owner=owner, parking=self._parking), False
        return self._stop

    def _make(self, step: Callable[[], T]) -> Generator[Parking, None, T]:
        """Run a step, again after each wait without a thread, and return its result."""
        parking = self._parking
        if parking is None:
            return step()
        parking.begin()
        try:
            while True:
                try:
                    return step()
                except Parked:
                    yield parking
        finally:
            parking.leave()

    # --- simple queries ---

    def _simple(self, sql: str) -> Iterator[Part]:
        stop = self._begin_statement()
        self._transaction.portals.pop("", None)
        statements = yield from self._make(lambda: self._runner.answers.pieces(sql, stop))
        if not statements:
            yield backend.EMPTY_QUERY
        for piece in statements:
            self._began, self._piece = monotonic(), piece
            result = yield from self._make(
                partial(self._runner.run_text, piece, stop, block=len(statements) > 1)
            )
            count = 0
            if result.columns is not None and result.copy is None:
                forms = (result.form,) * len(result.columns)
                yield backend.row_description(result.columns, forms)
                tables = yield from self._begun(result)
                count = yield from self._rows(result, result.columns, forms, tables)
            yield from self._completed(result, count)

    def _begun(self, result: Result) -> Generator[Parking, None, Iterator[Sequence[Row]]]:
        """Return the rows of a result in chunks, with the first chunk already read."""
        return (yield from self._make(lambda: first_pulled(result.tables())))

    # --- extended queries ---

    def _extended(
        self,
        message: frontend.Parse
        | frontend.Bind
        | frontend.Describe
        | frontend.Execute
        | frontend.Close,
    ) -> Iterator[Part]:
        match message:
            case frontend.Parse():
                stop = self._begin_statement()
                yield (yield from self._make(lambda: self._parse(message, stop)))
            case frontend.Bind():
                yield self._bind(message)
            case frontend.Describe(portal=True, name=name):
                portal = self._portal(name)
                yield _described(portal.prepared.columns, portal.formats)
            case frontend.Describe(name=name):
                prepared = self._runner.statement(name)
                yield backend.parameter_description(prepared.parameters)
                yield _described(prepared.columns, ())
            case frontend.Execute():
                yield from self._execute(message)
            case frontend.Close(portal=is_portal, name=name):
                by_name = self._transaction.portals if is_portal else self._runner.statements
                by_name.pop(name, None)
                yield backend.CLOSE_COMPLETE

    def _parse(self, message: frontend.Parse, stop: Stop) -> bytes:
        statements = self._runner.answers.pieces(message.sql, stop)
        if len(statements) > 1:
            raise Fault("42601", "cannot insert multiple commands into a prepared statement")
        if message.name and message.name in self._runner.statements:
            raise Fault("42P05", f'prepared statement "{message.name}" already exists')
        self._runner.statements.pop(message.name, None)
        self._piece = statements[0] if statements else None
        prepared = self._runner.prepare(self._piece, message.types, stop)
        self._runner.statements[message.name] = prepared
        return backend.PARSE_COMPLETE

    def _bind(self, message: frontend.Bind) -> bytes:
        prepared = self._runner.statement(message.statement)
        portals = self._transaction.portals
        if prepared.command is not None:
            self._runner.require_healthy(prepared.command)
        if message.portal and message.portal in portals:
            raise Fault("42P03", f'portal "{message.portal}" already exists')
        if len(message.values) != len(prepared.parameters):
            raise Fault(
                "08P01",
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(prepared.parameters)}',
            )
        values = decoded(message.values, prepared.parameters, message.formats)
        formats = spread(message.result_formats, len(prepared.columns or ()))
        self._transaction.open(Portal(prepared, values, formats, name=message.portal))
        return backend.BIND_COMPLETE

    def _portal(self, name: str) -> Portal:
        portal = self._transaction.portals.get(name)
        if portal is None:
            raise Fault("34000", f'portal "{name}" does not exist')
        return portal

    def _execute(self, message: frontend.Execute) -> Iterator[Part]:
        portal = self._portal(message.portal)
        if portal.prepared.command is None:
            yield backend.EMPTY_QUERY
            return
        stop = self._begin_statement(portal.prepared.piece)
        yield from self._make(lambda: self._runner.start(portal, stop))
        assert portal.result is not None
        result = fitted(portal.result, portal.prepared.columns)
        if result.columns is None or result.copy is not None:
            yield from self._completed(result, 0)
            return
        forms = spread(portal.formats, len(result.columns))
        if message.limit == 0 and not portal.at and not portal.cursor:
            # It is read only once, here, so nothing is stored.
            portal.result = replace(result, flow=None, rows=())
            tables = yield from self._begun(result)
            count = yield from self._rows(result, result.columns, forms, tables)
            yield from self._completed(result, count)
            return
        yield from self._make(lambda: self._runner.keep(portal))
        portal.result = portal.result.once_logged
        rows, more = portal.forward(message.limit)
        yield from self._rows(result, result.columns, forms, tables_of(rows))
        if more:
            self._report_result(result)
            yield backend.PORTAL_SUSPENDED
        else:
            yield from self._completed(result, len(rows))

    # --- rows ---

    def _rows(
        self,
        result: Result,
        columns: Columns,
        forms: Sequence[int],
        tables: Iterable[Sequence[Row]],
    ) -> Generator[bytes, None, int]:
        """Yield the rows in large chunks, since each chunk passes through all layers above.

        Returns the number of rows.
        """
        local = zone(self._transaction.settings["timezone"])
        formats = [(c.oid, form) for c, form in zip(columns, forms, strict=True)]
        sizes = list[int]()
        for rows in self._pieces(result, tables, sizes):
            yield data_rows(rows, formats, local)
        return sum(sizes)

    def _pieces(
        self, result: Result, tables: Iterable[Sequence[Row]], sizes: list[int]
    ) -> Iterator[Sequence[Row]]:
        """Yield the rows in pieces, unless cancelled. `sizes` receives the numbers of rows."""
        for rows in tables:
            sizes.append(len(rows))
            for start in range(0, len(rows), CHUNK_ROWS):
                if self._stop.requested:
                    then = "its charge stays" if result.charged else "nothing was charged"
                    raise Fault("57014", f"The statement was cancelled; {then}.")
                yield rows[start : start + CHUNK_ROWS]

    def _completed(self, result: Result, count: int) -> Iterator[Part]:
        """Yield the rows of a COPY, then notices and the tag."""
        self._repeatable = result.repeatable and self._repeatable is not False
        if result.copy is not None and result.columns is not None:
            local = zone(self._transaction.settings["timezone"])
            yield backend.copy_out(len(result.columns), int(result.copy.format.value == "binary"))
            sizes = list[int]()
            pieces = self._pieces(result, (yield from self._begun(result)), sizes)
            yield from copied(result.columns, pieces, result.copy, local)
            count = sum(sizes)
            yield backend.COPY_DONE
        if result.warning is not None:
            sqlstate, text = result.warning
            yield _notice("WARNING", sqlstate, text)
        for text in result.notices:
            yield _notice("NOTICE", "00000", text)
        self._report_result(result)
        yield backend.command_complete(f"{result.tag} {count}" if result.counted else result.tag)


def first_pulled(tables: Iterator[Sequence[Row]]) -> Iterator[Sequence[Row]]:
    """Return the same tables, with the first one already read."""
    return chain(list(islice(tables, 1)), tables)


def _described(columns: Columns | None, formats: Sequence[int]) -> bytes:
    if columns is None:
        return backend.NO_DATA
    return backend.row_description(columns, spread(formats, len(columns)))


def _notice(severity: str, sqlstate: str, text: str) -> bytes:
    return backend.notice({"S": severity, "V": severity, "C": sqlstate, "M": text})
