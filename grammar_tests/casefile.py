"""Case files: plain SQL with expectations as comments, read and refreshed.

A block is `-- case: title`, its SQL, then expectations. `-- accept` and `-- refuse: reason at
line:column` are written by hand, and so are `-- rows:`; `-- enforced:`, `-- keys:`, `-- release:`,
`-- choice:`, `-- tree:`, `-- integers:` and `-- rewrite:` follow an accept. Positions count from
the first line of the case's SQL. An unknown `-- word:` is an error. README.md says what each means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path

import duckdb

CASES = Path(__file__).parent / "cases"
WORD = re.compile(r"-- (?P<word>[a-z]+)(?P<colon>:)? ?(?P<rest>.*)")
SETTINGS = ("accountant", "dialect", "duckdb", "rows")
PINNED = ("enforced", "keys", "release", "choice", "tree", "integers")
HEADER = "-- catalog: "


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `settings` are accountant, dialect, duckdb (the major version from which it is so)
    and rows (of one table each), `pinned` the lines that --update refreshes, `rewrite` the pinned
    SQL, if the case pins it.
    """

    file: Path
    line: int
    title: str
    catalog: str
    sql: str
    verdict: str
    settings: tuple[tuple[str, str], ...] = ()
    pinned: tuple[str, ...] = ()
    rewrite: str | None = None

    @property
    def id(self) -> str:
        return f"{self.file.relative_to(CASES).with_suffix('')}: {self.title}"

    @property
    def accepted(self) -> bool:
        return self.verdict == "accept"

    @property
    def holds_here(self) -> bool:
        """Whether the DuckDB that is installed is as new as the case wants it."""
        return int(duckdb.__version__.split(".")[0]) >= int(self.setting("duckdb", "1"))

    def setting(self, name: str, default: str) -> str:
        """A setting of the case, or its default."""
        return dict(self.settings).get(name, default)

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows that the case is run on, as `table (columns): (values), …` each."""
        return tuple(text for name, text in self.settings if name == "rows")


@dataclass(slots=True)
class _Block:
    line: int
    title: str
    sql: list[str] = field(default_factory=list)
    verdict: str = ""
    settings: list[tuple[str, str]] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)
    rewrite: list[str] | None = None


def read(path: Path) -> tuple[Case, ...]:
    """The cases of a file; ValueError with its line where the file is not well-formed."""
    head, blocks = _blocks(path)
    catalogs = [line.removeprefix(HEADER) for line in head if line.startswith(HEADER)]
    if len(catalogs) != 1:
        raise ValueError(f"{path}: one catalog is named in the header")
    return tuple(_case(path, catalogs[0], block) for block in blocks)


def _case(path: Path, catalog: str, block: _Block) -> Case:
    if not block.verdict or not block.sql:
        raise ValueError(f"{path}:{block.line}: a case has SQL and a verdict")
    rewrite = None if block.rewrite is None else "\n".join(block.rewrite)
    return Case(
        path,
        block.line,
        block.title,
        catalog,
        "\n".join(block.sql),
        block.verdict,
        tuple(block.settings),
        tuple(block.pinned),
        rewrite,
    )


def _blocks(path: Path) -> tuple[list[str], list[_Block]]:
    head: list[str] = []
    blocks: list[_Block] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("-- case: "):
            blocks.append(_Block(number, line.removeprefix("-- case: ")))
        elif not blocks:
            head.append(line)
        elif line.strip():
            _line(path, number, line, blocks[-1])
    return head, blocks


def _line(path: Path, number: int, line: str, block: _Block) -> None:
    if block.rewrite is not None and line.startswith("--   "):
        block.rewrite.append(line.removeprefix("--   "))
        return
    found = WORD.fullmatch(line)
    if found is None:
        block.sql.append(line)
        return
    word, rest = found["word"], found["rest"]
    if word == "accept" and not found["colon"]:
        block.verdict = "accept"
    elif word == "refuse":
        block.verdict = f"refuse: {rest}"
    elif word in SETTINGS:
        block.settings.append((word, rest))
    elif word in PINNED:
        block.pinned.append(f"{word}: {rest}")
    elif word == "rewrite":
        block.rewrite = []
    else:
        raise ValueError(f"{path}:{number}: unknown expectation {word!r}")


def write(path: Path, cases: tuple[Case, ...]) -> None:
    """The file with these cases, its header as it was."""
    head, _ = _blocks(path)
    path.write_text(text(head, cases), encoding="utf-8")


def text(head: Sequence[str], cases: tuple[Case, ...]) -> str:
    """A file with this header and these cases."""
    return "\n".join(head).rstrip() + "\n" + "".join(map(_text, cases))


def _text(case: Case) -> str:
    lines = ["", f"-- case: {case.title}", case.sql]
    lines += [f"-- {word}: {rest}" for word, rest in case.settings]
    lines += [f"-- {case.verdict}", *(f"-- {line}" for line in case.pinned)]
    if case.rewrite is not None:
        lines += ["-- rewrite:", *(f"--   {line}" for line in case.rewrite.splitlines())]
    return "\n".join(lines) + "\n"


def refreshed(case: Case, verdict: str, pinned: tuple[str, ...], rewrite: str) -> Case:
    """The case as it turned out; never a refusal turned into an acceptance or back.

    A refusal keeps its reason too: only its position is refreshed.
    """
    if verdict.split(" at ", maxsplit=1)[0] != case.verdict.split(" at ")[0]:
        return case
    kept = None if case.rewrite is None else rewrite
    return replace(case, verdict=verdict, pinned=pinned, rewrite=kept)


def refresh(case: Case, verdict: str, pinned: tuple[str, ...], rewrite: str) -> Case:
    """Writes the case as it turned out into its file, nothing else of which changes; returns it.

    Processes that refresh cases of one file take turns.
    """
    now = refreshed(case, verdict, pinned, rewrite)
    folder = os.open(case.file.parent, os.O_RDONLY)
    try:
        flock(folder, LOCK_EX)
        there = read(case.file)
        new = tuple(now if other.title == case.title else other for other in there)
        if new != there:
            write(case.file, new)
    finally:
        os.close(folder)
    return now


@cache
def all_cases(catalog: str = "shop") -> tuple[Case, ...]:
    """Every case of every file over this catalog, in order, as the files were at first."""
    return tuple(case for case in _every_case() if case.catalog == catalog)


@cache
def _every_case() -> tuple[Case, ...]:
    return tuple(case for path in sorted(CASES.rglob("*.sql")) for case in read(path))
