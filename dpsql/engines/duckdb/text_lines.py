"""The lines of text files: one line is one row, regardless of its content.

A line ends with LF, CR LF or CR. DuckDB reads line by line if a file is UTF-8, has one kind of line
ends and no long line. Every file is read through before the first query, and other files are mended
in memory. Bytes that are not text become U+FFFD. A line is cut after `LONGEST_LINE` characters, and
the fields of a long one just beyond the longest text that is read: DuckDB holds 2,048 lines at
once, so that a few would exhaust its memory. All depend on one line only.

Proof (PRIVACY.md R100). Mending replaces each line by a text that depends on this line alone, and
leaves a file that needs no mending unchanged. So rows depend on lines one by one.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from typing import IO, cast

from dpsql.engines.duckdb.files import CannotOpen
from dpsql.model.dataclass import dataclass
from dpsql.model.file_formats import FileFormat

BLOCK = 1 << 20
MOST_BYTES = 2 * BLOCK
"""Limit on the bytes of a line if each block has a line end: a line spans at most two blocks."""
LONGEST_LINE = 1 << 24
MOST_MENDED = 1 << 30
"""Limit on the bytes of a mended file in memory."""
SEPARATOR = "\x1f"
"""Character that no line contains; it stands for delimiters inside of quotes."""
NO_TEXT = "\ufffd"
"""Replacement for bytes that are not text."""


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file that DuckDB reads line by line, with an upper bound on the bytes of a line.

    Reading needs room for `most_bytes`; no line has more than `line_bytes`.
    """

    path: str
    most_bytes: int = MOST_BYTES
    line_bytes: int = MOST_BYTES


def first_lines(path: str, encoding: str, count: int) -> list[str]:
    """Return the first `count` lines of a file without their ends, or all if there are fewer.

    Raises `CannotOpen`.
    """
    with _decoded(path, encoding) as stream:
        lines = [stream.readline(LONGEST_LINE) for _ in range(count)]
    return [line.rstrip("\n") for line in lines if line]


def first_bytes(path: str, count: int) -> bytes:
    """Return the first bytes of a file, unpacked. Raises `CannotOpen`."""
    try:
        with _bytes(path) as stream:
            return stream.read(count)
    except (OSError, EOFError):
        raise CannotOpen("unreadable") from None


def count_sign(path: str, encoding: str, sign: str) -> int:
    """Count a character in a file. Raises `CannotOpen`."""
    with _decoded(path, encoding) as stream:
        return sum(text.count(sign) for text in iter(lambda: stream.read(BLOCK), ""))


def readable(path: str, f: FileFormat, columns: int, most: int) -> LineFile:
    """Return the file itself if it is clean, else a mended copy in memory.

    A line of more than `most` bytes is mended if no field spans lines. Raises `CannotOpen`.
    """
    try:
        with _bytes(path) as stream:
            blocks = _Blocks(stream, most)
            clean = f.encoding == "utf-8" and _is_clean(iter(blocks.read, b""))
            if clean and (blocks.short or f.multiline):
                return LineFile(path, line_bytes=most if blocks.short else MOST_BYTES)
    except (OSError, EOFError):
        raise CannotOpen("unreadable") from None
    return _mended(path, f, columns, most)


class _Blocks:
    """Blocks of a file. They are `short` if no line has more than `most` bytes."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most, self._begun, self.short = stream, most, 0, True

    def read(self) -> bytes:
        block = self._stream.read(BLOCK)
        start = -self._begun
        while self.short and len(block) - start > self._most:
            end = block.rfind(b"\n", max(start, 0), start + self._most + 1)
            self.short, start = end >= 0, end + 1
        self._begun = len(block) - max(block.rfind(b"\n") + 1, start)
        return block


def _is_clean(blocks: Iterable[bytes]) -> bool:
    """Check UTF-8, one kind of line ends, and a line end in every whole block."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    returns, feeds, pairs, before = 0, 0, 0, b""
    for block in blocks:
        if SEPARATOR.encode() in block or (len(block) == BLOCK and b"\n" not in block):
            return False
        try:
            decoder.decode(block)
        except UnicodeDecodeError:
            return False
        returns += block.count(b"\r")
        feeds += block.count(b"\n")
        pairs += block.count(b"\r\n") + (before == b"\r" and block[:1] == b"\n")
        before = block[-1:]
    whole = not decoder.getstate()[0]
    return whole and (returns == 0 or returns == pairs == feeds)


