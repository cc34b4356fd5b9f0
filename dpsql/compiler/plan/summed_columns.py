"""Columns of a released table whose running sums were measured (PRIVACY.md R113)."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms.matrix_noise import MatrixNoise


def variance_increments(block: BlockPlan) -> Mapping[int, tuple[float, ...]]:
    """Return these columns, each with a number for each group of the domain.

    The running sum of these numbers is the variance of the groups' sum, in units of its values.
    """
    noises = ((r.field.id, r.payment.noise, float(r.query.released.step)) for r in block.releases)
    return {
        column: tuple((noise.increments * step**2).tolist())
        for column, noise, step in noises
        if isinstance(noise, MatrixNoise)
    }
