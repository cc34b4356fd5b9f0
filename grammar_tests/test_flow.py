"""Many public rows flow: no door holds all of them, unless it must, and then not too many."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import active_count
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.engines import EngineFailed, Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire import backend
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Parse, Query, Sync
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.stored import AHEAD, Flow, Room, Share
from dpsql.model.table import Table
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop
from grammar_tests.session_kit import Client, asked, read_parts

DIGITS = "(VALUES " + ", ".join(f"({n})" for n in range(10)) + ")"


def rows(places: int) -> str:
    """A question over public rows alone, ten for one more place: numbers and a text."""
    terms = " + ".join(f"d{n}.x * {10**n}" for n in range(places))
    tables = " CROSS JOIN ".join(f"{DIGITS} AS d{n}(x)" for n in range(places))
    return f"SELECT {terms} AS n, 'row' AS t FROM {tables}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("flow"))


@pytest.fixture(scope="module")
def opened(folder: Path) -> Iterator[Proxy]:
    with Proxy.open(str(folder)) as found:
        yield found


@pytest.fixture
def proxy(opened: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A proxy for which 100 values are few, and 10,000 too many to be kept."""
    monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", 100)
    limits = replace(opened.policy.limits, max_result_cells=10_000)
    monkeypatch.setattr(opened.compiler, "policy", replace(opened.policy, limits=limits))
    return opened


# --- doors ---


def test_few_rows_do_not_flow(proxy: Proxy) -> None:
    answer = proxy.ask(replace(request(rows(1)), flowing=True))
    assert answer.flow is None
    assert len(answer.rows) == 10


@pytest.mark.parametrize("places", [2, 3])
def test_what_flows_has_the_rows_of_what_is_kept(proxy: Proxy, places: int) -> None:
    kept = proxy.ask(request(rows(places)))
    flowing = proxy.ask(replace(request(rows(places)), flowing=True))
    assert flowing.flow is not None
    found = [row for table in flowing.flow.tables() for row in table]
    assert found == list(kept.rows)
    assert sorted(n for n, _ in found) == list(range(10**places))


def test_more_than_may_be_kept_is_refused_with_what_to_do(proxy: Proxy) -> None:
    with pytest.raises(Refused) as caught:
        proxy.ask(request(rows(4)))
    assert caught.value.reason is Reason.TOO_LARGE
    assert "CSV" in str(caught.value.facts["fix"])
    assert proxy.ask(request(rows(1))).rows


COPY = f"COPY ({rows(4)}) TO STDOUT"
FLOWING: dict[str, Callable[[], tuple[object, ...]]] = {
    "simple": lambda: (Query(rows(4)),),
    "extended": lambda: asked(rows(4)),
    "copy": lambda: (Query(COPY),),
    "prepared": lambda: (Query(f"PREPARE p AS {rows(4)}; EXECUTE p; DEALLOCATE p"),),
}


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("door", FLOWING.values(), ids=FLOWING)
def test_the_wire_passes_all_rows_on(proxy: Proxy, door: Callable[[], tuple[object, ...]]) -> None:
    client = Client(proxy)
    client.send(*door())  # type: ignore[arg-type]
    assert len(client.of(b"D") + client.of(b"d")) == 10_000
    assert [tag for tag in client.tags if "10000" in tag]
    client.send(*door())  # type: ignore[arg-type]
    assert not client.of(b"E")


CURSOR = f"DECLARE c SCROLL CURSOR WITH HOLD FOR {rows(4)}"


@pytest.mark.full("opens servers or connects clients")
def test_rows_that_are_fetched_some_at_a_time_are_all_there(proxy: Proxy) -> None:
    client, found = Client(proxy), list[int]()
    client.send(Query("BEGIN"))
    client.send(Parse("", rows(4), ()), Bind("p", "", (), (), ()), Execute("p", 3000), Sync())
    while client.of(b"s"):
        found += [int(row[0] or 0) for row in client.rows]
        client.send(Execute("p", 3000), Sync())
    found += [int(row[0] or 0) for row in client.rows]
    assert len(found) == 10_000
    assert sorted(found) == list(range(10_000))


@pytest.mark.full("opens servers or connects clients")
def test_a_cursor_goes_both_ways_through_more_than_may_be_kept(proxy: Proxy) -> None:
    client = Client(proxy)
    client.send(*asked(rows(4)))
    there = [row[0] for row in client.rows]

    def fetched(what: str) -> list[str | None]:
        client.query(f"FETCH {what} FROM c")
        return [row[0] for row in client.rows]

    client.query(CURSOR)
    assert fetched("9000") == there[:9000]
    assert fetched("BACKWARD 8500") == there[499:8999][::-1]
    assert fetched("ABSOLUTE -1") == there[-1:]
    assert fetched("ABSOLUTE 8193") == there[8192:8193]
    assert fetched("ALL") == there[8193:]
    assert fetched("BACKWARD ALL") == there[::-1]
    before = proxy.vault._room.taken.total()
    client.query("CLOSE c")
    assert proxy.vault._room.taken.total() < before
    client.query(CURSOR)
    fetched("1")
    client.session.end()
    assert proxy.vault._room.taken.total() < before


