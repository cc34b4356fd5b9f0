"""Store of local reports, kept until they become files of the policy's table.

Data that it holds about senders: SECURITY.md S26.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import SystemRandom, token_hex
from threading import Lock
from typing import Any

from dpsql.ledgers.mark import sync_folder
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Unreachable
from dpsql.policy.draft import Draft
from dpsql.systems.local.collection import Collection, Row, require_files
from dpsql.systems.local.questions import questions_of

STORE = ".reports.sqlite"
_PRAGMAS = (
    "PRAGMA journal_mode = TRUNCATE",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS fsync alone does not reach the disk
    "PRAGMA trusted_schema = OFF",
    "PRAGMA secure_delete = ON",  # what is sealed is nowhere else in the file
)
_SCHEMA = (
    "CREATE TABLE about (laws TEXT, least INTEGER, posts INTEGER, published INTEGER)",
    "CREATE TABLE seen (key BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE waiting (report TEXT)",
    "CREATE TABLE sealed (file TEXT, size INTEGER, reports TEXT)",
)
_PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Post:
    """Rows of one request. A post with the same `key` is stored only once."""

    key: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Numbers of rows that are `waiting`, `sealed` or `published`.

    The waiting rows came in `posts` posts. A batch is sealed at `least` posts.
    """

    waiting: int
    posts: int
    least: int
    sealed: int
    published: int


class ReportStore:
    """Reports of a collection that are not yet in files, stored in an SQLite file next to them.

    Each report that `add` accepted is durable and in exactly one place: waiting in its order of
    arrival, in a sealed batch with shuffled rows, or in a file. A batch is sealed once `least`
    posts wait.
    """

    def __init__(self, collection: Collection, opened: sqlite3.Connection) -> None:
        self._collection, self._opened, self._lock = collection, opened, Lock()

    @classmethod
    def open(cls, collection: Collection, least: int) -> ReportStore:
        """Open the store, and create it and its table if missing. A batch is sealed at `least`
        posts.

        Raises `MissingExtra`, or `Unreachable` if the file cannot be used or has other laws.
        """
        require_files()
        path = collection.folder / STORE
        with _sentences(path):
            collection.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT, 0o600))
            sync_folder(str(path))
            sync_folder(str(collection.folder))
            store = cls(collection, _connection(path))
        try:
            store._begin(least)
        except BaseException:
            store.close()
            raise
        return store

    def _begin(self, least: int) -> None:
        """Create missing tables of the store, and an empty first file of the table."""
        with self._transaction() as opened:
            if not opened.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in _SCHEMA:
                    opened.execute(statement)
                opened.execute("INSERT INTO about VALUES (?, 1, 0, 0)", (self._collection.laws,))
            self._require_laws(opened)
            opened.execute("UPDATE about SET least = ?", (least,))
            _seal(opened)
            if not any(self._collection.folder.glob("*.parquet")):
                self._collection.write(_file_name(), ())

    @classmethod
    def existing(cls, collection: Collection) -> ReportStore | None:
        """Open an existing store, or return None if there is none. Raises `Unreachable`."""
        path = collection.folder / STORE
        if not path.exists() or not path.stat().st_size:
            return None
        with _sentences(path):
            store = cls(collection, _connection(path))
        try:
            with store._transaction() as opened:
                store._require_laws(opened)
        except BaseException:
            store.close()
            raise
        return store

    def add(self, posts: Sequence[Post]) -> int:
        """Store the posts that are new, and return the number of rows that were sealed.

        All of them are durable on return, or none is stored. Raises `Unreachable`.
        """
        with self._transaction() as opened:
            for post in posts:
                key = sha256(post.key.encode()).digest()[:16]
                if opened.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount:
                    rows = [(json.dumps(row),) for row in post.rows]
                    opened.executemany("INSERT INTO waiting VALUES (?)", rows)
                    opened.execute("UPDATE about SET posts = posts + 1")
            return _seal(opened)

    def publish(self) -> int:
        """Write all sealed rows, shuffled again, to new files. Return the number of rows.

        Each row is in exactly one file, even after interruptions. Raises `Unreachable` or
        `MissingExtra`.
        """
        with self._transaction() as opened:
            opened.execute("UPDATE sealed SET file = ? WHERE file IS NULL", (_file_name(),))
        published = 0
        with self._transaction() as opened:
            names = opened.execute("SELECT DISTINCT file FROM sealed").fetchall()
            for (name,) in names:
                batches = opened.execute("SELECT reports FROM sealed WHERE file = ?", (name,))
                rows = [tuple(row) for (batch,) in batches for row in json.loads(batch)]
                if not (self._collection.folder / name).exists():
                    self._collection.write(name, _shuffled(rows))
                opened.execute("DELETE FROM sealed WHERE file = ?", (name,))
                opened.execute("UPDATE about SET published = published + ?", (len(rows),))
                published += len(rows)
        return published

    def counts(self) -> StoreCounts:
        """Return the numbers of rows by state. Raises `Unreachable`."""
        with self._transaction() as opened:
            (waiting,) = opened.execute("SELECT COUNT(*) FROM waiting").fetchone()
            (sealed,) = opened.execute("SELECT COALESCE(SUM(size), 0) FROM sealed").fetchone()
            about = opened.execute("SELECT posts, least, published FROM about").fetchone()
        posts, least, published = about
        return StoreCounts(waiting, posts, least, sealed, published)

    def close(self) -> None:
        """Close the store."""
        self._opened.close()

    def _require_laws(self, opened: sqlite3.Connection) -> None:
        (laws,) = opened.execute("SELECT laws FROM about").fetchone()
        if laws != self._collection.laws:
            raise Unreachable(
                f"{self._collection.folder} has reports by other laws than those that the policy"
                f" now says of {self._collection.table}. Ask anew in another table and folder."
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes writes of other processes. Raises `Unreachable`."""
        with self._lock, _sentences(self._collection.folder / STORE):
            self._opened.execute("BEGIN IMMEDIATE")
            try:
                yield self._opened
                self._opened.execute("COMMIT")
            finally:
                self._opened.rollback()


def published(draft: Draft) -> Iterator[tuple[str, int]]:
    """Publish the collected reports of a policy. Yields each table with new rows, and their
    number.

    Raises `PolicyError`, `Unreachable` and `MissingExtra`.
    """
    folders = {name: Path(pattern).parent for name, pattern in draft.database.files}
    for table in draft.tables:
        folder = folders.get(table.name)
        if folder is not None and bool(questions_of(table)) and (folder / STORE).exists():
            store = ReportStore.existing(Collection.of(draft, table.name))
            if store is None:
                continue
            with closing(store):
                rows = store.publish()
            if rows:
                yield table.name, rows


def _seal(opened: sqlite3.Connection) -> int:
    posts, least = opened.execute("SELECT posts, least FROM about").fetchone()
    if posts < least:
        return 0
    rows = _shuffled([row for (row,) in opened.execute("SELECT report FROM waiting")])
    batch = None, len(rows), f"[{','.join(rows)}]"
    opened.execute("INSERT INTO sealed VALUES (?, ?, ?)", batch)
    opened.execute("DELETE FROM waiting")
    opened.execute("UPDATE about SET posts = 0")
    return len(rows)


def _shuffled(rows: list[Any]) -> list[Any]:
    SystemRandom().shuffle(rows)
    return rows


def _file_name() -> str:
    return f"{token_hex(8)}.parquet"


def _connection(path: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(
        path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
    )
    for pragma in _PRAGMAS:
        opened.execute(pragma)
    return opened


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the operating system into `Unreachable`."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise Unreachable(f"The store {path} cannot be used: {why}.") from None
