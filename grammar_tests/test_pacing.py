"""When answers appear: at steps of a public grid, predicted from public things; late ones count.

No test depends on time: clocks and waits are passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import EngineFailed, Interrupted, Stop, TimedOut
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.pool import EnginePool
from dpsql.interfaces.pgwire.pacing import Pacer, _Deadline
from dpsql.ledgers import Stopped, debits, store
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import Failed, Reason, Refused, Unreachable
from dpsql.model.vocabulary import Request
from dpsql.policy.load import load
from dpsql.preparation.workload import operations
from dpsql.proxy import Proxy
from grammar_tests import bound
from grammar_tests.laws import compiled
from grammar_tests.ledger_kit import charge, raw
from grammar_tests.proxy_kit import request, shop, watched
from grammar_tests.wire_kit import AtTheEnd, door

COUNT = "SELECT COUNT(*) AS n FROM customers, countries WHERE age >= 64 AND code <> city"
PUBLIC = "SELECT COUNT(*) AS n FROM countries"


@dataclass
class Book:
    """Late answers in memory."""

    counts: Counter[str] = field(default_factory=Counter)

    def record_late(self, analyst: str, query_id: str) -> None:
        assert query_id
        self.counts[analyst] += 1

    def late(self, analyst: str) -> int:
        return self.counts[analyst]

    def person_of(self, analyst: str) -> str:
        return analyst

    @contextmanager
    def running(self, analyst: str, most: int) -> Iterator[bool]:
        yield self.late(analyst) <= most


class Time:
    """A clock that moves when somebody waits, or works; alarms ring when it passes them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.alarms: list[tuple[float, AtTheEnd]] = []

    def alarm(self, seconds: float, ring: Callable[[], None]) -> AtTheEnd:
        alarm = AtTheEnd(seconds, ring)
        self.alarms.append((self.now + seconds, alarm))
        return alarm

    def work(self, seconds: float) -> None:
        """Let so much time pass, with what happens meanwhile at its instant."""
        end = self.now + seconds
        for at, alarm in self.alarms:
            if self.now < at <= end:
                self.now = at
                alarm.ring()
        self.now = end

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(round(seconds, 6))
        self.work(seconds)
        return False


@dataclass
class Paced:
    """A pacer over a clock of our own, and what the owner's log got."""

    time: Time = field(default_factory=Time)
    book: Any = field(default_factory=Book)
    log: list[dict[str, Any]] = field(default_factory=list)
    most: int = 3

    def pacer(self) -> Pacer:
        def write(**facts: Any) -> None:
            self.log.append(facts)

        parts = self.book, 6.4, self.most, 300, write, self.time.clock, self.time.wait
        return Pacer(*parts, alarm=self.time.alarm)

    def after(
        self, seconds: float, error: Exception | None = None, size: float | None = 0
    ) -> float:
        """When a question is seen to end that took so long, in seconds from its beginning."""
        began = self.time.now
        with suppress(Exception), self.pacer().of("ana").paced("q", size):
            self.time.work(seconds)
            if error is not None:
                raise error
        return round(self.time.now - began, 6)


@pytest.mark.parametrize(
    ("seconds", "seen", "late"),
    [(0.0, 0.1, 0), (0.099, 0.1, 0), (0.11, 0.4, 1), (0.41, 1.6, 1), (9.0, 25.6, 1)],
)
def test_an_answer_is_seen_at_a_step_and_counts_if_it_is_late(
    seconds: float, seen: float, late: int
) -> None:
    paced = Paced()
    assert paced.after(seconds) == seen
    assert paced.book.counts["ana"] == late
    (line,) = paced.log
    assert (line["analyst"], line["query"], line["late"]) == ("ana", "q", bool(late))
    assert line["seconds"] == pytest.approx(seconds)
    assert line["step"] == pytest.approx(seen)


def test_where_nobody_says_how_large_tables_are_answers_appear_at_answer_seconds() -> None:
    paced = Paced()
    assert paced.after(0.01, size=None) == 6.4
    assert paced.after(1.0, size=1e7) == 1.6
    assert paced.after(1.0, size=1e30) == 409.6  # it would be stopped after 300 seconds
    assert not paced.book.counts


@pytest.mark.parametrize("error", [TimedOut(), EngineFailed(), MemoryError()])
def test_a_failure_appears_at_a_step_and_counts_however_early(error: Exception) -> None:
    paced = Paced()
    assert paced.after(0.02, error) == 0.1
    assert paced.after(0.2, error) == 0.4
    assert paced.book.counts["ana"] == 2


