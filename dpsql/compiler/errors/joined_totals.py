"""Rows beside the total of them all: `n / (SELECT SUM(n) FROM t)`.

Such a total is what the row adds to it and an independent rest, as with a window.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.errors.expression_errors import formula, or_zero, remaining
from dpsql.compiler.errors.noisy_columns import Addend, Traced
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Item, Join, Project
from dpsql.model.tree import DOUBLE, Cast, Expression, Ref
from dpsql.model.walk import substitute


def joined(left: Traced, right: Traced, relation: Join, identities: Identities) -> Traced:
    """Both sides of a join, with hidden columns for the rests of the totals on its right."""
    result = Traced(
        replace(relation, left=left.relation, right=right.relation),
        {**left.meaning, **right.meaning},
        {**left.deviation, **right.deviation},
        {**left.origin, **right.origin},
        {**left.alone, **right.alone},
        {**left.cells, **right.cells},
        left.table,
        certain=left.certain | right.certain,
    )
    for base, origin in right.origin.items():
        own = None if origin.addend is None else _own(left, origin.addend)
        if own is not None:
            result = _split(result, base, own, identities)
    return result


def _own(left: Traced, addend: Addend) -> Expression | None:
    """What a row of this side adds, over its bases."""
    if left.table is None or left.table[0] != addend.block:
        return None
    types = {f.id: f.type for f in left.relation.fields}
    here = {
        origin.place: Ref(base, types[base])
        for base, origin in left.origin.items()
        if origin.read == left.table[1] and base in types
    }
    if not here.keys() >= set(addend.places.values()):
        return None
    return substitute(addend.expression, {n: here[p] for n, p in addend.places.items()})


def _split(traced: Traced, base: int, own: Expression, identities: Identities) -> Traced:
    """The same with a total as the sum of its own row and a new, independent base."""
    total, error = traced.deviation[base], traced.error_over(own)
    types = {f.id: f.type for f in traced.relation.fields}
    if total is None or base not in types or traced.table is None:
        return traced
    rest = identities.field("rest", DOUBLE)
    kept = tuple(Item(f, Ref(f.id, f.type)) for f in traced.relation.fields)
    value = formula("sub", Cast(Ref(base, types[base]), DOUBLE), or_zero(own))
    square = formula("mul", error, error)
    whole = {base: formula("add", or_zero(own), Ref(rest.id, DOUBLE))}
    origin = replace(traced.origin[base], read=rest.id, many=True, addend=None)
    apart = frozenset({traced.table[1]})
    return replace(
        traced,
        relation=Project(traced.relation, (*kept, Item(rest, value))),
        meaning={n: substitute(e, whole) for n, e in traced.meaning.items()},
        deviation={
            **traced.deviation,
            rest.id: remaining(formula("mul", total, total), square),
        },
        origin={**traced.origin, rest.id: replace(origin, apart=apart)},
    )
