"""The shell over a server: what it says is what the server says, told as at home."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from urllib.parse import quote

import click
import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import interactive, main
from dpsql.interfaces.cli.completions import completions, names_of
from dpsql.interfaces.cli.remote_session import RemoteSession, connected
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import MissingExtra
from grammar_tests.wire_kit import PASSWORD, Door, door

SEGMENTS = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY segment;"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("remote")) as opened:
        yield opened


@pytest.fixture
def url(served: Door) -> str:
    return f"postgresql://ana:{quote(PASSWORD)}@127.0.0.1:{served.port}/dpsql"


def run(url: str, text: str, *args: str) -> Result:
    return CliRunner().invoke(main, ("shell", "--connect", url, *args), input=text)


@pytest.mark.full("opens servers or connects clients")
def test_rows_have_their_errors_notices_and_cost(url: str) -> None:
    result = run(url, f"{SEGMENTS}\n\\plot")
    assert result.exit_code == 0, result.output
    rows = r"^(?:business|consumer) +-?\d+ (?:± [\d.]+|\([\d.]+ … [\d.]+\))$"
    assert len(re.findall(rows, result.stdout, re.MULTILINE)) == 2
    assert re.search("^business .*[├┼┤]", result.stdout, re.MULTILINE)
    assert result.stderr.count("cost: ") == 1
    assert "n_margin" not in result.stdout
    assert "at 95 %" not in result.output


@pytest.mark.full("starts processes")
def test_a_password_in_the_url_is_warned_of(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The URL holds a password" in run(url, "\\dt").stderr
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    result = run(url.replace(f":{quote(PASSWORD)}", ""), "\\dt")
    assert result.exit_code == 0, result.output
    assert "password" not in result.stderr


@pytest.mark.full("opens servers or connects clients")
def test_what_the_server_tells_is_listed(url: str) -> None:
    result = run(url, "\\dt\n\\d countries\n\\budget\n\\history\nSHOW dpsql.epsilon;\n\\d nothing")
    for words in ("customers", "code ", "questions_left", "query_id", "dpsql.epsilon"):
        assert words in result.stdout
    assert "unknown" not in result.stdout
    assert (result.exit_code, "There is no table" in result.stderr) == (ExitCode.BAD_INPUT, True)


@pytest.mark.full("opens servers or connects clients")
def test_a_plan_is_free(served: Door, url: str) -> None:
    before = len(served.proxy.ledger.history())
    result = run(
        url, "\\explain SELECT SUM(amount) FROM orders\nEXPLAIN SELECT COUNT(*) FROM orders;"
    )
    assert result.stdout.count("Charge: ") == 2
    assert len(served.proxy.ledger.history()) == before


@pytest.mark.full("opens servers or connects clients")
def test_a_refusal_has_its_place_and_ends_a_script(url: str) -> None:
    result = run(url, "SELECT\n  agee FROM customers;\nSELECT 1;")
    assert result.exit_code == ExitCode.BAD_INPUT
    assert "at 2:3: " in result.stderr
    assert "  agee FROM customers\n    ^" in result.stderr
    assert "fix: " in result.stderr
    assert result.stdout == ""


def test_an_epsilon_is_the_sessions(served: Door, url: str) -> None:
    run(url, "\\epsilon 0.25\nSELECT COUNT(*) FROM items;", "--epsilon", "0.5")
    assert served.proxy.ledger.history()[0].epsilon == Decimal("0.25")


@pytest.mark.full("opens servers or connects clients")
def test_what_is_dear_or_in_vain_is_asked_back_about(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def confirm(text: str, **_options: object) -> None:
        asked.append(text)
        raise click.Abort

    monkeypatch.setattr(interactive, "can_answer", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    with connected(url) as session:
        assert session.confirm_above == 1
        shell = interactive.Shell(session, Decimal("0.5"))
        assert shell.one("SELECT COUNT(*) FROM events") is ExitCode.CANCELLED
        shell.most = Decimal(1)
        assert shell.one("SELECT COUNT(*) FROM orders WHERE customer_id = 7") is ExitCode.CANCELLED
        assert shell.one("SELECT COUNT(*) FROM events") is ExitCode.ANSWERED
        assert shell.one("SELECT * FROM dpsql_budget()") is ExitCode.ANSWERED
    assert [text.split(" (")[0] for text in asked] == ["It costs ε = 1"] * 2
    told = capsys.readouterr().err
    assert told.count("this cannot be useful") == 1
    assert told.count("price: ") == 1


def test_names_are_completed(served: Door, url: str) -> None:
    """As at home: what is declared, and what may be called."""
    texts = {
        "SELECT … FROM cust": ["customers"],
        "SELECT orders.qua": ["quantity"],
        "SELECT MEDI": ["median("],
        "SELECT COUNT(*) FROM customers WHERE segment = 'b": ["'business'"],
        "SELECT COUNT(*) FROM customers HAV": ["HAVING"],
    }
    with connected(url) as session:
        names = session.names()
        assert names.values == names_of(served.proxy.policy, ()).values
        for before, after in texts.items():
            assert [text for text, _ in completions(names, before)] == after


def test_who_is_not_let_in_is_told(url: str) -> None:
    result = run(url.replace(quote(PASSWORD), "wrong"), "SELECT 1;")
    assert (result.exit_code, "\nerror " in result.stderr) == (ExitCode.UNREACHABLE, True)
    nobody = run("postgresql://ana@127.0.0.1:1/dpsql", "SELECT 1;")
    assert nobody.exit_code == ExitCode.UNREACHABLE


@pytest.mark.full("opens servers or connects clients")
def test_what_is_of_a_policy_here_is_refused(url: str) -> None:
    result = run(url, "", "--analyst", "ana")
    assert (result.exit_code, "--analyst" in result.stderr) == (ExitCode.USAGE, True)


@pytest.mark.full("opens servers or connects clients")
def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"dpsql\[remote\]"), connected("") as session:
        assert isinstance(session, RemoteSession)
