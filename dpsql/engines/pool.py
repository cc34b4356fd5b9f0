"""A pool: several workers over the same data, so that a long statement blocks no other query."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any, Generic, Protocol, TypeVar

from dpsql.engines import Engine, Interrupted, Load, MadeTotals, ScratchTable, Stop, Unrun
from dpsql.engines.limited import in_a_queue
from dpsql.engines.parking import Parking
from dpsql.engines.process import SLICE_SECONDS
from dpsql.model.dataclass import dataclass
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact


class Worker(Protocol):
    """An object with calls that can be stopped."""

    def cancel(self) -> None:
        """Stop the running call, if there is one."""
        ...

    def close(self) -> None:
        """Stop the worker."""
        ...


M = TypeVar("M", bound=Worker)


@dataclass(eq=False, slots=True)
class Waiter:
    """A wait for a worker; compares by identity, even for the same owner.

    With `first`, something was charged already, so this wait goes first. `ring` is for waits
    without a thread: the worker stays reserved until the query returns.
    """

    owner: str
    pool: WorkerPool[Any] | None = None
    first: bool = False
    ring: Callable[[], None] | None = None
    worker: Any = None
    error: Exception | None = None

    def leave(self) -> None:
        """Stop waiting, and return a reserved worker."""
        assert self.pool is not None
        self.pool.withdraw(self)


class WorkerPool(Generic[M]):
    """A pool of at most `most` workers, started when needed, that take turns.

    The next turn goes to the owner with the fewest workers, then to the longest wait. If there are
    several `owners` (see `Stop`), none of them gets all workers, unless the pool `lends_last`: then
    one owner may have all of them while no other one waits.
    """

    lends_last = False

    def __init__(self, make: Callable[[], M], most: int, owners: int = 1) -> None:
        self._make, self._most = make, most
        self._share = most if owners <= 1 else max(1, most - 1)
        self._having: Counter[str] = Counter()
        self._waiting: list[Waiter] = []
        self._reserved: list[Waiter] = []
        self._first = make()
        self._all = [self._first]
        self._idle = [self._first]
        self._changed = Condition()
        self._closed = False
        _POOLS.add(self)

    def cancel(self) -> None:
        """Stop all running calls; safe in threads and signal handlers."""
        for worker in tuple(self._all):
            worker.cancel()

    def close(self) -> None:
        """Stop all workers; later calls raise `EngineFailed`."""
        with self._changed:
            self._closed = True
        for worker in self._all:
            worker.close()

    def load(self) -> dict[str, int]:
        """Numbers of workers, of busy workers, and of waiting calls."""
        with self._changed:
            busy, waiting = len(self._all) - len(self._idle), len(self._waiting)
            return {"workers": len(self._all), "busy": busy, "waiting": waiting}

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[M]:
        """Reserve a free worker for several calls."""
        owner = "" if stop is None else stop.owner
        worker = self._taken(owner, stop)
        try:
            yield worker
        finally:
            with self._changed:
                self._give_back(worker)
                self._having[owner] -= 1
                self._hand_out()

    def withdraw(self, waiter: Waiter) -> None:
        """Remove a wait, and release the worker that was reserved for it."""
        with self._changed:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            worker = self._collect(waiter)
            if worker is not None:
                self._give_back(worker)
                self._having[waiter.owner] -= 1
            self._hand_out()

    def _taken(self, owner: str, stop: Stop | None) -> M:
        """Return a free worker, or a new one.

        Raises `Interrupted` if `stop` ends the wait, and `Parked` if the wait has no thread.
        """
        parking = None if stop is None else stop.may_park
        waiter = self._waiter(owner, stop, parking)
        try:
            worker = self._awaited(waiter, stop)
        except BaseException:
            self.withdraw(waiter)
            raise
        if parking is not None and worker is None:
            parking.park(waiter)
        assert worker is not None
        if parking is not None and parking.place is waiter:
            parking.place = None
        return worker

    def _awaited(self, waiter: Waiter, stop: Stop | None) -> M | None:
        """Return the worker handed to a wait; None if no thread waits and none is free yet."""
        with self._changed:
            self._hand_out()
            while (worker := self._collect(waiter)) is None:
                if waiter.error is not None:
                    raise waiter.error
                if stop is not None and stop.requested:
                    raise Interrupted
                if waiter.ring is not None:
                    break
                self._changed.wait(SLICE_SECONDS)
        return worker

    def _waiter(self, owner: str, stop: Stop | None, parking: Parking | None) -> Waiter:
        """Return the query's present place in the queue, or else a new one at its end."""
        place = None if parking is None else parking.place
        if isinstance(place, Waiter) and place.pool is self:
            return place
        settled = stop is not None and stop.parking is not None and stop.parking.is_settled
        ring = None if parking is None else parking.ring
        waiter = Waiter(owner, self, settled, ring)
        with self._changed:
            self._waiting.append(waiter)
        return waiter

    def _hand_out(self) -> None:
        """Hand free workers to the next waits."""
        while (waiter := self._next()) is not None:
            try:
                worker = self._free() or self._reclaimed(waiter)
            except Exception as error:  # noqa: BLE001 - raised to whoever it is for
                waiter.error = error
            else:
                if worker is None:
                    break
                waiter.worker = worker
                self._having[waiter.owner] += 1
                if waiter.ring is not None:
                    self._reserved.append(waiter)
            self._waiting.remove(waiter)
            if waiter.ring is not None:
                waiter.ring()
        self._changed.notify_all()

    def _reclaimed(self, waiter: Waiter) -> M | None:
        """Take a worker that is reserved for a wait without a thread, for a charged query."""
        if not waiter.first or not self._reserved:
            return None
        other = self._reserved[-1]
        worker = self._collect(other)
        self._having[other.owner] -= 1
        self._waiting.insert(0, other)
        return worker

    def _collect(self, waiter: Waiter) -> M | None:
        """Return the worker handed to this wait, which is not reserved any more."""
        worker: M | None = waiter.worker
        waiter.worker = None
        if waiter in self._reserved:
            self._reserved.remove(waiter)
        return worker

    def _next(self) -> Waiter | None:
        """Return the next wait; an owner that has reached its share is left out."""
        having, everybody = self._having, {waiter.owner for waiter in self._waiting}
        share = self._most if self.lends_last and len(everybody) == 1 else self._share
        able = [w for w in self._waiting if not w.owner or having[w.owner] < share]
        return min(able, key=lambda w: (not w.first, having[w.owner]), default=None)

    def _free(self) -> M | None:
        """Return an idle worker, or a new one if the pool may grow."""
        if self._idle:
            return self._idle.pop()
        if len(self._all) == self._most or self._closed:
            return None
        worker = self._another()
        if worker is not None:
            self._all.append(worker)
        return worker

    def _another(self) -> M | None:
        """Start one more worker; None if that is not possible yet."""
        return self._make()

    def _give_back(self, worker: M) -> None:
        """Return a worker to the pool."""
        self._idle.append(worker)

    def _disown(self) -> None:
        """Reset the state after a fork, in the child: no worker is reserved, and no call waits."""
        self._changed, self._idle = Condition(), list(self._all)
        self._having.clear()
        self._waiting.clear()
        self._reserved.clear()


