"""Totals that are made once for the look and the answer: the same integers, for nobody else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockSql
from dpsql.dialects.duckdb import block_statement
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines import EngineFailed, Interrupted, MadeTotals, Stop, keeping
from dpsql.engines.duckdb import worker as duckdb_worker
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import Sources, WorkerSettings
from dpsql.engines.duckdb.worker import _Session, _Worker
from dpsql.engines.pool import EnginePool
from dpsql.model.vocabulary import Exact, Policy, Request
from grammar_tests.casefile import Case
from grammar_tests.engine_kit import LONG, engine, folder  # noqa: F401  fixtures
from grammar_tests.laws import BUDGET, PlainEngine
from grammar_tests.test_cases import ALL, CATALOGS
from grammar_tests.test_contribution_bounds import BY_MONTH, SIGNED, crowd, opened, shop
from grammar_tests.test_unit_limits import EveryUnit
from grammar_tests.two_engines import steps
from grammar_tests.waiting import until

KEY = 7
SEVERAL = ("keys/scaled", "rows/polls")
"""The files of cases whose bounds are found of totals over several groups."""
SOME = [c for c in ALL if c.id.startswith(SEVERAL) and c.accepted and c.holds_here][::3]


def numbers(exact: Exact) -> dict[str, tuple[int, ...]]:
    """The integers of each group."""
    return {
        str(key): tuple(int(part[n]) for part in exact.parts) for n, key in enumerate(exact.keys)
    }


def of(sql: BlockSql, engine: PlainEngine, text: str) -> dict[str, tuple[int, ...]]:
    return numbers(engine.aggregate(text, len(sql.keys), sql.parts, KEY))


def plans(case: Case) -> tuple[list[Prepared], PlainEngine]:
    """The polls of a case, and the case with what they find."""
    policy, engine = CATALOGS[case.catalog]()
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    spelling = case.setting("dialect", "duckdb")
    return steps(case.sql, policy, engine, dialect=spelling, budget=budget), engine


def asked(sql: str) -> tuple[list[Prepared], PlainEngine]:
    """The same of a question about a crowd."""
    policy, engine = crowded()
    return steps(sql, policy, engine, dialect="duckdb", budget=BUDGET), engine


def crowded() -> tuple[Policy, PlainEngine]:
    return shop(crowd(40, most=60))


def blocks(plans: Sequence[Prepared]) -> list[BlockSql]:
    return [sql for plan in plans for sql in plan.rewritten.blocks]


# --- the same integers ----------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
def test_over_totals_that_were_made_integers_are_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    for case in SOME:
        ours, engine = plans(case)
        for sql, plan in zip(blocks(ours), (b for p in ours for b in p.blocks), strict=True):
            if sql.totals is not None:
                with monkeypatch.context() as patch:
                    patch.setattr(block_statement, "UnitLimits", EveryUnit)
                    before = DUCKDB.block(plan)
                assert of(sql, engine, sql.totals.whole) == of(sql, engine, before.sql), case.id
                compared += 1
    assert compared >= len(SOME)


@pytest.mark.full("measures neighbours or further data sets")
def test_polls_and_their_question_read_the_same_totals() -> None:
    (look, answer), engine = asked(BY_MONTH)
    (votes,), (sums,) = look.rewritten.blocks, answer.rewritten.blocks
    assert votes.totals is not None
    assert sums.totals is not None
    assert votes.totals.queries[0] == sums.totals.queries[0]
    assert votes.totals.more
    assert not sums.totals.more
    for sql in (votes, sums):
        assert sql.totals is not None
        assert of(sql, engine, sql.totals.whole) == of(sql, engine, sql.sql)


def test_wrong_twin_totals_that_are_clipped_before_the_look_are_no_norms() -> None:
    (look, _answer), engine = asked(BY_MONTH)
    (votes,) = look.rewritten.blocks
    assert votes.totals is not None
    (name, query), *others = votes.totals.queries
    assert query.count("> 1048576 THEN 1048576") == 1
    clipped = query.replace("> 1048576 THEN 1048576", "> 2 THEN 2")
    twin = replace(votes.totals, queries=((name, clipped), *others))
    assert of(votes, engine, twin.whole) != of(votes, engine, votes.sql)


# --- the engine -----------------------------------------------------------------------------------

READS = "SELECT COUNT(*) AS p0 FROM totals_1"
MAKES = MadeTotals((("totals_1", "SELECT unnest([1, 2]) AS u"),), READS, more=True)
FINDS = MadeTotals((), READS, more=True)
"""What fails unless the totals are there."""


def counted(engine: DuckDBEngine, made: MadeTotals, stop: Stop) -> int:
    return int(engine.aggregate("SELECT 0 AS p0", 0, 1, KEY, (), stop, None, made).parts[0][0])


def are_kept(engine: DuckDBEngine, stop: Stop) -> bool:
    try:
        return counted(engine, FINDS, stop) == 2
    except EngineFailed:
        return False


@pytest.mark.full("measures neighbours or further data sets")
def test_what_a_question_makes_it_finds_again_until_its_end(engine: DuckDBEngine) -> None:
    stop = Stop()
    with keeping(engine, stop):
        assert counted(engine, MAKES, stop) == 2
        engine.scratch("SELECT 1")  # what is computed between the steps
        assert are_kept(engine, stop)
        assert counted(engine, MAKES, stop) == 2
        key = stop.key
    assert not are_kept(engine, Stop(key=key))


def test_nothing_is_kept_without_a_key_or_behind_the_last_statement(
    engine: DuckDBEngine,
) -> None:
    assert counted(engine, MAKES, Stop()) == 2
    assert not are_kept(engine, Stop())
    stop = Stop(key="mine")
    assert counted(engine, replace(MAKES, more=False), stop) == 2
    assert not are_kept(engine, stop)


@pytest.mark.parametrize("ask", ["aggregate", "rows", "another", "forgotten"])
def test_whoever_else_asks_the_data_finds_nothing_there(
    ask: str,
    engine: DuckDBEngine,
) -> None:
    mine, others = Stop(key="mine"), Stop(key="another")
    assert counted(engine, MAKES, mine) == 2
    match ask:
        case "aggregate":
            engine.aggregate("SELECT 1 AS p0", 0, 1, KEY)
        case "rows":
            engine.rows("SELECT 1", others)
        case "another":
            assert not are_kept(engine, others)
        case _:
            engine.drop_made("another")
            engine.drop_made("mine")
    assert not are_kept(engine, mine)


def test_after_an_error_and_after_a_cancel_nothing_is_there(engine: DuckDBEngine) -> None:
    stop = Stop(key="mine")
    assert counted(engine, MAKES, stop) == 2
    with pytest.raises(EngineFailed):
        counted(engine, replace(MAKES, statement="SELECT error('no') AS p0"), stop)
    assert not are_kept(engine, stop)
    assert counted(engine, MAKES, stop) == 2
    cancelling = threading.Thread(target=_cancelled, args=(engine, stop))
    cancelling.start()
    with pytest.raises(Interrupted):
        counted(engine, replace(MAKES, statement=f"SELECT COUNT(*) AS p0 FROM ({LONG})"), stop)
    cancelling.join()
    stop.requested = False
    assert not are_kept(engine, stop)


def _cancelled(engine: DuckDBEngine, stop: Stop) -> None:
    until(lambda: engine._call is not None and engine._call.stop is stop)
    stop.requested = True


def test_what_is_made_is_one_query_and_no_more_of_it_is_held_than_is_read(
    engine: DuckDBEngine,
) -> None:
    stop = Stop(key="mine")
    with pytest.raises(EngineFailed):
        counted(engine, replace(MAKES, queries=(("totals_1", "DROP TABLE IF EXISTS x"),)), stop)
    assert counted(engine, MAKES, stop) == 2
    other = MadeTotals((("totals_2", "SELECT 1 AS u"),), "SELECT COUNT(*) FROM totals_2", more=True)
    assert counted(engine, other, stop) == 1
    assert not are_kept(engine, stop)


@pytest.mark.full("opens a proxy")
def test_a_pool_drops_what_any_of_its_engines_made(engine: DuckDBEngine) -> None:
    pool, stop = EnginePool(lambda: engine, 1), Stop()
    with keeping(pool, stop):
        key = stop.key
        pool.aggregate("SELECT 0", 0, 1, KEY, (), stop, None, MAKES)
        assert engine._holder == key
    assert not are_kept(engine, Stop(key=key))


class Slow:
    """A connection that takes as long to close as it is let."""

    def __init__(self) -> None:
        self.let, self.closed = threading.Event(), threading.Event()

    def close(self) -> None:
        self.let.wait(30)
        self.closed.set()


class Quick:
    """An instance, and a connection of it, that answers nothing."""

    def cursor(self) -> Quick:
        return self

    def close(self) -> None:
        pass


class AtOnce(threading.Thread):
    """Wrong: who asks waits until it is done."""

    def start(self) -> None:
        super().start()
        self.join()


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("wrong", [False, True], ids=["as it is", "wrong twin"])
def test_nobody_who_is_on_no_grid_waits_until_it_is_dropped(
    wrong: bool,  # noqa: FBT001 - pytest passes it by name
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That would tell whoever cancels how many totals there were."""
    monkeypatch.setattr(duckdb_worker, "Thread", AtOnce if wrong else threading.Thread)
    worker, made = _Worker(WorkerSettings(Sources(None, ()), "1GB")), Slow()
    worker._private, worker._session = Quick(), _Session("mine", made)
    if wrong:
        made.let.set()
    asked = worker.answer(0, "drop_made", (), pinned=False, key="")
    assert list(asked) == [("done", None)]
    assert made.closed.is_set() == wrong
    made.let.set()
    assert list(worker.answer(1, "aggregate", (), pinned=False, key="")) == [("failed", None)]
    assert made.closed.is_set()


