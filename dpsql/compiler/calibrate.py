"""calibrate: Bounded → PrivatePlan. Contribution bounds, sensitivities, noise and the charge.

Implements privacy.md, sections 3 (L0 is proved before it is enforced), 5.1, 5.2 and 5.4: one joint
release per query, in which equal measurements are made once and share the query's epsilon equally.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accountants import Accountant, Allowance
from dpsql.aggregates.recipe import Wishes, part_type
from dpsql.algebra import Field, Item, OneRow, Project, Relation, Released
from dpsql.compiler.asking import asked_of, recipe_of
from dpsql.compiler.centred import about_centres
from dpsql.compiler.choices import Payer, columns_of, event_of
from dpsql.compiler.claims import Claim, with_claims
from dpsql.compiler.contributions import Contributions, contributions_of
from dpsql.compiler.disjoint import pooled
from dpsql.compiler.joint import Family, Measurements, together
from dpsql.compiler.key_selection import selection_events, with_keys_selected
from dpsql.compiler.levels import levels_of
from dpsql.compiler.outputs import NOTHING_APART, Apart, apart, shown
from dpsql.compiler.partitions import Limits, divided
from dpsql.compiler.quantile_trees import Wanted, made_of, planned
from dpsql.compiler.samples import noise_of_one
from dpsql.compiler.scopes import Identities
from dpsql.compiler.splitting import ROWS, Part, better, split
from dpsql.compiler.stable import events_of_tests, proposals, require_testable, tested
from dpsql.compiler.top import with_top
from dpsql.errors import Reason, Refused
from dpsql.grids import ChoiceQuery
from dpsql.model import Event, EventPart, Neighbours, NoiseEvent, Sensitivity
from dpsql.plan import (
    BlockPlan,
    Bounded,
    BoundedBlock,
    PartQuery,
    PrivatePlan,
    Release,
)
from dpsql.tree import Expression, Ref, Span
from dpsql.walk import map_inputs, refs, substitute

UNIT_COUNT = PartQuery(None, None, units=True)
"""How many units have a key: what private keys are selected by (privacy.md, section 5.4)."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A block with its contribution limits, what is measured of it, and what is chosen.

    `apart` are outputs of its own that the budget is split for, whatever way it is measured.
    """

    bounded: BoundedBlock
    contributions: Contributions
    made: Measurements
    wanted: Wanted
    nonnegative: bool
    apart: Apart = NOTHING_APART

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.made.fields, *self.wanted.fields)

    @property
    def l0(self) -> int:
        """The most groups of one unit, which is limited by now."""
        assert self.contributions.groups.value is not None
        return self.contributions.groups.value

    @property
    def values(self) -> tuple[Expression, ...]:
        return self.made.values


def calibrate(
    bounded: Bounded,
    accountant: Accountant,
    neighbours: Neighbours,
    wishes: Wishes,
    delta: Fraction,
    identities: Identities,
) -> PrivatePlan:
    """The plan of a query that may spend its epsilon, with δ up to `delta` for private keys.

    Raises `Refused` where a contribution has no limit, an argument no bound, an aggregate no
    recipe, or private keys no δ to be selected with.
    """
    wishes = replace(wishes, noise=noise_of_one(accountant, neighbours, wishes.epsilon, delta))
    measured = [_measure(block, identities, wishes) for block in bounded.blocks]
    for m in measured:
        require_testable(m.bounded, m.made.parts, accountant, neighbours)
    allowance, selection = _allowance(measured, accountant, wishes.epsilon, delta)
    measured = _apart(measured, _with_values(bounded.outer, measured, identities))
    measured = _best(measured, bounded.outer, accountant.order, identities)
    measured = [_with_trees(m, allowance, accountant, neighbours, identities) for m in measured]
    outer, *stages = (
        _with_values(relation, measured, identities)
        for relation in (bounded.outer, *bounded.stages)
    )
    parts, outputs = _charges(measured, outer)
    claims = _claims(measured, accountant, allowance, delta)
    shares = with_claims(split(parts, outputs, accountant.order), parts, claims)
    each = iter(shares)
    paid = [[allowance.share(next(each)) for _ in _paid(m)] for m in measured]
    blocks = tuple(
        _released(m, accountant, neighbours, own, selection, wishes)
        for m, own in zip(measured, paid, strict=True)
    )
    if not (claims or wishes.whole):
        blocks, (outer, *stages) = with_top(blocks, (outer, *stages), paid, accountant)
    event = Event(tuple(part for block in blocks for part in _events(block)))
    price = event, accountant.loss(event), wishes.epsilon, tuple(shares)
    return PrivatePlan(blocks, tuple(stages), outer, *price, levels_of(blocks, stages))


def _allowance(
    measured: list[_Measured], accountant: Accountant, epsilon: Fraction, delta: Fraction
) -> tuple[Allowance, Fraction]:
    """What the query may spend, and the δ of each of its steps that need one."""
    private = [m for m in measured if m.bounded.domain is None]
    if private and not accountant.supports_selection:
        raise Refused(Reason.PRIVATE_KEYS_NEED_DELTA, private[0].bounded.block.span)
    steps = len(private) + sum(len(proposals(m.made.parts)) for m in measured)
    allowance = accountant.allowance(epsilon, delta, selects_keys=steps > 0)
    if not allowance.amount or (steps and not allowance.selection_delta):
        raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to spend")
    return allowance, allowance.selection_delta / max(1, steps)


def _measure(bounded: BoundedBlock, identities: Identities, wishes: Wishes) -> _Measured:
    """The measurements a block needs, each once, and how its measures follow from them."""
    block = bounded.block
    contributions = contributions_of(bounded)
    parts, typical = dict[PartQuery, Field](), dict[PartQuery, float]()
    choices: dict[ChoiceQuery, Field] = {}

    def named(part: PartQuery, adds: float) -> Ref:
        if contributions.row_level:
            part = replace(part, units=False)
        field = parts.get(part) or identities.field("part", part_type(part.released))
        parts[part] = field
        typical.setdefault(part, adds)
        return Ref(field.id, field.type)

    if bounded.domain is None:
        named(UNIT_COUNT, 1.0)
    values: list[Expression] = []
    families, sums = dict[int, Family](), dict[int, tuple[PartQuery, Family]]()
    for measure, arguments in zip(block.measures, bounded.arguments, strict=True):
        recipe = recipe_of(measure.call)
        asked = asked_of(block, measure.call, arguments, contributions, wishes)
        needed = recipe.parts(asked)
        adds = recipe.typical(asked) if recipe.typical else (1.0,) * len(needed)
        if asked.rows_proved and arguments:
            nan = arguments[0].may_be_nan
            if recipe.moments:
                families[len(values)] = Family(*needed, nan=nan)
            if not nan and recipe.centred and (centred := recipe.centred(asked)):
                sums[len(values)] = needed[0], Family(*centred)
        columns = tuple(map(named, needed, adds))
        if recipe.choices is not None:
            columns += columns_of(recipe.choices(asked), choices, identities)
        values.append(recipe.combine(asked, columns))
    alone = (False,) * len(parts)
    table = tuple(parts), tuple(parts.values()), tuple(values), tuple(typical.values())
    made = Measurements(*table, alone, families, sums)
    return _Measured(bounded, contributions, made, Wanted(choices), wishes.nonnegative)


def _best(
    measured: list[_Measured], outer: Relation, order: int, identities: Identities
) -> list[_Measured]:
    """The same blocks, measured as the outputs err least: see `_ways`."""

    def charged(way: list[_Measured]) -> tuple[list[Part], list[Expression]]:
        return _charges(way, _with_values(outer, way, identities))

    best, *others = _ways(measured, order, identities)
    for way in others:
        if better(charged(way), charged(best), order):
            best = way
    return best


def _ways(
    measured: list[_Measured], order: int, identities: Identities
) -> Iterator[list[_Measured]]:
    """As asked for, sums about their centres, and moments together where noise is Laplace's."""
    centred = [replace(m, made=about_centres(m.made, identities)) for m in measured]
    for way in [measured] if centred == measured else [measured, centred]:
        yield from _pooled(way, order, identities)
        if order == 1:
            continue
        joined = [
            replace(m, made=together(m.made, identities))
            if m.made.families and m.bounded.domain is not None
            else m
            for m in way
        ]
        if joined != way:
            yield from _pooled(joined, order, identities)