def test_whoever_cancels_learns_nothing_from_when_it_ends() -> None:
    paced = Paced()
    assert paced.after(0.02, Interrupted(), size=1e7) == paced.after(0.9, None, size=1e7) == 1.6
    assert not paced.book.counts
    assert paced.after(2.0, Interrupted(), size=1e7) == 6.4
    assert paced.book.counts["ana"] == 1


def test_data_that_are_gone_are_no_fault_of_a_question() -> None:
    paced = Paced()
    assert paced.after(0.02, Unreachable("x")) == 0.02
    assert not paced.book.counts


def test_a_server_that_stops_waits_for_no_step() -> None:
    paced = Paced()
    pacer = replace(paced.pacer(), wait=None)
    pacer.close()
    with pacer.of("ana").paced("q", None):
        pass
    assert paced.time.now == 1000.0


# --- what others see meanwhile: the ledger changes at public instants alone ---


@dataclass
class Dated(Book):
    """Late answers with the instants at which they were recorded."""

    time: Time = field(default_factory=Time)
    recorded: list[float] = field(default_factory=list)

    def record_late(self, analyst: str, query_id: str) -> None:
        super().record_late(analyst, query_id)
        self.recorded.append(round(self.time.now - 1000, 6))


def recorded(seconds: float, error: Exception | None = None) -> list[float]:
    """When a late answer is recorded of a question that took so long, and was due after 0.1."""
    time = Time()
    book = Dated(time=time)
    Paced(time, book).after(seconds, error)
    return book.recorded


LATE = ((0.02, TimedOut()), (0.11, None), (0.3, EngineFailed()), (0.39, None), (9.0, None))


@pytest.mark.parametrize(("seconds", "error"), LATE)
def test_what_is_late_is_recorded_at_the_predicted_step_whenever_it_ends(
    seconds: float, error: Exception | None
) -> None:
    assert recorded(seconds, error) == [0.1]


def test_wrong_twin_what_is_recorded_when_it_ends_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Time, "alarm", lambda _time, *parts: AtTheEnd(*parts))
    assert recorded(0.3, EngineFailed()) != [0.1]


