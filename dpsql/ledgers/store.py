"""The SQLite file: its schema, its transactions, its mark, and waits for other processes.

A connection lasts for one call: none crosses a fork or a thread. A debit is on disk before it
counts: SECURITY.md S3.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from dpsql.ledgers.chain import EntryRow, State
from dpsql.ledgers.claims import Claims
from dpsql.ledgers.ledger_store import LedgerSession
from dpsql.ledgers.mark import (
    MOVED,
    Mark,
    identity_of,
    mark_of,
    mark_path,
    read_mark,
    sync_folder,
    write_mark,
)
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import LedgerError

T = TypeVar("T")

OLDEST_SQLITE = (3, 37, 0)
"""First version with STRICT tables."""

_CHECKPOINTS = "CREATE INDEX checkpoints ON entries (sequence) WHERE kind = 'checkpoint'"
_SHARES = "CREATE INDEX shares_of_question ON entries (question, analyst) WHERE kind = 'shared'"

SCHEMA = (
    """CREATE TABLE entries (
  sequence INTEGER PRIMARY KEY CHECK (sequence >= 0),
  kind TEXT NOT NULL
    CHECK (kind IN (
      'opened', 'charge', 'answer', 'refresh', 'facts', 'accepted', 'late', 'resumed',
      'stopped', 'limit', 'checkpoint', 'shared', 'window')),
  time INTEGER NOT NULL,
  data_version INTEGER NOT NULL CHECK (data_version >= 1),
  query_id TEXT,
  analyst TEXT,
  budget TEXT,
  accountant TEXT,
  epsilon TEXT,
  amount INTEGER CHECK (amount >= 0),
  delta INTEGER CHECK (delta >= 0),
  event TEXT,
  question TEXT,
  policy_version TEXT,
  detail TEXT,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  CHECK (kind <> 'charge' OR (
    query_id IS NOT NULL AND analyst IS NOT NULL AND budget IS NOT NULL
    AND accountant IS NOT NULL AND epsilon IS NOT NULL AND amount IS NOT NULL
    AND delta IS NOT NULL AND event IS NOT NULL AND question IS NOT NULL
    AND policy_version IS NOT NULL)),
  CHECK (kind <> 'answer' OR (query_id IS NOT NULL AND detail IS NOT NULL))
) STRICT""",
    """CREATE TABLE answers (
  query_id TEXT PRIMARY KEY,
  payload BLOB NOT NULL
) STRICT""",
    "CREATE UNIQUE INDEX entry_of_query ON entries (query_id, kind) WHERE query_id IS NOT NULL",
    """CREATE INDEX charges_for_question
