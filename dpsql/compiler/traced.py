"""Noisy columns on their way through the outer query: what they are made of, and their errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpsql.algebra import Field, Relation
from dpsql.compiler.deltas import NAN, Joint, error_of
from dpsql.compiler.outputs import EXACT
from dpsql.tree import DOUBLE, AggregateCall, Expression, Ref, WindowCall
from dpsql.walk import refs, substitute


@dataclass(frozen=True, slots=True, eq=False)
class NoiseOfBlock:
    """The noise of a released table, in units of its values.

    `deviations` has one of each part (None: unknown); `correlation` is that of the first of them,
    as far as it goes. The errors of parts depend on one another where they are in one of `kin`.
    """

    deviations: tuple[float | None, ...]
    correlation: np.ndarray
    kin: Sequence[frozenset[int]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The part that a base holds, or is the total of, as it is read at one place of the query.

    `kin` are all parts whose errors depend on its own; a `place` of None is a formula over them.
    The total of a window is taken to be independent of what is in its own row: it is of many rows.
    """

    block: int
    kin: frozenset[int]
    read: int
    place: int | None
    correlation: np.ndarray
    windowed: bool = False


@dataclass(frozen=True, slots=True)
class Traced:
    """`meaning` writes noisy columns over bases; `deviation` is a base's error (None: unknown).

    Errors of bases depend on one another where their origins are kin; how, is known only of parts
    that are read at the same place.
    """

    relation: Relation
    meaning: Mapping[int, Expression] = field(default_factory=dict)
    deviation: Mapping[int, Expression | None] = field(default_factory=dict)
    origin: Mapping[int, Origin] = field(default_factory=dict)

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
        joint = []
        for bases in self._kin(over_bases):
            origins = [self.origin[base] for base in bases]
            places = [origin.place for origin in origins if origin.place is not None]
            if len(set(places)) < len(bases) or len({origin.read for origin in origins}) > 1:
                return NAN
            joint.append(Joint(tuple(bases), origins[0].correlation[np.ix_(places, places)]))
        return error_of(over_bases, self.deviation, joint)

    def _kin(self, over_bases: Expression) -> list[list[int]]:
        """The bases that an expression reads of which errors depend on one another."""
        groups = defaultdict[Hashable, list[int]](list)
        for base in sorted(refs(over_bases) & self.origin.keys()):
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
        """Whether a column is made of a released part of which no error is known: of a choice."""
        over_bases = self.rewritten(column)
        read = frozenset() if over_bases is None else refs(over_bases)
        return any(self.deviation[number] is None for number in read & self.origin.keys())

    def needed(self) -> frozenset[int]:
        """Columns that meanings and deviations read."""
        read = [*self.meaning.values(), *(d for d in self.deviation.values() if d is not None)]
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
