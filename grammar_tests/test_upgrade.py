"""A ledger, users file, policy and prepared store of an earlier commit serve the present one."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dpsql.engines.duckdb import files
from dpsql.interfaces.pgwire.login_file import Verifier, read_users, verifier_of
from dpsql.ledgers.sqlite import accept
from dpsql.model.vocabulary import Request
from dpsql.preparation.bound_policy import store_unused
from dpsql.proxy import Proxy
from grammar_tests.pages_kit import ROOT, differences, holds
from grammar_tests.upgrade.write import PASSWORD, QUESTIONS, cells, known_data, prepare

IDENTITY = files.Opened.identity
FIXTURES = sorted(path.parent for path in (Path(__file__).parent / "upgrade").glob("*/record.json"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A copy of a fixture whose ledger the owner accepted, as after a move, and its record."""
    folder = tmp_path / "state"
    shutil.copytree(request.param, folder)
    (folder / "prepared.duckdb").write_bytes(
        gzip.decompress((folder / "prepared.duckdb.gz").read_bytes())
    )
    for path in folder.iterdir():
        path.chmod(0o600)
    accept(str(folder / "dpsql.ledger"))
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    with known_data():
        yield folder / "dpsql.toml", record


def test_there_is_a_fixture() -> None:
    assert FIXTURES


@pytest.mark.full("opens a proxy for each item")
def test_nothing_that_was_spent_or_recorded_is_lost(state: tuple[Path, dict[str, Any]]) -> None:
    policy, record = state
    with Proxy.open(str(policy)) as proxy:
        proxy.ledger.verify()
        assert {b.name: str(loss) for b, loss, _limit in proxy.budgets()} == record["spent"]
        assert [e.query_id for e in proxy.ledger.history(limit=10**6)] == record["entries"]
        left = {name: proxy.standing(name).left for name, _ in proxy.policy.analysts}
        assert left == record["left"]


def told_alike(now: list[list[str]], before: list[list[str]]) -> bool:
    """Whether the numbers are the same, and their errors up to the order of floating sums.

    Errors may be smaller, where the policy makes an end certain (PRIVACY.md R108), but not zero.
    """
    count = len(before) // 2
    margins = (
        left == right or 0 < float(left) <= float(right) * (1 + 1e-9)
        for row, other in zip(now[count:], before[count:], strict=True)
        for left, right in zip(row, other, strict=True)
    )
    return now[:count] == before[:count] and all(margins)


@pytest.mark.full("opens a proxy for each item")
def test_nothing_is_charged_twice(state: tuple[Path, dict[str, Any]]) -> None:
    policy, record = state
    with Proxy.open(str(policy)) as proxy:
        for (analyst, sql), before in zip(QUESTIONS, record["answers"], strict=True):
            answer = proxy.ask(Request(sql, analyst))
            assert answer.receipt is not None
            assert answer.receipt.remembered, sql
            assert told_alike(cells(answer), before), sql
        spent = {b.name: str(loss) for b, loss, _limit in proxy.budgets()}
    assert spent == record["spent"]


def test_a_forgotten_answer_would_be_seen(state: tuple[Path, dict[str, Any]]) -> None:
    policy, record = state
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("[0, 120]", "[0, 119]"), encoding="utf-8")
    analyst, sql = QUESTIONS[0]
    with Proxy.open(str(policy)) as proxy:
        assert cells(proxy.ask(Request(sql, analyst))) != record["answers"][0]
        assert {b.name: str(loss) for b, loss, _limit in proxy.budgets()} != record["spent"]


def test_users_log_in_with_their_passwords(state: tuple[Path, dict[str, Any]]) -> None:
    policy, _record = state
    ana = read_users(str(policy.with_name("dpsql.users")))["ana"].credential
    assert isinstance(ana, Verifier)
    assert ana == verifier_of(PASSWORD, ana.salt)
    assert ana != verifier_of(f"{PASSWORD}.", ana.salt)


@pytest.mark.full("opens a proxy for each item")
def test_an_old_store_is_left_out_and_made_again(state: tuple[Path, dict[str, Any]]) -> None:
    policy, _record = state
    with Proxy.open(str(policy)) as proxy:
        assert store_unused(proxy.policy)
    with patch.object(files.Opened, "identity", IDENTITY):
        prepare(policy)
        with Proxy.open(str(policy)) as proxy:
            assert not store_unused(proxy.policy)


@pytest.mark.full("a page is run as its reader would")
def test_the_page_upgrades_an_earlier_state(state: tuple[Path, dict[str, Any]]) -> None:
    """Its commands charge nothing, and leave a ledger that verifies."""
    policy, record = state
    holds(ROOT / "dpsql" / "docs" / "upgrade.md", policy.parent)
    with Proxy.open(str(policy)) as proxy:
        assert {b.name: str(loss) for b, loss, _limit in proxy.budgets()} == record["spent"]


@pytest.mark.full("a page is run as its reader would")
def test_wrong_twin_an_edited_ledger_stops_the_upgrade(state: tuple[Path, dict[str, Any]]) -> None:
    policy, _record = state
    ledger = policy.with_name("dpsql.ledger")
    content = ledger.read_bytes()
    ledger.write_bytes(content.replace(b"SELECT MEDIAN", b"SELECT MEDIAM"))
    assert ledger.read_bytes() != content
    page = (ROOT / "dpsql" / "docs" / "upgrade.md").read_text(encoding="utf-8")
    assert [*differences(page, policy.parent)] != []
