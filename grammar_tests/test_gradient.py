"""Gradient descent: what one unit moves of a step, what all steps cost, and where they lead."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql import accountants
from dpsql.engines import Ending, EngineFailed, Stop, TimedOut
from dpsql.engines.limited import present
from dpsql.interfaces.pgwire.pacing import OUTCOMES
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import (
    Event,
    Fact,
    FactKind,
    Loss,
    Neighbours,
    NoiseEvent,
    Request,
    Voucher,
)
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy
from dpsql.release import execution
from dpsql.systems.models import methods
from dpsql.systems.models.bends import heights
from dpsql.systems.models.descent import Walk, descent
from dpsql.systems.models.gradient_plan import FINE, ONE, GradientPlan, bound_of, counted, planned
from dpsql.systems.models.model import Model
from dpsql.systems.models.model_inputs import STEPS
from dpsql.systems.models.model_statement import CreateModel
from dpsql.systems.models.models import FindModel
from dpsql.systems.models.released_gradients import kept_steps
from dpsql.vault.joint_run import JointRun
from grammar_tests import bound, laws, world
from grammar_tests.model_kit import PEOPLE, of_text, wish
from grammar_tests.test_pacing import Paced

ORDERS = "SELECT amount, quantity, status FROM orders"
FIRST = f"""{ORDERS}
QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id, quantity, amount) <= 2"""
ONE_ROW = frozenset({Fact(FactKind.UNIQUE_KEY, "customers", Voucher.CHECK)})
VIPS = "model_type = 'logistic_reg', label = 'vip', method = 'gradient'"
AMOUNTS = "model_type = 'linear_reg', label = 'amount', method = 'gradient'"


def said(options: str, text: str = PEOPLE) -> CreateModel:
    result = of_text(f"CREATE MODEL m OPTIONS({options}) AS {text}")
    assert isinstance(result, CreateModel)
    return result


def plan_of(compiler: Compiler, options: str, text: str) -> GradientPlan:
    return planned(compiler, wish(text), said(options, text), Stop())


def coefficients(model: Model) -> list[float]:
    return [term.coefficient for term in model.scores[0].terms]


def spent(proxy: Proxy) -> Loss:
    return proxy.budgets()[0][1]


# --- what one unit moves -------------------------------------------------------------------------


def farthest(
    options: str, text: str, facts: frozenset[Fact], neighbours: Neighbours
) -> tuple[float, int]:
    """The farthest that a unit moves a step, at several weights, and what is claimed."""
    tables = world.well_behaved() if facts else world.adversarial()
    policy, engine = bound.over(tables, constraints=False, neighbours=neighbours)
    plan = plan_of(Compiler(replace(policy, facts=facts), engine.public), options, text)
    part = plan.cost.event.parts[0]
    assert isinstance(part, NoiseEvent)
    dice, moved = np.random.default_rng(2), list[float]()
    for scale in (0.0, 200.0):
        step = plan.step(dice.normal(0, scale, plan.layout.cells))
        (here,) = laws.integers(step, engine)
        for unit in (1, 7):
            with laws.without_unit(engine.connection, world.deletions(unit)):
                (there,) = laws.integers(step, engine)
            keys = here.keys() | there.keys()
            apart = [here.get(key, (0,))[0] - there.get(key, (0,))[0] for key in keys]
            moved.append(sum(int(n) ** 2 for n in apart))
    return max(moved), part.sensitivity.l2_squared


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize(
    ("options", "text", "facts"),
    [
        (VIPS, PEOPLE, ONE_ROW),
        (f"{VIPS}, input_norm = 1.5, knots = 17", PEOPLE, ONE_ROW),
        (f"{AMOUNTS}, gradient_norm = 0.4", FIRST, frozenset()),
        (AMOUNTS, ORDERS, frozenset()),
    ],
)
def test_neighbours_differ_by_no_more_than_claimed_at_any_weights(
    options: str, text: str, facts: frozenset[Fact]
) -> None:
    """Of rows that are proved to be few, and of more than the policy counts, which are scaled."""
    moved, claim = farthest(options, text, facts, Neighbours.ADD_REMOVE)
    assert 0 < moved <= claim


@pytest.mark.full("measures neighbours or further data sets")
def test_wrong_twins_of_the_norm_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that half of the claim would be, of single rows; units that are not scaled."""
    moved, claim = farthest(VIPS, PEOPLE, ONE_ROW, Neighbours.ADD_REMOVE)
    assert moved > claim / 4
    monkeypatch.setattr("dpsql.systems.models.joint_sums._scaled", lambda total, _vectors: total)
    text = ORDERS.replace("FROM orders", "FROM orders JOIN (VALUES (1), (2), (3), (4), (5), (6),"
                          " (7), (8), (9), (10)) AS t(n) ON TRUE")  # fmt: skip
    moved, claim = farthest(AMOUNTS, text, frozenset(), Neighbours.ADD_REMOVE)
    assert moved > claim


