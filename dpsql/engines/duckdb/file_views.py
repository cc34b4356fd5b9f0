"""Views over data files: one view of all files of a table, with the types of the policy.

Files of one table may differ in their columns. A column that a file lacks is NULL there. If files
declare several types for a column, it has the policy's type, and values are cast totally.

Proof (PRIVACY.md R100). A row of a view depends on one row of its file, the policy, and the file's
declarations before its rows: names of columns, and declared types.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import _duckdb as duckdb

from dpsql.engines.duckdb.cut_texts import TEXT, Column, cut, long_columns
from dpsql.engines.duckdb.files import FINDINGS, CannotOpen, Sources, name, text
from dpsql.engines.duckdb.parquet_values import check_values
from dpsql.engines.duckdb.text_lines import first_lines, readable
from dpsql.engines.duckdb.text_rows import LineRows
from dpsql.engines.duckdb.type_names import BITS
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.file_formats import FileColumn, FileFormat, is_text
from dpsql.model.table_names import parts

_KEY_OF_PATH = re.compile(r"(?<=/)([^/=]+)=[^/]*(?=/)")
_DIGITS = {8: 3, 9: 3, 16: 5, 17: 5, 32: 10, 33: 10, 64: 19, 65: 20, 128: 38}
_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_NULL = "NULL"
"""Our type name for a column without a value in a file."""
_ENCRYPTED = b"PARE"
"""First bytes of a Parquet file with an encrypted footer."""
_MOST_DIGITS, _EXACT_BITS = 38, 53


@dataclass(frozen=True, slots=True)
class FileView:
    """SQL of a table of files: the SELECT of its rows, and one of findings about lines of text.

    `texts` are its text columns, and `cuts` those that are cut. No text has more bytes than `most`,
    if that is known.
    """

    select: str
    findings: str | None = None
    texts: tuple[str, ...] = ()
    most: int | None = None
    cuts: tuple[str, ...] = ()


class CreatedViews(NamedTuple):
    """The paths that views read, and the columns (schema, table, column) whose texts they cut."""

    read: list[str]
    cuts: list[Column]


def create_views(connection: Any, sources: Sources) -> CreatedViews:
    """Create a view for each table's files. Their index of pages is not read: what it states is not
    compared with the values.

    Raises `CannotOpen`, or the engine's errors.
    """
    with suppress(duckdb.CatalogException):  # DuckDB 1.5 has no such setting, and reads none
        connection.execute("SET GLOBAL parquet_use_page_index = false")
    read, cuts = list[str](), list[Column]()
    for table, paths in sources.matches().items():
        view = view_of(connection, table, paths, sources)
        schema, own = parts(table) or (None, table)
        _create(connection, schema or "main", own, view.select)
        cuts += [(schema or "main", own, column) for column in view.cuts]
        if view.findings is not None:
            _create(connection, FINDINGS, table, view.findings)
        read += [*paths, *sorted(set(re.findall(r"/proc/self/fd/\d+", view.select)))]
    return CreatedViews(read, cuts)


def _create(connection: Any, schema: str, view: str, select: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name(schema)}")
    connection.execute(f"CREATE VIEW {name(schema)}.{name(view)} AS {select}")


def view_of(
    connection: Any,
    table: str,
    paths: Sequence[str],
    sources: Sources,
    only: Sequence[str] | None = None,
) -> FileView:
    """Return the view of a table's files, or of some of them (`only`) with the columns of all.

    Raises `CannotOpen`, or the engine's errors.
    """
    declared = sources.format_of(table)
    keys = partition_keys(paths)
    if all(map(is_text, paths)):
        view = _text_view(paths, declared or FileFormat(), keys, only, sources.longest)
    elif all(path.lower().endswith(".parquet") for path in paths):
        view = _parquet_view(connection, paths, declared, keys, only)
    else:
        raise CannotOpen("unknown format")
    return _with_cuts(connection, view, paths if only is None else only, sources.longest)


def _with_cuts(connection: Any, view: FileView, paths: Sequence[str], most: int) -> FileView:
    """Return the view with its long texts cut."""
    if view.most is not None and view.most <= most:
        return view
    source = f"({view.select})"
    cuts = long_columns(connection, source, view.texts, most, paths)
    if not cuts:
        return view
    return replace(view, select=cut(source, cuts, most), cuts=tuple(cuts))


def partition_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of folders KEY=VALUE that all files share, in order.

    >>> partition_keys(["/d/year=2024/month=1/a.parquet", "/d/year=2025/month=2/b.parquet"])
    ('year', 'month')
    """
    first, *others = ([key.lower() for key in _KEY_OF_PATH.findall(path)] for path in paths)
    return tuple(first) if all(other == first for other in others) else ()


