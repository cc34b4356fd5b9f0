"""Skips are admitted from a closed list, and a run says what it did not select."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from grammar_tests.conftest import order_of
from grammar_tests.skips import ANYWHERE, PACKAGES, REASONS

ROOT = Path(__file__).parent.parent
CONFTEST = "from grammar_tests.conftest import *\n"
TESTS = """
import pytest

def test_that_passes(): pass

@pytest.mark.full("slow")
def test_that_is_slow(): raise AssertionError

@pytest.mark.skipif(True, reason="{}")
def test_that_is_skipped(): pass
"""


def ran(folder: Path, reason: str, *options: str, **environment: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_some.py").write_text(TESTS.format(reason), encoding="utf-8")
    config = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *config, *options]
    return subprocess.run(  # noqa: S603
        [*command, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(ROOT), **environment},
        check=False,
    ).stdout


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(
    ("reason", "environment", "fails"),
    [
        ("pgbouncer is not installed", {"CI": "true"}, True),
        ("pgbouncer is not installed", {"CI": "true", "DPSQL_ABSENT": "pgbouncer"}, False),
    ],
)
def test_a_skip_is_admitted_or_fails(
    tmp_path: Path, reason: str, environment: dict[str, str], *, fails: bool
) -> None:
    said = ran(tmp_path, reason, **environment)
    assert re.search("1 error in" if fails else "1 skipped,", said), said
    assert re.search("1 passed.* 1 deselected", said), said


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(
    "workers",
    [("-n", "2"), pytest.param((), marks=pytest.mark.campaign)],
    ids=["workers", "alone"],
)
def test_the_last_line_says_what_was_not_selected(tmp_path: Path, workers: tuple[str, ...]) -> None:
    last = ran(tmp_path, "it is late", *workers).splitlines()[-1]
    assert last.startswith("1 tests were not selected. `pytest -m full` runs the slow ones")


def test_ci_knows_every_program() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    missing = set(re.findall(r"(?m)^\s*(?:.*\|\| )?(?:debian|absent) ([\w-]+)", text))
    assert missing == set(REASONS.values()) - {ANYWHERE, PACKAGES}


def test_each_worker_begins_to_import_at_another_file() -> None:
    files = [f"test_{letter}" for letter in "abcdefg"]
    orders = [order_of(files, worker, 3) for worker in range(3)]
    assert [order[0] for order in orders] == ["test_a", "test_c", "test_e"]
    assert all(sorted(order) == files for order in orders)
