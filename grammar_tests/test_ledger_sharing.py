"""One ledger, many users: locks, threads, forks, races and crashes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from dpsql.ledgers import Charge, Spent
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.ledgers.store import Patience
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import (
    Loss,
)
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import LIMIT, LOSS, charge


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


def test_a_lock_is_waited_for(path: Path) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            holder.rollback()

    with kit.raw(path) as holder:
        ledger = SqliteLedger.open(str(path), patience=Patience(10, 0.004, wait))
        holder.execute("BEGIN IMMEDIATE")
        assert ledger.spent("default") == Loss(0)
        assert waits == []
        ledger.charge(charge())
    assert len(waits) == 3
    assert all(0 <= seconds <= 0.004 for seconds in waits)


def test_a_reader_delays_the_commit_and_nothing_else(path: Path) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        holder.rollback()

    with kit.raw(path) as holder:
        ledger = SqliteLedger.open(str(path), patience=Patience(10, 0.004, wait))
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM entries").fetchall()
        ledger.charge(charge())
    assert len(waits) == 1
    assert ledger.spent("default") == LOSS


def test_a_lock_that_never_goes_is_an_error_and_no_charge(path: Path) -> None:
    waits: list[float] = []
    ledger = SqliteLedger.open(str(path), patience=Patience(7, 0.004, waits.append))
    for begin in ("BEGIN IMMEDIATE", "BEGIN"):
        waits.clear()
        with kit.raw(path) as holder:
            holder.execute(begin)
            holder.execute("SELECT * FROM entries").fetchall()
            with pytest.raises(LedgerError, match="locked by another process"):
                ledger.charge(charge())
        assert len(waits) == 7
        assert ledger.spent("default") == Loss(0)


def never_overspent(make: type[SqliteLedger], path: Path) -> None:
    """A second charge arrives in the middle of the first, and only one fits."""
    impatient = Patience(2, 0.0, lambda _: None)
    second = make.open(str(path), patience=impatient)
    arrivals = iter(["q2"])

    def clock() -> datetime:
        for query_id in arrivals:
            with _Tolerated():
                second.charge(charge(query_id, limit=LOSS))
        return datetime(2025, 1, 1, tzinfo=UTC)

    first = make.open(str(path), patience=impatient)
    first._clock = clock
    with _Tolerated():
        first.charge(charge("q1", limit=LOSS))
    assert second.spent("default") == LOSS


class _Tolerated:
    """Being refused or locked out is a good outcome here; what was spent is the verdict."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, LedgerError | Refused)


def test_two_charges_at_once_never_overspend(path: Path) -> None:
    never_overspent(SqliteLedger, path)


class ChecksFirst(SqliteLedger):
    """Wrong: looks at the budget, and charges in another transaction."""

    def charge(self, charge: Charge, *_more: Charge) -> Spent:
        if not (self.spent(charge.budget) + charge.loss).fits(charge.limit):
            raise Refused(Reason.BUDGET_EXHAUSTED)
        self._clock()
        return super().charge(kit.charge(charge.query_id, limit=LIMIT))


def test_checking_before_the_transaction_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError):
        never_overspent(ChecksFirst, path)


@pytest.mark.full("draws random questions or values")
def test_threads_share_one_ledger(path: Path) -> None:
    ledger = SqliteLedger.open(str(path))
    granted: list[str] = []

    def spend(name: str) -> None:
        for n in range(10):
            with _Tolerated():
                ledger.charge(charge(f"{name}-{n}", limit=Loss(80, 1000)))
                granted.append(name)

    threads = [Thread(target=spend, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 80 // LOSS.amount
    assert ledger.spent("default").amount == len(granted) * LOSS.amount
    ledger.verify()
