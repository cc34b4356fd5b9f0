"""Session of the shell with a server `dpsql serve`, by psycopg (the extra `remote`).

The server states prices and notices, as to any other client. No policy is read here. Server texts
are escaped like our own (SECURITY.md S21).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import click

from dpsql.dialects.postgres.words import words
from dpsql.dialects.statements.commands import Listing
from dpsql.interfaces.cli.completions import Completable, by_column
from dpsql.interfaces.cli.listing_commands import listing_text
from dpsql.interfaces.cli.prices import QuestionPrice
from dpsql.interfaces.cli.shell_sessions import Reply, is_plan
from dpsql.interfaces.cli.terminal import Progress, columns, interruptible, note
from dpsql.interfaces.data_frames import module
from dpsql.interfaces.messages import Message, RemoteError, place
from dpsql.interfaces.pgwire.values.type_oids import kind_of
from dpsql.interfaces.records import end_columns
from dpsql.interfaces.tables import grid
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Refused
from dpsql.model.interval_ends import Half
from dpsql.model.tree import VARCHAR, Span
from dpsql.model.value_texts import exact_text
from dpsql.model.vocabulary import Answer, Column, Loss

T = TypeVar("T")

_QUERIES = frozenset("select with from values table (".split())
_FIRST = "SET dpsql.errors = columns; SET dpsql.notices = on"
_NAMES = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
)
_VALUES = "SELECT column_name, value FROM dpsql_values()"
_COST = "cost: "
_VAIN = "this cannot be useful"
_CANCELLED = "57014"
_AWAY = ("08", "57P", "58", "XX")
"""Classes of SQLSTATE that are not about the statement."""


@contextmanager
def connected(url: str) -> Iterator[RemoteSession]:
    """Open a session with a server. Asks for a required password on the terminal.

    Raises MissingExtra, or `RemoteError` if there is no session.
    """
    psycopg = module("psycopg", "remote", "A shell over a server")
    if _holds_password(psycopg, url):
        note("The URL holds a password, which other users of this machine may see in the list of")
        note("processes. Leave it out: the shell asks for it, or reads PGPASSFILE.")
    session = RemoteSession(_opened(psycopg, url))
    try:
        yield session
    finally:
        session.connection.close()


def _holds_password(psycopg: Any, url: str) -> bool:
    """Test whether the connection text itself holds a password for libpq."""
    try:
        return bool(psycopg.conninfo.conninfo_to_dict(url).get("password"))
    except psycopg.Error:
        return False


def _opened(psycopg: Any, url: str) -> Any:
    connect = partial(psycopg.connect, autocommit=True, application_name="dpsql shell")
    try:
        return connect(url)
    except psycopg.Error as error:
        if "no password supplied" not in str(error) or not sys.stdin.isatty():
            raise _error_of(error, "") from None
    try:
        return connect(url, password=click.prompt("Password", hide_input=True, err=True))
    except psycopg.Error as error:
        raise _error_of(error, "") from None


@dataclass(slots=True)
class RemoteSession:
    """One connection, and the notices of the server for the latest rows."""

    connection: Any
    _notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection.add_notice_handler(lambda n: self._notices.append(n.message_primary or ""))
        self._run(_FIRST)

    @property
    def analyst(self) -> str:
        return str(self.connection.info.user)

    @property
    def confirm_above(self) -> Decimal:
        """Default ε of a query."""
        return Decimal(self._run("SELECT question_epsilon FROM dpsql_budget()").rows[0][0])

    def names(self) -> Completable:
        from dpsql.dialects.reading.function_names import called_functions  # noqa: PLC0415

        tables: dict[str, list[str]] = {}
        for table, column in self._run(_NAMES).rows:
            tables.setdefault(table, []).append(column)
        values = self._run(_VALUES).rows
        return Completable(tables, called_functions(), values=by_column(values))

    def listed(self, wish: Listing) -> Answer:
        named = ".".join('"' + part.replace('"', '""') + '"' for part in wish.table)
        return self._run(f"DESCRIBE {named}" if named else "SHOW TABLES")

    def free(self, sql: str) -> Reply | None:
        return None if _is_query(sql) else self._shown(sql)

    def price(self, sql: str) -> QuestionPrice | None:
        try:
            text = self._run(f"EXPLAIN (FORMAT JSON) {sql}").rows[0][0]
        except RemoteError:
            return None  # what the catalogue answers has no plan; what is wrong is told when asked
        plan: Mapping[str, Any] = json.loads(text)
        amount, delta = (
            round(Decimal(repr(plan["charge"][name])).scaleb(at)) for name, at in _AMOUNTS
        )
        charge = Loss(amount, delta)
        vain = next((str(line) for line in plan["told"] if line.startswith(_VAIN)), "")
        return QuestionPrice(Decimal(repr(plan["epsilon"])), charge, plan["accountant"], vain)

    def plan(self, sql: str) -> str:
        return _lines(self._run(sql if is_plan(sql) else f"EXPLAIN PRIVACY {sql}"))

    def ask(self, sql: str, *, confirmed: bool) -> Reply:
        if not confirmed:
            return self._shown(sql)
        self._run("SET dpsql.confirm = on")
        try:
            return self._shown(sql)
        finally:
            self._run("SET dpsql.confirm = off")

    def at(self, epsilon: Decimal | None) -> None:
        self._run("RESET dpsql.epsilon" if epsilon is None else f"SET dpsql.epsilon = {epsilon:f}")

    def budget(self) -> str:
        answer = self._run("SELECT * FROM dpsql_budget()")
        pairs = [
            (c.name, exact_text(v)) for c, v in zip(answer.columns, answer.rows[0], strict=True)
        ]
        return "".join(f"{line}\n" for line in grid(pairs))

    def history(self) -> str:
        latest = "SELECT * FROM dpsql_history() ORDER BY time DESC LIMIT 20"
        return listing_text(self._run(latest), columns(sys.stdout))

    # --- one statement ---

    def _shown(self, sql: str) -> Reply:
        self._notices.clear()
        answer = self._run(sql)
        notices = list(self._notices)
        cost = next((line for line in notices if line.startswith(_COST)), "")
        if is_plan(sql):
            return Reply(None, _lines(answer))
        return Reply(answer, remarks=tuple(n for n in notices if n != cost), cost=cost)

    def _run(self, sql: str) -> Answer:
        """Return the rows of a statement, or none. Raises `RemoteError`."""
        answer, cancelled = interruptible(
            lambda: self._rows(sql), self.connection.cancel, Progress()
        )
        if cancelled:
            raise click.Abort
        return answer

    def _rows(self, sql: str) -> Answer:
        import psycopg  # noqa: PLC0415 - an extra

        try:
            cursor = self.connection.execute(sql)
            return _answer([(c.name, c.type_code) for c in cursor.description or ()], cursor)
        except psycopg.Error as error:
            raise _error_of(error, sql) from None


_AMOUNTS = (("amount", 9), ("delta", 18))


def _is_query(sql: str) -> bool:
    try:
        return next(words(sql)).value in _QUERIES
    except Refused:
        return True


def _answer(described: Sequence[tuple[str, int]], cursor: Any) -> Answer:
    """Return rows with the intervals of the columns behind them, if there are any."""
    every = [Column(name, kind_of(oid) or VARCHAR) for name, oid in described]
    rows = cursor.fetchall() if described else []
    width = next((n for n in range(1, len(every)) if _are_ends(every[:n], every[n:])), len(every))
    places = [n for n, column in enumerate(every[:width]) if column.type.is_measured]
    low = dict(zip(places, range(width, len(every), 2), strict=False))
    halves = tuple(
        tuple(
            _half(row[n], row[low[n]], row[low[n] + 1]) if n in low else None for n in range(width)
        )
        for row in rows
    )
    margins = tuple(tuple(half and max(half) for half in row) for row in halves)
    own = tuple(tuple(row[:width]) for row in rows)
    return Answer(tuple(every[:width]), own, margins, margins, halves=halves)


def _half(value: Any, low: Any, high: Any) -> Half:
    """Return how far an interval reaches below and above a value; None for an exact one."""
    if value is None or low is None or high is None:
        return None
    if isinstance(value, timedelta):
        return (value - low).total_seconds(), (high - value).total_seconds()
    return float(value) - low, high - float(value)


def _are_ends(own: Sequence[Column], behind: Sequence[Column]) -> bool:
    return [c.name for c in end_columns(own)] == [c.name for c in behind]


def _lines(answer: Answer) -> str:
    return "".join(f"{row[0]}\n" for row in answer.rows)


def _error_of(error: Any, sql: str) -> RemoteError:
    """Return an error of the server in our form: headline, place, reason and fix."""
    said, state = error.diag, error.diag.sqlstate or "08001"
    at = None if said.statement_position is None else int(said.statement_position) - 1
    line, column, excerpt = (None,) * 3 if at is None else place(sql, Span(at, at))
    return RemoteError(
        Message(
            code=f"error {state}",
            headline=said.message_primary or str(error).strip(),
            why=said.message_detail or "",
            fix=said.message_hint or "",
            exit_code=_exit_code(state),
            sqlstate=state,
            line=line,
            column=column,
            excerpt=excerpt,
        )
    )


def _exit_code(state: str) -> ExitCode:
    if state == _CANCELLED:
        return ExitCode.CANCELLED
    if state.startswith(_AWAY):
        return ExitCode.UNREACHABLE
    codes = {wording.sqlstate: wording.exit_code for wording in WORDINGS.values()}
    return codes.get(state, ExitCode.BAD_INPUT)
