"""Filters and projections of private rows, and what they do to a public LEFT JOIN private.

Such a join pads: a public row without a private one is shown with NULLs. Its groups are the public
keys, and an aggregate that skips NULLs does not see the padding; whatever could is refused.

Proof (PRIVACY.md R9, R10, R14). A row stays or becomes one row by a function of it. The unit is the
column itself, not what is computed of it. A padding row is never seen: aggregates are NULL where it
is, and what cannot be shown to be so is refused (SECURITY.md S7).
"""

from __future__ import annotations

from dataclasses import replace

from dpsql import functions
from dpsql.compiler.track.uniqueness import projected_keys
from dpsql.compiler.track.units import Copied, Padding, Private
from dpsql.model.algebra import Filter, Item, Join, Project, Relation
from dpsql.model.tree import Call, Cast, Expression, JoinKind, Literal, Ref
from dpsql.model.walk import conjuncts, refs


def filtered(source: Private, predicate: Expression) -> Private:
    """Rows for which the predicate is true."""
    padding = source.padding
    if padding is not None:
        padding = _filtered_padding(padding, predicate)
    return replace(source, relation=Filter(source.relation, predicate), padding=padding)


def _filtered_padding(padding: Padding, predicate: Expression) -> Padding | None:
    """A condition on public columns keeps padding of its rows; one that needs a row drops it."""
    for part in conjuncts(predicate):
        if refs(part) <= padding.public:
            padding = replace(padding, source=Filter(padding.source, part))
        elif rejects_nulls(part, padding.absent):
            return None
        else:
            padding = replace(padding, public=frozenset(), absent=frozenset())
    return padding


def still_padded(join: Join, padding: Padding | None, right: Relation) -> Padding | None:
    """After another LEFT JOIN on private columns: nothing on its right meets a padding row."""
    if padding is None or join.kind is not JoinKind.LEFT or join.condition is None:
        return None
    if not any(rejects_nulls(part, padding.absent) for part in conjuncts(join.condition)):
        return None
    return replace(padding, absent=padding.absent | {f.id for f in right.fields})


def projected(source: Private, items: tuple[Item, ...]) -> Private:
    """The private relation with these columns; its unit travels along by identity only."""
    anchors = set(source.anchors)
    determined = set(source.determined)
    unique = dict(source.unique)
    ranks, keys = set(source.ranks), set(source.growth.keys)
    several = set(source.several)
    for item in items:
        if refs(item.expression) <= source.determined:
            determined.add(item.field.id)
        if isinstance(item.expression, Ref):
            old = item.expression.id
            anchors |= {replace(a, id=item.field.id) for a in source.anchors if a.id == old}
            several |= {item.field.id} if old in source.several else set()
            if old in source.unique:
                unique[item.field.id] = source.unique[old]
            if old in source.ranks:
                ranks.add(item.field.id)
            if old in source.growth.keys:
                keys.add(item.field.id)
    carried = {a.id for a in source.anchors} - {item.field.id for item in items}
    hidden = tuple(Item(f, Ref(f.id, f.type)) for f in source.relation.fields if f.id in carried)
    return replace(
        source,
        relation=Project(source.relation, items + hidden),
        anchors=frozenset(anchors),
        determined=frozenset(determined),
        unique=unique,
        ranks=frozenset(ranks),
        several=frozenset(several),
        growth=replace(source.growth, keys=frozenset(keys)),
        apart=projected_keys(source.apart, items + hidden),
        copied=tuple(_projected_copied(copied, items) for copied in source.copied),
        padding=None if source.padding is None else _projected_padding(source.padding, items),
    )


def _projected_copied(copied: Copied, items: tuple[Item, ...]) -> Copied:
    free = {item.field.id for item in items if refs(item.expression) <= copied.free}
    return replace(copied, free=copied.free | free)


def _projected_padding(padding: Padding, items: tuple[Item, ...]) -> Padding:
    public = [i for i in items if refs(i.expression) <= padding.public]
    kept = {f.id for f in padding.source.fields}
    source = Project(
        padding.source,
        tuple(public)
        + tuple(
            Item(f, Ref(f.id, f.type))
            for f in padding.source.fields
            if f.id in kept - {i.field.id for i in public}
        ),
    )
    absent = {i.field.id for i in items if is_strict(i.expression, padding.absent)}
    return Padding(
        source,
        padding.public | {i.field.id for i in public},
        padding.absent | absent,
    )


def is_strict(expression: Expression, absent: frozenset[int]) -> bool:
    """Whether the expression is NULL wherever these columns are all NULL."""
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
    """Whether the predicate is not true wherever these columns are all NULL."""
    if isinstance(predicate, Call) and predicate.function == "or":
        return all(rejects_nulls(branch, absent) for branch in predicate.args)
    if isinstance(predicate, Call) and predicate.function == "not":
        (inner,) = predicate.args
        if isinstance(inner, Call) and inner.function == "is_null":
            return is_strict(inner.args[0], absent)
        return is_strict(inner, absent)
    return is_strict(predicate, absent)
