"""Hardened DuckDB instances, locked before the first statement, that read named files only.

The allow-list of our own SQL is the first wall; this is the second. The code runs in the child
process.

Statements that must fail on it: SECURITY.md S14. Attached stores: SECURITY.md S27. Spilled files:
SECURITY.md S30.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NamedTuple

# The engine without its Python conveniences, which take longer to import than the engine.
import _duckdb as duckdb

from dpsql.engines.duckdb import files
from dpsql.engines.duckdb.cut_texts import Column, long_texts_of, open_over
from dpsql.engines.duckdb.file_views import create_views
from dpsql.engines.duckdb.files import name
from dpsql.engines.duckdb.parquet_values import check_stored_values
from dpsql.engines.memory import process_limits
from dpsql.model.prepared_store import ABOUT, SCHEMA, parsed
from dpsql.model.resources import bytes_of
from dpsql.model.table_names import STAGE

MEMORY_FACTOR, MEMORY_MARGIN = 2, 2 << 30
"""Limit on the process's memory: a multiple of DuckDB's own limit, and a margin for code and
threads.
"""

NO_STATISTICS = "statistics_propagation"
"""The optimiser that rewrites expressions by a column's least and greatest value.

DuckDB 2.0.0 fails to rewrite `'b' = CASE WHEN x > 9 THEN 'a' END` where no x is above 9: whether a
query fails would reveal an exact bit about the data.
"""

_CONFIG = {
    "disabled_optimizers": NO_STATISTICS,
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    "temp_directory": "",
}
_STATEFUL = re.compile(r"enable_(logging|profil)", re.IGNORECASE)
"""Pattern of table functions that change the instance; DuckDB 1.5 does not count them as
configuration.
"""

_COLUMNS = (
    f"SELECT CASE database_name WHEN '{SCHEMA}' THEN database_name ELSE schema_name END,"
    " table_name, column_name, data_type FROM duckdb_columns()"
    f" WHERE database_name IN (current_database(), '{SCHEMA}') AND NOT internal"
    " ORDER BY table_oid, column_index"
)
_OWN_NAMES = (
    "SELECT function_name FROM system.main.duckdb_functions() WHERE NOT internal"
    " UNION ALL SELECT type_name FROM system.main.duckdb_types() WHERE NOT internal"
)
_BUILT_IN = (
    "SELECT function_name FROM system.main.duckdb_functions() WHERE internal"
    " UNION ALL SELECT type_name FROM system.main.duckdb_types() WHERE internal"
)
_STAGES = (
    "SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal"
    " UNION ALL SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal"
)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


class Spill(NamedTuple):
    """A folder of this process alone, and the most bytes there at once, as DuckDB writes
    amounts.
    """

    folder: str
    most: str


class PrivateData(NamedTuple):
    """An instance that reads the owner's data, and the columns whose texts it cuts."""

    connection: Any
    cuts: tuple[Column, ...] = ()


def private(sources: files.Sources, memory: str, spill: Spill | None = None) -> PrivateData:
    """Open the owner's data, read only: a DuckDB file, or views over the owner's files.

    Attaches the store, if there is one of this data. Data beyond the memory limit is spilled, or
    the query fails. All values of any length are read with half of the memory, so that no query
    fails because of their length alone (PRIVACY.md R100). Raises `CannotOpen`.
    """
    read_only = sources.path is not None
    try:
        connection = duckdb.connect(
            sources.path or ":memory:", read_only=read_only, config=configuration(memory)
        )
        require_own_names(connection)
        connection.execute(f"SET memory_limit = '{bytes_of(memory) // 2}B'")
        cuts, allowed = list[Column](), list[str]()
        if sources.path is not None:
            check_stored_values(connection, sources.path)
            cuts = long_texts_of(connection, sources)
        if cuts:  # a store of such tables holds whole texts
            connection = open_over(connection, sources, cuts, configuration(memory))
        else:
            allowed, cuts = create_views(connection, sources)
            connection.execute(f"SET memory_limit = {files.text(memory)}")
            _attach_store(connection, sources)
        return PrivateData(_sealed(connection, allowed, spill), tuple(cuts))
    except duckdb.IOException as error:
        # Only which of two sentences we say depends on the engine's text.
        why = "locked" if "lock" in str(error).lower() else "unreadable"
    except duckdb.OutOfMemoryException:
        why = "memory"
    except duckdb.Error:
        why = "unreadable"
    raise files.CannotOpen(why)


