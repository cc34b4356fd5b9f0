"""Noise of what decides which keys are shown is drawn for every group, the rest for those shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ThresholdKeys, TrialKeys
from dpsql.mechanisms.laws import Law
from dpsql.model.vocabulary import Exact, Noisy
from dpsql.release import release as releasing
from dpsql.release.release import release
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import BUDGET, PlainEngine, compiled

HUGE = 10**6
COUNTS = np.array([0, HUGE, 0, HUGE, 0])
SQL = "SELECT note, COUNT(*), SUM(quantity) FROM orders GROUP BY note"


def block(accountant: str) -> BlockPlan:
    policy, _ = over(world.empty(), constraints=True)
    engine = PlainEngine(world.build(world.empty(), constraints=True))
    plan = compiled(SQL, policy, engine, budget=replace(BUDGET, accountant=accountant)).plan
    assert plan is not None
    return plan.blocks[0]


def released(plan: BlockPlan) -> tuple[Noisy, list[int]]:
    """What is shown with draws of 1, 2, ..., none the same, and how many there were of each."""
    counts = list[int]()

    def sampler(_law: Law, count: int) -> np.ndarray:
        first = 1 + sum(counts)
        counts.append(count)
        return np.arange(first, first + count)

    parts = len(plan.releases) + isinstance(plan.keys, TrialKeys)
    exact = Exact([(f"k{n}",) for n in range(len(COUNTS))], [COUNTS] * parts)
    return release(exact, plan, sampler), counts


@pytest.mark.parametrize("accountant", ["zcdp", "approximate"])
def test_only_what_decides_is_drawn_for_every_group(accountant: str) -> None:
    plan = block(accountant)
    assert isinstance(plan.keys, ThresholdKeys | TrialKeys)
    counted = len(plan.keys.counted) if isinstance(plan.keys, ThresholdKeys) else 1
    noisy, counts = released(plan)
    assert noisy.keys == (("k1",), ("k3",))
    assert counts[:counted] == [len(COUNTS)] * counted
    assert counts[counted:]
    assert set(counts[counted:]) == {2}
    values = [value for row in noisy.parts for value in row if value is not None]
    assert len(set(values)) == len(values)


def test_wrong_twin_one_draw_for_all_groups_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    noised = releasing.add_noise

    def once(part: np.ndarray, *others: object) -> np.ndarray:
        return part + noised(part[:1] * 0, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(releasing, "add_noise", once)
    noisy, counts = released(block("zcdp"))
    values = [value for row in noisy.parts for value in row]
    assert set(counts) == {1}
    assert len(set(values)) < len(values)
