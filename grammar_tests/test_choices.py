"""Choices of cells: scores by brute force, what one unit can sway, what is charged, and audits.

An audit makes 20,000 choices of each of two neighbours and compares them as `test_audit` does, by
the logarithm of the likelihood ratio under each mechanism's law.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.lattices import Choice
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms.exponential import Candidates
from dpsql.mechanisms.scores import HistogramCounts, Most, Rank, Reached, candidates
from dpsql.model.vocabulary import ApproximateEvent, BoundedRangeEvent, Exact, Neighbours
from dpsql.release.histogram_choices import chosen
from dpsql.release.release import release
from grammar_tests import test_audit, world
from grammar_tests.bound import over, shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import BUDGET, PlainEngine, compiled, integers, no_noise, sways, violation
from grammar_tests.laws import without_unit as without

RELEASES = test_audit.RELEASES
MEDIAN = "SELECT MEDIAN(quantity) FROM orders"
BY_STATUS = "SELECT status, QUANTILE_DISC(quantity, 0.75) FROM orders GROUP BY status"
BY_HOUR = "SELECT HOUR(placed_at) AS h, MIN(quantity > 5) FROM orders GROUP BY h"
MINIMUM = "SELECT MIN(quantity) FROM orders"
MODE = "SELECT MODE(status) FROM orders"
COUNTRY = "SELECT MODE(country) FROM customers"
LARGE = "SELECT MODE(quantity > 5) FROM orders"
AGE = "SELECT MEDIAN(age) FROM customers"
Damage: TypeAlias = Callable[[str], str]


# --- scores --------------------------------------------------------------------------------------


def score(rows: list[int], cell: int, aim: Rank | Most | Reached) -> int:
    """A score by its definition, counting rows one by one."""
    below, upto = (sum(r < c for r in rows) for c in (cell, cell + 1))
    if isinstance(aim, Most):
        return upto - below
    if isinstance(aim, Reached):
        return len(rows) - below if aim.highest else upto
    target = aim.numerator * len(rows) + aim.offset
    return -max(0, aim.denominator * below - target, target - aim.denominator * upto)


ROWS = [[2, 2, 2, 7], [], [0, 9, 9], [5]]
AIMS: list[Rank | Most | Reached] = [
    Most(),
    Reached(highest=True),
    Reached(highest=False),
    Rank(2, 4, -1),
    Rank(6, 8, 1),
    Rank(14, 20, -19),
    Rank(0, 2, 3),
    Rank(2, 2, -1),
]


@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_scores_are_those_of_their_definition(aim: Rank | Most | Reached) -> None:
    cells, counts = np.unique(
        [10 * n + r for n, rows in enumerate(ROWS) for r in rows], return_counts=True
    )
    found = candidates(HistogramCounts(len(ROWS), 10, cells.astype(np.int64), counts), aim)
    for place, rows in enumerate(ROWS):
        wanted = np.array([score(rows, cell, aim) for cell in range(10)])
        assert (
            found.behind_at(np.arange(10) + 10 * place).tolist() == (max(wanted) - wanted).tolist()
        )


@pytest.mark.parametrize("aim", AIMS, ids=str)
def test_one_row_changes_the_difference_of_two_scores_by_the_spread_and_no_more(
    aim: Rank | Most,
) -> None:
    most = 0
    for rows in ([], [4], [1, 3, 3, 6, 8], [5] * 9, list(range(10)) * 2):
        before = np.array([score(rows, cell, aim) for cell in range(10)])
        for row in range(10):
            moved = np.array([score([*rows, row], cell, aim) for cell in range(10)]) - before
            most = max(most, int(moved.max() - moved.min()))
    assert most <= aim.spread
    assert most > aim.spread / 2


def test_the_quantile_is_the_best_however_many_rows_share_it() -> None:
    rows = [1, 1, 1, 9, 9]
    scores = [score(rows, cell, Rank(2, 4, -1)) for cell in range(10)]
    assert scores.index(max(scores)) == 1


# --- what a unit can sway ------------------------------------------------------------------------


def every_row(sql: str) -> str:
    """The choice of a unit's rows forgotten."""
    return re.sub(r"WHEN len\((l\d+)\) >", "WHEN FALSE AND 0 >", sql)


