"""kill -9, races between processes, and forks: never overspent, never an answer without a debit.

Timing chooses the moment of a kill, never the verdict.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

import pytest

from dpsql import ledgers
from dpsql.ledgers.ledger_transactions import utc_now
from dpsql.ledgers.mark import read_mark
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Loss
from grammar_tests.ledger_kit import (
    ANSWER,
    LOSS,
    charge,
    exit_code,
    forked,
    lines,
    mark_file,
)
from grammar_tests.waiting import pass_time

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill"),
    # The children do nothing but call the ledger and leave by os._exit.
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]

Release = Callable[[str], None]
Answering = Callable[[SqliteLedger, str, Release], None]
ROUNDS, ROUNDS_PER_LEDGER = 200, 20
LIMIT = Loss(40 * LOSS.amount + 1, 10**6)


def honest(ledger: SqliteLedger, query_id: str, release: Release) -> None:
    """What the proxy does: charge, answer, remember."""
    ledger.charge(charge(query_id, limit=LIMIT))
    release(query_id)
    ledger.remember(query_id, ANSWER)


def late(ledger: SqliteLedger, query_id: str, release: Release) -> None:
    """Wrong: the debit comes after the answer."""
    release(query_id)
    ledger.charge(charge(query_id, limit=LIMIT))
    ledger.remember(query_id, ANSWER)


def answer_for_ever(path: Path, prefix: str, answering: Answering, release: Release) -> None:
    """A proxy that answers until its budget is exhausted, or it is killed."""
    ledger = SqliteLedger.open(str(path))
    for n in range(10**6):
        try:
            answering(ledger, f"{prefix}-{n}", release)
        except Refused:
            return


def kill_after(
    moment: Callable[[], None], path: Path, prefix: str, answering: Answering
) -> list[str]:
    """The queries a child released before it was killed, which is when `moment()` returns."""
    reading, writing = os.pipe()

    def release(query_id: str) -> None:
        os.write(writing, f"{query_id}\n".encode())

    child = forked(lambda: answer_for_ever(path, prefix, answering, release))
    os.close(writing)
    moment()
    os.kill(child, signal.SIGKILL)
    exit_code(child)
    return list(lines(reading))


def every_answer_was_paid(path: Path, released: list[str]) -> None:
    """The verdict, and the recovery: the next proxy opens the ledger and checks all of it."""
    if not path.exists():
        assert released == []
        assert not mark_file(path).exists()
        return
    ledger = SqliteLedger.open(str(path))
    ledger.verify()
    charged = ledger.history(None, 10**6)
    assert set(released) <= {entry.query_id for entry in charged}
    assert ledger.spent("default") == Loss(LOSS.amount * len(charged), LOSS.delta * len(charged))
    assert ledger.spent("default").fits(LIMIT)


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("ledger", range(ROUNDS // ROUNDS_PER_LEDGER))
def test_200_kills_at_random_moments(tmp_path: Path, ledger: int) -> None:
    moments = random.Random(ledger)  # noqa: S311
    path, released = tmp_path / "some.ledger", list[str]()
    for n in range(ROUNDS_PER_LEDGER):
        delay = moments.uniform(0, 0.1)
        released += kill_after(lambda: pass_time(delay), path, f"{n}", honest)  # noqa: B023
        every_answer_was_paid(path, released)
    assert released


# --- kills at every step ---------------------------------------------------------------------

FOLDER = str(Path(ledgers.__file__).parent)


def count_lines(reached: Callable[[int], None]) -> None:
    """From here on, call `reached(n)` before the n-th line that runs in the ledger's files."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "line":
            count += 1
            reached(count)
        return trace

    sys.settrace(trace)


def answer_twice(path: Path, prefix: str, answering: Answering, release: Release) -> None:
    ledger = SqliteLedger.open(str(path))
    for n in range(2):
        answering(ledger, f"{prefix}-{n}", release)