ON entries (question, analyst, policy_version, data_version) WHERE kind = 'charge'""",
    _CHECKPOINTS,
    _SHARES,
    """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entries_never_go BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    # INSERT OR REPLACE deletes without asking the trigger above.
    """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
WHEN NEW.sequence <> (SELECT coalesce(max(sequence), -1) + 1 FROM entries)
  OR EXISTS (SELECT 1 FROM entries WHERE query_id = NEW.query_id AND kind = NEW.kind)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER answers_never_change BEFORE UPDATE ON answers
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER answers_never_go BEFORE DELETE ON answers
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER answers_are_new BEFORE INSERT ON answers
WHEN EXISTS (SELECT 1 FROM answers WHERE query_id = NEW.query_id)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
)

_FIRST = "CHECK (kind IN ('opened', 'charge', 'answer', 'refresh', 'facts', 'accepted'))"
_SECOND = """CHECK (kind IN (
      'opened', 'charge', 'answer', 'refresh', 'facts', 'accepted', 'late', 'resumed'))"""
_THIRD = """CHECK (kind IN (
      'opened', 'charge', 'answer', 'refresh', 'facts', 'accepted', 'late', 'resumed',
      'stopped', 'limit', 'checkpoint'))"""
_FOURTH = """CHECK (kind IN (
      'opened', 'charge', 'answer', 'refresh', 'facts', 'accepted', 'late', 'resumed',
      'stopped', 'limit', 'checkpoint', 'shared'))"""


def _with_kinds(check: str, *newer: str) -> tuple[str, ...]:
    start, end = SCHEMA[0].index("CHECK (kind IN"), SCHEMA[0].index(",\n  time")
    entries = SCHEMA[0][:start] + check + SCHEMA[0][end:]
    return (entries, *(sql for sql in SCHEMA[1:] if sql not in newer))


EARLIER_SCHEMAS = (
    _with_kinds(_FIRST, _CHECKPOINTS, _SHARES),
    _with_kinds(_SECOND, _CHECKPOINTS, _SHARES),
    _with_kinds(_THIRD, _SHARES),
    _with_kinds(_FOURTH),
)
"""Schemas of earlier ledgers: without late answers; without limits, stops and checkpoints; without
shared answers; and without windows.
"""

_PRAGMAS = (
    "PRAGMA journal_mode = TRUNCATE",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS fsync alone does not reach the disk
    "PRAGMA trusted_schema = OFF",
)

_PROBLEMS = {
    sqlite3.SQLITE_BUSY: "is locked by another process for too long. Try again.",
    sqlite3.SQLITE_READONLY: "cannot be written. Give this user write access to it.",
    sqlite3.SQLITE_PERM: "cannot be opened. Give this user access to it.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Check that it and its folder can be written.",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full. Make room.",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk failed.",
    sqlite3.SQLITE_NOTADB: "is not a ledger. Check the path in the policy.",
    sqlite3.SQLITE_CORRUPT: "is damaged. Restore it from a backup.",
    sqlite3.SQLITE_CONSTRAINT: "has an entry for this query already.",
}

RESTORE = (
    "Restore the file from a backup, then, if you know what happened, run "
    "`dpsql budget --accept-ledger`."
)

UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""Errors of reading a damaged value: a damaged byte can give any text, number or type.

Python's sqlite3 raises UnicodeDecodeError, too, if SQLite's own message quotes such a text.
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits for a lock: `attempts` times, each a random wait of at most `longest` seconds.

    The waits grow from a millisecond. They are random so that processes do not keep in step.
    """

    attempts: int = 4000
    longest: float = 0.01
    wait: Callable[[float], None] = time.sleep
    entropy: Entropy = field(default_factory=Entropy)

    def retry(self, step: Callable[[], T]) -> T:
        """Call `step`, again while the file is locked; raises the last sqlite3.OperationalError."""
        for attempt in range(self.attempts):
            try:
                return step()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
            ceiling = min(self.longest, 0.001 * 2 ** min(attempt, 10))
            self.wait(ceiling * int(self.entropy.below(1 << 20, 1)[0]) / (1 << 20))
        return step()


@contextmanager
def failing_closed(path: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into a LedgerError with a fix.

    Raises it immediately if SQLite is too old.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise LedgerError(f"The ledger needs SQLite {needed}; here is {sqlite3.sqlite_version}.")
    try:
        yield
    except sqlite3.Error as error:
        problem = _PROBLEMS.get(_code(error), "cannot be used.")
        raise LedgerError(f"The ledger {path} {problem}") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "unknown"
        raise LedgerError(f"The ledger {path} or its mark failed: {reason}.") from None
    except UNREADABLE:
        raise LedgerError(f"The ledger {path} {_PROBLEMS[sqlite3.SQLITE_CORRUPT]}") from None


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if the error is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def create_file(path: str) -> None:
    """Create an empty file that only its owner can use, unless there is a file already.

    The file is linked into place, and never opened under its name: closing any descriptor of a file
    drops all locks of SQLite on it in this process (POSIX).
    """
    descriptor, unfinished = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".ledger-")  # noqa: PTH120
    os.close(descriptor)
    try:
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        Path(unfinished).unlink()
    sync_folder(path)


_CHANGE_COUNTER = slice(24, 28)
"""Place of the change counter in an SQLite file (https://www.sqlite.org/fileformat.html, 1.3)."""


