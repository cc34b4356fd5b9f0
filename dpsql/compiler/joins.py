"""Joins of private relations: when units are equal, and how rows multiply (privacy.md, 2)."""

from __future__ import annotations

from dataclasses import replace

from dpsql.algebra import Join, Relation
from dpsql.compiler.units import Private, distance
from dpsql.errors import Reason, Refused
from dpsql.model import FactKind, Policy
from dpsql.plan import DeclaredLimits, product
from dpsql.tree import BOOLEAN, Call, Expression, JoinKind, Ref
from dpsql.walk import conjuncts, refs


def join_units(join: Join, left: Private, right: Private, policy: Policy) -> Private:
    """private-private: only if the condition implies equal units."""
    here = {f.id for f in left.relation.fields}
    keyed = equal_columns(join.condition, here)
    linked = [
        (a, b)
        for a in left.anchors
        for b in right.anchors
        if a.table == b.table and keyed.get(a.id) == b.id
    ]
    linked = [pair for pair in linked if _same_unit(pair[0].table, left, right, policy)]
    if not linked:
        raise _unequal(join, left, right)
    relation = replace(join, left=left.relation, right=right.relation)
    resolved = {a.root for a, b in linked if b.root not in right.pending}
    resolved |= {b.root for a, b in linked if a.root not in left.pending}
    facts = left.facts | right.facts
    in_right = [fact for b, fact in right.unique.items() if b in keyed.values()]
    in_left = [fact for a, fact in left.unique.items() if a in keyed]
    if in_right:
        max_rows, declared, unique = left.max_rows, left.declared, left.unique
        facts |= set(in_right)
    elif in_left:
        max_rows, declared, unique = right.max_rows, right.declared, right.unique
        facts |= set(in_left)
    else:
        declared, unique = left.declared.times(right.declared), {}
        max_rows = product(left.max_rows, right.max_rows)
    return Private(
        relation,
        left.anchors | right.anchors,
        (left.pending | right.pending) - resolved,
        max_rows,
        left.determined | right.determined,
        unique,
        declared,
        facts,
    )


def _same_unit(table: str, left: Private, right: Private, policy: Policy) -> bool:
    """Whether two rows that belong to the same row of `table` belong to the same unit.

    They do if the key is unique. If it may not be, they still do when one side has no other path
    to its unit than through this key: its rows then take the unit of the row they meet.
    """
    if table == policy.unit.table or policy.fact(FactKind.UNIQUE_KEY, table) is not None:
        return True
    here = distance(table, policy)
    nearest = (min(distance(a.table, policy) for a in side.anchors) for side in (left, right))
    return any(hops >= here for hops in nearest)


def multiplied(private: Private, most: int) -> Private:
    """The relation when each of its rows may meet up to `most` rows of a public table."""
    return replace(
        private,
        max_rows=None if private.max_rows is None else private.max_rows * most,
        declared=private.declared.times(DeclaredLimits(most, most, most)),
        unique={},
    )


def with_join_conditions(relation: Relation, predicate: Expression) -> Relation:
    """Inner joins below a WHERE with the equalities of columns that WHERE asks of them.

    A comma join has its condition there; the filter above stays as it is.
    """
    if not (isinstance(relation, Join) and relation.kind in (JoinKind.INNER, JoinKind.CROSS)):
        return relation
    sides = tuple({f.id for f in side.fields} for side in (relation.left, relation.right))
    across = tuple(
        part
        for part in conjuncts(predicate)
        if isinstance(part, Call)
        and part.function == "eq"
        and all(isinstance(arg, Ref) for arg in part.args)
        and all(refs(part) & side for side in sides)
    )
    left = with_join_conditions(relation.left, predicate)
    right = with_join_conditions(relation.right, predicate)
    if not across:
        return replace(relation, left=left, right=right)
    known = () if relation.condition is None else (relation.condition,)
    parts = known + across
    condition = parts[0] if len(parts) == 1 else Call("and", parts, BOOLEAN)
    return replace(relation, left=left, right=right, kind=JoinKind.INNER, condition=condition)


def equal_columns(condition: Expression | None, here: set[int]) -> dict[int, int]:
    """Columns of one side that the condition equates with columns of the other side."""
    equal = {}
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function == "eq":
            a, b = part.args
            if isinstance(a, Ref) and isinstance(b, Ref) and (a.id in here) != (b.id in here):
                first, second = (a, b) if a.id in here else (b, a)
                equal[first.id] = second.id
    return equal


def _unequal(join: Join, left: Private, right: Private) -> Refused:
    names = {f.id: f.name for f in join.fields}
    pairs = [
        (names[a.id], names[b.id])
        for a in left.anchors
        for b in right.anchors
        if a.table == b.table and a.id in names and b.id in names
    ]
    fix = "Join along the declared links."
    if pairs:
        first, second = min(pairs)
        fix = f"Add the condition that equates {first} with {second}."
    return Refused(Reason.UNEQUAL_UNITS, join.span, fix=fix)