def _require_other_names(keys: Sequence[str], columns: Iterable[str]) -> None:
    """Raise `CannotOpen` if a folder's key has the name of a column of the files: DuckDB would read
    the folder's value in the place of the column's.
    """
    if not {column.lower() for column in columns}.isdisjoint(keys):
        raise CannotOpen("folder key")


def header_of(path: str, f: FileFormat) -> tuple[str, ...] | None:
    """Return the column names of a text file, from its header or the policy; None if it is empty.

    A repeated name gets a number from the second one on. Raises `CannotOpen`.
    """
    lines = first_lines(path, f.encoding, f.skip + 1)
    if len(lines) <= f.skip:
        return None
    if f.names:
        return f.names
    fields = split_line(lines[f.skip], f.delimiter, f.quote)
    taken, names = set[str](), list[str]()
    for n, each in enumerate(fields, 1):
        plain = each.strip() or f"column{n}"
        called, copy = plain, 1
        while called.lower() in taken:
            copy += 1
            called = f"{plain}_{copy}"
        taken.add(called.lower())
        names.append(called)
    return tuple(names)


def split_line(line: str, delimiter: str, quote: str) -> list[str]:
    """Split a line that is not a row, such as a header, into fields."""
    if not quote:
        return line.split(delimiter)
    csv.field_size_limit(1 << 30)
    return next(csv.reader([line], delimiter=delimiter, quotechar=quote), [])


def _text_view(
    paths: Sequence[str], f: FileFormat, keys: Sequence[str], only: Sequence[str] | None, long: int
) -> FileView:
    layouts = dict[tuple[str, ...], list[str]]()
    for path in paths:
        header = header_of(path, f)
        if header is not None:
            layouts.setdefault(header, []).append(path)
    present: dict[str, str] = {}
    _require_other_names(keys, (column for layout in layouts for column in layout))
    for each in (*layouts, keys):
        present |= {column.lower(): column for column in each if column.lower() not in present}
    if not layouts:
        present |= {column.lower(): column for column in f.names or [c.name for c in f.columns]}
    columns = [f.column(column) or FileColumn(column, "VARCHAR") for column in present.values()]
    columns = [FileColumn(present[c.name.lower()], c.type.upper(), c.forms) for c in columns]
    if not columns:
        raise CannotOpen("empty")
    selects, findings, most = list[str](), list[str](), 0
    for names, members in layouts.items():
        members_read = [path for path in members if only is None or path in only]
        if not members_read:
            continue
        files = tuple(readable(path, f, len(names), long) for path in members_read)
        most = max(most, *(each.line_bytes for each in files))
        rows = LineRows(files, f, names)
        selects.append(rows.select(columns, keys))
        findings.append(rows.findings([c for c in columns if c.type != "VARCHAR"]))
    if not selects:
        nulls = ", ".join(f"NULL::{c.type} AS {name(c.name)}" for c in columns)
        return FileView(f"SELECT {nulls} WHERE false")
    texts = tuple(c.name for c in columns if c.type == TEXT)
    return FileView(" UNION ALL ".join(selects), " UNION ALL ".join(findings), texts, most)


# --- Parquet ---


def _parquet_view(
    connection: Any,
    paths: Sequence[str],
    declared: FileFormat | None,
    keys: Sequence[str],
    only: Sequence[str] | None,
) -> FileView:
    layouts = dict[tuple[tuple[str, str], ...], list[str]]()
    for path in paths:
        layouts.setdefault(_columns_of(connection, path), []).append(path)
    if only is None:
        for layout, members in layouts.items():
            check_values(connection, layout, members)
    kinds, names = dict[str, set[str]](), dict[str, str]()
    for layout in layouts:
        for column, kind in layout:
            kinds.setdefault(column.lower(), set()).add(kind)
            names.setdefault(column.lower(), column)
    _require_other_names(keys, names)
    for key in keys:
        kinds[key], names[key] = {"VARCHAR"}, names.get(key, key)
    types = {column: _type_of(names[column], kinds[column], declared) for column in kinds}
    selects = [
        _parquet_select(layout, members_read, types, names, keys)
        for layout, members in layouts.items()
        if (members_read := [path for path in members if only is None or path in only])
    ]
    if not selects:
        nulls = ", ".join(f"NULL::{types[c]} AS {name(names[c])}" for c in types)
        return FileView(f"SELECT {nulls} WHERE false")
    texts = tuple(names[c] for c in types if types[c] == TEXT)
    return FileView(" UNION ALL ".join(selects), texts=texts)