def test_what_was_computed_in_time_is_never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine does afterwards: here it sleeps over several steps."""
    paced = Paced()

    def oversleep(seconds: float) -> bool:
        paced.time.work(seconds + 30)
        return False

    monkeypatch.setattr(paced.time, "wait", oversleep)
    assert paced.after(0.09) == 30.1
    assert not paced.book.counts
    assert [line["late"] for line in paced.log] == [False]


def test_a_late_answer_that_cannot_be_recorded_is_not_told() -> None:
    paced = Paced()
    paced.book.record_late = None  # not to be called
    with pytest.raises(TypeError), paced.pacer().of("ana").paced("q", 0):
        paced.time.work(1)


def stamps(folder: Path) -> list[bool]:
    """Whether the ledger stays as it is from the charge of a failing question on: while it runs,
    when it fails, and at its step.
    """
    proxy, engine = watched(shop(folder), Proxy)
    with proxy:
        paced, seen = Paced(book=proxy.ledger), list[object]()
        pacer = paced.pacer()
        engine.instead = "SELECT error('x')"
        engine.before = lambda: seen.append(proxy.ledger.stamp())

        def wait(seconds: float) -> bool:
            seen.append(proxy.ledger.stamp())
            paced.time.work(seconds)
            seen.append(proxy.ledger.stamp())
            return False

        pacer.wait = wait
        with pytest.raises(Failed):
            proxy.ask(request(COUNT), Stop(pace=pacer.of("ana")))
        assert proxy.ledger.late("ana") == 1
        return [stamp == seen[0] for stamp in seen[:3]]


@pytest.mark.full("opens servers or connects clients")
def test_nothing_is_written_between_the_charge_and_the_step(tmp_path: Path) -> None:
    assert stamps(tmp_path) == [True, True, False]


def test_wrong_twin_a_record_of_the_real_end_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = _Deadline.finish

    def at_once(deadline: _Deadline, *, failed: bool) -> tuple[float, bool]:
        ended = finish(deadline, failed=failed)
        deadline.miss()
        return ended

    monkeypatch.setattr(_Deadline, "finish", at_once)
    assert stamps(tmp_path) == [True, False, False]


# --- who may ask ---------------------------------------------------------------------------------


def test_after_so_many_late_answers_nothing_new_is_admitted() -> None:
    paced = Paced(most=2)
    pace = paced.pacer().of("ana")
    for _ in range(2):
        with pace.admitted(Stop()):
            paced.after(0.2)
    with pytest.raises(Refused) as caught, pace.admitted(Stop()):
        pass
    assert caught.value.reason is Reason.ANALYST_STOPPED
    with paced.pacer().of("bob").admitted(Stop()):
        pass


def test_no_more_are_let_in_at_once_than_may_still_be_late() -> None:
    """Two at once, both late, would be one more than the owner allows."""
    paced = Paced(most=1)
    pacer, inside, done = paced.pacer(), Event(), Event()
    told: list[Reason] = []

    def second() -> None:
        inside.wait(30)
        try:
            with pacer.of("ana").admitted(Stop()):
                pass
        except Refused as refused:
            told.append(refused.reason)
        done.set()

    thread = Thread(target=second)
    thread.start()
    with pacer.of("ana").admitted(Stop()):
        inside.set()
        assert not done.wait(0.2)
        paced.book.record_late("ana", "q")
    thread.join(30)
    assert told == [Reason.ANALYST_STOPPED]


# --- through the proxy ---------------------------------------------------------------------------


@contextmanager
def proxy_of(folder: Path) -> Iterator[tuple[Proxy, EnginePool]]:
    draft = load(str(shop(folder)))
    pool = EnginePool(partial(DuckDBEngine, draft.database, draft.limits), 1)
    with Proxy.over(draft, pool) as proxy:
        yield proxy, pool


@pytest.mark.full("opens servers or connects clients")
def test_only_fresh_answers_over_private_rows_wait_and_they_keep_their_engine(
    tmp_path: Path,
) -> None:
    with proxy_of(tmp_path) as (proxy, pool):
        paced = Paced()
        pacer = paced.pacer()

        def wait(seconds: float) -> bool:
            assert pool._idle == []
            return paced.time.wait(seconds)

        pacer.wait = wait
        proxy.ask(request(COUNT), Stop(pace=pacer.of("ana")))
        assert paced.time.waits == [0.1]
        stop = Stop(pace=pacer.of("ana"))
        remembered = proxy.ask(request(COUNT), stop)
        assert remembered.receipt is not None
        assert remembered.receipt.remembered
        proxy.ask(request(PUBLIC), stop)
        with pytest.raises(Refused):
            proxy.ask(request("SELECT name FROM customers"), stop)
        assert paced.time.waits == [0.1]


@pytest.mark.full("opens servers or connects clients")
def test_a_question_of_several_steps_is_one_question(tmp_path: Path) -> None:
    parts = "SELECT {0}, COUNT(*) AS n FROM {1} GROUP BY {0}"
    both = f"{parts.format('segment', 'customers')} UNION ALL {parts.format('status', 'orders')}"
    with proxy_of(tmp_path) as (proxy, _):
        paced = Paced()
        proxy.ask(request(both), Stop(pace=paced.pacer().of("ana")))
        assert len(paced.log) == 1


@pytest.mark.full("opens servers or connects clients")
def test_a_stopped_analyst_is_refused_before_the_charge_and_keeps_what_is_remembered(
    tmp_path: Path,
) -> None:
    with proxy_of(tmp_path) as (proxy, _):
        paced = Paced(most=1)
        proxy.ask(request(COUNT), Stop(pace=paced.pacer().of("ana")))
        paced.book.record_late("ana", "q")
        before = proxy.budgets()
        stop = Stop(pace=paced.pacer().of("ana"))
        with pytest.raises(Refused) as caught:
            proxy.ask(request("SELECT COUNT(*) FROM orders"), stop)
        assert caught.value.reason is Reason.ANALYST_STOPPED
        assert proxy.budgets() == before
        assert proxy.ask(request(COUNT), stop).receipt is not None


@pytest.mark.full("opens servers or connects clients")
def test_what_is_cancelled_while_it_waits_is_as_if_it_had_not_ended(tmp_path: Path) -> None:
    """Else a question asked again would be free if it had: that would tell how long it took."""
    with proxy_of(tmp_path) as (proxy, _):
        paced = Paced()
        pacer = paced.pacer()
        stop = Stop(pace=pacer.of("ana"))

        def wait(seconds: float) -> bool:
            stop.requested = True
            return paced.time.wait(seconds)

        pacer.wait = wait
        with pytest.raises(Failed, match="cancelled"):
            proxy.ask(request(COUNT), stop)
        again = proxy.ask(request(COUNT))
        assert again.receipt is not None
        assert not again.receipt.remembered


@pytest.mark.full("opens servers or connects clients")
def test_a_statement_that_fails_counts(tmp_path: Path) -> None:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy:
        engine.instead = "SELECT error('x')"
        paced = Paced()
        with pytest.raises(Failed):
            proxy.ask(request(COUNT), Stop(pace=paced.pacer().of("ana")))
        assert paced.book.counts["ana"] == 1
        assert paced.time.waits == [0.1]


# --- the prediction ------------------------------------------------------------------------------


def prepared(sql: str, **sizes: int | None) -> tuple[Prepared, Any]:
    policy, engine = bound.shop()
    tables = tuple(replace(t, expected_rows=sizes.get(t.name)) for t in policy.tables)
    policy = replace(policy, tables=tables)
    return compiled(sql, policy, engine), policy


def test_what_is_predicted_grows_with_what_is_declared_and_with_public_tables() -> None:
    def size(sql: str, **sizes: int | None) -> float | None:
        return operations(*prepared(sql, **sizes), {"countries": 3, "products": 4}.__getitem__)

    alone = "SELECT COUNT(*) FROM customers"
    one, ten = size(alone, customers=1000), size(alone, customers=10_000)
    assert one is not None
    assert ten is not None
    assert ten == 10 * one
    assert size(COUNT) is None
    assert size("SELECT COUNT(*) FROM orders", customers=5) is None
    crossed = size("SELECT COUNT(*) FROM customers, countries WHERE code <> city", customers=1000)
    looked_up = size(
        "SELECT COUNT(*) FROM customers JOIN countries ON country = code", customers=1000
    )
    assert crossed is not None
    assert looked_up is not None
    assert crossed > 2 * looked_up


# --- the ledger ----------------------------------------------------------------------------------


def test_late_answers_survive_a_restart_until_the_owner_acts(tmp_path: Path) -> None:
    path = tmp_path / "l.ledger"
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.record_late("ana", "q1")
        ledger.record_late("ana", "q1")
        ledger.record_late("bob", "q2")
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert (ledger.late("ana"), ledger.late("bob"), ledger.late("eve")) == (2, 1, 0)
        ledger.resume(Stopped(None, "ana"))
        ledger.verify()
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert (ledger.late("ana"), ledger.late("bob")) == (0, 1)


@pytest.mark.parametrize("schema", store.EARLIER_SCHEMAS)
def test_a_ledger_from_before_records_late_answers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: tuple[str, ...]
) -> None:
    path = tmp_path / "l.ledger"
    with monkeypatch.context() as earlier:
        earlier.setattr(store, "SCHEMA", schema)
        earlier.setattr(debits, "append_limit", lambda *_: None)
        with closing(SqliteLedger.open(str(path))) as ledger:
            ledger.charge(charge())
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.record_late("ana", "q1")
        ledger.verify()
        assert ledger.late("ana") == 1
        assert len(ledger.history(None, 10)) == 1
        ledger.charge(charge("q2"))
        assert ledger.spent("default") == charge().loss + charge().loss
    with raw(path) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# --- over the wire -------------------------------------------------------------------------------


@pytest.mark.full("opens servers or connects clients")
def test_over_the_wire_the_owner_stops_and_resumes_and_sees_exact_times(tmp_path: Path) -> None:
    with door(tmp_path, paced=True) as opened:
        paced = Paced(most=1, book=opened.proxy.ledger)

        def slow() -> float:
            paced.time.now += 0.25  # each look at the clock: everything is late
            return paced.time.now

        write = partial(opened.server._telemetry.event, "ran")
        parts = paced.book, 0.1, 1, 300, write, slow, paced.time.wait
        opened.server._pacer = Pacer(*parts, alarm=AtTheEnd)
        with psycopg.connect(**opened.conninfo(), autocommit=True) as client:
            assert client.execute(COUNT).fetchone()
            assert client.execute(COUNT).fetchone()  # remembered
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="nothing new"):
                client.execute("SELECT COUNT(*) FROM orders")
            opened.proxy.ledger.resume(Stopped(None, "ana"))
            assert client.execute("SELECT COUNT(*) FROM orders").fetchone()
        assert '"seconds": 0.25' in " ".join(opened.lines)
        assert "seconds" not in opened.server._telemetry.exposition()


@pytest.mark.full("opens servers or connects clients")
def test_every_session_is_paced(tmp_path: Path) -> None:
    """The one wait of a real server, short: a session without a pace would not be in the log."""
    with door(tmp_path, paced=True) as opened:
        with psycopg.connect(**opened.conninfo(), autocommit=True) as client:
            client.execute(COUNT)
        assert sum('"event": "ran"' in line for line in opened.lines) == 1


@pytest.mark.full("opens servers or connects clients")
def test_the_dbapi_and_the_command_line_do_without(tmp_path: Path) -> None:
    with proxy_of(tmp_path) as (proxy, _):
        proxy.ask(Request(COUNT, "ana"))
        assert Stop().pace is None
