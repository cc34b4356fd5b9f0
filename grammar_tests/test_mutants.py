"""Mutants: those of the kernel that no test can kill, by name, and a drawn sample of all others."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
LISTED = tomllib.loads((FOLDER / "equivalent_mutants.toml").read_text(encoding="utf-8"))["mutant"]
SEED, COUNT = 28, 600
NEEDED = 0.95


def name_of(mutant: dict[str, str]) -> tuple[str, ...]:
    return mutant["file"], mutant["function"], mutant["old"], mutant["new"]


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


@pytest.mark.full("measures neighbours or further data sets")
def test_each_equivalent_mutant_still_applies() -> None:
    assert [(entry, wrong) for entry in LISTED if (wrong := complaint(entry))] == []
    assert len(set(map(name_of, LISTED))) == len(LISTED)


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


def run_mutants(folder: Path, *options: object) -> list[dict[str, str]]:
    """Run mutants by the command of the README: what became of each."""
    if find_spec("mutmut") is None:
        pytest.skip("mutmut is not installed")
    found = folder / "found.jsonl"
    command = [sys.executable, "-m", "grammar_tests.mutants", str(found), *map(str, options)]
    subprocess.run(command, check=True, cwd=FOLDER.parent)  # noqa: S603
    return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]


def survivors(mutants: list[dict[str, str]]) -> list[tuple[str, ...]]:
    """Those that no test killed, and that are not listed as the same program."""
    return [
        name_of(mutant)
        for mutant in mutants
        if mutant["outcome"] == "survived" and name_of(mutant) not in map(name_of, LISTED)
    ]


@pytest.mark.full("mutants of the kernel, each with its tests")
def test_drawn_mutants_of_the_kernel_are_killed(tmp_path: Path) -> None:
    """A hundredth: to observe the tests of all other rooms alone takes minutes."""
    options = "--rooms", "compiler/kernel", "--seed", SEED, "--count", COUNT // 100
    mutants = run_mutants(tmp_path, *options)
    assert len(mutants) == COUNT // 100
    assert survivors(mutants) == []


@pytest.mark.campaign
def test_all_mutants_of_the_kernel_are_killed(tmp_path: Path) -> None:
    assert survivors(run_mutants(tmp_path, "--rooms", "compiler/kernel", "--all")) == []


@pytest.mark.campaign
def test_drawn_mutants_of_other_rooms_are_killed(tmp_path: Path) -> None:
    mutants = run_mutants(tmp_path, "--seed", SEED, "--count", COUNT)
    assert len(mutants) == COUNT
    assert len(survivors(mutants)) <= (1 - NEEDED) * COUNT


def test_a_survivor_that_is_not_listed_counts() -> None:
    """The wrong twin: mutants that no test killed, listed and not."""
    other = {"file": "a.py", "function": "f", "old": "x", "new": "y", "outcome": "survived"}
    killed = other | {"outcome": "killed"}
    listed = [entry | {"outcome": "survived"} for entry in LISTED]
    assert survivors([killed, *listed, other]) == [name_of(other)]


def hidden(package: str, text: str, files: set[str]) -> set[str]:
    """The files of a package that a name of its `__init__.py` hides from who imports them."""
    names = set[str]()
    for part in ast.parse(text).body:
        match part:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.ImportFrom(module=module, names=imported) if module != package:
                names |= {each.asname or each.name for each in imported}
    return names & files


def test_no_function_has_the_name_of_a_file_beside_it() -> None:
    """A file that is imported again, as mutants are, would get the function for the module."""
    text = "from a import b\nfrom a.b import c as d\ndef e(): pass"
    assert hidden("a", text, {"b", "c", "d", "e"}) == {"d", "e"}
    for init in (FOLDER.parent / "dpsql").rglob("__init__.py"):
        files = {path.stem for path in init.parent.glob("*.py")}
        package = ".".join(init.parent.relative_to(FOLDER.parent).parts)
        assert hidden(package, init.read_text(encoding="utf-8"), files) == set(), init
