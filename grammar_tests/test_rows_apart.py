"""Rows of one unit that differ in a key, and rows that joins with public tables copy.

Each claim is counted on data that keeps no promise, and the integers of neighbours are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from dpsql.compiler.track.uniqueness import Key, Keys
from dpsql.compiler.track.units import Copied
from dpsql.model.algebra import Item
from dpsql.model.vocabulary import Policy
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    violation,
    without_kernel,
    without_unit,
)
from grammar_tests.proofs import Counting, claims_of

PER_STATUS = "(SELECT customer_id, status, note, SUM(amount) AS s FROM orders GROUP BY ALL)"
PER_NOTE = "(SELECT customer_id, note, COUNT(*) AS n, MAX(discount) AS d FROM orders GROUP BY 1, 2)"
PER_DISCOUNT = "(SELECT customer_id, discount, COUNT(*) AS n FROM orders GROUP BY 1, 2)"
NUMBERED = "ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY amount)"
FEW = f"(SELECT * FROM orders QUALIFY {NUMBERED} <= 2)"
COPIES = f"{FEW} AS o CROSS JOIN countries"
ASKED = f"""
SELECT note, COUNT(*) AS c, SUM(LEAST(n, 9)) AS s FROM {PER_NOTE} AS t GROUP BY note;
SELECT discount, COUNT(*) AS c FROM {PER_DISCOUNT} AS t GROUP BY discount;
SELECT status, note, SUM(LEAST(s, 9)) AS s FROM {PER_STATUS} AS t GROUP BY 1, 2;
SELECT k, MEDIAN(LEAST(n, 9)) AS m FROM (SELECT note AS k, n FROM {PER_NOTE} AS t) AS u GROUP BY k;
SELECT note, COUNT(DISTINCT n) AS c FROM {PER_NOTE} AS t WHERE n > 1 GROUP BY note;

SELECT status, COUNT(*) AS c, COUNT(DISTINCT note) AS d FROM {PER_STATUS} AS t GROUP BY status;
SELECT note IS NULL AS b, COUNT(*) AS c FROM {PER_NOTE} AS t GROUP BY 1;
SELECT d, COUNT(*) AS c FROM {PER_NOTE} AS t GROUP BY d;
SELECT t.note, COUNT(*) AS c FROM {PER_NOTE} AS t JOIN products AS p ON n < p.product_id GROUP BY 1;
SELECT note, COUNT(*) AS c FROM (SELECT customer_id, note FROM {PER_NOTE} AS t UNION ALL
 SELECT customer_id, note FROM {PER_NOTE} AS u) AS v GROUP BY note;

SELECT note, COUNT(*) AS c FROM orders AS o JOIN {PER_NOTE} AS t USING (customer_id, note)
 GROUP BY 1;
SELECT COUNT(*) AS c FROM {PER_NOTE} AS t JOIN {PER_DISCOUNT} AS u USING (customer_id);
SELECT note, COUNT(*) AS c FROM {PER_NOTE} AS t JOIN {PER_NOTE} AS u USING (customer_id, note)
 GROUP BY 1;
SELECT t.note, COUNT(*) AS c FROM {PER_STATUS} AS t JOIN {PER_STATUS} AS u
 USING (customer_id, status) GROUP BY 1;
SELECT o.note, u.discount, COUNT(*) AS c FROM {PER_NOTE} AS o JOIN {PER_DISCOUNT} AS u
 USING (customer_id) GROUP BY 1, 2;
SELECT u.note, COUNT(*) AS c FROM orders AS o LEFT JOIN {PER_NOTE} AS u
 ON o.customer_id = u.customer_id AND o.note = u.note GROUP BY 1;
SELECT u.note, COUNT(*) AS c FROM {PER_NOTE} AS u LEFT JOIN orders AS o
 ON o.customer_id = u.customer_id AND o.note = u.note GROUP BY 1;

SELECT o.status, COUNT(*) AS c FROM items AS i JOIN orders AS o USING (order_id) GROUP BY 1;
SELECT i.units, COUNT(*) AS c FROM orders AS o JOIN items AS i USING (order_id) GROUP BY 1;

SELECT note, COUNT(*) AS c FROM {FEW} AS o JOIN products AS p ON quantity < product_id GROUP BY 1;
SELECT note, category, COUNT(*) AS c FROM {FEW} AS o CROSS JOIN products AS p GROUP BY 1, 2;
SELECT note || region AS k, COUNT(*) AS c FROM {COPIES} GROUP BY 1;
SELECT k, COUNT(*) AS c FROM (SELECT UPPER(note) AS k, region FROM {COPIES}) AS t GROUP BY k;
SELECT k, COUNT(*) AS c FROM (SELECT note || region AS k FROM {COPIES}) AS t GROUP BY k;
SELECT note, region, COUNT(*) AS c FROM {COPIES} CROSS JOIN products GROUP BY 1, 2;
SELECT note, r, COUNT(*) AS c FROM (SELECT note, ROW_NUMBER() OVER (PARTITION BY customer_id
 ORDER BY region) AS r FROM {COPIES}) AS t GROUP BY 1, 2
