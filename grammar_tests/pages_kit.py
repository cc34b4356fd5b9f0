"""Pages of Markdown, run block by block as a reader would, in one folder and in order.

`sh`: each line exits with 0, or as `# exit N` says. `console`: besides, each `$ command` prints
what stands below it. `python`: runs, and prints the `text` block that follows it, if one does.
`sql`: statements divided by semicolons are answered. `toml`: loads as a policy, with the demo's
tables where it has none of that name. Blocks without a language are shown only.

What is printed is compared word by word, so that lines may be wrapped. Query ids and times differ.
Numbers before ± may differ by what their noise explains; all others are exact. A line `…` stands
for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dpsql
from dpsql.policy import demo
from dpsql.policy.load import load

ROOT = Path(__file__).parents[1]
LANGUAGES = {"", "sh", "console", "python", "text", "sql", "toml"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MASKS = (
    (re.compile(r"\b[0-9a-f]{16}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"─+"), "─"),
)
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")
APART = 6
"""How many margins of 95 % two draws of one noise may be apart: chance takes them so far once in
more than 10^7 runs."""
END = "\x1e"
PREAMBLE = f"""
dpsql() {{ {shlex.quote(sys.executable)} -m dpsql "$@"; }}
python() {{ {shlex.quote(sys.executable)} "$@"; }}
expect() {{
  [ "$1" = "$2" ] || {{ echo "exit code $1 instead of $2: $3"; exit 99; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it begins in the page, its language and its text."""

    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a block, and what the page says it prints (None: nothing is said)."""

    command: str
    prints: str | None

    @property
    def exit_code(self) -> int:
        code = re.search(r"# exit (\d+)", self.command)
        return int(code[1]) if code else 0


def blocks(page: str) -> list[Block]:
    found = FENCE.finditer(page)
    return [Block(page.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in found]


def steps(block: Block) -> list[Step]:
    """The commands of a block of shell."""
    if block.language == "sh":
        return [Step(line, None) for line in block.text.splitlines()]
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [_console(*part.partition("\n")[::2]) for part in parts]


def _console(command: str, rest: str) -> Step:
    """A command goes on where its line begins with `> `."""
    lines = rest.splitlines()
    while lines and lines[0].startswith("> "):
        command += "\n" + lines.pop(0)[2:]
    return Step(command, "\n".join(lines))


def differences(page: str, folder: Path) -> Iterator[str]:
    """What of a page is not as it says, up to the first block of which something is not so.

    It runs in a folder with its files, and goes on in the folder that a block of shell leads to.
    """
    found = blocks(page)
    for n, block in enumerate(found):
        wrong = [*_differences(block, found[n + 1 : n + 2], folder)]
        if wrong:
            yield from (f"line {block.line}: {told}" for told in wrong)
            return
        if block.language in ("sh", "console"):
            folder = Path((folder / ".pwd").read_text(encoding="utf-8").strip())


def _differences(block: Block, following: list[Block], folder: Path) -> Iterator[str]:
    match block.language:
        case "sh" | "console":
            yield from _shell(steps(block), folder)
        case "python":
            prints = [b.text for b in following if b.language == "text"]
            done = run([sys.executable, "-W", "error", "-c", block.text], folder)
            if done.returncode:
                yield done.stderr
            elif prints:
                yield from unlike(prints[0], done.stdout)
        case "sql":
            yield from _sql(block.text, folder)
        case "toml":
            merged = merge(demo.POLICY, block.text)
            (folder / "merged.toml").write_text(merged, encoding="utf-8")
            load(str(folder / "merged.toml"))
        case language:
            assert language in LANGUAGES, language


def _shell(commands: list[Step], folder: Path) -> Iterator[str]:
    lines = [PREAMBLE]
    for step in commands:
        expected = f"expect $? {step.exit_code} {shlex.quote(step.command)}"
        lines += [step.command, expected, f"echo {shlex.quote(END)}"]
    program = "\n".join([*lines, f"pwd > {shlex.quote(str(folder / '.pwd'))}"])
    done = run(["/bin/bash", "-c", program], folder, stderr=subprocess.STDOUT)
    if done.returncode:
        yield done.stdout
        return
    for step, printed in zip(commands, done.stdout.split(f"{END}\n"), strict=False):
        if step.prints is not None:
            yield from unlike(step.prints, printed)


def _sql(text: str, folder: Path) -> Iterator[str]:
    with dpsql.connect(str(folder / "dpsql.toml")) as connection:
        for sql in filter(None, map(str.strip, text.split(";"))):
            try:
                connection.cursor().execute(sql)
            except dpsql.Error as error:
                yield f"{sql}: {error}"


def unlike(says: str, printed: str) -> Iterator[str]:
    """How what is printed differs from what a page says that it prints."""
    pieces = [_words(piece) for piece in re.split(r"^…$", says, flags=re.MULTILINE)]
    if not _fits(pieces, _words(printed)):
        yield f"says\n{says}\nand prints\n{printed}"


def _fits(pieces: list[list[str]], words: list[str]) -> bool:
    """Whether words begin with the first piece, end with the last, and have the others between."""
    first, *others = pieces
    if not others:
        return _alike(first, words)
    if not _alike(first, words[: len(first)]):
        return False
    at = len(first)
    for piece in others[:-1]:
        places = range(at, len(words) - len(piece) + 1)
        place = next((p for p in places if _alike(piece, words[p : p + len(piece)])), None)
        if place is None:
            return False
        at = place + len(piece)
    return _alike(others[-1], words[max(at, len(words) - len(others[-1])) :])


def _words(text: str) -> list[str]:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text.split()


def _alike(says: list[str], printed: list[str]) -> bool:
    if len(says) != len(printed):
        return False
    signs = [n for n, word in enumerate(says) if word == "±"]
    noisy = {n - 1 for n in signs if n and NUMBER.fullmatch(says[n - 1])}
    for n, (one, other) in enumerate(zip(says, printed, strict=True)):
        if n in noisy:
            if not _near(one, other, says[n + 2 : n + 3], printed[n + 2 : n + 3]):
                return False
        elif n - 2 in noisy and NUMBER.fullmatch(one):
            if not NUMBER.fullmatch(other) or not 0.5 <= _number(one) / _number(other) <= 2:
                return False
        elif one != other:
            return False
    return True


def _near(one: str, other: str, *margins: list[str]) -> bool:
    """Whether two numbers are within what their margins allow."""
    if not (NUMBER.fullmatch(one) and NUMBER.fullmatch(other)):
        return False
    widths = [_number(m[0]) for m in margins if m and NUMBER.fullmatch(m[0])]
    return not widths or abs(_number(one) - _number(other)) <= APART * max(widths)


def _number(word: str) -> float:
    return float(word.replace(",", ""))


def merge(policy: str, fragment: str) -> str:
    """A policy with the tables of a fragment in place of its own of the same name."""
    heads = set(re.findall(r"^\[[^\]]+\]", fragment, re.MULTILINE))
    tables = re.split(r"^(?=\[)", policy, flags=re.MULTILINE)
    return "".join(t for t in tables if t.partition("\n")[0] not in heads) + "\n" + fragment


def run(
    command: list[str], folder: Path, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLOOMBER_STATS_ENABLED": "false"}
    environment.pop("DPSQL_ANALYST", None)
    return subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=False,
        timeout=300,
    )
