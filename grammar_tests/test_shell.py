"""The shell: what it reads, completes, asks back about, and survives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dpsql.interfaces.cli import interactive, line_readers, main
from dpsql.interfaces.cli.completions import completions, names_of
from dpsql.interfaces.cli.line_readers import ScriptLines
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.shell_sessions import LocalSession
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.notices import Drowned
from dpsql.model.vocabulary import Request
from grammar_tests.bound import shop
from grammar_tests.fakes import EXPLANATION, FakeProxy

NAMES = replace(names_of(shop()[0], ("COUNT", "COALESCE")), commands=("\\d", "\\dt"))


def run(*args: str, proxy: FakeProxy, command: str = "shell", **options: Any) -> Result:
    fake: Any = proxy
    settings = CommandSettings(open=lambda _path: fake)
    return CliRunner().invoke(main, (command, *args), obj=settings, **options)


def texts(proxy: FakeProxy) -> list[str]:
    return [request.sql for request in proxy.requests]


# --- what is read ---


SCRIPT = "-- two\nSELECT 1; SELECT ';';\n\\?\nSELECT\n  3"


def test_a_script_is_its_statements_and_commands(tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text(SCRIPT, encoding="utf-8")
    for args, stdin in ((("-f", str(file)), ""), ((), SCRIPT)):
        proxy = FakeProxy()
        result = run(*args, proxy=proxy, input=stdin)
        assert result.exit_code == 0
        assert texts(proxy) == ["SELECT 1", "SELECT ';'", "SELECT\n  3"]
        assert result.stdout.count("\\explain SELECT") == 1
        assert result.stderr.count("cost: ") == 3


def test_query_answers_a_script_too(tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_text(SCRIPT, encoding="utf-8")
    proxy = FakeProxy()
    asked = ("-f", str(file), "--epsilon", "0.2", "--nonnegative")
    result = run(*asked, proxy=proxy, command="query")
    assert result.exit_code == 0
    assert texts(proxy) == ["SELECT 1", "SELECT ';'", "SELECT\n  3"]
    assert {(r.epsilon, r.nonnegative) for r in proxy.requests} == {(Decimal("0.2"), True)}
    for wrong in (("--format", "csv"), ("--plot",), ("--explain",), ("-o", "x")):
        result = run(*asked, *wrong, proxy=proxy, command="query")
        assert (result.exit_code, "one after the other" in result.stderr) == (ExitCode.USAGE, True)
    failing = FakeProxy(error=Refused(Reason.RAW_ROWS))
    assert run(*asked, proxy=failing, command="query").exit_code == ExitCode.PRIVACY
    assert texts(failing) == ["SELECT 1"]


def test_a_script_ends_where_something_fails() -> None:
    proxy = FakeProxy(error=Refused(Reason.RAW_ROWS))
    result = run(proxy=proxy, input="SELECT 1; SELECT 2;\nSELECT 3;")
    assert result.exit_code == ExitCode.PRIVACY
    assert texts(proxy) == ["SELECT 1"]
    assert run(proxy=FakeProxy(), input="\\nothing\n").exit_code == ExitCode.USAGE
    assert run("-f", "missing.sql", proxy=FakeProxy()).exit_code == ExitCode.USAGE


def test_a_script_in_a_script_ends_both(tmp_path: Path) -> None:
    inner = tmp_path / "inner.sql"
    inner.write_text("SELECT 1;\n\\nothing\nSELECT 2;", encoding="utf-8")
    proxy = FakeProxy()
    assert run(proxy=proxy, input=f"\\i {inner}\nSELECT 3;").exit_code == ExitCode.USAGE
    assert texts(proxy) == ["SELECT 1"]


def test_what_leaves_leaves() -> None:
    for word in ("\\q", "exit;", "QUIT"):
        proxy = FakeProxy()
        assert run(proxy=proxy, input=f"SELECT 1;\n{word}\nSELECT 2;").exit_code == 0
        assert texts(proxy) == ["SELECT 1"]


# --- what is completed ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT COUNT(*) FROM ord", ["orders"]),
        ("\\d LOG", ["logins"]),
        ("\\d", ["\\d", "\\dt"]),
        ("SELECT coun", ["country", "countries", "COUNT("]),
        ("SELECT orders.pl", ["placed_at"]),
        ("… WHERE status = ", ["'open'", "'paid'", "'returned'"]),
        ("… WHERE status IN ('paid', 'o", ["'open'"]),
        ("SELECT nam", []),
        ("SELECT ", []),
    ],
)
def test_what_is_declared_is_completed(before: str, after: list[str]) -> None:
    offered = [text for text, _ in completions(NAMES, before)]
    assert offered == after if before != "SELECT nam" else "name" not in NAMES.tables["customers"]


def test_prompt_toolkit_completes_goes_on_and_remembers(tmp_path: Path) -> None:
    past = tmp_path / "history"
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        reader = line_readers._Rich(lambda: NAMES, past)
        document = Document("SELECT COUNT(*)\nFROM ord")
        offered = reader._session.completer.get_completions(document, CompleteEvent())
        assert [(c.text, c.start_position) for c in offered] == [("orders", -3)]
        keys.send_text("SELECT COUNT(*)\nFROM orders;\n")
        assert reader.read("=> ") == "SELECT COUNT(*)\nFROM orders;"
        keys.send_text("\x1b[A\n")
        assert reader.read("=> ") == "SELECT COUNT(*)\nFROM orders;"
    assert "FROM orders;" in past.read_text(encoding="utf-8")


def test_the_history_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = line_readers._history("history")
    assert path is not None
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


# --- what is asked back about, and what the shell survives ---


class Typed:
    """Somebody who enters these, or interrupts."""

    def __init__(self, entered: Sequence[str | type[BaseException]]) -> None:
        self._entered = iter(entered)

    def read(self, prompt: str) -> str:
        assert prompt == "ana=> "
        one = next(self._entered, EOFError)
        if isinstance(one, str):
            return one
        raise one


def entering(proxy: FakeProxy, *entered: str | type[BaseException], yes: bool = False) -> ExitCode:
    fake: Any = proxy
    session = LocalSession(fake, Request("", "ana"))
    opened = interactive.Shell(session, most=Decimal("0.5"), yes=yes)
    return opened.run(Typed(entered))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """What somebody answers who is asked back: the rest of these."""
    replies: list[bool] = []

    def confirm(_text: str, **_options: Any) -> None:
        if not replies.pop(0):
            raise click.Abort

    monkeypatch.setattr(interactive, "can_answer", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    yield replies
    assert not replies


DEAR = replace(EXPLANATION, epsilon=Decimal(1))
VAIN = replace(EXPLANATION, notices=(*EXPLANATION.notices, Drowned("customers", 10, 40.0)))


@pytest.mark.parametrize("plan", [DEAR, VAIN])
def test_what_is_dear_or_in_vain_is_asked_back_about(plan: Any, answers: list[bool]) -> None:
    answers += [False, True]
    proxy = FakeProxy(explanation=plan)
    entering(proxy, "SELECT 1;", "SELECT 2;")
    assert [(r.sql, r.confirmed) for r in proxy.requests if r.confirmed] == [("SELECT 2", True)]


def test_the_price_of_what_is_not_is_told(
    answers: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    assert answers == []
    proxy = FakeProxy(explanation=replace(EXPLANATION, epsilon=Decimal("0.1")))
    entering(proxy, "SELECT 1;", "EXPLAIN SELECT 2;")
    assert capsys.readouterr().err.count("price: ε = 0.1") == 1
    assert [r.confirmed for r in proxy.requests] == [False] * 3


def test_yes_is_never_asked_back(answers: list[bool]) -> None:
    assert answers == []
    proxy = FakeProxy(explanation=VAIN)
    entering(proxy, "SELECT 1;", yes=True)
    assert [r.confirmed for r in proxy.requests] == [True]


def test_the_shell_goes_on_after_whatever_fails(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (
        Refused(Reason.RAW_ROWS),
        Failed("6f", cancelled=True),
        ZeroDivisionError("secret"),
    ):
        proxy: Any = FakeProxy(error=error)  # type: ignore[arg-type]
        assert entering(proxy, "SELECT 1;", KeyboardInterrupt, "\\x", "SELECT ';", "\\q") == 0
        assert len(proxy.requests) == 2
    assert "secret" not in capsys.readouterr().err


def test_an_epsilon_holds_until_another_does() -> None:
    proxy = FakeProxy()
    entering(proxy, "\\epsilon 0.2", "SELECT 1;", "\\epsilon 0", "\\epsilon", "SELECT 2;")
    assert [r.epsilon for r in proxy.requests] == [Decimal("0.2"), None]


def test_every_command_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    entering(FakeProxy(), "\\?", "\\d", "\\dt", "\\explain SELECT 1", "\\budget", "\\history")
    printed = capsys.readouterr()
    assert not printed.err.count("fault")
    for words in ("\\explain SELECT", "(no rows)", "Charge: ", "0.27 %", "SELECT 1"):
        assert words in printed.out


def test_lines_at_the_end_are_a_statement() -> None:
    reader = ScriptLines(["SELECT 1\n", "\n"])
    assert reader.read("").strip() == "SELECT 1"
    with pytest.raises(EOFError):
        reader.read("")
