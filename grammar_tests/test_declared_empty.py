"""Conditions outside of what a policy lists: answered by declaration, free, whatever is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpsql.compiler.infer import declared_empty
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import remarks, sentence
from dpsql.model.algebra import Relation, Scan
from dpsql.model.row_notices import ByDeclaration
from dpsql.model.vocabulary import Loss
from dpsql.model.walk import relations
from dpsql.proxy import Proxy
from grammar_tests import bound, world
from grammar_tests.laws import compiled, counts_rows, measured, noiseless
from grammar_tests.proxy_kit import WatchedEngine, request, shop

LOST = " WHERE status = 'unheard of'"
LISTED = ByDeclaration("orders", "status", ("open", "paid", "returned"))
BY_SEGMENT = f"""SELECT segment, COUNT(*) AS n FROM customers JOIN orders USING (customer_id){LOST}
GROUP BY segment ORDER BY segment DESC"""
EMPTY = {
    f"SELECT COUNT(*), SUM(amount), AVG(amount), MAX(amount) FROM orders{LOST}": [
        (0, 0.0, None, None)
    ],
    BY_SEGMENT: [("consumer", 0), ("business", 0)],
    BY_SEGMENT.replace("segment", "city"): [],
    f"SELECT status, COUNT(*) AS n FROM orders{LOST} GROUP BY status": [],
    f"SELECT COUNT(*) + 1 AS n FROM orders{LOST} HAVING COUNT(*) < 1": [(1,)],
    "SELECT COUNT(*) FILTER (WHERE status = 'unheard of') AS n FROM orders": [(0,)],
    """SELECT segment, SUM(amount) FILTER (WHERE status = 'unheard of') AS s FROM customers
    JOIN orders USING (customer_id) GROUP BY segment ORDER BY segment""": [
        ("business", 0.0),
        ("consumer", 0.0),
    ],
    f"SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM orders{LOST} GROUP BY customer_id) AS t": [
        (None,)
    ],
}
"""What is answered without a look."""
MEASURED = (
    "SELECT COUNT(*) FROM orders WHERE status = 'open'",
    f"SELECT COUNT(*) FROM orders{LOST} OR amount > 100",
    "SELECT COUNT(*) FROM orders WHERE status IS NULL",
    "SELECT COUNT(*) FROM customers WHERE age > 130",
    "SELECT COUNT(*) FILTER (WHERE status = 'open') FROM orders",
    "SELECT COUNT(*) FILTER (WHERE status = 'unheard of' OR amount > 100) FROM orders",
    """SELECT COUNT(*) FILTER (WHERE COALESCE(o.status, 'none') = 'none') FROM customers AS c
    LEFT JOIN orders AS o ON c.customer_id = o.customer_id AND o.status = 'unheard of'""",
    f"""SELECT COUNT(*) FROM customers AS c LEFT JOIN (SELECT * FROM orders{LOST}) AS o
    ON c.customer_id = o.customer_id""",
    """SELECT COUNT(*) FROM customers AS c LEFT JOIN orders AS o ON c.customer_id = o.customer_id
    AND o.status = 'unheard of' WHERE COALESCE(o.status, 'none') = 'none'""",
    f"""SELECT COUNT(*) FROM customers WHERE customer_id NOT IN
    (SELECT customer_id FROM orders{LOST})""",
)
"""Where there may be rows, as declared."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A shop that stores what its policy does not list."""
    path = shop(tmp_path_factory.mktemp("declared"), tables=world.adversarial(), constraints=False)
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
    assert proxy.ledger.history("ana") == ()
    plan = proxy.explain(request(sql))
    assert plan.charge == Loss(0)
    assert plan_text(plan).startswith("No private row is read: exact, at no cost.")


@pytest.mark.parametrize("sql", MEASURED)
def test_rows_that_may_be_there_are_measured(proxy: Proxy, sql: str) -> None:
    plan = proxy.explain(request(sql))
    assert plan.charge.amount > 0
    assert not [n for n in plan.notices if isinstance(n, ByDeclaration)]


