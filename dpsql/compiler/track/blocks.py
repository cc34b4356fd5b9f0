"""The private blocks of a query: an aggregate written twice is one block, released once.

Proof (PRIVACY.md R7, R11, R14). A block reads a stable relation, so that its groups are sums over
units. A unit's copied rows have no more distinct values in their own columns than there were rows
before.

A public LEFT JOIN private pads: a public row without a private one is shown with NULLs. Its groups
are the public keys, and an aggregate that skips NULLs does not see the padding. Any other use is
refused.

Proof (PRIVACY.md R9, R10, R14). A row stays or becomes one row by a function of it. The unit is the
column itself, not an expression over it. A padding row is never seen: aggregates are NULL where it
is, and unproved cases are refused (SECURITY.md S7).

A block of units in SAMPLE_AGGREGATE is to its aggregates what one unit is to those of GROUP BY
unit. Its rows are read in an order that depends on other units' rows, and no result may depend on
it.

Proof (PRIVACY.md R18, R37). The result of an aggregate over a block does not depend on the order of
its rows, and it cannot fail.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TypeVar, cast

from dpsql import functions
from dpsql.accountants import Accountant
from dpsql.compiler.aggregates.sample import SAMPLE
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.private_plan import PrivateBlock, least
from dpsql.compiler.resolve.scopes import Identities, require_none
from dpsql.compiler.track.per_unit import in_any_order
from dpsql.compiler.track.table_scans import never_null, require_other_keys
from dpsql.compiler.track.uniqueness import projected_keys
from dpsql.compiler.track.units import (
    Anchor,
    Before,
    Copied,
    Padding,
    Private,
    Together,
    attach_unit,
    names_of,
)
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import (
    Aggregate,
    Filter,
    Item,
    Join,
    Measure,
    Project,
    Relation,
    Released,
    Scan,
)
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import AggregateCall, Call, Cast, Expression, JoinKind, Literal, Ref
from dpsql.model.vocabulary import Fact, Neighbours, Policy, Sensitivity
from dpsql.model.walk import conjuncts, map_children, refs, relations, substitute

_Copied = TypeVar("_Copied", Copied, Before)


@dataclass(frozen=True, slots=True)
class _Written:
    """The text that identifies a block, and the numbers of its columns there."""

    text: str
    numbers: dict[int, int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Collects blocks: `listed` grows with the query, `written` if there are several."""

    policy: Policy
    identities: Identities
    listed: list[PrivateBlock] = field(default_factory=list)
    written: list[_Written] = field(default_factory=list)

    def keys(self, block: int) -> int:
        """Return the number of key columns of a block."""
        return len(self.listed[block].keys)

    def released(self, relation: Aggregate, source: Private) -> Released:
        """Return the noisy table of an aggregate over private rows."""
        block, number = self.block(relation, source), len(self.listed)
        same = self._same(block) if self.listed else None
        if same is None:
            self.listed.append(block)
            return Released(number, relation.fields, tuple(range(len(block.measures))))
        number, new, old = same
        measures = self._translated(block.measures, new, old, number)
        return Released(number, relation.fields, tuple(self._place(number, m) for m in measures))

    def _same(self, block: PrivateBlock) -> tuple[int, dict[int, int], dict[int, int]] | None:
        """Return the block with the same text, with the column numbers of this block and
        that one.
        """
        self.written.extend(map(_written, self.listed[len(self.written) :]))
        this = _written(block)
        for number, other in enumerate(self.written):
            if other.text == this.text:
                return number, this.numbers, other.numbers
        return None

    def _translated(
        self, measures: tuple[Measure, ...], new: dict[int, int], old: dict[int, int], number: int
    ) -> tuple[Measure, ...]:
        """Rewrite the measures over the columns of the equal block."""
        there = {place: n for n, place in old.items()}
        types = {f.id: f.type for f in self.listed[number].rows.fields}
        ids = {n: there[place] for n, place in new.items() if there[place] in types}
        values = {n: Ref(block_id, types[block_id]) for n, block_id in ids.items()}
        return tuple(
            replace(m, call=cast("AggregateCall", substitute(m.call, values))) for m in measures
        )

    def _place(self, number: int, measure: Measure) -> int:
        """Return the position of a measure in a block; a new one is added."""
        block = self.listed[number]
        for place, present in enumerate(block.measures):
            if present.call == measure.call:
                return place
        self.listed[number] = replace(block, measures=(*block.measures, measure))
        return len(block.measures)

    def block(self, relation: Aggregate, source: Private) -> PrivateBlock:
        """Return the block of an aggregate over private rows, without adding it."""
        if source.padding is not None:
            _check_padding(relation, source.padding)
        policy = self.policy
        if source.several:
            require_other_keys(relation, source)
        rows = source if source.several else attach_unit(source, policy, self.identities)
        for part in (relation, *relations(rows.relation)):
            require_none(part, "below the aggregation, where nothing is noisy yet")
        refs_of_keys = frozenset().union(*(refs(key.expression) for key in relation.keys))
        unit_ids = frozenset(a.id for a in rows.anchors if a.table == policy.unit.table)
        determined = rows.determined | unit_ids
        copied = [c for c in rows.copied if refs_of_keys <= c.free | determined]
        copied = [] if rows.several else copied
        limits = replace(
            rows.declared,
            groups_per_unit=least(rows.declared.groups_per_unit, *(c.groups for c in copied)),
            public_groups=rows.declared.public_groups or policy.limits.max_public_groups,
            silent=_silent(rows.relation, policy),
        )
        counted = [_of_rows(m, rows, unit_ids) for m in relation.measures]
        return PrivateBlock(
            rows=rows.relation,
            unit=_unread_column(rows) if rows.several else rows.unit(policy),
            unit_ids=unit_ids,
            max_rows=rows.max_rows,
            determined=determined,
            keys=relation.keys,
            measures=tuple(prepared(_of_units(m, rows, unit_ids)) for m, _ in counted),
            declared=limits,
            facts=tuple(sorted(rows.facts.union(*(facts for _, facts in counted)))),
            span=relation.span,
            groups=source.padding.source if source.padding is not None and relation.keys else None,
            several=bool(rows.several),
            max_groups=least(*(c.rows for c in copied)),
            alone=not rows.several and _alone(rows, relation.keys, determined),
            never_null=never_null(rows.relation, policy),
        )


