"""[tables.T.file] and the types of its columns: the format of data files."""

from __future__ import annotations

from dpsql.model.dataclass import replace
from dpsql.model.file_formats import ENCODINGS, TYPES, FileColumn, FileFormat, is_text, is_type
from dpsql.model.resources import Database
from dpsql.policy.value_reader import Reader

_KEYS = (
    *("delimiter", "quote", "header", "names", "skip", "encoding", "null_words"),
    *("decimal", "thousands", "dates", "multiline"),
)
_QUOTES = ('"', "'", "")
_POINTS = (".", ",")
_GROUPS = ("", ",", ".", "'", " ", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}")


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


def format_of(table: Reader, of_text: bool) -> FileFormat:  # noqa: FBT001
    """Return the format of one table's files. Raises `PolicyError`."""
    reader = table.table("file")
    reader.only(*_KEYS)
    default = FileFormat()
    header = reader.flag("header") if "header" in reader.values else True
    delimiter = reader.text("delimiter", default.delimiter)
    if len(delimiter) != 1 or delimiter in "\r\n\x1f\x00" or delimiter.isalnum():
        reader.fail("delimiter", f"{delimiter!r} divides no fields.", 'Write delimiter = ";".')
    quote = _word(reader, "quote", default.quote, _QUOTES)
    decimal = _word(reader, "decimal", default.decimal, _POINTS)
    thousands = _word(reader, "thousands", default.thousands, _GROUPS)
    if thousands == decimal:
        reader.fail("thousands", "decimal and thousands are one sign.", "Change one of them.")
    multiline = reader.flag("multiline")
    if multiline and not quote:
        reader.fail("multiline", "Fields of several lines need quotes.", "Write quote = '\"'.")
    return FileFormat(
        columns=tuple(_columns(table, of_text)),
        delimiter=delimiter,
        quote=quote,
        header=header,
        names=_texts(reader, "names", ()),
        skip=reader.count("skip") or 0,
        encoding=reader.choice("encoding", ENCODINGS, default.encoding),
        null_words=_texts(reader, "null_words", default.null_words, empty=True),
        decimal=decimal,
        thousands=thousands,
        dates=_texts(reader, "dates", default.dates),
        multiline=multiline,
    )


def _columns(table: Reader, of_text: bool) -> list[FileColumn]:  # noqa: FBT001
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
            columns.append(FileColumn(name, kind.upper(), _texts(column, "format", ())))
        elif "format" in column.values:
            column.fail("format", "format needs a type.", 'Write type = "DATE" beside it.')
    return columns


def _word(reader: Reader, key: str, default: str, options: tuple[str, ...]) -> str:
    value = reader.values.get(key, default)
    if value not in options:
        listed = ", ".join(map(repr, options))
        reader.fail(key, f"{key} is {value!r}.", f"Write one of {listed}.")
    return str(value)


def _texts(
    reader: Reader, key: str, default: tuple[str, ...], *, empty: bool = False
) -> tuple[str, ...]:
    """Return a list of texts, which may be written as one text."""
    value = reader.values.get(key)
    if value is None:
        return default
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        reader.fail(key, f"{key} is no list of texts.", f'Write {key} = ["…"].')
    if not empty and not all(listed):
        reader.fail(key, f"{key} has an empty text.", "Remove it.")
    return tuple(listed)
