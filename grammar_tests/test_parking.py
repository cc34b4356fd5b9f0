"""Questions that wait for others hold no thread, keep their places, and are charged as ever."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest

from dpsql.engines import Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.parking import Line, Parked, Parking
from dpsql.engines.pool import EnginePool, Waiter, WorkerPool
from dpsql.interfaces.pgwire import server as server_module
from dpsql.interfaces.pgwire.answers import Answers
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.outcomes import Outcome
from dpsql.interfaces.pgwire.present import engine_load
from dpsql.interfaces.pgwire.session import Session
from dpsql.interfaces.pgwire.settings import SessionSettings
from dpsql.interfaces.pgwire.statement_runner import Runner
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.model.errors import Unreachable
from dpsql.proxy import Proxy
from dpsql.vault.in_flight import InFlight
from grammar_tests.proxy_kit import shop
from grammar_tests.test_contribution_bounds import TOTAL, crowd
from grammar_tests.waiting import until
from grammar_tests.wire_kit import Door, door, messages

THREADS = 3
WAITING = 8
WORKERS = 2
CACHED = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"


# --- places in a pool ------------------------------------------------------------------------


class Idle:
    """An engine that does nothing."""

    accepted = "data"

    def follow(self, accepted: object) -> None:
        pass


class Rung(list[str]):
    """Parkings that say when they ring."""

    def of(self, name: str) -> Stop:
        return Stop(owner=name, parking=Parking(lambda: self.append(name)))


def pool_of(most: int = 1) -> EnginePool:
    return EnginePool(Idle, most, owners=1)  # type: ignore[arg-type]


def park(pool: EnginePool, stop: Stop) -> None:
    with pytest.raises(Parked), pool.taken(stop):
        raise AssertionError("nobody gave a worker back")


def test_who_is_parked_keeps_its_place_and_is_rung_once() -> None:
    pool, rung = pool_of(), Rung()
    ana, bob = rung.of("ana"), rung.of("bob")
    with pool.taken():
        park(pool, ana)
        park(pool, bob)
        park(pool, ana)
        assert pool.load()["waiting"] == 2
    assert rung == ["ana"]
    park(pool, bob)
    with pool.taken(ana):
        assert pool.load() == {"workers": 1, "busy": 1, "waiting": 1}
    assert rung == ["ana", "bob"]
    with pool.taken(bob):
        assert pool.load() == {"workers": 1, "busy": 1, "waiting": 0}


def test_who_leaves_gives_back_what_was_reserved() -> None:
    pool, rung = pool_of(), Rung()
    ana, bob = rung.of("ana"), rung.of("bob")
    with pool.taken():
        park(pool, ana)
        park(pool, bob)
    assert ana.parking is not None
    ana.parking.leave()
    assert rung == ["ana", "bob"]
    assert bob.parking is not None
    bob.parking.leave()
    assert pool.load() == {"workers": 1, "busy": 0, "waiting": 0}


def test_who_was_charged_waits_in_a_thread_and_goes_first() -> None:
    pool, rung = pool_of(), Rung()
    ana, bob = rung.of("ana"), rung.of("bob")
    with pool.taken():
        park(pool, ana)
    bob.settle()
    with pool.taken(bob):  # though the worker is reserved for ana, who has no thread
        assert pool.load() == {"workers": 1, "busy": 1, "waiting": 1}
        park(pool, ana)
    assert rung == ["ana", "ana"]
    with pool.taken(ana):
        pass


def test_a_worker_that_does_not_start_is_told_to_whom_it_is_for() -> None:
    made = iter([Idle()])

    def make() -> Any:
        for worker in made:
            return worker
        raise Unreachable("it is gone")

    pool, rung = EnginePool(make, 2), Rung()
    ana = rung.of("ana")
    with pool.taken(), pytest.raises(Unreachable), pool.taken(ana):
        raise AssertionError("there is no second worker")
    with pool.taken(ana):
        assert pool.load() == {"workers": 1, "busy": 1, "waiting": 0}


# --- lines -----------------------------------------------------------------------------------


def test_a_line_calls_one_after_the_other_and_whoever_does_not_come_passes_it_on() -> None:
    count = [0]
    line, rung = Line(lambda more: count.__setitem__(0, count[0] + more)), list[int]()
    parkings = [Parking(lambda n=n: rung.append(n)) for n in range(4)]  # type: ignore[misc]
    for parking in parkings:
        line.join(parking)
        line.join(parking)
    assert count == [4]
    line.call_next()
    assert rung == [0]
    parkings[0].leave()
    assert rung == [0, 1]
    line.join(parkings[1])  # somebody else was faster
    line.call_next()
    assert rung == [0, 1, 1]
    line.enter(parkings[1])
    assert rung == [0, 1, 1]
    parkings[2].leave()
    line.call_next()
    assert rung == [0, 1, 1, 3]
    parkings[3].leave()
    assert count == [0]


# --- a server whose workers are all busy -----------------------------------------------------


@contextmanager
def busy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, go_on: Event, max_late: int = 1000
) -> Iterator[Door]:
    """A server with few threads, whose statements over private rows wait until they may go on."""
    aggregate = DuckDBEngine.aggregate

    def waiting(*given: Any, **named: Any) -> Any:
        assert go_on.wait(60)
        return aggregate(*given, **named)

    monkeypatch.setattr(server_module, "MAX_THREADS", THREADS)
    with door(folder, max_connections=50, max_connections_per_analyst=50) as served:
        with psycopg.connect(**served.conninfo(), autocommit=True) as first:
            go_on.set()
            first.execute(CACHED)
        go_on.clear()
        served.server._pacer.max_late = max_late
        monkeypatch.setattr(DuckDBEngine, "aggregate", waiting)
        try:
            yield served
        finally:
            go_on.set()


def waiting(served: Door) -> int:
    """How many questions wait, for a worker or until they may be late."""
    lines = served.server._pacer.lines.values()
    return engine_load(served.proxy)["waiting"] + sum(len(line._standing) for line in lines)


def asked(served: Door, number: int) -> Any:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        return client.execute(f"SELECT COUNT(*) FROM orders WHERE quantity > {number}").fetchall()


def ask_more_than_there_are_threads(served: Door, threads: ThreadPoolExecutor) -> list[Future[Any]]:
    return [threads.submit(asked, served, number) for number in range(WAITING)]


@pytest.mark.parametrize(
    ("max_late", "running"),
    [
        pytest.param(1000, WORKERS, marks=pytest.mark.full("opens servers or connects clients")),
        (1, 1),
    ],
)
def test_others_are_answered_while_every_worker_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_late: int, running: int
) -> None:
    go_on = Event()
    with (
        busy(tmp_path, monkeypatch, go_on, max_late) as served,
        ThreadPoolExecutor(WAITING) as threads,
        psycopg.connect(**served.conninfo(), autocommit=True) as other,
    ):
        before = len(served.proxy.ledger.history(limit=99))
        answers = ask_more_than_there_are_threads(served, threads)
        until(lambda: waiting(served) == WAITING - running)
        assert len(other.execute(CACHED).fetchall()) == 2
        assert other.execute("SELECT COUNT(*) FROM pg_class").fetchone() is not None
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT name FROM customers")
        assert other.execute("EXPLAIN SELECT COUNT(*) FROM orders").fetchall()
        assert waiting(served) == WAITING - running
        go_on.set()
        assert all(answer.result(60) for answer in answers)
        assert len(served.proxy.ledger.history(limit=99)) == before + WAITING
        assert waiting(served) == 0


def test_waiting_in_threads_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stop, "may_park", None)
    go_on = Event()
    with busy(tmp_path, monkeypatch, go_on) as served, ThreadPoolExecutor(WAITING) as threads:
        answers = ask_more_than_there_are_threads(served, threads)
        until(lambda: served.server._pool._work_queue.qsize() == WAITING - THREADS)
        go_on.set()
        assert all(answer.result(60) for answer in answers)


@pytest.mark.full("opens servers or connects clients")
def test_who_waits_can_be_cancelled_or_go_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    with busy(tmp_path, monkeypatch, go_on) as served, ThreadPoolExecutor(WAITING) as threads:
        answers = ask_more_than_there_are_threads(served, threads)
        until(lambda: waiting(served) == WAITING - WORKERS)
        for visit in list(served.server._visits.values()):
            served.loop.call_soon_threadsafe(visit.session.cancel)
        until(lambda: waiting(served) == 0)
        go_on.set()
        errors = [answer.exception(60) for answer in answers]
        assert all(isinstance(error, psycopg.errors.QueryCanceled) for error in errors)
        until(lambda: engine_load(served.proxy)["busy"] == 0)


@pytest.mark.full("opens servers or connects clients")
def test_those_who_ask_the_same_wait_for_it_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, askers = Event(), list[int]()
    count = InFlight._count_askers

    def counted(self: InFlight, key: Any, more: int) -> Any:
        turn = count(self, key, more)
        askers.append(turn.askers)
        return turn

    monkeypatch.setattr(InFlight, "_count_askers", counted)
    with (
        busy(tmp_path, monkeypatch, go_on) as served,
        ThreadPoolExecutor(WAITING) as threads,
        psycopg.connect(**served.conninfo(), autocommit=True) as other,
    ):
        before = len(served.proxy.ledger.history(limit=99))
        answers = [threads.submit(asked, served, 0) for _ in range(WAITING)]
        until(lambda: max(askers, default=0) >= WAITING)
        assert len(other.execute(CACHED).fetchall()) == 2
        go_on.set()
        assert len({str(answer.result(60)) for answer in answers}) == 1
        assert len(served.proxy.ledger.history(limit=99)) == before + 1


# --- parked wherever it can be ---------------------------------------------------------------

QUESTIONS: dict[str, list[Message]] = {
    "simple": [Query(CACHED)],
    "again": [Query(CACHED)],
    "two steps": [Query(f"{TOTAL}; SELECT 1")],
    "extended": [
        Parse("", "SELECT COUNT(*) AS n FROM customers WHERE age > $1", ()),
        Bind("", "", (), (b"30",), ()),
        Execute("", 0),
        Sync(),
    ],
    "cursor": [Query("BEGIN; DECLARE c CURSOR FOR SELECT code FROM countries; FETCH 1 FROM c")],
    "commit": [Query("COMMIT")],
    "copy": [Query("COPY (SELECT code FROM countries) TO STDOUT")],
    "flow": [Query("SELECT COUNT(*) FROM countries; SELECT code FROM countries")],
    "catalogue": [Query("SELECT relname FROM pg_class WHERE relname = 'orders'")],
    "refused": [Query("SELECT name FROM customers")],
    "levels": [Query("SELECT segment, AVG(age) FROM customers GROUP BY ROLLUP(segment)")],
}


class Parks:
    """Park every question once at each worker that it takes, though one is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parked = 0
        awaited, seen = WorkerPool._awaited, set[Waiter]()

        def everywhere(pool: Any, waiter: Waiter, stop: Stop | None) -> Any:
            if waiter.ring is None or waiter in seen:
                return awaited(pool, waiter, stop)
            seen.add(waiter)
            self.parked += 1
            return None

        monkeypatch.setattr(WorkerPool, "_awaited", everywhere)