@pytest.mark.full("opens servers or connects clients")
def test_files_have_a_limit_and_an_owner_a_share_of_it(proxy: Proxy) -> None:
    limits = replace(proxy.policy.limits, max_result_files="40kB")
    proxy.adopt(replace(proxy.policy, limits=limits))
    gc.collect()
    client = Client(proxy)
    client.send(Parse("", rows(4), ()), Bind("", "", (), (), ()), Execute("", 10), Sync())
    assert client.error["C"] == "54001"
    assert "max_result_files" in client.error["D"]
    assert proxy.vault._room.taken.total() == 0
    client.send(*asked(rows(4)))
    assert len(client.rows) == 10_000
    room, ends = Room(), [100, 50, 50]
    for owner, size in zip("aab", ends, strict=True):
        share = Share(room, 200, owner, 2)
        if room.taken[owner]:
            with pytest.raises(Refused):
                share.take(size)
        else:
            share.take(size)


@pytest.mark.full("opens servers or connects clients")
def test_the_database_api_has_all_rows_and_few_of_them_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", 100)
    small = folder.with_name("cells.toml")
    small.write_text(folder.read_text().replace("[limits]", "[limits]\nmax_result_cells = 100"))
    with dpsql.connect(str(small), analyst="ana") as connection:
        cursor = connection.cursor().execute(rows(4))
        assert cursor.rowcount == 10_000
        first = cursor.fetchone()
        assert first is not None
        some = cursor.fetchmany(9000)
        rest = list(cursor)
        assert sorted(n for n, _ in (first, *some, *rest)) == list(range(10_000))
        assert len(cursor.errors) == len(cursor.margins) == 10_000
        assert cursor.errors[7] == (None, None)
        cursor.scroll(5, "absolute")
        assert cursor.fetchone() == some[4]
        cursor.scroll(0, "absolute")
        assert cursor.fetchnumpy()["n"].sum() == 10_000 * 9999 // 2
        other = connection.cursor().execute(rows(1))  # while the first is being read
        assert other.rowcount == 10
        with pytest.raises(dpsql.Error):
            cursor.executemany(rows(4), [()])


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(("style", "head"), [("csv", 1), ("jsonl", 0), ("json", 0)])
def test_the_command_line_passes_all_rows_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, style: str, head: int
) -> None:
    monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", 100)
    arguments = ["query", "--policy", str(folder), "--analyst", "ana", "--format", style]
    found = CliRunner().invoke(main, [*arguments, rows(3)])
    assert found.exit_code == 0
    assert len(found.stdout.splitlines()) == 1000 + head


@pytest.mark.full("starts processes")
def test_parquet_and_json_hold_what_they_do_of_few_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = rows(3).replace("AS n,", "AS n, d0.x::HUGEINT * 1000000000000000000000 AS h,")
    arguments = ["query", "--policy", str(folder), "--analyst", "ana", "-o"]
    for style in ("json", "parquet"):
        kept, flowed = tmp_path / f"kept.{style}", tmp_path / f"flowed.{style}"
        for target, few in ((kept, 1_000_000), (flowed, 100)):
            monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", few)
            found = CliRunner().invoke(main, [*arguments, str(target), "--format", style, huge])
            assert found.exit_code == 0, found.stderr
        if style == "json":
            one, other = (json.loads(path.read_text()) for path in (kept, flowed))
        else:
            tables = [pq.read_table(path) for path in (kept, flowed)]
            assert tables[0].schema == tables[1].schema
            one, other = (table.to_pylist() for table in tables)
        assert sorted(one, key=str) == sorted(other, key=str)
        assert len(one) == 1000


@pytest.mark.full("starts processes")
def test_the_command_line_says_how_to_have_all_rows(folder: Path) -> None:
    text = folder.read_text()
    small = folder.with_name("small.toml")
    small.write_text(text.replace("[limits]", "[limits]\nmax_result_cells = 100"))
    arguments = ["query", "--policy", str(small), "--analyst", "ana", "--format"]
    assert "as CSV" in CliRunner().invoke(main, [*arguments, "markdown", rows(3)]).stderr
    assert CliRunner().invoke(main, [*arguments, "csv", rows(3)]).exit_code == 0


# --- memory and ends ---


