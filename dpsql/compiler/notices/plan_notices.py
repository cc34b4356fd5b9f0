"""Notices about the limits that a plan enforces without proof, and about useless answers.

A bound is proved if it follows from types, constraints, recorded facts and the text alone. So the
facts of every argument and key are inferred again, from a policy without the bounds, values and row
limits that the owner only declares. A clipping bound that holds there too removes nothing.

A useless answer is detected before anything is charged. The text may leave so few units, as an
equality of a key with a constant does, or so few may be expected (`expected_rows`), that their
whole contribution is within the noise, or below the threshold of private keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from fractions import Fraction
from functools import partial
from math import inf

from dpsql.compiler.aggregates.recipe import BoundedCall, MeasurementOptions, counted, row_bounds
from dpsql.compiler.calibrate.choices import guarantee, rank_error
from dpsql.compiler.calibrate.contributions import contributions_of
from dpsql.compiler.calibrate.declared_limits import is_of_rows
from dpsql.compiler.calibrate.recipes import bounded_call, recipe_of
from dpsql.compiler.infer.column_facts import Columns, Evaluate, FactSource, PublicData
from dpsql.compiler.notices.fed_columns import FedColumns, split_by_side
from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.lattices import ChoiceQuery, ContributedRows
from dpsql.functions.dates import UNITS, later, naive
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.norm_bounds import visible_from
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Join,
    Limit,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    Union,
    Window,
)
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.intervals import Bound, Interval
from dpsql.model.notices import (
    Assumed,
    Clipped,
    ColumnNotice,
    CountedKeys,
    CutSide,
    Drowned,
    Ends,
    FewValues,
    Hidden,
    Listed,
    NeverShown,
    Notice,
    OfShown,
    Ranked,
    RankedBy,
    Sampled,
    Scaled,
    SharedPresence,
    TooFew,
    Unprotected,
)
from dpsql.model.tree import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    JoinKind,
    Literal,
    Ref,
    Star,
    Value,
    WindowCall,
)
from dpsql.model.vocabulary import FactKind, Policy, TablePolicy
from dpsql.model.walk import map_inputs, relations


def notices(
    bounded: private_plan.Bounded,
    plan: private_plan.PrivatePlan,
    policy: Policy,
    public: PublicData,
    evaluate: Evaluate,
    options: MeasurementOptions,
) -> tuple[Notice, ...]:
    """Return the notices of every answer of the plan, in the order of its blocks, each once.

    Units that the owner leaves unprotected are named with every answer, because the guarantee
    excludes them.
    """
    limit = policy.limits.max_public_groups
    plain = FactSource(undeclared(policy), public, evaluate, limit)
    fed = FedColumns.of(bounded.outer, len(bounded.outer.fields))
    units = policy.unit.table
    declared = FactSource(policy, public, evaluate, limit)
    each_block = partial(
        _Block, units=units, plain=plain, declared=declared, fed=fed, options=options
    )
    cuts: dict[ColumnNotice, tuple[int, ...]] = {}
    ranked = list[Ranked]()
    for number, (block, block_plan) in enumerate(zip(bounded.blocks, plan.blocks, strict=True)):
        here = each_block(number=number, bounded=block, plan=block_plan)
        for notice in here.notices():
            alone = replace(notice, columns=())
            cuts[alone] = tuple(sorted({*cuts.get(alone, ()), *notice.columns}))
        ranked += here.ranked() if block_plan.choices else ()
    marked_cuts = [replace(notice, columns=columns) for notice, columns in cuts.items()]
    drowned = useless(plan, declared, policy)
    unprotected = [
        (t.name, name) for t in policy.tables for link in t.unprotected for name in link.columns
    ]
    numbers = _numbers(bounded, fed) if unprotected else ()
    others: list[Notice] = [Unprotected(numbers, table, column) for table, column in unprotected]
    others += _together(ranked) if ranked else ()
    grouped = any(block.block.keys for block in plan.blocks)
    counted = dict.fromkeys(_counted(plan)) if grouped else ()
    return (*marked_cuts, *others, *counted, *drowned)


def _together(ranked: Sequence[Ranked]) -> Iterator[Ranked]:
    """Yield one notice for all columns with the same guarantee, the weakest of each column."""
    worst: dict[tuple[int, RankedBy], int] = {}
    for each in ranked:
        for place in each.outputs:
            worst[place, each.by] = max(each.rows, worst.get((place, each.by), 0))
    outputs: dict[tuple[RankedBy, int], list[int]] = {}
    for (place, by), rows in worst.items():
        outputs.setdefault((by, rows), []).append(place)
    yield from (Ranked(tuple(sorted(each)), by, rows) for (by, rows), each in outputs.items())


def _values_of(query: ChoiceQuery) -> tuple[object, ...]:
    """Return the values and the aim of a choice, without the limit on rows that may be found."""
    return query.histogram.argument, query.histogram.condition, query.aim


def _numbers(bounded: private_plan.Bounded, fed: FedColumns) -> tuple[int, ...]:
    """Return the columns with measured numbers; all columns if only keys are released."""
    measured = (
        fed.measures(number, len(block.block.keys), place)
        for number, block in enumerate(bounded.blocks)
        for place in range(len(block.block.measures))
    )
    numbers = sorted(set[int]().union(*measured))
    return tuple(numbers or range(len(bounded.outer.fields)))


# --- what is proved ---


def undeclared(policy: Policy) -> Policy:
    """Return the policy without the owner's mere declarations about values of private columns."""

    def plain(table: TablePolicy) -> TablePolicy:
        columns = tuple(
            c
            if c.enforced or c.bounds is c.values is None
            else replace(c, bounds=None, values=None)
            for c in table.columns
        )
        return replace(table, columns=columns) if table.private else table

    return policy.with_tables(plain)