"""
"""One row of a unit in a group; several of them; joins by keys of several columns, by a part of one
and by one that may be NULL; a child and its parent; rows that public ones copy."""

WORLDS = {"adversarial": (world.adversarial, False), "flood": (world.flood, True)}


def world_of(name: str) -> tuple[Policy, PlainEngine, list[str]]:
    """A policy, data to change, and the queries that it does not refuse."""
    made, constraints = WORLDS[name]
    policy, _ = over(made(), constraints=constraints)
    queries = [sql.replace("\n", " ").strip() for sql in ASKED.split(";")]
    return policy, PlainEngine(world.build(made(), constraints=False)), queries


def counted(name: str) -> tuple[Iterator[str], Counting]:
    """What counts of the claims disprove, one after the other."""
    policy, engine, queries = world_of(name)
    counting = Counting(policy, engine)
    found = (why for sql in queries for why in counting.disproved(claims_of(sql, policy, engine)))
    return found, counting


def broken(name: str) -> Iterator[str]:
    """Yield what neighbours break."""
    policy, engine, queries = world_of(name)
    for sql in queries:
        plan = compiled(sql, policy, engine)
        here = integers(plan, engine)
        for unit in (1, 7):
            with without_unit(engine.connection, world.deletions(unit)):
                why = violation(plan, here, integers(plan, engine))
            if why is not None:
                yield why


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("name", WORLDS)
def test_claims_hold_on_data(name: str) -> None:
    disproved, counting = counted(name)
    assert [*disproved] == []
    assert min(counting.counted[sort] for sort in ("apart", "copied", "groups", "rows")) > 1


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("name", WORLDS)
def test_claims_hold_between_neighbours(name: str) -> None:
    assert [*broken(name)] == []


def always_alone(*_arguments: Any) -> bool:
    """Rows of a unit that are in one group taken to be one."""
    return True


def parts_of_keys(keys: Keys, columns: frozenset[int]) -> Key | None:
    """A part of a key taken for the key."""
    return next((key for key in keys if key.columns & columns), None)


def without_a_column(keys: Keys, items: tuple[Item, ...]) -> Keys:
    """A key that lost a column taken for a key still."""
    kept = {item.field.id for item in items}
    return tuple(replace(key, columns=key.columns & kept) for key in keys)


def all_free(free: frozenset[int], rows: int | None, groups: int | None) -> Copied:
    """Columns of the public side taken for those of the rows that it copies."""
    return Copied(free | frozenset(range(1000)), rows, groups)


TWINS = {
    "alone": ("blocks._alone", always_alone),
    "parts of keys": ("joins.key_within", parts_of_keys),
    "lost columns": ("blocks.projected_keys", without_a_column),
    "copies": ("joins.Copied", all_free),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_wrong_proof_is_disproved(twin: str) -> None:
    place, instead = TWINS[twin]
    with patch(f"dpsql.compiler.track.{place}", instead):
        disproved, _counting = counted("flood")
        assert any(disproved)


@pytest.mark.parametrize(
    "twin",
    [
        "alone",
        pytest.param(
            "copies", marks=pytest.mark.full("further data sets, and all their neighbours")
        ),
    ],
)
def test_a_wrong_proof_is_broken_by_neighbours(twin: str) -> None:
    place, instead = TWINS[twin]
    with patch(f"dpsql.compiler.track.{place}", instead), without_kernel():
        assert any(broken("adversarial"))


@pytest.mark.full("measures neighbours or further data sets")
def test_a_clip_is_no_proof() -> None:
    """What the owner declares of a child limits totals, and no rows where no fact does."""
    policy, engine, _ = world_of("adversarial")
    sql = "SELECT note, COUNT(*) AS c FROM items JOIN orders USING (order_id) GROUP BY note"
    (block,) = compiled(sql, policy, engine).blocks
    assert block.rows_per_group.value == 20
    assert block.rows_per_group.how.startswith("enforced")
    assert block.enforce_l0
    assert not block.row_level
    assert block.rows.value is None


@pytest.mark.parametrize(("columns", "most"), [("order_id, item_id", 20), ("order_id", 400)])
def test_a_declared_key_of_two_columns_limits_a_join(columns: str, most: int) -> None:
    policy, engine = shop()
    items = replace(policy.tables[_place(policy, "items")], key=("order_id", "item_id"))
    tables = tuple(items if table.name == "items" else table for table in policy.tables)
    sql = f"SELECT COUNT(*) AS c FROM items AS a JOIN items AS b USING ({columns})"
    (block,) = compiled(sql, replace(policy, tables=tables), engine).blocks
    assert block.rows_per_group.value == most


def _place(policy: Policy, name: str) -> int:
    return [table.name for table in policy.tables].index(name)
