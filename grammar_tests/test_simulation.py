"""Caps, stops and confirmations under crashes, lost connections and interleavings, by seeds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from dpsql.ledgers import Charge, Spent, Stopped, book, debits
from dpsql.ledgers.chain import State
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.ledgers.store import Patience
from dpsql.model.errors import Refused
from grammar_tests import ledger_kit as kit
from grammar_tests.simulation import (
    ALL,
    EVERY,
    SAME,
    SimulatedStore,
    World,
    first_wrong,
    simulated,
)

SLICE = range(600)
WHOLE = 500_000
"""Seeds of a campaign over a file, and as many over a server: a million together."""
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
@pytest.mark.parametrize("server", [False, True])
def test_no_ceiling_is_passed_and_no_commit_is_forgotten_whatever_fails(*, server: bool) -> None:
    seen = simulated(SLICE, server=server)
    assert all(seen[what] for what in HAPPENS), seen


AT = datetime(2025, 1, 1, tzinfo=UTC)


def kept(ledger: StoredLedger) -> State:
    """What a ledger says behind a short history."""
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
    store = SimulatedStore(World(0, StoredLedger).owner)
    simulated = kept(StoredLedger.over(store, clock=lambda: AT))
    same: Any = SimpleNamespace(below=lambda _most, _count: [SAME])
    patience = Patience(entropy=same)
    path = str(tmp_path / "dpsql.ledger")
    assert simulated == kept(SqliteLedger.open(path, clock=lambda: AT, patience=patience))
    assert simulated.checkpoint > 0


@pytest.mark.campaign
@pytest.mark.parametrize("server", [False, True])
def test_so_it_is_under_all_seeds(*, server: bool) -> None:
    step = WHOLE // 100
    parts = [range(first, first + step) for first in range(0, WHOLE, step)]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        seen = sum(pool.map(partial(simulated, server=server), parts), Counter[str]())
    print(dict(seen))  # noqa: T201 - for the report


# --- wrong twins -----------------------------------------------------------------------------


class ReadsBeforeItLocks(StoredLedger):
    def charge(self, charge: Charge, *_more: Charge) -> Spent:
        with self._reading() as book:
            spent = debits.spent_after(book, charge)
        with self._writing() as book:
            debits.append_charge(book, charge)
        return spent


class ForgetsCrashedCommits(StoredLedger):
    """Takes what is behind the mark for what was never finished."""

    @classmethod
    def over(cls, store: Any, clock: Any = None) -> Self:
        disk, mark = store.world.disk, store.read_mark()
        if mark is not None and disk.writer is None:
            del disk.entries[mark.sequence + 1 :]
            disk.head = disk.entries[-1][1]
        return super().over(store, clock)


class BelievesEveryCommit(StoredLedger):
    """Takes a commit without a known outcome for done."""

    def _require_committed(self, *_of: object) -> None: ...


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
    "believes every commit": lambda: first_wrong(SLICE, make=BelievesEveryCommit, server=True),
    "reads before it locks on a server": lambda: first_wrong(
        SLICE, make=ReadsBeforeItLocks, server=True
    ),
    "reads before it locks": lambda: first_wrong(SLICE, make=ReadsBeforeItLocks),
    "forgets crashed commits": lambda: first_wrong(SLICE, make=ForgetsCrashedCommits),
    "checks the budget alone": lambda: first_wrong(SLICE, twin=checks_the_budget_alone),
    "believes the file": lambda: first_wrong(SLICE, twin=believes_the_file),
    "forgets stops": lambda: first_wrong(SLICE, twin=forgets_stops),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_ledger_that(twin: str) -> None:
    assert TWINS[twin]()
