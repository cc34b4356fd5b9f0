"""Sums and squares measured as one vector under Gaussian noise: its length, its error, its law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import ceil, hypot, prod

import pytest

from dpsql.compiler.calibrate import strategies
from dpsql.compiler.calibrate.measurements import Measurements
from dpsql.compiler.calibrate.moment_vectors import UNIT
from dpsql.compiler.calibrate.squares_vectors import LENGTH, SLOPE
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.vocabulary import Budget, Mechanism, Neighbours, Sensitivity
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.laws import BUDGET, SAMPLING_KEY, compiled
from grammar_tests.test_finish import crowd
from grammar_tests.test_key_vectors import BY_CITY, held

BOTH = "SELECT COUNT(age) AS n, AVG(age) AS mean, VAR_POP(age) AS v FROM customers"
AGES = [None, -1000, 0, 1, 20, 31, 59, 60, 61, 90, 111, 119, 120, 1000]


def plan_of(sql: str, budget: Budget = BUDGET) -> BlockPlan:
    policy, engine = shop()
    plan = compiled(sql, policy, engine, budget=budget).plan
    assert plan is not None
    (block,) = plan.blocks
    return block


def pair(block: BlockPlan) -> list[int]:
    """The places of the two sums."""
    return [n for n, r in enumerate(block.releases) if r.sensitivity.together > 1]


@cache
def steps(age: int | None) -> tuple[int, ...]:
    """What a customer of this age adds to the measurements."""
    customer = world.customer(7)
    tables = {**world.empty(), "customers": [(*customer[:4], age, *customer[5:])]}
    policy, engine = over(tables, constraints=True)
    (sql,) = compiled(BOTH, policy, engine).rewritten.blocks
    parts = engine.aggregate(sql.sql, len(sql.keys), sql.parts, SAMPLING_KEY).parts
    return tuple(int(part[0]) for part in parts)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_row_moves_both_sums_by_no_more_than_one_length() -> None:
    block = plan_of(BOTH)
    places = pair(block)
    assert len(places) == 2
    longest = block.releases[places[0]].sensitivity.linf
    lengths = [hypot(*(steps(age)[n] for n in places)) for age in AGES]
    assert max(lengths) <= longest
    assert sum(length > longest - 2 for length in lengths) >= 5  # the centre, and both ends


@pytest.mark.full("measures neighbours or further data sets")
def test_the_length_of_sums_paid_for_apart_is_too_short_for_both() -> None:
    """The twin: what squares alone would move, were they about the middle of their range."""
    longest = plan_of(BOTH).releases[pair(plan_of(BOTH))[0]].sensitivity.linf
    assert Fraction(1, 2) < LENGTH
    assert max(hypot(*steps(age)[1:]) for age in AGES) > longest * Fraction(1, 2) / LENGTH


def test_laplace_noise_allows_for_both() -> None:
    both = Sensitivity(3, -50, 50, together=2)
    assert both.l1 >= 3 * ceil(2**0.5 * 50)
    assert (both.l2_squared, replace(both, together=1).l1) == (3 * 2500, 150)
    replaced = replace(both, neighbours=Neighbours.REPLACE, lower=0)
    assert replaced.l2_squared == 3 * 100**2


def apart(made: Measurements, _identities: Identities) -> Measurements:
    return made


@pytest.mark.parametrize("value", ["age", "income", "age - 40"])
def test_a_mean_and_a_variance_are_both_better(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"SELECT AVG({value}) AS mean, VAR_POP({value}) AS v FROM customers"
    now = noises(plan_of(sql))
    monkeypatch.setattr(strategies, "with_squares_together", apart)
    assert not pair(plan_of(sql))
    ratios = [a / b for a, b in zip(now, noises(plan_of(sql)), strict=True)]
    assert max(ratios) < 1.05, ratios
    assert prod(ratios) ** (1 / 3) < 0.95, ratios


def noises(block: BlockPlan) -> list[float]:
    """The deviations of the count, the centred sum and the squares, in rows, M and M²."""
    deviations = []
    for place, release in enumerate(block.releases):
        reach = release.sensitivity.linf
        if release.sensitivity.together > 1:
            one = Fraction(1) / UNIT.step * (SLOPE if place == 1 else 1)
        else:
            one = Fraction(reach * (2 if place == 2 else 1))
        deviations.append(float(release.noise.scale) ** 0.5 / float(one))
    return deviations


@pytest.mark.parametrize("accountant", ["pure", "approximate"])
def test_other_noise_has_vectors_of_its_own(accountant: str) -> None:
    assert not pair(plan_of(BOTH, replace(BUDGET, accountant=accountant)))


def test_a_law_that_is_asked_for_by_name_keeps_its_sums() -> None:
    block = plan_of(
        BOTH.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'laplace')")
    )
    assert not pair(block)
    assert {r.noise.mechanism for r in block.releases} == {Mechanism.DISCRETE_LAPLACE}


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("weight", [60, 90])
def test_intervals_cover(weight: int) -> None:
    policy, engine = crowd(constraints=True)
    value = f"VAR_POP(age) - {weight} * AVG(age)"
    shown = compiled(BY_CITY.format(value), policy, engine, budget=BUDGET)
    assert shown.plan is not None
    assert pair(shown.plan.blocks[0])
    assert 0.93 <= held(value, shown, engine) <= 0.97
    assert held(value, shown, engine, factor=0.5) < 0.85