def _unlimited(relation: Relation) -> Relation:
    """Return the relation without the owner's limits on the rows within one unit."""
    below = map_inputs(relation, _unlimited)
    return replace(below, rows=None) if isinstance(below, Aggregate | Window) else below


# --- what one block enforces ---


@dataclass(frozen=True, slots=True)
class _Block:
    number: int
    bounded: private_plan.BoundedBlock
    plan: private_plan.BlockPlan
    units: str
    plain: FactSource
    declared: FactSource
    fed: FedColumns
    options: MeasurementOptions

    @property
    def block(self) -> private_plan.PrivateBlock:
        return self.bounded.block

    def notices(self) -> Iterator[ColumnNotice]:
        keys, measured = len(self.block.keys), range(len(self.block.measures))
        every = [self.fed.measures(self.number, keys, n) for n in measured]
        alike = partial(self.fed.errs_alike, self.number, keys)
        limited = any(fact.kind is FactKind.MAX_ROWS for fact in self.block.facts)
        rows = self.block.rows if limited else _unlimited(self.block.rows)
        proved = Columns(rows, self.plain)
        for place, columns in enumerate(every):
            for notice in self._measure(place, columns, proved):
                if isinstance(notice, Listed):
                    yield notice
                    continue
                for side, shown in split_by_side(notice.side, columns, alike(place)):
                    yield replace(notice, columns=shown, side=side)
        numbers = tuple(sorted(set[int]().union(*every)))
        if self.plan.agreements:
            yield from self._agreeing(numbers, proved)
        for bound in self.plan.norms:
            if bound.measure is not None:
                columns, same = every[bound.measure], alike(bound.measure)
                yield from self._scaled(bound, bound.measure, columns, same)
        if self.plan.enforce_l0:
            yield from self._sampled(every, alike)
        if self.block.keys:
            yield from self._keys(proved)

    def ranked(self) -> Iterator[Ranked]:
        """Yield what the mechanisms guarantee of chosen values, whose errors are unknown."""
        keys, contributions = len(self.block.keys), contributions_of(self.bounded)
        for place, measure in enumerate(self.block.measures):
            recipe = recipe_of(measure.call)
            if recipe.choices is None:
                continue
            call = bounded_call(self.bounded, place, contributions, self.options)
            values = {_values_of(query) for query in recipe.choices(call)}
            outputs = self.fed.measures(self.number, keys, place)
            chosen = (each for each in self.plan.choices if _values_of(each.query) in values)
            for sure in filter(None, map(guarantee, chosen)):
                by, rows = sure
                yield Ranked(outputs, by, rows)

    def _scaled(
        self,
        bound: private_plan.ContributionBound,
        measure: int,
        columns: tuple[int, ...],
        alike: frozenset[int],
    ) -> Iterator[Scaled | SharedPresence]:
        norm = bound.norm
        if bound.groups is not None:
            above, visible = (None, True) if norm is None else (norm.above, norm.visible)
            yield SharedPresence(columns, self.units, bound.groups, above, visible)
        elif norm is not None:
            for side, shown in split_by_side(self._side(bound, measure), columns, alike):
                yield Scaled(
                    shown,
                    self.units,
                    bound.what,
                    bound.most,
                    above=norm.above,
                    visible=norm.visible,
                    side=side,
                    guess=norm.bias is not None and norm.bias.guess,
                    over_groups=bound.over_groups,
                    covered=norm.bias in [biased.bias for biased in self.plan.biased],
                )

    def _side(self, bound: private_plan.ContributionBound, measure: int) -> CutSide:
        """Return the side of the truth for a measure from which something is missing."""
        signs = {(False, True): CutSide.ABOVE, (True, False): CutSide.BELOW}
        side = signs.get((bound.negative, bound.positive), CutSide.EITHER)
        function = self.block.measures[measure].call.function
        return side if function in {"sum", "count"} else CutSide.EITHER

    def _missing_side(self, place: int) -> CutSide:
        """Return the side of the truth for a measure from which rows or groups are left out."""
        match self.block.measures[place].call, self.bounded.arguments[place]:
            case AggregateCall("count"), _:
                return CutSide.ABOVE
            case AggregateCall("sum"), (facts, *_) if facts.interval.is_nonnegative:
                return CutSide.ABOVE
            case AggregateCall("sum"), (facts, *_) if (-facts.interval).is_nonnegative:
                return CutSide.BELOW
            case _:
                return CutSide.EITHER

    def _sampled(
        self, every: Sequence[tuple[int, ...]], alike: Callable[[int], frozenset[int]]
    ) -> Iterator[Sampled]:
        """Yield notices about groups that are not kept; a norm on the same measure gives
        the side.
        """
        norms = {
            bound.measure: self._side(bound, bound.measure)
            for bound in self.plan.norms
            if bound.measure is not None
        }
        columns = dict[CutSide, set[int]]() if every else {CutSide.EITHER: set()}
        for place, of_measure in enumerate(every):
            measured = norms.get(place, self._missing_side(place))
            for side, shown in split_by_side(measured, of_measure, alike(place)):
                columns.setdefault(side, set()).update(shown)
        for side, places in columns.items():
            yield Sampled(tuple(sorted(places)), self.units, self.plan.l0, side)

    def _measure(
        self, place: int, columns: tuple[int, ...], proved: Columns
    ) -> Iterator[Clipped | FewValues | Listed]:
        call, side = self.block.measures[place].call, self._missing_side(place)
        recipe = recipe_of(call)
        bounded = bounded_call(self.bounded, place, contributions_of(self.bounded), self.options)
        parts = [part for part in recipe.parts(bounded) if not isinstance(part, kinds.BlockAverage)]
        choices = () if recipe.choices is None else recipe.choices(bounded)
        additive = list(filter(kinds.adds_rows, parts))
        grouped, rows, in_all = bool(self.block.keys), None, self._rows_in_all(additive)
        samples = (choice.histogram for choice in choices)
        hashed = [h.rows for h in samples if h.contributed is ContributedRows.HASHED]
        if additive and not bounded.rows_proved:
            rows = bounded.rows
        elif hashed and not bounded.searched:
            rows = min(hashed)
        for values_of_unit in _sets(parts):
            if not bounded.searched and _is_cut(bounded, values_of_unit):
                yield FewValues(columns, self.units, grouped, values_of_unit.total_upper, side)
        values: tuple[Ends, ...] = ()
        if choices or any(isinstance(p, kinds.ValueTotal) for p in parts):
            values = tuple(self._clipped_values(bounded, proved))
        if in_all not in {0, rows}:
            yield Clipped(columns, self.units, grouped=False, rows=in_all, side=side)
        if rows is not None or values:
            total = _total(additive) if call.function == "sum" and rows is not None else None
            yield Clipped(
                columns=columns,
                units=self.units,
                grouped=grouped and in_all != rows,
                rows=rows,
                values=values,
                total=total,
                side=CutSide.EITHER if values else side,
            )
        if bounded.arguments and _counts_listed(bounded, parts, choices):
            listed = bounded.arguments[0].domain or ()
            if _beyond(proved.facts(call.args[0]).domain, listed):
                yield Listed(columns, None, len(listed))

    def _clipped_values(self, bounded: BoundedCall, proved: Columns) -> Iterator[Ends]:
        """Yield the clipping bounds of arguments that have others than a limit of rows."""
        if bounded.wide:
            origin = replace(self.declared, most_rows=kinds.MOST_ROWS, clips=True)
            if Columns(self.block.rows, origin).facts(bounded.expression).interval.is_bounded:
                return
        yield from _clipped(bounded, proved)

    def _rows_in_all(self, parts: Sequence[kinds.Measurement]) -> int:
        """Return the declared limit on a unit's rows over all groups, if a total of one of these
        parts is scaled to it; else 0.
        """
        most = self.block.declared.rows_per_unit or 0
        scaled = (q for q in self.plan.queries if isinstance(q, kinds.ScaledTotal))
        return most if any(q.total in parts and is_of_rows(q, most) for q in scaled) else 0

    def _agreeing(self, columns: tuple[int, ...], proved: Columns) -> Iterator[Assumed]:
        """Yield notices about declared values that parts and totals assume when they are made to
        agree.
        """
        for expression, facts in self.bounded.tested.items():
            domain = facts.domain
            if domain is None or not isinstance(expression, Ref):
                continue
            if _beyond(proved.facts(expression).domain, domain):
                yield Assumed(columns, len(domain))

    def _keys(self, proved: Columns) -> Iterator[Listed | Hidden | OfShown]:
        keys = self.block.keys
        places = [self.fed.keys(self.number, n) for n in range(len(keys))]
        every = tuple(sorted(set[int]().union(*places)))
        needed = self.plan.keys.units_needed
        hidden = needed is not None or self.bounded.shown
        if hidden and (totals := self.fed.over_groups(self.number)):
            yield OfShown(totals)
        if needed is not None:
            yield Hidden(every, self.units, needed)
        elif self.block.groups is None and not self.bounded.shown:
            for n, key in enumerate(keys):
                listed = tuple({row[n] for row in self.bounded.domain or ()} - {None})
                facts = proved.image(key.expression) or proved.facts(key.expression)
                if _beyond(facts.domain, listed):
                    ends = _ends(key.expression, listed)
                    yield Listed(places[n], key.field.name, len(listed), ends)


