"""Choice of a model's measurement: second moments in one pass, or gradients, by their error.

Nothing is run. Both plans follow from text and policy, and the ledger shows earlier charges.
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
"""Factor by which the error of one pass must exceed that of gradients to choose gradients.

One pass gives confidence intervals, and more models of the same columns are free.
"""


def planned(
    compiler: Compiler, vault: Vault, wish: MomentsWish, said: CreateModel, stop: Stop
) -> ModelPlan:
    """Plan the measurement of a model. Refuses an invalid label before anything is charged."""
    if said.method is Method.GRADIENT:
        return gradient_plan.planned(compiler, wish, said, stop)
    if said.method is Method.AUTO and said.type is ModelType.LOGISTIC:
        return _better(compiler, vault, wish, said, stop)
    return _one_pass(compiler, wish, said, stop)


def _better(
    compiler: Compiler, vault: Vault, wish: MomentsWish, said: CreateModel, stop: Stop
) -> ModelPlan:
    """Choose a measurement that is already charged, or else the one with less noise in the fit."""
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
    """Return a lower bound on the standard deviation of the noise in one normal equation.

    It is the noise in the product with the label.
    """
    return standard_deviation(plan.noise) / (PRODUCT * moments_plan.ONE)


def noise_in(plan: GradientPlan) -> float:
    """Return the standard deviation of the noise in the mean of one entry over all gradients."""
    return plan.deviation / sqrt(plan.descent.steps)


def paid_for(compiler: Compiler, vault: Vault, plan: ModelPlan) -> bool:
    """Test whether the measurement is already charged, so that it is free."""
    return vault.memory.recall_cost(compiler, plan.payer, plan.cost) is not None
