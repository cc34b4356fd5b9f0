"""Engines: run a rewritten query, and nothing else.

There are two: the owner's database, which is read and never written, and scratch, which holds
nothing but what is released. One process may be both. An engine's failure carries no text and no
value: what went wrong inside may quote data.
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
    """The engine could not run the statement; never says why."""


class TooMany(EngineFailed):
    """The statement has more values than may be kept."""


class Interrupted(Exception):
    """`cancel` stopped the statement."""


class TimedOut(Exception):
    """The statement ran longer than `limits.statement_seconds`."""


@dataclass(slots=True, eq=False)
class Ending:
    """How a question over private rows ended: `failed` where it has an answer of a part alone."""

    failed: bool = False


class Pace(Protocol):
    """When an analyst sees that a question over private rows has ended."""

    def admitted(self, stop: Stop) -> AbstractContextManager[None]:
        """Around a question that is to be charged; raises `Refused` where nothing new may be."""

    def paced(self, query_id: str, size: float | None) -> AbstractContextManager[Ending]:
        """Around what it does with private rows: ends, also by an error, when that may be seen.

        `size` is what it is expected to take; see `dpsql.preparation.workload`.
        """


@dataclass(slots=True, eq=False)
class Stop:
    """The wish to stop one question: `requested` is set by any thread or signal handler, once.

    A question with a `pace` ends when that says so. Engines take turns among the `owner`s. What is
    made for several statements is kept under a secret `key`: see `keeping`. A question that has a
    `parking` waits for others without a thread, until something is charged.

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
        """How it waits without a thread, if it may."""
        return None if self.parking is None or self.parking.is_settled else self.parking

    def settle(self) -> None:
        """Something is charged now: the question cannot be asked again from its beginning."""
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
    """A variable for one scratch statement, which reads it by `getvariable`: a text, or texts."""

    name: str
    value: str | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Beforehand:
    """A statement before one scratch statement; in a transaction it is undone with it."""

    sql: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeTotals:
    """Totals of units, which queries over private rows make one after another, by their names, and
    the `statement` over them.

    Of equal names the queries are the same text, and have no parameters. With `more` statements of
    the same question about them to come, they are kept until then: see `keeping`.
    """

    queries: tuple[tuple[str, str], ...]
    statement: str
    more: bool

    @property
    def whole(self) -> str:
        """The statement by itself."""
        named = ", ".join(f"{name} AS ({query})" for name, query in self.queries)
        return f"WITH {named} SELECT * FROM ({self.statement})"


Load: TypeAlias = ScratchTable | Variable | Beforehand
"""What a scratch statement may read."""


@dataclass(frozen=True, slots=True)
class Unrun:
    """A statement to bind: it reads the database's tables and `tables`, of which no row matters.

    One for `scratch` reads `tables` alone, in the SQL of that engine. With `shape` it has so many
    key columns and then so many integers, as `OwnersDatabase.aggregate` asks.
    """

    sql: str
    tables: tuple[ScratchTable, ...] = ()
    shape: tuple[int, int] | None = None
    scratch: bool = False


class _Running(Protocol):
    """What both engines do.

    Every method but `cancel` and `close` raises `EngineFailed`, `Interrupted`, `TimedOut`, or
    `errors.Unreachable` where the owner's database cannot be opened. A call that is to `stop` ends
    with `Interrupted`, other calls go on. None takes more time and memory than its limits say,
    whatever it is asked.
    """

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Return where a statement over this data could run now; no row is read.

        What was stopped is started again.
        """
        ...

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Return where each statement has names, types and functions that the engine knows.

        They are bound on an empty twin of the database: nothing depends on its data, not even how
        an engine would run them. Otherwise raises `EngineFailed`.
        """
        ...

    def cancel(self) -> None:
        """Stop the running statement, if there is one; safe in a signal handler."""
        ...

    def close(self) -> None:
        """Stop the engine."""
        ...


class OwnersDatabase(_Running, Protocol):
    """The owner's database, read only; each call sees one state of the data.

    A call that names its `data`, by the identity that `schema` gave, raises `errors.DataChanged`
    where the engine has not opened that data, or it was changed in place; that others were put
    there meanwhile is nothing to it.
    """

    @property
    def accepted(self) -> Any:
        """What identifies the data that it opened or will open; None while any will do."""
        ...

    def follow(self, accepted: Any) -> None:
        """Open no other data than this from now on, which another engine of its kind accepted."""
        ...

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[OwnersDatabase]:
        """One engine for several calls of this thread, kept from all others until the end."""
        ...

    def schema(self) -> Schema:
        """What the database declares, and the identity of its data as it now is."""
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

        `sql` may read `tables` and the whole number `$sampling_key` (below 2^128). NULL parts are
        0. A group whose key no value of ours equals is left out, so that no two keys are the same.
        An engine may run the statement over `totals` instead.
        """
        ...

    def drop_made(self, key: str) -> None:
        """Drop what was made under this key, wherever it is kept."""
        ...

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over public tables, or of the owner's own check."""
        ...

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """As `rows`; None where they have more than so many values, of which none is kept."""
        ...

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Hand the rows to `take`, some at a time: the engine waits for it, its time does not run.

        Raises what `take` raises; nothing more is read then.
        """
        ...

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over these public tables alone, by this database's own functions."""
        ...


class Scratch(_Running, Protocol):
    """An engine without data: it computes what is asked of what was released."""

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[Scratch]:
        """As `OwnersDatabase.taken`."""
        ...

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows of a query over what is given alone; nothing of it survives.

        Raises `TooMany` where they have more values than `cells`, of which none is kept then.
        """
        ...


class Engine(OwnersDatabase, Scratch, Protocol):
    """The owner's database and scratch, since a question needs both."""

    def taken(self, stop: Stop | None = None) -> AbstractContextManager[Engine]:
        """As `OwnersDatabase.taken`."""
        ...


@contextmanager
def keeping(engine: OwnersDatabase, stop: Stop) -> Iterator[None]:
    """Around the statements of one question: what one of them makes, later ones may read.

    It is kept for nobody else, and however this ends it is dropped.
    """
    stop.key = os.urandom(16).hex()
    try:
        yield
    finally:
        key, stop.key = stop.key, ""
        engine.drop_made(key)


def admitted(stop: Stop) -> AbstractContextManager[None]:
    """Around a question that is to be charged: its pace may refuse it, if it has one."""
    return nullcontext() if stop.pace is None else stop.pace.admitted(stop)


@contextmanager
def paced(stop: Stop, query_id: str, size: float | None) -> Iterator[Ending]:
    """Around all that a question does with private rows, on an engine that it has `taken`.

    That is for nobody else until the end may be seen: whoever waits would see how long it took.
    """
    if stop.pace is None:
        yield Ending()
        return
    with stop.pace.paced(query_id, size) as ending:
        yield ending
    if stop.requested:  # as if it had not ended: whether it had must not be seen
        raise Interrupted
