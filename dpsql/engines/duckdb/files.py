"""The owner's files: their paths, their version, and how DuckDB reads them.

Changed files are detected: SECURITY.md S11. The prepared store: SECURITY.md S27.
"""

from __future__ import annotations

import os

from dpsql.model.dataclass import dataclass
from dpsql.model.file_formats import FileFormat
from dpsql.model.resources import LONGEST_TEXT

Signature = tuple[tuple[str, int, int, int, int], ...]
"""Path, device, inode, size and mtime_ns of each file: a data version."""

FINDINGS = "lines dpsql"
"""Schema of the views with defects of lines of text files, for the owner."""


class CannotOpen(Exception):
    """The owner's database cannot be opened; `why` is one of `WHY`."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


WHY = {
    "missing": "does not exist; correct its path in the policy",
    "no match": "matches no file; correct the pattern in the policy",
    "locked": "is open for writing elsewhere; close that program, or wait for it to finish",
    "unreadable": "cannot be read by DuckDB; check its permissions and that it is a database",
    "unreadable file": "cannot be read; check its permissions, and that it is what its ending says",
    "no text": "is no text: a packed file, a spreadsheet, Parquet, or UTF-16 without a mark; name"
    " it by what it is, or save it as CSV in UTF-8",
    "no type": "declares several types of one column, and no type holds the values of all; write"
    " the files anew with one type",
    "unknown format": "is neither Parquet nor CSV; name it .parquet, .csv or .tsv, and .gz or .zst"
    " where it is packed",
    "unclean": "has bytes that are not UTF-8, several kinds of line ends, or a line longer than"
    " max_text_length in [limits], and cannot be mended in memory; convert it to UTF-8 with one"
    " kind of line ends, or raise max_text_length",
    "encrypted": "is encrypted, or describes itself in bytes that are not UTF-8; write it anew"
    " without encryption, since dpsql reads no keys",
    "zstd": "is packed with zstd, which needs Python 3.14; unpack it, or pack it with gzip",
    "empty": "is empty: it has no line, and so no column",
    "values": "has a value that cannot be read, or that its type does not hold: text that is not"
    " UTF-8, or a time or DECIMAL out of range; write it anew",
    "memory": "has texts, JSON or lists so long that reading them takes more than half of memory in"
    " [limits], and a question could fail for want of memory; shorten them, or raise memory",
    "statistics": "states statistics of its columns that its values break, as old writers do;"
    " write it anew, as by DuckDB's COPY",
    "types": "declares several types of one column; name its type in the policy, which"
    " dpsql init proposes",
    "long": "has texts longer than max_text_length, which a store would hold whole; cut them there,"
    " or raise max_text_length in [limits]",
    "folder key": "has folders KEY=VALUE with the name of a column of the files, and only one of"
    " these can be read; rename the folders, or leave that column out of the files",
    "changed": "has changed since it was opened; open the policy again",
    "spill": "is no folder for what is spilled; name one on a local disk that is yours, chmod 700",
}

REPLACED = "replaced: "
"""Prefix of a reason that continues with names of the database."""
MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Sources:
    """Location of the data, in absolute paths: a DuckDB file, or a path or glob per table.

    The DuckDB file `store` may hold prepared copies. Statements spill to the folder `spill`; if it
    is None, they do not spill. Texts are cut to `longest` characters.
    """

    path: str | None
    files: tuple[tuple[str, str], ...]
    store: str | None = None
    spill: str | None = None
    formats: tuple[tuple[str, FileFormat], ...] = ()
    longest: int = LONGEST_TEXT

    def format_of(self, table: str) -> FileFormat | None:
        """Return the format of a table's files; None if no policy declares it."""
        return dict(self.formats).get(table)

    def complaint(self, why: str) -> str:
        """Return the message for a reason, with the owner's paths; for missing files, those
        alone.
        """
        if why.startswith(REPLACED):
            names = "has macros, types or tables with names that dpsql needs"
            return f"{self.spelled()} {names}: {why[len(REPLACED) :]}. Rename them in the database."
        if why == "spill":
            return f"{self.spill} {WHY[why]}."
        if why == "unreadable" and self.path is None:
            why = "unreadable file"
        if why != "missing":
            return f"{self.spelled()} {WHY[why]}."
        paths = [self.path] if self.path else [pattern for _table, pattern in self.files]
        absent = [path for path in paths if not _expand(path)] or paths
        why = "no match" if any(set("*?[") & set(path) for path in absent) else why
        return f"{', '.join(absent)} {WHY[why]}."

    def spelled(self) -> str:
        """Return the owner's path or paths."""
        return self.path or ", ".join(pattern for _table, pattern in self.files)

    def matches(self) -> dict[str, list[str]]:
        """Return the files of each table. Raises `CannotOpen` if a table has none."""
        matches = {table: _expand(pattern) for table, pattern in self.files}
        if not all(matches.values()):
            raise CannotOpen("missing")
        return matches

    def signature(self) -> Signature:
        """Return the data version on disk now. Raises `CannotOpen` if a file is missing."""
        paths = [path for paths in self.matches().values() for path in paths]
        if self.path is not None:
            paths += [self.path, *log_of(self.path)]
        return tuple(map(_stamp, paths))

    def stored(self) -> tuple[int, ...] | None:
        """Return the version of the store on disk now; None if there is none."""
        try:
            return None if self.store is None else stamp(os.stat(self.store))  # noqa: PTH116
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Opened:
    """Opened data: its version, and the version of the store at that time.

    `about` is the store's description of itself, "" if it was not made of this data. `cuts` are the
    columns (schema, table, column) whose texts are cut.
    """

    signature: Signature
    stored: tuple[int, ...] | None = None
    about: str = ""
    cuts: tuple[tuple[str, str, str], ...] = ()

    @property
    def identity(self) -> str:
        """Data version as the other packages know it."""
        return identity_of(self.signature)


APART = ("scratch", "script", "bind")
"""Operations of a worker that do not reach the data."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker.

    `memory` is DuckDB's limit for each instance. `niceness` is the priority of the process.
    `expected` lists the first statements, which the worker runs in advance. `max_spill` limits the
    spilled bytes at any time.
    """

    sources: Sources
    memory: str
    niceness: int = 0
    expected: tuple[str, ...] = ()
    max_spill: str = "0KB"


def identity_of(signature: Signature) -> str:
    """Return a text that identifies a data version: the same files, unchanged."""
    from hashlib import sha256  # noqa: PLC0415 - the child starts sooner without it

    return sha256(repr(signature).encode()).hexdigest()


# os.path and not pathlib: the child starts sooner without it.


def _expand(pattern: str) -> list[str]:
    if os.path.exists(pattern):  # noqa: PTH110
        return [pattern]
    from glob import glob  # noqa: PLC0415 - only where a policy uses it

    return sorted(glob(pattern, recursive=True))  # noqa: PTH207


def log_of(path: str) -> list[str]:
    """Return a database's write-ahead log, which holds changes until a checkpoint, if there is
    one.
    """
    log = path + ".wal"
    return [log] if os.path.exists(log) else []  # noqa: PTH110


def _stamp(path: str) -> tuple[str, int, int, int, int]:
    try:
        about = os.stat(path)  # noqa: PTH116
    except OSError:
        raise CannotOpen("missing") from None
    return path, *stamp(about)


def stamp(about: os.stat_result) -> tuple[int, int, int, int]:
    """Return device, inode, size and mtime_ns of a file, which differ after any change."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def text(value: str) -> str:
    """Return a string constant."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """Return a quoted identifier."""
    return '"' + value.replace('"', '""') + '"'
