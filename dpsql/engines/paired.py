"""Two engines as one: the owner's database, and scratch that is no part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpsql.engines import Load, MadeTotals, OwnersDatabase, Scratch, ScratchTable, Stop, Unrun
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact


class Paired:
    """An `Engine`: each statement goes where its SQL belongs, and nothing from one to the other."""

    def __init__(self, database: OwnersDatabase, scratch: Scratch) -> None:
        self._database, self._scratch = database, scratch

    def schema(self) -> Schema:
        """As `OwnersDatabase.schema`."""
        return self._database.schema()

    @property
    def accepted(self) -> Any:
        """As `OwnersDatabase.accepted`."""
        return self._database.accepted

    def follow(self, accepted: Any) -> None:
        """As `OwnersDatabase.follow`."""
        self._database.follow(accepted)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Return where both could run a statement."""
        self._database.ready(data, stop)
        self._scratch.ready(None, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Return where each statement binds on the engine that would run it."""
        self._database.bind([s for s in statements if not s.scratch], stop, data)
        self._scratch.bind([s for s in statements if s.scratch], stop)

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
        stop: Stop | None = None,
        data: str | None = None,
        totals: MadeTotals | None = None,
    ) -> Exact:
        """As `OwnersDatabase.aggregate`."""
        return self._database.aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)

    def drop_made(self, key: str) -> None:
        """As `OwnersDatabase.drop_made`."""
        self._database.drop_made(key)

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """As `OwnersDatabase.rows`."""
        return self._database.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """As `OwnersDatabase.few`."""
        return self._database.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """As `OwnersDatabase.each`."""
        self._database.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """As `OwnersDatabase.evaluate`."""
        return self._database.evaluate(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """As `Scratch.scratch`."""
        return self._scratch.scratch(sql, tables, stop, cells)

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[Paired]:
        """Both for several calls."""
        with self._database.taken(stop) as database, self._scratch.taken(stop) as scratch:
            yield Paired(database, scratch)

    def cancel(self) -> None:
        """Stop whichever runs."""
        self._database.cancel()
        self._scratch.cancel()

    def close(self) -> None:
        """Stop both."""
        self._database.close()
        self._scratch.close()