@pytest.mark.full("processes are started and killed")
def variance_of_a_step(neighbours: Neighbours) -> float:
    policy, engine = bound.over(world.well_behaved(), constraints=True, neighbours=neighbours)
    return float(plan_of(Compiler(policy, engine.public), VIPS, PEOPLE).noise.scale)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_replaced_unit_has_four_times_the_variance() -> None:
    """Its rows may point the opposite way: the distance doubles."""
    apart, replaced = map(variance_of_a_step, (Neighbours.ADD_REMOVE, Neighbours.REPLACE))
    assert replaced == pytest.approx(4 * apart, rel=1e-3)


@pytest.mark.full("draws random questions or values")
def test_a_step_is_the_gradient_of_the_rows() -> None:
    """Text and layout against the rows themselves, at weights that leave some rows clipped."""
    policy, engine = bound.shop()
    text = "SELECT segment, vip, country, age FROM customers WHERE income > 0"
    options = f"{VIPS}, gradient_norm = 1, knots = 9"
    plan = plan_of(Compiler(policy, engine.public), options, text)
    weights = np.random.default_rng(4).normal(0, 1, plan.layout.cells)
    (sums,) = laws.integers(plan.step(weights), engine)
    weights, expected, rows = np.round(weights * FINE) / FINE, np.zeros(len(weights)), 0
    clipped = 0
    for segment, vip, country, age in engine.rows(text):
        countries = [float(country == code) for code in plan.layout.columns[1].cells]
        own = 1 if segment == "consumer" else -1
        place = 1.0 if age is None else np.trunc((age - 60) / 60 * STEPS) / STEPS
        line, *hats = heights(np.array([place]), 3)[0]
        number = 0.0 if age is None else line
        row = np.array([1.0, own, *countries, number, float(age is None), *hats])
        off = 1 / (1 + np.exp(-row @ weights)) - vip
        most = 1 / np.linalg.norm(row)
        clipped += abs(off) > most
        expected += np.clip(off, -most, most) * row
        rows += 1
    found = np.array([sums[(n,)][0] / ONE for n in range(len(weights))])
    assert found == pytest.approx(expected, abs=3 * rows / STEPS)
    assert 0 < clipped < rows
    assert sums[(len(weights),)][0] == rows * counted(plan.descent)


@pytest.mark.full("opens a proxy for each item")
def test_of_each_row_it_is_tested_in_whole_numbers_that_it_is_within_the_clip() -> None:
    """Whatever the engine makes of roots: one that is half of itself leaves nothing."""
    policy, engine = bound.shop()
    plan = plan_of(Compiler(policy, engine.public), VIPS, PEOPLE)
    (block,) = plan.step(np.ones(plan.layout.cells)).rewritten.blocks
    wrong = re.sub("sqrt\\(", "0.5 * sqrt(", block.sql, flags=re.IGNORECASE)
    assert wrong != block.sql
    rows = engine.rows(wrong)
    assert [int(n) for key, n in rows if key != plan.layout.cells] == [0] * plan.layout.cells
    assert bound_of(plan.descent) < plan.vectors.length


