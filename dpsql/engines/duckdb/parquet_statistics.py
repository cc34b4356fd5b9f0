"""Statistics of Parquet files, compared with the values that they are about.

DuckDB skips a row group, or takes a condition for true of all its rows, by the least and greatest
value and the number of NULLs that the file states. Writers state them otherwise than DuckDB reads
them: old ones order texts by signed bytes, some cut the greatest text, or count no NULLs. Then one
person's row decides whether rows of others are counted. Therefore all statistics are compared with
the values of their row groups when files are opened.

Proof (PRIVACY.md R99, R100). After this check the values of each row group lie within the
statistics that DuckDB reads, and NULLs are as many as stated. So a condition has the same rows with
and without them. NaN is apart, as everywhere. Infinite ends, which DuckDB does not display, and
Bloom filters are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import _duckdb as duckdb

from dpsql.engines.duckdb.files import CannotOpen, name, text
from dpsql.engines.duckdb.type_names import BITS, parts

_ORDERED = frozenset(
    (
        *BITS,
        *("BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "UUID", "DATE", "TIME", "TIME_NS"),
        *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
    )
)
"""Types with values that are compared with statistics, like DECIMAL. JSON is compared as text."""
_STATED = """
SELECT row_group_id AS g, path_in_schema AS path, COALESCE(stats_min_value, stats_min) AS least,
 COALESCE(stats_max_value, stats_max) AS most, stats_null_count AS nulls, num_values AS n
FROM parquet_metadata({path})
"""


def require_true_statistics(
    connection: Any, layout: Sequence[tuple[str, str]], paths: Sequence[str]
) -> None:
    """Raise `CannotOpen` if a row group has other values than its statistics state."""
    columns = list(_columns(layout))
    for path in paths:
        sql = None
        try:
            sql = _wrong(connection, columns, path)
            wrong = sql is not None and connection.execute(sql).fetchone() is not None
        except duckdb.Error as error:
            raise CannotOpen("statistics" if sql is None else why_unread(error)) from None
        if wrong:
            raise CannotOpen("statistics")


def why_unread(error: duckdb.Error) -> str:
    """Return the reason why values cannot be read."""
    return "memory" if isinstance(error, duckdb.OutOfMemoryException) else "values"


def require_true_statistics_of(paths: Sequence[str]) -> None:
    """Raise `CannotOpen` if Parquet files that another engine reads have wrong statistics."""
    with closing(duckdb.connect(":memory:")) as connection:
        for path in paths:
            source = f"read_parquet({text(path)}, hive_partitioning = false)"
            try:
                described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            except duckdb.Error:
                raise CannotOpen("values") from None
            layout = [(column, kind) for column, kind, *_others in described]
            require_true_statistics(connection, layout, [path])


def _columns(layout: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield columns and fields of structs: path, expression and type."""
    for column, stored in layout:
        kind = "VARCHAR" if stored == "JSON" else stored
        if kind in _ORDERED or kind.startswith("DECIMAL("):
            read = f"CAST({name(column)} AS VARCHAR)" if stored == "JSON" else name(column)
            yield column, read, kind
        for _called, inner, way in parts(column, kind):
            if 0 not in way.path and (inner in _ORDERED or inner.startswith("DECIMAL(")):
                steps = [column, *map(str, way.path)]
                yield ", ".join(steps), ".".join(map(name, steps)), inner


def _wrong(connection: Any, columns: Sequence[tuple[str, str, str]], path: str) -> str | None:
    """Return a query of wrong statistics of a file; None if it states nothing about columns."""
    states = "stats_min_value, stats_min, stats_max_value, stats_max, stats_null_count"
    described = (
        "SELECT DISTINCT row_group_id, row_group_num_rows, CASE WHEN COALESCE("
        f"{states.replace('stats_null_count', 'stats_null_count::VARCHAR')}) IS NOT NULL"
        f" THEN path_in_schema END FROM parquet_metadata({text(path)})"
    )
    rows = connection.execute(described).fetchall()
    stated = {column for _group, _size, column in rows}
    compared = [column for column in columns if column[0] in stated]
    sizes = [size for _group, size in sorted({row[:2] for row in rows})]
    if not compared or not sum(sizes):
        return None
    measures = ["g", "count(*) AS n"]
    for n, (_path, value, kind) in enumerate(compared):
        there = f" FILTER (NOT isnan({value}))" if kind in ("FLOAT", "DOUBLE") else ""
        measures += [f"min({value}){there} AS a{n}", f"max({value}){there} AS z{n}"]
        measures += [f"count({value}) AS n{n}"]
    rows_of = f"read_parquet({text(path)}, hive_partitioning = false, file_row_number = true)"
    grouped = f"SELECT *, {_group_of(sizes)} AS g FROM {rows_of}"
    tests = " UNION ALL ".join(_test(n, path, kind) for n, (path, _, kind) in enumerate(compared))
    return (
        f"WITH stated AS MATERIALIZED ({_STATED.format(path=text(path))}), truth AS MATERIALIZED"
        f" (SELECT {', '.join(measures)} FROM ({grouped}) GROUP BY g) {tests}"
    )


def _group_of(sizes: Sequence[int]) -> str:
    """Return SQL of the row group that a row of a file is in."""
    most = max(sizes)
    if all(size == most for size in sizes[:-1]):
        return f"file_row_number // {most}"
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return f"len(list_filter({ends}, lambda last: last <= file_row_number))"


def _test(number: int, path: str, kind: str) -> str:
    """Return a query of the row groups with wrong statistics of a column."""
    least = _bounded("least", "<=", f"a{number}", kind)
    most = _bounded("most", ">=", f"z{number}", kind)
    nulls = f"COALESCE(nulls = truth.n - n{number} AND stated.n = truth.n, nulls IS NULL)"
    # DuckDB reads no value where NULLs are as many as rows, so that ends contradict them.
    nulls += " AND COALESCE(nulls < stated.n OR COALESCE(least, most) IS NULL, true)"
    holds = f"COALESCE({least} AND {most} AND {nulls}, false)"
    return f"SELECT 1 FROM truth JOIN stated USING (g) WHERE path = {text(path)} AND NOT {holds}"


def _bounded(end: str, sign: str, value: str, kind: str) -> str:
    """Return the condition that a statistic bounds a value, or that there is none.

    Bytes that are no text are displayed with escapes. DuckDB reads not all that it displays, such
    as the first DATE.
    """
    bounds = f"TRY_CAST({end} AS {kind}) {sign} {value}"
    if kind == "VARCHAR":
        as_bytes = f"COALESCE(TRY_CAST({end} AS BLOB) {sign} encode({value}), true)"
        bounds = f"{bounds} AND (NOT contains({end}, '\\x') OR {as_bytes})"
    same = f"{end} = TRY_CAST({value} AS VARCHAR)"
    return f"({end} IS NULL OR {value} IS NULL OR {same} OR {bounds})"