def kill_at_line(line: int | None, path: Path, answering: Answering) -> tuple[list[str], int]:
    """The queries released, and the lines counted, by a child that kills itself at a line."""
    reading, writing = os.pipe()
    seen = 0

    def release(query_id: str) -> None:
        os.write(writing, f"{query_id}\n".encode())

    def reached(count: int) -> None:
        nonlocal seen
        seen = count
        if count == line:
            os.kill(os.getpid(), signal.SIGKILL)

    def body() -> None:
        count_lines(reached)
        answer_twice(path, f"line{line}", answering, release)
        sys.settrace(None)
        os.write(writing, f"{seen}\n".encode())

    child = forked(body)
    os.close(writing)
    told = list(lines(reading))
    if exit_code(child) == -signal.SIGKILL:
        return told, 0
    return told[:-1], int(told[-1])


def kills_at_every_step(folder: Path, answering: Answering, kills: int) -> None:
    _, total = kill_at_line(None, folder / "whole.ledger", answering)
    for n in range(kills):
        line = 1 + total * n // kills
        path = folder / f"{line}.ledger"
        released, finished = kill_at_line(line, path, answering)
        assert not finished, "the child was not killed"
        every_answer_was_paid(path, released)


@pytest.mark.full("processes are started and killed")
def test_kills_at_every_step(tmp_path: Path) -> None:
    kills_at_every_step(tmp_path, honest, 120)


def test_a_ledger_that_debits_after_release_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="<="):
        kills_at_every_step(tmp_path, late, 24)


# --- races -----------------------------------------------------------------------------------


def race(path: Path, processes: int, limit: Loss) -> int:
    """How many charges `processes` proxies were granted, started at once, until all refused."""
    starting, start = os.pipe()
    reading, writing = os.pipe()

    def body() -> None:
        os.close(start)
        ledger = SqliteLedger.open(str(path))
        os.read(starting, 1)  # until the parent closes its end
        for n in range(10**6):
            try:
                ledger.charge(charge(f"{os.getpid()}-{n}", limit=limit))
            except Refused:
                return
            os.write(writing, b"granted\n")

    children = [forked(body) for _ in range(processes)]
    for descriptor in (starting, start, writing):
        os.close(descriptor)
    granted = len(list(lines(reading)))
    assert [exit_code(child) for child in children] == [0] * processes
    return granted


@pytest.mark.full("processes are started and killed")
def test_16_processes_race_for_one_budget(tmp_path: Path) -> None:
    path, limit = tmp_path / "dpsql.ledger", Loss(100, 10**6)
    assert race(path, 16, limit) == 100 // LOSS.amount
    ledger = SqliteLedger.open(str(path))
    ledger.verify()
    assert ledger.spent("default").amount == 99
    mark = read_mark(str(path))
    assert mark is not None
    assert mark.sequence == 34  # `opened`, the limit and 33 charges count from 0


# --- forks -----------------------------------------------------------------------------------


def test_parent_and_child_share_a_ledger_opened_before_the_fork(tmp_path: Path) -> None:
    ledger = SqliteLedger.open(str(tmp_path / "dpsql.ledger"))
    ledger.charge(charge("before"))
    child = forked(lambda: ledger.charge(charge("child")))
    ledger.charge(charge("parent"))
    assert exit_code(child) == 0
    assert ledger.spent("default").amount == 3 * LOSS.amount
    ledger.verify()


def test_a_fork_waits_for_a_call_under_way_in_another_thread(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.ledger"
    inside, forking = Event(), Event()

    def clock() -> datetime:
        inside.set()
        forking.wait()
        return utc_now()

    forking.set()
    slow = SqliteLedger.open(str(path), clock=clock)
    inside.clear()
    forking.clear()
    thread = Thread(target=slow.charge, args=(charge("thread"),))
    thread.start()
    inside.wait()
    ledger = SqliteLedger(SqliteStore(str(path), Patience()))
    os.register_at_fork(before=forking.set)  # runs before the ledger's own hook, which waits
    child = forked(lambda: ledger.charge(charge("child")))
    thread.join()
    assert exit_code(child) == 0
    assert ledger.spent("default").amount == 2 * LOSS.amount