@pytest.mark.full("opens a proxy for each item")
def test_what_is_beside_it_is_paid_for(proxy: Proxy) -> None:
    both = "SELECT (SELECT COUNT(*) FROM orders{}) AS a, (SELECT COUNT(*) FROM orders) AS b"
    plan, alone = (proxy.explain(request(both.format(each))) for each in (LOST, ""))
    assert len(plan.blocks) == 1
    assert plan.charge == proxy.explain(request("SELECT COUNT(*) FROM orders")).charge
    assert LISTED in plan.notices
    assert LISTED not in alone.notices
    assert proxy.ask(request(both.format(LOST))).rows[0][0] == 0


BESIDE = (
    "SELECT AVG(amount) AS m, COUNT(*) AS n{} FROM orders",
    "SELECT status, COUNT(*) AS n{} FROM orders GROUP BY status ORDER BY status",
    "SELECT DISTINCT city{} FROM customers JOIN orders USING (customer_id) ORDER BY city",
)
LOST_COUNT = ", COUNT(*) FILTER (WHERE status = 'unheard of') AS lost"


@pytest.mark.parametrize("sql", BESIDE)
def test_aggregates_beside_one_without_rows_cost_what_they_do_alone(sql: str) -> None:
    policy, engine = bound.shop()
    grouped = sql.format(LOST_COUNT)
    if "DISTINCT" in sql:
        grouped = grouped.replace("DISTINCT ", "").replace("ORDER", "GROUP BY city ORDER")
    alone, both = (compiled(text, policy, engine) for text in (sql.format(""), grouped))
    assert both.blocks
    assert both.question == alone.question
    assert LISTED in {*both.notices} - {*alone.notices}
    (ours, _), (others, _) = noiseless(both, engine), noiseless(alone, engine)
    assert ours == [(*row, 0) for row in others]


def test_a_filter_of_values_that_nobody_lists_is_measured() -> None:
    policy, engine = bound.shop()
    sql = "SELECT COUNT(*) FILTER (WHERE note = 'unheard of') AS n FROM orders"
    assert compiled(sql, policy, engine).blocks


def test_the_notice_names_the_list(proxy: Proxy) -> None:
    answer = proxy.ask(request(f"SELECT COUNT(*) FROM orders{LOST}"))
    (told,) = remarks(answer, COMMAND_LINE)
    assert told.startswith("no rows, by declaration: the policy lists open, paid, returned for ")


@pytest.mark.parametrize(
    ("written", "meant"), [("Paid", "paid"), ("retruned", "returned"), ("unheard of", None)]
)
def test_a_listed_value_that_is_meant_is_named(written: str, meant: str | None) -> None:
    policy, engine = bound.shop()
    sql = f"SELECT COUNT(*) AS n FROM orders WHERE status = '{written}'"
    (notice,) = compiled(sql, policy, engine).notices
    assert notice == replace(LISTED, near=meant)
    hint = "" if meant is None else f"; did you mean '{meant}'?"
    assert sentence(notice, ()).endswith(f"nothing was measured{hint}")


def test_a_listed_value_is_not_its_own_correction() -> None:
    policy, engine = bound.shop()
    sql = "SELECT COUNT(*) AS n FROM orders WHERE status = 'paid' AND status = 'open'"
    (notice,) = compiled(sql, policy, engine).notices
    assert notice == LISTED


# --- law 1: where the data hold what is declared, there are no such rows ---


ALL = [sql.replace("unheard of", "lost") for sql in (*EMPTY, *MEASURED)]


def falsely_empty() -> list[str]:
    """What is answered by declaration although rows of the data fulfil the conditions."""
    policy, engine = bound.shop()
    empty = [sql for sql in ALL if compiled(sql, policy, engine).plan is None]
    return [sql for sql in empty if counts_rows(measured(sql, policy, engine), engine)]


@pytest.mark.full("measures neighbours or further data sets")
def test_there_are_no_rows_where_the_data_hold_what_is_declared() -> None:
    assert falsely_empty() == []


def test_rows_that_are_taken_for_absent_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: the optional side of a join taken for one that every row has."""

    def scans(rows: Relation) -> Iterator[Scan]:
        return (part for part in relations(rows) if isinstance(part, Scan))

    monkeypatch.setattr(declared_empty, "_present", scans)
    assert len(falsely_empty()) > 0
