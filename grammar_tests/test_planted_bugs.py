"""Unsound claims that once passed every test: each is made again here, and has to be found.

A seventh, the guard that tells an OR from an equality, is in `test_join_conditions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from dpsql.compiler.aggregates import distinct
from dpsql.compiler.track import joins, released_lists, table_scans
from dpsql.compiler.track.units import Private, Together
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import FactKind, Policy
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.fuzz_joins import bound
from grammar_tests.laws import PlainEngine, compiled, integers, violation, without_unit
from grammar_tests.proofs import Counting, claims_of

Patch = pytest.MonkeyPatch


def orders(*rows: tuple[int, int]) -> world.Tables:
    """One customer with orders of these numbers and quantities; the second has two items."""
    listed = [
        (*world.order(n, 1, 0)[:3], quantity, *world.order(n, 1, 0)[4:]) for n, quantity in rows
    ]
    items = [(n, rows[-1][0], 1, 5, 1) for n in (1, 2)]
    return {**world.empty(), "customers": [world.customer(1)], "orders": listed, "items": items}


def sorts(sql: str, policy: Policy, engine: PlainEngine) -> set[str]:
    """The sorts of claims that the data disprove."""
    found = Counting(policy, engine).disproved(claims_of(sql, policy, engine))
    return {why.split(":")[0] for why in found}


NUMBER = "ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id)"
FEW = f"(SELECT * FROM orders QUALIFY {NUMBER} <= {{}})"
OWN = (
    "(SELECT o.customer_id, i.order_id FROM items AS i JOIN orders AS o USING (order_id)"
    " QUALIFY ROW_NUMBER() OVER (PARTITION BY o.customer_id ORDER BY i.item_id) <= 2)"
)


@pytest.mark.full("measures neighbours or further data sets")
def test_rows_of_the_left_stay_beside_those_that_meet(monkeypatch: Patch) -> None:
    """Two orders, of which one has two items, are three rows: m1 + m2 - 1, not m2."""
    policy, engine = over(orders((1, 3), (2, 5)), constraints=True)
    sql = f"SELECT COUNT(*) FROM {FEW.format(2)} AS a LEFT JOIN {OWN} AS b USING (order_id)"
    assert sorts(sql, policy, engine) == set()
    sound = joins._each_beside_one

    def wrong(joined: Private, left: Private, right: Private, *facts: Any) -> Private:
        return replace(sound(joined, left, right, *facts), max_rows=right.max_rows)

    monkeypatch.setattr(joins, "_each_beside_one", wrong)
    assert "rows" in sorts(sql, policy, engine)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sort", ["copied", "before"])
def test_the_right_of_a_left_join_has_a_value_more(sort: str, monkeypatch: Patch) -> None:
    """One order is met, and another meets none: the right side has its one note, and NULL."""
    policy, engine = over(orders((1, 3), (2, 5)), constraints=True)
    right = f"(SELECT o.*, k.code FROM {FEW.format(1)} AS o CROSS JOIN countries AS k)"
    sql = (
        f"SELECT b.status, COUNT(*) FROM orders AS a LEFT JOIN {right} AS b"
        " ON b.customer_id = a.customer_id AND b.order_id = a.order_id GROUP BY b.status"
    )
    assert sorts(sql, policy, engine) == set()
    sound = joins.join_units

    def wrong(join: Any, left: Private, right: Private, *rest: Any) -> Private:
        joined = sound(join, left, right, *rest)
        return replace(joined, **{sort: getattr(joined, sort) + getattr(right, sort)})

    monkeypatch.setattr("dpsql.compiler.track.track.join_units", wrong)
    assert sort in sorts(sql, policy, engine)


def test_two_keys_that_rows_may_share_do_not_tell_a_unit(monkeypatch: Patch) -> None:
    """A key of two columns that nothing says to be unique, on both sides."""
    there = bound(6)
    facts = {
        f for f in there.policy.facts if f.kind not in (FactKind.UNIQUE_KEY, FactKind.ONE_UNIT)
    }
    policy = replace(there.policy, facts=frozenset(facts))
    sql = "SELECT COUNT(*) FROM sales AS a JOIN sales AS b USING (item, ticket)"

    def refused() -> bool:
        try:
            compiled(sql, policy, there.engine)
        except Refused as why:
            return why.reason is Reason.UNEQUAL_UNITS
        return False

    assert refused()
    monkeypatch.setattr(table_scans, "Together", _single)
    assert not refused()


def _single(ids: tuple[int, ...], of: str, **rest: Any) -> Together:
    return Together(ids, of, **(rest | {"single": True}))


@pytest.mark.full("measures neighbours or further data sets")
def test_rows_of_a_released_join_multiply(monkeypatch: Patch) -> None:
    """Each released segment meets every product, and so does a customer of that segment."""
    policy, engine = shop()
    released = "(SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t"
    rows = f"(SELECT t.segment, t.n FROM {released} JOIN products AS p ON p.product_id > 0) AS s"
    sql = f"SELECT COUNT(*) FROM customers AS c JOIN {rows} ON s.segment = c.segment"
    assert sorts(sql, policy, engine) == set()
    monkeypatch.setattr(released_lists, "product", lambda left, _right: left)
    assert "frequency" in sorts(sql, policy, engine)


@pytest.mark.full("measures neighbours or further data sets")
def test_all_listed_values_of_one_unit_count(monkeypatch: Patch) -> None:
    """From the empty shop: a customer brings 1, 2 and 3, which nobody else has."""
    sql = "SELECT SUM(DISTINCT quantity) AS s FROM orders WHERE quantity IN (1, 2, 3)"
    assert moved(sql) is None
    monkeypatch.setattr(distinct, "sum", _largest, raising=False)
    assert moved(sql) is not None


def moved(sql: str) -> str | None:
    """How the only customer breaks what is claimed."""
    policy, engine = over(orders((1, 1), (2, 2), (3, 3)), constraints=False)
    plan = compiled(sql, policy, engine)
    here = integers(plan, engine)
    with without_unit(engine.connection, world.deletions(1)):
        return violation(plan, here, integers(plan, engine))


def _largest(steps: Iterable[int]) -> int:
    return max(steps, key=abs, default=0)