def _parquet_select(
    layout: tuple[tuple[str, str], ...],
    paths: Sequence[str],
    types: Mapping[str, str],
    names: Mapping[str, str],
    keys: Sequence[str],
) -> str:
    """Return a SELECT of the rows of files of one layout, with the columns and types of all."""
    listed, own = ", ".join(map(text, paths)), {column.lower(): (column, k) for column, k in layout}
    own |= {key: (key, "VARCHAR") for key in keys}
    hive = ", hive_types_autocast = false" if keys else ""
    reader = f"read_parquet([{listed}], hive_partitioning = {str(bool(keys)).lower()}{hive})"
    values = list[str]()
    for column, kind in types.items():
        here, stored = own.get(column, ("", ""))
        if stored in ("", _NULL):
            values.append(f"NULL::{kind} AS {name(names[column])}")
        elif stored == kind:
            values.append(f"{name(here)} AS {name(names[column])}")
        else:
            values.append(f"TRY_CAST({name(here)} AS {kind}) AS {name(names[column])}")
    return f"SELECT {', '.join(values)} FROM {reader}"


def _columns_of(connection: Any, path: str) -> tuple[tuple[str, str], ...]:
    """Return the columns that a Parquet file declares, with DuckDB's names of their types.

    Raises `CannotOpen` if the file is encrypted.
    """
    _require_magic(path)
    source = f"read_parquet({text(path)}, hive_partitioning = false)"
    described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    _require_plain(connection, path)
    schema = f"FROM parquet_schema({text(path)}) WHERE logical_type = 'NullType()'"
    empty = {column for (column,) in connection.execute(f"SELECT name {schema}").fetchall()}
    return tuple((str(row[0]), _NULL if row[0] in empty else str(row[1])) for row in described)


def _require_magic(path: str) -> None:
    """Raise `CannotOpen` if the footer of a Parquet file is encrypted."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the child starts sooner
            encrypted = file.read(len(_ENCRYPTED)) == _ENCRYPTED
    except OSError:
        raise CannotOpen("unreadable") from None
    if encrypted:
        raise CannotOpen("encrypted")


def _require_plain(connection: Any, path: str) -> None:
    """Raise `CannotOpen` if columns are encrypted behind a plain footer.

    DuckDB reads the other columns, and fails on the signature of such a footer.
    """
    described = f"SELECT encryption_algorithm FROM parquet_file_metadata({text(path)})"
    try:
        rows = connection.execute(described).fetchall()
    except duckdb.Error:
        raise CannotOpen("encrypted") from None
    if any(algorithm for (algorithm,) in rows):
        raise CannotOpen("encrypted")


def _type_of(column: str, kinds: set[str], declared: FileFormat | None) -> str:
    """Return the type of a column: the policy's, or else the one that all files declare.

    Without a policy it is the narrowest type that holds all values. Raises `CannotOpen` if there is
    none.
    """
    named = None if declared is None else declared.column(column)
    if named is not None:
        return named.type.upper()
    kinds = kinds - {_NULL} or {"VARCHAR"}
    if len(kinds) == 1:
        return next(iter(kinds))
    widens = declared is None or declared.widen
    united = united_type(kinds) if widens else None
    if united is None:
        raise CannotOpen("no type" if widens else "types")
    return united


def united_type(kinds: set[str]) -> str | None:
    """Return the narrowest type that holds all values of some types; None if there is none.

    >>> united_type({"INTEGER", "BIGINT"}), united_type({"DATE", "TIMESTAMP_MS"})
    ('BIGINT', 'TIMESTAMP')
    >>> united_type({"INTEGER", "DOUBLE"}), united_type({"BIGINT", "DOUBLE"}) is None
    ('DOUBLE', True)
    >>> united_type({"DECIMAL(5,2)", "INTEGER"}), united_type({"VARCHAR", "BIGINT"}) is None
    ('DECIMAL(12,2)', True)
    """
    bits = [BITS[kind] for kind in kinds if kind in BITS]
    others = {kind for kind in kinds if kind not in BITS}
    if not others:
        signed = {width: kind for kind, width in BITS.items() if not kind.startswith("U")}
        return signed[min(width for width in signed if width >= max(bits))]
    if others <= {"FLOAT", "DOUBLE"} and all(width <= _EXACT_BITS for width in bits):
        return "DOUBLE"
    if not bits and others <= set(_TIMES):
        return "TIMESTAMP"
    decimals = [re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind) for kind in others]
    if not all(decimals):
        return None
    pairs = [(int(m[1]), int(m[2])) for m in decimals if m is not None]
    scale = max(s for _p, s in pairs)
    whole = max([p - s for p, s in pairs] + [_DIGITS[width] for width in bits])
    return f"DECIMAL({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None
