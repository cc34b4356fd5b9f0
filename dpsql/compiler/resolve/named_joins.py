"""Joins as they are written: columns merged by name, and columns that a join may fill with NULL."""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities, Scope
from dpsql.compiler.resolve.typing import typed_call
from dpsql.model.algebra import Field, Item, Join, Project, Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Call, JoinedTables, JoinKind, Name, Star
from dpsql.model.walk import both


def merged(
    join: JoinedTables,
    sides: tuple[Relation, Relation],
    scopes: tuple[Scope, Scope],
    identities: Identities,
) -> tuple[Relation, Scope]:
    """Return the join on equal columns, and its scope.

    A name without a table means the left column; in a RIGHT JOIN the right one, in a FULL JOIN the
    one that is present. Raises `Refused` where a side lacks the column or has it twice.
    """
    left, right = scopes
    pairs = pairs_of(join, left, right)
    equal = tuple(compared("eq", join, a, b) for a, b in pairs)
    joined = Join(sides[0], sides[1], join.kind, both(equal), join.span)
    taken = {b.id for _, b in pairs}
    hidden = {f.id for s in right.sources for f in s.fields if right.seen(f).id in taken}
    scope = left.beside(right)
    scope = replace(scope, merged=scope.merged | hidden)
    relation, scope = padded(joined, scope, identities)
    new = dict(zip((f.id for f in joined.fields), relation.fields, strict=True))
    pairs = [(new[a.id], new[b.id]) for a, b in pairs]
    instead: dict[int, Field] = {}
    if join.kind is JoinKind.RIGHT:
        instead = {a.id: b for a, b in pairs}
    elif join.kind is JoinKind.FULL:
        relation, instead = _coalesced(relation, pairs, join, identities)
    return relation, replace(scope, instead={**scope.instead, **instead})


def padded(join: Join, scope: Scope, identities: Identities) -> tuple[Relation, Scope]:
    """Return the join, with new columns above it for those that it may fill with NULL."""
    sides = {
        JoinKind.LEFT: join.right.fields,
        JoinKind.RIGHT: join.left.fields,
        JoinKind.FULL: join.fields,
    }
    new = {f.id: identities.field(f.name, f.type) for f in sides.get(join.kind, ())}
    if not new:
        return join, scope
    items = tuple(Item(new.get(f.id, f), f.ref) for f in join.fields)
    return Project(join, items), scope.renumbered(new)


def pairs_of(join: JoinedTables, left: Scope, right: Scope) -> list[tuple[Field, Field]]:
    """Return the pairs of columns that USING or NATURAL equates."""
    names = _common(join, left, right) if join.natural else join.using
    written = [Name(name, span=join.span) for name in names]
    return [(left.lookup(name), right.lookup(name)) for name in written]


def _common(join: JoinedTables, left: Scope, right: Scope) -> tuple[str, ...]:
    """Return the common names; a hidden column must not silently join, nor silently fail to."""
    names = tuple(f.name for f in left.expand(Star(None, join.span)))
    names += tuple(name for s in left.sources for name in s.hidden)
    shared = tuple(dict.fromkeys(n for n in names if right.has(Name(n))))
    if not shared:
        construct = "NATURAL JOIN without a common column"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, join.span, construct=construct)
    return shared


def _coalesced(
    relation: Relation, pairs: list[tuple[Field, Field]], join: JoinedTables, identities: Identities
) -> tuple[Relation, dict[int, Field]]:
    """Return the FULL JOIN with a column for each pair, and the columns that these replace."""
    items, instead = [], {}
    for a, b in pairs:
        value = compared("coalesce", join, a, b)
        items.append(Item(identities.field(a.name, value.type), value))
        instead[a.id] = items[-1].field
    unmerged = tuple(f.item for f in relation.fields)
    return Project(relation, (*unmerged, *items)), instead


def compared(function: str, join: JoinedTables, a: Field, b: Field) -> Call:
    """Return a function of two columns of a join."""
    args = a.ref, b.ref
    call = typed_call(Call(function, args, span=join.span))
    assert isinstance(call, Call)
    return call
