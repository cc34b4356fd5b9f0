"""`raw_rows = "empty"`: who looks at one row of people sees columns, no row and a notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.row_notices import Withheld
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import WatchedEngine, policy, request, shop

EMPTY = (
    '[analysts.bob]\nbudget = "default"',
    '[analysts.bob]\nbudget = "default"\nraw_rows = "empty"',
)
PEEKS = {
    "SELECT * FROM orders LIMIT 1": 0,
    "SELECT * FROM (SELECT * FROM orders LIMIT 1) AS t": 0,
    "SELECT age, country FROM customers WHERE age > 30 ORDER BY age DESC LIMIT 1": 0,
    "SELECT * FROM (SELECT segment FROM customers) AS virtual_table LIMIT 1": 0,
    "SELECT c.age, o.amount FROM customers c JOIN orders o USING (customer_id) LIMIT 1 OFFSET 3": 0,
    "SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id LIMIT 1": 0,
    "SELECT customer_id FROM orders WHERE amount > (SELECT AVG(amount) FROM orders) LIMIT 1": 0,
    "SELECT DISTINCT code FROM countries LIMIT 1": 1,
}
"""Rows of each."""
REFUSED = (
    "SELECT * FROM orders",
    "SELECT * FROM orders LIMIT 2",
    "SELECT COUNT(*) FROM (SELECT * FROM orders LIMIT 1) AS t",
    "SELECT EXISTS (SELECT * FROM orders LIMIT 1) AS found",
    "SELECT code FROM countries WHERE EXISTS (SELECT 1 FROM orders LIMIT 1) LIMIT 1",
    "SELECT * FROM (SELECT * FROM orders LIMIT 1) AS t UNION ALL SELECT * FROM orders LIMIT 1",
)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("empty"), EMPTY))) as opened:
        yield opened


@pytest.mark.parametrize("sql", PEEKS)
def test_one_row_is_none_and_nothing_is_read_or_paid(proxy: Proxy, sql: str) -> None:
    engine = WatchedEngine(proxy.vault.engine)
    kept, proxy.vault.engine = proxy.vault.engine, engine
    try:
        answer = proxy.ask(request(sql, None, "bob"))
    finally:
        proxy.vault.engine = kept
    assert len(answer.rows) == PEEKS[sql]
    assert [n for n in answer.notices if isinstance(n, Withheld)] == (
        [] if PEEKS[sql] else [Withheld("customers")]
    )
    assert not [text for _, text in engine.calls if "orders" in text or "customers" in text]
    assert proxy.ledger.history("bob") == ()


@pytest.mark.parametrize("sql", REFUSED)
def test_elsewhere_rows_are_refused_as_ever(proxy: Proxy, sql: str) -> None:
    with pytest.raises(Refused):
        proxy.ask(request(sql, None, "bob"))


@pytest.mark.parametrize("sql", [sql for sql, rows in PEEKS.items() if not rows])
def test_the_other_analysts_are_refused(proxy: Proxy, sql: str) -> None:
    with pytest.raises(Refused) as caught:
        proxy.ask(request(sql, None, "ana"))
    assert caught.value.reason in (Reason.RAW_ROWS, Reason.UNIT_KEY_EXPOSED)


def test_columns_are_those_of_the_rows(proxy: Proxy) -> None:
    columns = proxy.ask(
        request("SELECT age, country, NULL AS x FROM customers LIMIT 1", None, "bob")
    )
    assert [(c.name, str(c.type)) for c in columns.columns] == [
        ("age", "INTEGER"), ("country", "VARCHAR"), ("x", "NULL"),
    ]  # fmt: skip


@pytest.mark.full("opens a proxy")
def test_a_count_of_what_a_test_tool_finds_is_noisy_and_paid(proxy: Proxy) -> None:
    found = "(SELECT age FROM customers WHERE age IS NULL) AS t"
    answer = proxy.ask(request(f"SELECT COUNT(*) AS failures FROM {found} LIMIT 1", None, "bob"))
    assert len(answer.rows) == 1
    assert answer.receipt is not None
    assert answer.receipt.charged.amount > 0


@pytest.mark.full("measures neighbours or further data sets")
def test_the_choice_is_one_of_two(tmp_path: Path) -> None:
    wrong = EMPTY[0], EMPTY[1].replace("empty", "some")
    with pytest.raises(PolicyError, match="raw_rows"):
        load(str(policy(tmp_path, wrong)))
