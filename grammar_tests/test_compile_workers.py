"""Compiling apart: workers make what the compiler makes here, and what they do ends with them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from math import isnan
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from dpsql.answering.any_statement import ColumnsOf
from dpsql.dialects.reading import parse as reading
from dpsql.engines import EngineFailed, Interrupted, Stop, TimedOut
from dpsql.engines.limited import limited
from dpsql.engines.pool import WorkerPool
from dpsql.engines.remote import RemoteBroke, RemoteObject, RemotePool
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.model import errors
from dpsql.model.errors import DataChanged, Failed, Reason, Refused
from dpsql.model.tree import INTEGER, Span
from dpsql.preparation import compilation, offers
from dpsql.preparation.compile_workers import CompilerDesk
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop
from grammar_tests.test_free_work import BUSY
from grammar_tests.waiting import until

QUESTIONS = (
    BY_COUNTRY,
    "SELECT COUNT(*), SUM(age), AVG(age) FROM customers WHERE age > 30",
    "SELECT name FROM products",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_error = 5) COUNT(*) FROM customers",
    "EXPLAIN PRIVACY SELECT SUM(age) FROM customers",
)
REFUSED = ("SELECT", "SELECT nothing FROM customers", "SELECT name FROM customers", "SELECT (" * 99)

BY_LISTED = "SELECT region, COUNT(*) FROM customers JOIN countries ON country = code GROUP BY 1"
MUCH = 200 << 20


class Odd:
    """Something in a process of its own that does what nothing of ours should do."""

    def echo(self, value: Any, *, stop: Stop) -> Any:
        assert not stop.requested
        return value

    def wait(self, *, stop: Stop) -> None:
        until(lambda: stop.requested)
        raise Interrupted

    def linger(self, *, stop: Stop) -> None:
        del stop
        Event().wait()

    def fill(self, *, stop: Stop) -> int:
        del stop
        return len(bytearray(MUCH))

    def tell(self, *, stop: Stop) -> None:
        raise ValueError(stop, "secret")


@pytest.fixture(scope="module")
def odd() -> Iterator[RemoteObject]:
    with RemoteObject(Odd, "100MB", 60) as found:
        yield found


@contextmanager
def apart(policy: Path) -> Iterator[Proxy]:
    """The proxy that `dpsql serve` opens."""
    with CommandSettings().open_server(str(policy)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Proxy]]:
    """A proxy that compiles in workers, and one that compiles here, over the same shop."""
    policy = shop(tmp_path_factory.mktemp("apart"))
    with apart(policy) as theirs, Proxy.open(str(policy)) as ours:
        yield theirs, ours


def process_of(proxy: Proxy) -> Any:
    """The process of the first worker."""
    compiler: Any = proxy.compiler
    return compiler._work.workers._first._worker._process


def outcome(step: Callable[[], Any]) -> Any:
    """What a step returns, or what it refuses."""
    try:
        return step()
    except Refused as refused:
        return refused.reason, refused.span, refused.facts


def plain(value: Any) -> Any:
    """A value to be compared: NaN is itself."""
    if is_dataclass(value):
        return type(value), [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return "NaN" if isinstance(value, float) and isnan(value) else value


def everything(proxy: Proxy, sql: str) -> Any:
    """All that a compiler says of a text."""
    compiler, stop = proxy.compiler, Stop()
    asked = replace(compiler.read(request(sql), stop), stop=stop)
    questions = compiler.questions(asked)
    shown = compiler.described(asked, asked.account.epsilon, (questions or ("",))[0])
    plan = compiler.prepared(asked)
    return plain((asked.account, asked.precision, plan, questions, shown))


# --- the same plans ---


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("sql", [*QUESTIONS, *REFUSED])
def test_a_worker_compiles_what_is_compiled_here(pair: tuple[Proxy, Proxy], sql: str) -> None:
    theirs, ours = (outcome(partial(everything, proxy, sql)) for proxy in pair)
    assert theirs == ours
    theirs, ours = (outcome(partial(everything, proxy, sql)) for proxy in pair)
    assert theirs == ours  # remembered


@pytest.mark.full("starts processes")
def test_a_worker_finds_types_and_prices_as_they_are_found_here(pair: tuple[Proxy, Proxy]) -> None:
    sql = "SELECT COUNT(*) FROM customers WHERE age > ?"
    theirs, ours = (
        proxy.run(ColumnsOf(request(sql), (Span(sql.index("?"), sql.index("?") + 1),), (None,)))
        for proxy in pair
    )
    assert theirs == ours
    assert ours.parameters == (INTEGER,)
    prices = [proxy.explain(request(BY_COUNTRY, "0.3")) for proxy in pair]
    assert prices[0] == prices[1]


def test_the_servers_own_process_reads_and_plans_nothing(
    pair: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_given: object, **_named: object) -> None:
        raise AssertionError

    monkeypatch.setattr(compilation, "parse_any", never)
    monkeypatch.setattr(compilation, "prepare", never)
    monkeypatch.setattr(reading, "parse", never)
    theirs, ours = pair
    sql = "SELECT COUNT(*) + 0 AS n FROM customers"
    assert len(theirs.ask(request(sql)).rows) == 1
    with pytest.raises(AssertionError):  # the twin compiles here
        ours.ask(request(sql))


@pytest.mark.full("processes are started and killed")
def test_charges_are_those_of_the_compiler_here(tmp_path: Path) -> None:
    entries = []
    for name in ("theirs", "ours"):
        policy = shop(tmp_path / name)
        opened = apart(policy) if name == "theirs" else Proxy.open(str(policy))
        with opened as proxy:
            for sql in (*QUESTIONS, *REFUSED, *QUESTIONS):
                outcome(partial(proxy.ask, request(sql)))
            entries.append([replace(e, query_id="", time=None) for e in proxy.ledger.history()])  # type: ignore[arg-type]
    assert entries[0] == entries[1]
    assert len(entries[0]) == 3


# --- what does not fit is not used ---


@pytest.mark.full("starts processes")
def test_a_plan_of_another_policy_or_of_other_data_is_not_used(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        compiler: Any = proxy.compiler
        version, data = compiler._work.identity
        for other in ((version, "other"), ("other", data)):
            compiler._work = replace(compiler._work, identity=other)
            with pytest.raises(Failed) as caught:
                proxy.ask(request(BY_COUNTRY))
            assert not caught.value.charged
        assert proxy.ledger.history() == ()
        compiler._work = replace(compiler._work, identity=(version, data))
        assert proxy.ask(request(BY_COUNTRY)).rows  # the twin in which it is what was meant


@pytest.mark.full("starts processes")
def test_other_data_than_were_accepted_are_not_measured(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        desk = partial(CompilerDesk.over, proxy.policy, (("other", 1, 2, 3, 4),))
        with RemoteObject(desk, "1GB", 60) as worker, pytest.raises(DataChanged):
            worker.ask(Stop(), "begun", request(BY_LISTED))


@pytest.mark.full("starts processes")
def test_new_workers_compile_under_a_new_policy(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        assert proxy.ask(request(BY_COUNTRY)).rows
        old = process_of(proxy)
        proxy.adopt(replace(proxy.policy, version="next"))
        assert old.poll() is not None
        assert proxy.ask(request(BY_COUNTRY)).rows


# --- what takes too long, or too much ---


@pytest.mark.full("starts processes")
def test_a_cancelled_compilation_ends_and_costs_nothing(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        stop = Stop()
        workers: Any = proxy.compiler

        def cancel() -> None:
            until(lambda: any(w._call is not None for w in workers._work.workers._all))
            stop.requested = True

        thread = Thread(target=cancel)
        thread.start()
        with pytest.raises(Failed) as caught:
            proxy.ask(request(BUSY), stop)
        thread.join()
        assert caught.value.cancelled
        assert not caught.value.charged
        assert proxy.ledger.history() == ()
        assert proxy.ask(request(BY_COUNTRY)).rows


@pytest.mark.full("starts processes")
def test_a_compilation_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        limits = replace(proxy.policy.limits, free_seconds=0.05)
        proxy.compiler.policy = replace(proxy.policy, limits=limits)
        with pytest.raises(Failed) as caught:
            proxy.ask(request(BUSY))
        assert caught.value.timed_out
        assert proxy.ledger.history() == ()


@pytest.mark.full("starts processes")
def test_a_worker_that_was_killed_is_replaced(tmp_path: Path) -> None:
    with apart(shop(tmp_path)) as proxy:
        assert proxy.ask(request(BY_COUNTRY)).rows
        process_of(proxy).kill()
        process_of(proxy).wait()
        assert proxy.ask(request(BY_COUNTRY, "0.2")).rows
        pool: Any = proxy.compiler
        left = [w._worker._process for w in pool._work.workers._all if w._worker is not None]
    assert left
    assert all(process.poll() is not None for process in left)  # none is left behind


@pytest.mark.full("starts processes")
def test_who_does_not_listen_is_killed(odd: RemoteObject) -> None:
    assert odd.ask(Stop(), "echo", 1) == 1
    listening: Any = odd._worker
    with pytest.raises(TimedOut), limited(Stop(), 0.05):
        odd.ask(Stop(), "wait")
    assert odd._worker is listening
    with pytest.raises(TimedOut), limited(Stop(), 0.05):
        odd.ask(Stop(), "linger")
    assert odd._worker is not listening
    assert odd.ask(Stop(), "echo", 2) == 2


def test_what_is_cancelled_beforehand_is_not_asked(odd: RemoteObject) -> None:
    with pytest.raises(Interrupted):
        odd.ask(Stop(requested=True), "wait")


@pytest.mark.full("starts processes")
def test_memory_ends_one_call(odd: RemoteObject) -> None:
    with pytest.raises(MemoryError):
        odd.ask(Stop(), "fill")
    assert odd.ask(Stop(), "echo", 3) == 3
    with RemoteObject(Odd, "1GB", 60) as roomy:  # the twin has the memory
        assert roomy.ask(Stop(), "fill") == MUCH


@pytest.mark.full("starts processes")
def test_of_an_unknown_error_only_its_name_is_told(odd: RemoteObject) -> None:
    with pytest.raises(RemoteBroke) as caught:
        odd.ask(Stop(), "tell")
    assert str(caught.value) == "ValueError"


def test_a_closed_worker_answers_nothing() -> None:
    gone = RemoteObject(Odd, "200MB", 60)
    gone.close()
    with pytest.raises(EngineFailed):
        gone.ask(Stop(), "echo", 1)


def test_one_analyst_never_has_all_workers() -> None:
    class Idle:
        def cancel(self) -> None: ...

        def close(self) -> None: ...

    pool = WorkerPool(Idle, 2, owners=2)
    with pool.taken(Stop(owner="mallory")):
        impatient, ended = Stop(owner="mallory"), Event()

        def again() -> None:
            with pytest.raises(Interrupted), pool.taken(impatient):
                pass
            ended.set()

        thread = Thread(target=again)
        thread.start()
        with pool.taken(Stop(owner="ana")):  # while mallory waits for a second
            assert not ended.is_set()
        impatient.requested = True
        thread.join()
        assert ended.is_set()


class Slow(Odd):
    """What begins when a file is there."""

    def __init__(self, gate: Path) -> None:
        until(gate.exists)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def slow(gate: Path) -> Callable[[], RemoteObject]:
    return partial(RemoteObject, partial(Slow, gate), "100MB", 60)


def begun(pool: WorkerPool[RemoteObject], gate: Path) -> tuple[Any, Any]:
    """The process that a pool starts, and the one it has when somebody has given up waiting."""
    first, stop = pool._first._worker, Stop()

    def give_up() -> None:
        until(lambda: pool._first._call is not None)
        stop.requested = True

    thread = Thread(target=give_up)
    thread.start()
    with pytest.raises(Interrupted), pool.taken(stop) as worker:
        worker.ask(stop, "echo", 1)
    thread.join()
    gate.touch()
    with pool.taken(Stop()) as worker:
        assert worker.ask(Stop(), "echo", 2) == 2
        return first, worker._worker


@pytest.mark.full("starts processes")
def test_who_gives_up_waiting_ends_no_beginning(gate: Path) -> None:
    pool = RemotePool(slow(gate), 1)
    first, now = begun(pool, gate)
    assert now is first
    with pool.taken(Stop()) as worker:
        first._process.kill()
        first._process.wait()
    with pool.taken(Stop()) as again:  # it was replaced before anybody had it
        assert again is worker
        assert again.is_open
        assert again.ask(Stop(), "echo", 3) == 3
    pool.close()


@pytest.mark.full("measures neighbours or further data sets")
def test_a_pool_that_hands_out_what_only_begins_would_be_seen(gate: Path) -> None:
    pool = WorkerPool(slow(gate), 1)
    first, now = begun(pool, gate)
    assert now is not first
    pool.close()


def test_a_pool_is_closed_while_it_begins(gate: Path) -> None:
    pool = RemotePool(slow(gate), 1)
    process: Any = pool._first._worker
    pool.close()
    assert process._process.poll() is not None


# --- errors on their way ---

TOLD: tuple[errors.DpsqlError, ...] = (
    Refused(Reason.UNKNOWN_COLUMN, Span(1, 2), column="a", known=("b",)),
    Refused(Reason.RAW_ROWS),
    errors.PolicyError("dpsql.toml", 3, "what", "how"),
    Failed("6f3a", timed_out=True, charged=False, detail="of the owner"),
    errors.Unreachable("gone"),
    DataChanged("of the owner"),
)


@pytest.mark.parametrize("error", TOLD, ids=repr)
def test_errors_are_the_same_on_the_other_side(error: errors.DpsqlError) -> None:
    told = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(told) is type(error)
    assert (str(told), told.__dict__) == (str(error), error.__dict__)


class Plain(Refused):
    """The twin that goes as exceptions go: its reason is lost, or it does not arrive."""

    __reduce__ = Exception.__reduce__  # type: ignore[assignment]


def test_an_error_that_goes_as_others_do_would_be_seen() -> None:
    with pytest.raises(AttributeError):
        pickle.loads(pickle.dumps(Plain(Reason.RAW_ROWS)))  # noqa: S301 - our own


@pytest.mark.full("starts processes")
def test_a_worker_offers_what_would_be_offered_here(
    pair: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "SECONDS", 60.0)
    refused, raw = Refused(Reason.RAW_ROWS, Span(16, 25)), request("SELECT age FROM customers")
    theirs, ours = (proxy.compiler for proxy in pair)
    offer = ours.offer(raw, refused, Stop())
    assert offer is not None
    until(lambda: theirs.offer(raw, refused, Stop()) == offer)  # the first may come too late
    assert theirs.offer(request("SELECT age FROM nowhere"), refused, Stop()) is None
