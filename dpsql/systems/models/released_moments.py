"""Second moments of private rows: charged once, measured, remembered.

An adversary sees the noisy entries and results computed from them.

Privacy loss: PRIVACY.md R82.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpsql.engines import Stop
from dpsql.ledgers import Inquiry
from dpsql.mechanisms import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.systems.models.model_inputs import Input
from dpsql.systems.models.moment_layout import Layout, layout_of
from dpsql.systems.models.moments_plan import ONE, MomentsPlan, MomentsWish, planned
from dpsql.vault.joint_run import JointRun
from dpsql.vault.vault import Vault


@dataclass(frozen=True, eq=False)
class Moments:
    """Released moments: the noisy sum of products in each entry, and the variances of the noise.

    `matrix` is the sum of x·xᵀ over rows x of all cells, with a leading 1 (see `layout`). One unit
    has at most `most_rows` of these rows.
    """

    layout: Layout
    sums: np.ndarray
    variances: np.ndarray
    receipt: Receipt
    most_rows: int

    @property
    def columns(self) -> tuple[Input, ...]:
        return self.layout.columns

    @cached_property
    def matrix(self) -> np.ndarray:
        places = self.layout.places
        result: np.ndarray = np.where(places < 0, 0.0, self.sums[places])
        return result

    @property
    def rows(self) -> float:
        """Noisy number of rows, at least 1."""
        return max(float(self.matrix[0, 0]), 1.0)

    def of(self, columns: Sequence[int]) -> Moments:
        """Return the moments of some of the columns."""
        layout, whole = layout_of([self.columns[n] for n in columns]), self.layout
        numbers = [0, *(number for n in columns for number in whole.numbers_of(n))]
        entries = whole.places[np.ix_(numbers, numbers)]
        sums, variances = np.zeros(layout.entries), np.zeros(layout.entries)
        there = layout.places >= 0
        sums[layout.places[there]] = self.sums[entries[there]]
        variances[layout.places[there]] = self.variances[entries[there]]
        return Moments(layout, sums, variances, self.receipt, self.most_rows)

    @property
    def deviation_of_rows(self) -> float:
        """Standard deviation of the noise in `rows`."""
        return float(np.sqrt(self.variances[0]))

    def noise_of(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the covariance of E·`coefficients`, where E is the noise in the matrix.

        An entry that occurs twice in the matrix has the same noise in both places.
        """
        places, variances = self.layout.places, self.variances
        own, twice = np.diag(places), np.diag(places)[:, None] == places
        np.fill_diagonal(twice, val=False)
        effects = np.where(places > 0, coefficients + twice * coefficients[:, None], 0.0)
        np.fill_diagonal(effects, 0.0)
        # Except for entry 0, each entry is in two rows of the matrix, or in one if on the diagonal.
        result: np.ndarray = variances[places] * effects * effects.T
        alone = np.where((own > 0) & ~twice.any(axis=1), variances[own] * coefficients**2, 0.0)
        np.fill_diagonal(result, np.sum(variances[places] * effects**2, axis=1) + alone)
        first = np.where(own == 0, coefficients, 0.0)
        result += variances[0] * np.outer(first, first)
        return result

    def deviation_of(self, direction: np.ndarray) -> float:
        """Return the standard deviation of the noise in direction·matrix·direction."""
        return float(np.sqrt(self.influence(np.outer(direction, direction)) ** 2 @ self.variances))

    def influence(self, weights: np.ndarray) -> np.ndarray:
        """Return the derivative of the weighted sum of the matrix by each released entry."""
        there = self.layout.places >= 0
        places = self.layout.places[there]
        result: np.ndarray = np.bincount(places, weights[there], len(self.sums))
        return result

    def spread(self, influence: np.ndarray) -> np.ndarray:
        """Return the covariance of each entry of the matrix with a sum of this influence."""
        places = self.layout.places
        result: np.ndarray = np.where(places < 0, 0.0, (self.variances * influence)[places])
        return result


def measured(
    compiler: Compiler, vault: Vault, wish: MomentsWish, plan: MomentsPlan, stop: Stop
) -> Moments:
    """Return second moments that are charged now or remembered.

    Raises as `Proxy.ask` does.
    """
    with vault.in_flight.paying(compiler, plan.payer, plan.cost.question, stop):
        there = remembered(compiler, vault, wish, plan, stop)
        return there or _paid(compiler, vault, plan, stop)


def _paid(compiler: Compiler, vault: Vault, plan: MomentsPlan, stop: Stop) -> Moments:
    request = plan.request
    inquiry = Inquiry(request.door, request.client, plan.text or request.sql)

    def measure(run: JointRun) -> tuple[Noisy, ...]:
        return (run.noisy(plan.prepared, run.integers(plan.prepared)),)

    receipt, (noisy,) = vault.joint(
        compiler, plan.payer, plan.cost, (plan.prepared,), inquiry, stop, measure
    )
    return _moments(plan, noisy, receipt)


def remembered(
    compiler: Compiler, vault: Vault, wish: MomentsWish, plan: MomentsPlan, stop: Stop
) -> Moments | None:
    """Return remembered second moments; None if they were never charged or have lapsed."""
    recalled = vault.memory.recall_cost(compiler, plan.payer, plan.cost)
    if recalled is None:
        return None
    if recalled.epsilon != plan.payer.epsilon:
        then = replace(wish, request=replace(wish.request, epsilon=recalled.epsilon))
        plan = planned(compiler, then, stop)
    receipt = vault.till.receipt(plan.payer, recalled.query_id)
    return _moments(plan, recalled.answer[0], receipt)


def _moments(plan: MomentsPlan, noisy: Noisy, receipt: Receipt) -> Moments:
    """Return the moments from an answer."""
    layout = plan.layout
    sums = np.zeros(layout.entries)
    for (entry,), (total,) in zip(noisy.keys, noisy.parts, strict=True):
        if entry is not None and entry < layout.entries:
            sums[int(entry)] = total
    unit = layout.weights * ONE
    variances = (standard_deviation(plan.noise) / unit) ** 2
    return Moments(layout, sums / unit, variances, receipt, plan.vectors.rows.most)