# --- a question -----------------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
def test_a_question_in_two_steps_makes_its_totals_once_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[tuple[str, ...]] = []
    right = DuckDBEngine.aggregate

    def recorded(self: DuckDBEngine, *given: Any, **named: Any) -> Exact:
        made = given[7] if len(given) > 7 else None
        assert made is not None
        names.append(tuple(name for name, _ in made.queries))
        exact = right(self, *given, **named)
        assert bool(self._holder) == made.more
        return exact

    monkeypatch.setattr(DuckDBEngine, "aggregate", recorded)
    with opened(tmp_path) as proxy:
        proxy.ask(Request(BY_MONTH, "ana", confirmed=True))
    assert len(names) == 2
    assert names[0][0] == names[1][0]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("stale", [False, True], ids=["as it is", "wrong twin"])
def test_totals_of_another_text_are_others(
    stale: bool,  # noqa: FBT001
    engine: DuckDBEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wrong twin has one name for all totals, so that those of the question before are read."""
    if stale:
        monkeypatch.setattr(block_statement, "_named", lambda what, query: (what, query))
    found, stop = [], Stop(key="mine")
    for sql in (BY_MONTH, SIGNED):
        policy, plain = crowded()
        (*_, answer) = steps(sql, policy, plain, dialect="duckdb", budget=BUDGET)
        (block,) = answer.rewritten.blocks
        assert block.totals is not None
        here = replace(
            block.totals, queries=tuple(_of_few(q) for q in block.totals.queries), more=True
        )
        shape = len(block.keys), block.parts
        over = numbers(engine.aggregate(block.sql, *shape, KEY, (), stop, None, here))
        alone = numbers(
            engine.aggregate(block.sql, *shape, KEY, (), Stop(), None, replace(here, more=False))
        )
        found.append(over == alone)
        engine.aggregate(block.sql, *shape, KEY, (), stop, None, here)
    assert all(found) is not stale


def _of_few(query: tuple[str, str]) -> tuple[str, str]:
    """The totals of a few rows that are written out."""
    day = "DATE '2024-01-01' + i::INTEGER * 9 AS day"
    rows = f"(SELECT i AS login_id, i % 3 AS customer_id, {day} FROM range(40) AS r(i)) AS"
    return query[0], query[1].replace('"logins" AS', rows)
