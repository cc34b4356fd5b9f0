"""A plan is about one state of the data: over any other it is refused before its charge."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psycopg
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.pool import EnginePool
from dpsql.ledgers import Charge
from dpsql.model.errors import DataChanged, Failed
from dpsql.owner.check import check_policy
from dpsql.policy.load import load
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from dpsql.systems.watch.monitor import Desk, Watch, WatchAll
from grammar_tests import world
from grammar_tests.ledger_kit import contents
from grammar_tests.proxy_kit import BY_COUNTRY, WatchedEngine, request, shop, through
from grammar_tests.test_layers import SOURCES
from grammar_tests.wire_kit import opened

COUNT = "SELECT COUNT(*) AS n FROM customers"
HERE, MORE = len(world.well_behaved()["customers"]), 200
ROOT = Path(__file__).parent.parent


def silent(_law: object, draws: int) -> np.ndarray:
    return np.zeros(draws, dtype=np.int64)


def flooded() -> world.Tables:
    """The shop, in which one customer has hundreds of rows."""
    tables = world.well_behaved()
    return tables | {"customers": tables["customers"] + [tables["customers"][0]] * MORE}


def replaced(folder: Path, tables: world.Tables) -> None:
    """Another database file in place of the one that was opened."""
    new = folder / "new.duckdb"
    world.build(tables, str(new), constraints=False).close()
    new.replace(folder / "shop.duckdb")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A shop without constraints, whose facts its owner has recorded."""
    found = shop(tmp_path, constraints=False)
    check_policy(str(found), record=True)
    return found


@contextmanager
def silently(path: Path) -> Iterator[Proxy]:
    """The proxy without noise."""
    with Proxy.open(str(path)) as proxy:
        proxy.vault.sampler = silent
        yield proxy


def compiled(proxy: Proxy, sql: str) -> tuple[Question, Prepared]:
    asked = proxy.compiler.read(request(sql), Stop())
    return asked, proxy.compiler.prepared(asked)


def ledger_of(path: Path) -> dict[str, bytes]:
    return contents(path.parent / "shop.ledger")


# --- before the charge ---------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("change", [replaced, lambda folder, _: (folder / "shop.duckdb").unlink()])
def test_changed_data_is_refused_free_of_charge_and_in_constant_words(
    path: Path, change: Callable[[Path, world.Tables], None]
) -> None:
    with silently(path) as proxy:
        proxy.ask(request(COUNT))
        before = ledger_of(path)
        change(path.parent, flooded())
        for sql in (BY_COUNTRY, "SELECT COUNT(*) FROM orders"):
            with pytest.raises(DataChanged) as caught:
                proxy.ask(request(sql))
            assert str(path.parent) not in str(caught.value)
            assert str(path.parent) in caught.value.detail
        assert ledger_of(path) == before


@pytest.mark.full("opens a proxy for each item")
def test_after_a_refresh_the_new_data_is_answered(path: Path) -> None:
    with silently(path) as proxy:
        replaced(path.parent, world.empty())
        with pytest.raises(DataChanged):
            proxy.ask(request(BY_COUNTRY))
        proxy.refresh()
        assert {n for _country, n in proxy.ask(request(BY_COUNTRY)).rows} == {0}


@pytest.mark.full("opens a proxy for each item")
def test_a_plan_whose_facts_lapsed_before_it_runs_is_refused(path: Path) -> None:
    with silently(path) as proxy:
        asked, prepared = compiled(proxy, COUNT)
        replaced(path.parent, flooded())
        proxy.refresh()
        before = ledger_of(path)
        with pytest.raises(DataChanged):
            proxy.vault.charged(proxy.compiler, asked, prepared)
        assert ledger_of(path) == before


def test_without_its_data_the_plan_would_claim_one_of_hundreds(path: Path) -> None:
    """The wrong twin: the same plan, over whatever data there is."""
    with silently(path) as proxy:
        asked, prepared = compiled(proxy, COUNT)
        assert prepared.plan is not None
        assert prepared.plan.blocks[0].releases[0].sensitivity.linf == Fraction(1)
        replaced(path.parent, flooded())
        proxy.refresh()
        answer = proxy.vault.charged(proxy.compiler, asked, replace(prepared, data=None))
        assert answer.rows == ((len(world.well_behaved()["customers"]) + MORE,),)


@pytest.mark.full("opens a proxy for each item")
def test_the_snapshot_that_a_query_reads_is_compared_again(path: Path) -> None:
    with silently(path) as proxy:
        engine = WatchedEngine(proxy.vault.engine)
        proxy.vault.engine = engine

        def refreshed() -> None:
            replaced(path.parent, flooded())
            proxy.refresh()

        engine.before = refreshed
        with pytest.raises(Failed, match="charge stays") as caught:
            proxy.ask(request(COUNT))
        assert str(path.parent) not in str(caught.value)
        assert str(path.parent) in caught.value.detail
        assert [entry.loss for entry in proxy.ledger.history()] == [
            proxy.explain(request(COUNT)).charge
        ]


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("watches", ["watch", "watch_all"])
def test_a_monitor_is_not_charged_over_other_data(path: Path, watches: str) -> None:
    with silently(path) as proxy:
        wish = Watch("ana", Decimal(5), 1)
        before = ledger_of(path)

        def ask() -> object:
            return (
                proxy.run(wish)
                if watches == "watch"
                else proxy.run(WatchAll(wish, [request(COUNT)]))
            )

        compiled(proxy, COUNT)
        replaced(path.parent, flooded())
        with pytest.raises(DataChanged):
            ask()
        assert ledger_of(path) == before


