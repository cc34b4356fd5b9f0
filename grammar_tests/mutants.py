"""Mutation testing: runs the tests of a room against mutants of its code, until one fails.

    python -m grammar_tests.mutants found.jsonl --seed 28 --count 600
    python -m grammar_tests.mutants found.jsonl --rooms compiler/kernel --all

The operators are those of mutmut. Its runner does not fit: worker processes read the package from
disk. Here a mutant is a file of a copy of the project, and a function that is replaced in a forked
process, which runs the tests that call the function, cheap ones first. Mutants of other code run
in a fresh process. A second run with the same file goes on where the first one stopped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

from grammar_tests import clopper_pearson
from grammar_tests.mutant_kit import ROOT, all_mutants, draw_mutants, files_of
from grammar_tests.mutant_runs import PYTEST, Runner, name_of, read, tests_of

ROOMS = "compiler/track compiler/calibrate compiler/aggregates mechanisms accountants".split()
EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"


def report(found: Path) -> str:
    """Say how many mutants were killed, and name each survivor."""
    lines, listed = read(found), tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    equal = {name_of(entry) for entry in listed}
    survivors = [line for line in lines if line["outcome"] == "survived"]
    real = [line for line in survivors if name_of(line) not in equal]
    count, killed = len(lines), len(lines) - len(survivors)
    low, high = (
        bound(killed, count, 0.025) for bound in (clopper_pearson.lower, clopper_pearson.upper)
    )
    late = sum(line["outcome"] == "timeout" for line in lines)
    head = (
        f"{killed} of {count} killed ({late} by a limit of time): {low:.1%} to {high:.1%} at 95 %"
    )
    told = [f"{m['file']}:{m['function']}\n  - {m['old']}\n  + {m['new']}" for m in real]
    return "\n".join([head, f"{len(survivors) - len(real)} survivors are equivalent", *told])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grammar_tests.mutants")
    parser.add_argument("found", type=lambda name: Path(name).resolve())
    parser.add_argument("--rooms", nargs="*", default=ROOMS)
    parser.add_argument("--seed", type=int, default=28)
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--all", action="store_true", help="all mutants, instead of drawn ones")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds of tests each")
    parser.add_argument("--report", action="store_true", help="only say what was found")
    given = parser.parse_args()
    if given.report:
        print(report(given.found))  # noqa: T201
    elif os.environ.get("DPSQL_MUTANTS") == str(ROOT):
        files = files_of(given.rooms)
        drawn = all_mutants(files) if given.all else draw_mutants(files, given.seed, given.count)
        tests = sorted({test for file in files for test in tests_of(file)})
        paths = [f"grammar_tests/{test}.py" for test in tests]
        pytest.main([*PYTEST, *paths], plugins=[Runner(drawn, files, given.found, given.limit)])
        print(report(given.found))  # noqa: T201
    else:
        with tempfile.TemporaryDirectory() as folder:
            copy, scratch = Path(folder, "copy"), Path(folder, "tmp")
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".*_cache", ".venv"))
            scratch.mkdir()
            places = {"PYTHONPATH": str(copy), "TMPDIR": str(scratch), "DPSQL_MUTANTS": str(copy)}
            command = [sys.executable, "-m", "grammar_tests.mutants", *sys.argv[1:]]
            subprocess.run(command, cwd=copy, env=os.environ | places, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
