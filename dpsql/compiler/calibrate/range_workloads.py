"""Ranges of one value as a workload: measured one by one, by cells, or by a tree over cells.

The ends of all requested ranges divide the values into cells, and each range is a run of cells.
Cells are disjoint, so one charge pays for all of them (see `compiler.calibrate.disjoint`), and a
range has the noise of each of its cells. A tree also measures runs of cells, those of one width as
a level with its own charge. A range is then a few nodes of each level, and all nodes are made to
agree (Hay, Rastogi, Miklau, Suciu 2010).

The choice follows from the summed variance of the ranges, relative to the noise of a count with the
whole budget. A share s has 1/s of that variance where amounts are ρ, 1/s² where they are ε
(`order`). For a tree it is that of least squares over all nodes, diag(R (AᵀWA)⁻¹ Rᵀ) with a row of
A for each node, of R for each range, and the nodes' precisions W.

Proof (PRIVACY.md R35). The ends are in the order of their type. A cell says "from this end on" and
"not from the next one on", a node the same of its first and last cell, so that no row is in two
nodes of a level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from typing import Any, TypeAlias

import numpy as np

from dpsql.compiler.plan.measurement_kinds import AdditiveTotal
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.comparisons import against_constant
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, Expression, Kind, Literal, SqlType, scalar
from dpsql.model.walk import both, conjuncts

MOST_CELLS = 256
"""Largest number of cells of a workload: each is a condition in the statement."""
_THRESHOLDS = 16
"""Number of thresholds or single values, without ranges of two ends, that is left to
`compiler.calibrate.partitions`, where several divisions of a whole may meet.
"""
_MOST_BRANCHES = 16
_LEAST = 1 / 16
"""Least weight of a level that a range reads, relative to the largest: see
`compiler.calibrate.splitting`.
"""
_EXACT = 2**53
"""Largest integer that is exact in every type in which an engine may compare."""
_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})

Run: TypeAlias = tuple[int, int]
"""A run of adjacent cells: the first, and the one after the last."""

Levels: TypeAlias = tuple[tuple[Run, ...], ...]
"""The nodes of each level, cells last; empty where ranges are measured one by one."""

Whole: TypeAlias = tuple[AdditiveTotal, frozenset[Expression]]
"""The measured quantity of ranges, and the conditions that they share."""


# --- ranges --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class End:
    """A cut between values: before a value, or `behind` it."""

    value: Any
    behind: bool
    literal: Literal = field(compare=False)

    def above(self, side: Expression) -> Expression:
        """Return the condition that a value lies after the cut."""
        return scalar("gt" if self.behind else "ge", side, self.literal, kind=BOOLEAN)

    def below(self, side: Expression) -> Expression:
        """Return the condition that a value lies before the cut."""
        return scalar("le" if self.behind else "lt", side, self.literal, kind=BOOLEAN)


@dataclass(frozen=True, slots=True)
class AskedRange:
    """The measurement of values between two ends; None is no limit on that side.

    It is `simple` if one comparison expresses it: a threshold, or one value.
    """

    part: AdditiveTotal
    low: End | None
    high: End | None
    simple: bool


def _ranges(part: AdditiveTotal) -> Iterator[tuple[Expression, frozenset[Expression], AskedRange]]:
    """Yield each expression that a measurement compares with constants, its other conditions, and
    the range.
    """
    conditions = dict.fromkeys(conjuncts(part.condition))
    tests: dict[Expression, dict[Expression, tuple[End | None, End | None]]] = defaultdict(dict)
    for condition in conditions:
        match against_constant(condition):
            case (sign, side, constant) if cuts := _cuts(sign, type_of(side), constant):
                tests[side][condition] = cuts
    for side, own in tests.items():
        low = max((low for low, _ in own.values() if low is not None), default=None)
        high = min((high for _, high in own.values() if high is not None), default=None)
        if low is None or high is None or low < high:
            others = frozenset(c for c in conditions if c not in own)
            yield side, others, AskedRange(part, low, high, simple=len(own) == 1)


def _cuts(sign: str, kind: SqlType, constant: Literal) -> tuple[End | None, End | None] | None:
    """Return the ends between which a comparison with a constant is true; None if unknown."""
    around = _around(kind, constant)
    if around is None:
        return None
    before, behind = around
    match sign:
        case "ge":
            return before, None
        case "gt":
            return behind, None
        case "le":
            return None, behind
        case "lt":
            return None, before
        case "eq":
            return before, behind
        case _:
            return None


def _around(kind: SqlType, constant: Literal) -> tuple[End, End] | None:
    """Return the ends before and after a constant, in the type of the compared expression.

    Integers and days are discrete: the end after one value is the end before the next.
    """
    value = constant.value
    match kind.kind:
        case Kind.INTEGER | Kind.DOUBLE if (number := _number(constant)) is not None:
            if kind.kind is Kind.DOUBLE:
                return _ends(float(number), Literal(float(number), DOUBLE))
            places = ceil(number), floor(number) + 1
            first, second = (End(n, False, Literal(n, INTEGER)) for n in places)
            return first, second
        case Kind.DECIMAL if isinstance(value, int | Decimal) and _number(constant) is not None:
            return _ends(Decimal(value), constant)
        case Kind.DATE if (
            isinstance(value, date) and not isinstance(value, datetime) and value != date.max
        ):
            after = value + timedelta(days=1)
            return End(value, False, constant), End(after, False, replace(constant, value=after))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ if constant.type == kind and value is not None:
            return _ends(value, constant)
        case _:
            return None


def _ends(value: Any, literal: Literal) -> tuple[End, End]:
    return End(value, False, literal), End(value, True, literal)


def _number(constant: Literal) -> Fraction | None:
    value = constant.value
    if constant.type.kind not in _NUMBERS or not isinstance(value, int | float | Decimal):
        return None
    if not isfinite(value):
        return None
    number = Fraction(value)
    return number if abs(number) <= _EXACT else None


# --- workloads -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangeWorkload:
    """Ranges of `subject`, each as a run of the cells between `edges`, and their `levels`.

    `errors` are root mean squared errors of a range, by these levels, by cells alone and one by
    one, relative to the noise of a count with the whole budget.
    """

    subject: Expression
    query: AdditiveTotal
    others: tuple[Expression, ...]
    edges: tuple[End | None, ...]
    runs: Mapping[AdditiveTotal, Run]
    levels: Levels
    errors: tuple[float, float, float]

    def part(self, run: Run) -> AdditiveTotal:
        """Return the measurement of a run of cells."""
        return replace(self.query, condition=both((*self.others, *self._tests(run))))

    def _tests(self, run: Run) -> tuple[Expression, ...]:
        """Return the conditions that hold for the values of a run, and not for NULL."""
        low, high = (self.edges[place] for place in run)
        above = () if low is None else (low.above(self.subject),)
        below = () if high is None else (high.below(self.subject),)
        return (*above, *below) or (~self.subject.is_null(),)

    @property
    def _all(self) -> Run:
        return 0, len(self.edges) - 1

    @property
    def within(self) -> Expression:
        """The condition that holds for the values of all cells."""
        condition = both(self._tests(self._all))
        assert condition is not None
        return condition

    @property
    def top(self) -> tuple[Run, ...]:
        """Nodes that together have all cells."""
        return decomposed(self._all, self.levels)

    def nodes(self, run: Run) -> tuple[Run, ...]:
        """Return the fewest nodes that make up a run of cells."""
        return decomposed(run, self.levels)

    @property
    def families(self) -> Iterator[tuple[Run, tuple[Run, ...]]]:
        """The nodes above the cells, each with the nodes below it, from the top."""
        for n, level in enumerate(self.levels[:-1], start=1):
            yield from ((node, decomposed(node, self.levels[n:])) for node in level)


def workloads(parts: Sequence[AdditiveTotal], order: int) -> dict[Whole, list[RangeWorkload]]:
    """Return groups of ranges of one column that err less if they are measured together.

    The key of a group is its quantity: what is counted or added up, and all other conditions.
    A measurement is in one workload at most: the one with the most measurements.
    """
    candidates: dict[tuple[Whole, Expression], dict[AdditiveTotal, AskedRange]] = defaultdict(dict)
    for part in parts:
        bare = replace(part, condition=None)
        for side, others, each in _ranges(part):
            candidates[(bare, others), side][part] = each
    taken = set[AdditiveTotal]()
    result: dict[Whole, list[RangeWorkload]] = defaultdict(list)
    for (whole, side), ranges in sorted(candidates.items(), key=lambda item: -len(item[1])):
        left = [each for part, each in ranges.items() if part not in taken]
        workload = _workload(side, whole, left, order)
        if workload is not None:
            result[whole].append(workload)
            taken.update(workload.runs)
    return result


def _workload(
    side: Expression, whole: Whole, ranges: Sequence[AskedRange], order: int
) -> RangeWorkload | None:
    """Return the workload of these ranges; None where separate measurements or thresholds
    err less.
    """
    cuts = sorted({end for each in ranges for end in (each.low, each.high) if end is not None})
    edges: tuple[End | None, ...] = (
        *([None] if any(each.low is None for each in ranges) else []),
        *cuts,
        *([None] if any(each.high is None for each in ranges) else []),
    )
    simple = all(each.simple for each in ranges) and len(ranges) <= _THRESHOLDS
    if len(ranges) < 2 or simple or len(edges) - 1 > MOST_CELLS:  # noqa: PLR2004
        return None
    places = {end: n for n, end in enumerate(edges) if end is not None}
    runs = {
        each.part: (
            0 if each.low is None else places[each.low],
            len(edges) - 1 if each.high is None else places[each.high],
        )
        for each in ranges
    }
    levels, errors = best_levels(list(runs.values()), len(edges) - 1, order)
    if not levels:
        return None
    others = tuple(c for c in conjuncts(ranges[0].part.condition) if c in whole[1])
    return RangeWorkload(
        subject=side,
        query=whole[0],
        others=others,
        edges=edges,
        runs=runs,
        levels=levels,
        errors=errors,
    )


# --- levels --------------------------------------------------------------------------------------


def best_levels(
    runs: Sequence[Run], cells: int, order: int
) -> tuple[Levels, tuple[float, float, float]]:
    """Return the levels with the least error for runs of cells, and the `errors` of a
    `RangeWorkload`.

    >>> best_levels([(0, 1), (1, 2), (2, 3)], 3, 1)[0]  # disjoint
    (((0, 1), (1, 2), (2, 3)),)
    >>> best_levels([(0, 5), (5, 10)], 10, 1)[0]
    ()
    """
    alone = len(runs) ** order * len(runs)
    listed = tuple((n, n + 1) for n in range(cells))
    by_cells = sum(stop - start for start, stop in runs)
    best: Levels = () if alone <= by_cells else (listed,)
    least = float(min(alone, by_cells))
    for tree in _trees(cells):
        read = _reads(tree, runs).sum(axis=0).tolist()
        if not read[-1]:  # not where the ends of the ranges divide the cells
            continue
        levels = tuple(level for level, times in zip(tree, read, strict=True) if times)
        total = variance(levels, runs, order)
        if total < least:
            best, least = levels, total
    errors = [sqrt(total / len(runs)) for total in (least, by_cells, alone)]
    return best, (errors[0], errors[1], errors[2])


def _trees(cells: int) -> Iterator[Levels]:
    """Yield trees over cells, by the number of nodes per node of the next level."""
    for branching in range(2, min(cells, _MOST_BRANCHES + 1)):
        levels, there, width = list[tuple[Run, ...]](), set[Run](), 1
        while width < cells:
            level = [(n, min(n + width, cells)) for n in range(0, cells, width)]
            levels.insert(0, tuple(node for node in level if node not in there))
            there.update(level)
            width *= branching
        yield tuple(levels)


def decomposed(run: Run, levels: Levels) -> tuple[Run, ...]:
    """Return the fewest nodes that make up a run, in its order.

    >>> decomposed((1, 5), (((0, 2), (2, 4), (4, 6)), tuple((n, n + 1) for n in range(6))))
    ((1, 2), (2, 4), (4, 5))
    """
    return tuple(_along(run, _by_start(levels)))


def _by_start(levels: Levels) -> dict[int, list[int]]:
    """Map each cell to the ends of nodes that begin there, the longest first."""
    stops: dict[int, list[int]] = defaultdict(list)
    for level in levels:
        for start, stop in level:
            stops[start].append(stop)
    return stops


def _along(run: Run, stops: Mapping[int, Sequence[int]]) -> Iterator[Run]:
    start, last = run
    while start < last:
        stop = next(stop for stop in stops[start] if stop <= last)
        yield start, stop
        start = stop


def variance(levels: Levels, runs: Sequence[Run], order: int) -> float:
    """Return the summed variance of runs of cells by least squares over all nodes.

    Levels have the shares of `compiler.calibrate.splitting`: by how many of their nodes make up
    each run.
    """
    nodes = [node for level in levels for node in level]
    place = {node: n for n, level in enumerate(levels) for node in level}
    reads = _reads(levels, runs).astype(float)
    reads = np.where(reads > 0, np.maximum(reads, reads.max(axis=1)[:, None] * _LEAST), 0)
    roots = (reads / reads.sum(axis=1)[:, None]).sum(axis=0) ** (1 / (order + 1))
    precisions = (roots / roots.sum()) ** order
    measured = _rows(nodes, levels) * np.sqrt(precisions[[place[node] for node in nodes]])[:, None]
    ranges = _rows(runs, levels)
    solved = np.linalg.solve(measured.T @ measured, ranges.T)
    return float(np.einsum("ij,ji->", ranges, solved))


def _reads(levels: Levels, runs: Sequence[Run]) -> np.ndarray:
    """Return how many nodes of each level make up each run."""
    place = {node: n for n, level in enumerate(levels) for node in level}
    reads, stops = np.zeros((len(runs), len(levels)), dtype=int), _by_start(levels)
    for n, run in enumerate(runs):
        for node in _along(run, stops):
            reads[n, place[node]] += 1
    return reads


def _rows(runs: Sequence[Run], levels: Levels) -> np.ndarray:
    """Return each run as a row of ones and zeros, with a column for each cell."""
    cells = np.arange(len(levels[-1]))
    starts, stops = np.array(runs).T
    return np.asarray((starts[:, None] <= cells) & (cells < stops[:, None]), dtype=float)
