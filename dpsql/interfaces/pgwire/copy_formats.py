r"""Rows in the formats of COPY: text, CSV, binary. PostgreSQL's manual, COPY, "File Formats".

Columns without special characters are written without further tests per value.

>>> from datetime import UTC
>>> columns = (WireColumn("a", 25), WireColumn("b", 20))
>>> list(copied(columns, [[("x\ty", None)]], CopyOptions(), UTC))
[b'd\x00\x00\x00\x0cx\\ty\t\\N\n']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import partial
from typing import TypeAlias

from dpsql.dialects.statements.commands import CopyFormat, CopyOptions
from dpsql.interfaces.pgwire import backend
from dpsql.interfaces.pgwire.portals import Row
from dpsql.interfaces.pgwire.values.data_rows import COPY_DATA, columns_of, data_rows, framed
from dpsql.interfaces.pgwire.values.wire_cells import cells
from dpsql.interfaces.pgwire.values.wire_encoding import BINARY_FORMAT, TEXT_FORMAT
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.table import listed

_BINARY_HEADER = b"PGCOPY\n\xff\r\n\0" + b"\0" * 8
_BINARY_TRAILER = b"\xff\xff"
_HEAD = 5
"""Number of bytes of a message before its content."""
_ESCAPES = {
    c.encode(): f"\\{letter}".encode()
    for c, letter in zip("\b\f\n\r\t\v\\", "bfnrtv\\", strict=True)
}

Tables: TypeAlias = Iterable[Sequence[Row]]


def copied(
    columns: Sequence[WireColumn], tables: Tables, options: CopyOptions, zone: tzinfo
) -> Iterator[bytes]:
    """Yield CopyData messages, one per row, joined for each table. Raises `OutOfRange`."""
    if options.format is CopyFormat.BINARY:
        yield from _binary(columns, tables, zone)
        return
    fields = _CsvFields(options, len(columns)) if options.format is CopyFormat.CSV else None
    delimiter, null = options.delimiter.encode(), options.null.encode()
    if options.header:
        names = [column.name.encode() for column in columns]
        labels = [name if fields is None else fields.field(name) for name in names]
        yield backend.copy_data(delimiter.join(labels) + b"\n")
    escaped = partial(_escaped, delimiter)
    for rows in tables:
        if not rows:
            continue
        written = []
        for column, values in zip(columns, columns_of(rows, len(columns)), strict=True):
            given = listed(values)
            texts = cells(given, column.oid, TEXT_FORMAT, zone)
            forced = options.force_quote is None or column.name in options.force_quote
            texts = escaped(texts) if fields is None else fields.column(given, texts, forced=forced)
            if None in given:
                pairs = zip(given, texts, strict=True)
                texts = [null if value is None else text for value, text in pairs]
            written.append(texts)
        yield framed(COPY_DATA, list(map(delimiter.join, zip(*written, strict=True))), b"\n")


def _binary(columns: Sequence[WireColumn], tables: Tables, zone: tzinfo) -> Iterator[bytes]:
    """Yield rows in the format of DataRow. The first message contains the header."""
    formats = [(column.oid, BINARY_FORMAT) for column in columns]
    head = _BINARY_HEADER
    for rows in tables:
        rest = rows
        if head and rest:
            first = data_rows(rest[:1], formats, zone, COPY_DATA)
            yield backend.copy_data(head + first[_HEAD:])
            head, rest = b"", rest[1:]
        if rest:
            yield data_rows(rest, formats, zone, COPY_DATA)
    yield backend.copy_data(head + _BINARY_TRAILER)


def _escaped(delimiter: bytes, texts: list[bytes]) -> list[bytes]:
    """Return the fields of a column in COPY's text format."""
    escapes = {delimiter: b"\\" + delimiter, **_ESCAPES}
    if not _has_any(texts, b"".join(escapes)):
        return texts
    special = re.compile(b"[" + re.escape(b"".join(escapes)) + b"]")
    return [special.sub(lambda match: escapes[match[0]], text) for text in texts]


class _CsvFields:
    """Writer of CSV fields, with their quotes and escapes."""

    def __init__(self, options: CopyOptions, count: int) -> None:
        self._null, self._lone = options.null.encode(), count == 1
        self._quote, self._escape = options.quote.encode(), options.escape.encode()
        self._special = options.delimiter.encode() + self._quote + b"\n\r"

    def column(self, given: Sequence[object], texts: list[bytes], *, forced: bool) -> list[bytes]:
        """Return the fields of a column. NULLs in `given` are written later."""
        plain = not (forced or self._lone or None in given or self._null in texts)
        if plain and not _has_any(texts, self._special):
            return texts
        return [self.field(text, must=forced) for text in texts]

    def field(self, text: bytes, *, must: bool = False) -> bytes:
        """Return one field, quoted if necessary."""
        ends_copy = self._lone and text == b"\\."
        if not (must or ends_copy or text == self._null or _has_any([text], self._special)):
            return text
        inner = text
        for c in dict.fromkeys((self._escape, self._quote)):  # the escape first: it comes anew
            inner = inner.replace(c, self._escape + c)
        return self._quote + inner + self._quote


def _has_any(texts: Sequence[bytes], special: bytes) -> bool:
    """Test whether a text contains one of these bytes. All of them are single-byte characters."""
    whole = b"".join(texts)
    return len(whole.translate(None, special)) < len(whole)
