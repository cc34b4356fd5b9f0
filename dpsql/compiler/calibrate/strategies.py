"""Ways to measure a query, and the choice of the one with the least error of outputs.

Every output follows from any of these measurements; they differ in how the budget is spent.

Proof (PRIVACY.md R30, R62). Every way measures the same outputs and is charged for its
measurements; the choice depends on public numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import chain

from dpsql.accountants import Accountant, Allowance
from dpsql.compiler.calibrate.centred import about_centres
from dpsql.compiler.calibrate.contributions import Contributions
from dpsql.compiler.calibrate.disjoint import pooled
from dpsql.compiler.calibrate.key_selection import Rival
from dpsql.compiler.calibrate.key_vectors import led_by_vectors, number_of_units
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn, together
from dpsql.compiler.calibrate.pair_vectors import with_pairs_together
from dpsql.compiler.calibrate.partitions import RowLimits, divided
from dpsql.compiler.calibrate.quantile_trees import HistogramQueries
from dpsql.compiler.calibrate.splitting import ROWS, Part, better, split
from dpsql.compiler.calibrate.squares_vectors import with_squares_together
from dpsql.compiler.errors.outputs import NOTHING_APART, Apart, shown
from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.compiler.plan.measurement_kinds import (
    DistinctCount,
    DistinctSum,
    RowCount,
    ScaledTotal,
    UnitCount,
)
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Field, Item, Measure, OneRow, Project, Relation, Released
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Expression
from dpsql.model.vocabulary import Mechanism, Neighbours, Sensitivity
from dpsql.model.walk import map_inputs, refs, substitute


@dataclass(frozen=True, slots=True)
class Measured:
    """A block with its contribution limits, its measurements and its choices.

    `apart` are additional outputs for the split of the budget. The `rival` is the second-best way
    to count its units. `polls` are run before, and `norms` are those found already. `totals` are
    declared limits that clip measurements. If `first` is given, only that many groups are shown.
    """

    bounded: private_plan.BoundedBlock
    contributions: Contributions
    measurements: Measurements
    histograms: HistogramQueries
    nonnegative: bool
    apart: Apart = NOTHING_APART
    rival: Rival | None = None
    polls: tuple[private_plan.Poll, ...] = ()
    norms: tuple[private_plan.ContributionBound, ...] = ()
    biased: tuple[BiasedColumn, ...] = ()
    totals: tuple[private_plan.TotalLimit, ...] = ()
    first: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.measurements.fields, *self.histograms.fields)

    @property
    def l0(self) -> int:
        """The most groups of one unit, which is limited at this stage; see also
        `compiler.track.table_scans`.
        """
        if self.bounded.block.several:
            return 1
        assert self.contributions.groups.value is not None
        return self.contributions.groups.value

    def sensitivity(self, column: PartColumn, neighbours: Neighbours, sharing: int) -> Sensitivity:
        """Return the sensitivity of a measurement in a charge that is shared by `sharing`
        measurements.

        Results for a single measurement hold for a unit with all rows in one group, or equally many
        in each.
        """
        part = column.part
        lower, upper = part.total_lower, part.total_upper
        if isinstance(part, ScaledTotal | DistinctCount | DistinctSum):
            return Sensitivity(self.l0, lower, upper, neighbours, norm=part.norm)
        alone = sharing == 1 and not self.bounded.block.several
        return Sensitivity(self.l0, lower, upper, neighbours, alone, together=column.together)

    @property
    def is_one_count(self) -> bool:
        """True if its only number is a count, which has one way to be measured."""
        columns, of = self.measurements.columns, self.measurements
        alone = len(columns) == 1 and not (of.sums or of.families or of.pairs or of.workloads)
        if not alone or self.histograms.single or self.bounded.domain is None:
            return False
        whole = isinstance(columns[0].part, RowCount | UnitCount) and not columns[0].part.condition
        return whole and not any(measure.call.epsilon for measure in self.measures)

    @property
    def keys_alone(self) -> bool:
        """True if the query reads no number."""
        read = frozenset[int]().union(*map(refs, self.values))
        return read.isdisjoint(field.id for field in self.fields)

    @property
    def measures(self) -> tuple[Measure, ...]:
        return self.bounded.block.measures

    @property
    def values(self) -> tuple[Expression, ...]:
        return self.measurements.values


def least_error(
    measured: list[Measured],
    outer: Relation,
    accountant: Accountant,
    allowance: Allowance,
    identities: Identities,
) -> list[Measured]:
    """Return the blocks, measured so that the outputs err least, and the alternative counts of
    units.

    Alternatives are omitted where aggregates have an epsilon of their own.
    """
    order = accountant.order
    noise = accountant.noise(allowance.amount, allowance.noise_delta, Sensitivity(1, 0, 1))
    gaussian = noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    in_l2 = gaussian and not accountant.vectors_help
    strategies = list(_strategies(measured, accountant, identities, in_l2=in_l2))
    charged = [charges(way, with_values(outer, way, identities)) for way in strategies]

    def least(places: Sequence[int]) -> int:
        return reduce(lambda a, b: b if better(charged[b], charged[a], order) else a, places)

    best = least(range(len(strategies)))
    counted = [[m.measurements.counted for m in way] for way in strategies]
    others = [n for n, counts in enumerate(counted) if counts != counted[best]]
    if not others or any(measure.call.epsilon for m in measured for measure in m.measures):
        return strategies[best]
    rival = least(others)
    parts, outputs = charged[rival]
    shares = map(allowance.share, split(parts, outputs, order))
    return _with_rivals(strategies[best], strategies[rival], shares)


def _with_rivals(
    best: list[Measured], rival: list[Measured], shares: Iterator[Allowance]
) -> list[Measured]:
    """Add to the best way the alternative count of private keys' units, and its cost."""
    spent = [[next(shares) for _ in paid_for(m)] for m in rival]
    return [
        replace(m, rival=Rival(other.measurements.counted, own[0]))
        if m.bounded.domain is None
        else m
        for m, other, own in zip(best, rival, spent, strict=True)
    ]


