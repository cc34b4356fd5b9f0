"""`dpsql help`: every page is there, fits the terminal, and loses no word."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.manual import TOPICS, _show, page, title
from dpsql.interfaces.cli.markdown import Page
from dpsql.interfaces.messages import width
from dpsql.model.errors import Reason

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def rendered(text: str, room: int, *, styled: bool = False) -> list[str]:
    return [*Page(room, styled).lines(text)]


def test_every_page_is_listed_in_a_line() -> None:
    assert set(TOPICS) == {path.stem for path in (ROOT / "dpsql" / "docs").iterdir()}
    lines = run("help").stdout.splitlines()
    for topic in TOPICS:
        (line,) = (line for line in lines if line.split()[:1] == [topic])
        assert title(topic) in line
        assert len(line) <= 80


@pytest.mark.parametrize("room", [30, 50, 80, 100])
@pytest.mark.parametrize("topic", TOPICS)
def test_lines_fit_but_for_what_is_fenced(topic: str, room: int) -> None:
    for line in rendered(FENCE.sub("", page(topic)), room):
        assert width(line) <= room or width(line.split()[-1]) > room / 3, line


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


@pytest.mark.parametrize("styled", [False, True])
@pytest.mark.parametrize("room", [50, 100])
@pytest.mark.parametrize("topic", TOPICS)
def test_no_word_is_lost(topic: str, room: int, *, styled: bool) -> None:
    text = re.sub(r"^```\w*", "```", page(topic), flags=re.MULTILINE)
    text = re.sub(r"\]\(\w+\.md\)", "]", text)
    shown = click.unstyle("\n".join(rendered(text, room, styled=styled)))
    assert not {w for w in words(text) - words(shown) if not w.isdecimal()} - heads(text)


def heads(text: str) -> set[str]:
    """Words over columns, which rows below one another do without."""
    found = re.findall(r"^(\|.*)\n\|-", text, re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(found)))


def test_what_is_shown_of_each_construct() -> None:
    text = (
        "# A `b`\n\nSome **bold** words,\na [page](sql.md) and a [place](https://here).\n\n"
        "* one\n  more\n* two\n\n```sh\na  b\n\nc\n```\n\n"
        "| k | says |\n|---|---|\n| `a\\|b` | x |\n"
    )
    assert rendered(text, 40) == [
        *("A b", "===", ""),
        *("Some bold words, a page (dpsql help sql)", "and a place <https://here>.", ""),
        *("* one more", "* two", "", "    a  b", "", "    c", ""),
        *("k      says", "─────  ────", "`a|b`  x"),
    ]
    assert rendered("`a b` c", 3, styled=True) == ["\x1b[36ma\x1b[0m \x1b[36mb\x1b[0m", "c"]
    narrow = "| name | n | means |\n|---|---|---|\n| `a` | 1 | " + "word " * 9 + "|\n"
    assert rendered(narrow, 24)[:2] == ["`a` (n 1)", "  means: word word word"]


def test_a_page_is_shown_without_colour_where_nobody_looks() -> None:
    result = run("help", "ledger")
    assert result.exit_code == 0
    assert result.stdout.startswith("The ledger\n==========\n")
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(("height", "paged"), [(10, True), (1000, False)])
@pytest.mark.parametrize("no_color", ["", "1"])
def test_the_pager_is_for_terminals_that_are_too_low(
    monkeypatch: pytest.MonkeyPatch, height: int, no_color: str, *, paged: bool
) -> None:
    shown: list[tuple[str, bool]] = []
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("LINES", str(height))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(click, "echo_via_pager", lambda text, color: shown.append((text, color)))
    monkeypatch.setattr(click, "echo", lambda text, **_: shown.append((text, False)))
    _show(page("ledger"))
    ((text, color),) = shown
    assert color == (paged and not no_color)
    assert ("\x1b" in text) == (not no_color)
    assert max(map(width, click.unstyle(text).splitlines())) <= 70


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_has_its_own_help(reason: Reason) -> None:
    result = run("help", reason.value)
    assert result.stdout.split()[0] in ("reason", f"`{reason.value}`")
    assert "what to do" in result.stdout


def test_help_of_a_command_is_its_own() -> None:
    assert run("help", "query").stdout == run("query", "--help").stdout
    assert run("help", "user").stdout == run("user", "--help").stdout
    assert run("help", "--help").stdout.startswith("Usage: main help ")


def test_a_word_of_a_heading_leads_to_its_section() -> None:
    shown = run("help", "budgets")
    assert shown.exit_code == 0
    assert shown.output.startswith("[budgets.B]")
    assert "query_epsilon" in shown.output
    assert "dpsql help policy" in shown.output


def test_what_is_not_there_is_told_with_what_is_nearest() -> None:
    result = run("help", "polcy")
    assert result.exit_code == 2
    assert "There is no page polcy. Did you mean policy?" in result.stderr
    assert "For all that is there: dpsql help." in run("help", "zzz").stderr


def test_topics_commands_and_reasons_are_completed() -> None:
    found = ShellComplete(main, {}, "dpsql", "_DPSQL_COMPLETE").get_completions(["help"], "p")
    values = [item.value for item in found]
    assert values == [
        *("policy", "postgres", "periods", "publish", "peers", "plan", "prepare"),
        *("publish", "private-keys-need-delta"),
    ]


def mentioned(text: str) -> set[str]:
    return set(re.findall(r"dpsql\s+help\s+([a-z-]+)", text))


def test_every_mention_of_a_topic_leads_to_a_page() -> None:
    texts = [*map(page, TOPICS), (ROOT / "README.md").read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "dpsql").rglob("*.py")]
    assert set().union(*map(mentioned, texts)) <= {*TOPICS, *(reason.value for reason in Reason)}
    assert mentioned("see dpsql help\n  nowhere") == {"nowhere"}
