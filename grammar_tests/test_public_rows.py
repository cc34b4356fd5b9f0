"""Rows over public tables alone are run once for each state of the data, and kept while small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dpsql.engines import ScratchTable, Stop
from dpsql.model.algebra import Field
from dpsql.model.stored import Room
from dpsql.model.table import Table
from dpsql.model.tree import DOUBLE, VARCHAR, Cast, Ref
from dpsql.proxy import Proxy
from dpsql.vault.public_rows import PublicRows
from grammar_tests import world
from grammar_tests.bound import shop as bound
from grammar_tests.laws import PlainEngine, Rows, compiled
from grammar_tests.proxy_kit import WatchedEngine, request, shop, watched

CODES = "SELECT code FROM countries ORDER BY code"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Proxy, WatchedEngine]]:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy:
        yield proxy, engine


def runs(engine: WatchedEngine) -> int:
    return sum("code" in sql for kind, sql in engine.calls if kind == "rows")


@pytest.mark.full("opens a proxy for each item")
def test_the_same_rows_are_run_once(opened: tuple[Proxy, WatchedEngine]) -> None:
    proxy, engine = opened
    first = proxy.ask(request(CODES)).rows
    assert proxy.ask(request(CODES)).rows == first
    assert runs(engine) == 1
    assert proxy.ask(request(CODES.replace("ORDER BY code", "ORDER BY code DESC"))).rows != first
    assert runs(engine) == 2


@pytest.mark.full("opens a proxy for each item")
def test_after_a_refresh_they_are_run_anew(opened: tuple[Proxy, WatchedEngine]) -> None:
    proxy, engine = opened
    proxy.ask(request(CODES))
    proxy.refresh()
    engine.calls.clear()
    proxy.ask(request(CODES))
    assert runs(engine) == 1


class Rowed:
    """An engine that has these rows."""

    def __init__(self, rows: Table | None) -> None:
        self.rows, self.asked = rows, 0

    def few(self, _sql: str, _cells: int, _stop: Stop) -> Table | None:
        self.asked += 1
        return self.rows


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        (Table(1, [["a"]]), 1),
        (None, 2),  # too many
        (Table(1, [["x" * (65 << 20)]]), 2),  # too large
        (Table(1, [[[1, 2]]]), 2),  # of a size that nobody knows
    ],
)
def test_what_is_large_is_not_kept(rows: Table | None, asked: int) -> None:
    engine, known = Rowed(rows), PublicRows(Room())
    for _ in range(2):
        assert known.few(engine, "SELECT 1", 10, Stop()) is rows  # type: ignore[arg-type]
    assert engine.asked == asked


# --- what the compiler asks of public tables and constants ---


class Listening(PlainEngine):
    """An engine that tells what it was asked."""

    def __init__(self) -> None:
        super().__init__(world.build(world.well_behaved(), constraints=True))
        self.asked: list[str] = []

    def rows(self, sql: str) -> Rows:
        self.asked.append(sql)
        return super().rows(sql)

    def scratch(self, sql: str, tables: Sequence[ScratchTable] = ()) -> Rows:
        self.asked.append(f"{sql} {tables!r}")
        return super().scratch(sql, tables)

    evaluate = scratch


JOINED = (
    "SELECT CAST(vip AS VARCHAR) AS v, SUM(age) FROM customers JOIN products ON city = category"
    " WHERE CAST(vip AS VARCHAR) <> 'x' GROUP BY v"
)


@pytest.mark.full("measures neighbours or further data sets")
def test_no_query_asks_the_same_twice_and_its_repetition_nothing() -> None:
    engine, policy = Listening(), bound()[0]
    first = compiled(JOINED, policy, engine)
    assert len(engine.asked) == len(set(engine.asked)) >= 2
    assert any("FROM given" in sql for sql in engine.asked)
    assert any("MAX(n)" in sql for sql in engine.asked)
    engine.asked.clear()
    assert compiled(JOINED, policy, engine) == first
    assert engine.asked == []
    engine.public.forget()
    assert compiled(JOINED, policy, engine) == first
    assert any("MAX(n)" in sql for sql in engine.asked)


def test_equal_numbers_of_different_texts_are_not_taken_for_each_other() -> None:
    engine = Listening()
    text = (Cast(Ref(1, DOUBLE), VARCHAR),), (Field(1, "x", DOUBLE),)
    assert engine.public.evaluate(*text, [(0.0,)]) == [("0.0",)]
    assert engine.public.evaluate(*text, [(-0.0,)]) == [("-0.0",)]