def _strategies(
    measured: list[Measured], accountant: Accountant, identities: Identities, *, in_l2: bool
) -> Iterator[list[Measured]]:
    """Yield ways: as requested, with centred sums, and with joint moments where these may err less.

    Wholes may also be sums of their parts. The change of a vector counts in L1, or `in_l2`.
    """
    vectors = accountant.vectors_help
    centred = [
        replace(m, measurements=about_centres(m.measurements, identities))
        if m.measurements.sums
        else m
        for m in measured
    ]
    pool = partial(_pooled, identities=identities, order=accountant.order, sums=vectors)
    for way in [measured] if centred == measured else [measured, centred]:
        for joined in chain((way,), _joined(way, identities) if vectors else ()):
            yield from pool(joined)
        if not in_l2:
            continue
        squared = [
            replace(m, measurements=with_squares_together(m.measurements, identities))
            if m.measurements.families
            else m
            for m in way
        ]
        if squared != way:
            yield from pool(squared)


def _joined(way: list[Measured], identities: Identities) -> Iterator[list[Measured]]:
    """Yield the ways in which some block has a vector; a block without more keeps its last one."""
    vectors = [list(_by_vectors(m, identities)) or [m] for m in way]
    for n in range(max(map(len, vectors), default=0)):
        joined = [strategies[min(n, len(strategies) - 1)] for strategies in vectors]
        if joined != way:
            yield joined


def _by_vectors(measured: Measured, identities: Identities) -> Iterator[Measured]:
    """Yield the ways to measure a block with moments together."""
    measurements, private = measured.measurements, measured.bounded.domain is None
    if not private and measurements.pairs:
        paired = with_pairs_together(measurements, identities)
        yield replace(measured, measurements=paired)
        if paired.families and paired != measurements:
            yield replace(measured, measurements=together(paired, identities))
    if not private and measurements.families:
        yield replace(measured, measurements=together(measurements, identities))
    if private and measured.contributions.row_level:
        for led in led_by_vectors(measurements, identities):
            instead = {measurements.fields[0].id: number_of_units(led)}
            yield replace(measured, measurements=led, apart=measured.apart.counted_by(instead))


def _pooled(
    way: list[Measured], identities: Identities, *, order: int, sums: bool
) -> Iterator[list[Measured]]:
    """Yield ways in which disjoint rows are paid once; with `sums`, also wholes as sums of
    parts.
    """
    with_wholes = [_divided(m, identities, order, wholes=True) for m in way]
    yield with_wholes
    if sums and any(m.measurements.agreements for m in with_wholes):
        yield [_divided(m, identities, order, wholes=False) for m in way]


def _divided(measured: Measured, identities: Identities, order: int, *, wholes: bool) -> Measured:
    proved = measured.bounded.block.max_rows_per_group
    if proved is None or proved != measured.contributions.rows_per_group.value:
        return measured
    if all(part.condition is None for part in measured.measurements.parts):
        return measured  # rows of different measurements are disjoint only by their conditions
    threshold = int(measured.bounded.domain is None)
    limits = RowLimits(proved, threshold, measured.bounded.tested, order, measured.nonnegative)
    measurements = divided(measured.measurements, limits, identities, wholes=wholes)
    return replace(measured, measurements=pooled(measurements, proved))


def charges(measured: list[Measured], outer: Relation) -> tuple[list[Part], list[Expression]]:
    """Return the parts that budget shares pay for, in the order of blocks, and the outputs."""
    parts = [part for m in measured for part in paid_for(m)]
    outputs = shown(outer, [m.fields for m in measured])
    return parts, outputs + [output for m in measured for output in m.apart.of(m.values)]


def paid_for(m: Measured) -> Iterator[Part]:
    """Yield the parts of one block that budget shares pay for: its measurements, then its
    choices.
    """
    for columns in m.measurements.paid:
        yield Part(
            tuple(column.field.id for column in columns),
            columns[0].part.reach,
            tuple(ROWS * column.typical for column in columns),
        )
    yield from m.histograms.parts


def with_values(outer: Relation, measured: list[Measured], identities: Identities) -> Relation:
    """Add to each released table of a query the measures computed from it.

    A table that is read twice gets separate columns each time.
    """

    def expand(relation: Relation) -> Relation:
        if not isinstance(relation, Released):
            return map_inputs(relation, expand)
        block = measured[relation.block]
        keys = relation.fields[: len(block.bounded.block.keys)]
        measures = relation.fields[len(keys) :]
        parts = tuple(identities.field(f.name, f.type) for f in block.fields)
        columns = (*(key.field for key in block.bounded.block.keys), *block.fields)
        table = replace(relation, fields=keys + parts, columns=tuple(f.id for f in columns))
        read = {column: field.ref for column, field in table.reads.items()}
        items = [f.item for f in keys]
        items += [
            Item(f, substitute(block.values[place], read))
            for f, place in zip(measures, relation.measures, strict=True)
        ]
        # One group without measurements is one row without columns.
        there = table if keys + parts else OneRow()
        return Project(there, tuple(items))

    return expand(outer)
