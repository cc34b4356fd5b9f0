"""Which measurement a model is of: second moments in one pass, or gradients, by what they err.

Nothing is run: both plans follow from text and policy, and the ledger says what was paid for.
"""

from __future__ import annotations

from contextlib import suppress
from math import sqrt
from typing import TypeAlias

from dpsql.engines import Stop
from dpsql.mechanisms import standard_deviation
from dpsql.model.errors import Refused
from dpsql.preparation.compilation import Compiler
from dpsql.systems.models import gradient_plan, moments_plan
from dpsql.systems.models.gradient_plan import GradientPlan
from dpsql.systems.models.model_labels import require_columns
from dpsql.systems.models.model_statement import CreateModel, Method, ModelType
from dpsql.systems.models.moment_layout import PRODUCT
from dpsql.systems.models.moments_plan import MomentsPlan, MomentsWish
from dpsql.vault.vault import Vault

ModelPlan: TypeAlias = MomentsPlan | GradientPlan

WORTH = 4
"""So many times more must one pass err before it is given up: it has intervals, and other models
of the same columns cost nothing."""


def planned(
    compiler: Compiler, vault: Vault, wish: MomentsWish, said: CreateModel, stop: Stop
) -> ModelPlan:
    """What is measured for a model. Refuses a label that is none before anything is charged."""
    if said.method is Method.GRADIENT:
        return gradient_plan.planned(compiler, wish, said, stop)
    if said.method is Method.AUTO and said.type is ModelType.LOGISTIC:
        return _better(compiler, vault, wish, said, stop)
    return _one_pass(compiler, wish, said, stop)


def _better(
    compiler: Compiler, vault: Vault, wish: MomentsWish, said: CreateModel, stop: Stop
) -> ModelPlan:
    """What was paid for before; or else the measurement with less noise in what a fit is of."""
    gradient = gradient_plan.planned(compiler, wish, said, stop)
    moments = None
    with suppress(Refused):  # of too many products, say
        moments = _one_pass(compiler, wish, said, stop)
    if moments is None or paid_for(compiler, vault, gradient):
        return gradient
    if paid_for(compiler, vault, moments):
        return moments
    return gradient if noise_in_one_pass(moments) > WORTH * noise_in(gradient) else moments


def _one_pass(compiler: Compiler, wish: MomentsWish, said: CreateModel, stop: Stop) -> MomentsPlan:
    plan = moments_plan.planned(compiler, wish, stop)
    require_columns(plan.layout.columns, said)
    return plan


def noise_in_one_pass(plan: MomentsPlan) -> float:
    """The deviation of the noise in one of the equations that least squares solve, at least: that
    of the label's product.
    """
    return standard_deviation(plan.noise) / (PRODUCT * moments_plan.ONE)


def noise_in(plan: GradientPlan) -> float:
    """The deviation of the noise in the mean of one entry of all gradients."""
    return plan.deviation / sqrt(plan.descent.steps)


def paid_for(compiler: Compiler, vault: Vault, plan: ModelPlan) -> bool:
    """Whether it costs nothing any more."""
    payer, version = plan.payer, compiler.policy.version
    recalled = vault.ledger.recall(payer.analyst, plan.cost.question, version, payer.epsilon)
    return recalled is not None
