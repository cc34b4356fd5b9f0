"""Noisy columns in the outer query: their formulas over bases, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import sqrt
from operator import add

import numpy as np

from dpsql.compiler.errors.bias_ends import Ends, ends_of
from dpsql.compiler.errors.expression_errors import NAN, Joint, error_of
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.consistency.marginals import Reading, Spread
from dpsql.mechanisms.shown_counts import Widening
from dpsql.model import tree
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.privacy_loss import Noise
from dpsql.model.walk import refs, substitute


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The noise of table number `table` after several tables are made to agree.

    `steps` are the grid steps of its columns, in units of their values, in the order of its
    quantities.
    """

    spread: Spread
    table: int
    steps: Mapping[int, float]

    def cells(self, reads: Mapping[int, Field], read: int) -> dict[int, Cell]:
        """Return the measurements that take part, by the fields that read their columns."""
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
    """A measurement of tables that agree, in a cell that is read at one place of the query."""

    spread: Spread
    reading: Reading
    step: float
    read: int

    @property
    def deviation(self) -> float:
        return sqrt(self.spread.between(self.reading, self.reading)) * self.step

    def correlation(self, other: Cell) -> float | None:
        """Return the correlation of two errors; None where it depends on which cells meet."""
        if self.spread is not other.spread:
            return 0.0
        tables = [self.spread.levels.tables[cell.reading[0]] for cell in (self, other)]
        if self.read != other.read and set(tables[0].axes) & set(tables[1].axes):
            return None
        between = self.spread.between(self.reading, other.reading) * self.step * other.step
        return between / (self.deviation * other.deviation)


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """A threshold on the sum of these `columns`, each in steps of `step`.

    Near the threshold half-widths are up to `most` times as large.
    """

    widening: Widening
    columns: tuple[int, ...]
    step: float
    most: float

    def factor(self, parts: Sequence[tree.Expression]) -> tree.Expression:
        """Return the factor by which half-widths grow near the threshold, over the columns."""
        doubles: list[tree.Operators] = [part.to(tree.DOUBLE) for part in parts]
        steps = reduce(add, doubles) / self.step
        lines = (a + b * steps for a, b in self.widening.lines)
        all_of_it = (steps - float(self.widening.unit)) / float(self.widening.margin)
        return tree.scalar(
            "greatest", 1.0, tree.scalar("least", tree.scalar("greatest", *lines), all_of_it)
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoiseOfBlock:
    """The noise of a released table, in units of its values. Columns are named by their ids.

    `deviations` has the deviation of each column (None: unknown). `correlation` is that of the
    `measured` columns, in this order. Errors are dependent within each set of `dependent` columns.
    `halves` maps quantiles to the columns of their intervals' half-widths; those are dependent too.
    All this is before several tables are made to agree, which is `settled`. `selected` says that
    noise decides which groups exist. Columns that are `withheld` may be NULL because of noise. The
    errors of counts grow towards a threshold as `near` says. Derived numbers have the error
    `single` by themselves; in combinations they err at most as if each had its deviation.
    Limits clip what units add to the columns that are `biased`. Of `summed` columns only running
    sums have known errors: their variances are the running sums of a column of the table. Of
    `listed` groups some may have no rows: then the `additive` columns are noise about 0, drawn by
    `noises`.
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
    biased: tuple[BiasedColumn, ...] = ()
    summed: tuple[int, ...] = ()
    listed: int = 0
    additive: frozenset[int] = frozenset()
    noises: tuple[Noise, ...] = ()

    @property
    def shown_deviations(self) -> Mapping[int, float | None]:
        """Standard deviations of the columns that the outer query reads, after all tables agree."""
        return {**self.deviations, **({} if self.settled is None else self.settled.deviations)}

    def origin(self, column: int, block: int, read: int) -> ErrorSource:
        """Return the error source of a column; quantiles of trees count as read from one tree."""
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
    """The addition of each row of a released table to a total over all of its rows.

    `expression` is over bases; `places` maps these to parts of the block.
    """

    block: int
    expression: tree.Expression
    places: Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorSource:
    """The source of a base's error.

    The error may depend on the noise of the `dependent` (block, part) pairs, and is independent of
    other noise. Bases with the same `read` come from the same rows. If each is of one part, its
    `place` in the block, their correlation is that of the parts. It is independent of bases with a
    `read` in `apart`. `many` says that its values in different rows may be dependent, but not in
    rows that agree on the columns `by`, if there are any. A `chosen` value, or one read from a
    tree, may be no number.
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
        """Test whether the two errors are known to be independent."""
        return (
            self.dependent.isdisjoint(other.dependent)
            or other.read in self.apart
            or self.read in other.apart
        )


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """A column that is 1 in rows of groups that surely have rows, else 0.

    No value of any group is likely to err by more than `far` standard errors.
    """

    column: tree.Expression
    far: float


@dataclass(frozen=True, slots=True)
class Traced:
    """A relation with noisy columns: `meaning` maps them to expressions over bases.

    `deviation` is the error of each base (None: unknown). Each row has one row of the released
    table `table`, (block, read); with `whole` it has each of them once. Consistent tables have no
    larger errors than before, but in totals their errors are unknown. There the errors before
    consistency are used, as if cells were independent. Only `alone` has the errors of single
    consistent bases, and `cells` the released measurements of several, None where they do not
    apply.

    Noise decides which rows exist if they are `selected`, and their order if `shuffled`: then the
    number of rows and aggregates over them are uncertain. Noise does not decide whether the bases
    that are `certain` are NULL. The truth of a `biased` base may be farther off than its error.
    The running sums of the `increments` of a base are the variances of its own running sums.
    Selected rows may be the first by an expression over bases, `first_by`, all of them. If listed
    groups may have no rows, `present` says which ones do.
    """

    relation: Relation
    meaning: Mapping[int, tree.Expression] = field(default_factory=dict)
    deviation: Mapping[int, tree.Expression | None] = field(default_factory=dict)
    origin: Mapping[int, ErrorSource] = field(default_factory=dict)
    alone: Mapping[int, tree.Expression] = field(default_factory=dict)
    cells: Mapping[int, Cell | None] = field(default_factory=dict)
    table: tuple[int, int] | None = None
    whole: bool = False
    selected: bool = False
    shuffled: bool = False
    certain: frozenset[int] = frozenset()
    biased: Mapping[int, Ends] = field(default_factory=dict)
    increments: Mapping[int, tree.Expression] = field(default_factory=dict)
    first_by: tree.Expression | None = None
    present: Presence | None = None

    def over(self, relation: Relation) -> Traced:
        return replace(self, relation=relation)

    def repeated(self, by: frozenset[int] = frozenset()) -> Traced:
        """Return the same where a row may be read many times.

        It is read once among rows that agree on the columns `by`, if there are any.
        """
        origin = {
            n: replace(o, many=True, by=o.by | by if by and (o.by or not o.many) else frozenset())
            for n, o in self.origin.items()
        }
        return replace(self, origin=origin)

    def within(self, grouped: frozenset[int]) -> Traced:
        """Return the same within rows that agree on these columns, where no row is read twice."""
        origin = {
            n: replace(o, many=False) if o.by and o.by <= grouped else o
            for n, o in self.origin.items()
        }
        return replace(self, origin=origin)

    def rewritten(self, expression: tree.Expression) -> tree.Expression | None:
        """Return the expression over bases; None where no noise reaches it."""
        if not refs(expression) & self.meaning.keys():
            return None
        return substitute(expression, self.meaning)

    def is_noisy(self, *expressions: tree.Expression | None) -> bool:
        """Test whether noise reaches any of these expressions."""
        return any(e is not None and self.rewritten(e) is not None for e in expressions)

    def is_certain(self, expression: tree.Expression) -> bool:
        """Test whether noise is known not to decide if an expression is NULL."""
        return not self.is_noisy(expression) or (
            _is_certain(self.rewritten(expression) or expression, self.certain, self.deviation)
        )

    def perhaps(self) -> Traced:
        """Return the same where noise decides whether a row exists, or is NULL in all of its
        columns.
        """
        new = {f.id: f.ref for f in self.relation.fields if f.id not in self.meaning}
        meaning, deviation = {**self.meaning, **new}, {**self.deviation, **dict.fromkeys(new)}
        return replace(self, meaning=meaning, deviation=deviation, certain=frozenset())

    def bases(self, expression: tree.Expression) -> list[int]:
        """List the bases that an expression over this relation's columns reads."""
        over_bases = self.rewritten(expression)
        return [] if over_bases is None else sorted(refs(over_bases) & self.origin.keys())

    def error(self, expression: tree.Expression) -> tree.Expression:
        """Return the standard error of an expression over this relation's columns."""
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

    def ends(self, expression: tree.Expression) -> Ends | None:
        """Return the ends of an expression, beyond its noise; None if no limit clips it."""
        over_bases = self.rewritten(expression) if self.biased else None
        return None if over_bases is None else ends_of(over_bases, self.biased)

    def error_in_total(self, expression: tree.Expression) -> tree.Expression:
        """Return the standard error of an expression as a term of a total: no less, and independent
        of others.
        """
        over_bases = self.rewritten(expression)
        return EXACT if over_bases is None else self.error_over(over_bases)

    def error_over(self, over_bases: tree.Expression) -> tree.Expression:
        """Return the standard error of an expression over bases, ignoring consistency of tables.

        Where the dependence of errors is unknown, it is the largest possible error. For values read
        from one tree, it is unknown.
        """
        together = self._together(sorted(refs(over_bases)))
        if any(self.origin[base].chosen for joint in together for base in joint.bases):
            return NAN
        return error_of(over_bases, self.deviation, together)

    def _together(self, bases: Sequence[int]) -> list[Joint]:
        """Group the dependent bases into sets that are independent of one another."""
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

    def total(self, expression: tree.Expression, read: int) -> ErrorSource | None:
        """Return the error source of a total of such values, over the rows `read`; None if they are
        exact.
        """
        origins = [self.origin[base] for base in self.bases(expression)]
        if not origins:
            return None
        many = any(origin.many for origin in origins)
        chosen = any(origin.chosen for origin in origins)
        alone = isinstance(self.rewritten(expression), tree.Ref) and not many and not chosen
        place, correlation = origins[0].place if alone else None, origins[0].correlation
        return ErrorSource(noise_of(origins), read, place, correlation, many=many, chosen=chosen)

    def addend(self, expression: tree.Expression) -> Addend | None:
        """Return the addition of each row to the sum of an expression over all rows of a released
        table; None where the expression reads anything else.
        """
        over_bases = self.rewritten(expression)
        if over_bases is None or self.table is None or not self.whole:
            return None
        block, read = self.table
        parts = {n: o.place for n, o in self.origin.items() if o.read == read}
        places = {n: p for n in refs(over_bases) if (p := parts.get(n)) is not None}
        return Addend(block, over_bases, places) if places.keys() == refs(over_bases) else None

    def unknown(self, column: tree.Ref) -> bool:
        """Test whether a column contains chosen values: if it is no number, its error is
        unknown.
        """
        return any(self.origin[base].chosen for base in self.bases(column))

    def needed(self) -> frozenset[int]:
        """Return the columns that meanings and deviations read."""
        read = [*self.meaning.values(), *(d for d in self.deviation.values() if d is not None)]
        read += self.alone.values()
        read += self.increments.values()
        read += [] if self.present is None else [self.present.column]
        read += [end for ends in self.biased.values() for end in (ends.below, ends.above)]
        return frozenset().union(*map(refs, read))


_KEEP_NULL = frozenset({"add", "sub", "mul", "neg", "abs", "greatest", "least", "case", "coalesce"})
"""Functions for which NULL depends only on which arguments are NULL."""


def _is_certain(
    expression: tree.Expression, certain: frozenset[int], noisy: Mapping[int, object]
) -> bool:
    match expression:
        case tree.Ref(id=base) if base in noisy:
            return base in certain
        case tree.Cast(arg=arg, safe=False):
            return _is_certain(arg, certain, noisy)
        case tree.Call(function, args) if function in _KEEP_NULL:
            return all(_is_certain(arg, certain, noisy) for arg in args)
        case _:
            return refs(expression).isdisjoint(noisy)


def noise_of(origins: Iterable[ErrorSource]) -> frozenset[tuple[int, int]]:
    """Return all noise that any of these may depend on."""
    return frozenset[tuple[int, int]]().union(*(origin.dependent for origin in origins))


def of_totals(
    source: Traced, totals: Sequence[tuple[Field, tree.AggregateCall]]
) -> dict[int, ErrorSource]:
    """Return the error sources of aggregates; those over the same rows share their `read`."""
    reads: dict[tree.AggregateCall, int] = {}
    origin = {}
    for column, call in totals:
        linear = is_linear(call)
        rows = replace(call, function="", args=(), type=tree.DOUBLE)
        read = reads.setdefault(rows, column.id) if linear else column.id
        source_of_total = None
        for argument in call.args[:1]:
            source_of_total = source.total(argument, read)
        if source_of_total is not None:
            origin[column.id] = source_of_total if linear else replace(source_of_total, place=None)
    return origin


def is_linear(call: tree.AggregateCall | tree.WindowCall) -> bool:
    """Test whether the value is a sum over all rows, up to a factor."""
    return call.function in ("sum", "avg") and call.filter is None and not call.distinct
