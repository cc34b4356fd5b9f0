"""Aggregates within one unit over rows that stand for several."""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.track.per_unit import SAFE_DIGITS
from dpsql.model import tree
from dpsql.model.algebra import Aggregate, Item, Measure, Project

UNMOVED = frozenset("min max bool_and bool_or".split())
"""Aggregates that do not depend on repetitions of rows; DISTINCT ones do not either."""

WEIGHT_DIGITS = 10
"""Digits of a weight, which is below 2^32."""


def is_weighable(measure: Measure) -> bool:
    """Test whether an aggregate can be computed from weighted rows."""
    call = measure.call
    if _is_unmoved(call) or len(call.args) != 1:
        return _is_unmoved(call)
    if call.function == "count":
        return True
    return call.function in ("sum", "avg") and _product_type(type_of(call.args[0])) is not None


def weighed_aggregate(
    relation: Aggregate, weight: tree.Expression, identities: Identities
) -> Aggregate | Project:
    """Return the aggregate of rows that each count `weight` times."""
    if all(_is_unmoved(m.call) for m in relation.measures):
        return relation
    items = [Item(key.field, key.field.ref) for key in relation.keys]
    measures: list[Measure] = []

    def total(
        call: tree.AggregateCall, value: tree.Expression, kind: tree.SqlType = tree.INTEGER
    ) -> tree.Ref:
        """Add a sum over the call's rows as a column, with DOUBLEs in a fixed order."""
        order = (*call.order_by, tree.SortKey(weight)) if call.order_by else ()
        summed = replace(call, function="sum", args=(value,), order_by=order, type=kind)
        measures.append(Measure(identities.field("sum", kind), summed))
        return measures[-1].field.ref

    for measure in relation.measures:
        if _is_unmoved(measure.call):
            measures.append(measure)
            items.append(Item(measure.field, measure.field.ref))
            continue
        call, column = measure.call, measure.field
        match call.function:
            case "count":
                counted = total(call, _counted(call, weight))
                none = tree.scalar("coalesce", counted, 0, kind=tree.INTEGER)  # 0 without rows
                value: tree.Expression = tree.Cast(none, column.type, safe=True)
            case "sum":
                value = total(call, _times(call.args[0], weight), column.type)
            case _:
                summed = total(call, product := _times(call.args[0], weight), type_of(product))
                number = total(replace(call, order_by=()), _counted(call, weight))
                value = summed.to(tree.DOUBLE) / number.to(tree.DOUBLE)
        items.append(Item(column, value))
    return Project(replace(relation, measures=tuple(measures)), tuple(items))


def _is_unmoved(call: tree.AggregateCall) -> bool:
    return call.distinct or call.function in UNMOVED


def _counted(call: tree.AggregateCall, weight: tree.Expression) -> tree.Expression:
    """Return the weight of a row that counts, 0 for a NULL value."""
    (value,) = call.args
    if isinstance(value, tree.Star):
        return weight
    return tree.when(value.is_null(), 0, weight, kind=tree.INTEGER)


def _times(value: tree.Expression, weight: tree.Expression) -> tree.Expression:
    kind = _product_type(type_of(value))
    assert kind is not None
    if kind == tree.DOUBLE:
        return value * weight.to(tree.DOUBLE)
    product = tree.scalar("mul", value, weight, kind=kind)
    return product if kind == tree.INTEGER else tree.Cast(product, kind, safe=True)


def _product_type(kind: tree.SqlType) -> tree.SqlType | None:
    """Return the type of a value times a weight, with room for sums; None if there is none."""
    match kind.kind:
        case tree.Kind.INTEGER | tree.Kind.DOUBLE:
            return kind
        case tree.Kind.DECIMAL if kind.precision + WEIGHT_DIGITS <= SAFE_DIGITS:
            return tree.decimal(SAFE_DIGITS, kind.scale)
        case _:
            return None
