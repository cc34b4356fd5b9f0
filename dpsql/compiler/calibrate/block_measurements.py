"""Measurements of a block: those that its calls need, each once, and formulas of the measures.

A call is measured with limits that are proved or declared. Where there are none, polls are listed
(noisy histograms that find bounds), and clipping bounds are those that they found. A sum that is
read only over another one is measured as its excess over their ratio.

Proof (PRIVACY.md R31). Equal measurements are one, under any names: each is released once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsql.accountants import Accountant
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    MeasurementOptions,
    Parts,
    Recipe,
    part_type,
)
from dpsql.compiler.calibrate.choices import columns_of
from dpsql.compiler.calibrate.contributions import Contributions, contributions_of
from dpsql.compiler.calibrate.declared_limits import DeclaredTotals
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.calibrate.moment_vectors import Family, family_of, fitted
from dpsql.compiler.calibrate.pair_moments import PairMoments, pair_of
from dpsql.compiler.calibrate.polls import Polls, norm_of
from dpsql.compiler.calibrate.quantile_trees import HistogramQueries
from dpsql.compiler.calibrate.recipes import bounded_call, parts_of, recipe_of
from dpsql.compiler.calibrate.strategies import Measured
from dpsql.compiler.calibrate.top_shapes import first_groups
from dpsql.compiler.calibrate.typed_ratios import both_additive, residual, typed_ratios
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.lattices import ChoiceQuery
from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    Measurement,
    RowCount,
    ScaledTotal,
    UnitCount,
)
from dpsql.compiler.plan.private_plan import (
    Bounded,
    BoundedBlock,
    FoundNorm,
    PrivateBlock,
)
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Field, Relation
from dpsql.model.tree import DOUBLE, Expression, Ref
from dpsql.model.walk import substitute


def measured_blocks(
    bounded: Bounded, identities: Identities, options: MeasurementOptions, accountant: Accountant
) -> list[Measured]:
    """Return the measurements of each block that the query needs.

    Raises `Refused` where a contribution has no limit, an argument no bound or an aggregate no
    recipe.
    """
    outer = bounded.outer
    keys = [len(block.block.keys) for block in bounded.blocks]
    first = first_groups(outer, keys) if any(keys) else {}
    return [
        _measure(
            block,
            identities,
            options,
            accountant,
            typed_ratios(outer, n) if len(block.block.measures) > 1 else {},
            first.get(n),
        )
        for n, block in enumerate(bounded.blocks)
    ]


def _measure(
    bounded: BoundedBlock,
    identities: Identities,
    options: MeasurementOptions,
    accountant: Accountant,
    ratios: Mapping[int, int],
    first: int | None,
) -> Measured:
    """Return the measurements of a block, each once, and the formulas of its measures. The query
    may show only the `first` of its private groups, in the order of a number.
    """
    block, contributions = bounded.block, contributions_of(bounded)
    values, choices = list[Expression](), dict[ChoiceQuery, Field]()
    polls = _polls(bounded, contributions, options.norms, accountant, identities, first)
    alike, named = _Alike(block.rows), _Columns.of(polls, identities, bounded)
    families, pairs = dict[int, Family](), dict[int, PairMoments]()
    sums = dict[int, tuple[Measurement, Family]]()
    calls = [bounded_call(bounded, n, contributions, options) for n in range(len(block.measures))]
    for place, unlimited in enumerate(calls):
        other = ratios.get(place)
        if other is not None and (value := _over((place, other), calls, polls, named, alike)):
            values.append(value)
            continue
        recipe = recipe_of(unlimited.call)
        call, parts, needed = _limited((place, unlimited), recipe, polls, alike)
        if call.rows_proved and call.arguments and needed == parts and not call.searched:
            families |= _moments(recipe, needed, place)
            pairs |= _pair(recipe, needed, place)
            family = family_of(tuple(map(alike.first, _centred(recipe, call))))
            if family and not any(each.call.epsilon for each in calls):
                sums[place] = needed[0], family  # else each has its own allowance
        read: tuple[Ref, ...] = tuple(map(named, needed, _adds(recipe, call, needed)))
        if recipe.choices is not None:
            read += columns_of(polls.swayed(recipe.choices(call)), choices, identities)
        values.append(substitute(recipe.combine(call, read), named.finer))
    counted, own = polls.counting, tuple(values)
    measurements = Measurements(named.alone, own, families, sums, pairs, counted=counted)
    histograms, nonnegative = HistogramQueries(choices), options.nonnegative
    measured = Measured(bounded, contributions, measurements, histograms, nonnegative, first=first)
    return _with_polls(measured, polls, named)


def _with_polls(measured: Measured, polls: Polls, named: _Columns) -> Measured:
    if not (polls.missing or polls.bounds or polls.keys or polls.totals.binding):
        return measured
    return replace(
        measured,
        polls=polls.held_before(named.places),
        norms=polls.released,
        biased=polls.biased(named.places),
        totals=tuple(polls.totals.binding),
    )


def _adds(recipe: Recipe, call: BoundedCall, parts: Parts) -> tuple[float, ...]:
    """Return the addition of a typical row to each part; for unbounded squares, relative to their
    bounds.
    """
    adds = recipe.typical(call) if recipe.typical else (1.0,) * len(parts)
    if not (call.searched and recipe.names):
        return adds
    return tuple(
        part.reach / parts[0].reach if name in {"yy", "xx"} else each
        for name, part, each in zip(recipe.names, parts, adds, strict=True)
    )


def _limited(
    placed: tuple[int, BoundedCall], recipe: Recipe, polls: Polls, alike: _Alike
) -> tuple[BoundedCall, Parts, Parts]:
    """Return a call as it is measured, its measurements, and these with declared or found
    limits.
    """
    place, call = placed
    parts = tuple(map(alike.first, parts_of(polls.block, recipe, call)))
    if not call.searched:
        return call, parts, tuple(polls.bounded(part, place, call) for part in parts)
    call = polls.measured_from(call, recipe, parts, place)
    parts = tuple(map(alike.first, parts_of(polls.block, recipe, call)))
    return call, parts, polls.all_searched(parts, recipe.names, place, call)


def _moments(recipe: Recipe, parts: Parts, place: int) -> dict[int, Family]:
    family = family_of(parts) if recipe.moments else None
    return {place: family} if family else {}


def _pair(recipe: Recipe, parts: Parts, place: int) -> dict[int, PairMoments]:
    if not recipe.names or recipe.deviations == 1:
        return {}
    pair = pair_of(recipe.names, parts)
    return {place: pair} if pair else {}


def _over(
    places: tuple[int, int],
    calls: Sequence[BoundedCall],
    polls: Polls,
    named: _Columns,
    alike: _Alike,
) -> Expression | None:
    """Return a sum that is read only over another one as its excess over their approximate ratio;
    None where the sum is measured directly.
    """
    place, other = places
    call, divisor = calls[place], calls[other]
    recipes = recipe_of(call.call), recipe_of(divisor.call)
    if not (call.searched and divisor.searched) or call.wide or divisor.wide:
        return None
    parts = [*parts_of(polls.block, recipes[0], call), *parts_of(polls.block, recipes[1], divisor)]
    if len(parts) != 2 or not both_additive(parts[0], parts[1]):  # noqa: PLR2004
        return None
    x, y = map(alike.first, parts)
    assert isinstance(x, RowCount | ClippedSum)
    assert isinstance(y, RowCount | ClippedSum)
    if polls.totals.limited(x) != x or polls.voting is not None:
        return None
    ratio = polls.ratio(x, y) * x.lattice.step / y.lattice.step
    (adds,) = recipes[1].typical(divisor) if recipes[1].typical else (1.0,)
    denominator = named(polls.clipped(y, other, divisor), adds)
    beyond = residual(x, y, ratio)
    rest = named(
        polls.clipped(beyond, place, call), max(float(ratio) * adds, beyond.reach / 2**20) / 8
    )
    value = rest.to(DOUBLE) + denominator.to(DOUBLE) * float(ratio)
    return substitute(fitted(value, call.call.type), named.finer)


def _polls(
    bounded: BoundedBlock,
    contributions: Contributions,
    norms: Mapping[str, FoundNorm],
    accountant: Accountant,
    identities: Identities,
    first: int | None,
) -> Polls:
    """Return the polls of a block's units, and the declared limits on their totals."""
    block, groups = bounded.block, contributions.groups.value or 1
    norm = norm_of(accountant, groups)
    return Polls(
        block=block,
        totals=DeclaredTotals(
            block,
            contributions.groups.value or 1,
            norm,
            applies=not contributions.row_level,
            polled=contributions.polled,
        ),
        contributions=contributions,
        listed=0 if bounded.domain is None else max(1, len(bounded.domain)),
        norm=norm,
        either=accountant.vectors_help,
        norms=norms,
        identities=identities,
        first=first,
        voting=bounded.voting,
    )


