"""Private bounds by extreme sizes, chosen by exponential mechanism or by sparse vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.compiler.plan.lattices import Choice
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.interfaces.sentences import sentence
from dpsql.mechanisms.exponential import Candidates
from dpsql.mechanisms.scores import Reached
from dpsql.model.vocabulary import BoundsMethod, Exact
from dpsql.preparation.private_bounds import bounds_of_answers, question
from dpsql.preparation.question import ReleasedBounds
from dpsql.proxy import Proxy
from dpsql.release.histogram_choices import chosen
from dpsql.release.release import release
from grammar_tests import proxy_kit, test_scan, world
from grammar_tests.bound import over
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    no_noise,
    the_best,
    violation,
    without_unit,
)
from grammar_tests.test_audit import RELEASES, excess, real
from grammar_tests.test_choices import law as law_of_choice
from grammar_tests.test_private_bounds import INCOME, TOTAL, charged, crowd, searching, widest_of
from grammar_tests.test_private_bounds_audit import Pair
from grammar_tests.test_scan import unkept

EXTREMES = (BoundsMethod.QUANTILE, BoundsMethod.SPARSE_VECTOR)
METHODS = pytest.mark.parametrize("method", EXTREMES)
QUANTITY = "SELECT SUM(quantity) FROM orders"


def opened(folder: Path, method: BoundsMethod) -> Proxy:
    found_by = f'income = {{ private_bounds = "{method}" }}'
    return Proxy.open(str(proxy_kit.shop(folder, (INCOME[0], found_by), tables=crowd())))


@pytest.mark.full("measures neighbours or further data sets")
@METHODS
def test_both_steps_cost_what_was_promised_and_say_what_was_found(
    tmp_path: Path, method: BoundsMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = proxy_kit.request(TOTAL)
    with opened(tmp_path, method) as proxy:
        proxy.vault.sampler = no_noise
        monkeypatch.setattr(proxy.vault, "_chooser", the_best)
        promised = proxy.explain(request)
        assert len(promised.blocks[0].choices) == 2
        answer = proxy.ask(request)
        assert charged(answer) == promised.charge.amount
        # Without noise the greatest income is found; the quantile stays some people below it.
        upper = 131072 if method is BoundsMethod.QUANTILE else 262144
        assert f"The bounds [0, {upper}] of customers.income" in sentence(answer.notices[-1], ())
        assert charged(proxy.ask(request)) == 0
        search = proxy.ledger.history(limit=2)[1]
        assert search.loss.amount == pytest.approx(charged(answer) / 5, rel=0.01)


# --- laws ----------------------------------------------------------------------------------------


def first_steps(
    method: BoundsMethod, tables: world.Tables
) -> Iterator[tuple[Prepared, PlainEngine]]:
    policy, _ = over(tables, constraints=False)
    policy = searching(policy, "income", "quantity", method=method)
    engine = PlainEngine(world.build(tables, constraints=False))
    for sql in (TOTAL, QUANTITY):
        yield compiled(question(policy, widest_of(policy, engine, sql)), policy, engine), engine


def broken(method: BoundsMethod, *, unlimited: bool = False) -> list[str]:
    """Claims that neighbours break; `unlimited` lets all of a unit's rows count."""
    wrong = []
    for tables in (world.adversarial(), world.flood()):
        for plan, engine in first_steps(method, tables):
            blocks = tuple(replace(b, sql=unkept(b.sql)) for b in plan.rewritten.blocks)
            twin = replace(plan, rewritten=replace(plan.rewritten, blocks=blocks))
            used = twin if unlimited else plan
            here = integers(used, engine)
            for unit in (1, 2, 7):  # two of many rows, and a flood
                with without_unit(engine.connection, world.deletions(unit)):
                    wrong += [w for w in [violation(used, here, integers(used, engine))] if w]
    return wrong


@pytest.mark.full("measures neighbours or further data sets")
@METHODS
def test_neighbours_sway_the_first_step_no_more_than_claimed(method: BoundsMethod) -> None:
    assert broken(method) == []
    assert broken(method, unlimited=True)


@pytest.mark.full("measures neighbours or further data sets")
@METHODS
def test_the_first_step_is_the_same_on_every_database(method: BoundsMethod) -> None:
    seen = {
        (plan.question, plan.plan and plan.plan.loss, plan.rewritten.blocks[0].sql)
        for tables in (world.empty(), crowd(), world.adversarial())
        for plan, _ in first_steps(method, tables)
    }
    assert len(seen) == 2, "one of each question"


@pytest.mark.full("measures neighbours or further data sets")
def test_each_method_is_a_question_of_its_own() -> None:
    policy, engine = over(crowd(), constraints=True)
    asked = set()
    for method in BoundsMethod:
        searched = searching(policy, "income", method=method)
        bounds = widest_of(searched, engine, TOTAL)
        asked.add(compiled(question(searched, bounds), searched, engine).question)
    assert len(asked) == 3


