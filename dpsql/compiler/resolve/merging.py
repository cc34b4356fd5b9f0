"""Columns of two relations made to match by name: USING, NATURAL and BY NAME."""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities, Scope
from dpsql.compiler.resolve.typing import typed_call
from dpsql.model.algebra import Field, Item, Join, Project, Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    NULL,
    Call,
    JoinedTables,
    JoinKind,
    Literal,
    Name,
    Ref,
    SetOperation,
    Star,
)
from dpsql.model.walk import both


def merged(
    join: JoinedTables,
    sides: tuple[Relation, Relation],
    scopes: tuple[Scope, Scope],
    identities: Identities,
) -> tuple[Relation, Scope]:
    """The join on equal columns, and its scope.

    A name without a table means the left column; of a RIGHT JOIN the right one, of a FULL JOIN
    whichever is there. Raises `Refused` where a side lacks the column or has it twice.
    """
    left, right = scopes
    pairs = _pairs(join, left, right)
    equal = tuple(_call("eq", join, a, b) for a, b in pairs)
    joined = Join(*sides, join.kind, both(equal), join.span)
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
    """The join; columns that it may fill with NULL get an identity of their own above it."""
    sides = {
        JoinKind.LEFT: join.right.fields,
        JoinKind.RIGHT: join.left.fields,
        JoinKind.FULL: join.fields,
    }
    new = {f.id: identities.field(f.name, f.type) for f in sides.get(join.kind, ())}
    if not new:
        return join, scope
    items = tuple(Item(new.get(f.id, f), Ref(f.id, f.type)) for f in join.fields)
    return Project(join, items), scope.renumbered(new)


def _pairs(join: JoinedTables, left: Scope, right: Scope) -> list[tuple[Field, Field]]:
    names = _common(join, left, right) if join.natural else join.using
    written = [Name(name, span=join.span) for name in names]
    return [(left.lookup(name), right.lookup(name)) for name in written]


def _common(join: JoinedTables, left: Scope, right: Scope) -> tuple[str, ...]:
    """The names both sides have; a hidden column must not join in silence, nor fail to."""
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
    """The FULL JOIN with a column for each pair, and what each replaces."""
    items, instead = [], {}
    for a, b in pairs:
        value = _call("coalesce", join, a, b)
        items.append(Item(identities.field(a.name, value.type), value))
        instead[a.id] = items[-1].field
    kept = tuple(Item(f, Ref(f.id, f.type)) for f in relation.fields)
    return Project(relation, (*kept, *items)), instead


def _call(function: str, join: JoinedTables, a: Field, b: Field) -> Call:
    args = Ref(a.id, a.type), Ref(b.id, b.type)
    return typed_call(Call(function, args, span=join.span))


def by_name(
    query: SetOperation, left: Relation, right: Relation, identities: Identities
) -> tuple[Relation, Relation]:
    """Both sides of UNION BY NAME with the columns of either, the left's first; else NULL."""
    if query.kind != "UNION":
        raise Refused(Reason.UNSUPPORTED_SYNTAX, query.span, construct=f"{query.kind} BY NAME")
    sides = [{f.name.lower(): f for f in side.fields} for side in (left, right)]
    if any(len(s) < len(r.fields) for s, r in zip(sides, (left, right), strict=True)):
        raise Refused(Reason.AMBIGUOUS_COLUMN, query.span, column="in UNION BY NAME")
    names = {**sides[0], **{name: f for name, f in sides[1].items() if name not in sides[0]}}

    def listed(side: Relation, known: dict[str, Field]) -> Relation:
        items = []
        for name, label in names.items():
            column = known.get(name)
            value = Literal(None, NULL) if column is None else Ref(column.id, column.type)
            items.append(Item(identities.field(label.name, value.type), value))
        return Project(side, tuple(items))

    return listed(left, sides[0]), listed(right, sides[1])
