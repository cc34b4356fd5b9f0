r"""Rows as COPY writes them: text, CSV, binary. PostgreSQL's manual, COPY, "File Formats".

>>> from datetime import UTC
>>> columns = (WireColumn("a", 25), WireColumn("b", 20))
>>> list(copied(columns, [("x\ty", None)], CopyOptions(), UTC))
[b'x\\ty\t\\N\n']
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo

from dpsql.dialects.commands import CopyFormat, CopyOptions
from dpsql.interfaces.pgwire.encode import BINARY_FORMAT, TEXT_FORMAT, encoder
from dpsql.interfaces.pgwire.portals import Row
from dpsql.interfaces.pgwire.shapes import WireColumn

_BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8
_BINARY_TRAILER = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_ESCAPES = {ord(c): f"\\{letter}" for c, letter in zip("\b\f\n\r\t\v\\", "bfnrtv\\", strict=True)}

Fields = Sequence[bytes | None]


def copied(
    columns: Sequence[WireColumn], rows: Iterable[Row], options: CopyOptions, zone: tzinfo
) -> Iterator[bytes]:
    """The content of each CopyData message; the binary header comes with the first row."""
    binary = options.format is CopyFormat.BINARY
    form = BINARY_FORMAT if binary else TEXT_FORMAT
    encoders = [encoder(column.oid, form, zone) for column in columns]
    fields = (
        [
            None if value is None else write(value)
            for value, write in zip(row, encoders, strict=True)
        ]
        for row in rows
    )
    match options.format:
        case CopyFormat.BINARY:
            yield from _binary(fields)
        case CopyFormat.TEXT:
            yield from _text(columns, fields, options)
        case CopyFormat.CSV:
            yield from _csv(columns, fields, options)


def _binary(rows: Iterable[Fields]) -> Iterator[bytes]:
    head = _BINARY_HEADER
    for row in rows:
        members = (
            _NULL if field is None else struct.pack("!i", len(field)) + field for field in row
        )
        yield head + struct.pack("!h", len(row)) + b"".join(members)
        head = b""
    yield head + _BINARY_TRAILER


def _text(
    columns: Sequence[WireColumn], rows: Iterable[Fields], options: CopyOptions
) -> Iterator[bytes]:
    escapes = {**_ESCAPES, ord(options.delimiter): f"\\{options.delimiter}"}
    if options.delimiter == "\t":
        escapes[ord("\t")] = "\\t"

    def line(fields: Iterable[str | None]) -> bytes:
        shown = (options.null if f is None else f.translate(escapes) for f in fields)
        return (options.delimiter.join(shown) + "\n").encode()

    if options.header:
        yield line(column.name for column in columns)
    for row in rows:
        yield line(None if field is None else field.decode() for field in row)


def _csv(
    columns: Sequence[WireColumn], rows: Iterable[Fields], options: CopyOptions
) -> Iterator[bytes]:
    forced = [
        options.force_quote is None or column.name in options.force_quote for column in columns
    ]
    special = {options.delimiter, options.quote, "\n", "\r"}
    lone = len(columns) == 1

    def field_text(field: str, must: bool) -> str:  # noqa: FBT001
        ends_copy = lone and field == "\\."
        if not (must or ends_copy or field == options.null or special & set(field)):
            return field
        inner = field
        for c in {options.escape, options.quote}:
            inner = inner.replace(c, options.escape + c)
        return f"{options.quote}{inner}{options.quote}"

    def line(fields: Iterable[str]) -> bytes:
        return (options.delimiter.join(fields) + "\n").encode()

    if options.header:
        yield line(field_text(column.name, must=False) for column in columns)
    for row in rows:
        yield line(
            options.null if field is None else field_text(field.decode(), must)
            for field, must in zip(row, forced, strict=True)
        )
