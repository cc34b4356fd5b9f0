"""Budgets that renew, through the proxy and its policy (PRIVACY.md R110)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.budget_sheet import budgets_json, budgets_text, waiting_windows
from dpsql.interfaces.messages import describe
from dpsql.interfaces.plan_text import plan_json, plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.calendars import Calendar, Renewal
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.vocabulary import Loss
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop
from grammar_tests.test_renewals import MONTHS, Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture

MONTHLY = 'epsilon = 4.0\ndelta = 1e-3\nrenews = "month"\ntime_zone = "Europe/Berlin"\n'
WINDOWS = MONTHLY + "lifetime_epsilon = 40\nlifetime_delta = 1e-2"
ENDLESS = MONTHLY + 'lifetime = "unbounded"'
AVERAGE, COUNT = "SELECT AVG(age) FROM customers", "SELECT COUNT(*) FROM customers"


def opened(folder: Path, clock: Clock, budget: str = WINDOWS) -> Proxy:
    """The shop with such a budget, and a ledger that reads this clock."""
    changes = ("epsilon = 1000.0\ndelta = 1e-3", budget), ("max_query_epsilon = 10.0", "")
    trusted = ("[ledger]", '[ledger]\nclock = "trusted"')
    proxy = Proxy.open(str(shop(folder, *changes, trusted)))
    assert isinstance(proxy.ledger, SqliteLedger)
    proxy.ledger._clock = clock
    return proxy


@pytest.mark.full("opens a proxy for each item")
def test_receipts_and_plans_name_the_window_and_the_lifetime(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "shop", clock) as proxy:
        first = cost_text(proxy.ask(request(COUNT)).receipt)
        assert "budget default in 2026-11: " in first
        assert "; lifetime of budget default: " in first
        clock.now += timedelta(days=5)
        again = proxy.ask(request(COUNT)).receipt
        assert again is not None
        assert (again.remembered, again.window, again.spent) == (True, "2026-12", Loss(0))
        assert again.beside[0].spent == proxy.ledger.spent("default") != Loss(0)
        plan = plan_text(proxy.explain(request(AVERAGE)))
        assert "Budget default of ana, in 2026-12: ρ = 0 of" in plan
        assert "Before this query, lifetime of budget default: " in plan
        document = json.loads(plan_json(proxy.explain(request(AVERAGE))))
        assert document["window"] == "2026-12"
        assert [each["title"] for each in document["beside"]] == ["lifetime of budget default"]


@pytest.mark.full("opens a proxy for each item")
def test_without_a_limit_the_loss_since_the_beginning_is_shown(
    tmp_path: Path, clock: Clock
) -> None:
    with opened(tmp_path / "shop", clock, ENDLESS) as proxy:
        proxy.ask(request(COUNT))
        clock.now += timedelta(days=5)
        told = cost_text(proxy.ask(request(AVERAGE)).receipt)
        assert "budget default since its beginning: ρ = " in told
        assert told.endswith("spent, without a limit")
        both = proxy.ledger.spent("default")
        assert both.amount > proxy.standing("ana").spent.amount


@pytest.mark.full("opens a proxy for each item")
def test_the_owner_sees_windows_lifetimes_and_when_they_renew(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "shop", clock, ENDLESS) as proxy:
        proxy.ask(request(COUNT))
        told = budgets_text(proxy)
        assert "default in 2026-11" in told
        assert "renews 2026-12-01" in told
        assert "budget default since its beginning" in told
        state = json.loads(budgets_json(proxy))
        assert state["budgets"][0]["renews"] == "2026-12-01"
        assert state["unbounded"][0]["spent"] == state["budgets"][0]["spent"]
    with opened(tmp_path / "other", clock) as proxy:
        proxy.ask(request(COUNT))
        assert "lifetime of budget default" in budgets_text(proxy)
        assert json.loads(budgets_json(proxy))["budgets"][1]["days_left"] > 100
        clock.now += timedelta(days=400)
        proxy.ask(request(AVERAGE))
        clock.now += timedelta(days=40)
        assert [window.name for window in waiting_windows(proxy)] == ["2028-01"]


@pytest.mark.full("draws random questions or values")
def test_an_empty_window_says_when_to_ask_again(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "shop", clock) as proxy:
        with pytest.raises(Refused) as refused:
            any(proxy.ask(request(f"{COUNT} WHERE age > {age}")) is None for age in range(100))
        message = describe(refused.value)
        assert message.headline == "Budget default cannot pay for this query in 2026-11."
        assert "2026-12-01 (Europe/Berlin)" in message.fix
        clock.now += timedelta(days=5)
        proxy.ask(request(f"{COUNT} WHERE age > 99"))


@pytest.mark.full("starts processes")
def test_the_owner_confirms_the_clock(tmp_path: Path, clock: Clock) -> None:
    clock.now = datetime(2130, 1, 1, tzinfo=UTC)
    with opened(tmp_path / "shop", clock) as proxy:
        proxy.ask(request(COUNT))
    told = CliRunner().invoke(
        main, ["budget", "--policy", proxy.policy.path, "confirm", "--clock", "--reason", "moved"]
    )
    assert told.exit_code == 0
    assert re.search(r"The month of Europe/Berlin is now 20\d\d-\d\d\.", told.stderr)


# --- the policy ---

POLICY = """
[database]
engine = "duckdb"
path = "shop.duckdb"
[privacy_unit]
table = "customers"
key = "id"
[tables.customers]
access = "private"
key = "id"
columns = {{ id = {{}} }}
[budgets.default]
epsilon = 1.0
delta = 1e-6
{budget}
[analysts.ana]
budget = "default"
{analyst}
[ledger]
{ledger}
"""
RENEWS = 'renews = "month"\ntime_zone = "Europe/Berlin"\n'
BOTH = f"{RENEWS}lifetime_epsilon = 12\nlifetime_delta = 1e-5"
UNBOUNDED = f'{RENEWS}lifetime = "unbounded"'


def policy_file(tmp_path: Path, budget: str, analyst: str = "", ledger: str = "") -> str:
    """A policy with these lines."""
    file = tmp_path / "dpsql.toml"
    text = POLICY.format(budget=budget, analyst=analyst, ledger=ledger)
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_policy_with_windows(tmp_path: Path) -> None:
    quarters = 'epsilon = 0.5\nrenews = "quarter"\nlifetime = "unbounded"'
    draft = load(policy_file(tmp_path, BOTH, quarters, 'clock = "trusted"'))
    assert draft.budgets[0].renews == MONTHS
    assert [(cap.title, str(cap.epsilon), cap.renews) for cap in draft.caps] == [
        ("lifetime of budget default", "12", None),
        ("analyst ana", "0.5", Calendar(Renewal.QUARTER)),
    ]


def test_limits_of_analysts_groups_and_the_unit_renew(tmp_path: Path) -> None:
    """Each limit that renews brings a second one, for its lifetime."""
    cap = f"epsilon = 0.5\ndelta = 1e-7\n{BOTH}"
    group = f'{BOTH}\n[groups.team]\nanalysts = ["ana"]\n{cap}'
    file = Path(policy_file(tmp_path, group, cap.replace("delta = 1e-7\n", "")))
    unit = 'key = "id"\n[tables.customers]'
    text = file.read_text("utf-8").replace(unit, unit.replace("\n", f"\n{cap}\n"))
    file.write_text(text, "utf-8")
    titles = {cap.title: cap.renews for cap in load(str(file)).caps}
    renewing = {title for title, renews in titles.items() if renews == MONTHS}
    assert renewing == {"analyst ana", "group team", "all budgets"}
    assert {f"lifetime of {title}" for title in renewing} < titles.keys()


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ("lifetime_epsilon = 2", "no use without renews"),
        ('time_zone = "UTC"', "no use without renews"),
        (RENEWS, "no limit over all windows"),
        (f"{RENEWS}lifetime_epsilon = 12", "lifetime_delta is missing"),
        (f"{RENEWS}lifetime_epsilon = 0.5\nlifetime_delta = 1e-5", "below epsilon"),
        (f"{RENEWS}lifetime_epsilon = 12\nlifetime_delta = 1e-7", "at least delta"),
        (f"{UNBOUNDED}\nlifetime_epsilon = 3", "contradicts"),
        (UNBOUNDED, "clock alone bounds the loss"),
        (f'{RENEWS}lifetime = "none"', "lifetime is 'none'"),
        (BOTH.replace("month", "decade"), "renews is 'decade'"),
        (BOTH.replace("Berlin", "Atlantis"), "does not know the time zone"),
    ],
)
def test_policies_that_do_not_say_what_they_promise(tmp_path: Path, budget: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        load(policy_file(tmp_path, budget))


def test_a_cap_that_renews_needs_its_amount(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no use without epsilon"):
        load(policy_file(tmp_path, BOTH, 'renews = "month"\nlifetime_epsilon = 3'))
