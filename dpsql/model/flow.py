"""Flow: rows of public data that are read as they are used, so that they are never all in memory.

Whoever reads slowly makes the engine wait. A flow is read once: pushed `into` a function of this
thread, pulled as `tables` by any thread, `stored` in a file, or `kept` if there are not too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event, Thread
from typing import Any

from dpsql.model.errors import Reason, Refused
from dpsql.model.stored import Share, Stored, Storing
from dpsql.model.table import Table, concatenated

AHEAD = 4
"""Tables that may wait for whoever reads."""
_LOOK_SECONDS = 0.05

Take = Callable[[Table], None]


class _Left(Exception):
    """Nobody reads any more."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows that `each` hands over, table after table; raises what `each` raises.

    `look`, called while a reader is waited for, raises where that should end. `share` is for the
    file in which they may be `stored`.
    """

    each: Callable[[Take], None]
    look: Callable[[], None]
    share: Share

    def into(self, take: Take) -> None:
        """Hand every table to `take`."""
        self.each(take)

    def kept(self, most: int) -> Sequence[tuple[Any, ...]]:
        """All rows; raises `Refused` as soon as they have more than `most` values."""
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
        """All rows, in a temporary file; raises `Refused` where that has no room."""
        with Storing(self.share) as storing:
            self.each(storing.add)
            return storing.rows()

    def tables(self) -> Iterator[Table]:
        """The tables, read in a thread that is at most `AHEAD` of whoever asks for them."""
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
