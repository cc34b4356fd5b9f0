"""Noisy columns on their way through the outer query: what they are made of, and their errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np

from dpsql.algebra import Field, Relation
from dpsql.compiler.deltas import NAN, Joint, error_of
from dpsql.compiler.outputs import EXACT
from dpsql.effects import Reading, Spread
from dpsql.tree import DOUBLE, AggregateCall, Expression, Ref, WindowCall
from dpsql.walk import refs, substitute


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The noise of table number `table` after several tables are made to agree.

    `steps` are those of its places, in units of their values.
    """

    spread: Spread
    table: int
    steps: tuple[float, ...]

    def cells(self, columns: Sequence[Field]) -> dict[int, Cell]:
        """The measurements that take part, by the columns in which they are read."""
        quantities = self.spread.levels.tables[self.table].quantities
        return {
            columns[place].id: Cell(self.spread, (self.table, place), step, columns[0].id)
            for place, step in enumerate(self.steps)
            if quantities[place] is not None
        }


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A measurement that tables agree on, in a cell as it is read at one place of the query."""

    spread: Spread
    reading: Reading
    step: float
    read: int

    @property
    def deviation(self) -> float:
        return sqrt(self.spread.between(self.reading, self.reading)) * self.step

    def correlation(self, other: Cell) -> float | None:
        """That of the errors of two; None where it depends on which cells meet."""
        if self.spread is not other.spread:
            return 0.0
        tables = [self.spread.levels.tables[cell.reading[0]] for cell in (self, other)]
        if self.read != other.read and set(tables[0].axes) & set(tables[1].axes):
            return None
        between = self.spread.between(self.reading, other.reading) * self.step * other.step
        return between / (self.deviation * other.deviation)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseOfBlock:
    """The noise of a released table, in units of its values.

    `deviations` has one of each part (None: unknown); `correlation` is that of the first of them,
    as far as it goes. The errors of parts depend on one another where they are in one of `kin`.
    `halves` says which part is half the interval of a quantile; those depend on one another too.
    All that is before several tables are made to agree, which is `settled`.
    """

    deviations: tuple[float | None, ...]
    correlation: np.ndarray
    kin: Sequence[frozenset[int]] = ()
    settled: Settled | None = None
    halves: Mapping[int, int] = field(default_factory=dict)

    def origin(self, place: int, block: int, read: int) -> Origin:
        """Where a part of the table comes from; quantiles of trees count as read from one tree."""
        chosen = place >= len(self.correlation)
        if place in self.halves:
            kin = frozenset(self.halves)
            return Origin(block, kin, read, None, self.correlation, chosen=chosen)
        kin = next((kin for kin in self.kin if place in kin), frozenset({place}))
        return Origin(block, kin, read, place, self.correlation, chosen=chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The part that a base holds, or is the total of, as it is read at one place of the query.

    `kin` are all parts whose errors depend on its own; a `place` of None is a formula over them.
    What is `chosen`, or read from a tree, can be other than a number. The total of a window is
    taken to be independent of what is in its own row: it is of many rows.
    """

    block: int
    kin: frozenset[int]
    read: int
    place: int | None
    correlation: np.ndarray
    windowed: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Traced:
    """`meaning` writes noisy columns over bases; `deviation` is a base's error (None: unknown).

    Errors of bases depend on one another where their origins are kin; how, is known only of parts
    that are read at the same place.

    Tables that are made to agree have no larger errors than before in anything, and in totals none
    that are known: there the errors are those from before, as if cells were independent. But
    `alone` has the errors of single bases, and `cells` what is known of several: of the released
    measurements, None where they have nothing to do with it.
    """

    relation: Relation
    meaning: Mapping[int, Expression] = field(default_factory=dict)
    deviation: Mapping[int, Expression | None] = field(default_factory=dict)
    origin: Mapping[int, Origin] = field(default_factory=dict)
    alone: Mapping[int, Expression] = field(default_factory=dict)
    cells: Mapping[int, Cell | None] = field(default_factory=dict)

    def over(self, relation: Relation) -> Traced:
        return replace(self, relation=relation)

    def rewritten(self, expression: Expression) -> Expression | None:
        """The expression over bases, or None where no noise reaches it."""
        if not refs(expression) & self.meaning.keys():
            return None
        return substitute(expression, self.meaning)

    def error(self, expression: Expression) -> Expression:
        """The standard error of an expression over this relation's columns."""
        over_bases = self.rewritten(expression)
        if over_bases is None:
            return EXACT
        bases = sorted(refs(over_bases) & self.deviation.keys())
        if len(bases) == 1 and bases[0] in self.alone:
            return error_of(over_bases, self.alone)
        cells = {base: cell for base in bases if (cell := self.cells.get(base)) is not None}
        others = self._joint([base for base in bases if base not in cells])
        listed = list(cells.values())
        among = np.array([[a.correlation(b) for a in listed] for b in listed], dtype=float)
        computed = not self.cells.keys() >= set(bases)
        if not cells or others is None or computed or np.isnan(among).any():
            return self.error_in_total(expression)
        tied = np.flatnonzero((among != 0).sum(axis=1) > 1)
        together = Joint(tuple(np.array(list(cells))[tied].tolist()), among[np.ix_(tied, tied)])
        known = {**self.deviation, **self.alone}
        return error_of(over_bases, known, [*others, *([together] if together.bases else [])])

    def error_in_total(self, expression: Expression) -> Expression:
        """The same where it is added up with others: no less, and independent of theirs."""
        over_bases = self.rewritten(expression)
        if over_bases is None:
            return EXACT
        joint = self._joint(sorted(refs(over_bases)))
        return NAN if joint is None else error_of(over_bases, self.deviation, joint)

    def _joint(self, bases: Sequence[int]) -> list[Joint] | None:
        """The bases of which errors depend on one another; None where it is not known how."""
        joint = []
        for related in self._kin(bases):
            origins = [self.origin[base] for base in related]
            places = [origin.place for origin in origins if origin.place is not None]
            if len(set(places)) < len(related) or len({origin.read for origin in origins}) > 1:
                return None
            joint.append(Joint(tuple(related), origins[0].correlation[np.ix_(places, places)]))
        return joint

    def _kin(self, bases: Sequence[int]) -> list[list[int]]:
        groups = defaultdict[Hashable, list[int]](list)
        for base in (base for base in bases if base in self.origin):
            origin = self.origin[base]
            groups[origin.block, origin.kin, origin.windowed].append(base)
        return [bases for bases in groups.values() if len(bases) > 1]

    def total(self, expression: Expression, read: int) -> Origin | None:
        """What a total of such values is of: of a part, or of a formula over parts that have kin.

        Totals that are `read` at the same place are correlated as their parts are.
        """
        over_bases = self.rewritten(expression)
        bases = frozenset() if over_bases is None else refs(over_bases) & self.origin.keys()
        origins = [self.origin[base] for base in sorted(bases)]
        first = next((origin for origin in origins if len(origin.kin) > 1), None)
        if first is None:
            return None
        return replace(first, read=read, place=first.place if isinstance(over_bases, Ref) else None)

    def unknown(self, column: Ref) -> bool:
        """Whether a column is made of what is chosen: if it is no number, its error is unknown."""
        over_bases = self.rewritten(column)
        read = frozenset() if over_bases is None else refs(over_bases)
        return any(self.origin[number].chosen for number in read & self.origin.keys())

    def needed(self) -> frozenset[int]:
        """Columns that meanings and deviations read."""
        read = [*self.meaning.values(), *(d for d in self.deviation.values() if d is not None)]
        read += self.alone.values()
        return frozenset().union(*map(refs, read))


def of_totals(
    source: Traced, totals: Sequence[tuple[Field, AggregateCall | WindowCall]]
) -> dict[int, Origin]:
    """The origins of aggregates; those over the same rows are as if read at the same place."""
    reads: dict[AggregateCall | WindowCall, int] = {}
    origin = {}
    for column, call in totals:
        linear = call.function in ("sum", "avg") and call.filter is None
        rows = replace(call, function="", args=(), type=DOUBLE)
        read = reads.setdefault(rows, column.id) if linear else column.id
        found = source.total(call.args[0], read) if call.args else None
        if found is not None:
            place, windowed = found.place if linear else None, isinstance(call, WindowCall)
            origin[column.id] = replace(found, place=place, windowed=windowed)
    return origin