def _of_units(measure: Measure, rows: Private, unit_ids: frozenset[int]) -> Measure:
    """Rewrite COUNT(DISTINCT k) of a key that is the unit's or NULL, as a count of units with the
    key.
    """
    call = measure.call
    match call:
        case AggregateCall(function="count", distinct=True, args=(Ref(id=column) as key,)):
            keys = [o.key for o in rows.optional if o.column == column and o.key in unit_ids]
        case _:
            return measure
    if not keys:
        return measure
    there = ~key.is_null()
    condition = there if call.filter is None else call.filter & there
    units = replace(call, args=(Ref(min(keys), key.type, key.span),), filter=condition)
    return replace(measure, call=units)


def _of_rows(
    measure: Measure, rows: Private, unit_ids: frozenset[int]
) -> tuple[Measure, frozenset[Fact]]:
    """Rewrite COUNT(DISTINCT k) as COUNT(k) where facts say that no two rows have the same k.

    Proof (PRIVACY.md R32). Only the answer depends on these facts.
    """
    match measure.call:
        case AggregateCall(function="count", distinct=True, args=(Ref(id=column),)) as call if (
            column in rows.unique and column not in unit_ids
        ):
            return replace(measure, call=replace(call, distinct=False)), rows.unique[column].facts
        case _:
            return measure, frozenset()


def _written(block: PrivateBlock) -> _Written:
    writer = Writer()
    writer.number(block.rows)
    keys = tuple(key.expression for key in block.keys)
    text = writer.write((block.rows, block.unit, keys, block.groups is None))
    return _Written(text, writer.numbers)


def _unread_column(rows: Private) -> Ref:
    """Return a column in place of the unit's, which is never read."""
    return min(rows.relation.fields, key=lambda field: field.id).ref


def _alone(rows: Private, keys: tuple[Item, ...], determined: frozenset[int]) -> bool:
    """Test whether no two rows of one unit are in one group: rows of a group agree on its keys.

    Rows of one unit also agree on the columns that it determines. No two rows of it agree on all
    columns of a key of `apart`, where NULL is a value for both GROUP BYs.
    """
    agreed = determined | {k.expression.id for k in keys if isinstance(k.expression, Ref)}
    return any(key.nulls and key.columns <= agreed for key in rows.apart)


