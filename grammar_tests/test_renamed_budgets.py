"""A budget that the policy gives another name is told to the owner: it begins at zero."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire import serving
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import DpsqlError
from dpsql.owner.reminders import unnamed_budgets, unnamed_budgets_of
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, policy, request, shop

RENAMED = (
    ("[budgets.default]", "[budgets.second]"),
    ('[analysts.ana]\nbudget = "default"', '[analysts.ana]\nbudget = "second"'),
    ('[analysts.bob]\nbudget = "default"', '[analysts.bob]\nbudget = "second"'),
)


@pytest.fixture
def renamed(tmp_path: Path) -> Path:
    """A policy whose ledger was charged under the budget's old name."""
    path = shop(tmp_path / "shop")
    with Proxy.open(str(path)) as proxy:
        proxy.ask(request(BY_COUNTRY))
        assert unnamed_budgets(proxy.ledger, proxy.policy.budgets) == ()
    return policy(path.parent, *RENAMED)


@pytest.mark.full("opens a proxy for each item")
def test_what_was_spent_under_another_name_is_known(renamed: Path) -> None:
    (pot,) = unnamed_budgets_of(str(renamed))
    assert (pot.budget, pot.accountant) == ("default", "zcdp")
    assert pot.spent.amount > 0
    ledger = SqliteLedger.open(load(str(renamed)).ledger.path)
    assert ledger.budgets() == (pot,)
    assert ledger.spent("default") == pot.spent


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("command", ["budget", "check"])
def test_the_owner_is_told(renamed: Path, command: str) -> None:
    told = CliRunner().invoke(main, [command, "--policy", str(renamed)])
    assert told.exit_code == 0
    assert "was spent under the budget default, which the policy does not name" in told.stderr


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("command", ["budget", "check"])
def test_the_same_name_is_no_notice(tmp_path: Path, command: str) -> None:
    path = shop(tmp_path / "shop")
    told = CliRunner().invoke(main, [command, "--policy", str(path)])
    assert "does not name" not in told.stderr
    assert command == "budget" or not (path.parent / "shop.ledger").exists()


@pytest.mark.full("opens a proxy for each item")
def test_the_server_logs_it(renamed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_arguments: Any, **_named: Any) -> None:
        raise DpsqlError("far enough")

    monkeypatch.setattr(serving, "Server", stopped)
    lines: list[str] = []
    limits: Any = SimpleNamespace(
        host="127.0.0.1", certificate=None, key=None, client_ca=None, users="users", oidc=None
    )
    with Proxy.open(str(renamed)) as proxy, pytest.raises(DpsqlError, match="far enough"):
        serving.serve({"": lambda: (proxy, limits)}, lines.append, self_signed=False)
    events = [each for each in map(json.loads, lines) if each["event"] != "no_user"]
    (event,) = events
    assert (event["event"], event["budget"]) == ("unnamed_budget", "default")
    assert event["spent"].startswith("ρ = ")
