"""Caps, stops and confirmations under crashes, lost connections and interleavings, by seeds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import pytest

from dpsql.ledgers import Charge, Spent, Stopped, book, debits, sqlite
from dpsql.ledgers.chain import State
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import Refused
from grammar_tests import ledger_kit as kit
from grammar_tests.simulation import ALL, EVERY, PATIENCE, Simulation, first_wrong, simulated

SLICE = range(600)
WHOLE = 100_000
HAPPENS = (
    "charged",
    "recalled",
    "crash commit",
    "crash committed",
    "fault commit",
    "fault committed",
    "others begin",
    "others committed",
    "busy",
    "budget-exhausted",
    "limit-changed",
    "stopped-by-owner",
)
"""Without one of these nothing would be shown."""


@pytest.mark.full("hundreds of random queries")
def test_no_ceiling_is_passed_and_no_commit_is_forgotten_whatever_fails() -> None:
    seen = simulated(SLICE)
    assert all(seen[what] for what in HAPPENS), seen


def kept(path: str) -> State:
    """What a ledger says behind a short history."""
    at = datetime(2025, 1, 1, tzinfo=UTC)
    ledger = SqliteLedger.open(path, clock=lambda: at, patience=PATIENCE)
    caps = (replace(ALL, most=kit.LIMIT),)
    for n in range(3):
        kit.ask(ledger, f"q{n}", caps=caps)
        assert kit.recall(ledger) is not None
    ledger.stop(Stopped("default", None), "a reason")
    with suppress(Refused):
        ledger.charge(kit.charge("q9", caps=caps))
    ledger.lift(ALL.title, "a reason")
    ledger.refresh()
    ledger.verify()
    assert kit.recall(ledger) is None
    return ledger._state


def test_a_simulated_disk_keeps_what_a_file_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", EVERY)
    with monkeypatch.context() as patch:
        Simulation().installed(patch)
        simulated = kept("/simulated/ledger")
    assert simulated == kept(str(tmp_path / "dpsql.ledger"))
    assert simulated.checkpoint > 0


@pytest.mark.campaign
def test_so_it_is_under_all_seeds() -> None:
    step = WHOLE // 100
    parts = [range(first, first + step) for first in range(0, WHOLE, step)]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        seen = sum(pool.map(simulated, parts), Counter[str]())
    print(dict(seen))  # noqa: T201 - for the report


# --- wrong twins -----------------------------------------------------------------------------


class ReadsBeforeItLocks(SqliteLedger):
    def charge(self, charge: Charge, *_more: Charge) -> Spent:
        with self._reading() as book:
            spent = debits.spent_after(book.state, charge)
        with self._writing() as book:
            debits.append_charge(book, charge)
        return spent


class ForgetsCrashedCommits(SqliteLedger):
    """Takes what is behind the mark for what was never finished."""

    @classmethod
    def open(cls, path: str, **named: Any) -> Self:
        read: Any = vars(sqlite)["read_mark"]
        disk = read.__self__.world.disk
        if disk.mark is not None:
            del disk.entries[disk.mark.sequence + 1 :]
        return super().open(path, **named)


def checks_the_budget_alone(patch: pytest.MonkeyPatch) -> None:
    whole = debits._require_fits

    def fits(state: State, charge: Charge, ceiling: Any) -> None:
        if not ceiling.named:
            whole(state, charge, ceiling)

    patch.setattr(debits, "_require_fits", fits)


def believes_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(debits, "unconfirmed", lambda *_of: [])


def forgets_stops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(debits, "Stopped", lambda *_of: None)


TWINS: dict[str, Callable[[], int]] = {
    "reads before it locks": lambda: first_wrong(SLICE, make=ReadsBeforeItLocks),
    "forgets crashed commits": lambda: first_wrong(SLICE, make=ForgetsCrashedCommits),
    "checks the budget alone": lambda: first_wrong(SLICE, twin=checks_the_budget_alone),
    "believes the file": lambda: first_wrong(SLICE, twin=believes_the_file),
    "forgets stops": lambda: first_wrong(SLICE, twin=forgets_stops),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_ledger_that(twin: str) -> None:
    assert TWINS[twin]()
