"""Many public rows flow: no door holds all of them, unless it must, and then not too many."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import active_count

import pytest
from click.testing import CliRunner

from dpsql.engines import EngineFailed, Stop
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Parse, Query, Sync
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.flow import AHEAD, Flow
from dpsql.model.table import Table
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop
from grammar_tests.session_kit import Client, asked

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
    monkeypatch.setattr("dpsql.answering.vault.FEW_CELLS", 100)
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
    assert "COPY" in str(caught.value.facts["fix"])
    assert proxy.ask(request(rows(1))).rows


COPY = f"COPY ({rows(4)}) TO STDOUT"
FLOWING: dict[str, Callable[[], tuple[object, ...]]] = {
    "simple": lambda: (Query(rows(4)),),
    "extended": lambda: asked(rows(4)),
    "copy": lambda: (Query(COPY),),
    "prepared": lambda: (Query(f"PREPARE p AS {rows(4)}; EXECUTE p; DEALLOCATE p"),),
}


@pytest.mark.parametrize("door", FLOWING.values(), ids=FLOWING)
def test_the_wire_passes_all_rows_on(proxy: Proxy, door: Callable[[], tuple[object, ...]]) -> None:
    client = Client(proxy)
    client.send(*door())  # type: ignore[arg-type]
    assert len(client.of(b"D") + client.of(b"d")) == 10_000
    assert [tag for tag in client.tags if "10000" in tag]
    client.send(*door())  # type: ignore[arg-type]
    assert not client.of(b"E")


CURSOR = f"DECLARE c SCROLL CURSOR FOR {rows(4)}"
KEPT: dict[str, tuple[object, ...]] = {
    "some at a time": (Parse("", rows(4), ()), Bind("", "", (), (), ()), Execute("", 10), Sync()),
    "cursor": (Query("BEGIN"), Query(CURSOR), Query("FETCH 1 FROM c")),
}


@pytest.mark.parametrize("door", KEPT.values(), ids=KEPT)
def test_what_the_wire_must_keep_is_bounded(proxy: Proxy, door: tuple[object, ...]) -> None:
    client = Client(proxy)
    client.send(*door)  # type: ignore[arg-type]
    assert client.error["C"] == "54001"
    assert "COPY" in client.error["H"]
    client.send(Query("ROLLBACK"))
    client.send(*asked(rows(3), limit=10))
    assert len(client.rows) == 10


@pytest.mark.parametrize(("style", "head"), [("csv", 1), ("jsonl", 0)])
def test_the_command_line_passes_all_rows_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, style: str, head: int
) -> None:
    monkeypatch.setattr("dpsql.answering.vault.FEW_CELLS", 100)
    arguments = ["query", "--policy", str(folder), "--analyst", "ana", "--format", style]
    found = CliRunner().invoke(main, [*arguments, rows(3)])
    assert found.exit_code == 0
    assert len(found.stdout.splitlines()) == 1000 + head


def test_the_command_line_says_how_to_have_all_rows(folder: Path) -> None:
    text = folder.read_text()
    small = folder.with_name("small.toml")
    small.write_text(text.replace("[limits]", "[limits]\nmax_result_cells = 100"))
    arguments = ["query", "--policy", str(small), "--analyst", "ana", "--format"]
    assert "--format csv" in CliRunner().invoke(main, [*arguments, "json", rows(3)]).stderr
    assert CliRunner().invoke(main, [*arguments, "csv", rows(3)]).exit_code == 0


# --- memory and ends ---


def test_memory_does_not_grow_with_the_rows(proxy: Proxy) -> None:
    proxy.ask(request(rows(1)))
    tracemalloc.start()
    try:
        count = 0
        for part in Client(proxy).session.handle([Query(rows(6))]):
            count += part.count(b"row")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 10**6
    assert peak < 40 << 20


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
    stop.wanted = True
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

    tables = Flow(each, lambda: None).tables()
    for n, _table in enumerate(tables):
        assert len(handed) <= n + AHEAD + 2


def test_a_flow_that_fails_says_so() -> None:
    def each(take: Callable[[Table], None]) -> None:
        take(Table(1, [[1]]))
        raise EngineFailed

    tables = Flow(each, lambda: None).tables()
    next(tables)
    with pytest.raises(EngineFailed):
        next(tables)


def test_what_a_reader_raises_ends_the_call_and_not_the_worker(proxy: Proxy) -> None:
    engine = proxy.vault.engine
    assert isinstance(engine, DuckDBEngine)
    worker = engine._worker

    def take(_table: Table) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        engine.each("SELECT * FROM range(100000000)", take)
    assert engine._worker is worker
    assert engine.rows("SELECT 1") == [(1,)]
