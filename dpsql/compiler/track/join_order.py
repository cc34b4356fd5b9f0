"""The order of inner joins: all orders make the same rows, and that of the least bound counts.

`FROM a, b, c` joins in the order of the text; where `a` and `b` share no column, each row of one
meets all rows of the other. Inner joins commute, and a condition may wait until its columns are
there: every order makes the same rows, so what is proved along one order holds of the rows of any.
Outer joins and whatever else is no inner join are sides that stay whole.

Proof (PRIVACY.md R13). A set of inner joins is a product with a filter, in every order; so a bound
that one order proves is one of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from dpsql.compiler.track.uniqueness import Keys, equal_columns, key_within
from dpsql.compiler.track.units import Anchor, Private
from dpsql.model.algebra import Join, Relation
from dpsql.model.tree import Expression, JoinKind, Span
from dpsql.model.walk import both, conjuncts, refs

INNER = frozenset({JoinKind.INNER, JoinKind.CROSS})
MOST_SIDES = 24
"""More are joined in the order of the text: finding another takes time in their square."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is joined: of public rows the keys, of private ones the anchors."""

    relation: Relation
    keys: Keys = ()
    anchors: frozenset[Anchor] | None = None


def sides_of(relation: Relation) -> Iterator[Relation]:
    """What a tree of inner joins joins, in the order of the text."""
    if isinstance(relation, Join) and relation.kind in INNER:
        yield from sides_of(relation.left)
        yield from sides_of(relation.right)
    else:
        yield relation


def connects(relation: Relation) -> bool:
    """Whether each of the inner joins equates columns of its two sides."""
    if not (isinstance(relation, Join) and relation.kind in INNER):
        return True
    here = {f.id for f in relation.left.fields}
    equal = equal_columns(relation.condition, here)
    return bool(equal) and connects(relation.left) and connects(relation.right)


def connected(join: Join, sides: Sequence[Side]) -> Join:
    """The same inner joins, each side as soon as what is there leads to it, from private rows on.

    First come public sides of which a row meets at most one, then private rows of the same units,
    then public sides that share a column, then the others.
    """
    conditions = dict.fromkeys(_conditions(join))
    spans = _spans(join)
    rest = list(sides)
    first = next(side for side in rest if side.anchors is not None)
    rest.remove(first)
    joined, anchors = first.relation, first.anchors or frozenset()
    while rest:
        known = {f.id for f in joined.fields}
        waiting = {
            n: _across(conditions, known, side.relation, join) for n, side in enumerate(rest)
        }
        place = min(waiting, key=lambda n: (_rank(rest[n], waiting[n], known, anchors), n))
        side = rest.pop(place)
        found = waiting[place]
        for condition in found:
            del conditions[condition]
        anchors |= side.anchors or frozenset()
        kind = JoinKind.INNER if found else JoinKind.CROSS
        joined = Join(joined, side.relation, kind, both(found), spans[side.relation])
    assert isinstance(joined, Join)
    return joined


def cost(private: Private) -> tuple[float, ...]:
    """How much a unit may contribute, the least first: equal bounds are told apart by proofs."""
    declared = private.declared
    limits = (
        private.max_rows,
        declared.rows_per_unit,
        declared.rows_per_group,
        declared.groups_per_unit,
    )
    growth = private.growth
    bounds = [inf if limit is None else limit for limit in limits]
    return (*bounds, growth.public, growth.own, -len(private.determined), -len(private.unique))


def _rank(
    side: Side, found: tuple[Expression, ...], known: set[int], anchors: frozenset[Anchor]
) -> tuple[int, int]:
    """When a side is joined: the sooner, the fewer of its rows meet one that is there."""
    equal = equal_columns(both(found), known)
    if side.anchors is not None:
        linked = any(
            equal.get(a.id) == b.id and a.table == b.table for a in anchors for b in side.anchors
        )
        return (1 if linked else 4), 0
    if key_within(side.keys, frozenset(equal.values())) is not None:
        return 0, 0
    return (2 if equal else 3), -len(equal)


def _across(
    conditions: dict[Expression, None], known: set[int], side: Relation, join: Join
) -> tuple[Expression, ...]:
    """The conditions that can be asked once a side has joined; columns from around may be read."""
    there = known | {f.id for f in side.fields}
    everywhere = {f.id for f in join.fields}
    return tuple(c for c in conditions if refs(c) & everywhere <= there)


def _conditions(relation: Relation) -> Iterator[Expression]:
    if isinstance(relation, Join) and relation.kind in INNER:
        yield from _conditions(relation.left)
        yield from _conditions(relation.right)
        yield from conjuncts(relation.condition)


def _spans(join: Join) -> dict[Relation, Span]:
    """Where each side is joined."""
    found: dict[Relation, Span] = {}
    for part in (join.left, join.right):
        if isinstance(part, Join) and part.kind in INNER:
            found |= _spans(part)
        else:
            found[part] = join.span
    return found
