"""The command line on the demo: a policy, a database, a ledger, and where it matters a process."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.interfaces.cli import main
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.policy import demo, tour
from grammar_tests.waiting import until

BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
OLDER = "SELECT COUNT(*) AS n FROM customers WHERE age > {}"
# Each customer beside a hundred million rows: nothing finishes this within its time limit.
ENDLESS = (
    "SELECT COUNT(*) AS n FROM customers AS c"
    + "".join(f", generate_series(1, 100) AS s{n}(v)" for n in range(4))
    + " WHERE c.age * s0.v + s1.v * s2.v > s3.v"
)
DEADLINE_SECONDS = 60

Done = subprocess.CompletedProcess[str]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "dpsql", *args]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "DPSQL_ANALYST"}
    return {**kept, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}


def run(where: Path, *args: str, code: int = 0) -> Done:
    done = subprocess.run(  # noqa: S603
        command(*args),
        cwd=where,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def within(where: Path, *args: str, code: int = 0) -> Result:
    """The same command in this process, which has imported what it needs."""
    with chdir(where):
        done = CliRunner().invoke(main, args, env={"DPSQL_ANALYST": None})
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.build(tmp_path_factory.mktemp("shop")).parent


@pytest.fixture
def shop(built: Path, tmp_path: Path) -> Path:
    """A shop of its own for a test that spends or breaks something."""
    for name in ("shop.duckdb", "dpsql.toml"):
        shutil.copy(built / name, tmp_path / name)
    return tmp_path


def edit(where: Path, before: str, after: str) -> None:
    policy = where / "dpsql.toml"
    text = policy.read_text(encoding="utf-8")
    assert before in text
    policy.write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.full("starts processes")
def test_the_demo_answers_three_queries_and_the_second_time_for_nothing(tmp_path: Path) -> None:
    first = run(tmp_path, "demo", "--small")
    assert first.stdout.count("±") >= 9
    assert first.stderr.count("cost: ε = ") == 3
    assert "leaked" not in first.stderr
    second = run(tmp_path, "demo", "dpsql-demo")
    assert second.stderr.count("cost: nothing, remembered") == 3
    assert second.stdout == first.stdout


@pytest.mark.full("starts processes")
def test_the_tour_has_five_steps_and_costs_two_questions(tmp_path: Path) -> None:
    """A refusal is shown, other words are free, and the last step shows no new row."""
    first = run(tmp_path, "demo")
    assert [f"\n{n}. " in first.stdout for n in range(1, 7)] == [True] * 5 + [False]
    assert first.stderr.count("cost: ε = ") == 2
    assert first.stderr.count("cost: nothing, remembered") == 1
    assert first.stdout.count("2024-") >= 12
    assert "questions left" in first.stdout
    assert "Go on: cd dpsql-demo" in first.stderr
    second = run(tmp_path, "demo")
    assert second.stderr.count("cost: nothing, remembered") == 3
    assert "\ntry: leaves out name, counts rows and averages age\n" in first.stdout
    assert second.stdout.split("\n5. ")[0] == first.stdout.split("\n5. ")[0]


@pytest.mark.full("starts processes")
def test_the_tour_shows_the_truth_within_its_intervals(tmp_path: Path) -> None:
    """All months of a shop that is asked once: 24 low ends and 24 counts of buyers."""
    policy = tour.build_shop(tmp_path)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        truth = connection.execute(tour.BY_MONTH).fetchall()
    with dpsql.connect(str(policy)) as connection:
        cursor = connection.cursor()
        rows = cursor.execute(tour.BY_MONTH).fetchall()
        intervals = cursor.intervals
    assert [row[0] for row in rows] == [row[0] for row in truth]
    ends = [ends for row in intervals for ends in row[1:] if ends is not None]
    true = [float(number) for row in truth for number in row[1:]]
    inside = [low <= x <= high for (low, high), x in zip(ends, true, strict=True)]
    assert sum(inside) >= 40
    assert all(high - low < x / 2 for (low, high), x in zip(ends, true, strict=True))


@pytest.mark.full("starts processes")
def test_an_answer_is_repeated_for_nothing_until_the_data_change(shop: Path) -> None:
    first = run(shop, "query", BY_SEGMENT, "--format", "csv")
    again = within(shop, "query", f"{BY_SEGMENT} -- again", "--format", "csv", "--epsilon", "0.4")
    assert again.stdout == first.stdout
    assert "cost: nothing" in again.stderr
    assert within(shop, "refresh").stdout == "data version 2\n"
    assert "cost: ε = 0.5" in within(shop, "query", BY_SEGMENT).stderr
    rows = list(csv.DictReader(io.StringIO(first.stdout)))
    assert {row["segment"] for row in rows} == {"business", "consumer"}
    assert all(float(row["n_margin"]) > 0 for row in rows)


@pytest.mark.full("starts processes")
def test_explain_is_free(shop: Path) -> None:
    brief = within(shop, "explain", BY_SEGMENT)
    whole = within(shop, "explain", BY_SEGMENT, "--verbose")
    assert within(shop, "query", f"EXPLAIN PRIVACY {BY_SEGMENT}").stdout == brief.stdout
    assert within(shop, "query", f"EXPLAIN PRIVACY VERBOSE {BY_SEGMENT}").stdout == whole.stdout
    assert "n        INTEGER  20" in brief.stdout
    assert "discrete Gaussian" in whole.stdout
    assert "ρ = 0 " in within(shop, "budget").stdout


@pytest.mark.full("starts processes")
def test_exit_codes(shop: Path) -> None:
    run(shop, "query", "SELECT FROM", code=1)
    run(shop, "query", "SELECT name FROM customers", code=3)
    within(shop, "query", BY_SEGMENT, "--epsilon", "3", code=3)
    edit(shop, "epsilon = 10.0", "epsilon = 0.3")
    edit(shop, "query_epsilon = 0.5", "query_epsilon = 0.2")
    edit(shop, "max_query_epsilon = 2.0", "max_query_epsilon = 0.3")
    within(shop, "query", BY_SEGMENT)
    for age in (20, 21):
        within(shop, "query", OLDER.format(age))
    done = run(shop, "query", OLDER.format(22), code=4)
    assert re.search("It needs ε = 0.2 .*% is left .*(fits|no question)", done.stderr)
    (shop / "shop.duckdb").unlink()
    within(shop, "query", BY_SEGMENT, code=5)
    within(shop, "query", BY_SEGMENT, "--policy", "missing.toml", code=1)


@pytest.mark.full("starts processes")
def test_check_finds_what_does_not_fit_and_records_what_does(shop: Path) -> None:
    reminder = within(shop, "check").stdout
    assert reminder.count("fix: ") == 1
    assert "may run out of δ before ε: 322 questions" in reminder
    assert "recorded" in within(shop, "check", "--record").stderr
    edit(shop, "age = { bounds = [0, 120]", "age = { bounds = [0, 30]")
    line = (shop / "dpsql.toml").read_text(encoding="utf-8").splitlines()
    number = next(i for i, text in enumerate(line, 1) if text.startswith("age ="))
    found = within(shop, "check", code=1).stdout
    assert found.startswith(f"dpsql.toml:{number}: ")
    assert "fix: " in found


@pytest.mark.full("measures neighbours or further data sets")
def test_init_drafts_a_policy_that_answers_nothing(shop: Path) -> None:
    done = within(shop, "init", "shop.duckdb", "-o", "draft.toml")
    decisions = int(done.stderr.split()[0])
    draft = (shop / "draft.toml").read_text(encoding="utf-8")
    stated = [line for line in draft.splitlines() if '"DECIDE"' in line]
    assert sum(not line.startswith("#") for line in stated) == decisions
    refused = within(shop, "query", BY_SEGMENT, "--policy", "draft.toml", code=1)
    assert f"{decisions} decisions" in refused.stderr
    within(shop, "init", "shop.duckdb", "-o", "draft.toml", code=2)
    assert (shop / "draft.toml").read_text(encoding="utf-8") == draft
    within(shop, "init", "missing.duckdb", "-o", "other.toml", code=5)
    assert not (shop / "other.toml").exists()


def test_init_writes_paths_relative_to_the_policy(shop: Path) -> None:
    (shop / "etc").mkdir()
    within(shop, "init", "shop.duckdb", "-o", "etc/dpsql.toml")
    assert 'path = "../shop.duckdb"' in (shop / "etc" / "dpsql.toml").read_text(encoding="utf-8")


@pytest.mark.full("starts processes")
def test_a_ledger_without_its_mark_fails_closed_until_the_owner_accepts_it(shop: Path) -> None:
    within(shop, "query", BY_SEGMENT)
    (shop / "dpsql.ledger.mark").unlink()
    within(shop, "query", BY_SEGMENT, code=5)
    assert "accepted" in within(shop, "budget", "--accept-ledger").stderr
    assert "cost: nothing" in within(shop, "query", BY_SEGMENT).stderr


def charged(where: Path) -> int:
    """How many queries the ledger has charged; 0 while it does not exist."""
    path = where / "dpsql.ledger"
    if not path.exists():
        return 0
    ledger = SqliteLedger.open(str(path))
    try:
        return len(ledger.history(None, 10))
    finally:
        ledger.close()


@pytest.mark.full("starts processes")
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is a POSIX signal")
def test_ctrl_c_cancels_the_statement_and_its_charge_stays(shop: Path) -> None:
    edit(shop, "[ledger]", "[limits]\nmax_fanout = 100000000\n\n[ledger]")
    run(shop, "budget")
    child = subprocess.Popen(  # noqa: S603
        command("query", ENDLESS),
        cwd=shop,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        # A shell starts background jobs, and so perhaps this test, with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        until(lambda: charged(shop))
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=DEADLINE_SECONDS)
    finally:
        child.kill()
    assert (child.returncode, stdout) == (130, "")
    assert re.search(r"Query \w+ was cancelled; its charge stays", stderr)
    assert charged(shop) == 1