@pytest.mark.full("measures neighbours or further data sets")
@METHODS
@pytest.mark.parametrize(
    ("lowest", "highest", "lower", "upper"),
    [(0, 0, -1, 1), (5, 30, 0, 2**10), (-23, 21, -8, 2), (-60, -3, -(2**40), 0), (60, -60, -1, 1)],
)
def test_bounds_are_those_of_the_extreme_bins(
    method: BoundsMethod, lowest: int, highest: int, lower: int, upper: int
) -> None:
    policy, engine = over(crowd(), constraints=True)
    policy = searching(policy, "income", method=method)
    widest = widest_of(policy, engine, TOTAL)
    plan = compiled(question(policy, widest), policy, engine).plan
    assert plan is not None
    made = bounds_of_answers(policy, widest, [(lowest, highest)], plan.blocks[0])
    assert (made.lower, made.upper) == (Fraction(lower), Fraction(upper))


# --- the audit of both steps together ------------------------------------------------------------


class Extremes(Pair):
    """`Pair` with the extreme bins of the first step chosen, not counted."""

    def __init__(self, accountant: str, method: BoundsMethod) -> None:
        super().__init__(accountant, method, units=700)
        assert self.first.plan is not None
        (self.plan,) = self.first.plan.blocks
        self.listed = [captured(exact, self.plan) for exact in self.bins]

    def sides(self, side: int, louder: int = 1) -> np.ndarray:
        """ln(likelihood here / likelihood there) of 20,000 pairs of steps on one side."""
        total, ends = np.zeros(RELEASES), []
        for place, choice in enumerate(self.plan.choices):
            ours, theirs = (law_of(lists[place], choice) for lists in self.listed)
            listed = self.listed[side][place]
            scores = (listed.best[0] - listed.behind_at(np.arange(listed.size))).tolist()
            picked = chosen(choice, Candidates.of(scores, RELEASES), ENTROPY)
            total += (np.log(ours) - np.log(theirs))[picked]
            ends.append(picked)
        pairs, each = np.unique(np.array(ends), axis=1, return_inverse=True)
        for n, cells in enumerate(pairs.T):
            here = np.flatnonzero(each.ravel() == n)
            total[here] += self._seconds(self._read(cells), side, here.size, louder)
        return total

    def exactly(self, side: int) -> ReleasedBounds:
        """The twin's bounds: those of the true extremes, whoever reaches them."""
        untouched = tuple(replace(c, aim=c.query.aim) for c in self.plan.choices)
        listed = captured(self.bins[side], replace(self.plan, choices=untouched))
        pairs = zip(untouched, listed, strict=True)
        return self._read(np.array([the_best(choice, one)[0] for choice, one in pairs]))

    def _read(self, cells: np.ndarray) -> ReleasedBounds:
        ends = zip(self.plan.choices, cells, strict=True)
        row = [choice.query.histogram.grid.point(int(cell)) for choice, cell in ends]
        return bounds_of_answers(self.policy, self.widest, [row], self.plan)

    def _seconds(self, bounds: ReleasedBounds, side: int, count: int, louder: int) -> np.ndarray:
        prepared, *exact = self.step(bounds)
        assert prepared.plan is not None
        ((one,),) = (block.releases for block in prepared.plan.blocks)
        ours, theirs = (int(e.parts[0][0]) for e in exact)
        b = float(one.noise.scale)
        noisy = (ours, theirs)[side] + real(one.noise, count) / louder
        return np.asarray((abs(noisy - theirs) - abs(noisy - ours)) / b)


def law_of(listed: Candidates, choice: Choice) -> np.ndarray:
    """The probability of every cell."""
    if choice.scan is None:
        return law_of_choice(listed, choice, 0)
    assert isinstance(choice.aim, Reached)
    inwards = test_scan.law(test_scan.reaching(listed, 0, choice), choice.aim.rows, choice.scan)
    return inwards[:: -1 if choice.aim.highest else 1]


def captured(exact: Exact, plan: BlockPlan) -> list[Candidates]:
    listed: list[Candidates] = []

    def chooser(choice: Choice, candidates: Candidates) -> np.ndarray:
        listed.append(candidates)
        return the_best(choice, candidates)

    release(exact, plan, no_noise, chooser)
    return listed


def refuted(pair: Extremes, louder: int = 1) -> bool:
    here, there = (pair.sides(n, louder) for n in (0, 1))
    return excess(here, there, pair.delta) > 0 or excess(-there, -here, pair.delta) > 0


@pytest.mark.full("thousands of releases are sampled")
@METHODS
def test_the_claim_of_the_pair_stands(method: BoundsMethod) -> None:
    assert not refuted(Extremes("pure", method))


@pytest.mark.full("thousands of releases are sampled")
@METHODS
def test_wrong_twins_of_the_pair_are_refuted(method: BoundsMethod) -> None:
    pair = Extremes("pure", method)
    assert refuted(pair, louder=4)
    assert len(pair.second) > 1, "one outcome only: the audit would say nothing of the choice"
    assert pair.exactly(0) != pair.exactly(1), "exact bounds alone would tell the neighbours apart"
