"""Answers that facts make certain are exact and free; without the facts they are measured (R38)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from dpsql.compiler.infer import certain_rows
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import remarks
from dpsql.model.row_notices import ByFact, CertainFact
from dpsql.model.vocabulary import Fact, FactKind, Loss
from dpsql.proxy import Proxy
from grammar_tests import bound, world
from grammar_tests.laws import compiled, counts_rows, measured, noiseless
from grammar_tests.proxy_kit import WatchedEngine, request, shop
from grammar_tests.session_kit import Client

TEST = """SELECT COUNT(*) AS failures, COUNT(*) <> 0 AS should_warn, COUNT(*) <> 0 AS should_error
FROM ({}) AS failed"""
"""A test as tools write it: it passes where a query has no rows."""
UNIQUE = """SELECT {0} AS field, COUNT(*) AS n FROM {1} WHERE {0} IS NOT NULL GROUP BY {0}
HAVING COUNT(*) > {2}"""
LINKED = """WITH child AS (SELECT {0} AS a FROM {1} WHERE {0} IS NOT NULL),
parent AS (SELECT {2} AS b FROM {3})
SELECT a FROM child LEFT JOIN parent ON a = b WHERE b IS NULL"""
ACCEPTED = """WITH every AS (SELECT status, COUNT(*) AS n FROM orders GROUP BY status)
SELECT * FROM every WHERE status NOT IN ('open', 'paid', 'returned')"""
TESTS = {
    TEST.format(UNIQUE.format("customer_id", "customers", 1)): CertainFact.AT_MOST,
    TEST.format(UNIQUE.format("order_id", "orders", 1)): CertainFact.AT_MOST,
    TEST.format("SELECT order_id FROM orders WHERE order_id IS NULL"): CertainFact.NEVER_NULL,
    TEST.format("SELECT item_id FROM items WHERE order_id IS NULL"): CertainFact.NEVER_NULL,
    TEST.format(LINKED.format("customer_id", "orders", "customer_id", "customers")): (
        CertainFact.LINKED
    ),
    TEST.format(LINKED.format("country", "customers", "code", "countries")): None,
}
"""Tests of keys, links and lists, with the fact that each follows from (None: a list)."""
ZERO = {
    "SELECT COUNT(*) FROM orders WHERE 1 = 0": CertainFact.FALSE,
    "SELECT COUNT(*) FROM orders WHERE amount < 20 AND amount > 30": CertainFact.FALSE,
    "SELECT COUNT(*) FROM orders WHERE quantity = 2 AND quantity = 3": CertainFact.FALSE,
    "SELECT COUNT(*) FROM orders WHERE note IS NULL AND note = 'x'": CertainFact.FALSE,
    "SELECT COUNT(*) FROM orders WHERE note IS NULL AND note IN ('x', 'y')": CertainFact.FALSE,
    "SELECT COUNT(*) FROM orders WHERE order_id IS NULL OR 1 = 0": CertainFact.NEVER_NULL,
    "SELECT COUNT(*) FILTER (WHERE order_id IS NULL) FROM orders": CertainFact.NEVER_NULL,
    "SELECT SUM(CASE WHEN order_id IS NULL THEN 1 ELSE 0 END) FROM orders": CertainFact.NEVER_NULL,
    "SELECT COUNT(CASE WHEN order_id IS NULL THEN 1 END) FROM orders": CertainFact.NEVER_NULL,
    "SELECT COUNT(*) - COUNT(DISTINCT order_id) FROM orders": CertainFact.EQUAL,
    """SELECT COUNT(*) FROM orders AS o WHERE NOT EXISTS
    (SELECT 1 FROM customers AS c WHERE c.customer_id = o.customer_id)""": CertainFact.LINKED,
    """SELECT COUNT(*) FROM (SELECT order_id, COUNT(*) AS n FROM orders GROUP BY order_id) AS t
    WHERE n <> 1""": CertainFact.AT_MOST,
}
"""Numbers that are certainly 0."""
MEASURED = (
    TEST.format(UNIQUE.format("customer_id", "orders", 1)),
    TEST.format("SELECT age FROM customers WHERE age IS NULL"),
    TEST.format(
        LINKED.format("customer_id", "orders", "customer_id", "(SELECT * FROM customers WHERE vip)")
    ),
    TEST.format(LINKED.format("customer_id", "customers", "customer_id", "orders")),
    "SELECT COUNT(*) FROM orders WHERE order_id IS NULL OR note IS NULL",
    """SELECT COUNT(*) FROM orders WHERE (quantity > 5 OR quantity IS NULL)
    AND (quantity < 2 OR quantity IS NULL)""",
    "SELECT COUNT(*) FROM orders WHERE (note IS NULL OR quantity = 3) AND note IS NULL",
    "SELECT COUNT(*) FROM orders WHERE note = 'a' AND note = 'b'",
    "SELECT COUNT(*) FROM orders WHERE note IS NULL AND quantity IN (2, 3)",
    "SELECT COUNT(*) - COUNT(note) FROM orders",
    "SELECT COUNT(*) FROM customers WHERE age > 130",
    "SELECT SUM(CASE WHEN order_id IS NULL THEN 1 ELSE 2 END) FROM orders",
    """SELECT COUNT(*) FROM (SELECT order_id, COUNT(*) AS n FROM items GROUP BY order_id) AS t
    WHERE n > 1""",
    """SELECT COUNT(*) FROM customers AS c LEFT JOIN orders AS o USING (customer_id)
    WHERE o.order_id IS NULL""",
    """SELECT COUNT(*) FROM orders AS o WHERE NOT EXISTS
    (SELECT 1 FROM customers AS c WHERE c.customer_id = o.customer_id AND c.vip)""",
    "SELECT COUNT(DISTINCT order_id) - COUNT(DISTINCT quantity) FROM orders",
    """SELECT COUNT(DISTINCT i.order_id) - COUNT(DISTINCT o.customer_id)
    FROM items AS i JOIN orders AS o USING (order_id)""",
    """SELECT COUNT(*) FROM (SELECT order_id FROM orders WHERE 1 = 0
    UNION ALL SELECT order_id FROM orders) AS t""",
    """SELECT COUNT(*) FROM orders AS o LEFT JOIN (SELECT * FROM customers WHERE 1 = 0) AS c
    USING (customer_id)""",
)
"""The smallest changes of these, of which nothing is certain."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("certain")))) as opened:
        yield opened


