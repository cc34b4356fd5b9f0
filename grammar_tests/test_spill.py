"""What statements spill: the same integers, in a folder of the owner's, gone with the process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines import EngineFailed, MadeTotals, Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import Sources
from dpsql.engines.duckdb.hardening import Spill, private
from dpsql.engines.duckdb.spill_folder import claimed
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.resources import Database, Limits
from dpsql.model.vocabulary import Exact
from dpsql.owner.reminders import written_as_they_are
from dpsql.policy.load import load
from dpsql.preparation import engine_kinds
from grammar_tests.bound import shop
from grammar_tests.engine_kit import SECRET, folder  # noqa: F401  a fixture
from grammar_tests.laws import SAMPLING_KEY, compiled
from grammar_tests.proxy_kit import policy
from grammar_tests.test_engines import ATTACKS
from grammar_tests.waiting import until

KEY, DEVICES, ROWS, OWNERS = 7, 12, 1_500_000, 0o700
LITTLE = "40MB"
MANY = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, country TEXT);
INSERT INTO customers SELECT i, ['NO', 'SE', 'IT'][1 + i % 3] FROM range(1, 150001) AS r(i);
CREATE TABLE events (event_id INTEGER, customer_id INTEGER NOT NULL, device TEXT, duration BIGINT);
INSERT INTO events SELECT i, 1 + hash(i) % 150000, 'device ' || hash(i + 7) % 12, i % 5000
    FROM range(450000) AS r(i);
"""
QUESTION = "SELECT device, COUNT(*) AS n, SUM(duration) AS s FROM events GROUP BY device"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("spill") / "shop.duckdb")
    with duckdb.connect(path) as db:
        db.execute(MANY)
    return path


def opened(database: str, folder: Path | None, **limits: Any) -> DuckDBEngine:
    spill = None if folder is None else str(folder)
    return DuckDBEngine(Database("duckdb", database, spill=spill), Limits(**limits))


def asked(engine: DuckDBEngine) -> Exact:
    """The integers of a private statement."""
    (block,) = compiled(QUESTION, *shop()).rewritten.blocks
    return engine.aggregate(block.sql, len(block.keys), block.parts, SAMPLING_KEY)


def numbers(exact: Exact) -> dict[str, list[int]]:
    return {str(k): [int(part[n]) for part in exact.parts] for n, k in enumerate(exact.keys)}


def pages(folder: Path) -> bytes:
    """All that is spilled now; files may go meanwhile."""
    read = list[bytes]()
    for path in sorted(folder.glob("*/*")):
        with suppress(FileNotFoundError):
            read.append(path.read_bytes())
    return b"".join(read)


def is_gone(folder: Path) -> bool:
    """Whether the table leaves the disk, which DuckDB's threads see to when it is dropped."""
    return until(lambda: KNOWN.encode() not in pages(folder))


KNOWN = "a name of thirty-two bytes, or so"
KEPT = MadeTotals(
    (("totals_1", f"SELECT '{KNOWN}' || hash(i) % 9 AS name, i * i AS u FROM range({ROWS}) r(i)"),),
    "SELECT COUNT(*) AS p0 FROM totals_1",
    more=True,
)
"""A table that a worker keeps, and that does not fit into its memory."""


def keep(engine: DuckDBEngine) -> int:
    """Have the worker keep it, and count its rows."""
    (rows,) = engine.aggregate("", 0, 1, KEY, stop=Stop(key="q"), totals=KEPT).parts
    return int(rows[0])


def killed(engine: DuckDBEngine) -> None:
    """Have the worker ended by a signal, of which nobody has heard yet."""
    assert engine._worker is not None
    os.kill(engine._worker._process.pid, signal.SIGKILL)
    engine._worker._process.wait()


# --- the same integers ----------------------------------------------------------------------------


@pytest.mark.full("further data sets, and all their neighbours")
def test_what_is_spilled_changes_no_integer(database: str, tmp_path: Path) -> None:
    with opened(database, None) as ample:
        expected = numbers(asked(ample))
    assert len(expected) == DEVICES
    with opened(database, tmp_path / "spill", memory=LITTLE) as spilling:
        assert numbers(asked(spilling)) == expected