def _ends(key: Expression, listed: Sequence[Value]) -> Ends | None:
    """Return the least and the largest listed key, if all keys between them are listed."""
    if all(type(value) is int for value in listed):
        numbers = sorted(value for value in listed if isinstance(value, int))
        return _first_and_last(numbers, [n + 1 for n in numbers])
    key = key.arg if isinstance(key, Cast) else key
    match key:
        case Call("date_trunc", (Literal(str() as part), *_)) if part in UNITS:
            truncate, step = UNITS[part]
            moments = sorted(naive(value) for value in listed if isinstance(value, date))
            ends = _first_and_last(moments, [truncate(later(m, step) or m) for m in moments])
            return ends if ends and len(moments) == len(listed) else None
    return None


def _first_and_last(values: Sequence[Value], following: Sequence[Value]) -> Ends | None:
    """Return both ends of sorted values, if each is the one that follows the one before."""
    return (values[0], values[-1]) if values and [*values[1:]] == [*following[:-1]] else None


def _counts_listed(
    bounded: BoundedCall, parts: Sequence[kinds.Measurement], choices: Sequence[ChoiceQuery]
) -> bool:
    """Test whether only listed values of the argument count; numbers beyond a grid are clipped."""
    if bounded.call.distinct:
        return any(values.condition != counted(bounded) for values in _sets(parts))
    kind = None if bounded.argument is None else bounded.argument.type
    clipped = kind is not None and (kind.is_numeric or kind.is_temporal)
    return bounded.call.function == "histogram" or (bool(choices) and not clipped)


