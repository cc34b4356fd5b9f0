"""PEP 249: `connect`, connections, and an exception tree with SQLSTATE and reason.

Nothing is written, so a transaction holds settings alone. A charge is not part of it, and is never
rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, Self, TypedDict, Unpack

from dpsql.dialects.postgres.words import words
from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Stop
from dpsql.interfaces.asking import stored
from dpsql.interfaces.dbapi import dbapi_errors
from dpsql.interfaces.dbapi.dbapi_cursor import Cursor, Parameters
from dpsql.interfaces.dbapi.dbapi_errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004
    raised_from,
)
from dpsql.interfaces.dbapi.local_answers import answered_here, spending
from dpsql.interfaces.dbapi.statement_options import (
    NOTHING_SAID,
    PARAMSTYLES,
    Amount,
    Named,
    StatementOptions,
    exact_amount,
    from_pyformat,
    positional,
)
from dpsql.interfaces.dbapi.statement_plans import StatementPlan
from dpsql.interfaces.listing import listed
from dpsql.interfaces.records import end_patterns
from dpsql.model.bound_parameters import frozen
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DpsqlError
from dpsql.model.system_table import load_value
from dpsql.model.tree import Kind
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS, Answer, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi.direct import DirectAnswer
    from dpsql.interfaces.dbapi.session_statements import SessionStatements
    from dpsql.proxy import Proxy


__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"
_OF_SESSIONS = frozenset(
    "begin start commit end rollback abort savepoint release set reset show".split()
)
_CONFIG = "set_config"


def connect(
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = DEFAULT_SPELLING,
    epsilon: Decimal | str | None = None,
    *,
    proxy: Proxy | None = None,
    confirm: bool = False,
    errors: str | None = None,
    paramstyle: str = "qmark",
) -> Connection:
    """Connect as `analyst` (default: the policy's only one) to the data of `policy`.

    `epsilon` is the ε of each statement (default: the policy's). An open `proxy` may be shared by
    connections, and the caller closes it. `confirm` requests useless answers too if the policy has
    `confirm_above`. `errors="columns"` adds columns `n_low` and `n_high` with the 95 % interval of
    each number `n`, for tools that show only columns. `errors="superset"` names them
    `n__yhat_lower` and `n__yhat_upper`, and a pattern such as `errors="*_lo, *_hi"` as you like.
    Parameters stand at `?`, or at `:name` with a mapping;
    with `paramstyle="pyformat"` at `%s` and `%(name)s`. Raises InterfaceError for a wrong policy,
    OperationalError if the database or ledger is unusable.

    A `policy` such as `https://ana@dp.example.org:8439` is a server (`dpsql serve --http`).
    """
    if paramstyle not in PARAMSTYLES:
        raise InterfaceError(f"paramstyle is one of {', '.join(PARAMSTYLES)}.")
    wish: ConnectionOptions = {"confirm": confirm, "errors": errors, "paramstyle": paramstyle}
    if isinstance(policy, str) and policy.startswith(("http://", "https://")):
        return _connection_over_http(policy, analyst, dialect, epsilon, **wish)
    if proxy is not None:
        return connection_to(proxy, analyst, dialect, epsilon, lambda: None, **wish)
    opened = open_proxy(policy)
    return connection_to(opened, analyst, dialect, epsilon, opened.close, **wish)


def _connection_over_http(
    url: str,
    analyst: str | None,
    dialect: str,
    epsilon: Decimal | str | None,
    **wish: Unpack[ConnectionOptions],
) -> Connection:
    """Return a connection to a server, of the side system web."""
    try:
        _require_known(wish["errors"])
        make: Callable[..., Connection] = load_value("connection.http")
        return make(url, analyst, _spelling(dialect), exact_amount("epsilon", epsilon), **wish)
    except DpsqlError as error:
        raise raised_from(error) from None


class ConnectionOptions(TypedDict):
    """Options of all statements of a connection, as in `connect`."""

    confirm: bool
    errors: str | None
    paramstyle: NotRequired[str]


def open_proxy(policy: str) -> Proxy:
    """Open the proxy of a policy. Raises as `connect` does."""
    from dpsql.proxy import Proxy  # noqa: PLC0415 - `import dpsql` is light

    if not isinstance(policy, str | PathLike):
        raise InterfaceError("A policy is the path of a file.")
    try:
        return Proxy.open(policy)
    except DpsqlError as error:
        raise raised_from(error) from None


def connection_to(
    proxy: Proxy,
    analyst: str | None,
    dialect: str,
    epsilon: Decimal | str | None,
    release: Callable[[], None],
    **wish: Unpack[ConnectionOptions],
) -> Connection:
    """Return a connection through an open proxy. `release` is called once, at its end or
    failure.
    """
    try:
        who, exact = proxy.analyst(analyst), exact_amount("epsilon", epsilon)
        _require_known(wish["errors"])
        return Connection(proxy, who, _spelling(dialect), exact, release, **wish)
    except DpsqlError as error:
        release()
        raise raised_from(error) from None
    except BaseException:
        release()
        raise


def _spelling(dialect: str) -> str:
    if not isinstance(dialect, str) or dialect not in SPELLINGS:
        raise InterfaceError(f"The dialects are {', '.join(SPELLINGS)}.")
    return dialect


def _require_known(errors: str | None) -> None:
    try:
        _ = errors and end_patterns(errors)
    except ValueError:
        message = 'errors is "columns", "superset", a pattern such as "*_low, *_high", or None.'
        raise InterfaceError(message) from None


class Connection:
    """Connection of one analyst. Threads may share it, each with its own cursor.

    `isolation_level` may be set and has no effect, since nothing is written.
    """

    Warning: ClassVar = dbapi_errors.Warning
    Error: ClassVar = dbapi_errors.Error
    InterfaceError: ClassVar = dbapi_errors.InterfaceError
    DatabaseError: ClassVar = dbapi_errors.DatabaseError
    DataError: ClassVar = dbapi_errors.DataError
    OperationalError: ClassVar = dbapi_errors.OperationalError
    IntegrityError: ClassVar = dbapi_errors.IntegrityError
    InternalError: ClassVar = dbapi_errors.InternalError
    ProgrammingError: ClassVar = dbapi_errors.ProgrammingError
    NotSupportedError: ClassVar = dbapi_errors.NotSupportedError

    def __init__(
        self,
        proxy: Proxy,
        analyst: str,
        dialect: str,
        epsilon: Decimal | None,
        release: Callable[[], None],
        **wish: Unpack[ConnectionOptions],
    ) -> None:
        self.analyst, self.dialect, self.epsilon = analyst, dialect, epsilon
        self.confirm, self.errors = wish["confirm"], wish["errors"]
        self.paramstyle = wish.get("paramstyle", "qmark")
        self.isolation_level = "SERIALIZABLE"
        self._proxy: Proxy | None = proxy
        self._release = release
        self._running: set[Stop] = set()
        self._session: SessionStatements | None = None

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        _ = self.proxy
        return Cursor(self)

    def execute(
        self,
        sql: str,
        parameters: Parameters | Named = (),
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> Cursor:
        """Answer one SELECT in a new cursor; see `Cursor.execute`."""
        wish = {"epsilon": epsilon, "within": within, "confidence": confidence}
        return self.cursor().execute(sql, parameters, **wish)

    def sql(
        self,
        sql: str,
        parameters: Parameters | Named = (),
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> DirectAnswer:
        """Answer one SELECT, as a table that prints itself; for `epsilon` see `Cursor.execute`."""
        from dpsql.interfaces.dbapi.direct import DirectAnswer  # noqa: PLC0415

        options = StatementOptions(epsilon, within, confidence)
        return DirectAnswer.of(self.cursor().only_answer(sql, parameters, options))

    def answer(self, request: Request, stop: Stop) -> Answer:
        """Return the answer to one request, for a cursor. Raises as `Proxy.ask` does."""
        return stored(answered_here(self.proxy, request, stop))

    def tables(self) -> Cursor:
        """List the tables, as `SHOW TABLES` does; free."""
        return self.cursor().take(self._listed(Listing()))

    def columns(self, table: str) -> Cursor:
        """List the columns of a table with their declarations, as `DESCRIBE` does; free."""
        wish = read_listing(f"DESCRIBE {table}") or Listing((table,))
        try:
            return self.cursor().take(self._listed(wish))
        except DpsqlError as error:
            raise raised_from(error) from None

    def _listed(self, wish: Listing) -> Answer:
        synthetic = self.proxy.own_tables(self.analyst)
        return listed(wish, self.proxy.policy_of(self.analyst), synthetic=synthetic)

    def budget(self) -> Cursor:
        """Return the remaining budget, as `dpsql_budget()` does; free."""
        return self.cursor().take(spending(self.proxy, self.analyst, "dpsql_budget"))

    def history(self) -> Cursor:
        """Return the charged queries, newest first, as `dpsql_history()` does; free."""
        return self.cursor().take(spending(self.proxy, self.analyst, "dpsql_history"))

    def explain(
        self,
        sql: str,
        parameters: Parameters | Named = (),
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> Explanation:
        """Return the plan, price and expected error of a SELECT; free. See `dpsql.plan_text`."""
        wish = {"epsilon": epsilon, "within": within, "confidence": confidence}
        return self.cursor().explain(sql, parameters, **wish)

    def plan(
        self,
        statements: Sequence[str],
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> StatementPlan:
        """Price several SELECTs together; free. `.prices` is a cursor, and `.ask()` answers
        them.

        Common parts are measured once, and the answers agree. `epsilon` is the total price. By
        default it is the least price at which each answer is as accurate as alone, or has an error
        of at most `within`.
        """
        options = StatementOptions(within=within, confidence=confidence)
        if isinstance(statements, str) or not statements:
            raise ProgrammingError("Statements are a list of strings.")
        requests = [self.request(sql, (), options) for sql in statements]
        return StatementPlan(self, requests, exact_amount("epsilon", epsilon))

    def watch(
        self,
        threshold: Decimal | str | int,
        *,
        alarms: int,
        epsilon: Decimal | str | None = None,
        both_ways: bool = False,
        measure: Decimal | str | None = None,
    ) -> Any:
        """Open a stream of counting queries against a threshold. Charged now, once, for all
        alarms.

        A value is above if it is at least `threshold`, both with noise. `epsilon` (default: the
        connection's) pays for `alarms` answers "above" and any number of answers "below".
        `both_ways` admits sums that one person can lower, with more noise. `measure` is additional
        ε, charged now too, for a noisy number with each alarm.
        """
        try:
            open_monitor = load_value("connection.watch")
        except DpsqlError as error:
            raise raised_from(error) from None
        return open_monitor(
            self, threshold, alarms=alarms, epsilon=epsilon, both_ways=both_ways, measure=measure
        )

    def close(self) -> None:
        """Close the connection. All later calls, `close` included, raise InterfaceError."""
        _, self._proxy = self.proxy, None
        self._release()

    def commit(self) -> None:
        """End an open transaction. Nothing was written; a charge is durable before its answer."""
        self._end_transaction(commit=True)

    def rollback(self) -> None:
        """End an open transaction, whose SETs are undone. Charges remain: answers are known."""
        self._end_transaction(commit=False)

    def _end_transaction(self, *, commit: bool) -> None:
        _ = self.proxy
        if self._session is not None:
            self._session.end_transaction(commit=commit)

    def run_of_session(self, sql: str, given: Iterable[Parameters | Named]) -> Answer | None:
        """Run BEGIN, SET and the like for a cursor; None for statements of other kinds."""
        first = next(words(sql), None) if isinstance(sql, str) else None
        if first is None or (first.value not in _OF_SESSIONS and _CONFIG not in sql.lower()):
            return None
        from dpsql.interfaces.dbapi.session_statements import SessionStatements  # noqa: PLC0415

        session = self._present_session() or SessionStatements.with_defaults(self._defaults())
        answer = session.run(sql, has_parameters=any(len(each) for each in given))
        self._session = session
        return answer

    def _defaults(self) -> dict[str, str]:
        """Return the settings that attributes of this connection decide, until SET does."""
        return {
            "session_authorization": self.analyst,
            "dpsql.epsilon": "" if self.epsilon is None else str(self.epsilon),
            "dpsql.confirm": "on" if self.confirm else "off",
            "dpsql.errors": self.errors or "none",
        }

    def _present_session(self) -> SessionStatements | None:
        """Return the session with the present attributes; None before its first statement."""
        if self._session is not None:
            self._session.change_defaults(self._defaults())
        return self._session

    @property
    def shown(self) -> tuple[str, str]:
        """Values of dpsql.errors and dpsql.digits: how numbers and intervals are shown."""
        session = self._present_session()
        if session is None:
            return self.errors or "none", "all"
        return session.settings["dpsql.errors"], session.settings["dpsql.digits"]

    def cancel(self) -> None:
        """Stop all statements of this connection in other threads. Charges remain."""
        _ = self.proxy
        for stop in tuple(self._running):
            stop.requested = True

    @contextmanager
    def stopped_by(self, stop: Stop) -> Iterator[None]:
        """Register a running statement, so that `cancel` can stop it through `stop`."""
        self._running.add(stop)
        try:
            yield
        finally:
            self._running.discard(stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._proxy is not None:
            self.close()

    @property
    def proxy(self) -> Proxy:
        """The open proxy. Raises InterfaceError after the connection is closed."""
        if self._proxy is None:
            raise InterfaceError("The connection is closed.", sqlstate="08003")
        return self._proxy

    def request(
        self, sql: str, parameters: Parameters | Named, options: StatementOptions = NOTHING_SAID
    ) -> Request:
        """Return the request of a statement. Raises ProgrammingError for invalid arguments.

        The statement must be a string, and its parameters a sequence, or a mapping by name.
        """
        if not isinstance(sql, str):
            raise ProgrammingError("A statement is a string.")
        try:
            precision = options.precision
            if self.paramstyle == "pyformat" and parameters and not isinstance(parameters, str):
                sql, parameters = from_pyformat(sql, parameters)
            elif isinstance(parameters, Mapping):
                sql, parameters = positional(sql, parameters)
        except DpsqlError as error:
            raise raised_from(error, sql) from None
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
            raise ProgrammingError("Parameters are a list or a tuple.", sqlstate="07001")
        session = self._present_session()
        epsilon = options.exact_epsilon or (self.epsilon if session is None else None)
        request = Request(
            sql,
            self.analyst,
            self.dialect,
            frozen(parameters),
            epsilon,
            precision=precision,
            confirmed=self.confirm,
            door="DB-API",
        )
        return request if session is None else session.apply(request)


Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802
    """Return the local date of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks).date()  # noqa: DTZ006


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """Return the local time of day of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks).time()  # noqa: DTZ006


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """Return the local timestamp of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks)  # noqa: DTZ006


@dataclass(frozen=True, slots=True, eq=False)
class TypeObject:
    """Type object of PEP 249: equal to the type codes that it covers.

    >>> NUMBER == "DECIMAL", STRING == "DECIMAL"
    (True, False)
    """

    kinds: frozenset[str]

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other in self.kinds)

    def __hash__(self) -> int:
        return hash(self.kinds)


def _covering(*kinds: Kind) -> TypeObject:
    return TypeObject(frozenset(kind.value for kind in kinds))


STRING = _covering(Kind.VARCHAR, Kind.LIST, Kind.UUID)
BINARY = _covering()
NUMBER = _covering(Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
DATETIME = _covering(Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.TIME)
ROWID = TypeObject(frozenset({"ROWID"}))
BOOLEAN = _covering(Kind.BOOLEAN)