def require_own_names(connection: Any) -> None:
    """Raise `CannotOpen` if the database replaces names of our statements (SECURITY.md S14).

    DuckDB looks for functions and types in the database before its own. A database cannot replace
    the names in the statements here, because they call functions with their schema.
    """
    names = connection.execute(_OWN_NAMES).fetchall()
    replaced: set[str] = set()
    if names:
        built_in = {name.lower() for (name,) in connection.execute(_BUILT_IN).fetchall()}
        replaced = {name for (name,) in names if name.lower() in built_in}
    stages = connection.execute(_STAGES).fetchall()
    replaced |= {name for (name,) in stages if name.lower().startswith(STAGE)}
    if replaced:
        raise files.CannotOpen(files.REPLACED + ", ".join(sorted(replaced)[: files.MOST_NAMES]))


def _attach_store(connection: Any, sources: files.Sources) -> None:
    """Attach the store, if it was made of this data."""
    if sources.stored() is None:
        return
    try:
        connection.execute(f"ATTACH {files.text(str(sources.store))} AS {SCHEMA} (READ_ONLY)")
    except duckdb.Error:
        return
    store = parsed(about_store(connection))
    if store is None or store.data != files.identity_of(sources.signature()):
        connection.execute(f"DETACH {SCHEMA}")


def about_store(connection: Any) -> str:
    """Return the attached store's description of itself; "" if none is attached."""
    try:
        (about,) = connection.execute(about_text(SCHEMA)).fetchone()
    except (duckdb.Error, TypeError):
        return ""
    return str(about)


def about_text(store: str) -> str:
    """Return a query of a store's description of itself, without rows if another DuckDB made it.

    Another version may hash differently, and so order groups differently.
    """
    return f"SELECT about FROM {store}.{ABOUT} WHERE engine = version()"


def scratch(memory: str) -> Any:
    """Open an empty in-memory instance that can read nothing."""
    return _sealed(duckdb.connect(":memory:", config=configuration(memory)), [])


def twin(original: Any, memory: str) -> Any:
    """Open an instance with the tables and views of `original`, but without rows.

    It has the settings of every instance. Columns with types that need an extension are left out.
    """
    connection = scratch(memory)
    columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for schema, table, column, kind in original.execute(_COLUMNS).fetchall():
        columns.setdefault((schema, table), []).append((column, kind))
    for table, typed in columns.items():
        if not _is_created(connection, table, typed):
            _is_created(connection, table, [c for c in typed if _is_known(connection, c[1])])
    return connection


def _is_created(connection: Any, table: tuple[str, str], typed: list[tuple[str, str]]) -> bool:
    schema, own = map(name, table)
    listed = ", ".join(f"{name(column)} {kind}" for column, kind in typed)
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        connection.execute(f"CREATE TABLE {schema}.{own} ({listed})")
    except duckdb.Error:
        return False
    return True


def _is_known(connection: Any, kind: str) -> bool:
    try:
        connection.execute(f"SELECT NULL::{kind}")
    except duckdb.Error:
        return False
    return True


def bound_process(connection: Any) -> None:
    """Limit the memory that DuckDB's own limit does not cover, and never dump memory to disk."""
    (limit,) = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    most = MEMORY_FACTOR * memory_bytes(limit) + MEMORY_MARGIN
    resource = process_limits()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def memory_bytes(setting: str) -> int:
    """Return DuckDB's display of its memory limit in bytes.

    >>> memory_bytes("3.5 GiB") == 7 * 2**29
    True
    """
    number, unit = re.fullmatch(r"([\d.]+) (\w+)", setting).groups()  # type: ignore[union-attr]
    return int(float(number) * _UNITS[unit])


def one_select(connection: Any, sql: str) -> set[str]:
    """Check that `sql` is one SELECT that changes nothing; return its parameters' names.

    Raises `ValueError` otherwise.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ValueError
    if _STATEFUL.search(sql):
        raise ValueError
    return set(statements[0].named_parameters)


def configuration(memory: str) -> dict[str, str | bool | int | float | list[str]]:
    """Return the settings of every instance."""
    return {**_CONFIG, "memory_limit": memory}


def _sealed(connection: Any, allowed: list[str], spill: Spill | None = None) -> Any:
    """Lock the instance, in an order in which each step still takes effect."""
    with suppress(duckdb.CatalogException):  # DuckDB 1.5 has no such setting
        connection.execute("SET allow_extension_repositories = 'forbidden'")
    # Results and date arithmetic must not depend on where the proxy runs.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_paths = [{', '.join(map(files.text, allowed))}]")
    # What does not fit into memory fails, unless the owner has named a folder for it.
    connection.execute(f"SET temp_directory = {files.text('' if spill is None else spill.folder)}")
    if spill is not None:
        connection.execute(f"SET max_temp_directory_size = {files.text(spill.most)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
