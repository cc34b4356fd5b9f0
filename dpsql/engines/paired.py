"""Two engines as one: the owner's database, and a separate scratch engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpsql.engines import Load, MadeTotals, OwnersDatabase, Scratch, ScratchTable, Stop, Unrun
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact


class Paired:
    """An `Engine` that sends each statement to the engine that its SQL is for."""

    def __init__(self, database: OwnersDatabase, scratch: Scratch) -> None:
        self._database, self._scratch = database, scratch

    def schema(self) -> Schema:
        """Declared schema, like `OwnersDatabase.schema`."""
        return self._database.schema()

    @property
    def accepted(self) -> Any:
        """Identity of the opened data, like `OwnersDatabase.accepted`."""
        return self._database.accepted

    def follow(self, accepted: Any) -> None:
        """Open only this data, like `OwnersDatabase.follow`."""
        self._database.follow(accepted)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Check that both engines could run a statement."""
        self._database.ready(data, stop)
        self._scratch.ready(None, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Bind each statement on the engine that would run it."""
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
        """Exact integers per group, like `OwnersDatabase.aggregate`."""
        return self._database.aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)

    def drop_made(self, key: str) -> None:
        """Drop kept results, like `OwnersDatabase.drop_made`."""
        self._database.drop_made(key)

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query, like `OwnersDatabase.rows`."""
        return self._database.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """Rows of a query if there are few, like `OwnersDatabase.few`."""
        return self._database.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Pass rows in batches, like `OwnersDatabase.each`."""
        self._database.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over given tables, like `OwnersDatabase.evaluate`."""
        return self._database.evaluate(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows of a scratch statement, like `Scratch.scratch`."""
        return self._scratch.scratch(sql, tables, stop, cells)

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[Paired]:
        """Reserve both engines for several calls."""
        with self._database.taken(stop) as database, self._scratch.taken(stop) as scratch:
            yield Paired(database, scratch)

    def cancel(self) -> None:
        """Stop the running statements of both."""
        self._database.cancel()
        self._scratch.cancel()

    def close(self) -> None:
        """Stop both."""
        self._database.close()
        self._scratch.close()
