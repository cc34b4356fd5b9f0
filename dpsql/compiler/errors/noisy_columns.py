"""Noisy columns on their way through the outer query: what they are made of, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import sqrt
from operator import add

import numpy as np

from dpsql.compiler.errors.expression_errors import NAN, Joint, error_of
from dpsql.compiler.errors.outputs import EXACT
from dpsql.consistency.marginals import Reading, Spread
from dpsql.mechanisms.shown_counts import Widening
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import (
    DOUBLE,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Operators,
    Ref,
    WindowCall,
    scalar,
)
from dpsql.model.walk import refs, substitute


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The noise of table number `table` after several tables are made to agree.

    `steps` are those of its columns, in units of their values, in the order of its quantities.
    """

    spread: Spread
    table: int
    steps: Mapping[int, float]

    def cells(self, reads: Mapping[int, Field], read: int) -> dict[int, Cell]:
        """The measurements that take part, by the fields that read their columns."""
        quantities = self.spread.levels.tables[self.table].quantities
        return {
            reads[column].id: Cell(self.spread, (self.table, place), step, read)
            for place, (column, step) in enumerate(self.steps.items())
            if quantities[place] is not None
        }

    @property
    def deviations(self) -> dict[int, float]:
        """Standard deviations of the columns that take part, in units of their values."""
        quantities = self.spread.levels.tables[self.table].quantities
        return {
            column: Cell(self.spread, (self.table, place), step, 0).deviation
            for place, (column, step) in enumerate(self.steps.items())
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
class Near:
    """A threshold on the sum of these `columns`, each in steps of `step`."""

    widening: Widening
    columns: tuple[int, ...]
    step: float

    def factor(self, parts: Sequence[Expression]) -> Expression:
        """By how much margins grow, over the columns."""
        doubles: list[Operators] = [part.to(DOUBLE) for part in parts]
        steps = reduce(add, doubles) / self.step
        lines = (a + b * steps for a, b in self.widening.lines)
        all_of_it = (steps - float(self.widening.unit)) / float(self.widening.margin)
        return scalar("greatest", 1.0, scalar("least", scalar("greatest", *lines), all_of_it))


@dataclass(frozen=True, slots=True, eq=False)
class NoiseOfBlock:
    """The noise of a released table, in units of its values.

    All columns go by their ids. `deviations` has one of each (None: unknown); `correlation` is that
    of those that are `measured`, in this order. The errors of columns depend on one another in each
    set of `dependent` ones. `halves` says which column is half the interval of a quantile; those
    depend on one another too. All that is before several tables are made to agree, which is
    `settled`. `selected` says that noise decides which groups there are; columns that are
    `withheld` are NULL where it says so. The errors of counts grow towards a threshold as `near`
    says. Derived numbers err by themselves as `single` says, and in what is made of several at most
    as if each erred by its deviation.
    """

    deviations: Mapping[int, float | None]
    measured: tuple[int, ...]
    correlation: np.ndarray
    dependent: Sequence[frozenset[int]] = ()
    settled: Settled | None = None
    halves: Mapping[int, int] = field(default_factory=dict)
    selected: bool = False
    withheld: frozenset[int] = frozenset()
    near: Near | None = None
    single: Mapping[int, float] = field(default_factory=dict)

    @property
    def shown_deviations(self) -> Mapping[int, float | None]:
        """Standard deviations of what the outer query reads, after all tables agree."""
        return {**self.deviations, **({} if self.settled is None else self.settled.deviations)}

    def origin(self, column: int, block: int, read: int) -> ErrorSource:
        """Where a column comes from; quantiles of trees count as read from one tree."""
        chosen = column not in self.measured
        if column in self.halves:
            dependent = frozenset((block, other) for other in self.halves)
            return ErrorSource(dependent, read, chosen=chosen)
        group = next((each for each in self.dependent if column in each), (column,))
        dependent = frozenset((block, other) for other in group)
        place = None if chosen else self.measured.index(column)
        return ErrorSource(dependent, read, place, self.correlation, chosen=chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Addend:
    """What every row of a released table adds to a total of all of them.

    `expression` is over bases, of which `places` says what parts they are.
    """

    block: int
    expression: Expression
    places: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorSource:
    """Where the error of a base comes from.

    It may depend on the noise of the `dependent` (block, part) pairs, and is independent of other
    noise. Bases with the same `read` are of the same rows: if each is of one part, its `place` in
    the block, their correlation is that of the parts. It is independent of the bases whose `read`
    is in `apart`. `many` says that its values in different rows may depend on one another, but (if
    there are any) not in rows that agree on the columns in `by`. What is
    `chosen`, or read from a tree, can be other than a number.
    """

    dependent: frozenset[tuple[int, int]]
    read: int
    place: int | None = None
    correlation: np.ndarray | None = None
    apart: frozenset[int] = frozenset()
    many: bool = False
    by: frozenset[int] = frozenset()
    chosen: bool = False
    addend: Addend | None = None

    def is_apart(self, other: ErrorSource) -> bool:
        """Whether the two errors are known to be independent."""
        return (
            self.dependent.isdisjoint(other.dependent)
            or other.read in self.apart
            or self.read in other.apart
        )


@dataclass(frozen=True, slots=True)
class Traced:
    """`meaning` writes noisy columns over bases; `deviation` is a base's error (None: unknown).

    Each row has one of the released table `table`, (block, read); `whole`: has each of them once.

    Tables that are made to agree have no larger errors than before in anything, and in totals none
    that are known: there the errors are those from before, as if cells were independent. But
    `alone` has the errors of single bases, and `cells` what is known of several: of the released
    measurements, None where they have nothing to do with it.

    Noise decides which rows there are if they are `selected`, and their order if `shuffled`: how
    many there are, and what is made of several, is then not known. Noise does not decide whether
    the bases that are `certain` are NULL.
    """

    relation: Relation
    meaning: Mapping[int, Expression] = field(default_factory=dict)
    deviation: Mapping[int, Expression | None] = field(default_factory=dict)
    origin: Mapping[int, ErrorSource] = field(default_factory=dict)
    alone: Mapping[int, Expression] = field(default_factory=dict)
    cells: Mapping[int, Cell | None] = field(default_factory=dict)
    table: tuple[int, int] | None = None
    whole: bool = False
    selected: bool = False
    shuffled: bool = False
    certain: frozenset[int] = frozenset()

    def over(self, relation: Relation) -> Traced:
        return replace(self, relation=relation)

    def repeated(self, by: frozenset[int] = frozenset()) -> Traced:
        """The same where a row may be read many times, but once for all that agree on what it is
        repeated `by`, if anything is known to be so.
        """
        origin = {
            n: replace(o, many=True, by=o.by | by if by and (o.by or not o.many) else frozenset())
            for n, o in self.origin.items()
        }
        return replace(self, origin=origin)

    def within(self, grouped: frozenset[int]) -> Traced:
        """The same among rows that agree on these columns: of none that is repeated twice."""
        origin = {
            n: replace(o, many=False) if o.by and o.by <= grouped else o
            for n, o in self.origin.items()
        }
        return replace(self, origin=origin)

    def rewritten(self, expression: Expression) -> Expression | None:
        """The expression over bases, or None where no noise reaches it."""
        if not refs(expression) & self.meaning.keys():
            return None
        return substitute(expression, self.meaning)

    def is_noisy(self, *expressions: Expression | None) -> bool:
        """Whether noise reaches any of these."""
        return any(e is not None and self.rewritten(e) is not None for e in expressions)

    def is_certain(self, expression: Expression) -> bool:
        """Whether noise is known not to decide if an expression is NULL."""
        return not self.is_noisy(expression) or (
            _is_certain(self.rewritten(expression) or expression, self.certain, self.deviation)
        )

    def perhaps(self) -> Traced:
        """The same where noise decides whether there is a row, or NULL in all of its columns."""
        new = {f.id: f.ref for f in self.relation.fields if f.id not in self.meaning}
        meaning, deviation = {**self.meaning, **new}, {**self.deviation, **dict.fromkeys(new)}
        return replace(self, meaning=meaning, deviation=deviation, certain=frozenset())

    def bases(self, expression: Expression) -> list[int]:
        """The bases that an expression over this relation's columns reads."""
        over_bases = self.rewritten(expression)
        return [] if over_bases is None else sorted(refs(over_bases) & self.origin.keys())

    def error(self, expression: Expression) -> Expression:
        """The standard error of an expression over this relation's columns."""
        over_bases = self.rewritten(expression)
        if over_bases is None:
            return EXACT
        bases = sorted(refs(over_bases) & self.deviation.keys())
        if len(bases) == 1 and bases[0] in self.alone:
            return error_of(over_bases, self.alone)
        if self.alone.keys() >= set(bases):
            agreed = any(self.cells.get(base, self) is not None for base in bases)
            if not agreed and not self._together(bases):
                return error_of(over_bases, self.alone)
        cells = {base: cell for base in bases if (cell := self.cells.get(base)) is not None}
        others = self._together([base for base in bases if base not in cells])
        listed = list(cells.values())
        among = np.array([[a.correlation(b) for a in listed] for b in listed], dtype=float)
        computed = not self.cells.keys() >= set(bases)
        if not cells or computed or np.isnan(among).any():
            return self.error_over(over_bases)
        tied = np.flatnonzero((among != 0).sum(axis=1) > 1)
        together = Joint(tuple(np.array(list(cells))[tied].tolist()), among[np.ix_(tied, tied)])
        deviation = {**self.deviation, **self.alone}
        return error_of(over_bases, deviation, [*others, *([together] if together.bases else [])])

    def error_in_total(self, expression: Expression) -> Expression:
        """The same where it is added up with others: no less, and independent of theirs."""
        over_bases = self.rewritten(expression)
        return EXACT if over_bases is None else self.error_over(over_bases)

    def error_over(self, over_bases: Expression) -> Expression:
        """The standard error of an expression over bases, as if no tables were made to agree.

        Where it is not known how errors depend on one another, it is the most that it may be; of
        what is read from one tree, it is not known.
        """
        together = self._together(sorted(refs(over_bases)))
        if any(self.origin[base].chosen for joint in together for base in joint.bases):
            return NAN
        return error_of(over_bases, self.deviation, together)

    def _together(self, bases: Sequence[int]) -> list[Joint]:
        """The bases in groups of which each is independent of the others."""
        groups: list[list[int]] = []
        for base in (base for base in bases if base in self.origin):
            own = self.origin[base]
            apart = [g for g in groups if all(own.is_apart(self.origin[other]) for other in g)]
            joined = [other for group in groups if group not in apart for other in group]
            groups = [*apart, [*joined, base]]
        return [self._joint(group) for group in groups if len(group) > 1]

    def _joint(self, bases: Sequence[int]) -> Joint:
        origins = [self.origin[base] for base in bases]
        places = [origin.place for origin in origins if origin.place is not None]
        correlation = origins[0].correlation
        alike = len(places) == len(bases) and len({origin.read for origin in origins}) == 1
        if correlation is None or not alike:
            return Joint(tuple(bases))
        return Joint(tuple(bases), correlation[np.ix_(places, places)])

    def total(self, expression: Expression, read: int) -> ErrorSource | None:
        """The origin of a total of such values, of the rows `read`; None where they are exact."""
        origins = [self.origin[base] for base in self.bases(expression)]
        if not origins:
            return None
        many = any(origin.many for origin in origins)
        chosen = any(origin.chosen for origin in origins)
        alone = isinstance(self.rewritten(expression), Ref) and not many and not chosen
        place, correlation = origins[0].place if alone else None, origins[0].correlation
        return ErrorSource(noise_of(origins), read, place, correlation, many=many, chosen=chosen)

    def addend(self, expression: Expression) -> Addend | None:
        """What each row adds to the sum of an expression over all rows of a released table."""
        over_bases = self.rewritten(expression)
        if over_bases is None or self.table is None or not self.whole:
            return None
        block, read = self.table
        parts = {n: o.place for n, o in self.origin.items() if o.read == read}
        places = {n: p for n in refs(over_bases) if (p := parts.get(n)) is not None}
        return Addend(block, over_bases, places) if places.keys() == refs(over_bases) else None

    def unknown(self, column: Ref) -> bool:
        """Whether a column is made of what is chosen: if it is no number, its error is unknown."""
        return any(self.origin[base].chosen for base in self.bases(column))

    def needed(self) -> frozenset[int]:
        """Columns that meanings and deviations read."""
        read = [*self.meaning.values(), *(d for d in self.deviation.values() if d is not None)]
        read += self.alone.values()
        return frozenset().union(*map(refs, read))


_KEEP_NULL = frozenset({"add", "sub", "mul", "neg", "abs", "greatest", "least", "case", "coalesce"})
"""Functions whose value is NULL or not by that of their arguments, or by which of them is NULL."""


def _is_certain(
    expression: Expression, certain: frozenset[int], noisy: Mapping[int, object]
) -> bool:
    match expression:
        case Ref(id=base) if base in noisy:
            return base in certain
        case Cast(arg=arg, safe=False):
            return _is_certain(arg, certain, noisy)
        case Call(function, args) if function in _KEEP_NULL:
            return all(_is_certain(arg, certain, noisy) for arg in args)
        case _:
            return refs(expression).isdisjoint(noisy)


def noise_of(origins: Iterable[ErrorSource]) -> frozenset[tuple[int, int]]:
    """What any of them may depend on."""
    return frozenset[tuple[int, int]]().union(*(origin.dependent for origin in origins))


def of_totals(
    source: Traced, totals: Sequence[tuple[Field, AggregateCall]]
) -> dict[int, ErrorSource]:
    """The origins of aggregates; those over the same rows are as if read at the same place."""
    reads: dict[AggregateCall, int] = {}
    origin = {}
    for column, call in totals:
        linear = is_linear(call)
        rows = replace(call, function="", args=(), type=DOUBLE)
        read = reads.setdefault(rows, column.id) if linear else column.id
        source_of_total = None
        for argument in call.args[:1]:
            source_of_total = source.total(argument, read)
        if source_of_total is not None:
            origin[column.id] = source_of_total if linear else replace(source_of_total, place=None)
    return origin


def is_linear(call: AggregateCall | WindowCall) -> bool:
    """Whether the value is a sum over all rows, up to a factor."""
    return call.function in ("sum", "avg") and call.filter is None and not call.distinct
