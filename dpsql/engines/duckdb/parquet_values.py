"""Values of Parquet files and tables that cannot be read; found before the first query.

Examples are a text that is not UTF-8, a time of 25:00, or a timestamp beyond microseconds. Such a
value fails wherever its row is read, outside of every expression, so a query would reveal whether
it reads that row. Therefore all values of types that can fail are read when files are opened. Files
may also hold values beyond the range of their type, on which functions fail: a DECIMAL(5,2) of
10,737,418.24, a TIME of 25:00, or a TIMESTAMP before the first one. These are tested too. A file
that was read whole is remembered by its stamp, in the user's own cache; small files are read each
time.

Proof (PRIVACY.md R100). After this check no value makes a statement fail. Only parts of nested
values, which are read as NULL, can lie beyond the type of their column. Tables that were copied
from such files hold such values too, and are read in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import _duckdb as duckdb

from dpsql.engines.duckdb.files import CannotOpen, identity_of, log_of, name, stamp, text
from dpsql.engines.duckdb.parquet_statistics import require_true_statistics, why_unread

_SAFE = frozenset(
    "BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT FLOAT"
    " DOUBLE DATE BLOB UUID NULL".split()
)
"""Types with values that can always be read. Of the others, all are read, though not all fail."""

_FIRST_TIME = "290309-12-22 (BC) 00:00:00"
"""First finite TIMESTAMP. DuckDB 1.5 fails to print an earlier one, which Parquet can hold."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")

_STORED = """
SELECT c.schema_name, c.table_name, c.column_name, c.data_type
FROM system.main.duckdb_columns() AS c
JOIN system.main.duckdb_tables() AS t USING (database_oid, schema_oid, table_oid)
WHERE t.database_name = current_database() AND NOT t.internal
"""

_SMALL = 1 << 24
"""Size in bytes below which files are read each time."""


def check_values(connection: Any, layout: Sequence[tuple[str, str]], paths: Sequence[str]) -> None:
    """Read all that can make a query fail or lose rows. Raises `CannotOpen` if something does.

    Tests values that may not be readable or in range, and statistics that may not hold.
    """
    marker = marker_of(connection, paths)
    if marker is not None and os.path.exists(marker):  # noqa: PTH110
        return
    _require_readable(connection, layout, paths)
    require_true_statistics(connection, layout, paths)
    _remember(marker)


def _require_readable(
    connection: Any, layout: Sequence[tuple[str, str]], paths: Sequence[str]
) -> None:
    columns = [column for column, kind in layout if kind not in _SAFE]
    ranges = [range_ for column, kind in layout if (range_ := _range(column, kind))]
    if not columns:
        return
    listed, hashed = ", ".join(map(text, paths)), ", ".join(map(name, columns))
    source = f"read_parquet([{listed}], hive_partitioning = false)"
    fits = ", ".join([f"bit_xor(hash({hashed}))", *(f"bool_and({each})" for each in ranges)])
    try:
        ((_hash, *fitting),) = connection.execute(f"SELECT {fits} FROM {source}").fetchall()
    except duckdb.Error as error:
        raise CannotOpen(why_unread(error)) from None
    if False in fitting:
        raise CannotOpen("values")


def check_stored_values(connection: Any, path: str) -> None:
    """Raise `CannotOpen` if a table of the database holds a value out of its type's range.

    DuckDB checks no range when it copies a column of a Parquet file into a table. Values of any
    length, but texts, are read for the memory that this takes.
    """
    tests = dict[tuple[str, str], list[str]]()
    for schema, table, column, kind in connection.execute(_STORED).fetchall():
        if kind == "JSON" or kind.startswith("STRUCT(") or kind.endswith("]"):
            tests.setdefault((schema, table), []).append(f"bit_xor(hash({name(column)})) >= 0")
        elif (range_ := _range(column, kind)) is not None:
            tests.setdefault((schema, table), []).append(f"bool_and({range_})")
    marker = marker_of(connection, [path, *log_of(path)]) if tests else None
    if not tests or (marker is not None and os.path.exists(marker)):  # noqa: PTH110
        return
    for (schema, table), listed in tests.items():
        sql = f"SELECT {', '.join(listed)} FROM {name(schema)}.{name(table)}"
        if False in connection.execute(sql).fetchone():
            raise CannotOpen("values")
    _remember(marker)


def _remember(marker: str | None) -> None:
    if marker is not None:
        with suppress(OSError), open(marker, "xb"):  # noqa: PTH123
            pass


def _range(column: str, kind: str) -> str | None:
    """Return the condition that a value is in its type's range; None if a file cannot break it."""
    if kind == "TIME":
        return f"{name(column)} BETWEEN TIME '00:00:00' AND TIME '24:00:00'"
    if kind in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        infinite = f"{name(column)} = {kind} '-infinity'"
        return f"({name(column)} >= {kind} '{_FIRST_TIME}' OR {infinite})"
    digits = _DECIMAL.fullmatch(kind)
    if digits is None:
        return None
    digit_count, scale = map(int, digits.groups())
    most = "9" * (digit_count - scale) + "." + "9" * scale
    ends = (f"CAST('{sign}{most}' AS {kind})" for sign in ("-", ""))
    return f"{name(column)} BETWEEN {' AND '.join(ends)}"


def marker_of(connection: Any, paths: Sequence[str]) -> str | None:
    """Return a marker file, which exists if these files were read whole with as much memory; None
    for small files.

    It is in a folder that only this user can write to. A user who can write there can also change
    the data.
    """
    signature = tuple((path, *stamp(os.stat(path))) for path in sorted(paths))  # noqa: PTH116
    if sum(size for _path, _device, _inode, size, _time in signature) < _SMALL:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    folder = os.path.join(home, "dpsql")  # noqa: PTH118
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        if os.stat(folder).st_uid != os.getuid() or os.stat(folder).st_mode & 0o022:  # noqa: PTH116
            return None
    except OSError:
        return None
    ((memory,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    identity = identity_of((*signature, (memory, 0, 0, 0, 0)))
    return os.path.join(folder, f"read5-{duckdb.__version__}-{identity}")  # noqa: PTH118
