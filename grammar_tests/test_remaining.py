"""Budgets in ε, per cent and questions; answers that cannot be of use; hints that fit the door."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import make_url

from dpsql import accountants
from dpsql.accountants.remaining import fitting, in_epsilon, keyed_questions, questions, rest
from dpsql.interfaces import dbapi
from dpsql.interfaces.amounts import plain
from dpsql.interfaces.cli import ask as command
from dpsql.interfaces.doors import COMMAND_LINE, DATABASE_API, WIRE, Door
from dpsql.interfaces.messages import describe
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sqlalchemy.dpsql_dialect import DpsqlDialect
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.notices import Drowned, Scaled, TooFew, useless
from dpsql.model.tree import Span
from dpsql.model.vocabulary import NANO, Budget, Loss
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.fakes import EXPLANATION, FakeProxy
from grammar_tests.session_kit import Client
from grammar_tests.test_cli import run
from grammar_tests.test_contribution_bounds import crowd
from grammar_tests.test_messages import FACTS
from grammar_tests.test_private_bounds import INCOME

ONE = "SELECT COUNT(*) AS n FROM customers WHERE customer_id = 7"
ALL = "SELECT COUNT(*) AS n FROM customers WHERE age > {}"
CONFIRM = ("query_delta = 1e-6", "query_delta = 1e-6\nconfirm_above = 0.5")
POTS = [
    Budget("b", Decimal(3), Decimal("1e-6"), "zcdp", Decimal("0.3")),
    Budget("b", Decimal(3), Decimal(0), "pure", Decimal("0.3"), query_delta=Decimal(0)),
    Budget("b", Decimal(3), Decimal("1e-6"), "approximate", Decimal("0.3")),
    replace(Budget("b", Decimal(1), Decimal("1e-9")), min_query_charge=Decimal("1e-5")),
]


# --- what is left ---


def price(budget: Budget, epsilon: Decimal) -> int:
    """What the accountant charges for a question of this ε that spends all of it."""
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    allowance = accountant.allowance(Fraction(epsilon), delta, selects_keys=False)
    return accountants.price(Loss(max(1, ceil(allowance.amount * NANO))), budget).amount


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(POTS), st.integers(0, 1100))
def test_what_is_told_to_fit_does_and_hardly_more_would(budget: Budget, per_mille: int) -> None:
    limit = accountants.get(budget.accountant).limit(budget)
    spent = Loss(limit.amount * per_mille // 1000)
    left = max(0, limit.amount - spent.amount)
    count = questions(budget, spent)
    each = price(budget, budget.query_epsilon)
    assert count * each <= left < (count + 1) * each
    keyed = keyed_questions(budget, spent)
    assert keyed is None or keyed <= count * 1.1
    fits = fitting(budget, spent)
    if fits is None:
        assert left < price(budget, Decimal("1e-9"))
        return
    assert 0 < fits <= budget.max_query_epsilon
    assert price(budget, fits) <= left
    if fits < budget.max_query_epsilon:
        assert price(budget, fits * Decimal("1.25")) > left


@pytest.mark.full("opens a proxy for each item")
def test_each_question_leaves_one_less_and_what_fits_is_answered(tmp_path: Path) -> None:
    changes = ("epsilon = 1000.0\ndelta = 1e-3", "epsilon = 4.0\ndelta = 1e-3")
    with Proxy.open(str(proxy_kit.shop(tmp_path, changes))) as proxy:
        counts, age = list[int | None](), 0

        def ask_until_it_is_refused() -> None:
            nonlocal age
            while True:
                age += 1
                receipt = proxy.ask(proxy_kit.request(ALL.format(age))).receipt
                assert receipt is not None
                counts.append(receipt.left)

        with pytest.raises(Refused) as refused:
            ask_until_it_is_refused()
        assert counts == list(range(len(counts) - 1, -1, -1))
        told = str(describe(refused.value, "", WIRE))
        (fits,) = re.findall(r"fix: Ask with SET dpsql.epsilon = ([0-9.]+),", told)
        assert "It needs ε = 1 (ρ = " in told
        assert re.search(r"and \d+(\.\d+)? % is left \(ρ = ", told)
        plan = plan_text(proxy.explain(proxy_kit.request(ALL.format(age))))
        assert f"asking would be refused; ε = {fits} fits." in plan
        answer = proxy.ask(proxy_kit.request(ALL.format(age), fits))
        assert answer.receipt is not None
        assert cost_text(answer.receipt).endswith(" spent, 0 questions at ε = 1 left")


def test_where_nothing_fits_nobody_is_told_to_ask_for_less() -> None:
    budget = POTS[0]
    limit = accountants.get("zcdp").limit(budget)
    facts = {"needed": Loss(5), "left": Loss(0), "limit": limit, "accountant": "zcdp"}
    refused = Refused(Reason.BUDGET_EXHAUSTED, budget="b", **facts)
    told = describe(in_epsilon(refused, budget, Decimal("0.3"), limit), "", COMMAND_LINE)
    assert "and 0 % is left (ρ = 0 of " in told.why
    assert told.why.endswith("): no question fits.")
    assert "less" not in told.fix
    assert rest(budget, limit, Loss(0)).fits is None


# --- answers that cannot be of use ---


@pytest.mark.full("opens a proxy for each item")
def test_what_cannot_be_of_use_is_refused_before_its_charge_and_answered_on_demand(
    tmp_path: Path,
) -> None:
    proxy, engine = proxy_kit.watched(proxy_kit.shop(tmp_path, CONFIRM), Proxy)
    request = proxy_kit.request(ONE)
    with proxy:
        with pytest.raises(Refused) as refused:
            proxy.ask(request)
        assert refused.value.reason is Reason.NOT_USEFUL
        told = str(describe(refused.value, "", WIRE))
        assert "of customers, and at most 1 count" in told
        assert "It would cost ε = 1 (ρ = " in told
        assert "or insist: SET dpsql.confirm = on." in told
        assert not engine.private()
        assert proxy.budgets()[0][1] == Loss(0)
        assert proxy.ask(proxy_kit.request(ONE, "0.5")).rows  # not above
        assert proxy.ask(replace(request, confirmed=True)).rows
        assert proxy.ask(request).rows  # remembered, at no cost
        assert proxy.ask(proxy_kit.request(ALL.format(1))).rows
        assert isinstance(proxy.explain(request).notices[-1], Drowned)


@pytest.mark.full("opens a proxy for each item")
def test_it_is_refused_before_the_first_of_two_steps(tmp_path: Path) -> None:
    sql = "SELECT SUM(income) AS s FROM customers WHERE customer_id = 7"
    with Proxy.open(str(proxy_kit.shop(tmp_path, INCOME, CONFIRM))) as proxy:
        with pytest.raises(Refused) as refused:
            proxy.ask(proxy_kit.request(sql))
        assert refused.value.reason is Reason.NOT_USEFUL
        assert proxy.budgets()[0][1] == Loss(0)


def few(rows: int) -> tuple[str, str]:
    """The change of the policy that expects so few logins."""
    before, after = (f'expected_rows = {n}\nkey = "login_id"' for n in (1000, rows))
    return before, after


LOGINS = proxy_kit.request("SELECT COUNT(*) AS n FROM logins")


@pytest.mark.full("opens a proxy for each item")
def test_too_few_to_find_a_bound_is_warned_of_and_the_best_case_is_asked(tmp_path: Path) -> None:
    """Twenty who add alike may be seen and counted; five are fewer than the noise in any case."""
    with Proxy.open(str(proxy_kit.shop(tmp_path, few(20), CONFIRM))) as proxy:
        plan = proxy.explain(LOGINS)
        (warned,) = (n for n in plan.notices if isinstance(n, TooFew))
        assert warned.most == 20 < warned.visible_from
        assert useless(plan.notices) is None
        assert proxy.ask(LOGINS).rows
    with Proxy.open(str(proxy_kit.shop(tmp_path / "five", few(5), CONFIRM))) as proxy:
        with pytest.raises(Refused) as refused:
            proxy.ask(LOGINS)
        assert refused.value.reason is Reason.NOT_USEFUL
        assert "the noise hides " in str(describe(refused.value, "", WIRE))
        assert proxy.budgets()[0][1] == Loss(0)
        assert proxy.ask(replace(LOGINS, confirmed=True)).rows
    with Proxy.open(str(proxy_kit.shop(tmp_path / "many", CONFIRM))) as proxy:
        assert not any(isinstance(n, TooFew) for n in proxy.explain(LOGINS).notices)


@pytest.mark.full("opens a proxy for each item")
def test_what_is_paid_is_answered_whatever_its_bounds(tmp_path: Path) -> None:
    """Else others would see in the price that so few were seen; and nothing is saved."""
    few, many = (
        Proxy.open(str(proxy_kit.shop(tmp_path / str(n), CONFIRM, tables=crowd(n))))
        for n in (5, 400)
    )
    with few as proxy:
        promised = proxy.explain(LOGINS).charge.amount
        answer = proxy.ask(LOGINS)
        assert [n.visible for n in answer.notices if isinstance(n, Scaled)] == [False]
        assert proxy.budgets()[0][1].amount == promised
    with many as proxy:
        assert proxy.ask(LOGINS).rows
        assert proxy.budgets()[0][1].amount == promised


@pytest.mark.full("opens a proxy for each item")
def test_every_door_can_insist(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path, CONFIRM))) as proxy:
        client = Client(proxy)
        client.query(ONE)
        assert (client.error["C"], client.error["H"][-34:]) == (
            "53400",
            "or insist: SET dpsql.confirm = on.",
        )
        cursor = dbapi.connect(analyst="ana", proxy=proxy).cursor()
        with pytest.raises(dbapi.OperationalError, match="insist: connect"):
            cursor.execute(ONE)
        with dbapi.connect(analyst="ana", proxy=proxy, confirm=True) as connection:
            assert connection.execute(ONE).fetchall()
        client.query("SET dpsql.confirm = on")
        assert client.query(f"{ONE} AND vip").startswith("TD")
    url = make_url("dpsql:///p.toml?analyst=ana&confirm=true")
    assert DpsqlDialect().create_connect_args(url)[1] == {"analyst": "ana", "confirm": True}


@pytest.mark.parametrize(
    ("words", "there", "typed", "asked"),
    [
        ((), True, "n\n", []),
        ((), True, "y\n", [True]),
        (("--yes",), True, "", [True]),
        ((), False, "", [False]),
        (("--yes",), False, "", [True]),
    ],
)
def test_a_terminal_asks_back(
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    there: bool,  # noqa: FBT001
    typed: str,
    asked: list[bool],
) -> None:
    plan = replace(EXPLANATION, notices=(Drowned("customers", 1, 9.0),))
    proxy = FakeProxy(explanation=plan)
    monkeypatch.setattr(command, "can_answer", lambda: there)
    done = run("query", "SELECT 1", *words, proxy=proxy, input=typed)
    explained = there and not words
    assert [request.confirmed for request in proxy.requests[explained:]] == asked
    assert ("this cannot be useful" in done.stderr) == explained
    price_told = "It costs ε = 0.1 (ρ = 0.0005, δ = 1e-9) all the same." in done.stderr
    assert price_told == explained
    assert (done.exit_code == 0) == bool(asked)


def test_confirm_above_is_an_amount(tmp_path: Path) -> None:
    path = proxy_kit.policy(tmp_path, (CONFIRM[0], CONFIRM[1].replace("0.5", "-0.5")))
    with pytest.raises(PolicyError, match="confirm_above is below zero"):
        load(str(path))


# --- every hint fits its door ---


def strange(text: str, door: Door) -> bool:
    """Whether a text names what another door has."""
    own = {COMMAND_LINE: r"--\w|dpsql help", DATABASE_API: r"connect\(", WIRE: r"SET \w"}
    return any(re.search(pattern, text) for other, pattern in own.items() if other != door)


@pytest.mark.parametrize("door", [COMMAND_LINE, DATABASE_API, WIRE])
@pytest.mark.parametrize("reason", Reason)
def test_no_hint_names_what_its_door_has_not(reason: Reason, door: Door) -> None:
    for facts in ({}, FACTS, FACTS | {"fits": Decimal("0.2"), "most": 1, "units": "people"}):
        told = describe(Refused(reason, Span(0, 6), **facts), "SELECT 1", door)
        assert not strange(str(told), door)
        assert "{" not in str(told)
    nowhere = describe(Refused(reason), "")
    assert not any(strange(str(nowhere), other) for other in (COMMAND_LINE, WIRE))


def test_a_hint_of_another_door_would_be_seen() -> None:
    refused = Refused(Reason.BUDGET_EXHAUSTED, fits=Decimal("0.2"), epsilon=Decimal(1))
    told = str(describe(refused, "", COMMAND_LINE))
    assert f"--epsilon {plain(Decimal('0.2'))}" in told
    assert strange(told, WIRE)