def told(folder: Path, parking: Parking | None) -> dict[str, object]:
    """What is said to each question but its noise, and what all of them were charged."""
    with Proxy.open(str(shop(folder, tables=crowd(40, most=8)))) as proxy:
        settings, outcomes = SessionSettings({"session_authorization": "ana"}), list[Outcome]()
        answers = Answers(proxy, lambda: Catalogue(proxy.policy, "ana", settings), "ana")
        runner = Runner(answers, Transaction(settings))
        session = Session(runner, outcomes.append, parking=parking)
        said: dict[str, object] = {}
        for name, sent in QUESTIONS.items():
            parts = [part for part in session.handle(sent) if isinstance(part, bytes)]
            kinds = [kind for kind, _ in messages(b"".join(parts))]
            said[name] = b"".join(kind for kind in kinds if kind != b"N")  # some depend on noise
        entries = proxy.ledger.history(limit=99)
        said["charged"] = [(entry.loss, entry.inquiry.sql) for entry in entries]
        said["outcomes"] = [
            (each.sqlstate, each.receipt and each.receipt.charged) for each in outcomes
        ]
        return said


@pytest.mark.full("opens servers or connects clients")
def test_answers_and_charges_are_the_same_wherever_it_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = told(tmp_path / "plain", None)
    parks = Parks(monkeypatch)
    assert told(tmp_path / "parked", Parking(lambda: None)) == plain
    assert parks.parked > len(QUESTIONS)


@pytest.mark.full("opens servers or connects clients")
def test_asking_again_after_a_charge_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = told(tmp_path / "plain", None)
    Parks(monkeypatch)
    monkeypatch.setattr(Stop, "settle", lambda _: None)
    parked = told(tmp_path / "parked", Parking(lambda: None))
    assert parked["charged"] != plain["charged"] or parked["outcomes"] != plain["outcomes"]
