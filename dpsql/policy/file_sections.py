"""[tables.T.file] and the types of its columns: the format of data files."""

from __future__ import annotations

from dpsql.model.dataclass import replace
from dpsql.model.file_formats import TYPES, FileColumn, FileFormat, is_text, is_type
from dpsql.model.resources import Database
from dpsql.policy.policy_keys import read_values
from dpsql.policy.value_reader import Reader


def with_formats(database: Database, tables: Reader) -> Database:
    """Return a database with the formats of its files, or of its public tables' files.

    Raises as `formats_of` does.
    """
    formats = formats_of(tables, database)
    if database.public is None or not formats:
        return replace(database, formats=formats)
    return replace(database, public=replace(database.public, formats=formats))


def formats_of(tables: Reader, database: Database) -> tuple[tuple[str, FileFormat], ...]:
    """Return the format of each table that is a file.

    Raises `PolicyError` if a text file has no format, or if another table has one.
    """
    of = database if database.public is None else database.public
    paths = dict(of.files)
    formats = []
    for name, table in tables.tables():
        path = paths.get(name)
        if path is None:
            if "file" in table.values:
                table.fail("file", f"{name} is no data file.", "Remove [tables.….file].")
            for _, column in table.table("columns").tables():
                if "format" in column.values:
                    why = f"{name} is no data file, so that no text is read by a format."
                    column.fail("format", why, "Remove format.")
            continue
        if is_text(path) and "file" not in table.values:
            why = f"{name} is text, and nothing says how its lines are read."
            draft = "dpsql init PATH -o new.toml drafts both from its first line."
            fix = f"Add [tables.{name}.file] and the type of each column: {draft}"
            table.fail(None, why, fix)
        if not is_text(path) and "file" in table.values:
            table.fail("file", f"{name} is Parquet, which says how it is read.", "Remove it.")
        formats.append((name, format_of(table, is_text(path))))
    return tuple(formats)


_OF_TIMES = ("DATE", "TIME")
"""Beginnings of the names of types that a format reads: dates, times and timestamps."""


def format_of(table: Reader, of_text: bool) -> FileFormat:  # noqa: FBT001
    """Return the format of one table's files. Raises `PolicyError`."""
    reader = table.table("file")
    read = FileFormat(**read_values(reader, "tables.T.file"), columns=_columns(table, of_text))
    if not read.header and not read.names:
        why = "Without a header only a row says how many columns there are."
        reader.fail("header", why, 'Write names = ["…"] for all columns, in order.')
    if read.thousands == read.decimal:
        reader.fail("thousands", "decimal and thousands are one sign.", "Change one of them.")
    if read.delimiter == read.quote:
        reader.fail("delimiter", "delimiter and quote are one sign.", "Change one of them.")
    if read.multiline and not read.quote:
        reader.fail("multiline", "Fields of several lines need quotes.", "Write quote = '\"'.")
    return read


def _columns(table: Reader, of_text: bool) -> tuple[FileColumn, ...]:  # noqa: FBT001
    """Return the columns with a type. Some types of Parquet columns are compared, not converted."""
    columns = []
    for name, column in table.table("columns").tables():
        if "type" in column.values:
            kind = column.text("type")
            if not is_type(kind) and not of_text:
                continue
            if not is_type(kind):
                fix = f"Write one of {', '.join(TYPES)}."
                column.fail("type", f"{kind} is no type of a column of files.", fix)
            forms = column.texts("format")
            if forms and not kind.upper().startswith(_OF_TIMES):
                fix = 'Write type = "DATE", or remove format.'
                column.fail("format", f"format reads dates and times, and {name} is {kind}.", fix)
            columns.append(FileColumn(name, kind.upper(), forms))
        elif "format" in column.values:
            column.fail("format", "format needs a type.", 'Write type = "DATE" beside it.')
    return tuple(columns)