@pytest.mark.full("starts processes")
def test_without_a_folder_or_without_room_in_it_the_same_statement_fails(
    database: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    for place in (None, tmp_path):
        with opened(database, place, memory=LITTLE, max_spill_files="100kB") as engine:
            with pytest.raises(EngineFailed) as caught:
                asked(engine)
            assert (caught.value.args, caught.value.__context__) == ((), None)
            assert engine.rows("SELECT 1") == [(1,)]


# --- what is there, and until when ----------------------------------------------------------------


@pytest.mark.full("processes are started and killed")
def test_what_a_killed_worker_spilled_is_gone_when_the_next_starts(
    database: str, tmp_path: Path
) -> None:
    folder = tmp_path / "spill"
    with opened(database, folder, memory=LITTLE) as first:
        assert keep(first) == ROWS
        assert KNOWN.encode() in pages(folder)  # as it is: nobody else may read the folder
        assert folder.stat().st_mode & 0o777 == OWNERS
        with opened(database, folder, memory=LITTLE) as second:
            second.rows("SELECT 1")
            assert KNOWN.encode() in pages(folder)  # what a living worker has stays its own
            assert keep(first) == ROWS
            killed(first)
            assert KNOWN.encode() in pages(folder)
        with opened(database, folder) as third:
            third.rows("SELECT 1")
            assert len(list(folder.iterdir())) == 1
            assert pages(folder) == b""
    assert list(folder.iterdir()) == []


@pytest.mark.full("starts processes")
def test_a_question_that_ends_and_an_engine_that_closes_leave_nothing(
    database: str, tmp_path: Path
) -> None:
    with opened(database, tmp_path / "spill", memory=LITTLE) as engine:
        keep(engine)
        engine.drop_made("q")
        assert is_gone(tmp_path / "spill")
        keep(engine)
        killed(engine)
        engine.rows("SELECT 1")
        assert pages(tmp_path / "spill") == b""
        keep(engine)
    assert list((tmp_path / "spill").iterdir()) == []


def test_wrong_twin_a_folder_that_is_not_locked_is_taken_from_who_has_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    unlocked = tmp_path / "dpsql-spill-1"
    unlocked.mkdir()
    (unlocked / "of somebody").touch()
    (tmp_path / "of the owner").touch()
    own = Path(claimed(str(tmp_path)))
    assert sorted(tmp_path.iterdir()) == sorted([own, tmp_path / "of the owner"])
    assert Path(claimed(str(tmp_path))) != own
    assert own.exists()


# --- who may read it, and what may be read --------------------------------------------------------


@pytest.mark.full("starts processes")
def test_a_folder_that_is_not_the_owners_alone_is_refused(database: str, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o750)
    (tmp_path / "file").touch(0o600)
    (tmp_path / "own").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    for name in ("open", "file", "link", "missing/spill"):
        said = rf"{name} is no folder .* chmod 700\.$"
        with opened(database, tmp_path / name) as engine, pytest.raises(Unreachable, match=said):
            engine.rows("SELECT 1")


@pytest.mark.full("starts processes")
def test_an_instance_that_spills_reads_nothing_else(folder: Path, tmp_path: Path) -> None:
    for name in ("own", "others"):
        (tmp_path / name).mkdir()
    (tmp_path / "others" / "spilled").write_text(SECRET)
    spill = Spill(str(tmp_path / "own"), "1GB")
    instance = private(Sources(str(folder / "shop.duckdb"), ()), "200MB", spill).connection
    others = {"other": folder / "other.csv", "spilled": tmp_path / "others" / "spilled"}
    attacks = [a for a in ATTACKS if "{" in a and "enable_logging" not in a]  # S14 has that one
    attacks += ["SELECT * FROM read_text('{spilled}')", "SET temp_directory = ''"]
    with instance.cursor() as cursor:
        for attack in attacks:
            with pytest.raises(duckdb.Error):
                cursor.execute(attack.format(folder=folder, **others)).fetchall()
    instance.close()


def test_the_owner_says_so_and_of_duckdb_alone(tmp_path: Path) -> None:
    said = 'path = "shop.duckdb"\nspill_unencrypted = "spilled"'
    limit = "[limits]", '[limits]\nmax_spill_files = "2GB"'
    draft = load(str(policy(tmp_path, ('path = "shop.duckdb"', said), limit)))
    assert draft.database.spill == str(tmp_path / "spilled")
    assert draft.limits.max_spill_files == "2GB"
    (reminder,) = written_as_they_are(draft)
    assert str(tmp_path / "spilled") in reminder.message
    assert reminder.line == draft.lines.of(("database", "spill_unencrypted"))
    assert written_as_they_are(load(str(policy(tmp_path)))) == ()
    text = said.replace('path = "shop.duckdb"', 'dsn = "host=h"')
    others = policy(tmp_path, ('path = "shop.duckdb"', text), ('"duckdb"', '"postgres"'))
    with pytest.raises(PolicyError, match="The engine postgres has no key spill_unencrypted"):
        engine_kinds.opened(load(str(others)))