def _with_trees(
    measured: _Measured,
    allowance: Allowance,
    accountant: Accountant,
    neighbours: Neighbours,
    identities: Identities,
) -> _Measured:
    payer = Payer(accountant, neighbours, measured.l0)
    return replace(measured, wanted=planned(measured.wanted, allowance, payer, identities))


def _pooled(way: list[_Measured], order: int, identities: Identities) -> Iterator[list[_Measured]]:
    """Disjoint rows paid for once; where noise is Laplace's, wholes also as sums of their parts."""
    made = [_divided(m, identities, wholes=True) for m in way]
    yield made
    if order > 1 and any(m.made.agreements for m in made):
        yield [_divided(m, identities, wholes=False) for m in way]


def _divided(measured: _Measured, identities: Identities, *, wholes: bool) -> _Measured:
    proved = measured.bounded.block.max_rows
    if proved is None or proved != measured.contributions.rows_per_group.value:
        return measured
    threshold = int(measured.bounded.domain is None)
    limits = Limits(proved, threshold, measured.bounded.tested, measured.nonnegative)
    made = divided(measured.made, limits, identities, wholes=wholes)
    return replace(measured, made=pooled(made, proved))


def _charges(measured: list[_Measured], outer: Relation) -> tuple[list[Part], list[Expression]]:
    """What shares of the budget pay for, in the order of blocks, and the outputs they serve."""
    parts = [part for m in measured for part in _paid(m)]
    outputs = shown(outer, [m.fields for m in measured])
    return parts, outputs + [output for m in measured for output in m.apart.of(m.values)]


