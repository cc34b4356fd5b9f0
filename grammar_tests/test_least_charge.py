"""min_query_charge: no question is nearly free, at any door, and everybody is told."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql import accountants
from dpsql.interfaces.receipts import cost_text
from dpsql.model.errors import PolicyError
from dpsql.model.query_options import Precision
from dpsql.model.vocabulary import NANO, Budget, Loss, Receipt, Request
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from dpsql.systems.watch.monitor import ExplainWatch, Watch, WatchAll
from grammar_tests.proxy_kit import policy, request, shop

COUNT = "SELECT COUNT(*) AS n FROM customers WHERE age >= 64"
OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.0005) COUNT(*) AS n FROM orders"
BOUNDS = ("note_length = {}", "note_length = { private_bounds = true }")


def budget_of(accountant: str, **changes: Any) -> Budget:
    delta = Decimal(0) if accountant == "pure" else Decimal("1e-6")
    return Budget("b", Decimal(3), delta, accountant, **changes)


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate", "tight"])
def test_the_default_is_a_tenth_of_what_the_default_question_is_charged(accountant: str) -> None:
    budget = budget_of(accountant)
    of, delta = accountants.get(accountant), Fraction(budget.query_delta)
    whole = of.allowance(Fraction(budget.query_epsilon), delta, selects_keys=False).amount
    least = accountants.least_charge(budget).amount
    assert least == int(whole * NANO / 10)
    cheapest = Fraction(accountants.cheapest_epsilon(budget))
    assert of.allowance(cheapest, delta, selects_keys=False).amount * NANO <= least
    assert of.allowance(cheapest * 102 / 100, delta, selects_keys=False).amount * NANO > least
    if accountant == "zcdp":  # charges grow as ε², so a tenth of a charge is a third of its ε
        assert Fraction("0.03") < cheapest < Fraction("0.032")


def test_the_owner_may_ask_for_more_or_less_and_what_measures_nothing_is_free() -> None:
    dear = budget_of("zcdp", min_query_charge=Decimal("0.0001"))
    assert accountants.price(Loss(1, 5), dear) == Loss(100_000, 5)
    assert accountants.price(Loss(100_001), dear) == Loss(100_001)
    assert accountants.price(Loss(0), dear) == Loss(0)
    free = budget_of("zcdp", min_query_charge=Decimal(0))
    assert accountants.price(Loss(1), free) == Loss(1)


@pytest.fixture
def proxy(tmp_path: Path) -> Proxy:
    return Proxy.open(str(shop(tmp_path, BOUNDS)))


def charged(proxy: Proxy, receipt: Receipt | None, steps: int = 1) -> None:
    """The receipt of a question that asked for next to nothing."""
    least = accountants.least_charge(proxy.policy.budgets[0]).amount
    assert receipt is not None
    assert receipt.charged.amount == steps * least
    assert receipt.least == (steps == 1)
    assert proxy.budgets()[0][1].amount == steps * least


@pytest.mark.full("opens a proxy for each item")
def test_a_question_is_charged_the_least_and_says_so(proxy: Proxy) -> None:
    with proxy:
        plan = proxy.explain(request(COUNT, "0.0005"))
        answer = proxy.ask(request(COUNT, "0.0005"))
        charged(proxy, answer.receipt)
        assert answer.receipt is not None
        assert plan.charge == answer.receipt.charged
        (note,) = plan.notes
        assert "the least that a question is charged; ε = 0.293 costs" in note
        assert "the least that a question is charged" in cost_text(answer.receipt)
        again = proxy.ask(request(COUNT, "0.0005"))
        assert again.receipt is not None
        assert (again.receipt.charged, again.receipt.least) == (Loss(0), False)


@pytest.mark.full("opens a proxy for each item")
def test_options_and_shares_of_aggregates_are_charged_the_least(proxy: Proxy) -> None:
    with proxy:
        charged(proxy, proxy.ask(request(OPTIONS)).receipt)


@pytest.mark.full("opens a proxy for each item")
def test_each_step_that_finds_bounds_is_charged_the_least(proxy: Proxy) -> None:
    with proxy:
        asked = request("SELECT SUM(note_length) AS n FROM orders", "0.0005")
        plan = proxy.explain(asked)
        answer = proxy.ask(asked)
        charged(proxy, answer.receipt, steps=2)
        assert answer.receipt is not None
        assert plan.charge == answer.receipt.charged


@pytest.mark.full("opens a proxy for each item")
def test_what_is_watched_is_charged_the_least(proxy: Proxy) -> None:
    with proxy:
        wish = Watch("ana", Decimal(5), 1, Decimal("0.0005"))
        price = proxy.run(ExplainWatch(wish, [Request(COUNT, "ana")]))
        found = proxy.run(WatchAll(wish, [Request(COUNT, "ana")]))
        charged(proxy, found.receipt)
        assert price.charge == found.receipt.charged


@pytest.mark.full("opens a proxy for each item")
def test_an_error_that_the_least_charge_meets_gets_all_that_it_buys(proxy: Proxy) -> None:
    with proxy:
        wide = Precision(Decimal(100_000), relative=False, confidence=Decimal("0.95"))
        answer = proxy.ask(Request(COUNT, "ana", precision=wide))
        assert answer.receipt is not None
        cheapest = accountants.cheapest_epsilon(proxy.policy.budgets[0])
        assert answer.receipt.epsilon == cheapest
        charged(proxy, answer.receipt)


@pytest.mark.full("opens servers or connects clients")
def test_the_dbapi_is_charged_the_least(tmp_path: Path) -> None:
    path = str(shop(tmp_path))
    with dpsql.connect(path, analyst="ana", epsilon="0.0005") as connection:
        cursor = connection.cursor()
        cursor.execute(COUNT)
        assert cursor.receipt is not None
        assert cursor.receipt.least


@pytest.mark.parametrize("amount", ["-0.1", "0.5"])
def test_a_least_charge_that_cannot_be_is_an_error_with_its_line(
    tmp_path: Path, amount: str
) -> None:
    path = policy(
        tmp_path, ("query_delta = 1e-6", f"query_delta = 1e-6\nmin_query_charge = {amount}")
    )
    with pytest.raises(PolicyError, match="min_query_charge"):
        load(str(path))