def _sets(parts: Sequence[kinds.Measurement]) -> tuple[kinds.DistinctCount, ...]:
    """Return the sets of values that are counted or summed, each once."""
    sets = (
        part.values for part in parts if isinstance(part, kinds.DistinctCount | kinds.DistinctSum)
    )
    return tuple(dict.fromkeys(sets))


def _beyond(proved: tuple[Value, ...] | None, values: Sequence[Value]) -> bool:
    """Test whether there may be values outside the listed ones."""
    return proved is None or not set(proved) <= set(values)


def _is_cut(bounded: BoundedCall, part: kinds.DistinctCount) -> bool:
    """Test whether a unit may have more distinct values than are counted."""
    domain = bounded.argument.domain if bounded.argument is not None else None
    possible = [1] * bounded.one_value + [bounded.rows] * bounded.rows_proved
    possible += [] if domain is None else [len(domain)]
    return not any(most is not None and most <= part.total_upper for most in possible)


def _total(parts: Sequence[kinds.Measurement]) -> Ends | None:
    """Return the clipping bounds of a unit's total in a sum of one part, in its own units."""
    if len(parts) != 1:
        return None
    (part,) = parts
    step = part.released.step
    return _number(part.total_lower * step), _number(part.total_upper * step)


def _clipped(bounded: BoundedCall, proved: Columns) -> Iterator[Ends]:
    """Yield the clipping bounds of arguments with values that may lie outside."""
    for place, facts in enumerate(bounded.arguments):
        argument = bounded.call.args[place]
        if isinstance(argument, Star | Literal):
            continue
        interval = proved.facts(argument).interval
        if facts.type.is_numeric:
            bounds = row_bounds(bounded, place)
            step = bounds.lattice.step
            low, high = bounds.lower * step, bounds.upper * step
            if not _inside(interval, low, high):
                yield _number(low), _number(high)
        elif facts.type.is_temporal and facts.interval.is_bounded:
            lower, upper = facts.interval.lo, facts.interval.hi
            assert isinstance(lower, date)
            assert isinstance(upper, date)
            if not _inside(interval, lower, upper):
                yield lower, upper