def _apart(measured: list[_Measured], outer: Relation) -> list[_Measured]:
    """The blocks with what counts as an output of its own: see `Apart`."""
    outputs = shown(outer, [m.fields for m in measured])
    return [replace(m, apart=apart(outputs, m.values, _deciding(m))) for m in measured]


def _claims(
    measured: list[_Measured], accountant: Accountant, allowance: Allowance, delta: Fraction
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


def _deciding(measured: _Measured) -> list[Field]:
    """The counts that are looked at: private keys are chosen by one, and so are tests."""
    tests = {proposal.test for proposal in proposals(measured.made.parts)}
    made = zip(measured.made.parts, measured.made.fields, strict=True)
    keys = measured.fields[:1] if measured.bounded.domain is None else ()
    return [*keys, *(field for part, field in made if part in tests)]


def _paid(m: _Measured) -> Iterator[Part]:
    """What shares of the budget pay for in one block: its measurements, then its choices."""
    for charge in m.made.charges:
        yield Part(
            tuple(m.fields[n].id for n in charge),
            m.made.parts[charge[0]].reach,
            tuple(ROWS * m.made.typical[n] for n in charge),
        )
    yield from m.wanted.parts


def _released(
    measured: _Measured,
    accountant: Accountant,
    neighbours: Neighbours,
    allowances: list[Allowance],
    selection_delta: Fraction,
    wishes: Wishes,
) -> BlockPlan:
    contributions, lone, l0 = measured.contributions, measured.made.alone, measured.l0

    def release(place: int, allowance: Allowance) -> Release:
        part, field = measured.made.parts[place], measured.fields[place]
        sensitivity = Sensitivity(l0, part.total_lower, part.total_upper, neighbours, lone(place))
        share = allowance.amount, allowance.noise_delta, sensitivity
        noise, other = accountant.noise(*share), accountant.runner_up(*share)
        return Release(field, part, sensitivity, noise, measured.made.joint[place], other)

    paid = zip(measured.made.charges, allowances, strict=False)
    releases = tuple(release(n, allowance) for charge, allowance in paid for n in charge)
    rest, payer = allowances[len(measured.made.charges) :], Payer(accountant, neighbours, l0)
    chosen, trees = made_of(measured.wanted, rest, payer)
    plan = BlockPlan(
        measured.bounded.block,
        measured.bounded.domain,
        None,
        tested(releases, selection_delta),
        contributions.groups,
        contributions.rows_per_group,
        contributions.rows,
        contributions.row_level,
        contributions.enforce,
        choices=chosen,
        trees=trees,
        agreements=measured.made.agreed,
        within=measured.bounded.within,
    )
    if plan.domain is not None:
        return plan
    plan = replace(plan, floor=wishes.floor, keys_alone=_keys_alone(measured, wishes))
    return with_keys_selected(plan, accountant, neighbours, allowances[0], selection_delta)


def _keys_alone(measured: _Measured, wishes: Wishes) -> bool:
    asked = frozenset[int]().union(*map(refs, measured.values))
    return not wishes.whole and asked.isdisjoint(f.id for f in measured.fields)


def _events(block: BlockPlan) -> tuple[EventPart, ...]:
    losses = (
        *(NoiseEvent(r.noise, r.sensitivity) for r in block.releases if not r.joint),
        *(NoiseEvent(tree.noise, tree.sensitivity) for tree in block.trees),
        *map(event_of, block.choices),
    )
    return (*losses, *events_of_tests(block.releases), *selection_events(block))


def _with_values(outer: Relation, measured: list[_Measured], identities: Identities) -> Relation:
    """A query with each released table followed by the measures computed from it.

    A table that is read twice has columns of its own each time.
    """

    def expand(relation: Relation) -> Relation:
        if not isinstance(relation, Released):
            return map_inputs(relation, expand)
        block = measured[relation.block]
        keys = relation.fields[: len(block.bounded.block.keys)]
        measures = relation.fields[len(keys) :]
        parts = tuple(identities.field(f.name, f.type) for f in block.fields)
        known = (*(key.field for key in block.bounded.block.keys), *block.fields)
        here = zip(known, keys + parts, strict=True)
        read = {old.id: Ref(new.id, new.type) for old, new in here}
        items = [Item(f, Ref(f.id, f.type)) for f in keys]
        items += [
            Item(f, substitute(block.values[place], read))
            for f, place in zip(measures, relation.measures, strict=True)
        ]
        # One group of which nothing is measured is one row without columns.
        there = replace(relation, fields=keys + parts) if keys + parts else OneRow()
        return Project(there, tuple(items))

    return expand(outer)
