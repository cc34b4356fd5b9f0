"""The same question, asked by several threads or processes at once, is paid for once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from dpsql.engines import EngineFailed, Stop
from dpsql.model.errors import Failed
from dpsql.model.vocabulary import Answer, Request
from dpsql.proxy import Proxy
from dpsql.vault import in_flight
from dpsql.vault.in_flight import InFlight
from dpsql.vault.vault import Vault
from grammar_tests.ledger_kit import exit_code, forked
from grammar_tests.proxy_kit import WatchedEngine, never_twice, request, shop, through
from grammar_tests.test_contribution_bounds import TOTAL, crowd
from grammar_tests.waiting import until

COUNT = "SELECT COUNT(*) AS n FROM customers WHERE age > 30"
SECONDS = 20.0
MODEL = "CREATE MODEL m AS SELECT vip, age FROM customers OPTIONS({})"
MADE = (
    MODEL.format("model_type = 'linear_reg', label = 'age'"),
    MODEL.format("model_type = 'logistic_reg', label = 'vip', method = 'gradient', steps = 2"),
    "CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers",
)
"""What is charged as a whole, told to nobody else, and given a name."""
SHARED = ("\nquery_epsilon", "\nshare_answers = true\nquery_epsilon")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def opened(folder: Path, *changes: tuple[str, str]) -> tuple[Proxy, WatchedEngine]:
    proxy = Proxy.open(str(shop(folder, *changes, tables=crowd(40, most=8))))
    proxy.vault = Vault(proxy.vault.ledger, proxy.vault.engine, never_twice())
    engine = WatchedEngine(proxy.vault.engine)
    through(proxy, engine)
    return proxy, engine


def wait_for(proxy: Proxy, askers: int) -> None:
    """Until so many ask some question."""
    turns = proxy.vault.in_flight._turns
    until(lambda: any(t.askers >= askers for t in list(turns.values())))


def together(proxy: Proxy, threads: ThreadPoolExecutor, *requests: Request) -> list[Answer]:
    return list(threads.map(proxy.ask, requests))


def charged(answers: list[Answer]) -> list[int]:
    return sorted(a.receipt.charged.amount for a in answers if a.receipt is not None)


def spent(proxy: Proxy) -> int:
    return proxy.budgets()[0][1].amount


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(("sql", "steps"), [(COUNT, 1), (TOTAL, 2)])
def test_one_pays_and_the_other_is_told(
    sql: str, steps: int, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    proxy, engine = opened(tmp_path)
    engine.before = lambda: wait_for(proxy, 2)
    with proxy:
        price = proxy.explain(request(sql)).charge
        first, second = together(proxy, threads, request(sql), request(sql))
        assert first.rows == second.rows
        # Of a question in two steps each may have paid for one.
        assert sum(charged([first, second])) == spent(proxy)
        assert spent(proxy) == pytest.approx(price.amount, rel=1e-6)
        assert len(proxy.ledger.history(limit=99)) == len(engine.private()) == steps
        assert proxy.vault.in_flight._turns == {}


def test_wrong_twin_who_waits_for_nobody_pays_too(
    tmp_path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InFlight, "alone", lambda *_args: nullcontext())
    proxy, engine = opened(tmp_path)
    both = Barrier(2)

    def meet() -> None:
        with suppress(BrokenBarrierError):
            both.wait(SECONDS)

    engine.before = meet
    with proxy:
        first, second = together(proxy, threads, request(COUNT), request(COUNT))
        assert first.rows != second.rows
        assert min(charged([first, second])) > 0


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("shares", [False, True])
def test_others_are_waited_for_where_their_answers_are_shared(
    shares: bool,  # noqa: FBT001
    tmp_path: Path,
    threads: ThreadPoolExecutor,
) -> None:
    proxy, engine = opened(tmp_path, *([SHARED] if shares else []))
    both = Barrier(2)

    def meet() -> None:
        if shares:
            wait_for(proxy, 2)
        else:
            both.wait(SECONDS)  # nobody is told by a wait what others ask

    engine.before = meet
    with proxy:
        answers = together(proxy, threads, request(COUNT), request(COUNT, None, "bob"))
        assert (charged(answers)[0] == 0) is shares
        assert sum(charged(answers)) == spent(proxy)


@pytest.mark.full("draws random questions or values")
def test_where_the_first_fails_the_next_one_goes_on(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    proxy, engine = opened(tmp_path)
    failures = [EngineFailed()]

    def fail_once() -> None:
        if failures:
            wait_for(proxy, 2)
            raise failures.pop()

    engine.before = fail_once
    with proxy:
        asked = [threads.submit(proxy.ask, request(COUNT)) for _ in range(2)]
        errors = [each.exception() for each in asked]
        (failed,) = [error for error in errors if error is not None]
        assert isinstance(failed, Failed)
        (answer,) = [each.result() for each in asked if each.exception() is None]
        assert answer.receipt is not None
        # What failed stays charged.
        assert spent(proxy) == 2 * answer.receipt.charged.amount > 0


@pytest.mark.full("opens a proxy for each item")
def test_a_wait_is_stopped_for_nothing(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    proxy, engine = opened(tmp_path)
    stop = Stop()
    stopped: list[Any] = []

    def stop_the_other() -> None:
        second = threads.submit(proxy.ask, request(COUNT), stop)
        wait_for(proxy, 2)
        stop.requested = True
        stopped.append(second.exception(SECONDS))

    engine.before = stop_the_other
    with proxy:
        answer = proxy.ask(request(COUNT))
        (failed,) = stopped
        assert isinstance(failed, Failed)
        assert (failed.cancelled, failed.charged) == (True, False)
        assert charged([answer]) == [spent(proxy)]


@pytest.mark.full("opens a proxy for each item")
def test_a_forked_child_waits_for_no_thread_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InFlight, "_claim", lambda *_args: nullcontext())  # the parent waits
    proxy, engine = opened(tmp_path)
    ends: list[int] = []

    def ask_in_a_child() -> None:
        engine.before = lambda: None
        ends.append(exit_code(forked(lambda: proxy.ask(request(COUNT)))))

    engine.before = ask_in_a_child
    with proxy:
        proxy.ask(request(COUNT))
    assert ends == [0]


# --- processes ---


class Child:
    """A process that asks, and goes on with its statement when it is told to."""

    def __init__(self, proxy: Proxy, engine: WatchedEngine, sql: str = COUNT) -> None:
        (told, here), (there, tell) = os.pipe(), os.pipe()

        def wait() -> None:
            engine.before = lambda: None
            os.write(here, b".")
            os.read(there, 1)

        def ask() -> None:
            engine.before = wait
            proxy.ask(request(sql))

        self.number, self._tell = forked(ask), tell
        assert os.read(told, 1) == b"."

    def go_on(self) -> None:
        os.write(self._tell, b".")


def after(proxy: Proxy, refused: Callable[[], object]) -> None:
    """Have the first claim that a process does not get do this."""
    claimed, first = proxy.vault.ledger.claimed, [refused]

    @contextmanager
    def watched(text: str) -> Iterator[bool]:
        with claimed(text) as own:
            if not own and first:
                first.pop()()
            yield own

    proxy.vault.ledger.claimed = watched  # type: ignore[method-assign]


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("sql", [COUNT, *MADE])
def test_of_two_processes_one_pays_and_the_other_is_told(sql: str, tmp_path: Path) -> None:
    proxy, engine = opened(tmp_path)
    with proxy:
        child = Child(proxy, engine, sql)
        after(proxy, child.go_on)
        answer = proxy.ask(request(sql))
        assert exit_code(child.number) == 0
        assert charged([answer]) == [0]
        assert engine.private() == []
        losses = [entry.loss.amount for entry in proxy.ledger.history(limit=99)]
        assert [loss for loss in losses if loss] == [spent(proxy)]  # a name costs nothing


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("sql", [COUNT, *MADE[::2]])
def test_who_was_killed_holds_up_nobody_and_its_charge_stays(sql: str, tmp_path: Path) -> None:
    proxy, engine = opened(tmp_path)
    with proxy:
        child = Child(proxy, engine, sql)
        after(proxy, lambda: os.kill(child.number, signal.SIGKILL))
        answer = proxy.ask(request(sql))
        assert exit_code(child.number) == -signal.SIGKILL
        (own,) = charged([answer])
        assert spent(proxy) == 2 * own > 0
        assert charged([proxy.ask(request(sql))]) == [0]


@pytest.mark.full("opens a proxy for each item")
def test_who_hangs_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "MOST_SECONDS", 0.1)
    proxy, engine = opened(tmp_path)
    with proxy:
        child = Child(proxy, engine)
        assert min(charged([proxy.ask(request(COUNT))])) > 0
        child.go_on()
        assert exit_code(child.number) == 0


@pytest.mark.full("opens a proxy for each item")
def test_a_wait_for_another_process_is_stopped_for_nothing(tmp_path: Path) -> None:
    proxy, engine = opened(tmp_path)
    stop = Stop()
    with proxy:
        child = Child(proxy, engine)
        after(proxy, lambda: setattr(stop, "requested", True))
        with pytest.raises(Failed) as failed:
            proxy.ask(request(COUNT), stop)
        assert (failed.value.cancelled, failed.value.charged) == (True, False)
        child.go_on()
        assert exit_code(child.number) == 0
        assert len(proxy.ledger.history(limit=99)) == 1


@pytest.mark.parametrize("sql", [COUNT, MADE[0]])
def test_wrong_twin_a_process_that_claims_nothing_pays_too(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InFlight, "_claim", lambda *_args: nullcontext())
    proxy, engine = opened(tmp_path)
    with proxy:
        child = Child(proxy, engine, sql)
        assert min(charged([proxy.ask(request(sql))])) > 0
        child.go_on()
        assert exit_code(child.number) == 0
        assert len(proxy.ledger.history(limit=99)) == 2