def _inside(interval: Interval, lower: Bound, upper: Bound) -> bool:
    ends = Interval(lower, upper)
    return interval.is_bounded and all(
        e is not None and ends.contains(e) for e in (interval.lo, interval.hi)
    )


def _number(value: Fraction) -> Value:
    """Return a number on a grid as a value: whole, or with its digits."""
    return int(value) if value.denominator == 1 else float(value)


def useless(
    plan: private_plan.PrivatePlan, origin: FactSource, policy: Policy
) -> Iterator[Drowned | NeverShown]:
    """Yield the reason why no part of the answer can be useful; nothing if some part may be."""
    reasons = [_reason(block, origin, policy) for block in plan.blocks]
    if reasons and all(reason is not None for reason in reasons):
        yield from (reason for reason in reasons[:1] if reason is not None)


def _reason(
    plan: private_plan.BlockPlan, origin: FactSource, policy: Policy
) -> Drowned | NeverShown | None:
    most, units = _most_units(plan.block, origin, policy), policy.unit.table
    if most is None:
        return None
    needed = plan.keys.units_needed
    if needed is not None and needed > most:
        return NeverShown(units, most, needed)
    noise = list(_noise_in_units(plan))
    if noise and min(noise) >= most:
        return Drowned(units, most, min(noise))
    return None


