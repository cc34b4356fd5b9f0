"""Rows that are not all in memory: stored in a temporary file, or read as they are used.

`Stored` rows are read back in parts, forwards or backwards. The file has no name, and is deleted
with the rows or with the process. A `Room` bounds the total size of all such files.

A `Flow` holds rows of public data that are read as they are used. A slow reader makes the engine
wait. A flow is read once: pushed `into` a function of this thread, pulled as `tables` by any
thread, `stored` in a file, or `gathered` if there are not too many.
"""

from __future__ import annotations

import os
import pickle
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from queue import Full, Queue
from tempfile import TemporaryFile
from threading import Event, Lock, Thread
from typing import Any, Self, overload

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.table import OnDemand, Row, Table, concatenated

PIECE_ROWS = 1 << 13
"""Number of rows that are read back at once."""


class Room:
    """The bytes of temporary files that are in use, by owner."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.lock = Lock()


@dataclass(frozen=True, slots=True)
class Share:
    """One owner's share of a room: `most` bytes for all, and half of that if there are others."""

    room: Room
    most: int
    owner: str = ""
    owners: int = 1

    def take(self, size: int) -> None:
        """Reserve bytes; raises `Refused` if there is no room for them."""
        taken, own = self.room.taken, self.most if self.owners <= 1 else self.most // 2
        with self.room.lock:
            if taken.total() + size > self.most or taken[self.owner] + size > own:
                raise _no_room("There is no more room for them (max_result_files).")
            taken[self.owner] += size

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        with self.room.lock:
            self.room.taken[self.owner] -= size


class Stored(OnDemand):
    """Rows in a file; a slice has the same rows in another order, and reads nothing."""

    __slots__ = ("_file", "_places")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, file: _File, places: range) -> None:
        self._file, self._places = file, places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Stored: ...

    def __getitem__(self, at: int | slice) -> Row | Stored:
        if isinstance(at, slice):
            return Stored(self._file, self._places[at])
        return self._file.row(self._places[at])

    def __iter__(self) -> Iterator[Row]:
        for table in self.tables():
            yield from table

    def tables(self) -> Iterator[Table]:
        """Yield the rows in parts."""
        for start in range(0, len(self._places), PIECE_ROWS):
            places = self._places[start : start + PIECE_ROWS]
            first, last = min(places[0], places[-1]), max(places[0], places[-1])
            yield self._file.table(first, last)[:: places.step]


