"""Small parts of a question's budget that nothing needs: each goes to what is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.model.vocabulary import Budget
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

CLIPPED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY device, "
    "COUNT(*, contribution_bounds_per_group => (0, {})) AS n FROM events GROUP BY device"
)
BY_DEVICE = "SELECT device, COUNT(DISTINCT customer_id) AS n FROM events GROUP BY device"


def blocks(sql: str, budget: Budget = BUDGET) -> tuple[BlockPlan, ...]:
    policy, engine = shop()
    plan = compiled(sql, policy, engine, budget=budget).plan
    assert plan is not None
    return plan.blocks


@pytest.mark.parametrize("accountant", ["zcdp", "approximate"])
def test_rows_of_which_one_counts_are_units(accountant: str) -> None:
    """What private keys are shown by is what is asked: nothing is paid twice."""
    budget = replace(BUDGET, accountant=accountant)
    (rows,), (units,) = blocks(CLIPPED.format(1), budget), blocks(BY_DEVICE, budget)
    (two,) = blocks(CLIPPED.format(2), budget)
    assert rows.queries == units.queries == (UnitCount(None),)
    assert rows.releases[0].noise == units.releases[0].noise
    assert two.queries == (UnitCount(None), RowCount(None, 2))  # rows and units may differ
    assert two.releases[0].noise.scale > rows.releases[0].noise.scale