def require_free(proxy: Proxy, sql: str, fact: CertainFact | None) -> tuple[object, ...]:
    """Ask a question that must look at no private row and charge nothing; return its row."""
    engine = WatchedEngine(proxy.vault.engine)
    kept, proxy.vault.engine = proxy.vault.engine, engine
    try:
        answer = proxy.ask(request(sql))
    finally:
        proxy.vault.engine = kept
    assert [n.fact for n in answer.notices if isinstance(n, ByFact)] == [fact] * (fact is not None)
    assert answer.receipt is None
    assert not any(map(any, answer.margins))
    assert not any("orders" in text or "customers" in text for _, text in engine.calls)
    assert proxy.ledger.history("ana") == ()
    assert proxy.explain(request(sql)).charge == Loss(0)
    (row,) = answer.rows
    return row


@pytest.mark.parametrize("sql", TESTS)
def test_a_test_that_certainly_passes_is_free(proxy: Proxy, sql: str) -> None:
    assert require_free(proxy, sql, TESTS[sql]) == (0, False, False)


@pytest.mark.parametrize("sql", ZERO)
def test_a_number_that_is_certainly_0_is_free(proxy: Proxy, sql: str) -> None:
    assert require_free(proxy, sql, ZERO[sql]) == (0,)


@pytest.mark.parametrize("sql", MEASURED)
def test_what_is_not_certain_is_measured(proxy: Proxy, sql: str) -> None:
    plan = proxy.explain(request(sql))
    assert plan.charge.amount > 0
    assert not [n for n in plan.notices if isinstance(n, ByFact)]


@pytest.mark.full("opens a proxy for each item")
def test_a_test_of_listed_keys_costs_nothing(tmp_path: Path) -> None:
    """Its groups are released as listed, by an entry without a charge."""
    with Proxy.open(str(shop(tmp_path / "listed"))) as opened:
        answer = opened.ask(request(TEST.format(ACCEPTED)))
    assert list(answer.rows) == [(0, False, False)]
    assert answer.receipt is not None
    assert answer.receipt.charged == Loss(0)


def test_a_test_of_keys_passes_over_the_wire(proxy: Proxy) -> None:
    client = Client(proxy)
    client.query(next(iter(TESTS)))
    assert client.rows == [("0", "f", "f")]
    assert b"at most 1 rows have one customers.customer_id" in b"".join(client.of(b"N"))
    assert proxy.ledger.history("ana") == ()


def test_the_plan_says_that_nothing_is_read(proxy: Proxy) -> None:
    sql = next(iter(TESTS))
    plan = proxy.explain(request(sql))
    assert plan_text(plan).startswith("No private row is read: exact, at no cost.")
    (said,) = remarks(proxy.ask(request(sql)), COMMAND_LINE)
    assert said.endswith("this is certain, and was not measured")


def test_what_no_output_reads_is_not_measured() -> None:
    policy, engine = bound.shop()
    inner = "SELECT status, {} COUNT(*) AS n FROM orders GROUP BY status"
    rest, both = (
        compiled(f"SELECT status, n FROM ({inner.format(more)}) AS t", policy, engine)
        for more in ("", "SUM(amount) AS s,")
    )
    assert rest.question == both.question
    listed = compiled(f"SELECT status FROM ({inner.format('')}) AS t", policy, engine)
    alone = compiled("SELECT status FROM orders GROUP BY status", policy, engine)
    assert listed.question == alone.question
    assert listed.plan is not None
    assert listed.plan.loss == Loss(0)
    assert noiseless(both, engine)[0]


