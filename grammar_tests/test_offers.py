"""Statements that refusals offer: accepted, free, made of policy and text, at every interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import dpsql
from dpsql.dialects.postgres.words import words
from dpsql.interfaces.messages import describe
from dpsql.interfaces.pgwire.faults import fault_of
from dpsql.model.errors import Offer, Refused
from dpsql.model.vocabulary import Request
from dpsql.preparation import offers
from dpsql.preparation.offers import find_offer
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.bound import shop
from grammar_tests.casefile import Case
from grammar_tests.laws import BUDGET, compiled
from grammar_tests.test_cases import ALL, CATALOGS

REFUSED = tuple(case for case in ALL if not case.accepted and case.holds_here)
SLICE = 8
"""One of so many cases is in the default tier."""


def compile_as(case: Case, sql: str) -> None:
    """Compile a text as a case is compiled. Raises `Refused`."""
    policy, engine = CATALOGS[case.catalog]()
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    compiled(sql, policy, engine, dialect=case.setting("dialect", "duckdb"), budget=budget)


def offered(case: Case, *, unchecked: bool = False) -> Offer | None:
    """Offer for a refused case; `unchecked` takes the first candidate."""
    with pytest.raises(Refused) as refusal:
        compile_as(case, case.sql)
    policy, _ = CATALOGS[case.catalog]()
    request = Request(case.sql, "ana", case.setting("dialect", "duckdb"))

    def require(other: Request) -> None:
        if not unchecked:
            compile_as(case, other.sql)

    return find_offer(request, refusal.value, policy, require)


def accepted(cases: Sequence[Case], *, unchecked: bool = False) -> Iterator[bool]:
    """For each offer: whether it is accepted."""
    for case in cases:
        offer = offered(case, unchecked=unchecked)
        if offer is not None:
            assert offer.sql != case.sql
            assert all(offer.changes)
            try:
                compile_as(case, offer.sql)
            except Refused:
                yield False
            else:
                yield True


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("part", range(4))
def test_offers_are_accepted(part: int) -> None:
    every = list(accepted(REFUSED[SLICE * part :: 4 * SLICE]))
    assert all(every)
    assert len(every) >= 3


@pytest.mark.full("every refused case")
def test_every_offer_is_accepted_and_a_quarter_of_refusals_have_one() -> None:
    every = list(accepted(REFUSED))
    assert all(every)
    assert len(every) >= len(REFUSED) / 4


def test_wrong_twin_offers_without_compiling_are_refused() -> None:
    assert not all(accepted(REFUSED[: 4 * SLICE], unchecked=True))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("what", ["grouped by", "a partition"])
def test_a_group_of_null_is_left_out_by_a_condition(what: str) -> None:
    (case,) = (case for case in REFUSED if case.title == f"{what}, NULL among them")
    offer = offered(case)
    assert offer is not None
    assert "items WHERE vid IS NOT NULL" in offer.sql


PIECES = ("(", ")", ",", "top", "over", "'a )'", "`x`", "limit", "*")


@pytest.mark.full("draws random texts")
def test_no_mutated_text_breaks_the_search() -> None:
    """Words are left out, repeated and moved: a search finds nothing, or a statement."""
    dice, found, tried = Random(3), 0, 0  # noqa: S311
    while tried < 400:
        case = dice.choice(REFUSED)
        parts = [word.text for word in words(case.sql)]
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(parts))
            other = dice.choice(
                [*parts, "(", ")", ",", "top", "over", "'a )'", "`x`", "limit", "*"]
            )
            parts[place : place + dice.randint(0, 1)] = [other] * dice.randint(0, 1)
            parts = parts or ["select"]
        mutated = replace(case, sql=" ".join(parts))
        try:
            compile_as(mutated, mutated.sql)
        except Refused:
            tried += 1
            found += offered(mutated) is not None
    assert 10 < found < tried


TEXTS = {
    "SELECT * FROM orders": ("SELECT COUNT(*) AS n FROM orders", "counts rows"),
    "SELECT status, amount FROM orders WHERE amount > 5 ORDER BY 1 LIMIT 3": (
        (
            "SELECT status, AVG(amount) AS amount, COUNT(*) AS n FROM orders WHERE amount > 5"
            " GROUP BY status"
        ),
        "counts rows by status and averages amount",
    ),
    "SELECT status, amount, COUNT(*) FROM orders GROUP BY status": (
        "SELECT status, amount, COUNT(*) FROM orders GROUP BY status, amount",
        "also groups by amount",
    ),
    "SELECT segment, COUNT(*) FROM customers": (
        "SELECT segment, COUNT(*) FROM customers GROUP BY segment",
        "also groups by segment",
    ),
    "SELECT segment, name, COUNT(*) FROM customers GROUP BY segment, name": (
        "SELECT segment, COUNT(*) FROM customers GROUP BY segment",
        "leaves out name",
    ),
    "SELECT COUNT(*) FROM customers WHERE age > 30 AND name = 'Zoe'": (
        "SELECT COUNT(*) FROM customers WHERE age > 30",
        "leaves out name = 'Zoe'",
    ),
    "SELECT SUM(ammount) FROM orders": (
        "SELECT SUM(amount) FROM orders",
        "amount instead of ammount",
    ),
    "SELECT COUNT(*) FROM ordres": ("SELECT COUNT(*) FROM orders", "orders instead of ordres"),
    "SELECT AVG(orders.amount) FROM orders o": (
        "SELECT AVG(o.amount) FROM orders o",
        "o instead of orders",
    ),
    "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY discount) q FROM orders) GROUP BY q": (
        (
            "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY discount) q FROM orders"
            " WHERE discount IS NOT NULL) GROUP BY q"
        ),
        "adds discount IS NOT NULL",
    ),
    "SELECT q, COUNT(*) FROM (SELECT NTILE(2) OVER (ORDER BY quantity) q FROM orders) GROUP BY q": (
        (
            "SELECT q, COUNT(*) FROM (SELECT CASE WHEN CUME_DIST() OVER (ORDER BY quantity) <= 0.5"
            " THEN 1 ELSE 2 END q FROM orders) GROUP BY q"
        ),
        "CUME_DIST instead of NTILE: rows with equal values share a tile",
    ),
    (
        "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY SUM(discount)) q FROM orders"
        " GROUP BY customer_id) GROUP BY q"
    ): (
        (
            "SELECT q, COUNT(*) FROM (SELECT NTILE(4) OVER (ORDER BY SUM(discount)) q FROM orders"
            " GROUP BY customer_id HAVING SUM(discount) IS NOT NULL) GROUP BY q"
        ),
        "adds SUM(discount) IS NOT NULL",
    ),
    (
        "SELECT status, SUM(o.amount - a.m) AS d FROM orders o,"
        " (SELECT AVG(amount) m FROM orders) AS a GROUP BY status"
    ): (
        (
            "SELECT status, (SUM(o.amount) - COUNT(o.amount) *"
            " (SELECT a.m FROM (SELECT AVG(amount) m FROM orders) AS a)) AS d FROM orders o,"
            " (SELECT AVG(amount) m FROM orders) AS a GROUP BY status"
        ),
        "subtracts a.m behind SUM(o.amount)",
    ),
    (
        "SELECT AVG(amount - a.m) FROM orders, (SELECT AVG(amount) m FROM orders) a"
        " WHERE quantity > 1"
    ): (
        (
            "SELECT (AVG(amount) - (SELECT a.m FROM (SELECT AVG(amount) m FROM orders) a))"
            " FROM orders, (SELECT AVG(amount) m FROM orders) a WHERE quantity > 1"
        ),
        "subtracts a.m behind AVG(amount)",
    ),
    "SELECT AVG(r) FROM (SELECT RANK() OVER (ORDER BY amount) AS r FROM orders) AS t": (
        (
            "SELECT AVG(r) FROM (SELECT RANK() OVER (PARTITION BY customer_id ORDER BY amount) AS r"
            " FROM orders) AS t"
        ),
        "ranks or sums within each customer_id",
    ),
    "SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id ORDER BY n DESC LIMIT 9": (
        (
            "SELECT AVG(n) AS n FROM (SELECT customer_id, COUNT(*) AS n FROM orders"
            " GROUP BY customer_id) AS t"
        ),
        "averages over customers",
    ),
    "SELECT COUNT(*) FROM orders o JOIN events e ON o.quantity = e.duration": (
        (
            "SELECT COUNT(*) FROM orders o JOIN events e ON o.quantity = e.duration"
            " WHERE o.customer_id = e.customer_id"
        ),
        "adds o.customer_id = e.customer_id",
    ),
    "SELECT status FROM orders WHERE COUNT(*) > 5 GROUP BY status": (
        "SELECT status FROM orders GROUP BY status HAVING COUNT(*) > 5",
        "HAVING instead of WHERE",
    ),
    "SELECT COUNT(*) FROM orders WHERE status > 5": (
        "SELECT COUNT(*) FROM orders WHERE status > '5'",
        "writes 5 as a text",
    ),
    "SELECT TOP 2 status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC": (
        "SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC LIMIT 2",
        "LIMIT 2 instead of TOP",
    ),
    "SELECT COUNT(*) FROM `orders`": (
        'SELECT COUNT(*) FROM "orders"',
        'writes names in "double quotes"',
    ),
    "SELECT COUNT(*) FROM `orders` WHERE status = 'a `b` )' -- select top 5 x": (
        """SELECT COUNT(*) FROM "orders" WHERE status = 'a `b` )' -- select top 5 x""",
        'writes names in "double quotes"',
    ),
    "SELECT TOP (2) COUNT(*) FROM customers WHERE city <> 'top 3' GROUP BY segment ORDER BY 1": (
        "SELECT COUNT(*) FROM customers WHERE city <> 'top 3' GROUP BY segment ORDER BY 1 LIMIT 2",
        "LIMIT 2 instead of TOP",
    ),
    "SELECT AVG(r) FROM (SELECT RANK() OVER () AS r, '( )' AS s FROM orders WHERE status = ' )')": (
        (
            "SELECT AVG(r) FROM (SELECT RANK() OVER (PARTITION BY customer_id) AS r, '( )' AS s"
            " FROM orders WHERE status = ' )')"
        ),
        "ranks or sums within each customer_id",
    ),
    "SELECT segment, COUNT(*), FROM customers GROUP BY segment": (
        "SELECT segment, COUNT(*) FROM customers GROUP BY segment",
        "leaves out a comma",
    ),
    'SELECT COUNT(*) FROM customers WHERE segment IN ("business", "it\'s")': (
        "SELECT COUNT(*) FROM customers WHERE segment IN ('business', 'it''s')",
        "writes texts in 'single quotes'",
    ),
    "SELECT COUNT(*) FROM logins WHERE day > DATE_TRUNC(\"year\", DATE '2024-05-01')": (
        "SELECT COUNT(*) FROM logins WHERE day > DATE_TRUNC('year', DATE '2024-05-01')",
        "writes texts in 'single quotes'",
    ),
    "SELECT CUNT(*) FROM customers": ("SELECT count(*) FROM customers", "count instead of CUNT"),
    "SELECT customer_id, COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id": (
        "SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id",
        "leaves out customer_id",
    ),
    "SELECT COUNT(*) FROM orders o JOIN customers c ON o.status = c.age": (
        (
            "SELECT COUNT(*) FROM orders o JOIN customers c ON o.status = CAST(c.age AS VARCHAR)"
            " WHERE o.customer_id = c.customer_id"
        ),
        "compares CAST(c.age AS VARCHAR), adds o.customer_id = c.customer_id",
    ),
    (
        "SELECT COUNT(*) FROM customers a JOIN customers b ON a.customer_id = b.customer_id"
        " WHERE age > 40"
    ): (
        (
            "SELECT COUNT(*) FROM customers a JOIN customers b ON a.customer_id = b.customer_id"
            " WHERE a.age > 40"
        ),
        "a.age instead of age",
    ),
    "SELECT segment, MODE(c.city) AS most FROM customers c GROUP BY segment": (
        "SELECT segment, c.city, COUNT(*) AS n FROM customers c GROUP BY segment, c.city",
        "counts rows by c.city",
    ),
    "SELECT STRING_AGG(status, ',') FROM orders": (
        "SELECT COUNT(status) FROM orders",
        "COUNT(status) instead of STRING_AGG(status, ',')",
    ),
    "SELECT vip, STRING_AGG(DISTINCT city, ', ' ORDER BY city) FROM customers GROUP BY vip": (
        "SELECT vip, city, COUNT(*) AS n FROM customers GROUP BY vip, city",
        "counts rows by city",
    ),
    "SELECT MEDIAN(v) FROM (SELECT note, SUM(amount) AS v FROM orders GROUP BY 1) t": (
        (
            "SELECT MEDIAN(v) FROM (SELECT note, SUM(amount) AS v, orders.customer_id FROM orders"
            " GROUP BY 1, orders.customer_id) t"
        ),
        "has groups for each customer_id",
    ),
    "SELECT MAX(n) AS m FROM (SELECT note, COUNT(*) AS n FROM orders GROUP BY note) t": (
        "SELECT note, COUNT(*) AS n FROM orders GROUP BY note ORDER BY n DESC LIMIT 1",
        "shows the largest group",
    ),
    "CREATE TABLE t AS SELECT COUNT(*) AS n FROM orders": (
        "SELECT COUNT(*) AS n FROM orders",
        "asks the query alone",
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_offers(text: str) -> None:
    case = replace(REFUSED[0], sql=text, catalog="shop", settings=())
    offer = offered(case)
    assert offer is not None
    assert (offer.sql, str(offer)) == TEXTS[text]


SERIES = [
    "SELECT u, COUNT(*) FROM (SELECT UNNEST(range(1, quantity)) AS u FROM orders) t GROUP BY u",
    "SELECT COUNT(*) AS n FROM orders, UNNEST(generate_series(1, quantity)) AS g(u) WHERE u > 3",
    "SELECT u, COUNT(*) FROM orders o, LATERAL generate_series(o.quantity, 20) g(u) GROUP BY u",
]
"""Series of the numbers of a row, whose bounds the policy has."""


@pytest.mark.parametrize("text", SERIES)
def test_a_series_of_a_column_is_offered_between_its_bounds(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, (_, engine) = replace(REFUSED[0], sql=text, catalog="shop", settings=()), shop()
    offer = offered(case)
    assert offer is not None
    assert sorted(engine.rows(offer.sql)) == sorted(engine.rows(text))
    monkeypatch.setattr(offers, "_with_condition", lambda select, _: [Offer(select.sql, ())])
    wrong = offered(case)
    assert wrong is not None
    assert sorted(engine.rows(wrong.sql)) != sorted(engine.rows(text)), "the twin keeps all numbers"


@pytest.mark.parametrize(
    "unequal", ["o.customer_id <> e.customer_id", "E.customer_id>o.customer_id"]
)
def test_people_that_a_text_tells_apart_are_not_made_equal(unequal: str) -> None:
    text = "SELECT COUNT(*) FROM orders o JOIN events e ON o.quantity = e.duration"
    case = replace(REFUSED[0], sql=text, catalog="shop", settings=())
    assert offered(case) is not None
    assert offered(replace(case, sql=f"{text} AND {unequal}")) is None


def test_people_are_not_counted_in_groups_of_one_of_them() -> None:
    text = (
        "SELECT AVG(n) FROM (SELECT note, COUNT(DISTINCT customer_id) n FROM orders GROUP BY 1) t"
    )
    offer = offered(replace(REFUSED[0], sql=text, catalog="shop", settings=()))
    assert offer is None or "orders.customer_id" not in offer.sql


def test_nothing_is_offered_that_is_refused() -> None:
    for text in ("SELECT frobnicate(amount) FROM orders", "SELECT 1; SELECT 2", "SELEC 1"):
        assert offered(replace(REFUSED[0], sql=text, catalog="shop", settings=())) is None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return proxy_kit.shop(tmp_path_factory.mktemp("offers"))


@pytest.mark.full("opens servers or connects clients")
def test_every_interface_has_it_and_it_is_free(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "SECONDS", 60.0)
    text, expected = "SELECT age FROM customers", "SELECT AVG(age) AS age, COUNT(*) AS n"
    with Proxy.open(str(place)) as proxy:
        before = [spent for _, spent, _ in proxy.budgets()]
        for ask in (proxy.ask, proxy.explain):
            with pytest.raises(Refused) as refusal:
                ask(Request(text, "ana"))
            shown = str(describe(refusal.value, text))
            assert f"\ntry: counts rows and averages age\n  {expected} FROM customers" in shown
            assert f"Try (counts rows and averages age): {expected}" in fault_of(refusal.value).hint
        with pytest.raises(Refused) as refusal:
            proxy.ask(Request("SELECT age FROM customers WHERE age > ?", "ana", parameters=(3,)))
        assert refusal.value.offer is None
        assert [spent for _, spent, _ in proxy.budgets()] == before
    with dpsql.connect(str(place), "ana") as connection:
        with pytest.raises(dpsql.Error) as error:
            connection.cursor().execute(text)
        assert error.value.offer is not None
        connection.cursor().execute(error.value.offer.sql)


@pytest.mark.full("opens a proxy for each item")
def test_an_offer_may_need_bounds_that_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is counted instead where bounds found privately are enough."""
    monkeypatch.setattr(offers, "SECONDS", 60.0)
    found = ("amount = { bounds = [0.0, 500.0] }", "amount = { private_bounds = true }")
    released = "(SELECT AVG(amount) AS m FROM orders) a"
    text = f"SELECT SUM(o.amount - a.m) AS d FROM orders o, {released}"
    with Proxy.open(str(proxy_kit.shop(tmp_path, found))) as proxy:
        with pytest.raises(Refused) as refusal:
            proxy.explain(Request(text, "ana"))
        assert text[refusal.value.span.start :].startswith("o.amount - a.m")
        assert refusal.value.offer is not None
        assert "SUM(o.amount)" in refusal.value.offer.sql
        proxy.explain(Request(refusal.value.offer.sql, "ana"))


@pytest.mark.full("opens a proxy for each item")
def test_what_takes_too_long_is_left_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "SECONDS", 0.0)
    with Proxy.open(str(place)) as proxy, pytest.raises(Refused) as refusal:
        proxy.ask(Request("SELECT age FROM customers", "ana"))
    assert refusal.value.offer is None


def test_long_texts_have_no_offer() -> None:
    text = f"SELECT age FROM customers WHERE city = '{'x' * 5_000}'"
    assert offered(replace(REFUSED[0], sql=text, catalog="shop", settings=())) is None
