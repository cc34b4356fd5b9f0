"""The dialect: SQL in Postgres' spelling to a proxy in this process; tables from the policy.

Nothing is ever written, so transactions, savepoints and isolation levels are states without
effect, and a charge is no part of them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from logging import getLogger
from threading import Lock
from types import ModuleType
from typing import Any

from sqlalchemy import URL, literal, types
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGIdentifierPreparer, PGTypeCompiler
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.engine.interfaces import ConnectArgsType, Dialect, IsolationLevel
from sqlalchemy.exc import ArgumentError

from dpsql.interfaces import dbapi
from dpsql.interfaces.dbapi import Connection, connection_to, open_proxy
from dpsql.interfaces.sqlalchemy.reflection import Reflection
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Receipt
from dpsql.proxy import Proxy

LOG = getLogger("dpsql")
_OPTIONS = frozenset({"analyst", "epsilon", "confirm", "errors"})
_LEVELS: tuple[IsolationLevel, ...] = (
    "SERIALIZABLE",
    "REPEATABLE READ",
    "READ COMMITTED",
    "READ UNCOMMITTED",
    "AUTOCOMMIT",
)


class _Compiler(PGCompiler):
    """Postgres' compiler, with regular expressions as the functions that dpsql knows."""

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """column.regexp_match(pattern)."""
        flags = binary.modifiers["flags"]
        args = [binary.left, binary.right, *([] if flags is None else [literal(flags)])]
        return f"regexp_like({', '.join(self.process(arg, **kw) for arg in args)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """~column.regexp_match(pattern)."""
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"


class _Numeric(types.Numeric[Any]):
    """Exact decimals stay what they are; a DOUBLE becomes one of as many digits as is asked for."""

    def bind_processor(self, dialect: Dialect) -> None:  # noqa: ARG002
        """Decimals are bound as they are."""
        return

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """To Decimal, or to float where the type says so."""
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)
        digits = self._effective_decimal_return_scale
        return lambda value: Decimal(f"{value:.{digits}f}") if isinstance(value, float) else value


class Context(DefaultExecutionContext):
    """One execution. `result.context` tells what DB-API cursors tell of an answer."""

    receipt: Receipt | None = None
    errors: tuple[tuple[float | None, ...], ...] = ()
    margins: tuple[tuple[float | None, ...], ...] = ()
    notices: tuple[str, ...] = ()

    def post_exec(self) -> None:
        """Keep what the cursor forgets when it is closed; log its notices, as drivers do."""
        cursor: Any = self.cursor
        self.receipt, self.errors, self.margins = cursor.receipt, cursor.errors, cursor.margins
        self.notices = cursor.notices
        for notice in self.notices:
            LOG.info(notice)


class DpsqlDialect(Reflection):
    """SQLAlchemy's side of the DB-API driver. Connections of one engine share one proxy."""

    name = "dpsql"
    driver = "dpsql"
    default_paramstyle = dbapi.paramstyle
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_alter = False
    supports_default_values = False
    supports_empty_insert = False
    supports_sane_rowcount = False
    supports_is_distinct_from = True
    max_identifier_length = 63
    statement_compiler = _Compiler
    type_compiler_cls = PGTypeCompiler
    preparer = PGIdentifierPreparer
    execution_ctx_cls = Context
    colspecs = {types.Numeric: _Numeric, types.Float: types.Float}  # noqa: RUF012 - as SQLAlchemy has it
    # What Postgres' compiler asks of its dialect.
    _backslash_escapes = False
    _supports_jsonb_subscripting = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._proxies = SharedProxies()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The DB-API driver."""
        return dbapi

    # --- connections ---

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """`dpsql:///POLICY?analyst=NAME&epsilon=NUMBER&confirm=true&errors=columns`, all options
        optional.
        """
        unknown = sorted(url.query.keys() - _OPTIONS)
        if unknown or url.host or url.username or url.password or url.port:
            message = "a dpsql URL is dpsql:///POLICY?analyst=NAME&epsilon=NUMBER"
            raise ArgumentError(message + (f", without {', '.join(unknown)}" if unknown else ""))
        options: dict[str, Any] = {name: str(value) for name, value in url.query.items()}
        if "confirm" in options:
            options["confirm"] = options["confirm"].lower() in ("true", "on", "1", "yes")
        return (url.database or "dpsql.toml",), options

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """A DB-API connection in Postgres' spelling."""
        (policy,) = cargs
        return self._proxies.connect(policy, **cparams)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Whether the connection is open."""
        return dbapi_connection.proxy is not None

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:  # noqa: ARG002
        """Whether an error means that the connection is closed."""
        return isinstance(e, dbapi.Error) and e.sqlstate == "08003"

    def get_isolation_level_values(self, dbapi_conn: Any) -> tuple[IsolationLevel, ...]:  # noqa: ARG002
        """All of them: over data that nobody writes they are the same."""
        return _LEVELS

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        """SERIALIZABLE, since every statement reads the same data."""
        return self.get_isolation_level(dbapi_conn)

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """What was set last."""
        level: IsolationLevel = dbapi_connection.isolation_level
        return level

    def set_isolation_level(self, dbapi_connection: Any, level: IsolationLevel) -> None:
        """Remember the level."""
        dbapi_connection.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Whether AUTOCOMMIT was set."""
        return self.get_isolation_level(dbapi_conn) == "AUTOCOMMIT"

    # --- savepoints are states without effect ---

    def do_savepoint(self, connection: Any, name: str) -> None:
        """Nothing to save."""

    def do_rollback_to_savepoint(self, connection: Any, name: str) -> None:
        """Nothing to undo; charges stay."""

    def do_release_savepoint(self, connection: Any, name: str) -> None:
        """Nothing to forget."""


@dataclass(slots=True)
class _Shared:
    proxy: Proxy
    users: int = 0


class SharedProxies:
    """The open proxies of an engine by policy; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, _Shared] = {}

    def connect(
        self,
        policy: str,
        analyst: str | None = None,
        epsilon: Decimal | str | None = None,
        *,
        confirm: bool = False,
        errors: str | None = None,
    ) -> Connection:
        """A connection in Postgres' spelling; raises as `dpsql.connect` does."""
        with self._lock:
            shared = self._open.get(policy) or _Shared(open_proxy(policy))
            self._open[policy] = shared
            shared.users += 1
        release = partial(self._left, policy)
        request = shared.proxy, analyst, "postgres", epsilon, release
        return connection_to(*request, confirm=confirm, errors=errors)

    def _left(self, policy: str) -> None:
        """A connection has ended; with the last one goes the proxy."""
        with self._lock:
            shared = self._open[policy]
            shared.users -= 1
            if not shared.users:
                del self._open[policy]
                shared.proxy.close()
