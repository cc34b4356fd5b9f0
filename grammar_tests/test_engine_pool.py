"""Several workers: statements side by side, the same data for all, and every way to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event
from typing import Any, ClassVar

import pytest

from dpsql.engines import EngineFailed, Interrupted, Load, ScratchTable, Stop, TimedOut
from dpsql.engines.duckdb import duckdb_engine
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.limited import limited, tick
from dpsql.engines.pool import EnginePool
from dpsql.model.errors import Unreachable
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.engine_kit import LONG, SMALL, folder
from grammar_tests.ledger_kit import exit_code, forked
from grammar_tests.proxy_kit import request, shop
from grammar_tests.waiting import until

__all__ = ["folder"]


class Fake:
    """An engine whose statements are barriers to wait at."""

    def __init__(self) -> None:
        self.accepted: Any = None
        self.followed: list[object] = []
        self.cancelled = self.closed = 0

    def schema(self) -> Schema:
        self.accepted = f"version {int(str(self.accepted or 'version 0')[8:]) + 1}"
        return Schema((), str(self.accepted))

    def follow(self, accepted: Any) -> None:
        self.followed.append(accepted)
        self.accepted = accepted

    def rows(
        self, sql: Any, stop: Stop | None = None, _data: str | None = None
    ) -> list[tuple[Any, ...]]:
        if self.closed:
            raise EngineFailed
        sql(stop)
        return [(self,)]

    def few(self, sql: Any, cells: int, stop: Stop | None = None) -> Table | None:
        raise NotImplementedError

    def each(self, sql: Any, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        raise NotImplementedError

    def evaluate(
        self, sql: Any, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> list[tuple[Any, ...]]:
        return self.scratch(sql, tables, stop)

    def scratch(
        self,
        sql: Any,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        _cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        return [(self, *tables), *self.rows(sql, stop)]

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        if self.closed or data != self.accepted:
            raise EngineFailed
        self.rows(lambda _stop: None, stop)

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[Fake]:  # noqa: ARG002
        yield self

    def bind(self, _statements: Any, stop: Stop | None = None, _data: str | None = None) -> None:
        self.rows(lambda _stop: None, stop)

    def aggregate(self, sql: Any, *_others: Any) -> Exact:
        sql(None)
        return Exact([], [])

    def drop_made(self, key: str) -> None:
        """There is nothing to drop."""

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed += 1


class Made(list[Fake]):
    """Every engine that a pool has started."""

    def __call__(self) -> Fake:
        self.append(Fake())
        return self[-1]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def nothing(_stop: Stop | None = None) -> None:
    """A statement that takes no time."""


def run(pool: EnginePool, statement: Any, stop: Stop | None = None) -> Sequence[tuple[Any, ...]]:
    return pool.rows(statement, stop)


def pool_of(most: int) -> tuple[EnginePool, Made]:
    made = Made()
    pool = EnginePool(made, most)
    pool.schema()
    return pool, made


def test_statements_run_side_by_side(threads: ThreadPoolExecutor) -> None:
    pool, made = pool_of(3)
    together = Barrier(3)
    runs = [threads.submit(run, pool, lambda _stop: together.wait(30)) for _ in range(3)]
    assert {done.result(60)[0][0] for done in runs} == set(made)
    assert len(made) == 3


def test_an_engine_is_started_when_it_is_needed_and_not_before() -> None:
    pool, made = pool_of(3)
    for _ in range(5):
        assert run(pool, nothing)[0][0] is made[0]
    anything: Any = nothing
    table = ScratchTable("t", (), ())
    assert pool.scratch(anything, [table])[0] == (made[0], table)
    pool.aggregate(anything, 0, 0, 0)
    assert len(made) == 1


def test_who_waits_can_be_stopped_and_the_others_go_on(threads: ThreadPoolExecutor) -> None:
    pool, _made = pool_of(1)
    inside, leave, stop = Event(), Event(), Stop()

    def slow(_stop: Stop | None) -> None:
        inside.set()
        assert leave.wait(30)

    first = threads.submit(run, pool, slow)
    assert inside.wait(30)
    second = threads.submit(run, pool, nothing, stop)
    stop.requested = True
    with pytest.raises(Interrupted):
        second.result(30)
    third = threads.submit(run, pool, nothing)
    assert not first.done()
    leave.set()
    assert first.result(30) == third.result(30)


def test_who_waited_longest_is_next_and_nobody_overtakes(threads: ThreadPoolExecutor) -> None:
    """Not even who just had the engine, is awake and asks again; all ask for one owner."""
    pool, _made = pool_of(1)
    order, inside = list[str](), Event()

    def wait_for(waiting: int) -> None:
        until(lambda: pool.load()["waiting"] == waiting)

    def again() -> None:
        with pool.taken():
            inside.set()
            wait_for(2)
        run(pool, lambda _stop: order.append("again"))

    asked: list[Future[Any]] = [threads.submit(again)]
    assert inside.wait(30)
    for n, name in enumerate(("first", "second")):
        wait_for(n)
        asked.append(threads.submit(run, pool, lambda _stop, name=name: order.append(name)))
    for done in asked:
        done.result(60)
    assert order == ["first", "second", "again"]


def test_waiting_for_the_statements_of_others_is_no_work(threads: ThreadPoolExecutor) -> None:
    """Nor is it of a step within a step; what comes behind it is."""
    pool, _made = pool_of(1)
    inside, now = Event(), [0.0]

    def takes_long(_stop: Stop | None) -> None:
        inside.set()
        until(lambda: pool.load()["waiting"])
        now[0] += 100

    first = threads.submit(run, pool, takes_long)
    assert inside.wait(30)
    with limited(Stop(), 5, lambda: now[0]):
        with limited(Stop(), 4, lambda: now[0]):
            run(pool, nothing)
            tick()
        tick()
        now[0] += 6
        with pytest.raises(TimedOut):
            tick()
    first.result(30)


def test_a_failure_gives_the_engine_back() -> None:
    def fails(_stop: Stop | None) -> None:
        raise EngineFailed

    pool, made = pool_of(1)
    with pytest.raises(EngineFailed):
        run(pool, fails)
    assert run(pool, nothing) == [(made[0],)]


def test_all_have_the_data_that_the_first_accepted(threads: ThreadPoolExecutor) -> None:
    pool, made = pool_of(2)
    together = Barrier(2)
    for done in [threads.submit(run, pool, lambda _stop: together.wait(30)) for _ in range(2)]:
        done.result(30)
    assert made[1].followed == ["version 1"]
    assert pool.schema().identity == "version 2"
    assert made[1].followed == ["version 1", "version 2"]


def test_nothing_is_started_before_the_first_accepted_its_data() -> None:
    made, stop = Made(), Stop()
    pool = EnginePool(made, 2)

    def second(_stop: Stop | None) -> None:
        stop.requested = True
        with pytest.raises(Interrupted):
            run(pool, nothing, stop)

    run(pool, second)
    assert len(made) == 1


def test_cancel_and_close_reach_all(threads: ThreadPoolExecutor) -> None:
    pool, made = pool_of(2)
    together = Barrier(2)
    for done in [threads.submit(run, pool, lambda _stop: together.wait(30)) for _ in range(2)]:
        done.result(30)
    pool.cancel()
    pool.close()
    assert [(engine.cancelled, engine.closed) for engine in made] == [(1, 1), (1, 1)]
    with pytest.raises(EngineFailed):
        run(pool, nothing)


# --- the real engine ---


@pytest.mark.full("starts processes")
def test_a_long_statement_holds_up_nobody(folder: Path, threads: ThreadPoolExecutor) -> None:
    database = Database("duckdb", str(folder / "shop.duckdb"))
    pool = EnginePool(lambda: DuckDBEngine(database, SMALL), 2)
    pool.schema()
    stop = Stop()
    long = threads.submit(pool.rows, LONG, stop)
    until(lambda: not pool._idle)
    assert pool.rows("SELECT count(*) FROM people") == [(10,)]
    assert not long.done()
    stop.requested = True
    with pytest.raises(Interrupted):
        long.result(60)
    assert pool.rows("SELECT 1") == [(1,)]
    pool.close()


@pytest.mark.full("opens a proxy for each item")
def test_a_later_engine_refuses_data_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    formats = (("t", FileFormat((FileColumn("a", "BIGINT"),))),)
    database = Database("duckdb", None, (("t", str(path)),), formats=formats)
    pool = EnginePool(lambda: DuckDBEngine(database, SMALL), 2)
    pool.schema()
    with pool.taken():
        path.write_text("a\n1\n2\n")
        with pytest.raises(Unreachable, match="changed"):
            pool.rows("SELECT sum(a) FROM t")
    pool.schema()
    assert pool.rows("SELECT sum(a) FROM t") == [(3,)]
    pool.close()


# --- the statements of one proxy ---


class Meeting(DuckDBEngine):
    """An engine whose private statements wait for one another, but not for long."""

    together = Barrier(2)
    seconds = 60.0
    met: ClassVar[list[bool]] = []

    def aggregate(self, *asked: Any, **also: Any) -> Exact:
        try:
            self.together.wait(self.seconds)
            self.met.append(True)
        except BrokenBarrierError:
            self.met.append(False)
        return super().aggregate(*asked, **also)


def asked_by_two(proxy: Proxy, threads: ThreadPoolExecutor) -> list[bool]:
    """Whether each of two statements met the other; they are charged for one by one."""
    asked = [request(f"SELECT COUNT(*) FROM customers WHERE age > {n}") for n in range(2)]
    with proxy:
        receipts = [answer.receipt for answer in threads.map(proxy.ask, asked)]
        charged = [receipt.charged.amount for receipt in receipts if receipt is not None]
        ((_budget, spent, _limit),) = proxy.budgets()
    assert len(charged) == 2
    assert spent.amount == sum(charged) > max(charged)
    return Meeting.met


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> type[Meeting]:
    monkeypatch.setattr(Meeting, "together", Barrier(2))
    monkeypatch.setattr(Meeting, "met", [])
    return Meeting


@pytest.mark.full("starts processes")
def test_statements_of_one_proxy_run_side_by_side(
    tmp_path: Path,
    threads: ThreadPoolExecutor,
    meeting: type[Meeting],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duckdb_engine, "DuckDBEngine", meeting)
    assert asked_by_two(Proxy.open(str(shop(tmp_path))), threads) == [True, True]


def test_statements_that_take_turns_would_be_seen(
    tmp_path: Path,
    threads: ThreadPoolExecutor,
    meeting: type[Meeting],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meeting, "seconds", 0.1)
    draft = load(str(shop(tmp_path)))
    alone = Proxy.over(draft, meeting(draft.database, draft.limits))
    assert asked_by_two(alone, threads) == [False, False]


def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    pool = EnginePool(Fake, 1)
    with pool.taken():
        assert exit_code(forked(lambda: run(pool, nothing))) == 0
