"""Choices from exact histograms: the cells of each group, and the integer that each choice is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpsql.entropy import Entropy
from dpsql.grids import Choice
from dpsql.mechanisms.exponential import Candidates, exponential, permute_and_flip
from dpsql.mechanisms.scores import candidates
from dpsql.model import Exact
from dpsql.plan import BlockPlan

Key: TypeAlias = tuple[Any, ...]
Chooser: TypeAlias = Callable[[Choice, Candidates], np.ndarray]
"""Chooses a cell in every list: the plan's mechanism, or the best one in tests of the laws."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells with rows, as the engine counted them: refuses repr as `Exact` does.

    `keys[i]` is the group of the i-th, `cells[i]` its place in all histograms one after another.
    """

    keys: list[Key]
    cells: np.ndarray
    counts: np.ndarray

    def __repr__(self) -> str:
        return "Cells(<hidden>)"


def chosen(choice: Choice, listed: Candidates, entropy: Entropy) -> np.ndarray:
    """The cell that the plan's mechanism chooses in every list."""
    choose = permute_and_flip if choice.flips else exponential
    return choose(listed, choice.rate, entropy)


def separated(exact: Exact, plan: BlockPlan) -> tuple[Exact, Cells]:
    """The groups' sums, and the cells of their histograms."""
    if not plan.choices:
        return exact, Cells([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    places = np.array([-1 if key[-1] is None else key[-1] for key in exact.keys], dtype=np.int64)
    groups, cells = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
    sums = Exact([exact.keys[n][:-1] for n in groups], [part[groups] for part in exact.parts[:-1]])
    keys = [exact.keys[n][:-1] for n in cells]
    return sums, Cells(keys, places[cells], exact.parts[-1][cells])


def choose_all(
    cells: Cells, keys: Sequence[Key], plan: BlockPlan, chooser: Chooser
) -> list[np.ndarray]:
    """For each choice the integers that its cells stand for, a group of `keys` each.

    Cells of groups that are not among them are left out.
    """
    places = {comparable(key): place for place, key in enumerate(keys)}
    groups = np.array([places.get(comparable(key), -1) for key in cells.keys], dtype=np.int64)
    columns, first = [], 0
    for choice in plan.choices:
        grid = choice.query.grid
        here = np.flatnonzero(
            (groups >= 0) & (cells.cells >= first) & (cells.cells < first + grid.cells)
        )
        located = groups[here] * grid.cells + (cells.cells[here] - first)
        order = np.argsort(located)
        listed = candidates(
            len(keys), grid.cells, located[order], cells.counts[here][order], choice.aim
        )
        picked = chooser(choice, listed) if keys else np.zeros(0, dtype=np.int64)
        columns.append(np.array([grid.point(int(cell)) for cell in picked], dtype=object))
        first += grid.cells
    return columns


def comparable(key: Key) -> Key:
    """The key with all NaN as one: Python's NaN differs from itself.

    >>> comparable((float("nan"), 1)) == comparable((float("nan"), 1))
    True
    """
    return tuple(_NAN if value != value else value for value in key)  # noqa: PLR0124


_NAN = object()
