"""PEP 249: `connect`, cursors, and an exception tree with SQLSTATE and reason.

Every statement is a SELECT and is charged by itself, so `commit` has nothing to do and
`rollback` cannot give anything back: it raises NotSupportedError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from dpsql.errors import DpsqlError
from dpsql.explanation import Explanation
from dpsql.interfaces import dbapi_errors
from dpsql.interfaces.asking import answered
from dpsql.interfaces.dbapi_errors import (
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
from dpsql.interfaces.dbapi_types import (
    BINARY,
    BOOLEAN,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from dpsql.model import Answer, Column, Receipt, Request
from dpsql.tree import Kind, Value

if TYPE_CHECKING:
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

Row = tuple[Any, ...]
Parameters = Sequence[Value]
Description = tuple[str, str, None, None, int | None, int | None, None]
Result = TypeVar("Result")


def connect(
    policy: str = "dpsql.toml",
    analyst: str | None = None,
    dialect: str = "duckdb",
    epsilon: Decimal | str | None = None,
    *,
    proxy: Proxy | None = None,
) -> Connection:
    """A connection as `analyst` (default: the policy's only one) to the data behind `policy`.

    `epsilon` is what each statement asks for (default: the policy's). An open `proxy` may be
    shared by many connections; then it is the caller who closes it. Raises InterfaceError for a
    wrong policy, OperationalError where the database or ledger cannot be used.
    """
    try:
        if proxy is not None:
            return Connection(proxy, proxy.analyst(analyst), dialect, _exact(epsilon), owned=False)
        from dpsql.proxy import Proxy  # noqa: PLC0415

        opened = Proxy.open(policy)
        try:
            return Connection(opened, opened.analyst(analyst), dialect, _exact(epsilon), owned=True)
        except BaseException:
            opened.close()
            raise
    except DpsqlError as error:
        raise raised_from(error) from None


def _exact(epsilon: Decimal | str | None) -> Decimal | None:
    """Epsilon as an exact decimal; a float is refused, because 0.1 is not one tenth."""
    if epsilon is None or isinstance(epsilon, Decimal):
        return epsilon
    if not isinstance(epsilon, str):
        raise ProgrammingError("epsilon is a Decimal or a string such as '0.1'.")
    try:
        return Decimal(epsilon)
    except ArithmeticError:
        raise ProgrammingError("epsilon is a decimal number such as '0.1'.") from None


class Connection:
    """One analyst's connection; threads may share it, each with its own cursor."""

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
        self, proxy: Proxy, analyst: str, dialect: str, epsilon: Decimal | None, *, owned: bool
    ) -> None:
        self.analyst, self.dialect, self.epsilon = analyst, dialect, epsilon
        self._proxy: Proxy | None = proxy
        self._owned = owned

    def cursor(self) -> Cursor:
        """A new cursor."""
        _ = self.proxy
        return Cursor(self)

    def close(self) -> None:
        """Close; a second time does nothing."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None and self._owned:
            proxy.close()

    def commit(self) -> None:
        """Nothing to do: a charge is durable before its answer."""
        _ = self.proxy

    def rollback(self) -> None:
        """Raises NotSupportedError: what was spent and told cannot be taken back."""
        _ = self.proxy
        raise NotSupportedError("A charge cannot be rolled back.", sqlstate="0A000")

    def cancel(self) -> None:
        """Stop the statement that runs in another thread; its charge stays."""
        self.proxy.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def proxy(self) -> Proxy:
        """The open proxy; raises InterfaceError once the connection is closed."""
        if self._proxy is None:
            raise InterfaceError("The connection is closed.", sqlstate="08003")
        return self._proxy

    def request(self, sql: str, parameters: Parameters) -> Request:
        """The request of a statement; raises ProgrammingError unless parameters are a sequence."""
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
            raise ProgrammingError("Parameters are a list or a tuple.", sqlstate="07001")
        return Request(sql, self.analyst, self.dialect, tuple(parameters), self.epsilon)


class Cursor:
    """Runs statements and hands out rows; not shared between threads.

    After `execute`: `receipt` says what it cost (None: public tables only), `errors` and
    `margins` hold the standard error and the half-width at 95 % of every number, in the shape of
    the rows (None: exact, NaN: noisy and unknown), `notices` the notices.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._answers: tuple[Answer, ...] | None = None
        self._rows: tuple[Row, ...] = ()
        self._next = 0
        self._closed = False

    # --- asking ---

    def execute(self, sql: str, parameters: Parameters = ()) -> Self:
        """Answer one SELECT; each ? takes one parameter. Returns the cursor."""
        self._proxy()
        self._keep(())
        self._keep((self._asked(sql, parameters),))
        return self

    def executemany(self, sql: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Answer a SELECT once per parameters, each charged by itself; keeps all rows in order."""
        self._proxy()
        self._keep(())
        self._keep(tuple(self._asked(sql, parameters) for parameters in seq_of_parameters))
        return self

    def explain(self, sql: str, parameters: Parameters = ()) -> Explanation:
        """The plan, price and expected error of a SELECT; free. See `dpsql.plan_text`."""
        proxy = self._proxy()
        return _told(sql, partial(proxy.explain, self.connection.request(sql, parameters)))

    def _asked(self, sql: str, parameters: Parameters) -> Answer:
        proxy = self._proxy()
        request = self.connection.request(sql, parameters)
        try:
            return _told(sql, partial(answered, proxy, request))
        except KeyboardInterrupt:
            proxy.cancel()
            raise

    def _keep(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers or None
        self._rows = tuple(row for answer in answers for row in answer.rows)
        self._next = 0

    # --- what was answered ---

    @property
    def description(self) -> tuple[Description, ...] | None:
        """(name, type, None, None, precision, scale, None) per column; fixed by the text."""
        return tuple(map(_described, self._answers[-1].columns)) if self._answers else None

    @property
    def rowcount(self) -> int:
        return len(self._rows) if self._answers else -1

    @property
    def receipt(self) -> Receipt | None:
        return self._answers[-1].receipt if self._answers else None

    @property
    def errors(self) -> tuple[tuple[float | None, ...], ...]:
        return tuple(row for answer in self._answers or () for row in answer.errors)

    @property
    def margins(self) -> tuple[tuple[float | None, ...], ...]:
        return tuple(row for answer in self._answers or () for row in answer.margins)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(notice for answer in self._answers or () for notice in answer.notices)

    def fetchone(self) -> Row | None:
        """The next row, None after the last."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (default `arraysize`), fewer at the end."""
        self._proxy()
        if self._answers is None:
            raise InterfaceError("There is no result: execute a statement first.", sqlstate="24000")
        first, self._next = (
            self._next,
            self._next + max(0, self.arraysize if size is None else size),
        )
        return list(self._rows[first : self._next])

    def fetchall(self) -> list[Row]:
        """All rows not yet fetched."""
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # --- the rest of PEP 249 ---

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Close the cursor; a second time does nothing."""
        self._keep(())
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _proxy(self) -> Proxy:
        if self._closed:
            raise InterfaceError("The cursor is closed.", sqlstate="24000")
        return self.connection.proxy


def _told(sql: str, call: Callable[[], Result]) -> Result:
    """The call's result; its errors as PEP 249 names them, with the place in the text."""
    try:
        return call()
    except DpsqlError as error:
        raise raised_from(error, sql) from None


def _described(column: Column) -> Description:
    kind = column.type
    is_decimal = kind.kind is Kind.DECIMAL
    precision, scale = (kind.precision, kind.scale) if is_decimal else (None, None)
    return column.name, kind.kind.value, None, None, precision, scale, None
