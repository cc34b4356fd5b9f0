"""Rows over public tables alone are run once for each state of the data, and kept while small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.answering.vault import PublicRows
from dpsql.engines import Stop
from dpsql.model.table import Table
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import WatchedEngine, request, shop, watched

CODES = "SELECT code FROM countries ORDER BY code"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Proxy, WatchedEngine]]:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy:
        yield proxy, engine


def runs(engine: WatchedEngine) -> int:
    return sum("code" in sql for kind, sql in engine.calls if kind == "rows")


def test_the_same_rows_are_run_once(opened: tuple[Proxy, WatchedEngine]) -> None:
    proxy, engine = opened
    first = proxy.ask(request(CODES)).rows
    assert proxy.ask(request(CODES)).rows == first
    assert runs(engine) == 1
    assert proxy.ask(request(CODES.replace("ORDER BY code", "ORDER BY code DESC"))).rows != first
    assert runs(engine) == 2


def test_after_a_refresh_they_are_run_anew(opened: tuple[Proxy, WatchedEngine]) -> None:
    proxy, engine = opened
    proxy.ask(request(CODES))
    proxy.refresh()
    engine.calls.clear()
    proxy.ask(request(CODES))
    assert runs(engine) == 1


class Rows:
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
    engine, known = Rows(rows), PublicRows()
    for _ in range(2):
        assert known.few(engine, "SELECT 1", 10, Stop()) is rows  # type: ignore[arg-type]
    assert engine.asked == asked