def tables_of(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Iterate over rows in parts; only rows in a file need reading."""
    return rows.tables() if isinstance(rows, Stored) else iter([rows])


class Storing:
    """A file that is being filled, deleted on failure. Raises `Refused` if there is no room."""

    def __init__(self, share: Share) -> None:
        self._file = _File(share)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_others: object) -> None:
        if failed is not None:
            self._file.drop()

    def add(self, table: Table) -> None:
        """Write more rows."""
        self._file.add(table)

    def rows(self) -> Stored:
        """Return all written rows."""
        return Stored(self._file, range(self._file.count))


class _File:
    """Tables in a file, one after another, each pickled; with their first rows and byte offsets."""

    def __init__(self, share: Share) -> None:
        try:
            with TemporaryFile() as file:
                self._descriptor = os.dup(file.fileno())
        except OSError:
            raise _no_room("No temporary file can be made.") from None
        self._share, self._taken = share, [0]
        self._starts, self._ends = list[int](), [0]
        self.count = 0
        self._loaded: tuple[int, Table] = -1, Table(0, [])
        self._rows: tuple[int, list[Row]] = 0, []
        self.drop = weakref.finalize(self, _gone, self._descriptor, share, self._taken)

    def add(self, table: Table) -> None:
        content = memoryview(pickle.dumps((len(table), table.columns), protocol=5))
        self._share.take(len(content))
        self._taken[0] += len(content)
        end = self._ends[-1] + len(content)
        try:
            while content:
                content = content[os.pwrite(self._descriptor, content, end - len(content)) :]
        except OSError:
            raise _no_room("The disk for temporary files is full.") from None
        self._starts.append(self.count)
        self._ends.append(end)
        self.count += len(table)

    def table(self, first: int, last: int) -> Table:
        """Return the rows from `first` to `last`, both included."""
        pieces = range(self._piece(first), self._piece(last) + 1)
        tables = [self._load(piece) for piece in pieces]
        start = self._starts[pieces[0]]
        whole = tables[0] if len(tables) == 1 else concatenated(tables)
        return whole[first - start : last - start + 1]

    def row(self, place: int) -> Row:
        """Return one row, and keep those around it for the next call."""
        start, rows = self._rows
        if not start <= place < start + len(rows):
            piece = self._piece(place)
            start, rows = self._rows = self._starts[piece], list(self._load(piece))
        return rows[place - start]

    def _piece(self, row: int) -> int:
        return bisect_right(self._starts, row) - 1

    def _load(self, piece: int) -> Table:
        """Load a table; the last loaded one is cached."""
        place, table = self._loaded
        if place != piece:
            at, end = self._ends[piece], self._ends[piece + 1]
            data = bytearray()
            while at + len(data) < end:
                data += os.pread(self._descriptor, end - at - len(data), at + len(data))
            count, columns = pickle.loads(data)  # noqa: S301 - our own file, which has no name
            table = Table(count, columns)
            self._loaded = piece, table
        return table


def _gone(descriptor: int, share: Share, taken: list[int]) -> None:
    os.close(descriptor)
    share.give_back(taken[0])


def _no_room(why: str) -> Refused:
    return Refused(
        Reason.TOO_LARGE,
        what="rows to be fetched some at a time, or backwards",
        why=why,
        fix="Ask for fewer rows, or for all of them at once.",
    )


AHEAD = 4
"""Number of tables that may wait for the reader."""
_LOOK_SECONDS = 0.05

Take = Callable[[Table], None]


class _Left(Exception):
    """The reader has stopped."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows that `each` passes to a function, table after table; raises the errors of `each`.

    `look` is called while a reader is waited for, and raises to end the flow. `share` is for the
    file in which rows may be `stored`.
    """

    each: Callable[[Take], None]
    look: Callable[[], None]
    share: Share

    def into(self, take: Take) -> None:
        """Pass every table to `take`."""
        self.each(take)

    def gathered(self, most: int) -> Sequence[tuple[Any, ...]]:
        """Return all rows; raises `Refused` as soon as they have more than `most` values."""
        tables, cells = list[Table](), 0

        def take(table: Table) -> None:
            nonlocal cells
            cells += len(table) * len(table.columns)
            if cells > most:
                raise Refused(
                    Reason.TOO_LARGE,
                    what="values in its answer to be kept at once",
                    why=f"At most {most:,} are (max_result_cells); more can only be passed on.",
                    fix="Ask for fewer rows, or for a format that is written as they come, as CSV.",
                )
            tables.append(table)

        self.each(take)
        return concatenated(tables)

    def stored(self) -> Stored:
        """Write all rows to a temporary file and return them; raises `Refused` if there is
        no room.
        """
        with Storing(self.share) as storing:
            self.each(storing.add)
            return storing.rows()

    def tables(self) -> Iterator[Table]:
        """Yield the tables, read in a thread that is at most `AHEAD` tables ahead of the reader."""
        waiting: Queue[Table | None] = Queue(AHEAD)
        left, errors = Event(), list[BaseException]()

        def take(table: Table | None) -> None:
            while not left.is_set():
                if table is not None:
                    self.look()
                try:
                    waiting.put(table, timeout=_LOOK_SECONDS)
                except Full:
                    continue
                return
            raise _Left

        def read() -> None:
            try:
                self.each(take)
            except BaseException as error:  # noqa: BLE001 - raised to whoever reads
                errors.append(error)
            if not left.is_set():
                take(None)

        thread = Thread(target=read, name="dpsql-flow", daemon=True)
        thread.start()
        try:
            while (table := waiting.get()) is not None:
                yield table
        finally:
            left.set()
            thread.join()
        if errors:
            raise errors[0]
