"""The engine's contract: stoppable, shared, forked; its schema, files and data versions."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines import EngineFailed, Interrupted, TimedOut, supervised
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.engines.duckdb.hardening import private
from dpsql.engines.process import Fallen, fallen
from dpsql.model.errors import Unreachable
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.resources import Database, Limits
from dpsql.model.schema import ForeignKey
from dpsql.model.tree import (
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    decimal,
)
from grammar_tests.engine_kit import (  # noqa: F401  fixtures are used by name
    LONG,
    SECRET,
    SMALL,
    deaf,
    engine,
    file_engine,
    folder,
)
from grammar_tests.waiting import until

# --- stopping ---


def _cancelling(engine: DuckDBEngine) -> threading.Thread:
    def wait() -> None:
        until(lambda: engine._call is not None)
        engine.cancel()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _pid(engine: DuckDBEngine) -> int:
    assert engine._worker is not None
    return engine._worker._process.pid


def test_cancel_interrupts_and_keeps_the_worker(
    engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "GRACE_SECONDS", 60.0)  # also on a loaded machine
    engine.rows("SELECT 1")
    before = _pid(engine)
    thread = _cancelling(engine)
    with pytest.raises(Interrupted) as caught:
        engine.rows(LONG)
    thread.join()
    assert caught.value.__context__ is None
    assert engine.rows("SELECT 1") == [(1,)]
    assert _pid(engine) == before


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.usefixtures("deaf")
def test_cancel_kills_what_ignores_an_interrupt(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    before = _pid(engine)
    for run in (engine.rows, engine.scratch):
        thread = _cancelling(engine)
        with pytest.raises(Interrupted):
            run(LONG)
        thread.join()
    assert engine.rows("SELECT 1") == [(1,)]
    assert _pid(engine) != before


def test_cancel_of_nothing_does_nothing(engine: DuckDBEngine) -> None:
    engine.cancel()
    assert engine.rows("SELECT 1") == [(1,)]


def test_cancel_from_a_signal_handler(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    previous = signal.signal(signal.SIGALRM, lambda *_: engine.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    try:
        with pytest.raises(Interrupted):
            engine.rows(LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert engine.rows("SELECT 1") == [(1,)]


@pytest.mark.full("opens a proxy for each item")
def test_an_exception_while_waiting_leaves_no_stale_reply(engine: DuckDBEngine) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.rows(LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert engine.rows("SELECT 2") == [(2,)]


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("ear", ["listens", "ignores"])
def test_the_time_limit(folder: Path, ear: str, request: pytest.FixtureRequest) -> None:
    if ear == "ignores":
        request.getfixturevalue("deaf")
    limits = Limits(memory="200MB", statement_seconds=0.3)
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), limits) as engine:
        with pytest.raises(TimedOut) as caught:
            engine.rows(LONG)
        assert caught.value.__context__ is None
        assert _answered_at_last(engine) == [(1,)]


def _answered_at_last(engine: DuckDBEngine) -> list[Any]:
    """What comes of a question within a limit that a loaded machine may miss."""
    for _ in range(100):
        with suppress(TimedOut):
            return list(engine.rows("SELECT 1"))
    pytest.fail("nothing is answered any more")


@pytest.mark.full("measures neighbours or further data sets")
def test_a_killed_worker_is_a_failure_and_the_next_call_works(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    victim = _pid(engine)
    threading.Timer(0.2, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(EngineFailed) as caught:
        engine.rows(LONG)
    assert caught.value.__context__ is None
    assert engine.rows("SELECT 1") == [(1,)]


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("asks", [False, True])
def test_a_worker_that_died_while_idle_is_started_again(
    engine: DuckDBEngine, *, asks: bool
) -> None:
    data = engine.schema().identity
    victim = _pid(engine)
    os.kill(victim, signal.SIGKILL)
    assert engine._worker is not None
    engine._worker._process.wait(60)
    if asks:
        engine.ready(data)
    assert engine.rows("SELECT 1") == [(1,)]
    assert _pid(engine) != victim


@pytest.mark.full("starts processes")
def test_a_worker_that_somebody_else_ended_is_told_once(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    fallen()
    victim, worker = _pid(engine), engine._worker
    os.kill(victim, signal.SIGKILL)
    assert worker is not None
    worker._process.wait(60)
    assert fallen() == [Fallen(victim, -signal.SIGKILL)]
    assert fallen() == []
    assert engine.rows("SELECT 1") == [(1,)]  # by another, which is ended here
    engine._drop()
    assert fallen() == []


@pytest.mark.full("measures neighbours or further data sets")
def test_a_worker_that_was_ended_while_it_ran_is_told_too(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    fallen()
    victim = _pid(engine)
    threading.Timer(0.2, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(EngineFailed):
        engine.rows(LONG)
    assert fallen() == [Fallen(victim, -signal.SIGKILL)]


def test_a_worker_dies_with_its_parent(folder: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        engine = DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL)
        engine.rows("SELECT 1")
        os.write(write, str(_pid(engine)).encode())
        threading.Timer(0.2, os._exit, (0,)).start()
        engine.rows(LONG)
    os.waitpid(child, 0)
    worker = int(os.read(read, 20))
    os.close(read)
    os.close(write)
    until(lambda: not _runs(worker))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.full("starts processes")
def test_after_close_nothing_runs(folder: Path) -> None:
    engine = DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL)
    engine.rows("SELECT 1")
    worker = _pid(engine)
    engine.close()
    engine.close()
    assert not _runs(worker)
    with pytest.raises(EngineFailed):
        engine.rows("SELECT 1")


# --- several at once ---


@pytest.mark.full("draws random questions or values")
def test_two_engines_and_many_threads(engine: DuckDBEngine, folder: Path) -> None:
    results: list[Any] = []
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL) as second:

        def work(n: int) -> None:
            chosen = (engine, second)[n % 2]
            results.extend(chosen.rows(f"SELECT {n}, count(*) FROM people"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == [(n, 10) for n in range(16)]


@pytest.mark.full("starts processes")
def test_a_forked_child_starts_its_own_worker(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    parents = _pid(engine)
    with engine._lock:  # as if another thread were in a call
        child = os.fork()
        if child == 0:
            good = engine.rows("SELECT 41 + 1") == [(42,)] and _pid(engine) != parents
            engine.close()
            os._exit(0 if good else 1)
    _child, status = os.waitpid(child, 0)
    assert status == 0
    assert _pid(engine) == parents
    assert engine.rows("SELECT 1") == [(1,)]


# --- schema, files, identity ---


def test_schema(engine: DuckDBEngine) -> None:
    schema = engine.schema()
    people, visits, names = map(schema.table, ("people", "visits", "names"))
    assert people is not None
    assert visits is not None
    assert names is not None
    assert [(c.name, c.type) for c in people.columns] == [
        ("id", INTEGER),
        ("name", VARCHAR),
        ("mood", VARCHAR),
        ("u", UUID),
        ("pay", decimal(10, 2)),
        ("seen", TIMESTAMPTZ),
        ("ns", TIMESTAMP),
        ("tags", None),
        ("tags[]", VARCHAR),
    ]
    assert [c.name for c in people.columns if c.not_null] == ["id", "pay"]
    assert people.columns[2].enum_values == ("sad", "it's")
    assert people.primary_key == ("id",)
    assert people.unique_keys == (("id",), ("id", "name"))
    assert len(people.checks) == 1
    assert "pay" in people.checks[0]
    assert visits.foreign_keys == (ForeignKey(("person",), "people", ("id",)),)
    assert [c.name for c in names.columns] == ["name"]


@pytest.mark.full("opens servers or connects clients")
def test_texts_with_a_collation_have_no_type(tmp_path: Path) -> None:
    path = str(tmp_path / "c.duckdb")
    with duckdb.connect(path) as db:
        db.execute("CREATE TABLE plain (s VARCHAR)")
        db.execute("CREATE TABLE folded (s VARCHAR COLLATE NOCASE, n INTEGER)")
        db.execute("CREATE VIEW through AS SELECT s FROM folded")
    with DuckDBEngine(Database("duckdb", path), SMALL) as engine:
        schema = engine.schema()
    found = {t.name: tuple(c.type for c in t.columns) for t in schema.tables}
    assert found == {"plain": (VARCHAR,), "folded": (None, INTEGER), "through": (None,)}


OF_NUMBERS = FileFormat((FileColumn("a", "BIGINT"),))


@pytest.mark.full("takes half a second and more")
def test_files_and_globs(file_engine: DuckDBEngine) -> None:
    assert file_engine.rows("SELECT a, b FROM parts ORDER BY a") == [(1, "x"), (2, "x")]
    assert file_engine.rows("SELECT sum(a) FROM csv") == [(3,)]
    assert {t.name for t in file_engine.schema().tables} == {"parts", "csv"}


@pytest.mark.full("opens servers or connects clients")
def test_a_csv_field_that_does_not_fit_is_null_and_never_a_failure(tmp_path: Path) -> None:
    lines = [*map(str, range(50_000)), "zoe", "7"]
    (tmp_path / "n.csv").write_text("a\n" + "\n".join(lines) + "\n")
    path = str(tmp_path / "n.csv")
    database = Database("duckdb", None, (("n", path),), formats=(("n", OF_NUMBERS),))
    with DuckDBEngine(database, SMALL) as engine:
        assert engine.rows("SELECT count(*), count(a) FROM n") == [(50_002, 50_001)]
    with duckdb.connect() as db, pytest.raises(duckdb.Error):
        db.execute(f"SELECT count(a) FROM read_csv('{path}')").fetchall()


@pytest.mark.full("opens a proxy for each item")
def test_changed_files_are_another_data_version(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    files = (("t", str(tmp_path / "*.csv")),)
    database = Database("duckdb", None, files, formats=(("t", OF_NUMBERS),))
    with DuckDBEngine(database, SMALL) as engine:
        first = engine.schema().identity
        assert first == engine.schema().identity
        (tmp_path / "more.csv").write_text("a\n2\n")
        for run in (engine.rows, lambda sql: engine.aggregate(sql, 0, 1, 0)):
            for _again in range(2):
                with pytest.raises(Unreachable, match="changed"):
                    run("SELECT sum(a) FROM t")
        assert engine.schema().identity != first
        assert engine.rows("SELECT sum(a) FROM t") == [(3,)]


@pytest.mark.full("opens servers or connects clients")
def test_identity_of_a_database_changes_with_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "d.duckdb")
    identities = set()
    for n in range(2):
        with duckdb.connect(path) as db:
            db.execute(f"CREATE TABLE t{n} (a INTEGER)")
        with DuckDBEngine(Database("duckdb", path), SMALL) as engine:
            identities |= {engine.schema().identity, engine.schema().identity}
    assert len(identities) == 2


@pytest.mark.full("opens a proxy for each item")
def test_unreachable_names_the_path_and_the_way_out(tmp_path: Path) -> None:
    missing, broken, held = (tmp_path / name for name in ("no.duckdb", "bad.duckdb", "held.duckdb"))
    broken.write_text(SECRET * 1000)
    with duckdb.connect(str(held)) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for path, words in ((missing, "does not exist"), (broken, "cannot be read"), (held, "wr")):
            with DuckDBEngine(Database("duckdb", str(path)), SMALL) as engine:
                for _again in range(2):
                    with pytest.raises(Unreachable, match=words) as caught:
                        engine.schema()
                    assert str(path) in str(caught.value)
                    assert caught.value.__context__ is None
                    assert SECRET not in str(caught.value)
    with DuckDBEngine(Database("duckdb", str(held)), SMALL) as engine:
        assert engine.rows("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("pattern", ["none*.parquet", "other.csv.txt"])
def test_files_that_are_not_there_or_not_known(folder: Path, pattern: str) -> None:
    (folder / "other.csv.txt").write_text("a\n1\n")
    database = Database("duckdb", None, (("t", str(folder / pattern)),))
    with DuckDBEngine(database, SMALL) as engine, pytest.raises(Unreachable) as caught:
        engine.rows("SELECT 1")
    assert pattern in str(caught.value)
    assert ("matches no file" in str(caught.value)) == ("*" in pattern)
    with pytest.raises(CannotOpen):
        private(Sources(None, (("t", str(folder / pattern)),)), "200MB")
