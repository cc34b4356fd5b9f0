"""`dpsql publish`, killed at any point: no half folder, and the next run ends it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.proxy import Proxy
from dpsql.systems.releases.signed_files import new_folder
from grammar_tests.proxy_kit import BY_COUNTRY, shop
from grammar_tests.test_releases import verify

TABLES = f"""
-- name: by_country
{BY_COUNTRY};
-- name: orders
SELECT status, COUNT(*) AS n FROM orders GROUP BY status;
-- name: middle
SELECT MEDIAN(age) AS age FROM customers;
"""
PROGRAM = """
import os, signal, sys
at, seen = int(sys.argv.pop(1)), []
def event(name, given):
    writes = name == "open" and isinstance(given[1], str) and set(given[1]) & set("wax+")
    if name in ("sqlite3.connect", "os.mkdir", "os.rename") or writes:
        seen.append(f"{name} {given[0]}")
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(event)
from dpsql.interfaces.cli import main
try:
    main()
finally:
    print(*seen, sep="\\n", file=sys.stderr)
"""
"""The command line, killed before the event of this number: a ledger is opened, a file is made."""


def run(folder: Path, at: int) -> subprocess.CompletedProcess[str]:
    policy = ["--policy", str(folder / "dpsql.toml"), "--analyst", "ana", "--replicates", "50"]
    release = ["publish", str(folder / "tables.sql"), *policy, "-o", str(folder / "out"), "--yes"]
    command = [sys.executable, "-c", PROGRAM, str(at), *release]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def spent(folder: Path) -> int:
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        return proxy.ledger.spent("default").amount


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], int]:
    """A shop with statements, the events of a release that nothing ends, and its price."""
    fresh = tmp_path_factory.mktemp("release") / "fresh"
    shop(fresh)
    (fresh / "tables.sql").write_text(TABLES)
    folder = fresh.with_name("whole")
    shutil.copytree(fresh, folder)
    done = run(folder, 0)
    assert done.returncode == 0, done.stderr
    events = re.findall(r"(?m)^(?:sqlite3\.connect|os\.\w+|open) .*$", done.stderr)
    assert events[-1].startswith("os.rename"), "the name of the folder comes last"
    return fresh, events, spent(folder)


@pytest.mark.full("starts three processes")
@pytest.mark.parametrize(
    "part", [1.0, *(pytest.param(each, marks=pytest.mark.campaign) for each in (0.3, 0.7, 2.0))]
)
def test_a_killed_release_is_ended_by_the_next_run(
    whole: tuple[Path, list[str], int], tmp_path: Path, part: float
) -> None:
    """Parts up to 1 are measured before the first file is written, the others after it."""
    fresh, events, price = whole
    first = next(n for n, e in enumerate(events, 1) if e.startswith("open") and ".partial" in e)
    at = int(part * first) if part < 1 else first + int((part - 1) * (len(events) - first))
    folder = tmp_path / "killed"
    shutil.copytree(fresh, folder)
    assert run(folder, at).returncode == -signal.SIGKILL
    assert not (folder / "out").exists()
    before = spent(folder)
    assert run(folder, 0).returncode == 0
    assert verify(folder / "out").exit_code == 0
    assert not list(folder.glob(".out*")), "no leftover of the killed process"
    # Statements that were being measured have no answer, and their charge holds.
    assert price <= spent(folder) <= 2 * price
    assert part < 1 or (before, spent(folder)) == (price, price)


def test_the_folder_of_a_running_process_stays(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getppid()):
        (tmp_path / f".out.{process}.partial").mkdir()
    with new_folder(tmp_path / "out") as partial:
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {f".out.{os.getppid()}.partial", partial.name}
