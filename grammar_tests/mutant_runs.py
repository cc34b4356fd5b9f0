"""How the tests of a room are run against a mutant: in a fork, or in a process of its own."""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from importlib.util import cache_from_source
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from grammar_tests.mutant_kit import ROOT, Mutant
from grammar_tests.test_rooms import rooms

EVERYWHERE = "cases", "proofs", "audit"
"""Tests of no room that run for the mutants of each, but for those of the kernel."""

LONGER, CPU_SECONDS, SECONDS, BYTES = 10, 5, 600, 20 << 30
"""Limits on each test of a mutant (so many times longer, and so much), and on its memory."""

PYTEST = ["-s", "-q", "-p", "no:cacheprovider"]


def tests_of(file: str) -> list[str]:
    """Return the tests of the room that a file is in, by the table of the README."""
    table = rooms()
    room = max((room for room in table if file.startswith(room)), key=len)
    shared = () if room == "compiler/kernel/" else EVERYWHERE
    return [f"test_{name}" for name in (*shared, *table[room])]


def _function(scope: Mapping[str, Any], name: str) -> Any:
    """Return the plain function under a name, below what decorates it."""
    owner, _, method = name.rpartition(".")
    found = vars(scope[owner])[method] if owner else scope[name]
    for inside in ("fget", "__func__", "func", "__wrapped__"):
        found = getattr(found, inside, None) or found
    return found


def replace_functions(file: str, text: str, names: Sequence[str], **more: object) -> None:
    """Give functions of an imported module the code that they have in another text of it."""
    place = file.removesuffix(".py").removesuffix("/__init__")
    module = import_module("dpsql." + place.replace("/", "."))
    scope: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__, **more}
    exec(compile(text, str(module.__file__), "exec"), scope)  # noqa: S102 - a mutant of ours
    vars(module).update(more)
    for name in names:
        here, there = _function(vars(module), name), _function(scope, name)
        here.__code__ = there.__code__
        for defaults in ("__defaults__", "__kwdefaults__"):  # of the imported classes, if the same
            if repr(getattr(here, defaults)) != repr(getattr(there, defaults)):
                setattr(here, defaults, getattr(there, defaults))


def note_calls(file: str, note: Callable[[str], None]) -> None:
    """Make each function of a file note its name when it is called."""
    tree, names = ast.parse((ROOT / "dpsql" / file).read_text(encoding="utf-8")), list[str]()
    for part in tree.body:
        owner = f"{part.name}." if isinstance(part, ast.ClassDef) else ""
        for method in part.body if isinstance(part, ast.ClassDef) else (part,):
            if isinstance(method, ast.FunctionDef):
                names.append(owner + method.name)
                method.body[:0] = ast.parse(f"_note({file + ':' + names[-1]!r})").body
    replace_functions(file, ast.unparse(tree), names, _note=note)


@contextmanager
def written(mutant: Mutant, text: str) -> Iterator[None]:
    """Write a mutant in place of its file, for processes that import it."""
    path = ROOT / "dpsql" / mutant.file
    before = path.read_text(encoding="utf-8")
    for content in (text, before):
        path.write_text(content, encoding="utf-8")
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        if content == text:
            yield


def run_forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run in a forked process; return its exit code, below zero for a signal, and its result."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as result:
        if not (child := os.fork()):
            with suppress(BaseException):
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
                try:
                    json.dump(work(), result)
                except BaseException as error:  # noqa: BLE001 - a mutant may do anything
                    json.dump(f"{type(error).__name__}: {error}"[:200], result)
                result.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        result.seek(0)
        return status, json.loads(result.read() or "null")


