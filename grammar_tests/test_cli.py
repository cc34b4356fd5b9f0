"""The command line around a proxy: streams, formats, exit codes, and what a user never sees."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces import records
from dpsql.interfaces.cli import budget_sheet, main
from dpsql.interfaces.cli import terminal as terminal_module
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, interruptible
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.tables import markdown, table
from dpsql.ledgers import SharedAnswer
from dpsql.model.errors import (
    DpsqlError,
    Failed,
    LedgerError,
    MissingExtra,
    PolicyError,
    Reason,
    Refused,
    Unreachable,
)
from dpsql.model.tree import PlanForm, Span
from dpsql.model.vocabulary import Answer, Loss
from grammar_tests.fakes import ANSWER, EXPLANATION, NOTICE, FakeProxy
from grammar_tests.proxy_kit import shop


def run(*args: str, proxy: FakeProxy | None = None, **options: Any) -> Result:
    fake: Any = proxy or FakeProxy()
    settings = CommandSettings(open=lambda _path: fake, publish=lambda _path: ())
    return CliRunner().invoke(main, args, obj=settings, **options)


# --- streams ---


def test_results_on_stdout_and_everything_else_on_stderr() -> None:
    result = run("query", "SELECT 1")
    assert result.exit_code == 0
    assert result.stdout == table(ANSWER).text
    assert result.stderr == (
        f"notice: {NOTICE}\ncost: ε = 0.1 (ρ = 0.0005, δ = 1e-9), query 6f3a; "
        "budget default: 0.27 % spent\n"
    )


@pytest.mark.parametrize(
    ("style", "render"),
    [
        ("json", records.json_array),
        ("jsonl", records.json_lines),
        ("csv", records.csv),
        ("markdown", markdown),
    ],
)
def test_every_format_is_written(style: str, render: Callable[[Answer], str]) -> None:
    assert run("query", "x", "--format", style).stdout == render(ANSWER)


def test_parquet_is_written() -> None:
    pytest.importorskip("pyarrow", reason="the parquet extra is not installed")
    assert run("query", "x", "--format", "parquet").stdout_bytes == records.parquet(ANSWER)


def test_without_pyarrow_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    proxy = FakeProxy()
    result = run("query", "x", "--format", "parquet", proxy=proxy)
    assert result.exit_code == 2
    assert "dpsql[parquet]" in result.stderr
    assert not proxy.requests


# --- files ---


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    assert run("query", "x", "--format", "csv", "-o", str(target)).exit_code == 0
    written = target.read_text(encoding="utf-8")
    refused = FakeProxy(error=Refused(Reason.RAW_ROWS))
    assert run("query", "x", "--format", "csv", "-o", str(target), proxy=refused).exit_code == 3
    assert target.read_text(encoding="utf-8") == written
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_bad_path_costs_nothing(tmp_path: Path) -> None:
    proxy = FakeProxy()
    result = run("query", "x", "-o", str(tmp_path / "no" / "out"), proxy=proxy)
    assert result.exit_code == 2
    assert not proxy.requests


def test_a_device_is_not_replaced() -> None:
    assert run("query", "x", "-o", os.devnull).exit_code == 0
    assert not Path(os.devnull).is_file()


def test_a_failure_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old", encoding="utf-8")

    def fail_halfway() -> None:
        with output(str(target)) as write:
            write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text(encoding="utf-8") == "old"


# --- input ---


def test_sql_from_argument_stdin_and_file(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 3", encoding="utf-8")
    proxy = FakeProxy()
    run("query", "SELECT 1", proxy=proxy)
    run("query", "-", proxy=proxy, input="SELECT 2")
    run("query", "-f", str(file), proxy=proxy)
    assert [r.sql for r in proxy.requests] == ["SELECT 1", "SELECT 2", "SELECT 3"]


def test_an_error_in_one_of_several_statements_names_options_of_the_command() -> None:
    facts = {"needed": Loss(2 * 10**8), "left": Loss(10**8), "budget": "b", "accountant": "pure"}
    proxy = FakeProxy(error=Refused(Reason.BUDGET_EXHAUSTED, limit=Loss(10**9), **facts))
    shown = run("query", "SELECT 1; SELECT 2", proxy=proxy).stderr
    assert "--epsilon" in shown
    assert "\\epsilon" not in shown


@pytest.mark.parametrize("args", [(), ("SELECT 1", "-f", "q.sql"), ("-f", "missing.sql")])
def test_no_text_or_two_texts_are_usage_errors(args: tuple[str, ...]) -> None:
    assert run("query", *args).exit_code == 2


def test_text_that_is_not_utf8_is_bad_input() -> None:
    result = run("query", "-", input=b"SELECT '\xff'")
    assert result.exit_code == 1
    assert "not UTF-8" in result.stderr


@pytest.mark.parametrize("epsilon", ["nan", "inf", "-1", "0", "x", "1e999999999", "-0", "sNaN"])
def test_epsilon_that_is_no_positive_number(epsilon: str) -> None:
    proxy = FakeProxy()
    assert run("query", "x", f"--epsilon={epsilon}", proxy=proxy).exit_code == 2
    assert not proxy.requests


def test_epsilon_is_exact() -> None:
    proxy = FakeProxy()
    assert run("query", "x", "--epsilon", "0.1", proxy=proxy).exit_code == 0
    assert proxy.requests[0].epsilon == Decimal("0.1")


@pytest.mark.parametrize(
    ("args", "env", "who"),
    [
        (("query", "x"), {}, "ana"),
        (("query", "x"), {"DPSQL_ANALYST": "bob"}, "bob"),
        (("--analyst", "ana", "query", "x"), {"DPSQL_ANALYST": "bob"}, "ana"),
        (("query", "x", "--analyst", "bob"), {}, "bob"),
        (("--analyst", "ana", "query", "x", "--analyst", "bob"), {}, "bob"),
    ],
)
def test_who_asks(args: tuple[str, ...], env: dict[str, str], who: str) -> None:
    proxy = FakeProxy()
    assert run(*args, proxy=proxy, env=env).exit_code == 0
    assert proxy.requests[0].analyst == who


@pytest.mark.parametrize(
    "words", ["check", "init x", "prepare", "budget", "cube list", "user list", "local questions t"]
)
def test_where_nobody_asks_no_analyst_is_taken(words: str) -> None:
    result = run(*words.split(), "--analyst", "ana")
    assert (result.exit_code, "No such option" in result.stderr) == (2, True)


# --- errors ---


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(Reason.SYNTAX), 1),
        (PolicyError("p", 1, "m", "f"), 1),
        (MissingExtra("x"), 2),
        (Refused(Reason.RAW_ROWS), 3),
        (Refused(Reason.BUDGET_EXHAUSTED), 4),
        (Unreachable("x"), 5),
        (LedgerError("x"), 5),
        (Failed("6f3a"), 5),
        (Failed("6f3a", cancelled=True), 130),
    ],
)
def test_exit_codes(error: DpsqlError, code: int) -> None:
    for command in ("query", "explain"):
        result = run(command, "SELECT 1", proxy=FakeProxy(error=error))
        assert result.exit_code == code
        assert result.stdout == ""
        assert "Traceback" not in result.stderr


def test_unknown_analyst_and_unknown_option() -> None:
    assert run("query", "x", "--analyst", "eve").exit_code == 1
    assert run("query", "x", "--frob").exit_code == 2
    assert run("frob").exit_code == 2


def test_a_refusal_points_at_its_place() -> None:
    error = Refused(Reason.HIDDEN_COLUMN, Span(7, 11), column="name")
    result = run("query", "SELECT name FROM t", proxy=FakeProxy(error=error))
    assert "hidden-column at 1:8: Column name is hidden." in result.stderr
    assert "  SELECT name FROM t\n         ^^^^\n" in result.stderr


def test_a_fault_shows_no_traceback_and_no_text() -> None:
    def fault() -> None:
        raise ValueError("Zoe earns 12345")

    result = run("query", "SELECT 1", proxy=FakeProxy(during=fault))
    assert result.exit_code == 5
    assert "ValueError" in result.stderr
    assert not re.search("Zoe|12345|Traceback", result.output)


# --- the terminal ---


def test_ctrl_c_cancels_and_the_charge_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Event()
    proxy = FakeProxy(error=Failed("6f3a", cancelled=True), during=lambda: _wait(stop))
    monkeypatch.setattr(proxy, "cancel", stop.set)
    monkeypatch.setattr(Progress, "tick", _interrupt_once())
    result = run("query", "SELECT 1", proxy=proxy)
    assert stop.is_set()
    assert result.exit_code == 130
    assert "6f3a was cancelled; its charge stays" in result.stderr


def test_ctrl_c_that_comes_too_late_still_reports_the_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = Event()
    proxy = FakeProxy(during=lambda: _wait(stop))
    monkeypatch.setattr(proxy, "cancel", stop.set)
    monkeypatch.setattr(Progress, "tick", _interrupt_once())
    result = run("query", "SELECT 1", proxy=proxy)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "its charge stays" in result.stderr


def test_a_second_ctrl_c_stops_waiting() -> None:
    stop, cancels = Event(), []

    class Impatient(Progress):
        def tick(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: _wait(stop), lambda: cancels.append(1), Impatient())
    stop.set()


def test_ctrl_c_before_the_charge_leaves_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Event()

    def stopped() -> None:
        _wait(stop)
        raise RuntimeError

    proxy = FakeProxy(during=stopped)
    monkeypatch.setattr(proxy, "cancel", stop.set)
    monkeypatch.setattr(Progress, "tick", _interrupt_once())
    result = run("query", "SELECT 1", proxy=proxy)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "fault" not in result.stderr


def _wait(stop: Event) -> None:
    assert stop.wait(60)


def _interrupt_once() -> Any:
    left = [KeyboardInterrupt()]

    def tick(_self: Progress) -> None:
        if left:
            raise left.pop()

    return tick


class Recorder(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("on_a_terminal", "seconds", "shown"), [(True, 2, True), (True, 0, False), (False, 2, False)]
)
def test_progress_only_on_a_terminal_and_only_after_a_second(
    monkeypatch: pytest.MonkeyPatch, *, on_a_terminal: bool, seconds: int, shown: bool
) -> None:
    stream = Recorder(terminal=on_a_terminal)
    clock = iter([0.0, float(seconds)])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(terminal_module, "monotonic", lambda: next(clock))
    progress = Progress()
    progress.tick()
    progress.clear()
    assert ("Ctrl-C" in stream.getvalue()) is shown


@pytest.mark.parametrize(("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_respected(env: dict[str, str], *, colored: bool) -> None:
    proxy = FakeProxy(error=Refused(Reason.SYNTAX))
    clean = {"NO_COLOR": "", **env}
    result = run("query", "x", proxy=proxy, env=clean, color=True)
    assert ("\x1b[" in result.stderr) is colored or not colored


# --- the other commands ---


SHORT = (
    "ε = 0.1 as one query, ρ = 0.0005, δ = 1e-9 (zcdp)",
    "is spent (0 %); after this query 0.27 %",
    "2 public keys",
    "segment  VARCHAR  exact",
    "n        INTEGER  40",
    "ε = 1 (--epsilon 1): n ± 4 instead of 40",
)
LONG = (
    "customers.customer_id (add_remove)",
    "proved: the keys are determined by the unit",
    "no limit",
    "Measured: number of rows",
    "[0, 10]",
    "discrete Gaussian, σ = 20.4, ± 40 at 95 %",
    "orders: link always resolves (engine constraint)",
    "SELECT segment, COUNT(*)",
    "SELECT segment, n FROM release_0",
)


@pytest.mark.parametrize("args", [("explain", "SELECT 1"), ("query", "SELECT 1", "--explain")])
def test_a_plan_is_short(args: tuple[str, ...]) -> None:
    text = run(*args).stdout
    assert [words for words in (*SHORT, "--verbose shows") if words not in text] == []
    assert [words for words in LONG if words in text] == []


def test_a_plan_is_complete() -> None:
    text = run("explain", "SELECT 1", "--verbose").stdout
    assert [words for words in (*SHORT, *LONG) if words not in text] == []


@pytest.mark.parametrize(
    "args",
    [("explain", "x", "--format", "json"), ("query", "x", "--explain", "--format", "json")],
)
def test_a_plan_is_json(args: tuple[str, ...]) -> None:
    assert run(*args).stdout == plan_text(EXPLANATION, PlanForm.JSON)


def test_budget_and_history() -> None:
    text = run("budget").stdout
    line = next(line for line in text.splitlines() if line.startswith("  default"))
    assert re.split(" {2,}", line.strip()) == [
        "default",
        "3",
        "0.28 %",
        "989 at ε = 0.1",
        "ε = 1",
        "zcdp",
        "ρ = 0.0005, δ = 1e-9",
        "ρ = 0.176, δ = 5e-7",
    ]
    listed = run("history", "--limit", "5").stdout
    assert listed.count("2025-01-02 03:04:05  charge  ana") == 2
    assert listed.count("answered  6f3a   SELECT 1\n") == 2


class PaidInParts(FakeProxy):
    """Memory told two thirds of what was asked; Bob got of Ana what she had paid."""

    def history(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        (entry, *_) = super().history(*args, **options)
        entry.inquiry = replace(entry.inquiry, requested="0.30")
        return (entry,)

    def shares(self, *_others: Any, **_more: Any) -> tuple[SharedAnswer, ...]:
        (entry,) = self.history()
        epsilon, before = entry.epsilon, ("ana",)
        of = entry.query_id, entry.time, "bob", "default", "zcdp"
        return (SharedAnswer(*of, epsilon=epsilon, loss=entry.loss, before=before),)


def test_history_tells_what_was_asked_for_and_what_is_shared() -> None:
    charge, share = run("history", proxy=PaidInParts()).stdout.splitlines()[2:]
    assert "ana  default  0.1 of 0.3  answered " in charge
    assert re.search(r"share +bob +default  0\.1 +shared by ana +6f3a", share)
    written = run("history", "--format", "json", proxy=PaidInParts()).stdout
    charge, share = json.loads(written)
    assert (charge["epsilon"], charge["requested"]) == (0.1, 0.3)
    assert (share["epsilon"], share["charge"], share["requested"]) == (0.1, None, None)


class ReceivedCube(FakeProxy):
    """Bob received a cube."""

    def shares(self, *_others: Any, **_more: Any) -> tuple[SharedAnswer, ...]:
        (entry, *_) = self.history()
        of = "6f3a 6f3b", entry.time, "bob", "default", "zcdp"
        before = ("cube sold",)
        return (
            SharedAnswer(*of, epsilon=entry.epsilon, loss=entry.loss, before=before, cube="sold"),
        )


def test_history_tells_what_was_received_of_a_cube() -> None:
    (share,) = [
        line for line in run("history", proxy=ReceivedCube()).stdout.splitlines() if "bob" in line
    ]
    assert re.search(r"share +bob +default .* received cube sold \(ρ = [0-9.]+.*\)", share)
    assert "6f3a" not in share


def test_what_is_wider_than_the_terminal_breaks_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = run("query", "SELECT 1").stderr
    monkeypatch.setattr(terminal_module, "columns", lambda _stream: 40)
    broken = run("query", "SELECT 1").stderr
    assert broken.split() == whole.split()
    assert max(map(len, whole.splitlines())) > 40 >= max(map(len, broken.splitlines()))
    excerpt = "  " + "SELECT 1 " * 9
    terminal_module.note(excerpt)
    assert capsys.readouterr().err == f"{excerpt}\n"


def test_a_budget_wider_than_the_terminal_has_lines_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = run("budget").stdout
    monkeypatch.setattr(budget_sheet, "columns", lambda _stream: 60)
    narrow = run("budget").stdout
    assert max(map(len, wide.splitlines())) > 60 >= max(map(len, narrow.splitlines()))
    assert "\n  questions left      989 at ε = 0.1\n" in narrow
    assert sorted(set(wide.split())) == sorted(set(narrow.split()))


def test_every_command_is_listed_once_with_its_whole_sentence() -> None:
    listed = " ".join(run("--help").stdout.split())
    for name in main.commands:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert listed.count(f" {name} {command.get_short_help_str(1_000)}") == 1
    assert listed.count("...") == "COMMAND [ARGS]...".count("...")


def test_refresh() -> None:
    assert run("refresh").stdout == "data version 2\n"


def test_every_command_closes_the_proxy() -> None:
    proxy = FakeProxy()
    for args in (("query", "x"), ("explain", "x"), ("budget",), ("refresh",)):
        run(*args, proxy=proxy)
    assert proxy.closed == 4


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_the_shells_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_DPSQL_COMPLETE" in result.stdout


def loaded(program: str) -> set[str]:
    """Heavy modules that a fresh interpreter has loaded when `program` ends."""
    return at_end(program)[0]


def at_end(program: str) -> tuple[set[str], int]:
    """Those modules, and how many objects nobody will look through for garbage."""
    code = (
        "import sys, atexit, gc, runpy\n"
        "heavy = {'duckdb', 'numpy', 'sqlglot', 'pyarrow', 'asyncio', 'secrets', 'ssl'}\n"
        "end = lambda: print('END', gc.get_freeze_count(), *(heavy & set(sys.modules)))\n"
        "atexit.register(end)\n"
    )
    command = [sys.executable, "-c", code + program]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, timeout=60
    )
    frozen, *modules = done.stdout.rsplit("END", 1)[1].split()
    return set(modules), int(frozen)


def cold(*args: str) -> str:
    return f"sys.argv = {['dpsql', *args]!r}\nrunpy.run_module('dpsql', run_name='__main__')"


def explained(folder: Path) -> str:
    policy = ("--policy", str(shop(folder)), "--analyst", "ana")
    return cold(*policy, "explain", "SELECT COUNT(*) FROM orders")


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("args", [("--help",), ("query", "--help"), ("--version",)])
def test_help_and_version_are_light(args: tuple[str, ...]) -> None:
    assert loaded(cold(*args)) == set()


@pytest.mark.full("starts processes")
def test_a_worker_and_a_question_load_what_they_need_alone(tmp_path: Path) -> None:
    assert loaded("import dpsql.engines.duckdb.worker") == set()
    modules, frozen = at_end(explained(tmp_path))
    assert modules <= {"numpy", "secrets", "sqlglot"}
    assert frozen > 50_000  # all of it: to look through it costs as much as half of the imports


def test_wrong_twin_what_looks_for_garbage_at_the_end_is_seen() -> None:
    assert at_end("import click")[1] == 0


def test_wrong_twin_a_heavy_import_is_seen() -> None:
    assert "numpy" in loaded("import numpy")
