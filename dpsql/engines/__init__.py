"""Engines run rewritten queries and do nothing else.

There are two. The owner's database is read and never written. The scratch engine holds released
data only. One process may be both. An engine's failure carries no text and no value, because its
message may quote data.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dpsql.engines.parking import Parking
from dpsql.model.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dpsql.model.schema import Schema
    from dpsql.model.table import Table
    from dpsql.model.tree import SqlType, Value
    from dpsql.model.vocabulary import Exact


class EngineFailed(Exception):
    """The engine could not run the statement; the reason is never given."""


class TooMany(EngineFailed):
    """The statement has more values than the caller accepts."""


class Interrupted(Exception):
    """`cancel` stopped the statement."""


class TimedOut(Exception):
    """The statement ran longer than `limits.statement_seconds`."""


@dataclass(slots=True, eq=False)
class Ending:
    """Outcome of a query over private rows: `failed` is true if only a part has an answer."""

    failed: bool = False


class Pace(Protocol):
    """Decides when an analyst sees that a query over private rows has ended."""

    def admitted(self, stop: Stop) -> AbstractContextManager[None]:
        """Enclose a query that will be charged; raise `Refused` if no new query is admitted."""

    def paced(self, query_id: str, size: float | None) -> AbstractContextManager[Ending]:
        """Enclose the work on private rows; exit, also after an error, only when the end may be
        seen.

        `size` is the expected amount of work; see `dpsql.preparation.workload`.
        """


@dataclass(slots=True, eq=False)
class Stop:
    """A request to stop one query: any thread or signal handler sets `requested`, once.

    A query with a `pace` ends when the pace says so. Engines take turns among the `owner`s. Results
    that several statements share are kept under a secret `key`: see `keeping`. A query with a
    `parking` waits without a thread, until something is charged.

    >>> stop = Stop()
    >>> stop.requested = True
    """

    requested: bool = False
    pace: Pace | None = None
    owner: str = ""
    key: str = ""
    parking: Parking | None = None

    @property
    def may_park(self) -> Parking | None:
        """The place where the query waits without a thread; None if it may not wait so."""
        return None if self.parking is None or self.parking.is_settled else self.parking

    def settle(self) -> None:
        """Record that something is charged: the query cannot be restarted from its beginning."""
        if self.parking is not None:
            self.parking.is_settled = True


@dataclass(frozen=True, slots=True)
class ScratchTable:
    """A public table for one scratch statement: columns with their types, and rows."""

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    rows: Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable for one scratch statement, which reads it by `getvariable`: a text or several."""

    name: str
    value: str | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Beforehand:
    """A statement that runs before one scratch statement; a rollback undoes both."""

    sql: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeTotals:
    """Totals per privacy unit: named queries over private rows, and the `statement` over them. Each
    query may read the earlier ones.

    Queries with the same name have the same text and no parameters. With `more`, further statements
    of the same query will read the totals, which are kept until then: see `keeping`.
    """

    queries: tuple[tuple[str, str], ...]
    statement: str
    more: bool

    @property
    def whole(self) -> str:
        """The statement as one text, with the queries as common table expressions."""
        named = ", ".join(f"{name} AS ({query})" for name, query in self.queries)
        return f"WITH {named} SELECT * FROM ({self.statement})"


Load: TypeAlias = ScratchTable | Variable | Beforehand
"""Input of a scratch statement."""


@dataclass(frozen=True, slots=True)
class Unrun:
    """A statement to bind: it reads the database's tables and `tables`; their rows are ignored.

    If `scratch`, it reads `tables` alone, in the SQL of that engine. `shape` gives the numbers of
    key columns and of integer columns, as in `OwnersDatabase.aggregate`.
    """

    sql: str
    tables: tuple[ScratchTable, ...] = ()
    shape: tuple[int, int] | None = None
    scratch: bool = False


