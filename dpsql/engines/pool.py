"""A pool: several workers over the same data, so that one long statement holds up nobody else."""

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
    """What can be stopped."""

    def cancel(self) -> None:
        """Stop the running call, if there is one."""
        ...

    def close(self) -> None:
        """Stop the worker."""
        ...


M = TypeVar("M", bound=Worker)


@dataclass(eq=False, slots=True)
class Waiter:
    """Somebody who waits for a worker, and is no other who waits for the same owner.

    Something was charged already for who goes `first`. `ring` is for those who wait without a
    thread: their worker is reserved until they come for it.
    """

    owner: str
    pool: WorkerPool[Any] | None = None
    first: bool = False
    ring: Callable[[], None] | None = None
    worker: Any = None
    error: Exception | None = None

    def leave(self) -> None:
        """Wait no longer, and give back a worker that was reserved."""
        assert self.pool is not None
        self.pool.withdraw(self)


class WorkerPool(Generic[M]):
    """At most `most` workers, started as they are needed, that take turns.

    The next turn is of who has the fewest, and of them who waited longest. Where there are several
    `owners` of what is asked (see `Stop`), none of them has all workers.
    """

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
        """Stop all that is running; safe in threads and signal handlers."""
        for worker in tuple(self._all):
            worker.cancel()

    def close(self) -> None:
        """Stop all workers; later calls raise `EngineFailed`."""
        with self._changed:
            self._closed = True
        for worker in self._all:
            worker.close()

    def load(self) -> dict[str, int]:
        """How many workers there are, how many of them are busy, and how many calls wait."""
        with self._changed:
            busy, waiting = len(self._all) - len(self._idle), len(self._waiting)
            return {"workers": len(self._all), "busy": busy, "waiting": waiting}

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[M]:
        """Whichever worker is free, for several calls."""
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
        """Forget who waits, and let others have what was reserved."""
        with self._changed:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            worker = self._collect(waiter)
            if worker is not None:
                self._give_back(worker)
                self._having[waiter.owner] -= 1
            self._hand_out()

    def _taken(self, owner: str, stop: Stop | None) -> M:
        """A free worker, or a new one; raises `Interrupted` where the wait is ended by `stop`, and
        `Parked` where it is no thread's.
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
        """The worker that somebody is handed; None where no thread waits, and there is none yet."""
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
        """Whoever waits, in the place that it has in the queue, or else in a new one."""
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
        """Give free workers to those whose turn it is."""
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
        """A worker that is reserved for somebody who has no thread, for who holds one."""
        if not waiter.first or not self._reserved:
            return None
        other = self._reserved[-1]
        worker = self._collect(other)
        self._having[other.owner] -= 1
        self._waiting.insert(0, other)
        return worker

    def _collect(self, waiter: Waiter) -> M | None:
        """What was handed out to somebody, who has it from now on."""
        worker: M | None = waiter.worker
        waiter.worker = None
        if waiter in self._reserved:
            self._reserved.remove(waiter)
        return worker

    def _next(self) -> Waiter | None:
        """Whose turn is the next; who reached the share of an owner has none."""
        having = self._having
        able = [w for w in self._waiting if not w.owner or having[w.owner] < self._share]
        return min(able, key=lambda w: (not w.first, having[w.owner]), default=None)

    def _free(self) -> M | None:
        """An idle worker, or a new one if there may be more."""
        if self._idle:
            return self._idle.pop()
        if len(self._all) == self._most or self._closed:
            return None
        worker = self._another()
        if worker is not None:
            self._all.append(worker)
        return worker

    def _another(self) -> M | None:
        """One more worker; None where there can be none yet."""
        return self._make()

    def _give_back(self, worker: M) -> None:
        """Let others have a worker."""
        self._idle.append(worker)

    def _disown(self) -> None:
        """After a fork, in the child: nobody has a worker, and nobody waits for one."""
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

    A plan rests on facts about the data that the first engine accepted, so the others start after
    it and open that data or fail. Each has the memory limit of one.
    """

    def schema(self) -> Schema:
        """What the database declares, and the identity of its files: for all engines."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) == len(self._all))
            schema = self._first.schema()
            for engine in self._all[1:]:
                engine.follow(self._first.accepted)
        return schema

    @property
    def accepted(self) -> Any:
        """As `Engine.accepted`, of all engines."""
        return self._first.accepted

    def follow(self, accepted: Any) -> None:
        """As `Engine.follow`, of all engines."""
        for engine in self._all:
            engine.follow(accepted)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """As `Engine.ready`, of the engine that is the next to run a statement."""
        with self.taken(stop) as engine:
            engine.ready(data, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """As `Engine.bind`, on whichever engine is free."""
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
        """As `Engine.aggregate`, on whichever engine is free."""
        with self.taken(stop) as engine:
            return engine.aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)

    def drop_made(self, key: str) -> None:
        """As `Engine.drop_made`, on all engines."""
        for engine in tuple(self._all):
            engine.drop_made(key)

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """As `Engine.rows`, on whichever engine is free."""
        with self.taken(stop) as engine:
            return engine.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """As `Engine.few`, on whichever engine is free."""
        with self.taken(stop) as engine:
            return engine.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """As `Engine.each`, on whichever engine is free."""
        with self.taken(stop) as engine:
            engine.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """As `Engine.evaluate`, on whichever engine is free."""
        with self.taken(stop) as engine:
            return engine.evaluate(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        """As `Engine.scratch`, on whichever engine is free."""
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
