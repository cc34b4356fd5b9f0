"""SQLAlchemy's own suite for dialects, run as it wants to be: by its plugin, in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from grammar_tests.sqlalchemy_suite.requirements import CLOSED
from grammar_tests.sqlalchemy_suite.unanswered import UNANSWERED

SUITE = Path(__file__).parent / "sqlalchemy_suite"
SQLALCHEMYS = (
    "marked as skip",
    "custom function",
    "dpsql doesn't support 'INSERT ... RETURNING'",
    "dpsql doesn't support 'RETURNING of multiple rows with INSERT executemany'",
)
"""SQLAlchemy's own reasons, the first for all that is closed unless a dialect opens it."""

LEAST = 450
"""Fewer passing tests mean that a requirement was closed by mistake."""

_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+:(?:\d+:)? (?:'.* \(call\)' : )?(.*)$", re.MULTILINE)
_SUMMARY = re.compile(r"^\d+ \w+.* in [\d.]+s.*$", re.MULTILINE)


def run(*arguments: str, every: int = 1) -> tuple[int, str]:
    """The exit code and output of the suite; nothing of the project's own pytest settings."""
    fixed = "-c /dev/null --rootdir . --confcutdir . -q -rs --tb=short".split()
    fixed += ["-p", "no:cacheprovider", "-p", "no:xdist"]
    fixed += ["-W", "ignore::pytest.PytestUnknownMarkWarning"]
    plugin = ["-p", "grammar_tests.sqlalchemy_suite.unanswered"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pytest", *fixed, *plugin, "test_suite.py", *arguments],
        cwd=SUITE,
        env={**os.environ, "PYTHONPATH": str(SUITE.parents[1]), "COLUMNS": "1000"}
        | {"DPSQL_ONE_CLASS_IN": str(every)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def counted(output: str) -> dict[str, int]:
    """How many tests ended how."""
    found = re.findall(r"(\d+) (passed|failed|skipped|error|warning)", _SUMMARY.findall(output)[-1])
    return {outcome: int(number) for number, outcome in found}


def skipped(output: str) -> Counter[str]:
    """How many tests were skipped for which reason."""
    reasons = Counter[str]()
    for number, reason in _SKIPPED.findall(output):
        reasons[reason] += int(number)
    return reasons


@pytest.mark.full("one class in three of SQLAlchemy's own suite")
@pytest.mark.parametrize(
    ("every", "least"), [(3, 200), pytest.param(1, LEAST, marks=pytest.mark.campaign)]
)
def test_the_suite_has_no_failures(every: int, least: int) -> None:
    code, output = run(every=every)
    counts, reasons = counted(output), skipped(output)
    print(counts, *reasons.most_common(), sep="\n")  # noqa: T201 - shown by pytest -s
    assert code == 0, output[-4000:]
    assert counts.keys() == {"passed", "skipped"}
    assert counts["passed"] >= least
    assert reasons.total() == counts["skipped"]
    assert reasons.keys() <= {*CLOSED, *UNANSWERED.values(), *SQLALCHEMYS}


@pytest.mark.full("starts processes")
def test_a_failure_would_be_seen() -> None:
    """A test that is skipped because it fails, run in spite of that."""
    code, output = run(
        "-p", "no:grammar_tests.sqlalchemy_suite.unanswered", "-k", "long_convention_name[ix"
    )
    assert (code, counted(output)) == (1, {"failed": 1})
