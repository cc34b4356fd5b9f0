"""Extremes by sparse vector: the law of the scan, what it is charged, laws and audits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.lattices import Choice
from dpsql.compiler.plan.prepared import Prepared
from dpsql.mechanisms.exponential import Candidates
from dpsql.mechanisms.scores import Reached
from dpsql.mechanisms.sparse_vector import SparseVector, first_reached, least_rows, scanning
from dpsql.mechanisms.tails import reach
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import ApproximateEvent, Neighbours, Noise
from grammar_tests import test_audit, world
from grammar_tests.bound import over, shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    noiseless,
    violation,
    without_unit,
)
from grammar_tests.test_choices import captured, replaced
from grammar_tests.test_mechanisms import chi_square_z

ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector')"
ENDS = f"{ASKED} MIN(quantity), MAX(quantity) FROM orders"
HIGHEST = f"{ASKED} MAX(quantity) FROM orders"
BY_HOUR = f"{ASKED} HOUR(placed_at) AS h, MAX(quantity) AS most FROM orders GROUP BY h"
AGES = f"{ASKED} MAX(age) FROM customers WHERE city <> 'Lyon'"
DRAWS, REJECTED = 20_000, 4.5


def law(counts: list[int], rows: int, made: SparseVector) -> np.ndarray:
    """P(the first cell that enough rows noisily reach is the n-th), from the outer end on."""
    (b1, b2) = (float(noise.scale) for noise in (made.threshold, made.query))
    most = reach(made.threshold, 1e-13)
    drawn = np.arange(-most, most + 1)
    left = np.exp(-abs(drawn) / b1) * np.tanh(1 / (2 * b1))
    found = np.zeros(len(counts))
    for place, count in enumerate(counts):
        t = rows + drawn - count  # above if the noise is at least t
        tail = np.exp(-abs(t) / b2) / (1 + np.exp(-1 / b2))
        above = np.where(t > 0, tail, 1 - tail * np.exp(-1 / b2))
        above = above if place < len(counts) - 1 else np.ones_like(above)
        found[place] = (left * above).sum()
        left = left * (1 - above)
    return found


def fits(aim: Reached, made: SparseVector, claimed: np.ndarray) -> bool:
    counts = [0, 0, 2, 7, 7, 30, 31]
    listed = Candidates.of(counts if not aim.highest else counts[::-1], DRAWS)
    chosen = first_reached(listed, aim, made, ENTROPY)
    chosen = len(counts) - 1 - chosen if aim.highest else chosen
    observed = np.bincount(chosen, minlength=len(counts))
    return chi_square_z(observed, DRAWS * claimed) < REJECTED


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("highest", [True, False])
def test_the_scan_fits_its_law_and_no_other(highest: bool) -> None:  # noqa: FBT001
    made, aim = scanning(Fraction(1, 2)), Reached(highest, 12)
    counts = [0, 0, 2, 7, 7, 30, 31]
    assert law(counts, 12, made).sum() == pytest.approx(1)
    assert fits(aim, made, law(counts, 12, made))
    assert not fits(aim, made, law(counts, 11, made))
    still = replace(made, threshold=Noise(made.threshold.mechanism, Fraction(1, 64)))
    assert not fits(aim, still, law(counts, 12, made)), "the twin: no noise on the threshold"


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("cells", [10, 121, 4096])
def test_empty_cells_are_passed_over_as_surely_as_said(cells: int) -> None:
    made = scanning(Fraction(1, 2))
    rows = least_rows(made, cells)
    assert law([0] * cells + [0], rows, made)[-1] >= 0.95
    assert law([0] * cells + [0], rows // 2, made)[-1] < 0.95
    assert law([2 * rows, 2 * rows], rows, made)[0] >= 0.95


# --- the plan ------------------------------------------------------------------------------------


def planned(sql: str, accountant: str = "zcdp") -> Prepared:
    policy, engine = shop()
    return compiled(sql, policy, engine, budget=replace(BUDGET, accountant=accountant))


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("sql", [ENDS, BY_HOUR])
def test_the_charge_is_that_of_all_groups_and_fits(sql: str, accountant: str) -> None:
    plan = planned(sql, accountant).plan
    assert plan is not None
    (block,) = plan.blocks
    for made, event in zip(block.choices, plan.event.parts, strict=True):
        assert made.scan is not None
        assert made.scan.event == ApproximateEvent(made.epsilon)
        assert event == ApproximateEvent(made.epsilon, rounds=block.l0)
    payer = accountants.get(accountant)
    delta = Fraction(0) if accountant == "pure" else Fraction(BUDGET.query_delta)
    limit = payer.allowance(Fraction(1), delta, selects_keys=False).amount
    assert limit * 998 / 1000 <= Fraction(plan.loss.amount, 10**9) <= limit


@pytest.mark.full("opens a proxy for each item")
def test_without_noise_extremes_are_the_plain_ones() -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    for sql in (ENDS, BY_HOUR):
        prepared = compiled(sql, policy, engine)
        plain = engine.rows(sql.replace(ASKED, "SELECT"))
        assert sorted(noiseless(prepared, engine)[0]) == sorted(plain)


def test_it_is_refused_where_there_is_no_extreme() -> None:
    for rest in ("COUNT(*) AS n FROM orders", "MEDIAN(quantity) FROM orders"):
        with pytest.raises(Refused) as caught:
            planned(f"{ASKED} {rest}")
        assert caught.value.reason is Reason.BAD_OPTION


def test_neighbours_sway_no_more_than_claimed_and_a_wrong_twin_does() -> None:
    policy, _ = over(world.flood(), constraints=False)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    for sql in (ENDS, BY_HOUR):
        honest = compiled(sql, policy, engine)
        blocks = tuple(
            replace(b, sql=test_audit.any_groups(unkept(b.sql))) for b in honest.rewritten.blocks
        )
        twin = replace(honest, rewritten=replace(honest.rewritten, blocks=blocks))
        for plan, holds in ((honest, True), (twin, False)):
            here = integers(plan, engine)
            with without_unit(engine.connection, world.deletions(7)):
                there = integers(plan, engine)
            assert (violation(plan, here, there) is None) == holds


def unkept(sql: str) -> str:
    """A unit's own extreme forgotten: all its rows are in the histogram."""
    listed = sql.replace("[MAX(", "list(").replace("[MIN(", "list(")
    return listed.replace("IS NOT NULL)]", "IS NOT NULL)")


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("sql", [HIGHEST, BY_HOUR])
def test_a_replaced_unit_sways_no_more_than_claimed(sql: str) -> None:
    assert all(replaced(sql, *pair) for pair in ((1, 7), (2, 7), (1, 2)))
    policy, engine = over(world.well_behaved(), constraints=True, neighbours=Neighbours.REPLACE)
    plan = compiled(sql, policy, engine).plan
    assert plan is not None
    assert plan.blocks[0].choices[0].rounds == 2 * plan.blocks[0].l0