@pytest.mark.full("opens a proxy for each item")
def test_a_stream_compiled_before_a_refresh_is_refused_by_its_monitor(path: Path) -> None:
    wish = Watch("ana", Decimal(5), 1)
    with silently(path) as proxy, proxy.run(wish) as monitor:
        stream = Desk.of(proxy.compiler, proxy.vault, wish).stream(request(COUNT))
        replaced(path.parent, flooded())
        proxy.refresh()
        with pytest.raises(Failed):
            monitor.verdict(stream)
        assert monitor.left == 1
        assert monitor.ask(COUNT).above


# --- between the charge and the answer -----------------------------------------------------------

PUBLIC_TOO = "SELECT code, (SELECT COUNT(*) FROM customers) AS n FROM countries ORDER BY code"


@contextmanager
def pooled(path: Path) -> Iterator[Proxy]:
    """The proxy without noise over two engines, of which one has not yet opened anything."""
    draft = load(str(path))
    pool = EnginePool(partial(DuckDBEngine, draft.database, draft.limits), 2)
    with Proxy.over(draft, pool) as proxy:
        proxy.vault.sampler = silent
        yield proxy


def after_the_charge(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, step: Callable[[], object]
) -> None:
    charge = proxy.ledger.charge

    def charged(wanted: Charge) -> Any:
        monkeypatch.setattr(proxy.ledger, "charge", charge)
        spent = charge(wanted)
        step()
        return spent

    monkeypatch.setattr(proxy.ledger, "charge", charged)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("sql", [COUNT, PUBLIC_TOO])
@pytest.mark.parametrize("proxies", [silently, pooled])
def test_data_that_are_swapped_after_a_charge_leave_its_answer_as_it_was(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxies: Callable[[Path], AbstractContextManager[Proxy]],
    sql: str,
) -> None:
    with proxies(path) as proxy:
        after_the_charge(proxy, monkeypatch, lambda: replaced(path.parent, flooded()))
        assert {row[-1] for row in proxy.ask(request(sql)).rows} == {HERE}
        with pytest.raises(DataChanged):
            proxy.ask(request("SELECT COUNT(*) AS n FROM orders"))
        assert len(proxy.ledger.history()) == 1


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("proxies", [silently, pooled])
def test_a_refresh_waits_for_what_was_charged(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxies: Callable[[Path], AbstractContextManager[Proxy]],
) -> None:
    with proxies(path) as proxy:
        refresh = Thread(target=proxy.refresh)

        def refreshing() -> None:
            replaced(path.parent, world.empty())
            refresh.start()
            refresh.join(0.5)  # it waits for the answer, however long that takes

        after_the_charge(proxy, monkeypatch, refreshing)
        assert proxy.ask(request(COUNT)).rows == ((HERE,),)
        refresh.join()
        assert proxy.ask(request(COUNT)).rows == ((0,),)


# --- the order of events -------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_the_data_and_the_worker_are_checked_then_charged_then_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silently(path) as proxy:
        engine = WatchedEngine(proxy.vault.engine)
        through(proxy, engine)
        charge = proxy.ledger.charge

        def charged(wanted: Charge) -> Any:
            engine.calls.append(("charge", ""))
            return charge(wanted)

        monkeypatch.setattr(proxy.ledger, "charge", charged)
        proxy.ask(request(BY_COUNTRY))
        events = [kind for kind, _sql in engine.calls]
        assert [e for e in events if e in ("ready", "charge", "aggregate")] == [
            "ready",
            "charge",
            "aggregate",
        ]


@pytest.mark.full("opens a proxy for each item")
def test_a_worker_that_died_while_idle_costs_nothing(path: Path) -> None:
    with silently(path) as proxy:
        proxy.ask(request(COUNT))
        worker: Any = proxy.vault.engine._first._worker  # type: ignore[attr-defined]
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait(60)
        proxy.ask(request(BY_COUNTRY))
        assert len(proxy.ledger.history()) == 2


@pytest.mark.full("opens a proxy for each item")
def test_an_engine_that_cannot_run_is_not_charged_for(path: Path) -> None:
    with silently(path) as proxy:
        _asked, prepared = compiled(proxy, COUNT)
        before = ledger_of(path)
        proxy.vault.engine.close()
        with pytest.raises(Failed, match="nothing was charged"):
            proxy.vault.charged(proxy.compiler, _asked, prepared)
        assert ledger_of(path) == before


# --- who records facts, and who is told what -----------------------------------------------------


def test_facts_are_recorded_by_the_owners_command_alone() -> None:
    users = {str(p.relative_to(ROOT)) for p in SOURCES if ".record_facts(" in p.read_text("utf-8")}
    assert users == {"dpsql/owner/check.py"}
    tellers = {str(p.relative_to(ROOT)) for p in SOURCES if "check_policy(" in p.read_text("utf-8")}
    assert tellers == {"dpsql/owner/check.py", "dpsql/interfaces/cli/owner_commands.py"}


@pytest.mark.full("opens a proxy for each item")
def test_over_the_wire_words_are_constant_and_the_owners_log_has_the_path(tmp_path: Path) -> None:
    path = shop(tmp_path / "shop", constraints=False)
    with opened(tmp_path, path) as door, psycopg.connect(**door.conninfo()) as client:
        client.autocommit = True
        client.execute(COUNT)
        before = ledger_of(path)
        replaced(path.parent, flooded())
        told = set()
        for sql in (BY_COUNTRY, "SELECT COUNT(*) FROM orders"):
            with pytest.raises(psycopg.Error) as caught:
                client.execute(sql)
            told.add(str(caught.value))
            assert caught.value.sqlstate == "55000"
        assert len(told) == 1
        assert str(tmp_path) not in told.pop()
        assert ledger_of(path) == before
    logged = [json.loads(line) for line in door.lines]
    assert any(str(tmp_path) in str(line.get("cause")) for line in logged)