def too_few(plan: private_plan.PrivatePlan, origin: FactSource, policy: Policy) -> Iterator[TooFew]:
    """Yield the polls that may miss a bound, even if all units are alike.

    The answer may be of use all the same, if the largest count is that of the units.
    """
    for block in plan.blocks:
        most = _most_units(block.block, origin, policy)
        needed = visible_from(block.releases[0].noise)
        if isinstance(block.block.vote, kinds.Vote) and most is not None and most < needed:
            yield TooFew(policy.unit.table, needed, most)


def _noise_in_units(plan: private_plan.BlockPlan) -> Iterator[float]:
    """Yield how many units change each number by as much as its 95 % half-width."""
    for release in plan.releases:
        query = release.query
        width = (query.total_upper - query.total_lower) * query.lattice.step
        yield margin(release.noise) * float(query.released.step / width) if width else inf
    for choice in plan.choices:
        yield rank_error(choice) / choice.query.histogram.rows
    for tree in plan.trees:
        yield tree.error * margin(tree.noise) / standard_deviation(tree.noise) / tree.histogram.rows


def _most_units(block: private_plan.PrivateBlock, origin: FactSource, policy: Policy) -> int | None:
    """Return the most units that the text leaves; None for any number.

    It is the number of values of a unit's key in every row, or the expected number of rows.
    """
    rows = Columns(block.rows, origin)
    domains, expected = [rows.facts(block.unit).domain], [policy.unit.table]
    parts = tuple(relations(block.rows))
    if not any(
        isinstance(p, Union) or (isinstance(p, Join) and p.kind is not JoinKind.INNER)
        for p in parts
    ):
        domains += [rows.column(field.id).domain for part in parts for field in _key(part, policy)]
        expected += [part.table for part in parts if isinstance(part, Scan)]
    tables = [table for table in map(policy.table, expected) if table and table.private]
    sizes = [None if domain is None else len(domain) for domain in domains]
    return private_plan.least(*sizes, *(table.expected_rows for table in tables))


def _key(part: Relation, policy: Policy) -> tuple[Field, ...]:
    """Return the key of a private table, if it is one column: no two units share a row."""
    table = policy.table(part.table) if isinstance(part, Scan) else None
    if not isinstance(part, Scan) or table is None or not table.private or len(table.key) != 1:
        return ()
    return tuple(f for f in part.fields if f.name.lower() == table.key[0].lower())


def _counted(plan: private_plan.PrivatePlan) -> Iterator[CountedKeys]:
    for relation in relations(plan.outer):
        match relation:
            case Aggregate(input=source, measures=measures):
                calls: list[AggregateCall | WindowCall] = [m.call for m in measures]
            case Window(input=source, items=items):
                calls = [item.call for item in items]
            case _:
                continue
        block, functions = _groups_of(source, plan.blocks), {call.function for call in calls}
        if block is None or block.lists_shown:
            continue
        keys = tuple(key.field.name for key in block.block.keys)
        if block.domain is None and "count" in functions:
            yield CountedKeys(keys)
        elif block.domain is not None and isinstance(relation, Aggregate) and functions - {"sum"}:
            yield CountedKeys(keys, len(block.domain))


def _groups_of(
    relation: Relation, blocks: Sequence[private_plan.BlockPlan]
) -> private_plan.BlockPlan | None:
    """Return the block with the rows of a relation as its groups; None if they are not, or all are
    one group.
    """
    match relation:
        case Released(block=number):
            return blocks[number] if blocks[number].block.keys else None
        case Project() | Filter() | Sort() | Limit() | Window():
            return _groups_of(relation.input, blocks)
        case _:
            return None
