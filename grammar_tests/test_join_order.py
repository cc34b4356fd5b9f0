"""Inner joins in another order make the same rows: `compiler.track.join_order`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.join_order import Side, connected, connects, sides_of
from dpsql.compiler.track.joins import with_join_conditions
from dpsql.dialects.duckdb.relation_sql import statement
from dpsql.dialects.reading.parse import parse
from dpsql.model.algebra import Filter, Join, Relation
from dpsql.model.tree import JoinKind, Ref
from dpsql.model.walk import relations
from grammar_tests.bound import shop

COLUMNS = {
    "countries": ["code", "region"],
    "products": ["category", "product_id"],
    "customers": ["country", "segment", "customer_id"],
    "orders": ["status", "customer_id", "quantity"],
    "events": ["device", "customer_id"],
}
ROUNDS = 30


def condition(dice: Random, one: str, other: str) -> str:
    """What two tables compare: texts with texts, numbers with numbers."""
    texts = [f"{name}.{COLUMNS[name][0]}" for name in (one, other)]
    numbers = [f"{name}.{COLUMNS[name][-1]}" for name in (one, other)]
    pair = texts if "countries" in (one, other) else dice.choice([texts, numbers])
    equal = " = ".join(pair)
    return dice.choice([equal, equal, " < ".join(pair), f"({equal} OR {pair[0]} IS NULL)"])


def written(dice: Random) -> str:
    """A FROM of three to five tables, some joined by ON and some by commas."""
    names = dice.sample(sorted(COLUMNS), dice.randint(3, 5))
    text = names[0]
    for n, name in enumerate(names[1:], 1):
        on = condition(dice, dice.choice(names[:n]), name)
        text += dice.choice([f" CROSS JOIN {name}", f" JOIN {name} ON {on}"])
    where = [condition(dice, *pair) for pair in combinations(names, 2) if dice.random() < 0.5]
    return f"SELECT COUNT(*) FROM {text}" + " WHERE " * bool(where) + " AND ".join(where)


def joined(sql: str) -> tuple[Filter | None, Join]:
    """The condition of a query and its joins, as they are tracked."""
    policy, _ = shop()
    relation = resolve(parse(sql, "duckdb"), policy, Identities()).relation
    below = next(r for r in relations(relation) if isinstance(r, Filter | Join))
    if isinstance(below, Join):
        return None, below
    joins = with_join_conditions(below.input, below.predicate)
    assert isinstance(joins, Join)
    return below, joins


def rows(above: Filter | None, joins: Relation) -> Counter[tuple[object, ...]]:
    """All rows, with their columns in one order."""
    _, engine = shop()
    fields = sorted(joins.fields, key=lambda f: f.id)
    whole = joins if above is None else replace(above, input=joins)
    return Counter(engine.rows(statement(whole, tuple(Ref(f.id, f.type) for f in fields))))


def orders(joins: Join, dice: Random) -> Join:
    """The joins as the search orders them, from a side that is taken to be private."""
    sides = [Side(relation) for relation in sides_of(joins)]
    place = dice.randrange(len(sides))
    sides[place] = replace(sides[place], anchors=frozenset())
    return connected(joins, sides)


def without_condition(joins: Relation) -> Relation:
    """The same joins, the condition of the last of which is lost."""
    assert isinstance(joins, Join)
    return replace(joins, kind=JoinKind.CROSS, condition=None)


@pytest.mark.full("further data sets, and all their neighbours")
def test_every_order_makes_the_same_rows() -> None:
    moved = lost = 0
    for seed in range(ROUNDS):
        dice = Random(seed)  # noqa: S311
        sql = written(dice)
        above, joins = joined(sql)
        other = orders(joins, dice)
        moved += list(sides_of(other)) != list(sides_of(joins))
        plain = rows(above, joins)
        assert rows(above, other) == plain, sql
        lost += rows(None, without_condition(other)) != rows(None, joins)
    assert moved > ROUNDS / 4
    assert lost  # the wrong twin


def test_a_product_is_avoided_where_columns_lead_to_every_side() -> None:
    _, joins = joined(
        "SELECT COUNT(*) FROM orders o, countries a, countries b, products p, customers c"
        " WHERE o.customer_id = c.customer_id AND c.country = a.code AND c.city = b.code"
        " AND o.quantity = p.product_id"
    )
    sides = [Side(relation) for relation in sides_of(joins)]
    sides[0] = replace(sides[0], anchors=frozenset())
    assert not connects(joins)
    assert connects(connected(joins, sides))
