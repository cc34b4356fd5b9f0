"""Monitors from the command line, a connection and the module."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dpsql
from dpsql.interfaces.cli import main
from dpsql.interfaces.dbapi import OperationalError, ProgrammingError
from dpsql.model.errors import Reason
from grammar_tests.proxy_kit import shop
from grammar_tests.test_monitor import COUNT, NOTHING, PURE, SUM, Quiet, quiet

__all__ = ["quiet"]

FILE = """-- every day
SELECT COUNT(*) FROM customers; -- one; two
SELECT segment, COUNT(*) AS n
FROM customers WHERE city <> ';' GROUP BY segment;
;
"""


def command(folder: Path, text: str, *options: str) -> Any:
    path = folder / "shop" / "dpsql.toml"
    if not path.exists():
        shop(folder / "shop", *PURE)
    (folder / "queries.sql").write_text(text, encoding="utf-8")
    words = ["watch", str(folder / "queries.sql"), "--policy", str(path), "--analyst", "ana"]
    return CliRunner().invoke(main, [*words, *options])


@pytest.mark.full("processes are started and killed")
def test_the_command_prints_a_word_per_query(tmp_path: Path) -> None:
    options = ("--threshold", "-1000000", "--alarms", "2", "--epsilon", "1")
    done = command(tmp_path, FILE, *options)
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["statement", "line", "key", "answer"]
    assert lines[1] == ["1", "2", "above"]
    assert lines[2] == ["2", "3", "segment", "=", "business", "above"]
    assert lines[3] == ["2", "3", "not", "asked"]
    assert "alarms left: 0" in done.stderr
    assert "cost: ε = 1" in done.stderr
    again = command(tmp_path, FILE, *options, "--format", "json")
    assert json.loads(again.stdout) == [
        {"statement": 1, "line": 2, "key": {}, "above": True},
        {"statement": 2, "line": 3, "key": {"segment": "business"}, "above": True},
        {"statement": 2, "line": 3, "key": {}, "above": None},
    ]
    assert "remembered" in again.stderr
    measured = ("--measure", "1", "--format", "json")
    told = json.loads(command(tmp_path, FILE, *options, *measured).stdout)
    assert [row["above"] for row in told] == [True, True, None]
    assert [type(row["number"]) for row in told] == [int, int, type(None)]
    assert [row["margin"] and row["margin"] > 0 for row in told] == [True, True, None]
    table = command(tmp_path, FILE, *options, *measured[:2]).stdout.splitlines()
    assert table[0].split() == ["statement", "line", "key", "answer", "about"]
    assert table[1].split()[3:5] == [f"{told[0]['number']:,}", "±"]


@pytest.mark.parametrize(
    ("text", "options", "code", "said"),
    [
        (f"{COUNT};\n SELECT AVG(age) FROM customers", (), 3, "statement 2:\nunsupported"),
        (f"{COUNT};\n SELECT nothing FROM customers", (), 1, "unknown-column at 2:9"),
        ("-- nothing", (), 2, "no statement"),
        ("SELECT 'open", (), 1, "syntax-error"),
        (COUNT, ("--epsilon", "1000000"), 3, "epsilon-too-large"),
        (COUNT, ("--threshold", "many"), 2, "decimal number"),
        (COUNT, ("--alarms", "0"), 2, "alarms"),
    ],
)
def test_the_command_says_what_is_wrong_and_where(
    tmp_path: Path, text: str, options: tuple[str, ...], code: int, said: str
) -> None:
    done = command(tmp_path, text, "--threshold", "5", "--alarms", "1", *options)
    assert done.exit_code == code
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.full("opens servers or connects clients")
def test_a_connection_watches_with_its_own_errors(quiet: Quiet) -> None:
    connection = dpsql.connect(proxy=quiet[0], analyst="ana", epsilon="1")
    with connection.watch("1", alarms=1) as monitor:
        assert monitor.receipt.epsilon == 1
        assert not monitor.ask(NOTHING).above
        with pytest.raises(ProgrammingError) as wrong:
            monitor.ask("SELECT nothing FROM customers")
        assert wrong.value.reason is Reason.UNKNOWN_COLUMN
        assert monitor.ask(COUNT).above
        assert monitor.left == 0
        with pytest.raises(OperationalError) as over:
            monitor.ask(SUM)
        assert over.value.reason is Reason.ALARMS_USED
    with connection.watch("-1000000", alarms=1, measure="0.5") as measured:
        assert measured.receipt.epsilon == Decimal("1.5")
        verdict = measured.ask(COUNT)
        assert isinstance(verdict.numbers[0], int)
        assert verdict.margin
    with pytest.raises(ProgrammingError):
        connection.watch("1", alarms=1, measure=0.1 + 0.2)  # type: ignore[arg-type]
    with pytest.raises(ProgrammingError):
        connection.watch("many", alarms=1)
    with pytest.raises(ProgrammingError):
        connection.watch("1", alarms=0)


@pytest.mark.full("opens a proxy for each item")
def test_the_module_watches(tmp_path: Path) -> None:
    path = str(shop(tmp_path / "shop", *PURE))
    with dpsql.watch(-(10**9), alarms=1, policy=path, analyst="ana", epsilon=Decimal(1)) as m:
        assert m.ask(COUNT).above
        assert Fraction(m.receipt.epsilon) == 1
