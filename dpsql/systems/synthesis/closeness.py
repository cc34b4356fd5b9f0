"""Closeness of synthetic rows to other tables, as total variation.

It is half of the L1 distance of shares, from 0 (the same) to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dpsql.consistency.graphical_model import nearest
from dpsql.model.dataclass import dataclass
from dpsql.systems.synthesis.synthesis import SyntheticTable
from dpsql.systems.synthesis.synthetic_columns import SyntheticColumn, cells


@dataclass(frozen=True, slots=True)
class Closeness:
    """Total variation between a table by some columns and another one."""

    columns: tuple[str, ...]
    variation: float


def to_released(table: SyntheticTable) -> tuple[Closeness, ...]:
    """Compare with the released noisy tables, clipped at zero. Free, since they are released."""
    return tuple(_to_released(table))


def _to_released(table: SyntheticTable) -> Iterator[Closeness]:
    released, names = table.marginals, [column.name for column in table.columns]
    for place, counts in enumerate(released.singles):
        own = np.bincount(table.cells[place], minlength=len(counts))
        yield Closeness((names[place],), variation(own, nearest(counts, released.total)))
    for (one, other), counts in released.pairs.items():
        codes = [np.array(released.codes[n])[table.cells[n]] for n in (one, other)]
        own = np.bincount(np.ravel_multi_index(codes, counts.shape), minlength=counts.size)
        noisy = nearest(counts.ravel(), released.total)
        yield Closeness((names[one], names[other]), variation(own, noisy))


def to_rows(
    table: SyntheticTable, rows: Sequence[Sequence[Any]], most: int = 3
) -> tuple[Closeness, ...]:
    """Compare with true rows, for all sets of at most `most` columns. For the owner only."""
    truth = placed(table.columns, rows)
    sizes = [cells(column) for column in table.columns]
    return tuple(
        Closeness(
            tuple(table.columns[n].name for n in places),
            variation(_counts(table.cells, sizes, places), _counts(truth, sizes, places)),
        )
        for count in range(1, min(most, len(sizes)) + 1)
        for places in combinations(range(len(sizes)), count)
    )


def placed(
    columns: Sequence[SyntheticColumn], rows: Sequence[Sequence[Any]]
) -> tuple[np.ndarray, ...]:
    """Return the cells of rows, column by column. Rows with a value outside of all cells are
    dropped.
    """
    every = [_cells(column, [row[n] for row in rows]) for n, column in enumerate(columns)]
    there = np.logical_and.reduce([own >= 0 for own in every])
    return tuple(own[there] for own in every)


def _counts(
    columns: Sequence[np.ndarray], sizes: Sequence[int], places: Sequence[int]
) -> np.ndarray:
    own = [sizes[n] for n in places]
    cell = np.ravel_multi_index([columns[n] for n in places], own)
    return np.bincount(cell, minlength=int(np.prod(own)))


def _cells(column: SyntheticColumn, values: Sequence[Any]) -> np.ndarray:
    """Return the cell of each value; -1 for a value outside of all cells."""
    null = column.valued if column.nullable else -1
    places = {value: column.cell(value) for value in set(values) - {None}}
    cells_of = {value: -1 if place is None else place for value, place in places.items()}
    return np.array([cells_of.get(value, null) for value in values], dtype=np.int64)


def variation(counts: np.ndarray, others: np.ndarray) -> float:
    """Return the total variation of two tables of counts.

    >>> variation(np.array([1, 1]), np.array([2, 0]))
    0.5
    """
    shares = (side / max(float(side.sum()), 1.0) for side in (counts, others))
    one, other = shares
    return float(np.abs(one - other).sum() / 2)
