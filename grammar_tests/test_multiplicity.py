"""Public relations that only multiply rows: what is left of the query answers the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from dpsql.compiler.plan.private_plan import PrivatePlan
from dpsql.compiler.track import join_order, track
from dpsql.compiler.track.join_order import Joined
from dpsql.model.walk import relations
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import compiled, noiseless, same_rows

ALWAYS = ("COUNT(*)", "COUNT(age)", "COUNT(DISTINCT c.customer_id)", "COUNT_IF(age > 40)")
OF_SOME = ("SUM(age)", "AVG(age)", "MAX(age)", "SUM(income)", "BOOL_OR(vip)", "VAR_POP(age)")
"""What is something only where there are rows."""


def tables(dice: Random) -> world.Tables:
    """The shop with public tables of other sizes."""
    codes = ["NO", "SE", "IT", "FI", "DK"][: dice.randint(3, 5)]
    countries = [(code, dice.choice(["north", "south"])) for code in codes]
    products = [(n, dice.choice(["book", "toy"]), n) for n in range(dice.randint(1, 4))]
    return world.well_behaved() | {"countries": countries, "products": products}


def question(dice: Random) -> str:
    """Public tables beside people, tied to nothing, to each other, or to the people."""
    leaves, conditions = ["customers c"], ["c.age >= 0"]
    for n in range(dice.randint(1, 3)):
        name = dice.choice(["countries", "products"])
        leaves.append(f"{name} p{n}")
        text, other = ("region", "code") if name == "countries" else ("category", "category")
        if n and leaves[-2].startswith(name) and dice.random() < 0.4:
            conditions.append(f"p{n}.{text} = p{n - 1}.{text}")
        if dice.random() < 0.3:
            conditions.append(f"p{n}.{other} <> c.city")
        if dice.random() < 0.3:
            conditions.append(f"p{n}.{text} <> 'toy'")
    dice.shuffle(leaves)
    measures = dice.sample([*ALWAYS, *OF_SOME], 3)
    if any("'toy'" in c for c in conditions):
        measures = dice.sample(ALWAYS, 3)
    source = dice.choice([", ", " CROSS JOIN "]).join(leaves)
    return f"SELECT {', '.join(measures)} FROM {source} WHERE {' AND '.join(conditions)}"


def different(seeds: range) -> int:
    """How many random questions are answered otherwise than by the plain engine."""
    wrong = 0
    for seed in seeds:
        dice = Random(seed)  # noqa: S311
        policy, engine = over(tables(dice), constraints=True)
        for _ in range(4):
            sql = question(dice)
            ours, errors = noiseless(compiled(sql, policy, engine), engine)
            wrong += not same_rows(ours, errors, engine.rows(sql))
    return wrong


@pytest.mark.full("hundreds of random queries")
def test_random_questions_are_answered_as_by_the_plain_engine() -> None:
    assert different(range(6)) == 0


def test_one_row_too_many_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = join_order.counted

    def wrong(relation: Any, policy: Any, count: Any, identities: Any) -> Any:
        return right(relation, policy, lambda *some: count(*some) + 1, identities)

    monkeypatch.setattr(track, "counted", wrong)
    assert different(range(3)) > 0


@pytest.mark.full("further data sets, and all their neighbours")
def test_what_ties_public_rows_to_private_ones_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong twin: whatever is public is taken for idle."""

    def idle(group: Any, _above: Any, _joined: Any, policy: Any) -> bool:
        return all(join_order._is_public(leaf, policy) for leaf in group)

    monkeypatch.setattr(join_order, "_is_idle", idle)
    monkeypatch.setattr(Joined, "groups", lambda self: [(x,) for x in self.leaves])
    assert different(range(3)) > 0


def scanned(sql: str) -> list[str]:
    """The tables that private rows are joined from."""
    policy, engine = over(world.well_behaved(), constraints=True)
    plan = compiled(sql, policy, engine).plan
    assert isinstance(plan, PrivatePlan)
    (block,) = plan.blocks
    return sorted({getattr(r, "table", "") for r in relations(block.block.rows)} - {""})


@pytest.mark.full("opens a proxy for each item")
def test_rows_of_tables_that_only_multiply_are_not_joined() -> None:
    copies = ", ".join(f"countries c{n}" for n in range(10))
    sql = f"SELECT COUNT(*) FROM customers, {copies} WHERE customer_id = 7 AND c0.region <> 'z'"
    assert scanned(sql) == ["customers"]
    assert scanned(sql.replace("c0.region", "c0.code || city")) == ["countries", "customers"]
    series = "SELECT COUNT(*) FROM customers, generate_series(1, 9000) AS s(n) WHERE s.n > 4"
    policy, engine = over(world.well_behaved(), constraints=True)
    plan = compiled(series, replace(policy, limits=replace(policy.limits, max_fanout=1)), engine)
    assert plan.blocks[0].releases[0].sensitivity.linf == 1
