"""Groups that nobody asks for are left out of a block, and no others (PRIVACY.md R92)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.compiler.track import asked_groups
from dpsql.model.algebra import Filter, Relation
from dpsql.model.tree import BOOLEAN, Literal
from grammar_tests.bound import shop
from grammar_tests.fuzz_checks import Verdict, law_one
from grammar_tests.laws import PlainEngine, compiled, integers
from grammar_tests.test_cases import database

OF_A_CATEGORY = (
    "SELECT p.product_id, t.n FROM products p JOIN (SELECT product_id, COUNT(*) AS n FROM items"
    " GROUP BY product_id) t ON t.product_id = p.product_id WHERE p.category = 'book'"
)
AVERAGED = "(SELECT AVG(i.price) FROM items i WHERE i.product_id = p.product_id)"
ASKED = [
    OF_A_CATEGORY,
    f"SELECT p.product_id, {AVERAGED.replace('AVG', 'COUNT')} FROM products p WHERE list_price > 9",
    (
        f"SELECT p.product_id, {AVERAGED} FROM products p"
        " WHERE p.product_id IN (SELECT product_id FROM products WHERE category <> '')"
    ),
    (
        "SELECT p.product_id, t.n, q.m FROM products p"
        " LEFT JOIN (SELECT product_id AS k, COUNT(*) AS n FROM items GROUP BY 1) t"
        " ON t.k = p.product_id"
        " LEFT JOIN (SELECT product_id AS k, SUM(units) AS m FROM items GROUP BY 1) q"
        " ON q.k = p.product_id WHERE p.list_price > 8"
    ),
]


@pytest.mark.parametrize("sql", ASKED)
@pytest.mark.parametrize("number", [3, 9])
def test_groups_that_are_asked_for_are_whole(sql: str, number: int) -> None:
    assert law_one(sql, number) is not Verdict.REFUSED


def test_wrong_twin_rows_that_ask_for_less_than_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    right = asked_groups._Asked._of_leaves

    def fewer(*arguments: object) -> Iterator[Relation]:
        for source in right(*arguments):  # type: ignore[arg-type]
            yield Filter(source, Literal(value=False, type=BOOLEAN))

    monkeypatch.setattr(asked_groups._Asked, "_of_leaves", fewer)
    with pytest.raises(AssertionError):
        law_one(OF_A_CATEGORY, 9)


def test_a_limit_on_groups_is_not_spent_on_groups_that_nobody_asks_for() -> None:
    """A person of thirty products keeps both books, where four groups of hers count."""
    items = ", ".join(f"(1, {n})" for n in range(1, 31))
    engine = PlainEngine(
        database(
            [
                "customers (customer_id): (1)",
                "orders (order_id, customer_id): (1, 1)",
                f"items (order_id, product_id): {items}",
            ]
        )
    )
    (asked,) = integers(compiled(OF_A_CATEGORY, shop()[0], engine), engine)
    assert dict(asked) == {(1,): (1, 1), (3,): (1, 1)}
    every = OF_A_CATEGORY.partition(" WHERE")[0]
    (kept,) = integers(compiled(every, shop()[0], engine), engine)
    assert len(kept) == 4