@pytest.mark.parametrize("sql", [*TESTS, *list(ZERO)[5:]])
def test_without_a_fact_it_is_measured(sql: str) -> None:
    """Declarations, and limits that a statement enforces, are no facts."""
    policy, engine = bound.over(world.adversarial(), constraints=False)
    assert policy.table("orders").max_rows_per_unit  # type: ignore[union-attr]
    if "country" not in sql:
        assert compiled(sql, policy, engine).plan is not None


@pytest.mark.parametrize("missing", FactKind)
def test_each_fact_is_needed(missing: FactKind) -> None:
    """Each question is free with all facts, and measured without one that it follows from."""
    needed = {FactKind.UNIQUE_KEY: 4, FactKind.NOT_NULL_KEY: 1, FactKind.LINK_RESOLVES: 2}
    policy, engine = bound.shop()
    left = replace(policy, facts=frozenset(f for f in policy.facts if f.kind is not missing))
    asked = [*TESTS, *ZERO]
    assert all(compiled(sql, policy, engine).plan is None for sql in asked)
    lost = sum(compiled(sql, left, engine).plan is not None for sql in asked)
    assert lost == needed.get(missing, 0)


FOUND = {
    "SELECT status, {} FROM (SELECT status, SUM(discount) AS a, SUM(amount) AS b FROM orders"
    " GROUP BY status) AS t": ("a", "a, b"),
    "SELECT SUM(discount) AS a{} FROM orders": (
        ", SUM(amount) FILTER (WHERE order_id IS NULL) AS b",
        ", SUM(amount) AS b",
    ),
}
"""Questions about two columns with bounds that are found, of which one or both are measured."""


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("sql", FOUND)
def test_every_step_of_a_question_leaves_out_the_same(tmp_path: Path, sql: str) -> None:
    """Bounds are found of what is measured alone, and the last step measures no more."""
    found = "private_bounds = true"
    changes = (
        ("amount = { bounds = [0.0, 500.0] }", f"amount = {{ {found} }}"),
        ("discount = { bounds = [0.0, 1.0]", f"discount = {{ {found}"),
    )
    with Proxy.open(str(shop(tmp_path / "found", *changes))) as opened:
        one, both = (opened.explain(request(sql.format(each))) for each in FOUND[sql])
        answer = opened.ask(request(sql.format(FOUND[sql][0])))
    assert (len(one.blocks), len(both.blocks)) == (2, 3)
    assert answer.receipt is not None
    assert answer.receipt.charged == one.charge


# --- law 1: no rows are taken for absent ---

COLUMNS = ("order_id", "customer_id", "quantity", "status", "note")
PARTS = (
    *(f"{column} IS {word}NULL" for column, word in product(COLUMNS, ("", "NOT "))),
    *(f"quantity {sign} {n}" for sign, n in product(("<", "<=", "=", "<>", ">"), (2, 3))),
    "order_id IN (SELECT order_id FROM items)",
)
PAIRS = [f"{a} {word} {b}" for a, b in product(PARTS, PARTS) for word in ("AND", "OR") if a < b]
"""Conditions; one in some of them is tried."""
GROUPS = [
    f"SELECT COUNT(*) FROM (SELECT {key}, COUNT(*) AS n FROM {table} GROUP BY {key}) AS t"
    f" WHERE n {sign} {most}"
    for (key, table), sign, most in product(
        (("order_id", "orders"), ("customer_id", "orders"), ("order_id", "items")),
        ("<", "<=", "=", "<>", ">", ">="),
        (0, 1, 2),
    )
]
DECIDED = re.compile("DISTINCT|CASE")
"""Numbers that are 0 although rows are counted."""
EVERY = [*(f"SELECT COUNT(*) FROM orders WHERE {part}" for part in (*PARTS, *PAIRS[::7])), *GROUPS]
EVERY += [*TESTS, *list(ZERO), *MEASURED]


def judged(*, constraints: bool, believed: frozenset[Fact] = frozenset()) -> Iterator[bool]:
    """Yield for each question that is free whether it counts rows of the data."""
    tables = world.well_behaved() if constraints else world.adversarial()
    policy, engine = bound.over(tables, constraints=constraints)
    policy = replace(policy, facts=policy.facts | believed)
    for sql in EVERY:
        if "country" in sql and not constraints:
            continue  # values beyond the list are no rows by declaration
        if compiled(sql, policy, engine).plan is None and not DECIDED.search(sql):
            yield counts_rows(measured(sql, policy, engine), engine)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("constraints", [True, False])
def test_no_rows_are_taken_for_absent(constraints: bool) -> None:  # noqa: FBT001
    counted = list(judged(constraints=constraints))
    assert not any(counted)
    assert len(counted) > (30 if constraints else 5)


def test_wrong_twin_claims_are_taken_for_facts() -> None:
    assert any(judged(constraints=False, believed=bound.shop()[0].facts))


@pytest.mark.full("measures neighbours or further data sets")
def test_wrong_twin_a_filtered_table_is_taken_for_a_whole_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(certain_rows, "_whole_table", certain_rows._stored)
    assert any(judged(constraints=True))


def test_wrong_twin_null_is_taken_for_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certain_rows, "_requires", lambda *_: True)
    assert any(judged(constraints=True))
