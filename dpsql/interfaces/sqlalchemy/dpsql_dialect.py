"""The dialect: PostgreSQL's SQL to a proxy in this process, with tables from the policy.

Nothing is written, so transactions, savepoints and isolation levels have no effect. A charge is not
part of them.
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
    """PostgreSQL's compiler, with regular expressions as functions of dpsql."""

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:  # noqa: ARG002
        """Compile column.regexp_match(pattern)."""
        flags = binary.modifiers["flags"]
        args = [binary.left, binary.right, *([] if flags is None else [literal(flags)])]
        return f"regexp_like({', '.join(self.process(arg, **kw) for arg in args)})"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Compile ~column.regexp_match(pattern)."""
        return f"NOT {self.visit_regexp_match_op_binary(binary, operator, **kw)}"


class _Numeric(types.Numeric[Any]):
    """Numeric type: exact decimals stay unchanged, and a DOUBLE gets the requested scale."""

    def bind_processor(self, dialect: Dialect) -> None:  # noqa: ARG002
        """Return None: decimals are bound unchanged."""
        return

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:  # noqa: ARG002
        """Return a conversion to Decimal, or to float if the type asks for it."""
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)
        digits = self._effective_decimal_return_scale
        return lambda value: Decimal(f"{value:.{digits}f}") if isinstance(value, float) else value


class Context(DefaultExecutionContext):
    """One execution. `result.context` has the receipt, errors and notices of the DB-API cursor."""

    receipt: Receipt | None = None
    errors: tuple[tuple[float | None, ...], ...] = ()
    margins: tuple[tuple[float | None, ...], ...] = ()
    notices: tuple[str, ...] = ()

    def post_exec(self) -> None:
        """Keep the cursor's facts after it is closed, and log its notices."""
        cursor: Any = self.cursor
        self.receipt, self.errors, self.margins = cursor.receipt, cursor.errors, cursor.margins
        self.notices = cursor.notices
        for notice in self.notices:
            LOG.info(notice)


class DpsqlDialect(Reflection):
    """SQLAlchemy dialect of the DB-API driver. Connections of one engine share one proxy."""

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
    # Attributes that PostgreSQL's compiler reads from its dialect.
    _backslash_escapes = False
    _supports_jsonb_subscripting = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._proxies = SharedProxies()

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the DB-API driver."""
        return dbapi

    # --- connections ---

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Parse `dpsql:///POLICY?analyst=NAME&epsilon=NUMBER&confirm=true&errors=columns`.

        All options may be left out.
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
        """Return a DB-API connection for PostgreSQL's spelling."""
        (policy,) = cargs
        return self._proxies.connect(policy, **cparams)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Test whether the connection is open."""
        return dbapi_connection.proxy is not None

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:  # noqa: ARG002
        """Test whether an error means that the connection is closed."""
        return isinstance(e, dbapi.Error) and e.sqlstate == "08003"

    def get_isolation_level_values(self, dbapi_conn: Any) -> tuple[IsolationLevel, ...]:  # noqa: ARG002
        """Return all levels, which are equivalent for read-only data."""
        return _LEVELS

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        """Return SERIALIZABLE, since every statement reads the same data."""
        return self.get_isolation_level(dbapi_conn)

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """Return the level that was set last."""
        level: IsolationLevel = dbapi_connection.isolation_level
        return level

    def set_isolation_level(self, dbapi_connection: Any, level: IsolationLevel) -> None:
        """Store the level."""
        dbapi_connection.isolation_level = level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Test whether AUTOCOMMIT was set."""
        return self.get_isolation_level(dbapi_conn) == "AUTOCOMMIT"

    # --- savepoints are states without effect ---

    def do_savepoint(self, connection: Any, name: str) -> None:
        """Do nothing, since there is nothing to save."""

    def do_rollback_to_savepoint(self, connection: Any, name: str) -> None:
        """Do nothing, since there is nothing to undo. Charges remain."""

    def do_release_savepoint(self, connection: Any, name: str) -> None:
        """Do nothing, since there is nothing to release."""


@dataclass(slots=True)
class _Shared:
    proxy: Proxy
    users: int = 0


class SharedProxies:
    """The open proxies of an engine by policy. Thread-safe."""

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
        """Return a connection for PostgreSQL's spelling. Raises as `dpsql.connect` does."""
        with self._lock:
            shared = self._open.get(policy) or _Shared(open_proxy(policy))
            self._open[policy] = shared
            shared.users += 1
        release = partial(self._left, policy)
        return connection_to(
            shared.proxy, analyst, "postgres", epsilon, release, confirm=confirm, errors=errors
        )

    def _left(self, policy: str) -> None:
        """Release a proxy. It is closed with its last connection."""
        with self._lock:
            shared = self._open[policy]
            shared.users -= 1
            if not shared.users:
                del self._open[policy]
                shared.proxy.close()
