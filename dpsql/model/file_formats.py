"""The format of a table's data files, as the policy declares it."""

from __future__ import annotations

import re

from dpsql.model.dataclass import dataclass

TEXT_ENDINGS = (".csv", ".tsv")
PACKED = (".gz", ".zst")
"""Endings of compressed text files, behind their own."""

ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "windows-1252")
TYPES = (
    *("VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "DECIMAL(p,s)"),
    *("BOOLEAN", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID"),
)
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)", re.IGNORECASE)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column with its declared type, and the date formats (of strptime) that fit its texts."""

    name: str
    type: str
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of one table's files: `columns` are those with declared types.

    The rest is for text files, by the keys of [tables.T.file] (`policy_keys`). While a policy is
    drafted, columns with several declared types get one that holds all (`widen`).
    """

    columns: tuple[FileColumn, ...] = ()
    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    names: tuple[str, ...] = ()
    skip: int = 0
    encoding: str = "utf-8"
    null_words: tuple[str, ...] = ("",)
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ("%Y-%m-%d",)
    multiline: bool = False
    widen: bool = False

    def column(self, name: str) -> FileColumn | None:
        """Return the declared column of that name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class TextCounts:
    """Counts of lines of a table's text files that do not fit, and of values by column (`unread`).

    `open_quotes` counts files with an unclosed quote, where quoted texts may span lines.
    """

    table: str
    lines: int
    too_many: int
    too_few: int
    damaged: int
    unread: tuple[tuple[str, int], ...]
    open_quotes: int


def is_text(path: str) -> bool:
    """Test whether a path or glob names text files.

    >>> is_text("a/*.csv"), is_text("b.TSV.gz"), is_text("c.parquet")
    (True, True, False)
    """
    lower = path.lower()
    for packed in PACKED:
        lower = lower.removesuffix(packed)
    return lower.endswith(TEXT_ENDINGS)


def is_type(name: str) -> bool:
    """Test whether a type may be declared for a column of a file.

    >>> is_type("decimal(12, 2)"), is_type("BLOB"), is_type("DECIMAL(2,3)")
    (True, False, False)
    """
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        return int(match[2]) <= int(match[1]) <= _MOST_DIGITS and int(match[1]) > 0
    return name.upper() in TYPES