def _check_padding(relation: Aggregate, padding: Padding) -> None:
    """Refuse groups by private columns, and measures that read a public row without a
    private one.
    """
    for key in relation.keys:
        if not refs(key.expression) <= padding.public:
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                key.expression.span,
                construct="a group key from the private side of a LEFT JOIN",
                fix="Group by columns of the public table, or use an inner JOIN.",
            )
    for measure in relation.measures:
        if not is_strict(measure.call.args[0], padding.absent):
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                measure.call.span,
                construct=f"{measure.call.function.upper()} that counts rows without a match",
                fix="Aggregate a column of the private table, or use an inner JOIN.",
            )


def filtered(source: Private, predicate: Expression) -> Private:
    """Return the rows for which the predicate is true."""
    padding = source.padding
    if padding is not None:
        padding = _filtered_padding(padding, predicate)
    return replace(
        source,
        relation=Filter(source.relation, predicate),
        padding=padding,
        together=present(source.together, predicate),
    )


def present(together: frozenset[Together], predicate: Expression | None) -> frozenset[Together]:
    """Return the evidence of equal units for the rows that a condition keeps: columns that it
    rejects as NULL are no longer `nullable`.
    """
    parts = conjuncts(predicate)
    return frozenset(
        replace(t, nullable=False)
        if t.nullable and any(rejects_nulls(part, frozenset(t.ids)) for part in parts)
        else t
        for t in together
    )


def _filtered_padding(padding: Padding, predicate: Expression) -> Padding | None:
    """Filter padding by a condition on public columns; a condition that needs a private row drops
    it.
    """
    for part in conjuncts(predicate):
        if refs(part) <= padding.public:
            padding = replace(padding, source=Filter(padding.source, part))
        elif rejects_nulls(part, padding.absent):
            return None
        else:
            padding = replace(padding, public=frozenset(), absent=frozenset())
    return padding


def still_padded(join: Join, padding: Padding | None, right: Relation) -> Padding | None:
    """Return the padding after another LEFT JOIN on private columns, with a right side that meets
    no padding.
    """
    if padding is None or join.kind is not JoinKind.LEFT or join.condition is None:
        return None
    if not any(rejects_nulls(part, padding.absent) for part in conjuncts(join.condition)):
        return None
    return replace(padding, absent=padding.absent | {f.id for f in right.fields})


def projected(source: Private, items: tuple[Item, ...]) -> Private:
    """Return the private relation with these columns; its unit is kept by column identity only."""
    items = _whole_keys(source, items)
    determined = set(source.determined)
    unique = dict(source.unique)
    ranks, keys = dict(source.ranks), set(source.growth.keys)
    several, names = set(source.several), names_of(items)
    for item in items:
        if refs(item.expression) <= source.determined:
            determined.add(item.field.id)
        if isinstance(item.expression, Ref):
            old = item.expression.id
            several |= {item.field.id} if old in source.several else set()
            if old in source.unique:
                unique[item.field.id] = source.unique[old]
            if old in source.ranks:
                ranks[item.field.id] = source.ranks[old]
            if old in source.growth.keys:
                keys.add(item.field.id)
    carried = {a.id for a in source.anchors} - {item.field.id for item in items}
    hidden = tuple(f.item for f in source.relation.fields if f.id in carried)
    return replace(
        source,
        relation=Project(source.relation, items + hidden),
        anchors=_projected_anchors(source, items),
        determined=frozenset(determined),
        unique=unique,
        ranks=ranks,
        several=frozenset(several),
        growth=replace(source.growth, keys=frozenset(keys)),
        apart=projected_keys(source.apart, items + hidden),
        copied=tuple(_projected_copied(copied, items) for copied in source.copied),
        before=tuple(_projected_copied(before, items) for before in source.before),
        together=frozenset(new for old in source.together for new in old.renamed(names)),
        merged=frozenset(new for old in source.merged for new in old.renamed(names)),
        optional=frozenset(new for old in source.optional for new in old.renamed(names)),
        padding=None if source.padding is None else _projected_padding(source.padding, items),
    )


