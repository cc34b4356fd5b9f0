"""`dpsql publish`, killed at any point: no half folder, and the next run ends it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.engines import Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.ledgers.store import SqliteStore
from dpsql.model.errors import LedgerError
from dpsql.model.vocabulary import Loss
from dpsql.proxy import Proxy
from dpsql.systems.releases.published_tables import PublishedRelease, PublishTables
from dpsql.systems.releases.release_file import read_statements
from dpsql.systems.releases.signed_files import new_folder, write_files
from dpsql.vault.vault import Vault
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop

TABLES = read_statements(f"""
-- name: by_country
{BY_COUNTRY};
-- name: logins
SELECT COUNT(*) AS n FROM logins;
""")
"""The limit of the second one is found first, at a charge of its own."""
PRICE = Loss(48_711_940)


class Killed(BaseException):
    """The end of a process: no code of dpsql catches it."""


class Steps:
    """Counter of steps; the one with the number `last` kills."""

    def __init__(self, last: int = 0) -> None:
        self.last, self.count = last, 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.last:
            raise Killed


def test_a_kill_at_any_write_of_a_file_leaves_the_old_folder_or_the_whole_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin writes into the folder itself."""
    files = {"a.csv": b"1", "tables/b.csv": b"2"}

    def write(step: Callable[[], None], into: Callable[[Path], Any]) -> None:
        sync = os.fsync
        with monkeypatch.context() as patched, into(tmp_path / "out") as folder:
            patched.setattr(shutil, "rmtree", lambda *_, **__: None)  # the dead remove nothing
            patched.setattr(os, "fsync", lambda number: sync(number) or step())  # type: ignore[func-returns-value]
            write_files(folder, files)

    @contextmanager
    def in_place(target: Path) -> Iterator[Path]:
        target.mkdir(exist_ok=True)
        yield target

    def left(last: int, into: Callable[[Path], Any]) -> set[str]:
        with pytest.raises(Killed):
            write(Steps(last), into)
        written = {p.name for p in (tmp_path / "out").rglob("*") if p.is_file()}
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return written

    steps = Steps()
    write(steps, new_folder)
    shutil.rmtree(tmp_path / "out")
    halves = [left(last, new_folder) for last in range(1, steps.count + 1)]
    assert halves == [set()] * (steps.count - 1) + [{"a.csv", "b.csv"}]
    assert left(1, in_place) == {"a.csv"}
    write(Steps(), new_folder)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}, "no leftover of the killed"


@contextmanager
def every_step(patch: pytest.MonkeyPatch, step: Callable[[], None]) -> Iterator[None]:
    """Take a step before and after each write to a ledger, and after each statement on data."""
    transaction, aggregate = SqliteStore.transaction, DuckDBEngine.aggregate

    @contextmanager
    def counting(self: SqliteStore, opened: Any, *, write: bool) -> Iterator[list[str]]:
        with transaction(self, opened, write=write) as schema:
            yield schema
            if write:
                step()
        if write:
            step()

    def measured(*given: Any, **named: Any) -> Any:
        exact = aggregate(*given, **named)
        step()
        return exact

    with patch.context() as patched:
        patched.setattr(SqliteStore, "transaction", counting)
        patched.setattr(DuckDBEngine, "aggregate", measured)
        yield


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A shop, for releases of different tables."""
    with Proxy.open(str(shop(tmp_path_factory.mktemp("shop")))) as opened:
        yield opened


def publish(proxy: Proxy, ledger: Path) -> tuple[PublishedRelease, Loss]:
    """The release of a new process, and the spent budget."""
    with closing(SqliteLedger.open(str(ledger))) as opened:
        parts = replace(proxy.parts(Stop()), vault=Vault(opened, proxy.vault.engine))
        found = PublishTables(TABLES, request(""), count=2).run(parts)
        return found, opened.spent("default")


def kill(proxy: Proxy, ledger: Path, patch: pytest.MonkeyPatch, last: int) -> None:
    """Publish until this step."""
    SqliteLedger.open(str(ledger)).close()
    with every_step(patch, Steps(last)), pytest.raises(Killed):
        publish(proxy, ledger)


@pytest.mark.full("publishes once for each write")
def test_a_kill_at_any_write_ends_with_one_charge(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteLedger.open(str(tmp_path / "whole")).close()
    steps = Steps()
    with every_step(monkeypatch, steps):
        assert publish(proxy, tmp_path / "whole")[1] == PRICE
    assert steps.count == 6 * 4 + 3, "six writes, two steps for each and its mark; three statements"
    for last in range(1, steps.count + 1):
        ledger = tmp_path / str(last)
        kill(proxy, ledger, monkeypatch, last)
        resumed, spent = publish(proxy, ledger)
        assert (resumed.loss, spent) == (PRICE, PRICE), last
    again, spent = publish(proxy, ledger)
    assert (again.receipt.charged, spent) == (Loss(0), PRICE)
    assert [t.answer.rows for t in resumed.tables] == [t.answer.rows for t in again.tables]


@pytest.mark.full("publishes twice")
def test_wrong_twin_a_release_that_forgets_what_was_charged(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(proxy, tmp_path / "ledger", monkeypatch, 4)
    monkeypatch.setattr(Vault, "unanswered", lambda *_: "")
    assert publish(proxy, tmp_path / "ledger")[1].amount > PRICE.amount


def test_the_folder_of_a_running_process_stays(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getppid()):
        (tmp_path / f".out.{process}.partial").mkdir()
    with new_folder(tmp_path / "out") as partial:
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {f".out.{os.getppid()}.partial", partial.name}


@pytest.mark.full("publishes three times")
def test_a_full_disk_and_a_faster_process_charge_nothing_more(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process stored first is the answer of both."""

    def fill(*_: Any) -> None:
        error = sqlite3.OperationalError("no")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "insert_answer", staticmethod(fill))
        with pytest.raises(LedgerError, match="the disk is full"):
            publish(proxy, tmp_path / "ledger")
    remember, others = SqliteLedger.remember, list[PublishedRelease]()

    def wait(self: SqliteLedger, *answers: Any) -> None:
        monkeypatch.setattr(SqliteLedger, "remember", remember)
        others.append(publish(proxy, tmp_path / "ledger")[0])
        remember(self, *answers)

    monkeypatch.setattr(SqliteLedger, "remember", wait)
    found, spent = publish(proxy, tmp_path / "ledger")
    assert spent == PRICE
    assert [t.answer.rows for t in found.tables] == [t.answer.rows for t in others[0].tables]


def test_a_receipt_names_a_charge_that_a_faster_process_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted query is answered by another process just before it is resumed."""
    resumed = iter(("another query", ""))
    monkeypatch.setattr(Vault, "unanswered", lambda *_: next(resumed))
    with Proxy.open(str(shop(tmp_path))) as opened:
        receipt = opened.ask(request(BY_COUNTRY, "1")).receipt
        assert receipt is not None
        assert not receipt.remembered
        assert opened.vault.ledger.spent("default").amount > 0
    assert not list(resumed)