class Runner:
    """A pytest plugin: collects once, then runs tests for each mutant in a fork."""

    def __init__(
        self,
        mutants: Iterator[tuple[Mutant, str]],
        files: list[str],
        found: Path,
        limit: float = float("inf"),
    ) -> None:
        self._mutants, self._files, self._found, self._limit = mutants, files, found, limit
        self._tests = dict[str, dict[str, pytest.Item]]()
        self._seconds, self._calls = dict[str, float](), dict[str, list[str]]()
        self._killers = list[str]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            self._tests.setdefault(item.path.stem, {})[item.nodeid] = item
        observed = self._found.with_suffix(".tests.json")
        if not observed.exists():
            status, found = run_forked(lambda: self._observe(session))
            assert isinstance(found, dict), (status, found)
            observed.write_text(json.dumps(found), encoding="utf-8")
        found = json.loads(observed.read_text(encoding="utf-8"))
        self._seconds, self._calls = found["seconds"], found["calls"]
        done = Counter(name_of(line) for line in read(self._found))
        for mutant, text in self._mutants:
            if done[name := name_of(asdict(mutant))]:
                done[name] -= 1
            else:
                with written(mutant, text), self._found.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(mutant) | self._outcome(session, mutant, text)))
                    file.write("\n")
        return True

    def _observe(self, session: pytest.Session) -> dict[str, Any]:
        """Run all tests: which fail, how long each takes, and which call each function."""
        called, calls, seconds = set[str](), dict[str, list[str]](), dict[str, float]()
        failed = list[str]()
        for file in self._files:
            note_calls(file, called.add)
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            called.clear()
            start, failures = os.times().user, session.testsfailed
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed > failures:
                failed.append(item.nodeid)
                continue
            seconds[item.nodeid] = os.times().user - start
            for name in called:
                calls.setdefault(name, []).append(item.nodeid)
        return {"failed": failed, "seconds": seconds, "calls": calls}

    def _outcome(self, session: pytest.Session, mutant: Mutant, text: str) -> dict[str, Any]:
        """Say whether a mutant is killed, by which test, or survives."""
        called = f"{mutant.file}:{mutant.function}"
        calls = (
            tests
            for name, tests in self._calls.items()
            if name == called or (not mutant.function and name.startswith(called))
        )
        known = self._seconds.keys() & {test for tests in calls for test in tests}
        room = {test for name in tests_of(mutant.file) for test in self._tests.get(name, ())}
        known = known & room or known or self._seconds.keys() & room
        chosen = {
            name: [test for test in self._tests[name] if test in known] for name in self._tests
        }
        names = [name for name in self._tests if chosen[name]]
        cost = {name: sum(map(self._seconds.__getitem__, chosen[name])) for name in names}
        names.sort(key=lambda n: (self._killers.index(n) if n in self._killers else 99, cost[n]))
        tests = [one for n in names for one in sorted(chosen[n], key=self._seconds.__getitem__)]
        spent = accumulate(map(self._seconds.__getitem__, tests))
        within = [one for one, so_far in zip(tests, spent, strict=True) if so_far <= self._limit]
        tests = within or tests[:1]
        items = [self._tests[_file_of(one)][one] for one in tests]
        start = os.times()
        if mutant.function:
            status, killer = run_forked(lambda: self._kill(session, mutant, text, items))
        if not mutant.function or (killer or "").startswith("ValueError: "):  # other cells
            status, killer = _run_afresh(list(dict.fromkeys(map(_file_of, tests))))
        end = os.times()
        if killer and "::" in killer:
            name = _file_of(killer)
            self._killers = [name, *(other for other in self._killers if other != name)][:3]
        late = status in (-signal.SIGPROF, -signal.SIGALRM)
        outcome = "timeout" if late else "killed" if status or killer else "survived"
        used = end.children_user + end.children_system - start.children_user - start.children_system
        return {
            "outcome": outcome,
            "by": killer,
            "status": status,
            "tests": len(tests),
            "seconds": round(used, 2),
        }

    def _kill(
        self, session: pytest.Session, mutant: Mutant, text: str, items: list[pytest.Item]
    ) -> str | None:
        """Return the first test that fails with a mutant."""
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        replace_functions(mutant.file, text, [mutant.function])
        for item, following in zip(items, [*items[1:], None], strict=True):
            most = CPU_SECONDS + LONGER * self._seconds[item.nodeid]
            signal.setitimer(signal.ITIMER_PROF, most)
            signal.alarm(SECONDS)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return item.nodeid
        return None


def _file_of(test: str) -> str:
    """Return the name of the file of a test."""
    return test.partition(".py::")[0].rpartition("/")[2]


def _run_afresh(names: list[str]) -> tuple[int, str | None]:
    """Run test files in a new process, which imports the mutant."""
    files = [f"grammar_tests/{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", *PYTEST, "-x", *files]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, timeout=6 * SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM, None
    failed = [line for line in done.stdout.decode().splitlines() if line.startswith("FAILED ")]
    return done.returncode, failed[0].split()[1] if failed else None


def name_of(mutant: Mapping[str, Any]) -> tuple[str, ...]:
    """Return by what a mutant is known when the code around it changes."""
    return tuple(mutant[part] for part in ("file", "function", "old", "new"))


def read(found: Path) -> list[dict[str, Any]]:
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    return [json.loads(line) for line in lines]