# --- what is paid --------------------------------------------------------------------------------


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
def test_all_steps_are_paid_within_one_question_and_a_step_too_many_is_not(accountant: str) -> None:
    policy, engine = bound.shop()
    budget = replace(policy.budgets[0], accountant=accountant)
    compiler = Compiler(replace(policy, budgets=(budget,)), engine.public)
    plan = plan_of(compiler, f"{VIPS}, steps = 7", PEOPLE)
    paying = accountants.get(accountant)
    allowance = paying.allowance(Fraction(1), Fraction(budget.query_delta), selects_keys=False)
    parts = plan.cost.event.parts
    assert len(parts) == plan.descent.steps == 7
    most = allowance.amount * 10**9
    assert paying.loss(plan.cost.event).amount <= most + 1
    assert paying.loss(Event((*parts, parts[0]))).amount > most + 1


@pytest.mark.full("processes are started and killed")
def test_a_step_that_fails_loses_the_rest_and_what_was_released_is_the_model(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, run, seen = spent(proxy), JointRun.integers, list[Loss]()

    def fails(self: JointRun, prepared: Any) -> Any:
        seen.append(spent(proxy))
        if len(seen) in (1, 4):
            raise EngineFailed
        return run(self, prepared)

    monkeypatch.setattr(JointRun, "integers", fails)
    text = f"CREATE MODEL walk OPTIONS({VIPS}, steps = 4) AS {PEOPLE}"
    with pytest.raises(Failed) as failed:
        proxy.ask(Request(text.replace("walk", "none").replace("steps = 4", "steps = 3"), "bob"))
    assert failed.value.charged
    first = spent(proxy)
    assert seen == [first]
    assert first > before
    answer = proxy.ask(Request(text, "bob"))
    assert answer.receipt is not None
    assert seen[1:] == [spent(proxy)] * 3
    model = proxy.run(FindModel("walk", "bob"))
    assert model.steps == (2, 4)
    again = proxy.ask(Request(text.replace("walk", "again"), "bob"))
    assert again.receipt is not None
    assert again.receipt.remembered
    assert coefficients(proxy.run(FindModel("again", "bob"))) == coefficients(model)


def late_after(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> int:
    """How many late answers a model counts as whose second step ends so."""
    run, steps = JointRun.integers, list[Any]()

    def second(self: JointRun, prepared: Any) -> Any:
        steps.append(prepared)
        if len(steps) == 2 and error is not None:
            raise error
        return run(self, prepared)

    monkeypatch.setattr(JointRun, "integers", second)
    paced = Paced()
    proxy.refresh()  # nothing is remembered
    text = f"CREATE MODEL paced OPTIONS({VIPS}, steps = 3) AS {PEOPLE}"
    proxy.ask(Request(text, "bob"), Stop(pace=paced.pacer().of("bob")))
    return int(paced.book.counts["bob"])


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(("error", "late"), [(EngineFailed(), 1), (TimedOut(), 1), (None, 0)])
def test_a_later_step_that_fails_counts_as_late(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, error: Exception | None, late: int
) -> None:
    assert late_after(proxy, monkeypatch, error) == late


def test_wrong_twin_a_failure_that_the_pace_is_not_told_of(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "failed", property(lambda _: False, lambda *_: None))
    assert late_after(proxy, monkeypatch, EngineFailed()) == 0


# --- one deadline --------------------------------------------------------------------------------


def deadlines_of(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """When each statement of a model has to end."""
    run, deadlines = JointRun.integers, list[float | None]()

    def noted(self: JointRun, prepared: Any) -> Any:
        limit = present()
        deadlines.append(None if limit is None else limit.deadline)
        return run(self, prepared)

    monkeypatch.setattr(JointRun, "integers", noted)
    proxy.refresh()  # nothing is remembered
    proxy.ask(Request(f"CREATE MODEL timed OPTIONS({VIPS}, steps = 4) AS {PEOPLE}", "bob"))
    return deadlines


@pytest.mark.full("opens a proxy for each item")
def test_all_statements_of_a_charge_have_one_deadline(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = deadlines_of(proxy, monkeypatch)
    assert len(deadlines) == 4
    assert None not in deadlines
    assert len(set(deadlines)) == 1


def test_wrong_twin_each_statement_has_its_own_time(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "limited", lambda *_: nullcontext())
    assert set(deadlines_of(proxy, monkeypatch)) == {None}


@pytest.mark.full("opens a proxy for each item")
def test_what_comes_after_the_deadline_is_not_asked(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = JointRun.integers, list[Any]()

    def late(self: JointRun, prepared: Any) -> Any:
        asked.append(prepared)
        limit = present()
        assert limit is not None
        if len(asked) == 4:
            limit.deadline = limit.clock()
        return run(self, prepared)

    monkeypatch.setattr(JointRun, "integers", late)
    proxy.refresh()
    proxy.ask(Request(f"CREATE MODEL cut OPTIONS({VIPS}, steps = 6) AS {PEOPLE}", "bob"))
    assert len(asked) == 4
    assert proxy.run(FindModel("cut", "bob")).steps == (3, 6)


def outcomes(keep: Callable[[int, int], int], steps: int) -> set[int]:
    """How many steps a model may have of which one failed."""
    return {keep(measured, steps) for measured in range(steps)}


def test_a_failure_tells_one_of_three_outcomes() -> None:
    for steps in range(1, 300):
        assert len(outcomes(kept_steps, steps)) <= OUTCOMES - 1
        assert all(kept_steps(n, steps) <= n for n in range(steps))
    assert len(outcomes(lambda measured, _: measured, 64)) > OUTCOMES  # the wrong twin


# --- where they lead -----------------------------------------------------------------------------


@pytest.mark.full("opens a proxy")
def test_without_noise_descent_finds_what_the_rows_say() -> None:
    dice, size = np.random.default_rng(1), 4_000
    x = dice.uniform(-1, 1, size)
    vip = dice.random(size) < 1 / (1 + np.exp(-(0.5 + 2 * x)))
    way = descent(
        said(f"{VIPS}, steps = 200, momentum = 0.8, gradient_norm = 20").descent, np.sqrt(2), 0.0
    )
    walk = Walk(way, np.array([False, False]), 1.0, 0.0)
    rows = np.stack([np.ones(size), x], 1)
    for _ in range(way.steps):
        off = 1 / (1 + np.exp(-rows @ walk.weights)) - vip
        walk.go(np.append(rows.T @ off, size))
    assert walk.reached == pytest.approx([0.5, 2], abs=0.15)
    assert walk.rows == size


@pytest.mark.full("processes are started and killed")
def test_the_method_with_less_noise_is_taken_and_what_is_paid_for_first(proxy: Proxy) -> None:
    many = ", ".join(f"vip = (country = 'NO') AS c{n}" for n in range(9))
    text, auto = f"SELECT vip, {many} FROM customers", VIPS.replace(", method = 'gradient'", "")

    def chosen(options: str, text: str) -> object:
        own = wish(text), said(options, text), Stop()
        return type(methods.planned(proxy.compiler, proxy.vault, *own))

    assert chosen(auto, text) is GradientPlan
    assert chosen(auto, PEOPLE) is not GradientPlan
    assert chosen(f"{auto}, method = 'one_pass'", text) is not GradientPlan
    proxy.ask(Request(f"CREATE MODEL parts OPTIONS(model_type = 'pca') AS {text}", "ana"))
    assert chosen(auto, text) is not GradientPlan


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "options",
    [
        f"{VIPS}, momentum = 1",
        f"{VIPS}, gradient_norm = 0",
        f"{VIPS}, input_norm = 'inf'",
        VIPS.replace("gradient", "leap"),
        f"{VIPS}, steps = 0",
        VIPS.replace("method = 'gradient'", "steps = 4"),
        "model_type = 'pca', method = 'gradient'",
    ],
)
def test_options_of_descent_that_are_none_are_refused(options: str) -> None:
    with pytest.raises(Refused) as refused:
        said(options)
    assert refused.value.reason is Reason.BAD_OPTION
