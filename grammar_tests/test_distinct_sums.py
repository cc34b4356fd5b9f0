"""SUM, AVG and VAR of DISTINCT values over random people who share them: all distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from dpsql.compiler.plan.measurement_kinds import DistinctSum
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Release
from dpsql.compiler.track import blocks
from dpsql.model.algebra import Measure
from dpsql.model.vocabulary import Fact, Neighbours
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import (
    Counted,
    PlainEngine,
    compiled,
    integers,
    noiseless,
    same_rows,
    violation,
    without_unit,
)
from grammar_tests.test_replaced import broken

QUESTIONS = (
    "SELECT SUM(DISTINCT quantity - 10) AS s FROM orders",
    "SELECT SUM(DISTINCT amount) AS s FROM orders WHERE amount > 20",
    "SELECT status, SUM(DISTINCT quantity), VAR_POP(DISTINCT quantity) FROM orders GROUP BY status",
    "SELECT AVG(DISTINCT discount) AS m FROM orders",
    "SELECT segment, SUM(DISTINCT age - 60) AS s FROM customers GROUP BY segment",
    "SELECT SUM(DISTINCT least(quantity, 2)) AS s FROM orders",
)
WORLDS, PEOPLE, ROWS = 6, (1, 2, 3), 36
QUANTITIES = (0, 1, 2, 3, 19, 20, 21, -3, None, *range(4, 19))


def people(chance: Random) -> world.Tables:
    """Few people, each beyond the limit of rows, whose values are sometimes others' too."""
    tables: world.Tables = {name: [] for name in world.COLUMNS} | world.PUBLIC
    for unit in PEOPLE:
        age = chance.choice((0, 1, 60, 120, 500, None))
        tables["customers"].append((*world.customer(unit)[:4], age, *world.customer(unit)[5:]))
        few = chance.sample(QUANTITIES, chance.choice((2, 6, len(QUANTITIES))))
        for n in range(chance.choice((1, 4, ROWS))):
            row = list(world.order(100 * unit + n, unit, n % 3))
            row[3], row[4] = chance.choice(few), chance.choice((None, 0.0, 0.5, 1.0, 9.0))
            row[2], row[6] = chance.choice((3, 30, *range(490, 520))), world.STATUSES[n % 3]
            tables["orders"].append(tuple(row))
    return tables


@cache
def neighbours(kind: Neighbours) -> list[tuple[Prepared, list[Counted], list[Counted]]]:
    """Each question on pairs of databases that differ by one person, or in whose data one has."""
    policy, _ = over(world.empty(), constraints=False, neighbours=kind)
    pairs = []
    for seed in range(WORLDS):
        engine = PlainEngine(world.build(people(Random(seed)), constraints=False))  # noqa: S311
        plans = [compiled(sql, policy, engine) for sql in QUESTIONS]
        without = []
        for unit in PEOPLE:
            with without_unit(engine.connection, world.deletions(unit)):
                without.append([integers(plan, engine) for plan in plans])
        if kind is Neighbours.ADD_REMOVE:
            whole = [[integers(plan, engine) for plan in plans]] * len(without)
        else:  # two people, of whom the one is in the place of the other
            whole = [*without[1:], without[0]]
        for here, there in zip(whole, without, strict=True):
            pairs += list(zip(plans, here, there, strict=True))
    return pairs


def violations(kind: Neighbours, *, less: int = 0) -> Iterator[str]:
    """What breaks the claims, where they are made as if a person had so many values less."""
    for plan, here, there in neighbours(kind):
        claimed = with_fewer(plan, less) if less else plan
        if kind is Neighbours.ADD_REMOVE:
            why = violation(claimed, here, there)
            yield from [why] if why else []
        else:
            yield from (why for _, why in broken(claimed, kind, here, there))


def with_fewer(plan: Prepared, less: int) -> Prepared:
    """The plan that claims a sensitivity for so many values less of each person."""

    def fewer(release: Release) -> Release:
        query, claim = release.query, release.sensitivity
        if not isinstance(query, DistinctSum) or query.values.total_upper <= less:
            return release
        part = query.of_at_most(query.values.total_upper - less)
        claim = replace(claim, lower=part.total_lower, upper=part.total_upper)
        return replace(release, payment=replace(release.payment, sensitivity=claim))

    assert plan.plan is not None
    blocks = tuple(
        replace(block, releases=tuple(map(fewer, block.releases))) for block in plan.plan.blocks
    )
    return replace(plan, plan=replace(plan.plan, blocks=blocks))


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("kind", Neighbours)
def test_people_who_share_values_move_sums_no_more_than_claimed(kind: Neighbours) -> None:
    assert list(violations(kind)) == []


@pytest.mark.full("measures neighbours or further data sets")
def test_one_value_less_of_each_person_is_caught() -> None:
    assert list(violations(Neighbours.ADD_REMOVE, less=1))


KEYS = "SELECT COUNT(*) AS rows, COUNT(DISTINCT order_id) AS orders FROM orders"
REPEATED = (
    "SELECT COUNT(DISTINCT o.order_id) AS n FROM orders o JOIN items i ON i.order_id = o.order_id"
)


def kinds(sql: str, *, constraints: bool) -> list[str]:
    plan = compiled(sql, *over(world.well_behaved(), constraints=constraints)).plan
    assert plan is not None
    return [type(release.query).__name__ for release in plan.blocks[0].releases]


@pytest.mark.full("measures neighbours or further data sets")
def test_own_keys_are_counted_as_rows() -> None:
    """One count answers both; without the facts, or in a join that repeats rows, it does not."""
    assert kinds(KEYS, constraints=True) == ["RowCount"]
    assert kinds(KEYS, constraints=False) == ["RowCount", "DistinctCount"]
    assert kinds(REPEATED, constraints=True) == ["DistinctCount"]


def test_keys_that_a_join_repeats_would_be_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin of R32 forgets that a join repeats rows: the answer is another."""

    def always(measure: Measure, *_: object) -> tuple[Measure, frozenset[Fact]]:
        return replace(measure, call=replace(measure.call, distinct=False)), frozenset()

    policy, engine = over(world.well_behaved(), constraints=True)
    right, errors = noiseless(compiled(REPEATED, policy, engine), engine)
    assert same_rows(right, errors, engine.rows(REPEATED))
    monkeypatch.setattr(blocks, "_of_rows", always)
    wrong, errors = noiseless(compiled(REPEATED, policy, engine), engine)
    assert not same_rows(wrong, errors, engine.rows(REPEATED))
