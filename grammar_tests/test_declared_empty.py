"""Conditions outside of what a policy lists: answered by declaration, free, whatever is stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.sentences import remarks
from dpsql.model.notices import ByDeclaration
from dpsql.model.vocabulary import Loss
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.proxy_kit import WatchedEngine, request, shop

LOST = " WHERE status = 'unheard of'"
LISTED = ByDeclaration("orders", "status", ("open", "paid", "returned"))
EMPTY = {
    "SELECT COUNT(*), SUM(amount), AVG(amount), MAX(amount) FROM orders WHERE status = 'unheard of'": [
        (0, 0.0, None, None)
    ],
    "SELECT segment, COUNT(*) AS n FROM customers JOIN orders USING (customer_id)"
    " WHERE status = 'unheard of' GROUP BY segment ORDER BY segment DESC": [
        ("consumer", 0), ("business", 0)
    ],
    "SELECT city, COUNT(*) AS n FROM customers JOIN orders USING (customer_id)"
    " WHERE status = 'unheard of' GROUP BY city": [],
    "SELECT status, COUNT(*) AS n FROM orders WHERE status = 'unheard of' GROUP BY status": [],
    "SELECT COUNT(*) + 1 AS n FROM orders WHERE status = 'unheard of' HAVING COUNT(*) < 1": [(1,)],
    "SELECT AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders WHERE status = 'unheard of'"
    " GROUP BY customer_id) AS t": [(None,)],
}  # fmt: skip
"""What is answered without a look."""
MEASURED = (
    "SELECT COUNT(*) FROM orders WHERE status = 'open'",
    "SELECT COUNT(*) FROM orders WHERE status = 'unheard of' OR amount > 100",
    "SELECT COUNT(*) FROM orders WHERE status IS NULL",
    "SELECT COUNT(*) FROM customers WHERE age > 130",
    "SELECT COUNT(*) FROM customers AS c LEFT JOIN"
    " (SELECT * FROM orders WHERE status = 'unheard of') AS o ON c.customer_id = o.customer_id",
    "SELECT COUNT(*) FROM customers AS c LEFT JOIN orders AS o ON c.customer_id = o.customer_id"
    " AND o.status = 'unheard of' WHERE COALESCE(o.status, 'none') = 'none'",
    "SELECT COUNT(*) FROM customers WHERE customer_id NOT IN"
    " (SELECT customer_id FROM orders WHERE status = 'unheard of')",
)
"""Where there may be rows, as declared."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A shop that stores what its policy does not list."""
    path = shop(
        tmp_path_factory.mktemp("declared"), tables=world.adversarial(), constraints=False
    )
    with Proxy.open(str(path)) as opened:
        yield opened


@pytest.mark.parametrize("sql", EMPTY)
def test_what_is_stored_does_not_matter(proxy: Proxy, sql: str) -> None:
    engine = WatchedEngine(proxy.vault.engine)
    kept, proxy.vault.engine = proxy.vault.engine, engine
    try:
        answer = proxy.ask(request(sql))
    finally:
        proxy.vault.engine = kept
    assert list(answer.rows) == EMPTY[sql]
    assert answer.notices == (LISTED,)
    assert answer.receipt is None
    assert not any("orders" in text or "customers" in text for _, text in engine.calls)
    assert proxy.history("ana") == ()
    assert proxy.explain(request(sql)).charge == Loss(0)


@pytest.mark.parametrize("sql", MEASURED)
def test_rows_that_may_be_there_are_measured(proxy: Proxy, sql: str) -> None:
    plan = proxy.explain(request(sql))
    assert plan.charge.amount > 0
    assert not [n for n in plan.notices if isinstance(n, ByDeclaration)]


def test_what_is_beside_it_is_paid_for(proxy: Proxy) -> None:
    both = "SELECT (SELECT COUNT(*) FROM orders{}) AS a, (SELECT COUNT(*) FROM orders) AS b"
    plan, alone = (proxy.explain(request(both.format(each))) for each in (LOST, ""))
    assert len(plan.blocks) == 1
    assert plan.charge == proxy.explain(request("SELECT COUNT(*) FROM orders")).charge
    assert LISTED in plan.notices
    assert LISTED not in alone.notices
    assert proxy.ask(request(both.format(LOST))).rows[0][0] == 0


def test_the_notice_names_the_list(proxy: Proxy) -> None:
    answer = proxy.ask(request(f"SELECT COUNT(*) FROM orders{LOST}"))
    assert remarks(answer, COMMAND_LINE) == (
        "no rows, by declaration: the policy lists open, paid, returned for orders.status, of which"
        " the conditions leave none; nothing was measured",
    )
