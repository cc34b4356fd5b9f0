"""Released tables with measurements that agree, within a block and across blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.consistency.least_squares import Row, agreed
from dpsql.consistency.marginals import Marginal, Marginals, consistent
from dpsql.mechanisms import standard_deviation
from dpsql.model.tree import Value
from dpsql.model.vocabulary import Noisy


def each_consistent(plan: PrivatePlan, noisy: Sequence[Noisy]) -> list[Noisy]:
    """Make the measurements within each block agree, for the first tables of a query."""
    return [
        _alone(block, table) if block.agreements else table
        for block, table in zip(plan.blocks, noisy, strict=False)
    ]


def consistent_tables(plan: PrivatePlan, noisy: Sequence[Noisy]) -> list[Noisy]:
    """Make all tables of a query agree wherever the plan says so."""
    result = each_consistent(plan, noisy)
    for levels in plan.levels:
        cells = [_cells(levels, table, plan, noisy[table.block]) for table in levels.tables]
        for table, cells_of_table in zip(levels.tables, consistent(levels, cells), strict=True):
            result[table.block] = _with(noisy[table.block], table, plan, cells_of_table)
    return result


def _alone(block: BlockPlan, noisy: Noisy) -> Noisy:
    deviations = [standard_deviation(release.noise) for release in block.releases]
    return replace(noisy, parts=tuple(agreed(noisy.parts, block.placed_agreements, deviations)))


def _cells(levels: Marginals, table: Marginal, plan: PrivatePlan, noisy: Noisy) -> np.ndarray:
    """Return the measurements that take part: places first, then an axis for each key."""
    places = _places(table, plan)
    cells = np.zeros((len(table.quantities), len(places)), dtype=object)
    for key, row in zip(noisy.keys, noisy.parts, strict=True):
        for n, quantity in enumerate(table.quantities):
            if quantity is not None:
                cells[n, places[key]] = row[n]
    return cells.reshape(-1, *(levels.sizes[axis] for axis in table.axes))


def _with(noisy: Noisy, table: Marginal, plan: PrivatePlan, cells: np.ndarray) -> Noisy:
    places, columns = _places(table, plan), cells.reshape(len(table.quantities), -1)

    def row(key: tuple[Value, ...], old: Row) -> Row:
        new = [int(column[places[key]]) for column in columns]
        cells = [
            value if n >= len(new) or table.quantities[n] is None else new[n]
            for n, value in enumerate(old)
        ]
        return tuple(cells)

    return replace(noisy, parts=tuple(map(row, noisy.keys, noisy.parts)))


def _places(table: Marginal, plan: PrivatePlan) -> dict[tuple[Value, ...], int]:
    """Map each key of a table to its position in the block's domain, a product of the keys'
    domains.
    """
    domain = plan.blocks[table.block].domain
    assert domain is not None
    return {key: n for n, key in enumerate(domain)}
