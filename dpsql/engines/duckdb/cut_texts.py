"""Texts cut to the policy's longest length, where the data holds longer ones.

To trim, compare or count texts of hundreds of megabytes takes minutes or exhausts memory, and so
reveals that some row holds one. When data is opened, the lengths of all texts are read. Only tables
with a longer one are read through a view that cuts it, because the cut would slow every query.

Proof (PRIVACY.md R101). A row of such a view depends on one row of its table. The names, types and
constraints of the tables are those of the data without the views.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import _duckdb as duckdb

from dpsql.engines.duckdb.files import CannotOpen, Sources, log_of, name, text
from dpsql.engines.duckdb.parquet_values import marker_of

TEXT = "VARCHAR"
_TEXTS = f"""
SELECT c.schema_name, c.table_name, c.column_name
FROM system.main.duckdb_columns() AS c
JOIN system.main.duckdb_tables() AS t USING (database_oid, schema_oid, table_oid)
WHERE t.database_name = current_database() AND NOT t.internal AND c.data_type = '{TEXT}'
ORDER BY c.schema_name, c.table_name, c.column_index
"""
_RELATIONS = """
SELECT database_name, schema_name, table_name FROM system.main.duckdb_tables()
WHERE database_name = current_database() AND NOT internal
UNION ALL SELECT database_name, schema_name, view_name FROM system.main.duckdb_views()
WHERE database_name = current_database() AND NOT internal
"""

Column = tuple[str, str, str]
"""Schema, table and column."""


def long_columns(
    connection: Any, source: str, columns: Sequence[str], most: int, paths: Sequence[str]
) -> list[str]:
    """Return the text columns of an item of FROM with a text of more than `most` bytes.

    The result is remembered for the files `paths`, from which the rows come.
    """
    if not columns:
        return []
    flags = (f"coalesce(max(TRY(strlen({name(each)}))), 0) > {most}" for each in columns)
    sql = f"SELECT [{', '.join(flags)}] FROM {source}"

    def find() -> list[str]:
        ((are_long,),) = connection.execute(sql).fetchall()
        return [each for each, is_long in zip(columns, are_long, strict=True) if is_long]

    return list(_remembered(marker_of(connection, paths), sql, find))


def cut(source: str, columns: Sequence[str], most: int) -> str:
    """Return a SELECT of the rows of `source` with texts of at most `most` characters.

    >>> cut("t", ["note"], 9)
    'SELECT * REPLACE (CASE WHEN strlen("note") <= 9 THEN "note" ELSE left("note", 9) END AS "note") FROM t'
    """  # noqa: E501
    cuts = (
        f"CASE WHEN strlen({x}) <= {most} THEN {x} ELSE left({x}, {most}) END AS {x}"
        for x in map(name, columns)
    )
    return f"SELECT * REPLACE ({', '.join(cuts)}) FROM {source}"


def long_texts_of(connection: Any, sources: Sources) -> list[Column]:
    """Return the columns of the database's tables with a text above the longest length."""
    tables = dict[tuple[str, str], list[str]]()
    for schema, table, column in connection.execute(_TEXTS).fetchall():
        tables.setdefault((schema, table), []).append(column)
    assert sources.path is not None
    paths, long = [sources.path, *log_of(sources.path)], list[Column]()
    for (schema, table), columns in tables.items():
        source = f"{name(schema)}.{name(table)}"
        listed = long_columns(connection, source, columns, sources.longest, paths)
        long += [(schema, table, column) for column in listed]
    return long


def require_short_texts(connection: Any, sources: Sources) -> None:
    """Raise `CannotOpen` if a table has a text above the longest length."""
    if long_texts_of(connection, sources):
        raise CannotOpen("long")


def open_over(connection: Any, sources: Sources, cuts: Sequence[Column], config: Any) -> Any:
    """Open the database again, below views of its tables and views that cut these columns.

    Closes `connection`. Names without a database mean the views.
    """
    relations = connection.execute(_RELATIONS).fetchall()
    connection.close()
    over = duckdb.connect(":memory:", config=config)
    ((database, *_rest), *_others) = relations
    over.execute(f"ATTACH {text(str(sources.path))} AS {name(database)} (READ_ONLY)")
    for _database, schema, table in relations:
        columns = [c for s, t, c in cuts if (s, t) == (schema, table)]
        source = ".".join(map(name, (database, schema, table)))
        select = cut(source, columns, sources.longest) if columns else f"FROM {source}"
        # One with the name of its file cannot be addressed; a view may be out of date.
        with suppress(duckdb.Error):
            over.execute(f"CREATE SCHEMA IF NOT EXISTS memory.{name(schema)}")
            over.execute(f"CREATE VIEW memory.{name(schema)}.{name(table)} AS {select}")
    return over


def _remembered(marker: str | None, about: str, find: Callable[[], list[str]]) -> list[str]:
    """Return the result that was found in the same files before, or find it."""
    if marker is None:
        return find()
    place = f"{marker}-{sha256(about.encode()).hexdigest()[:16]}"
    with suppress(OSError, ValueError), open(place, encoding="utf-8") as file:  # noqa: PTH123
        return [str(each) for each in json.load(file)]
    columns = find()
    with suppress(OSError), open(place, "x", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(columns, file)
    return columns
