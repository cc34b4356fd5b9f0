"""Pages of Markdown, run block by block as a reader would, in one folder and in order.

`sh`: each line exits with 0, or as `# exit N` says. `console`: besides, each `$ command` prints
what stands below it. `python`: runs, and prints the `text` block that follows it, if one does.
`sql`: statements divided by semicolons are answered. `toml`: loads as a policy, with the demo's
tables where it has none of that name; under `<!-- file: NAME -->` it is that file, as it stands.
Blocks without a language are shown only.

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
from dataclasses import dataclass, replace
from pathlib import Path

import dpsql
from dpsql.policy import demo
from dpsql.policy.load import load

ROOT = Path(__file__).parents[1]
LANGUAGES = {"", "sh", "console", "python", "text", "sql", "toml"}
FENCE = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MASKS = (
    (re.compile(r"\b[0-9a-f]{16}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"^notice: [\d,]+ of [\d,]+ numbers of [^\n]*±[^\n]*\n", re.MULTILINE), ""),
)
"""What differs from run to run; whether numbers are told to be no larger than their ± is chance."""
ENDS = re.compile(r"(-?\d[\d,.]*) \((-?\d[\d,.]*) … (-?\d[\d,.]*)\)")
ELISION = re.compile(r"^…$", re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")
APART = 6
"""How many margins of 95 % two draws of one noise may be apart: chance takes them so far once in
more than 10^7 runs."""
END = "\x1e"
PREAMBLE = f"""
[ ! -f .exported ] || . ./.exported
dpsql() {{ {shlex.quote(sys.executable)} -m dpsql "$@"; }}
python() {{ {shlex.quote(sys.executable)} "$@"; }}
expect() {{
  [ "$1" = "$2" ] || {{ echo "exit code $1 instead of $2: $3"; exit 99; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it begins in the page, its language, its text, and whose file it is."""

    line: int
    language: str
    text: str
    file: str | None = None


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
    return [Block(page.count("\n", 0, m.start(2)) + 1, m[2], m[3], m[1]) for m in found]


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
    return Step(command, "".join(f"{line}\n" for line in lines))


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that is not as a page says.

    `printed` is what is printed where the page has `says` below `head`; None: a command failed.
    """

    told: str
    head: str = ""
    says: str = ""
    printed: str | None = None

    @property
    def mendable(self) -> bool:
        return self.printed is not None and not ELISION.search(self.says)

    def mended(self, page: str) -> str:
        return page.replace(f"{self.head}{self.says}", f"{self.head}{self.printed}", 1)


def holds(path: Path, folder: Path, *, update: bool = False) -> None:
    """A page does and prints what it says; with `update` it says afterwards what was printed."""
    page = path.read_text(encoding="utf-8")
    wrong = [*differences(page, folder)]
    if update:
        for each in filter(lambda w: w.mendable, wrong):
            page = each.mended(page)
        path.write_text(page, encoding="utf-8")
        wrong = [each for each in wrong if not each.mendable]
    assert not wrong, "\n".join(each.told for each in wrong)


def differences(page: str, folder: Path) -> Iterator[Wrong]:
    """What of a page is not as it says, up to the first block of which a command fails.

    It runs in a folder with its files, and goes on in the folder that a block of shell leads to.
    """
    found = blocks(page)
    for n, block in enumerate(found):
        for wrong in _differences(block, found[n + 1 : n + 2], folder):
            yield replace(wrong, told=f"line {block.line}: {wrong.told}")
            if wrong.printed is None:
                return
        if block.language in ("sh", "console"):
            folder = Path((folder / ".pwd").read_text(encoding="utf-8").strip())


def _differences(block: Block, following: list[Block], folder: Path) -> Iterator[Wrong]:
    match block.language:
        case "sh" | "console":
            yield from _shell(steps(block), folder)
        case "python":
            done = run([sys.executable, "-W", "error", "-c", block.text], folder)
            if done.returncode:
                yield Wrong(done.stderr)
            for text in (b.text for b in following if b.language == "text"):
                yield from unlike("```text\n", text, done.stdout)
        case "sql":
            yield from _sql(block.text, folder)
        case "toml":
            policy = block.text if block.file else merge(demo.POLICY, block.text)
            path = folder / (block.file or "merged.toml")
            path.write_text(policy, encoding="utf-8")
            load(str(path))
        case language:
            assert language in LANGUAGES, language


def _shell(commands: list[Step], folder: Path) -> Iterator[Wrong]:
    lines = [PREAMBLE]
    for step in commands:
        expected = f"expect $? {step.exit_code} {shlex.quote(step.command)}"
        lines += [step.command, expected, f"echo {shlex.quote(END)}"]
    lines += [f"pwd > {shlex.quote(str(folder / '.pwd'))}", "export -p > .exported"]
    done = run(["/bin/bash", "-c", "\n".join(lines)], folder, stderr=subprocess.STDOUT)
    if done.returncode:
        yield Wrong(done.stdout)
    for step, printed in zip(commands, done.stdout.split(f"{END}\n"), strict=False):
        if step.prints is not None:
            head = "$ " + step.command.replace("\n", "\n> ") + "\n"
            yield from unlike(head, step.prints, printed)


def _sql(text: str, folder: Path) -> Iterator[Wrong]:
    with dpsql.connect(str(folder / "dpsql.toml")) as connection:
        for sql in filter(None, map(str.strip, text.split(";"))):
            try:
                connection.cursor().execute(sql)
            except dpsql.Error as error:
                yield Wrong(f"{sql}: {error}")


def unlike(head: str, says: str, printed: str) -> Iterator[Wrong]:
    """How what is printed differs from what a page says, below `head`, that it prints."""
    pieces = [_words(piece) for piece in ELISION.split(says)]
    if not _fits(pieces, _words(printed)):
        yield Wrong(f"says\n{says}\nand prints\n{printed}", head, says, printed)


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
    return ENDS.sub(_as_margin, text).split()


def _as_margin(cell: re.Match[str]) -> str:
    """A number with both ends as one with a margin: whether an end is certain is chance."""
    value, low, high = map(_number, cell.groups())
    return f"{cell[1]} ± {max(value - low, high - value):g}"


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
