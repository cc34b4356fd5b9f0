"""Gradients of private rows: charged once for all steps, measured in order, remembered.

If a step fails, the first half of the steps is released and remembered, or the first quarter. The
model then uses these, and the remaining charge is lost. The number of completed steps would reveal
their run time. So such a model counts as a late answer, with three outcomes (PRIVACY.md R70).

An adversary sees the noisy entries of each step. The weights follow from earlier steps: PRIVACY.md
R56, R88.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.engines import EngineFailed, Interrupted, Stop, TimedOut, TooMany
from dpsql.ledgers import Inquiry
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.systems.models.descent import Walk
from dpsql.systems.models.gradient_plan import ONE, GradientPlan, planned
from dpsql.systems.models.model_statement import CreateModel
from dpsql.systems.models.moments_plan import MomentsWish
from dpsql.vault.joint_run import JointRun
from dpsql.vault.vault import Vault


@dataclass(frozen=True, eq=False)
class Gradients:
    """Released gradients: the plan, and the weights after `steps` steps."""

    plan: GradientPlan
    weights: np.ndarray
    rows: float
    steps: int
    receipt: Receipt

    @property
    def wandering(self) -> float:
        """Largest standard deviation of a weight due to noise alone, to first order."""
        way = replace(self.plan.descent, steps=self.steps)
        return way.wandering(self.plan.deviation / self.rows)


def descended(
    compiler: Compiler,
    vault: Vault,
    wish: MomentsWish,
    said: CreateModel,
    plan: GradientPlan,
    stop: Stop,
) -> Gradients:
    """Return gradients that are charged now or remembered. Raises as `Proxy.ask` does."""
    with vault.in_flight.paying(compiler, plan.payer, plan.cost.question, stop):
        there = remembered(compiler, vault, wish, said, plan, stop)
        return there or _paid(compiler, vault, plan, stop)


def _paid(compiler: Compiler, vault: Vault, plan: GradientPlan, stop: Stop) -> Gradients:
    request = plan.request
    inquiry = Inquiry(request.door, request.client, plan.text or request.sql)

    def measure(run: JointRun) -> tuple[Noisy, ...]:
        walk, result = _walk(plan), list[Noisy]()
        for _ in range(plan.descent.steps):
            step = plan.step(walk.weights)
            try:
                exact = run.integers(step)
            except (EngineFailed, Interrupted, TimedOut, TooMany) as error:
                if not (count := kept_steps(len(result), plan.descent.steps)):
                    raise
                run.ending.failed = not isinstance(error, Interrupted)
                return tuple(result[:count])
            result.append(run.noisy(step, exact))
            walk.go(_sums(plan, result[-1]))
        return tuple(result)

    steps = [plan.prepared] * plan.descent.steps
    receipt, noisy = vault.joint(compiler, plan.payer, plan.cost, steps, inquiry, stop, measure)
    return _gradients(plan, noisy, receipt)


def kept_steps(measured: int, steps: int) -> int:
    """Return the number of steps to keep if a step fails after `measured` steps; 0 for none.

    >>> [kept_steps(measured, 64) for measured in (15, 16, 31, 32, 63)]
    [0, 16, 16, 32, 32]
    """
    return next((part for part in (steps // 2, steps // 4) if 0 < part <= measured), 0)


def remembered(
    compiler: Compiler,
    vault: Vault,
    wish: MomentsWish,
    said: CreateModel,
    plan: GradientPlan,
    stop: Stop,
) -> Gradients | None:
    """Return remembered gradients; None if they were never charged or have lapsed."""
    payer = plan.payer
    answer = vault.memory.recall_cost(compiler, payer, plan.cost)
    if answer is None:
        return None
    if answer.epsilon != payer.epsilon:
        then = replace(wish, request=replace(wish.request, epsilon=answer.epsilon))
        plan = planned(compiler, then, said, stop)
    return _gradients(plan, answer.answer, vault.till.receipt(payer, answer.query_id))


def _walk(plan: GradientPlan) -> Walk:
    return Walk(plan.descent, plan.layout.bends, plan.counted, plan.deviation)


def _gradients(plan: GradientPlan, answer: Sequence[Noisy], receipt: Receipt) -> Gradients:
    walk = _walk(plan)
    for noisy in answer:
        walk.go(_sums(plan, noisy))
    return Gradients(plan, walk.reached, walk.rows, len(answer), receipt)


def _sums(plan: GradientPlan, noisy: Noisy) -> np.ndarray:
    """Return the sums of a step from an answer."""
    sums = np.zeros(plan.vectors.entries)
    for (entry,), (total,) in zip(noisy.keys, noisy.parts, strict=True):
        if entry is not None and entry < len(sums):
            sums[int(entry)] = total
    return sums / ONE
