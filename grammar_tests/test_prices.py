"""Prices are public: over worlds that differ in every row, the same questions cost the same.

Noise is zero, so that whatever differs between two worlds differs by their rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import ROUND_UP, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from dpsql.accountants.remaining import questions
from dpsql.answering import precision, two_steps
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Request
from dpsql.preparation.accuracy import rounded
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, world

FOUND = (
    ("income = { bounds = [0.0, 200000.0] }", "income = { private_bounds = true }"),
    ("amount = { bounds = [0.0, 500.0] }", "amount = { private_bounds = true }"),
)
CONFIRM = (("query_delta = 1e-6", "query_delta = 1e-6\nconfirm_above = 0.01"),)
APPROXIMATE = (('accountant = "zcdp"', 'accountant = "approximate"'),)
PURE = (
    ('accountant = "zcdp"', 'accountant = "pure"'),
    ("delta = 1e-3", "delta = 0.0"),
    ("query_delta = 1e-6", "query_delta = 0.0"),
)
OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS({}) "
WHOLE = OPTIONS.format("epsilon = 9")
EACH = "(SELECT customer_id, COUNT(*) AS n FROM logins GROUP BY customer_id) AS each"
BY_THOUSANDS = (
    "CAST(income AS INTEGER) // 1000 AS k, COUNT(*) AS n, SUM(income) AS s FROM customers GROUP BY"
    " k"
)
QUESTIONS = (
    "SELECT SUM(income) AS s FROM customers",
    "SELECT AVG(income) AS m, COUNT(*) AS n FROM customers WHERE age > 20",
    f"SELECT {WHOLE}AVG(income, epsilon => 0.1) AS m, COUNT(*) AS n FROM customers",
    f"SELECT {WHOLE}SUM(income, epsilon => 0.1) AS s FROM customers",
    "SELECT STDDEV(income) AS d, MEDIAN(income) AS q FROM customers",
    "SELECT country, SUM(income) AS s FROM customers WHERE segment = 'business' GROUP BY country",
    "SELECT status, SUM(amount - quantity) AS p, AVG(amount) AS a FROM orders GROUP BY status",
    "SELECT CAST(income AS INTEGER) // 1000 AS k, SUM(income) AS s FROM customers GROUP BY k",
    "SELECT COUNT(*) AS n FROM logins",
    "SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY m",
    "SELECT EXTRACT(month FROM day) AS m, AVG(EXTRACT(day FROM day)) AS a FROM logins GROUP BY m",
    "SELECT MEDIAN(EXTRACT(day FROM day)) AS q FROM logins",
    f"SELECT SUM(n) / COUNT(*) AS a FROM {EACH}",
    "SELECT SUM(c.income) AS s FROM logins AS l JOIN customers AS c USING (customer_id)",
    f"SELECT {OPTIONS.format('min_privacy_units_per_group = 5')}{BY_THOUSANDS}",
)
BY_STATUS = QUESTIONS[6:7]
LISTED = QUESTIONS[2:10:2]
RELATIVE = tuple(
    f"SELECT {OPTIONS.format(error)}COUNT(*) AS n FROM customers"
    for error in ("max_error = '30%'", "max_error = '4%'")
)


def of(units: range, income: float, logins: int) -> world.Tables:
    """People of these ids, none of whose rows is one of another such world."""
    customers = [(*world.customer(n)[:5], income * n, *world.customer(n)[6:]) for n in units]
    visits: list[tuple[Any, ...]] = [
        (logins * n + k, n, date(2024, 1 + (n + k) % 12, 1 + n * k % 28))
        for n in units
        for k in range(logins)
    ]
    orders = [world.order(n, n, n % 3) for n in units]
    return {**world.empty(), "customers": customers, "orders": orders, "logins": visits}


MANY = of(range(1, 201), 1000.5, 3)
OTHERS = of(range(1001, 1221), -0.5, 11)
FEW = of(range(1001, 1004), 3.0, 40)


WORLDS = {200: MANY, 220: OTHERS, 3: FEW, 0: world.empty()}


def steps(proxy: Proxy, request: Request) -> Iterator[tuple[object, ...]]:
    """Whatever tells a price of a question, before, with and after its answer."""
    plan = proxy.explain(request)
    yield plan.charge, plan.spent, plan.epsilon, plan.remembered, plan.rest
    try:
        receipt = proxy.ask(request).receipt
        assert receipt is not None
        yield receipt.charged, receipt.spent, receipt.epsilon, receipt.left
    except Refused as refused:
        standing = proxy.standing("ana")
        needed, epsilon = refused.facts.get("needed"), refused.facts["epsilon"]
        yield needed, standing.spent, epsilon, questions(standing.budget, standing.spent)
    plan = proxy.explain(request)
    yield plan.charge, plan.spent, plan.epsilon, plan.remembered, plan.rest


def prices(units: int, texts: Sequence[str], *changes: tuple[str, str]) -> list[tuple[object, ...]]:
    """What these questions tell of prices, to who asks and to a colleague, in a world."""
    told: list[tuple[object, ...]] = []
    with TemporaryDirectory() as folder:
        path = proxy_kit.shop(Path(folder), *changes, tables=WORLDS[units])
        with Proxy.open(str(path)) as proxy:
            proxy.vault.sampler = lambda _law, count: np.zeros(count, int)
            for sql in texts:
                epsilon = None if "max_error" in sql else "9"  # bounds are to be found
                told += [(sql, *step) for step in steps(proxy, proxy_kit.request(sql, epsilon))]
                losses = [entry.loss for entry in proxy.ledger.history(limit=1)]
                told.append((sql, proxy.standing("bob").spent, losses))
    return told


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ((), QUESTIONS[2::4]),
        (CONFIRM, QUESTIONS[::3]),
        (APPROXIMATE, QUESTIONS[::3]),
        (PURE, LISTED),
        *(pytest.param((), QUESTIONS[n::4], marks=pytest.mark.campaign) for n in (0, 1, 3)),
    ],
    ids=["zcdp", "confirmed", "approximate", "pure", "further", "others", "rest"],
)
def test_prices_are_the_same_over_worlds_that_differ_in_every_row(
    changes: Sequence[tuple[str, str]], texts: Sequence[str]
) -> None:
    assert prices(200, texts, *FOUND, *changes) == prices(3, texts, *FOUND, *changes)


@pytest.mark.full("opens a proxy for each item")
def test_prices_are_the_same_whatever_is_found() -> None:
    assert prices(0, BY_STATUS, *FOUND) == prices(220, BY_STATUS, *FOUND)


@pytest.mark.full("measures neighbours or further data sets")
def test_the_price_of_a_relative_error_is_a_rung_of_a_public_ladder() -> None:
    assert prices(200, RELATIVE) == prices(220, RELATIVE)


@pytest.mark.full("opens two proxies; the twin below is quicker")
def test_wrong_twin_a_price_of_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def cheap(
        _compiler: object, _query: object, _searches: object, last: Question, *_: bool
    ) -> Question:
        return replace(last, promised=None)

    monkeypatch.setattr(two_steps, "_rest", cheap)
    assert prices(200, BY_STATUS, *FOUND) != prices(3, BY_STATUS, *FOUND)


def test_wrong_twin_a_price_that_is_just_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(epsilon: Decimal, excess: float) -> Decimal:
        return rounded(epsilon * max(Decimal(2), Decimal(excess)), ROUND_UP)

    monkeypatch.setattr(precision, "_rung", exact)
    assert prices(200, RELATIVE) != prices(220, RELATIVE)