def damaged(plan: Prepared, damage: Damage) -> Prepared:
    blocks = tuple(replace(b, sql=damage(b.sql)) for b in plan.rewritten.blocks)
    assert blocks != plan.rewritten.blocks
    return replace(plan, rewritten=replace(plan.rewritten, blocks=blocks))


def half(plan: Prepared) -> Prepared:
    """The range of scores taken for half of what it is."""
    assert plan.plan is not None

    def smaller(block: BlockPlan) -> BlockPlan:
        choices = tuple(replace(c, epsilon=c.epsilon / 2) for c in block.choices)
        return replace(block, choices=choices)

    return replace(plan, plan=replace(plan.plan, blocks=tuple(map(smaller, plan.plan.blocks))))


@pytest.mark.parametrize(
    ("sql", "damage"),
    [
        (MEDIAN, lambda plan: damaged(plan, every_row)),
        (LARGE, lambda plan: damaged(plan, every_row)),
        (BY_HOUR, lambda plan: damaged(plan, test_audit.any_groups)),
        (COUNTRY, half),
    ],
)
def test_a_wrong_range_is_caught(sql: str, damage: Callable[[Prepared], Prepared]) -> None:
    policy, _ = over(world.flood(), constraints=False)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    honest = compiled(sql, policy, engine)
    for plan, holds in ((honest, True), (damage(honest), False)):
        here = integers(plan, engine)
        with without(engine.connection, world.deletions(7)):
            there = integers(plan, engine)
        assert (violation(plan, here, there) is None) == holds


# --- what is charged -----------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("sql", [MEDIAN, BY_STATUS, BY_HOUR, MINIMUM])
def test_the_charge_fits_and_is_that_of_all_groups_of_a_unit(sql: str, accountant: str) -> None:
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(sql, policy, engine, budget=budget).plan
    assert plan is not None
    ((made,), event) = plan.blocks[0].choices, plan.event.parts[0]
    assert made.rounds == plan.blocks[0].l0
    assert made.epsilon == made.rate * made.query.histogram.rows * made.aim.spread
    if accountant == "zcdp":
        assert event == BoundedRangeEvent(made.epsilon, made.rounds)
    else:
        assert event == ApproximateEvent(made.epsilon * made.rounds)
    law = accountants.get(accountant)
    limit = law.allowance(Fraction(1), Fraction(budget.query_delta), selects_keys=False)
    assert limit.amount * 998 / 1000 <= Fraction(plan.loss.amount, 10**9) <= limit.amount


@pytest.mark.full("draws random questions or values")
def test_a_replaced_unit_doubles_the_range() -> None:
    tables = world.well_behaved()
    rates = []
    for neighbours in Neighbours:
        policy, engine = over(tables, constraints=True, neighbours=neighbours)
        plan = compiled(BY_STATUS, policy, engine).plan
        assert plan is not None
        rates.append(plan.blocks[0].choices[0].rate)
    assert rates[0] == 2 * rates[1]


def replaced(sql: str, one: int, other: int, share: int = 1) -> bool:
    """Whether two databases that differ in whose data a unit has keep to the claim over a share."""
    policy, _ = over(world.flood(), constraints=False, neighbours=Neighbours.REPLACE)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    prepared = compiled(sql, policy, engine)
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    sides = []
    for unit in (one, other):
        with without(engine.connection, world.deletions(unit)):
            sides += integers(prepared, engine)
    (choice,) = block.choices
    moved = sways(choice, *sides).values()
    limit = choice.epsilon / choice.rate / share
    squares = sum(sway**2 for sway in moved)
    return sum(moved) <= limit * choice.rounds and squares <= limit**2 * choice.rounds


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", [MEDIAN, BY_STATUS, BY_HOUR, MINIMUM, MODE, LARGE, COUNTRY, AGE])
def test_a_replaced_unit_sways_no_more_than_claimed(sql: str) -> None:
    assert all(replaced(sql, *pair) for pair in ((1, 7), (2, 7), (1, 2)))


