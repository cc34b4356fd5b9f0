"""Writer of the prepared store: a file is written next to its place, and then moved there.

An unfinished store is continued where it ended: each table is there whole, or not at all. Access
and contents: SECURITY.md S27.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import _duckdb as duckdb

from dpsql.engines.duckdb.cut_texts import require_short_texts
from dpsql.engines.duckdb.file_views import create_views
from dpsql.engines.duckdb.files import CannotOpen, Signature, Sources, identity_of, name, text
from dpsql.engines.duckdb.hardening import about_text, configuration
from dpsql.engines.duckdb.taken_rows import TakenRows
from dpsql.engines.stores import Grown
from dpsql.model import prepared_store
from dpsql.model.errors import Unreachable
from dpsql.model.prepared_store import SCHEMA
from dpsql.model.table_names import address

_OWNERS = "dpsql_owners"
"""Name of the owner's database in the store's connection."""

_TAKEN = f"{prepared_store.ABOUT.partition('.')[0]}.taken"
"""Table of a store that lists which rows of the owner's tables it contains."""

_FAILED = "The store could not be made: DuckDB failed. Is there room on the disk, and memory?"


class StoreOfDuckDB:
    """A DuckDB file made of a DuckDB file or of data files: a `StoreWriter`."""

    def __init__(self, sources: Sources, memory: str) -> None:
        assert sources.store is not None
        self._sources, self._place = sources, Path(sources.store)
        self._folder = self._place.with_name(f"{self._place.name}.unfinished")
        self._entered: int | None = None
        self._signature, self._connection = self._opened(memory)
        self._taken = TakenRows(self.rows, sources, self._signature, self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._connection.close()
        if self._entered is not None:
            os.close(self._entered)

    @property
    def identity(self) -> str:
        return identity_of(self._signature)

    @property
    def room(self) -> int:
        return shutil.disk_usage(self._place.parent).free

    def grown(self, store: prepared_store.PreparedStore) -> Mapping[str, Grown] | None:
        """Return the tables that only grew since the present store was made; None without such a
        store.
        """
        before = self._attached(self._place, f"{prepared_store.BEFORE} (READ_ONLY)")
        if before is None or _of_what(before) != _of_what(store):
            return None
        tables = dict[str, Grown]()
        for table, count, mark in self.rows(f"SELECT * FROM {prepared_store.BEFORE}.{_TAKEN}"):
            since = self._taken.since(table, count, mark)
            if since is not None:
                stored = self._count(
                    address(prepared_store.table_in_store(table, prepared_store.BEFORE))
                )
                tables[table] = Grown(since, self._count(since) > 0, stored == count)
        return tables

    def begin(self, store: prepared_store.PreparedStore) -> frozenset[str]:
        self._enter()
        store_file = self._folder / self._place.name
        begun = self._attached(store_file, SCHEMA)
        same = begun is not None and begun.data == store.data and _of_what(begun) == _of_what(store)
        if not same:
            self._done(f"DETACH DATABASE IF EXISTS {SCHEMA}")
            for each in self._folder.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        if not store_file.exists():
            self._done(f"ATTACH {text(str(store_file))} AS {SCHEMA}")
            self._done(f"CREATE SCHEMA {SCHEMA}.{prepared_store.ABOUT.partition('.')[0]}")
            self._describe(store)
        self._done(f"SET temp_directory = {text(str(self._folder / 'spilled'))}")
        listed = self.rows(
            f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{SCHEMA}'"
            " AND schema_name = 'main'"
        )
        return frozenset(table for (table,) in listed)

    def _enter(self) -> None:
        """Reserve the folder of unfinished work for this process."""
        from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415 - not on Windows

        try:
            require_own_names(self._place.parent)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._entered = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if os.fstat(self._entered).st_uid != os.geteuid():
                raise Unreachable(f"{self._folder} belongs to somebody else. Remove it.")
            os.fchmod(self._entered, 0o700)
            flock(self._entered, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            raise Unreachable(f"Another dpsql prepare is making {self._place}.") from None
        except OSError:
            raise Unreachable(f"{self._place.parent} cannot be written to.") from None

    def _describe(self, store: prepared_store.PreparedStore) -> None:
        """Write into the store its description and the rows that it was made of."""
        said = f"SELECT {text(store.text)} AS about, version() AS engine"
        taken = [
            ", ".join([text(table), f"{rows}::BIGINT", text(self._taken.mark(table))])
            for table in store.tables
            for rows in [self._count(address(table))]
        ]
        listed = f"FROM (VALUES ({'), ('.join(taken)})) AS t(name, rows, mark)"
        self._done(f"CREATE TABLE {SCHEMA}.{_TAKEN} AS {listed}")
        self._done(f"CREATE TABLE {SCHEMA}.{prepared_store.ABOUT} AS {said}")

    def _count(self, source: str) -> int:
        ((count,),) = self.rows(f"SELECT COUNT(*) FROM {source}")
        return int(count)

    def make(self, statement: str) -> None:
        self._done(statement)

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        return self._done(sql).fetchall()  # type: ignore[no-any-return]

    def progress(self) -> float:
        return max(0.0, float(self._connection.query_progress()) / 100)

    def cancel(self) -> None:
        self._connection.interrupt()

    def finish(self) -> None:
        """Move the store into its place atomically; programs with the old one open keep it.

        Raises `Unreachable` if the data has changed meanwhile.
        """
        self._done(f"CHECKPOINT {SCHEMA}")
        self._done(f"DETACH {SCHEMA}")
        self._done(f"DETACH DATABASE IF EXISTS {prepared_store.BEFORE}")
        if self._sources.signature() != self._signature:
            raise Unreachable(self._sources.complaint("changed"))
        whole = self._folder / self._place.name
        whole.chmod(0o600)
        with whole.open("rb") as file:
            os.fsync(file.fileno())
        whole.replace(self._place)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _opened(self, memory: str) -> tuple[Signature, Any]:
        """Return the present data version, and a connection that reads this data."""
        try:
            signature = self._sources.signature()
            connection = duckdb.connect(":memory:", config=configuration(memory))
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = true")  # so that `progress` knows it
            connection.execute("SET enable_progress_bar_print = false")
            if self._sources.path is None:
                create_views(connection, self._sources)
            else:
                connection.execute(f"ATTACH {text(self._sources.path)} AS {_OWNERS} (READ_ONLY)")
                connection.execute(f"USE {name(_OWNERS)}")
                require_short_texts(connection, self._sources)
        except CannotOpen as error:
            raise Unreachable(self._sources.complaint(error.why)) from None
        except duckdb.Error:
            raise Unreachable(self._sources.complaint("unreadable")) from None
        return signature, connection

    def _attached(self, store_file: Path, how: str) -> prepared_store.PreparedStore | None:
        """Attach a store; return its description of itself, or None if there is none."""
        if not store_file.exists():
            return None
        try:
            self._connection.execute(f"ATTACH {text(str(store_file))} AS {how}")
            said = self._connection.execute(about_text(how.split(maxsplit=1)[0])).fetchone()
        except duckdb.Error:
            return None
        return prepared_store.parsed(str(said[0])) if said else None

    def _done(self, sql: str) -> Any:
        """Run a statement and return its result. Raises `Unreachable` without the engine's text,
        which may quote data.
        """
        try:
            return self._connection.execute(sql)
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.Error:
            raise Unreachable(_FAILED) from None


def require_own_names(folder: Path) -> None:
    """Raise `Unreachable` if other users could replace the store's file."""
    about = folder.stat()
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not about.st_mode & stat.S_ISVTX
    if others or about.st_uid not in (os.geteuid(), 0):
        raise Unreachable(
            f"Others may create files in {folder}, and the store holds private rows. Take that"
            f" right away: chmod go-w {folder}; or let prepared be in a folder of yours."
        )


def _of_what(store: prepared_store.PreparedStore) -> tuple[object, ...]:
    """Return the description of a store's contents, without its data version."""
    return store.version, store.tables, store.rollups