_POOLS: weakref.WeakSet[WorkerPool[Any]] = weakref.WeakSet()


def _disown_all() -> None:
    for pool in list(_POOLS):
        pool._disown()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_disown_all)


class EnginePool(WorkerPool[Engine]):
    """Engines that take turns; an `Engine` itself.

    A plan rests on facts about the data that the first engine accepted. The others start later and
    open that data, or fail. Each has the memory limit of one engine. An analyst who comes while
    another one has all engines waits for one question at most.
    """

    lends_last = True

    def schema(self) -> Schema:
        """Declared schema of the database, and the identity of its files, for all engines."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) == len(self._all))
            schema = self._first.schema()
            for engine in self._all[1:]:
                engine.follow(self._first.accepted)
        return schema

    @property
    def accepted(self) -> Any:
        """Identity of the opened data, for all engines."""
        return self._first.accepted

    def follow(self, accepted: Any) -> None:
        """Open only this data, on all engines."""
        for engine in self._all:
            engine.follow(accepted)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Check that a free engine could run a statement."""
        with self.taken(stop) as engine:
            engine.ready(data, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Bind statements on a free engine, like `Engine.bind`."""
        with self.taken(stop) as engine:
            engine.bind(statements, stop, data)

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
        """Exact integers per group from a free engine, like `Engine.aggregate`."""
        with self.taken(stop) as engine:
            return engine.aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)

    def drop_made(self, key: str) -> None:
        """Drop kept results on all engines."""
        for engine in tuple(self._all):
            engine.drop_made(key)

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query from a free engine, like `Engine.rows`."""
        with self.taken(stop) as engine:
            return engine.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """Rows of a query if there are few, from a free engine, like `Engine.few`."""
        with self.taken(stop) as engine:
            return engine.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Pass rows of a free engine in batches, like `Engine.each`."""
        with self.taken(stop) as engine:
            engine.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over given tables, from a free engine, like `Engine.evaluate`."""
        with self.taken(stop) as engine:
            return engine.evaluate(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """Rows of a scratch statement from a free engine, like `Engine.scratch`."""
        with self.taken(stop) as engine:
            return engine.scratch(sql, tables, stop, cells)

    def _taken(self, owner: str, stop: Stop | None) -> Engine:
        with in_a_queue():  # of statements, which may be long
            return super()._taken(owner, stop)

    def _another(self) -> Engine | None:
        if self._first.accepted is None:
            return None
        engine = self._make()
        engine.follow(self._first.accepted)
        return engine