def _mended(path: str, f: FileFormat, columns: int, most: int) -> LineFile:
    """Copy the lines of a file into memory as UTF-8. Raises `CannotOpen`."""
    if not hasattr(os, "memfd_create"):  # on systems other than Linux
        raise CannotOpen("unclean")
    descriptor = os.memfd_create("lines")  # kept open as long as the process
    longest, written = 0, 0
    with open(descriptor, "wb", closefd=False) as copy:
        for piece in _cut(path, f.encoding):
            lines = piece.replace(SEPARATOR, NO_TEXT).split("\n")
            if not f.multiline:
                lines = [x if len(x) <= most else short_line(x, f, columns, most) for x in lines]
            encoded = [line.encode() for line in lines]
            written += copy.write(b"\n".join(encoded))
            longest = max(longest, *map(len, encoded))
            if written > MOST_MENDED:
                raise CannotOpen("unclean")
    return LineFile(f"/proc/self/fd/{descriptor}", max(MOST_BYTES, longest), longest)


def short_line(line: str, f: FileFormat, columns: int, most: int) -> str:
    """Return a line with one field more than `columns`, if it has so many, and each cut.

    A cut field has one character more than `most`, so that its column counts as cut.

    >>> short_line('abcdef,"a,bcd",e,1,2', FileFormat(), 3, 2)
    'abc,"a,b",e,1'
    """
    fields = list[str]()
    for field in _fields(line, f):
        fields.append(_short_field(field, f.quote, most + 1))
        if len(fields) > columns:
            break
    return f.delimiter.join(fields)


def _fields(line: str, f: FileFormat) -> Iterator[str]:
    """Yield the fields as `text_rows` splits them: a quote that is not closed is a character."""
    q, place = re.escape(f.quote), 0
    whole = re.compile(
        rf"{q}(?:[^{q}]++|{q}{q})*+{q}(?={re.escape(f.delimiter)}|\Z)" if q else r"(?!)"
    )
    while True:
        match = whole.match(line, place)
        end = match.end() if match else line.find(f.delimiter, place)
        yield line[place:end] if end >= 0 else line[place:]
        if not 0 <= end < len(line):
            return
        place = end + len(f.delimiter)


def _short_field(field: str, quote: str, most: int) -> str:
    """Return a field with at most `most` characters of its text; quotes inside it are regular."""
    if not quote or quote not in field:
        return field[:most]
    closed = len(field) > 1 and field.startswith(quote) and field.endswith(quote)
    value = field[1:-1].replace(quote * 2, quote) if closed else field
    return quote + value[:most].replace(quote, quote * 2) + quote


def _cut(path: str, encoding: str) -> Iterator[str]:
    """Yield whole lines in batches, each line at most `LONGEST_LINE` long."""
    rest, room = list[str](), LONGEST_LINE
    with _decoded(path, encoding) as stream:
        while text := stream.read(BLOCK):
            head, end, tail = text.partition("\n")
            rest.append(head[:room])
            room -= len(rest[-1])
            if end:
                whole, end, begun = tail.rpartition("\n")
                yield "".join(rest) + "\n" + whole + end
                rest, room = [begun], LONGEST_LINE - len(begun)
    yield "".join(rest)


def _decoded(path: str, encoding: str) -> TextIOWrapper:
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    return _Text(_bytes(path), codec, errors="replace")


class _Text(TextIOWrapper):
    """Text of a file, with LF for every line end. Raises `CannotOpen` if it cannot be unpacked."""

    def read(self, size: int | None = -1) -> str:
        try:
            return super().read(size)
        except (OSError, EOFError):
            raise CannotOpen("unreadable") from None

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        try:
            return super().readline(size)
        except (OSError, EOFError):
            raise CannotOpen("unreadable") from None


def _bytes(path: str) -> IO[bytes]:
    """Open a file; unpack it if its name has a suffix of a packed file. Raises `CannotOpen`."""
    try:
        if path.lower().endswith(".gz"):
            import gzip  # noqa: PLC0415 - where a policy names such files

            return cast("IO[bytes]", gzip.open(path, "rb"))
        if path.lower().endswith(".zst"):
            from compression import zstd  # type: ignore[import-not-found] # noqa: PLC0415

            return cast("IO[bytes]", zstd.open(path, "rb"))
        return open(path, "rb")  # noqa: PTH123 - the child starts sooner
    except ImportError:
        raise CannotOpen("zstd") from None
    except OSError:
        raise CannotOpen("unreadable") from None
