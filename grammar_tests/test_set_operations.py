"""Set operations and FULL JOIN of one person's rows, over random people: answers and distances."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from dpsql.compiler.track import set_operations, track
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_unit,
)

SIDES = "SELECT customer_id, {} FROM orders", "SELECT customer_id, {} FROM events"
SETS = ("UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "UNION ALL")
BOTH = " {} ".join(SIDES)
QUESTIONS = (
    *(f"SELECT COUNT(*) FROM ({BOTH.format('note', s, 'device')}) AS t" for s in SETS),
    *(
        f"SELECT SUM(n) FROM ({BOTH.format('quantity AS n', s, 'duration')}) AS t WHERE n < 9"
        for s in ("UNION", "EXCEPT")
    ),
    (
        "SELECT COUNT(DISTINCT customer_id) FROM (SELECT customer_id FROM customers EXCEPT"
        " SELECT customer_id FROM orders) AS t"
    ),
    (
        "SELECT COUNT(*), COUNT(o.quantity), SUM(LEAST(e.duration, 9)) FROM orders AS o FULL JOIN"
        " events AS e ON o.customer_id = e.customer_id AND o.note = e.device"
    ),
    (
        "SELECT COUNT(*), SUM(LEAST(n, 9)) FROM (SELECT customer_id, COUNT(note) AS n FROM orders"
        " FULL JOIN events USING (customer_id) GROUP BY customer_id) AS t"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT COALESCE(e.customer_id, o.customer_id) AS k FROM orders AS o"
        " FULL JOIN events AS e ON e.customer_id = o.customer_id AND o.quantity > 1 GROUP BY 1) t"
    ),
)
DEVICES = "device", "events"
PEOPLE = (1, 2, 3)
WORLDS = 5


def people(number: int) -> world.Tables:
    """Few people whose notes are sometimes devices of their own, and of others."""
    chance = Random(number)  # noqa: S311
    tables: world.Tables = {name: [] for name in world.COLUMNS} | world.PUBLIC
    words = ("a", "b", None)
    for unit in PEOPLE:
        tables["customers"].append(world.customer(unit))
        for n in range(chance.choice((0, 1, 4))):
            row = list(world.order(100 * unit + n, unit, n % 3))
            row[3], row[7] = chance.choice((1, 2, 3)), chance.choice(words)
            tables["orders"].append(tuple(row))
        tables["events"] += [
            (100 * unit + n, unit, chance.choice(words), chance.choice((1, 2, 3)))
            for n in range(chance.choice((0, 1, 4)))
        ]
    return tables


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("number", range(WORLDS))
def test_sets_within_a_person_are_the_plain_ones_and_move_no_more_than_claimed(number: int) -> None:
    policy, _ = over(world.empty(), constraints=number % 2 == 0)
    engine = PlainEngine(world.build(people(number), constraints=False))
    plans = [compiled(sql, policy, engine) for sql in QUESTIONS]
    for sql, plan in zip(QUESTIONS, plans, strict=True):
        assert same_rows(*noiseless(plan, engine), engine.rows(sql)), sql
    here = [(integers(plan, engine), noiseless_blocks(plan, engine)) for plan in plans]
    for unit in PEOPLE:
        with without_unit(engine.connection, world.deletions(unit)):
            for plan, (before, released) in zip(plans, here, strict=True):
                assert violation(plan, before, integers(plan, engine, released)) is None


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("kind", ["EXCEPT", "INTERSECT"])
def test_sets_of_different_people_are_of_what_they_release(kind: str) -> None:
    """The wrong twin: values of different people, compared as if they were one person's.

    A count of what is released is refused (`test_group_totals`): here it shows the values.
    """
    policy, _ = over(world.empty(), constraints=True)
    sides = (f"SELECT {x} FROM {t} WHERE {x} <> ''" for x, t in (("note", "orders"), DEVICES))
    sql = f"SELECT COUNT(*) FROM ({f' {kind} '.join(sides)}) AS t"
    engines = [PlainEngine(world.build(people(n), constraints=False)) for n in range(WORLDS)]

    def right() -> list[bool]:
        plans = [compiled(sql, policy, engine) for engine in engines]
        answers = [noiseless(plan, e) for plan, e in zip(plans, engines, strict=True)]
        plain = [engine.rows(sql) for engine in engines]
        return [same_rows(*ours, rows) for ours, rows in zip(answers, plain, strict=True)]

    with patch.object(track, "require_all_groups", lambda *_: None):
        assert all(right())
        with patch.object(set_operations, "name_unit", lambda *_: frozenset()):
            assert not all(right())