def _whole_keys(source: Private, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Replace a COALESCE of two equal keys by the whole key."""
    kinds = {f.id: f.type for f in source.relation.fields}
    whole = {merged.halves: merged.column for merged in source.merged}

    def read(item: Item) -> Item:
        column = whole.get(halves_of(item.expression), -1)
        same = kinds.get(column) == item.field.type
        return replace(item, expression=Ref(column, item.field.type)) if same else item

    return tuple(map(read, items))


def _projected_anchors(source: Private, items: tuple[Item, ...]) -> frozenset[Anchor]:
    """Return the anchors of the unit, under new names too."""
    names = names_of(items)
    for merged in source.merged:
        new = [i.field.id for i in items if halves_of(i.expression) == merged.halves]
        names.setdefault(merged.column, []).extend(new)
    return source.anchors | {replace(a, id=n) for a in source.anchors for n in names.get(a.id, ())}


def halves_of(expression: Expression) -> frozenset[int]:
    """Return the two columns of a COALESCE; empty for other expressions."""
    match expression:
        case Call(function="coalesce", args=(Ref(id=a), Ref(id=b))):
            return frozenset({a, b})
        case _:
            return frozenset()


def _projected_copied(copied: _Copied, items: tuple[Item, ...]) -> _Copied:
    free = {item.field.id for item in items if refs(item.expression) <= copied.free}
    return replace(copied, free=copied.free | free)


def _projected_padding(padding: Padding, items: tuple[Item, ...]) -> Padding:
    public = [i for i in items if refs(i.expression) <= padding.public]
    source_ids = {f.id for f in padding.source.fields}
    source = Project(
        padding.source,
        tuple(public)
        + tuple(
            f.item
            for f in padding.source.fields
            if f.id in source_ids - {i.field.id for i in public}
        ),
    )
    absent = {i.field.id for i in items if is_strict(i.expression, padding.absent)}
    return Padding(
        source,
        padding.public | {i.field.id for i in public},
        padding.absent | absent,
    )


def is_strict(expression: Expression, absent: frozenset[int]) -> bool:
    """Test whether the expression is NULL wherever these columns are all NULL."""
    match expression:
        case Ref():
            return expression.id in absent
        case Literal():
            return expression.value is None
        case Cast():
            return is_strict(expression.arg, absent)
        case Call():
            return functions.is_strict(expression.function) and any(
                is_strict(arg, absent) for arg in expression.args
            )
        case _:
            return False


def rejects_nulls(predicate: Expression, absent: frozenset[int]) -> bool:
    """Test whether the predicate is surely not true where these columns are all NULL."""
    if isinstance(predicate, Call) and predicate.function == "or":
        return all(rejects_nulls(branch, absent) for branch in predicate.args)
    if isinstance(predicate, Call) and predicate.function == "not":
        (inner,) = predicate.args
        if isinstance(inner, Call) and inner.function == "is_null":
            return is_strict(inner.args[0], absent)
        return is_strict(inner, absent)
    return is_strict(predicate, absent)


_STEPS = 1 << 20
"""Grid steps in one unit of the sum."""


def noise_of_one(
    accountant: Accountant, neighbours: Neighbours, epsilon: Fraction, delta: Fraction
) -> float:
    """Return the standard error of a sum that a unit moves by one, as the only measurement of a
    query.
    """
    allowance = accountant.allowance(epsilon, delta, selects_keys=False)
    if not allowance.amount:
        return inf
    one = Sensitivity(1, -_STEPS, _STEPS, neighbours)
    noise = accountant.noise(allowance.amount, allowance.noise_delta, one)
    return standard_deviation(noise) / _STEPS


def prepared(measure: Measure) -> Measure:
    """Return the measure; SAMPLE_AGGREGATE with its aggregates in safe form, or a refusal."""
    call = measure.call
    if call.function != SAMPLE:
        return measure
    expression = _safe(call.args[0])
    return replace(measure, call=replace(call, args=(expression, *call.args[1:])))


def _safe(expression: Expression) -> Expression:
    if isinstance(expression, AggregateCall):
        return in_any_order(expression)
    return map_children(expression, _safe)


def _silent(rows: Relation, policy: Policy) -> frozenset[tuple[str, str]]:
    """Return the limits that tables of these rows do not declare, each with its table."""
    scans = (policy.table(scan.table) for scan in relations(rows) if isinstance(scan, Scan))
    tables = [t for t in scans if t is not None and t.private and t.name != policy.unit.table]
    without = [table for table in tables if table.max_rows_per_unit is None]
    groups = {("max_groups_per_unit", t.name) for t in without if t.max_groups_per_unit is None}
    return frozenset(groups) | {
        ("max_rows_per_group", t.name) for t in without if t.max_rows_per_group is None
    }
