"""Set operations within one unit: UNION, INTERSECT and EXCEPT of rows that carry its key.

Proof (PRIVACY.md R19). Rows of different units differ in the unit's key, so that only rows of one
unit are compared. The remaining rows of a unit are a function of its rows on both sides.

Proof (PRIVACY.md R12). A FULL JOIN is a LEFT JOIN plus the unmatched rows of the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.compiler.plan.private_plan import DeclaredLimits, least, total
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.blocks import filtered, halves_of, projected
from dpsql.compiler.track.equalities import equal_columns, equates
from dpsql.compiler.track.joins import join_units, match_units
from dpsql.compiler.track.per_unit import name_unit, zeroed
from dpsql.compiler.track.uniqueness import Key
from dpsql.compiler.track.units import UNJOINED, Anchor, Merged, Private, attach_unit
from dpsql.model.algebra import Aggregate, Field, Item, Join, Match, Project, Union
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import BOOLEAN, NULL, Cast, Expression, JoinKind, Literal, Ref
from dpsql.model.vocabulary import Policy


def union_within(
    relation: Union, left: Private, right: Private, policy: Policy, identities: Identities
) -> Private:
    """Return UNION ALL of rows of the same kind of unit: each row keeps its own unit."""
    sides = [attach_unit(side, policy, identities) for side in (left, right)]
    inputs = (relation.left, relation.right)
    unit = identities.field("unit", sides[0].unit(policy).type)
    listed = [_as_fields(old.fields, relation) for old in inputs]
    units = [side.unit(policy) for side in sides]
    left_side, right_side = (
        Project(side.relation, (*items, Item(identities.field("unit", own.type), own)))
        for side, items, own in zip(sides, listed, units, strict=True)
    )
    fields = (*relation.fields, unit)
    result = replace(relation, left=left_side, right=right_side, fields=fields)
    anchors = {Anchor(unit.id, policy.unit.table, unit.id)}
    for new, *items in zip(relation.fields, *listed, strict=True):
        tables = [
            {a.table for a in side.anchors if item.expression == Ref(a.id, item.field.type)}
            for side, item in zip(sides, items, strict=True)
        ]
        anchors |= {Anchor(new.id, table, new.id) for table in tables[0] & tables[1]}
    return Private(
        relation=result,
        anchors=frozenset(anchors),
        pending=frozenset(),
        max_rows=total(sides[0].max_rows, sides[1].max_rows),
        determined=frozenset({unit.id}),
        unique={},
        declared=sides[0].declared.plus(sides[1].declared),
        facts=sides[0].facts | sides[1].facts,
        growth=UNJOINED.beside(sides[0].growth).beside(sides[1].growth),
    )


def all_of_both(relation: Union, identities: Identities) -> Aggregate:
    """Return UNION as the distinct rows of UNION ALL."""
    fields = tuple(identities.field(f.name, f.type) for f in relation.fields)
    rows = replace(relation, all=True, fields=fields)
    items = (Item(old, new.ref) for old, new in zip(relation.fields, fields, strict=True))
    return Aggregate(rows, tuple(items), (), relation.span)


def rest_within(
    relation: Union, left: Private, right: Private, policy: Policy, identities: Identities
) -> Private | None:
    """Return INTERSECT or EXCEPT of rows with the unit's key, as some rows of the left.

    Returns None where rows lack the key.
    """
    both = union_within(relation, left, right, policy, identities)
    if name_unit((field.ref for field in relation.fields), both) is None:
        return None
    most = left.max_rows
    if relation.kind == "INTERSECT":
        most = least(most, right.max_rows)
    columns = frozenset(field.id for field in relation.fields)
    return replace(
        both,
        max_rows=most,
        determined=both.determined | (columns if most == 1 else frozenset()),
        declared=left.declared,
        apart=() if relation.all else (Key(columns, nulls=True),),
    )


@dataclass(frozen=True, slots=True)
class JoinCopy:
    """One of two independent copies of a join: its sides, and the new columns of its old ones."""

    join: Join
    left: Private
    right: Private
    names: Mapping[int, Field]

    def items(
        self, join: Join, keys: Sequence[int], identities: Identities, *, right: bool
    ) -> tuple[Item, ...]:
        """Return the columns of the join, then those at the places of keys, under new names.

        With `right`, the columns of the left side are NULL.
        """
        absent = {f.id for f in join.left.fields} if right else set[int]()
        values: list[Expression] = [
            Cast(Literal(None, NULL), f.type) if f.id in absent else self.names[f.id].ref
            for f in join.fields
        ]
        fields = (*join.fields, *(join.fields[place] for place in keys))
        values += [values[place] for place in keys]
        return tuple(
            Item(identities.field(f.name, f.type), value)
            for f, value in zip(fields, values, strict=True)
        )


def full_within(
    join: Join, first: JoinCopy, second: JoinCopy, policy: Policy, identities: Identities
) -> Private:
    """Return a FULL JOIN within one unit: a LEFT JOIN plus the unmatched rows of the right.

    USING and COALESCE make one column of two equal keys; it is the unit's too. Where a unit has one
    row on either side and they meet, there is one row.
    """
    outer = replace(first.join, kind=JoinKind.LEFT)
    matched = join_units(outer, first.left, first.right, policy, identities)
    alone = _unmatched(second, policy, identities)
    places = {first.names[f.id].id: n for n, f in enumerate(join.fields)}
    keys = _equal_keys(first)
    halves = [(places[a.id], places[b.id]) for a, b in keys]
    whole = tuple(identities.field(f.name, f.type) for f in (join.fields[a] for a, _b in halves))
    items = (
        first.items(join, [a for a, _b in halves], identities, right=False),
        second.items(join, [b for _a, b in halves], identities, right=True),
    )
    union = Union(
        kind="UNION",
        all=True,
        left=Project(matched.relation, items[0]),
        right=Project(alone.relation, items[1]),
        fields=(*join.fields, *whole),
        span=join.span,
    )
    left, right = projected(matched, items[0]), projected(alone, items[1])
    rows = union_within(union, left, right, policy=policy, identities=identities)
    merged = frozenset(
        Merged(frozenset((join.fields[a].id, join.fields[b].id)), f.id)
        for (a, b), f in zip(halves, whole, strict=True)
    )
    rows = replace(rows, merged=merged)
    condition = equates(first.join.condition)
    only = any(a.table == policy.unit.table and condition.is_only(a.id, b.id) for a, b in keys)
    return _one_row(rows) if only and first.left.max_rows == first.right.max_rows == 1 else rows


def _equal_keys(copy: JoinCopy) -> list[tuple[Anchor, Anchor]]:
    """Return the keys of one table that the condition equates."""
    equal = equal_columns(copy.join.condition, {f.id for f in copy.left.relation.fields})
    return [
        (a, b)
        for a in sorted(copy.left.anchors)
        for b in sorted(copy.right.anchors)
        if a.table == b.table and equal.get(a.id) == b.id
    ]


def by_whole_keys(
    relation: Aggregate, source: Private, identities: Identities
) -> tuple[Aggregate, Private]:
    """Return the same grouping, with each COALESCE of two keys as a column."""
    halves = {merged.halves for merged in source.merged}
    columns = {
        item.expression: identities.field(item.field.name, item.field.type)
        for item in relation.keys
        if halves_of(item.expression) in halves
    }
    if not columns:
        return relation, source
    items = tuple(Item(field, value) for value, field in columns.items())
    there = tuple(f.item for f in source.relation.fields)
    keys = tuple(
        replace(item, expression=columns[item.expression].ref)
        if item.expression in columns
        else item
        for item in relation.keys
    )
    return replace(relation, keys=keys), projected(source, (*there, *items))


def _one_row(rows: Private) -> Private:
    """Return rows with one row per unit, which determines all of it."""
    return replace(
        rows,
        max_rows=1,
        determined=frozenset(f.id for f in rows.relation.fields),
        declared=DeclaredLimits(1, 1, 1, rows.declared.public_groups),
    )


def _unmatched(copy: JoinCopy, policy: Policy, identities: Identities) -> Private:
    """Return the rows of the right that meet none of the left."""
    match = Match(
        input=copy.right.relation,
        other=copy.left.relation,
        condition=copy.join.condition,
        mark=identities.field("met", BOOLEAN),
        member=None,
        span=copy.join.span,
    )
    marked = match_units(match, copy.right, copy.left, policy, identities)
    return filtered(marked, ~match.mark.ref)


def _as_fields(old: tuple[Field, ...], relation: Union) -> tuple[Item, ...]:
    """Return a side's columns in the types of the union: an implicit conversion could raise.

    Compared columns get a single zero: otherwise the engine would choose between 0.0 and -0.0.
    """
    compared = relation.kind != "UNION"

    def of_type(a: Field, b: Field) -> Expression:
        value = a.ref if a.type == b.type else Cast(a.ref, b.type, safe=True)
        return zeroed(value) if compared else value

    return tuple(Item(a, of_type(a, b)) for a, b in zip(old, relation.fields, strict=True))
