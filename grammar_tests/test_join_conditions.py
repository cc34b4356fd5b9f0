"""Conditions that imply an equality of keys, and conditions that are one and nothing else.

The wrong twin takes every condition that equates two keys for their equality alone.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest

from dpsql.compiler.track.equalities import Equates, equates, exactly_equal
from dpsql.model.tree import DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Ref
from grammar_tests.bound import shop
from grammar_tests.laws import compiled, noiseless, same_rows
from grammar_tests.proofs import Counting, claims_of

SAME = "a.customer_id = b.customer_id"
KEYS = "(SELECT customer_id AS u, age FROM customers)"
WHOLE = (
    f"SELECT COALESCE(a.u, b.u) AS u FROM {KEYS} a FULL JOIN {KEYS} b"
    " ON (a.u = b.u AND a.age < 40) OR (a.u = b.u AND b.age < 30)"
)
FULL = (
    f"SELECT COUNT(*) FROM ({WHOLE}) AS t",
    (
        f"WITH t AS ({WHOLE}) SELECT COUNT(*) FROM t AS t0 JOIN t AS t1 ON t1.u = t0.u"
        " JOIN t AS t2 ON t2.u = t0.u WHERE t0.u = 4"
    ),
)
"""Rows of a FULL JOIN, of which a person may have two."""
PARENTS = (
    (
        f"SELECT COUNT(*) FROM orders a LEFT JOIN customers b ON ({SAME} AND a.amount < 0)"
        f" OR ({SAME} AND b.vip)"
    ),
    f"SELECT COUNT(*), COUNT(b.age) FROM orders a LEFT JOIN customers b ON {SAME} AND b.vip",
    (
        "SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id"
        " AND o.status = 'nosuch' LEFT JOIN customers d ON d.customer_id = o.customer_id"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT c.customer_id, o.customer_id AS k FROM customers c LEFT JOIN"
        " orders o ON o.customer_id = c.customer_id AND o.status = 'nosuch') AS t"
        " LEFT JOIN customers d ON d.customer_id = t.k"
    ),
)
"""Rows whose parent may be absent."""


def broken(sql: str) -> set[str]:
    """The sorts of claims that data disprove, and whether the answer is another one."""
    policy, engine = shop()
    plan, claims = compiled(sql, policy, engine), claims_of(sql, policy, engine)
    found = {why.split(":")[0] for why in Counting(policy, engine).disproved(claims)}
    same = same_rows(*noiseless(plan, engine), engine.rows(sql))
    return found if same else found | {"answer"}


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", FULL + PARENTS)
def test_more_than_an_equality_is_no_equality(sql: str) -> None:
    assert broken(sql) == set()


@pytest.mark.parametrize("sql", FULL)
def test_a_row_too_many_of_a_full_join_is_found(sql: str) -> None:
    with patch.object(Equates, "is_only", implies):
        assert "rows" in broken(sql)


@pytest.mark.parametrize("sql", PARENTS)
def test_a_left_join_that_is_taken_for_an_inner_one_is_found(sql: str) -> None:
    with patch.object(Equates, "is_only", lambda *_: True):
        assert "answer" in broken(sql)


def implies(condition: Equates, a: int, b: int) -> bool:
    return any({column.id for column in pair} == {a, b} for pair in condition.pairs)


def test_an_equality_alone_is_one_pair_and_nothing_else() -> None:
    a, b, c = (Ref(n, INTEGER) for n in range(3))
    conditions = (a.eq(b), a.eq(b) & c.eq(a), a.eq(b) & c.lt(a), a.lt(b))
    assert [equates(each).alone for each in conditions] == [True, False, False, False]


def test_columns_are_exactly_equal_where_types_compare_without_rounding() -> None:
    pairs = ((INTEGER, INTEGER), (DATE, TIMESTAMP), (INTEGER, DOUBLE), (INTEGER, VARCHAR))
    held = [exactly_equal(Ref(0, one), Ref(1, other)) for one, other in pairs]
    assert held == [True, True, False, False]