def change_of(path: str) -> tuple[object, ...]:
    """Return values that differ after any change of a file: identity, times, change counter.

    Only while this process holds no lock on it: closing a descriptor would drop it (POSIX).
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(descriptor)
        head = os.pread(descriptor, _CHANGE_COUNTER.stop, 0)
    finally:
        os.close(descriptor)
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times, head[_CHANGE_COUNTER]


def upgrade(opened: sqlite3.Connection, schema: Sequence[str]) -> None:
    """Let a ledger of an earlier schema record the newer kinds of entries; no row changes.

    The method is that of SQLite's manual for other CHECKs (lang_altertable.html, section 7).
    """
    (version,) = opened.execute("PRAGMA schema_version").fetchone()
    opened.execute("PRAGMA writable_schema = ON")
    opened.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'entries'", (SCHEMA[0],))
    opened.execute(f"PRAGMA schema_version = {version + 1}")
    opened.execute("PRAGMA writable_schema = OFF")
    for index in (_CHECKPOINTS, _SHARES):
        if index not in schema:
            opened.execute(index)


# --- rows ------------------------------------------------------------------------------------

_COLUMNS = ", ".join(EntryRow._fields)
_MARKS = ", ".join("?" * (len(EntryRow._fields) + 1))
_INSERT = f"INSERT INTO entries ({_COLUMNS}, hash) VALUES ({_MARKS})"
_SELECT = f"SELECT {_COLUMNS}, hash FROM entries"


def insert_row(opened: LedgerSession, row: EntryRow, recorded: bytes) -> None:
    """Append one entry with its hash."""
    opened.execute(_INSERT, (*row, recorded))


def insert_answer(opened: LedgerSession, query_id: str, payload: bytes) -> None:
    """Store the answer of one query."""
    opened.execute("INSERT INTO answers VALUES (?, ?)", (query_id, payload))


def rows(opened: LedgerSession, first: int) -> Iterator[tuple[EntryRow, bytes]]:
    """Return the entries from `first` on, in order, each with its recorded hash."""
    cursor = opened.execute(f"{_SELECT} WHERE sequence >= ? ORDER BY sequence", (first,))
    return ((EntryRow._make(values[:-1]), values[-1]) for values in cursor)


def rows_between(opened: LedgerSession, first: int, most: int) -> list[tuple[EntryRow, bytes]]:
    """Return up to `most` entries from `first` on, in order, each with its recorded hash."""
    query = f"{_SELECT} WHERE sequence >= ? ORDER BY sequence LIMIT ?"
    cursor = opened.execute(query, (first, most))
    return [(EntryRow._make(values[:-1]), bytes(values[-1])) for values in cursor]


def rows_where(
    opened: LedgerSession, condition: str, values: tuple[object, ...], limit: int
) -> list[EntryRow]:
    """Return the newest entries that meet an SQL condition, newest first."""
    query = f"{_SELECT} WHERE {condition} ORDER BY sequence DESC LIMIT ?"
    return [EntryRow._make(row[:-1]) for row in opened.execute(query, (*values, limit))]


def last_checkpoint(opened: LedgerSession) -> tuple[EntryRow, bytes] | None:
    """Return the newest checkpoint with its recorded hash; None if there is none."""
    query = f"{_SELECT} WHERE kind = 'checkpoint' ORDER BY sequence DESC LIMIT 1"
    row = opened.execute(query).fetchone()
    return None if row is None else (EntryRow._make(row[:-1]), bytes(row[-1]))


def hash_at(opened: LedgerSession, sequence: int) -> bytes | None:
    """Return the recorded hash of one entry; None if there is no such entry."""
    row = opened.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
    return None if row is None else bytes(row[0])


def payload_of(opened: LedgerSession, query_id: str) -> bytes | None:
    """Return the stored answer of one query; None if there is none."""
    query = "SELECT payload FROM answers WHERE query_id = ?"
    row = opened.execute(query, (query_id,)).fetchone()
    return None if row is None else bytes(row[0])


def answered(opened: LedgerSession) -> list[str]:
    """Return all queries with a stored or recorded answer."""
    query = "SELECT query_id FROM answers UNION SELECT query_id FROM entries WHERE kind = 'answer'"
    return [query_id for (query_id,) in opened.execute(query)]


# --- the store -------------------------------------------------------------------------------


class SqliteStore:
    """A `Store` in one SQLite file, with the mark and the claims next to it."""

    has_hosts = False

    def __init__(self, path: str, patience: Patience) -> None:
        self.name, self._patience, self._claims = path, patience, Claims(path)

    insert_row = staticmethod(insert_row)
    insert_answer = staticmethod(insert_answer)
    rows = staticmethod(rows)
    rows_where = staticmethod(rows_where)
    last_checkpoint = staticmethod(last_checkpoint)
    hash_at = staticmethod(hash_at)
    payload_of = staticmethod(payload_of)
    answered = staticmethod(answered)

    def failing_closed(self) -> AbstractContextManager[None]:
        """Turn errors of SQLite and the system into a LedgerError with a fix."""
        return failing_closed(self.name)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Open a durable connection to the file, closed at the exit. Raises sqlite3.Error."""
        uri = f"file:{quote(self.name)}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)) as opened:
            for pragma in _PRAGMAS:
                self._patience.retry(partial(opened.execute, pragma))
            yield opened

    @contextmanager
    def transaction(self, opened: Any, *, write: bool) -> Iterator[list[str]]:
        """Run one transaction, which yields the file's schema; commit if `write`, else roll back.

        Raises sqlite3.Error, and LedgerError if the file was switched to another journal.
        """

        def begin() -> list[str]:
            opened.rollback()
            opened.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            # Reading takes the shared lock; from then on no process can change the journal mode.
            row = opened.execute(
                r"SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'"
            ).fetchall()
            if opened.execute("PRAGMA journal_mode").fetchone() != ("truncate",):
                raise LedgerError(
                    "The ledger was switched to another journal mode. Switch it back."
                )
            return [sql for (sql,) in row]

        try:
            yield self._patience.retry(begin)
            if write:
                self._patience.retry(lambda: opened.execute("COMMIT"))
        finally:
            opened.rollback()

    def create_place(self, ledger_id: str) -> None:
        """Create the file if there is none. Raises LedgerError if there is another mark."""
        if not os.path.exists(self.name):  # noqa: PTH110
            self._require_no_mark(ledger_id)
            create_file(self.name)

    def prepare_schema(
        self, opened: Any, create: Callable[[], None], *, ledger_id: str = ""
    ) -> None:
        """Write the schema into an empty file, then call `create`; upgrade an earlier schema."""
        with self.transaction(opened, write=False) as schema:
            empty, earlier = not schema, _is_earlier(schema)
        if not (empty or earlier):
            return
        with self.transaction(opened, write=True) as schema:
            if not schema:  # no other process was faster
                self._require_no_mark(ledger_id)
                for statement in SCHEMA:
                    opened.execute(statement)
                create()
            elif _is_earlier(schema):
                upgrade(opened, schema)

    def require_schema(self, schema: Sequence[str]) -> None:
        """Raise LedgerError unless the schema is the one that this version writes."""
        if sorted(schema) != sorted(SCHEMA):
            raise LedgerError(
                f"The ledger {self.name} is not one that this version wrote, or its tables were "
                f"changed. {RESTORE}"
            )

    def _require_no_mark(self, ledger_id: str) -> None:
        mark = read_mark(self.name) if ledger_id else None
        if os.path.lexists(mark_path(self.name)) and (mark is None or mark.ledger != ledger_id):
            raise LedgerError(
                f"The ledger {self.name} is gone or empty, but its mark is there. {RESTORE} To "
                "start from nothing, lower the budgets by all that was spent, then remove the mark "
                "too."
            )

    def random(self) -> int:
        """Return a random number of 128 bits."""
        return int(self._patience.entropy.below(1 << 128, 1)[0])

    def check_head(self, opened: LedgerSession, state: State) -> None:
        """Do nothing: the last row of the file is its end."""

    def write_head(self, opened: LedgerSession, state: State) -> None:
        """Do nothing: the last row of the file is its end."""

    def retire(self, _opened: LedgerSession, state: State, why: str) -> None:
        """Make the mark one of no file, under the file's lock.

        It is at the last entry: a mark behind it would be moved to it, and be one of this file.
        """
        self.write_mark(mark_of(state, f"{MOVED}{why}"))

    def reopen(self, opened: LedgerSession) -> None:
        """Do nothing: the new mark is of this file."""

    def clock(self, _opened: LedgerSession) -> None:
        """Return None: a file has no clock."""

    def identity(self, _opened: LedgerSession) -> str:
        """Return device and inode of the file."""
        return identity_of(self.name)

    def read_mark(self) -> Mark | None:
        """Return the mark next to the file."""
        return read_mark(self.name)

    def known_mark(self, _opened: LedgerSession) -> Mark | None:
        """Return the mark next to the file: while a transaction reads, nobody moves it."""
        return read_mark(self.name)

    def marking(self, opened: Any) -> AbstractContextManager[object]:
        """Hold the file's write lock."""
        return self.transaction(opened, write=True)

    def write_mark(self, mark: Mark) -> None:
        """Replace the mark next to the file."""
        write_mark(self.name, mark)

    def claimed(self, text: str) -> AbstractContextManager[bool]:
        """Claim a text by a lock on one byte of a file."""
        return self._claims.claimed(text)

    @contextmanager
    def running(self, _analyst: str) -> Iterator[int]:
        """Yield 0: a file counts no running queries."""
        yield 0

    def stamp(self) -> object:
        """Return the identities and change counters of the file and its mark."""
        return change_of(self.name), change_of(mark_path(self.name))

    def close(self) -> None:
        """Release all claims; nothing else is held open between calls."""
        self._claims.close()


def _is_earlier(schema: Sequence[str]) -> bool:
    return sorted(schema) in [sorted(earlier) for earlier in EARLIER_SCHEMAS]