# --- audits --------------------------------------------------------------------------------------


def reaching(listed: Candidates, place: int, choice: Choice) -> list[int]:
    """How many rows reach each cell of a list, from the outer end on."""
    assert isinstance(choice.aim, Reached)
    cells = np.arange(listed.size)[:: -1 if choice.aim.highest else 1]
    counts = listed.best[place] - listed.behind_at(cells + place * listed.size)
    return [int(count) for count in counts]


def losses(sides: list[list[int]], made: SparseVector, rows: int, side: int) -> np.ndarray:
    """ln(likelihood here / likelihood there) of 20,000 scans of one side."""
    ours, theirs = (law(counts, rows, made) for counts in sides)
    listed = Candidates.of(sides[side], test_audit.RELEASES)
    picked = first_reached(listed, Reached(highest=False, rows=rows), made, ENTROPY)
    return np.asarray((np.log(ours) - np.log(theirs))[picked])


def noises_of(made: SparseVector) -> tuple[Noise, Noise]:
    return made.threshold, made.query


def refuted(sql: str, accountant: str, louder: Fraction = Fraction(1)) -> bool:
    """Whether the claim of a scan can be refuted, where two rows are enough: the worst case."""
    case = test_audit.neighbours(sql, accountant)
    (choice,) = case.plan.choices
    assert choice.scan is not None
    threshold, query = (replace(n, scale=n.scale * louder) for n in noises_of(choice.scan))
    made = replace(choice.scan, threshold=threshold, query=query)
    here, there = captured(case.here, case.plan), captured(case.there, case.plan)
    mine, others = np.zeros(test_audit.RELEASES), np.zeros(test_audit.RELEASES)
    for place in range(here.lists):
        sides = [reaching(listed, place, choice) for listed in (here, there)]
        if sides[0] != sides[1]:
            mine += losses(sides, made, 2, 0)
            others += losses(sides, made, 2, 1)
    assert np.any(mine), "the unit changes nothing: such an audit is empty"
    return (
        test_audit.excess(mine, others, case.delta) > 0
        or test_audit.excess(-others, -mine, case.delta) > 0
    )


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(
    ("sql", "accountant"), [(HIGHEST, "pure"), (HIGHEST, "zcdp"), (BY_HOUR, "zcdp"), (AGES, "pure")]
)
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(sql, accountant)


def test_too_little_noise_is_refuted() -> None:
    assert refuted(HIGHEST, "pure", Fraction(1, 4))