@pytest.mark.full("processes are started and killed")
def test_memory_does_not_grow_with_the_rows(proxy: Proxy) -> None:
    proxy.ask(request(rows(1)))
    tracemalloc.start()
    try:
        count = 0
        for part in read_parts(Client(proxy).session, Query(rows(6))):
            count += part.count(b"row")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 10**6
    assert peak < 40 << 20


MANY, FEW_BYTES = 80_000, 6 << 20
"""Rows, and less than they take in memory."""
SOME = f"{rows(5)} LIMIT {MANY}"


def peak_of(work: Callable[[], object]) -> int:
    """The most bytes of Python objects that there were at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.full("starts processes")
def test_memory_does_not_grow_with_the_rows_of_a_cursor(proxy: Proxy) -> None:
    client, count = Client(proxy), 0
    client.send(Query("BEGIN"))
    client.send(Parse("", SOME, ()), Bind("p", "", (), (), ()), Sync())

    def fetch() -> None:
        nonlocal count
        more = True
        while more:
            sent = b"".join(read_parts(client.session, Execute("p", 10_000)))
            count += sent.count(b"row")
            more = sent.endswith(backend.PORTAL_SUSPENDED)

    assert peak_of(fetch) < FEW_BYTES
    assert count == MANY


@pytest.mark.full("starts processes")
def test_memory_does_not_grow_with_the_rows_of_the_database_api(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", 100)
    with dpsql.connect(str(folder), analyst="ana") as connection:
        cursor = connection.cursor().execute(rows(3))

        def fetch() -> None:
            assert sum(1 for _ in cursor.execute(SOME)) == MANY

        assert peak_of(fetch) < FEW_BYTES


@pytest.mark.full("opens a proxy for each item")
def test_rows_that_are_kept_take_more(proxy: Proxy) -> None:
    """The wrong twin: the same rows in memory."""
    limits = replace(proxy.policy.limits, max_result_cells=10**6)
    proxy.adopt(replace(proxy.policy, limits=limits))
    kept: list[object] = []
    assert peak_of(lambda: kept.extend(proxy.ask(request(SOME)).rows)) > FEW_BYTES


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("style", ["parquet", pytest.param("json", marks=pytest.mark.campaign)])
def test_memory_does_not_grow_with_the_rows_of_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    monkeypatch.setattr("dpsql.vault.public_rows.FEW_CELLS", 100)
    arguments = ["query", "--policy", str(folder), "--analyst", "ana", "--format", style, "-o"]

    def write(sql: str) -> None:
        found = CliRunner().invoke(main, [*arguments, str(tmp_path / "rows"), sql])
        assert found.exit_code == 0

    write(rows(3))  # what is imported
    assert peak_of(lambda: write(SOME)) < FEW_BYTES


def test_who_leaves_early_leaves_the_engine_free(proxy: Proxy) -> None:
    threads = active_count()
    answer = proxy.ask(replace(request(rows(6)), flowing=True))
    assert answer.flow is not None
    tables = answer.flow.tables()
    next(tables)
    tables.close()  # type: ignore[attr-defined]
    assert active_count() == threads
    assert proxy.ask(request(rows(1))).rows


def test_a_flow_is_cancelled_while_somebody_reads_slowly(proxy: Proxy) -> None:
    stop = Stop()
    answer = proxy.ask(replace(request(rows(6)), flowing=True), stop)
    assert answer.flow is not None
    tables = answer.flow.tables()
    next(tables)
    stop.requested = True
    with pytest.raises(Failed) as caught:
        list(tables)
    assert caught.value.cancelled
    assert proxy.ask(request(rows(1))).rows


def test_a_reader_is_never_outrun() -> None:
    handed: list[int] = []

    def each(take: Callable[[Table], None]) -> None:
        for n in range(50):
            take(Table(1, [[n]]))
            handed.append(n)

    tables = Flow(each, lambda: None, Share(Room(), 0)).tables()
    for n, _table in enumerate(tables):
        assert len(handed) <= n + AHEAD + 2


@pytest.mark.full("opens servers or connects clients")
def test_a_flow_that_fails_says_so() -> None:
    def each(take: Callable[[Table], None]) -> None:
        take(Table(1, [[1]]))
        raise EngineFailed

    tables = Flow(each, lambda: None, Share(Room(), 0)).tables()
    next(tables)
    with pytest.raises(EngineFailed):
        next(tables)


@pytest.mark.full("starts processes")
def test_what_a_reader_raises_ends_the_call_and_not_the_worker(proxy: Proxy) -> None:
    pool: Any = proxy.vault.engine
    engine: DuckDBEngine = pool._first
    worker = engine._worker

    def take(_table: Table) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engine.each("SELECT * FROM range(100000000)", take)
    assert engine._worker is worker
    assert engine.rows("SELECT 1") == [(1,)]
