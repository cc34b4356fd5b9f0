"""Bounds on the amounts that limits clip from the groups of a released table, in column units.

A group loses in proportion to its size, and a noisy size is what was released. Of numbers of either
sign the size is that of a count beside them.

It is post-processing of released numbers: PRIVACY.md R66, R97.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms import standard_deviation
from dpsql.model.vocabulary import Noisy


def biases(block: BlockPlan, noisy: Noisy) -> Sequence[tuple[float, ...]]:
    """Return an upper bound on the bias of each biased column: one row per group."""
    columns = [_of_groups(block, noisy, column) for column in block.biased]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _of_groups(block: BlockPlan, noisy: Noisy, biased: BiasedColumn) -> np.ndarray:
    ids = [release.field.id for release in block.releases]
    own = place = ids.index(biased.column)
    if biased.below and biased.above:
        counts = (n for n, r in enumerate(block.releases) if r.query.total_lower == 0)
        place = next(counts, own)
    release, sized = block.releases[own], block.releases[place]
    first = len(block.columns) - len(block.noisy)
    values = np.array([float(row[first + place] or 0) for row in noisy.parts])
    sign = -1.0 if sized.query.total_upper == 0 else 1.0
    values = np.abs(values) if place == own and biased.below else values * sign
    sizes = np.maximum(values, 0.0) + standard_deviation(sized.noise)
    return biased.bias.of_group(sizes) * float(release.query.released.step)