def _centred(recipe: Recipe, call: BoundedCall) -> Parts:
    """Return the count and the centred sum that can replace the one part; empty if they cannot."""
    return () if recipe.centred is None else recipe.centred(call)


class _Columns:
    """The measurements of a block, each once, as columns of its released table.

    A count of rows with at most one per unit is a count of units (PRIVACY.md R31). It is called a
    row count where a unit is proved to have one row in a group, so that facts about rows apply. A
    measurement on a finer grid is converted for its reader: `finer` holds the formulas.
    """

    def __init__(self, identities: Identities, block: PrivateBlock) -> None:
        self._identities = identities
        self._one_row = block.several or block.max_rows_per_group == 1
        self.listed, self.finer = dict[Measurement, PartColumn](), dict[int, Expression]()

    @classmethod
    def of(cls, polls: Polls, identities: Identities, bounded: BoundedBlock) -> _Columns:
        """Return columns without measurements, except the count that private keys need."""
        columns = cls(identities, bounded.block)
        if bounded.domain is None:
            columns(polls.counted_units, 1.0)
        return columns

    @property
    def alone(self) -> tuple[tuple[PartColumn, ...], ...]:
        """The columns, each as a charge of its own."""
        return tuple((column,) for column in self.listed.values())

    @property
    def places(self) -> dict[Measurement, int]:
        """Ids of the columns by measurement."""
        return {part: column.field.id for part, column in self.listed.items()}

    def __call__(self, part: Measurement, adds: float) -> Ref:
        """Return the column of a measurement to which a typical row adds `adds`."""
        match part:
            case UnitCount(condition=condition) if self._one_row:
                part = RowCount(condition, 1)
            case RowCount(condition=condition, total_upper=1) if not self._one_row:
                part = UnitCount(condition)
            case _:
                pass
        if part not in self.listed:
            column = self._identities.field("part", part_type(part.released))
            self.listed[part] = PartColumn(part, column, adds)
        field = self.listed[part].field
        read = Ref(field.id, part_type(part.lattice))
        if isinstance(part, ScaledTotal):
            self.finer[field.id] = fitted(Ref(field.id, field.type), read.type)
            return read
        return Ref(field.id, field.type)


class _Alike:
    """Measurements by their canonical text: `1 <= x` and `x >= 1` are equal."""

    def __init__(self, rows: Relation) -> None:
        self._writer, self._by_text = Writer(), dict[str, Measurement]()
        self._writer.number(rows)

    def first(self, part: Measurement) -> Measurement:
        """Return the first equal measurement, so that none is made or named twice."""
        return self._by_text.setdefault(self._writer.write(part), part)
