"""Mutants: those of the kernel that no test can kill, by name, and a drawn sample of all others."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from grammar_tests import clopper_pearson

FOLDER = Path(__file__).parent
LISTED = tomllib.loads((FOLDER / "equivalent_mutants.toml").read_text(encoding="utf-8"))["mutant"]
SEED, COUNT, SLICE = 28, 600, 6
NEEDED = 0.95


def function_of(file: str, name: str) -> str:
    """Return the text of a function, or of the whole file where the name is empty."""
    text = (FOLDER.parent / "dpsql" / file).read_text(encoding="utf-8")
    parts = [part for part in name.split(".") if part]
    found: ast.AST = ast.parse(text)
    for part in parts:
        inner = ast.iter_child_nodes(found)
        found = next(n for n in inner if getattr(n, "name", None) == part)
    return ast.get_source_segment(text, found) or "" if parts else text


def complaint(entry: dict[str, str]) -> str:
    """What is wrong with an entry of the list; "" if it still names one change of the code."""
    try:
        text = function_of(entry["file"], entry["function"])
    except (OSError, StopIteration):
        return "there is no such function"
    if text.count(entry["old"]) != 1:
        return "the code does not have this text once"
    if entry["old"] == entry["new"]:
        return "nothing changes"
    return "" if len(entry["why"].split()) >= 4 else "nothing argues for it"


def test_each_equivalent_mutant_still_applies() -> None:
    assert [(entry, wrong) for entry in LISTED if (wrong := complaint(entry))] == []
    names = [tuple(entry[part] for part in ("file", "function", "old", "new")) for entry in LISTED]
    assert len(set(names)) == len(names)


def test_an_entry_that_no_longer_applies_is_found() -> None:
    entry = {
        "file": "compiler/kernel/known.py",
        "function": "Closure.same",
        "old": "while column in self._first:",
        "new": "while column not in self._first:",
        "why": "for this test alone",
    }
    assert not complaint(entry)
    for change in (
        {"old": "while column in self._second:"},
        {"function": "Closure.another"},
        {"file": "compiler/kernel/other.py"},
        {"new": entry["old"]},
        {"why": ""},
    ):
        assert complaint(entry | change)


def share_killed(count: int, folder: Path) -> tuple[int, int]:
    """Run the first of the drawn mutants: how many are killed, of how many."""
    if find_spec("mutmut") is None:
        pytest.skip("mutmut is not installed")
    found = folder / "found.jsonl"
    command = [sys.executable, "-m", "grammar_tests.mutants", str(found)]
    options = ["--seed", str(SEED), "--count", str(count)]
    subprocess.run([*command, *options], check=True, cwd=FOLDER.parent, env=os.environ)  # noqa: S603
    lines = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    return sum(line["outcome"] != "survived" for line in lines), len(lines)


@pytest.mark.full("mutants of the code")
def test_few_drawn_mutants_survive(tmp_path: Path) -> None:
    killed, count = share_killed(SLICE, tmp_path)
    assert count == SLICE
    assert clopper_pearson.upper(killed, count, 0.025) >= NEEDED


@pytest.mark.campaign
def test_drawn_mutants_are_killed(tmp_path: Path) -> None:
    killed, count = share_killed(COUNT, tmp_path)
    assert count == COUNT
    assert killed >= NEEDED * count


# --- wrong twins ---


@pytest.mark.parametrize(("killed", "enough"), [(6, True), (4, True), (3, False), (0, False)])
def test_a_sample_with_many_survivors_is_no_sample_of_few(killed: int, enough: bool) -> None:  # noqa: FBT001
    assert (clopper_pearson.upper(killed, SLICE, 0.025) >= NEEDED) is enough