@pytest.mark.full("draws random questions or values")
def test_the_range_of_an_added_unit_is_too_small_for_a_replaced_one() -> None:
    assert not all(replaced(COUNTRY, 7, other, share=2) for other in range(1, 7))


# --- audits --------------------------------------------------------------------------------------


def law(listed: Candidates, choice: Choice, place: int) -> np.ndarray:
    """The probability of every cell of one list."""
    cells = np.arange(listed.size) + listed.size * place
    passes = np.exp(-float(choice.rate) * listed.behind_at(cells).astype(float))
    if not choice.flips:
        return np.asarray(passes / passes.sum())
    # P(i) = q_i·E[1/(1 + others that pass)] = q_i·∫ Π (1 - q_j + q_j·t) dt over [0, 1].
    nodes, weights = np.polynomial.legendre.leggauss(64)
    at = 1 - np.outer((1 - nodes) / 2, passes)
    return np.asarray(passes * (weights / 2 @ (at.prod(axis=1)[:, None] / np.maximum(at, 1e-300))))


def captured(exact: Exact, plan: BlockPlan) -> Candidates:
    """The candidates that a release chooses from."""
    found: list[Candidates] = []

    def chooser(_choice: Choice, listed: Candidates) -> np.ndarray:
        found.append(listed)
        return np.zeros(listed.lists, dtype=np.int64)

    release(exact, plan, no_noise, chooser)
    (listed,) = found
    return listed


def losses(listed: Candidates, choice: Choice, ratios: dict[int, np.ndarray]) -> np.ndarray:
    """ln(likelihood here / likelihood there) of many choices, in the lists that differ."""
    total = np.zeros(RELEASES)
    for place, ratio in ratios.items():
        cells = np.arange(listed.size)
        scores = -listed.behind_at(cells + listed.size * place)
        total += ratio[chosen(choice, Candidates.of(scores.tolist(), RELEASES), ENTROPY)]
    return total


def refuted(sql: str, accountant: str, damage: Damage = str, faster: int = 1) -> bool:
    """Whether the claim fails; `faster` multiplies the rate of what is drawn."""
    case = test_audit.neighbours(sql, accountant, damage)
    (choice,) = case.plan.choices
    choice = replace(choice, rate=choice.rate * faster)
    here, there = captured(case.here, case.plan), captured(case.there, case.plan)
    ratios = {}
    for place in range(here.lists):
        ours, theirs = law(here, choice, place), law(there, choice, place)
        if not np.allclose(ours, theirs):
            ratios[place] = np.log(ours) - np.log(theirs)
    assert ratios, "the unit changes nothing: such an audit is empty"
    mine, others = losses(here, choice, ratios), losses(there, choice, ratios)
    return (
        test_audit.excess(mine, others, case.delta) > 0
        or test_audit.excess(-others, -mine, case.delta) > 0
    )


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize("sql", [MEDIAN, BY_STATUS, MINIMUM, COUNTRY, AGE])
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(sql, accountant)


@pytest.mark.parametrize(
    ("sql", "accountant"), [(COUNTRY, "pure"), (COUNTRY, "zcdp"), (AGE, "pure")]
)
def test_half_the_range_is_refuted(sql: str, accountant: str) -> None:
    assert refuted(sql, accountant, faster=2)


@pytest.mark.parametrize("sql", [LARGE, MEDIAN])
def test_an_unbounded_contribution_is_refuted(sql: str) -> None:
    assert refuted(sql, "zcdp", every_row)