class _Running(Protocol):
    """Methods that both engines have.

    Every method but `cancel` and `close` raises `EngineFailed`, `Interrupted`, `TimedOut`, or
    `errors.Unreachable` if the owner's database cannot be opened. A call with a stopped `stop`
    raises `Interrupted`; other calls continue. No statement exceeds the limits on time and memory.
    """

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Check that a statement over this data could run now, without reading a row.

        Starts a stopped engine again.
        """
        ...

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Check that each statement has names, types and functions that the engine knows.

        Statements are bound on an empty twin of the database. Nothing depends on its data, not even
        the engine's plan. Raises `EngineFailed` if binding fails.
        """
        ...

    def cancel(self) -> None:
        """Stop the running statement, if any; safe in a signal handler."""
        ...

    def close(self) -> None:
        """Stop the engine."""
        ...


class OwnersDatabase(_Running, Protocol):
    """The owner's database, read only; each call sees one state of the data.

    `data` is an identity that `schema` returned. A call with `data` raises `errors.DataChanged` if
    the engine has opened other data, or if the data was changed in place. Replacing the files on
    disk does not matter.
    """

    @property
    def accepted(self) -> Any:
        """Identity of the data that the engine opened or will open; None if it may open any."""
        ...

    def follow(self, accepted: Any) -> None:
        """Open only this data from now on; another engine of this kind accepted it."""
        ...

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[OwnersDatabase]:
        """Reserve one engine for several calls of this thread; other threads wait until the
        exit.
        """
        ...

    def schema(self) -> Schema:
        """Declared schema of the database, and the identity of its present data."""
        ...

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
        """Exact integers per group: `keys` key columns, then `parts` integer columns.

        `sql` may read `tables` and the integer `$sampling_key` (below 2^128). NULL parts become 0.
        A group is left out if no value of ours equals its key, so that no two keys are the same.
        The engine may run the statement over `totals` instead.
        """
        ...

    def drop_made(self, key: str) -> None:
        """Drop the results that are kept under this key."""
        ...

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over public tables, or of the owner's own check."""
        ...

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """Rows of the query, or None if they have more than `cells` values; then none is kept."""
        ...

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Pass the rows to `take` in batches; the time that `take` needs does not count.

        Raises the errors of `take`; then no more is read.
        """
        ...

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over these public tables alone, computed by this database's own
        functions.
        """
        ...


class Scratch(_Running, Protocol):
    """An engine without data: it computes over released data."""

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[Scratch]:
        """Reserve one engine for several calls, like `OwnersDatabase.taken`."""
        ...

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows of a query over the given tables alone; nothing is kept afterwards.

        Raises `TooMany` if they have more values than `cells`; then none is kept.
        """
        ...


class Engine(OwnersDatabase, Scratch, Protocol):
    """The owner's database and the scratch engine together, because a query needs both."""

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[Engine]:
        """Reserve one engine for several calls, like `OwnersDatabase.taken`."""
        ...


@contextmanager
def keeping(engine: OwnersDatabase, stop: Stop) -> Iterator[None]:
    """Let later statements of one query read the results of earlier ones.

    Results are kept for this query alone, and are dropped at the exit.
    """
    stop.key = os.urandom(16).hex()
    try:
        yield
    finally:
        key, stop.key = stop.key, ""
        engine.drop_made(key)


def admitted(stop: Stop) -> AbstractContextManager[None]:
    """Enclose a query that will be charged; its pace, if any, may refuse it."""
    return nullcontext() if stop.pace is None else stop.pace.admitted(stop)


@contextmanager
def paced(stop: Stop, query_id: str, size: float | None) -> Iterator[Ending]:
    """Enclose all work on private rows of a query, on an engine that it has `taken`.

    The engine stays reserved until the end may be seen; otherwise a waiting client could see how
    long the query took.
    """
    if stop.pace is None:
        yield Ending()
        return
    with stop.pace.paced(query_id, size) as ending:
        yield ending
    if stop.requested:  # as if it had not ended: whether it had must not be seen
        raise Interrupted
