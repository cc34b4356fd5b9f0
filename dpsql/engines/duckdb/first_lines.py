"""Format of a text file by its first line: encoding and delimiter. No row is read."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.engines.duckdb.files import CannotOpen
from dpsql.engines.duckdb.text_lines import NO_TEXT, first_bytes, first_lines
from dpsql.model.dataclass import replace
from dpsql.model.file_formats import FileFormat

_DELIMITERS = (",", ";", "\t", "|")
_SEPARATOR = "sep="
_OTHER = "windows-1252"
"""Encoding tried first if a file is not UTF-8: nearly every byte is a character."""
_BOMS = (b"\xff\xfe", b"\xfe\xff")
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04", b"PAR1")
"""First bytes of archives, spreadsheets and Parquet files."""
_MAGIC = 4
"""Number of bytes that distinguish these, and UTF-16 without a mark, where in English every other
byte is 0.
"""


def format_by_first_line(paths: Sequence[str]) -> FileFormat:
    """Return the format of a table's files, as far as the first line determines it.

    The first file with a line decides. A line `sep=;`, which Excel writes, is skipped. Raises
    `CannotOpen` if no file has a line, or if one does not begin as text.
    """
    for path in paths:
        beginning = first_bytes(path, _MAGIC)
        encoding = "utf-16" if beginning[:2] in _BOMS else "utf-8"
        if encoding == "utf-8" and (b"\0" in beginning or beginning.startswith(_PACKED)):
            raise CannotOpen("no text")
        lines = first_lines(path, encoding, 1)
        if not lines:
            continue
        if NO_TEXT in lines[0]:
            encoding = _OTHER
        base = FileFormat(encoding=encoding, widen=True)
        if lines[0].lower().startswith(_SEPARATOR) and len(lines[0]) == len(_SEPARATOR) + 1:
            return replace(base, delimiter=lines[0][-1], skip=1)
        counted = {each: "".join(lines[0].split('"')[::2]).count(each) for each in _DELIMITERS}
        return replace(base, delimiter=max(counted, key=lambda each: counted[each]))
    raise CannotOpen("empty")
