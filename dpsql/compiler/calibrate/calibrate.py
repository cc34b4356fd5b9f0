"""calibrate: Bounded → PrivatePlan. Contribution bounds, sensitivities, noise and the charge.

One joint release per query, in which equal measurements are made once and share what it may spend
as its outputs err least.

Proof (PRIVACY.md R31, R34, R56). The event has the noise of every charge with the distance that it
was made for, every tree, choice and test, and what showing keys costs; a measurement has no part of
its own only where the charge before it is for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.accountants import Accountant, Allowance
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    MeasurementOptions,
    Parts,
    Recipe,
    part_type,
)
from dpsql.compiler.calibrate.choices import Payer, columns_of, event_of
from dpsql.compiler.calibrate.common_noise import events_of_noise, with_common_noise
from dpsql.compiler.calibrate.contributions import Contributions, contributions_of
from dpsql.compiler.calibrate.declared_limits import DeclaredTotals
from dpsql.compiler.calibrate.fixed_shares import Claim, with_claims
from dpsql.compiler.calibrate.key_selection import KeySelection, keys_selected, selection_events
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.calibrate.moment_vectors import Family, family_of, fitted
from dpsql.compiler.calibrate.polls import Polls, norm_of, of_shown
from dpsql.compiler.calibrate.propose_test_release import (
    events_of_tests,
    means_of,
    require_testable,
    tested,
)
from dpsql.compiler.calibrate.quantile_trees import HistogramQueries, planned, trees_of
from dpsql.compiler.calibrate.recipes import bounded_call, parts_of, recipe_of
from dpsql.compiler.calibrate.shared_totals import levels_of
from dpsql.compiler.calibrate.splitting import split
from dpsql.compiler.calibrate.strategies import (
    Measured,
    charges,
    least_error,
    paid_for,
    with_values,
)
from dpsql.compiler.calibrate.top_groups import with_top
from dpsql.compiler.calibrate.top_shapes import first_groups
from dpsql.compiler.calibrate.typed_ratios import both_additive, residual, typed_ratios
from dpsql.compiler.errors.outputs import apart, shown
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
    BlockPlan,
    Bounded,
    BoundedBlock,
    FoundNorm,
    Payment,
    PrivateBlock,
    PrivatePlan,
    Release,
)
from dpsql.compiler.plan.published_keys import Keys, ListedKeys
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.blocks import noise_of_one
from dpsql.model.algebra import Field, Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DOUBLE, Expression, Ref, Span
from dpsql.model.vocabulary import Event, EventPart, Neighbours, NoiseEvent, Norm
from dpsql.model.walk import refs, substitute


def calibrate(
    bounded: Bounded,
    accountant: Accountant,
    neighbours: Neighbours,
    options: MeasurementOptions,
    delta: Fraction,
    identities: Identities,
) -> PrivatePlan:
    """The plan of a query that may spend its epsilon, with δ up to `delta` for private keys.

    Raises `Refused` where a contribution has no limit, an argument no bound, an aggregate no
    recipe, or private keys no δ to be selected with.
    """
    options = replace(options, noise=noise_of_one(accountant, neighbours, options.epsilon, delta))
    measured = _measured(bounded, identities, options, accountant)
    polls = of_shown([m.polls for m in measured], bounded)
    for m in measured:
        require_testable(m.bounded, m.measurements.parts, accountant, neighbours)
    allowance, selection = _allowance(measured, accountant, options.epsilon, delta)
    measured = [_with_trees(m, allowance, accountant, neighbours, identities) for m in measured]
    measured = _apart(measured, with_values(bounded.outer, measured, identities))
    measured = least_error(measured, bounded.outer, accountant, allowance, identities)
    queries = [with_values(q, measured, identities) for q in (bounded.outer, *bounded.stages)]
    parts, outputs = charges(measured, queries[0])
    claims = _claims(measured, accountant, allowance, delta)
    shares = with_claims(split(parts, outputs, accountant.order), parts, claims)
    each = iter(shares)
    paid = [[allowance.share(next(each)) for _ in paid_for(m)] for m in measured]
    blocks = tuple(
        _released(m, Payer(accountant, neighbours, m.l0), own, selection, options)
        for m, own in zip(measured, paid, strict=True)
    )
    if not (claims or options.whole):
        blocks, queries = with_top(blocks, queries, paid, accountant)
    plan = _priced(blocks, queries, accountant, options.epsilon, shares)
    return replace(plan, polls=polls)


def _measured(
    bounded: Bounded, identities: Identities, options: MeasurementOptions, accountant: Accountant
) -> list[Measured]:
    """What is measured of each block, by what the query reads of it."""
    outer = bounded.outer
    first = first_groups(outer, [len(block.block.keys) for block in bounded.blocks])
    return [
        _measure(block, identities, options, accountant, typed_ratios(outer, n), first.get(n))
        for n, block in enumerate(bounded.blocks)
    ]


def _priced(
    blocks: tuple[BlockPlan, ...],
    queries: Sequence[Relation],
    accountant: Accountant,
    epsilon: Fraction,
    shares: Sequence[Fraction],
) -> PrivatePlan:
    """The plan of these blocks, with noise that groups share where that is better, and its cost."""
    outer, *stages = queries
    levels = levels_of(blocks, stages)
    blocks = with_common_noise(blocks, queries, levels, accountant)
    event = Event(tuple(part for block in blocks for part in _events(block)))
    return PrivatePlan(
        blocks=blocks,
        stages=tuple(stages),
        outer=outer,
        event=event,
        loss=accountant.loss(event),
        epsilon=epsilon,
        shares=tuple(shares),
        levels=levels,
    )


def _allowance(
    measured: list[Measured], accountant: Accountant, epsilon: Fraction, delta: Fraction
) -> tuple[Allowance, Fraction]:
    """What the query may spend, and the δ of each of its steps that need one."""
    private = [m for m in measured if m.bounded.domain is None]
    if private and not accountant.supports_selection:
        raise Refused(Reason.PRIVATE_KEYS_NEED_DELTA, private[0].bounded.block.span)
    steps = len(private) + sum(len(means_of(m.measurements.parts)) for m in measured)
    allowance = accountant.allowance(epsilon, delta, selects_keys=steps > 0)
    if not allowance.amount or (steps and not allowance.selection_delta):
        raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to spend")
    return allowance, allowance.selection_delta / max(1, steps)


def _measure(
    bounded: BoundedBlock,
    identities: Identities,
    options: MeasurementOptions,
    accountant: Accountant,
    ratios: Mapping[int, int],
    first: int | None,
) -> Measured:
    """The measurements a block needs, each once, and how its measures follow from them.

    Of its private groups perhaps only the `first` are shown, in the order of a number.
    """
    block, contributions = bounded.block, contributions_of(bounded)
    values, choices = list[Expression](), dict[ChoiceQuery, Field]()
    alike, named = _Alike(block.rows), _Columns(identities, block)
    polls = _polls(bounded, contributions, options.norms, accountant, identities, first)
    if bounded.domain is None:
        named(polls.counted_units, 1.0)
    families, sums = dict[int, Family](), dict[int, tuple[Measurement, Family]]()
    calls = [bounded_call(bounded, n, contributions, options) for n in range(len(block.measures))]
    for place, unlimited in enumerate(calls):
        if value := _over((place, ratios.get(place)), calls, polls, named, alike):
            values.append(value)
            continue
        recipe = recipe_of(unlimited.call)
        call, parts, needed = _limited((place, unlimited), recipe, polls, alike)
        adds = recipe.typical(call) if recipe.typical else (1.0,) * len(needed)
        if call.rows_proved and call.arguments and needed == parts and not call.searched:
            families |= _moments(recipe, call, needed, place)
            if family := family_of(tuple(map(alike.first, _centred(recipe, call)))):
                sums[place] = needed[0], family
        chosen = polls.swayed(_chosen(recipe, call))
        read = *map(named, needed, adds), *columns_of(chosen, choices, identities)
        values.append(substitute(recipe.combine(call, read), named.finer))
    alone = tuple((column,) for column in named.listed.values())
    measurements = Measurements(alone, tuple(values), families, sums, counted=polls.counting)
    histograms, nonnegative = HistogramQueries(choices), options.nonnegative
    measured = Measured(bounded, contributions, measurements, histograms, nonnegative)
    before = polls.held_before(named.places)
    return replace(measured, polls=before, norms=polls.released, totals=tuple(polls.totals.binding))


def _totals(block: PrivateBlock, contributions: Contributions, norm: Norm) -> DeclaredTotals:
    return DeclaredTotals(
        block,
        contributions.groups.value or 1,
        norm,
        applies=not contributions.row_level,
        polled=contributions.polled,
    )


def _limited(
    placed: tuple[int, BoundedCall], recipe: Recipe, polls: Polls, alike: _Alike
) -> tuple[BoundedCall, Parts, Parts]:
    """A call as it is measured, its measurements, and these with limits that are declared or
    found.
    """
    place, call = placed
    parts = tuple(map(alike.first, parts_of(polls.block, recipe, call)))
    if not call.searched:
        return call, parts, tuple(polls.bounded(part, place, call) for part in parts)
    call = polls.measured_from(call, recipe, parts, place)
    parts = tuple(map(alike.first, parts_of(polls.block, recipe, call)))
    return call, parts, tuple(polls.searched(part, place, call) for part in parts)


def _moments(recipe: Recipe, call: BoundedCall, parts: Parts, place: int) -> dict[int, Family]:
    family = family_of(parts, nan=call.arguments[0].may_be_nan) if recipe.moments else None
    return {place: family} if family else {}


def _over(
    places: tuple[int, int | None],
    calls: Sequence[BoundedCall],
    polls: Polls,
    named: _Columns,
    alike: _Alike,
) -> Expression | None:
    """A sum that is read only over another one, as what it is beyond about its ratio to that."""
    place, other = places
    if other is None:
        return None
    call, divisor = calls[place], calls[other]
    recipes = recipe_of(call.call), recipe_of(divisor.call)
    if not (call.searched and divisor.searched) or call.wide or divisor.wide:
        return None
    parts = [*parts_of(polls.block, recipes[0], call), *parts_of(polls.block, recipes[1], divisor)]
    if len(parts) != 2 or not both_additive(*parts):  # noqa: PLR2004
        return None
    x, y = map(alike.first, parts)
    assert isinstance(x, RowCount | ClippedSum)
    assert isinstance(y, RowCount | ClippedSum)
    if polls.totals.limited(x) != x:
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
    """What is asked of the units of a block, and what is declared of their totals."""
    block, groups = bounded.block, contributions.groups.value or 1
    norm = norm_of(accountant, groups)
    return Polls(
        block=block,
        totals=_totals(block, contributions, norm),
        contributions=contributions,
        listed=len(bounded.domain or ((),)),
        norm=norm,
        norms=norms,
        identities=identities,
        first=first,
    )


def _chosen(recipe: Recipe, call: BoundedCall) -> tuple[ChoiceQuery, ...]:
    return () if recipe.choices is None else recipe.choices(call)


def _centred(recipe: Recipe, call: BoundedCall) -> Parts:
    """The count and the centred sum that would do in the place of the one part, if they can."""
    nan = call.arguments[0].may_be_nan
    return () if nan or recipe.centred is None else recipe.centred(call)


class _Columns:
    """The measurements of a block, each once, as columns of its released table.

    Rows of which a unit counts one at most are its units (PRIVACY.md R31): they are called rows
    where it is proved to have one in a group, so that what is known of rows is known of them.
    What is measured on a finer grid is read as what was asked for: `finer` says how.
    """

    def __init__(self, identities: Identities, block: PrivateBlock) -> None:
        self._identities = identities
        self._one_row = block.several or block.max_rows_per_group == 1
        self.listed, self.finer = dict[Measurement, PartColumn](), dict[int, Expression]()

    @property
    def places(self) -> dict[Measurement, int]:
        """The identities of the columns."""
        return {part: column.field.id for part, column in self.listed.items()}

    def __call__(self, part: Measurement, adds: float) -> Ref:
        """The column of a measurement to which a row typically adds so much."""
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
    """Measurements by what they measure: `1 <= x` and `x >= 1` are written in one way."""

    def __init__(self, rows: Relation) -> None:
        self._writer, self._by_text = Writer(), dict[str, Measurement]()
        self._writer.number(rows)

    def first(self, part: Measurement) -> Measurement:
        """The first measurement of the same: none is made twice, and none has two names."""
        return self._by_text.setdefault(self._writer.write(part), part)


def _with_trees(
    measured: Measured,
    allowance: Allowance,
    accountant: Accountant,
    neighbours: Neighbours,
    identities: Identities,
) -> Measured:
    payer = Payer(accountant, neighbours, measured.l0)
    return replace(measured, histograms=planned(measured.histograms, allowance, payer, identities))


def _apart(measured: list[Measured], outer: Relation) -> list[Measured]:
    """The blocks with what counts as an output of its own: see `Apart`."""
    outputs = shown(outer, [m.fields for m in measured])
    return [replace(m, apart=apart(outputs, m.values, _deciding(m))) for m in measured]


def _claims(
    measured: list[Measured], accountant: Accountant, allowance: Allowance, delta: Fraction
) -> list[Claim]:
    """What single aggregates may spend by their own epsilon, as parts of the allowance.

    What is written once may stand for several: the elements of a list, groupings of ROLLUP.
    """
    selects = bool(allowance.selection_delta)
    columns, shares = dict[Span, frozenset[int]](), dict[Span, Fraction]()
    for m in measured:
        for measure, value in zip(m.bounded.block.measures, m.values, strict=True):
            call = measure.call
            if call.epsilon is not None:
                own = accountant.allowance(Fraction(call.epsilon), delta, selects_keys=selects)
                columns[call.span] = columns.get(call.span, frozenset()) | refs(value)
                shares[call.span] = own.amount / allowance.amount
    return [Claim(columns[span], share, span) for span, share in shares.items()]


def _deciding(measured: Measured) -> list[Field]:
    """The counts that are looked at: private keys are chosen by one, and so are tests."""
    tests = {mean.test for mean in means_of(measured.measurements.parts)}
    keys = measured.fields[:1] if measured.bounded.domain is None else ()
    return [
        *keys,
        *(column.field for column in measured.measurements.columns if column.part in tests),
    ]


def _released(
    measured: Measured,
    payer: Payer,
    allowances: list[Allowance],
    selection_delta: Fraction,
    options: MeasurementOptions,
) -> BlockPlan:
    contributions, bounded = measured.contributions, measured.bounded
    count = len(measured.measurements.paid)
    paid = zip(measured.measurements.paid, allowances[:count], strict=True)
    noisy = tuple(r for each in paid for r in _paid(measured, *each, payer))
    releases = tested(noisy, selection_delta, payer.l0)
    keys: Keys
    if bounded.domain is not None:
        keys = ListedKeys(bounded.domain, bounded.within)
    else:
        selection = _selection(measured, options)
        keys, releases = keys_selected(releases, payer, allowances[0], selection_delta, selection)
    chosen, trees = trees_of(measured.histograms, allowances[count:], payer)
    return BlockPlan(
        block=bounded.block,
        keys=keys,
        releases=releases,
        groups=contributions.groups,
        rows_per_group=contributions.rows_per_group,
        rows=contributions.rows,
        row_level=contributions.row_level,
        enforce_l0=contributions.enforce,
        choices=chosen,
        trees=trees,
        agreements=measured.measurements.agreed,
        norms=measured.norms,
        totals=measured.totals,
    )


def _selection(measured: Measured, options: MeasurementOptions) -> KeySelection:
    alone = not options.whole and measured.keys_alone
    return KeySelection(measured.measurements.counted, measured.rival, options.floor, alone)


def _paid(
    measured: Measured, together: tuple[PartColumn, ...], allowance: Allowance, payer: Payer
) -> Iterator[Release]:
    """The columns that share one payment."""
    size, neighbours = len(together), payer.neighbours
    (sensitivity,) = {measured.sensitivity(c, neighbours, size) for c in together}
    share = allowance.amount, allowance.noise_delta, sensitivity
    payment = Payment(
        noise=payer.accountant.noise(*share),
        sensitivity=sensitivity,
        columns=tuple(column.field.id for column in together),
        runner_up=payer.accountant.runner_up(*share),
    )
    return (Release(column.field, column.part, payment) for column in together)


def _events(block: BlockPlan) -> tuple[EventPart, ...]:
    losses = (
        *(event for payment in block.payments for event in events_of_noise(payment)),
        *(NoiseEvent(tree.noise, tree.sensitivity) for tree in block.trees),
        *map(event_of, block.choices),
    )
    return (*losses, *events_of_tests(block.releases), *selection_events(block.keys))
