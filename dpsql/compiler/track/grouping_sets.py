"""GROUPING SETS, ROLLUP and CUBE as sums over the finest grouping, or as groupings one by one.

Where the query contains the finest grouping and its keys are public, only this grouping is
released, and every coarser total is a sum of its cells. Then totals agree with their parts. Summed
over the cells of all groupings the error is never larger than that of separate releases, since each
of k groupings would have k times the variance. Otherwise each grouping is released separately.

Proof (PRIVACY.md R20). Sums over released cells are post-processing; separate groupings are
separate releases, each paid for.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Aggregate, Field, Item, Measure, Project, Relation, Union
from dpsql.model.tree import INTEGER, NULL, AggregateCall, Cast, Expression, Literal, scalar

GROUPING = "grouping"
"""Name of GROUPING(keys): a bit per key, 1 where the row sums over it."""


def sums_up(relation: Aggregate) -> bool:
    """Test whether every total follows from the finest grouping, and the query contains it."""
    finest = tuple(range(len(relation.keys)))
    return any(set(s) == set(finest) for s in relation.sets) and all(
        m.call.function == GROUPING or (m.call.function in ("count", "sum") and not m.call.distinct)
        for m in relation.measures
    )


def from_finest(relation: Aggregate, identities: Identities) -> Project:
    """Return the groupings as sums over the cells of the finest one; a count without cells is 0."""
    keys = tuple(replace(k, field=_fresh(k.field, identities)) for k in relation.keys)
    keys_by_expression = {
        old.expression: new.field.ref for old, new in zip(relation.keys, keys, strict=True)
    }
    cells, totals = [], []
    for measure in relation.measures:
        if measure.call.function == GROUPING:
            args = tuple(keys_by_expression[arg] for arg in measure.call.args)
            totals.append(replace(measure, call=replace(measure.call, args=args)))
            continue
        cell = replace(measure, field=_fresh(measure.field, identities))
        total = AggregateCall("sum", (cell.field.ref,), type=measure.field.type)
        cells.append(cell)
        totals.append(Measure(_fresh(measure.field, identities), total))
    finest = replace(relation, keys=keys, measures=tuple(cells), sets=())
    outer = tuple(
        replace(old, expression=new.field.ref) for old, new in zip(relation.keys, keys, strict=True)
    )
    grouped = replace(relation, input=finest, keys=outer, measures=tuple(totals))
    items = [Item(key.field, key.field.ref) for key in outer]
    for measure, summed in zip(relation.measures, totals, strict=True):
        value: Expression = summed.field.ref
        if measure.call.function == "count":
            value = scalar("coalesce", value, 0, kind=measure.field.type)
        items.append(Item(measure.field, value))
    return Project(grouped, tuple(items))


def one_by_one(relation: Aggregate, identities: Identities) -> Relation:
    """Return the union of one GROUP BY per grouping."""
    branches = [_branch(relation, chosen, identities) for chosen in relation.sets]
    result, *others = branches
    for place, branch in enumerate(others):
        last = place == len(others) - 1
        fields = tuple(f if last else _fresh(f, identities) for f in relation.fields)
        result = Union(
            kind="UNION", all=True, left=result, right=branch, fields=fields, span=relation.span
        )
    if others:
        return result
    items = tuple(Item(f, old.ref) for f, old in zip(relation.fields, result.fields, strict=True))
    return Project(result, items)


def _branch(relation: Aggregate, chosen: tuple[int, ...], identities: Identities) -> Relation:
    keys = {n: replace(k, field=_fresh(k.field, identities)) for n, k in enumerate(relation.keys)}
    measures = {
        m.field.id: replace(m, field=_fresh(m.field, identities))
        for m in relation.measures
        if m.call.function != GROUPING
    }
    grouped = Aggregate(
        relation.input, tuple(keys[n] for n in chosen), tuple(measures.values()), relation.span
    )
    items = [
        _item(key.field, keys[n].field.ref if n in chosen else _null(key.field), identities)
        for n, key in enumerate(relation.keys)
    ]
    for measure in relation.measures:
        value = _bits(relation, measure, chosen)
        if measure.field.id in measures:
            value = measures[measure.field.id].field.ref
        items.append(_item(measure.field, value, identities))
    return Project(grouped, tuple(items))


def _bits(relation: Aggregate, measure: Measure, chosen: tuple[int, ...]) -> Expression:
    """Return the value of GROUPING(a, b, ...) in one grouping: the first argument is the highest
    bit.
    """
    here = {relation.keys[n].expression for n in chosen}
    bits = 0
    for arg in measure.call.args:
        bits = 2 * bits + (arg not in here)
    return Literal(bits, INTEGER)


def _item(field: Field, value: Expression, identities: Identities) -> Item:
    return Item(_fresh(field, identities), value)


def _null(field: Field) -> Expression:
    null = Literal(None, NULL)
    return null if field.type == NULL else Cast(null, field.type)


def _fresh(field: Field, identities: Identities) -> Field:
    return identities.field(field.name, field.type)
