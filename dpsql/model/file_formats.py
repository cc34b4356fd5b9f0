"""How the lines and columns of a table's data files are read, as the policy says it."""

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
    """A column with its declared type, and the date forms (of strptime) that fit its texts."""

    name: str
    type: str
    forms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How the files of one table are read: `columns` are those whose types are declared.

    The rest is about text files. Without `header` the columns are `names`; `skip` lines stand
    before the header or the first row. `dates` are the forms of dates where a column has none.
    While a policy is drafted, columns of several declared types get one that holds all (`widen`).
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
        """The declared column of that name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class TextCounts:
    """How many lines of a table's text files do not fit, and values by column (`unread`).

    `open_quotes` is how many files have a quote that is not closed, where it may reach over lines.
    """

    table: str
    lines: int
    too_many: int
    too_few: int
    damaged: int
    unread: tuple[tuple[str, int], ...]
    open_quotes: int


def is_text(path: str) -> bool:
    """Whether a path or glob is of text files.

    >>> is_text("a/*.csv"), is_text("b.TSV.gz"), is_text("c.parquet")
    (True, True, False)
    """
    lower = path.lower()
    for packed in PACKED:
        lower = lower.removesuffix(packed)
    return lower.endswith(TEXT_ENDINGS)


def is_type(name: str) -> bool:
    """Whether a type may be declared for a column of a file.

    >>> is_type("decimal(12, 2)"), is_type("BLOB"), is_type("DECIMAL(2,3)")
    (True, False, False)
    """
    match = _DECIMAL.fullmatch(name)
    if match is not None:
        return int(match[2]) <= int(match[1]) <= _MOST_DIGITS and int(match[1]) > 0
    return name.upper() in TYPES
