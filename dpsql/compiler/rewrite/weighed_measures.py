"""Aggregates within one person over rows that stand for several."""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.track.per_unit import SAFE_DIGITS
from dpsql.model.algebra import Aggregate, Item, Measure, Project
from dpsql.model.tree import (
    DOUBLE,
    INTEGER,
    AggregateCall,
    Cast,
    Expression,
    Kind,
    Ref,
    SortKey,
    SqlType,
    Star,
    decimal,
    scalar,
    when,
)

UNMOVED = frozenset("min max bool_and bool_or".split())
"""Aggregates that are the same however often a row is repeated; so are those of DISTINCT values."""

WEIGHT_DIGITS = 10
"""Digits of a weight: it is below 2^32."""


def is_weighable(measure: Measure) -> bool:
    """Whether an aggregate follows from rows with weights."""
    call = measure.call
    if _is_unmoved(call) or len(call.args) != 1:
        return _is_unmoved(call)
    if call.function == "count":
        return True
    return call.function in ("sum", "avg") and _product_type(type_of(call.args[0])) is not None


def weighed_aggregate(
    relation: Aggregate, weight: Expression, identities: Identities
) -> Aggregate | Project:
    """The aggregate of rows each of which stands for so many."""
    if all(_is_unmoved(m.call) for m in relation.measures):
        return relation
    items = [Item(key.field, key.field.ref) for key in relation.keys]
    measures: list[Measure] = []

    def total(call: AggregateCall, value: Expression, kind: SqlType = INTEGER) -> Ref:
        """The column of a sum of what the call is about, DOUBLEs in the same order every time."""
        order = (*call.order_by, SortKey(weight)) if call.order_by else ()
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
                none = scalar("coalesce", counted, 0, kind=INTEGER)  # 0 of no rows
                value: Expression = Cast(none, column.type, safe=True)
            case "sum":
                value = total(call, _times(call.args[0], weight), column.type)
            case _:
                summed = total(call, product := _times(call.args[0], weight), type_of(product))
                number = total(replace(call, order_by=()), _counted(call, weight))
                value = summed.to(DOUBLE) / number.to(DOUBLE)
        items.append(Item(column, value))
    return Project(replace(relation, measures=tuple(measures)), tuple(items))


def _is_unmoved(call: AggregateCall) -> bool:
    return call.distinct or call.function in UNMOVED


def _counted(call: AggregateCall, weight: Expression) -> Expression:
    """The weight of a row that counts, 0 of one whose value is NULL."""
    (value,) = call.args
    if isinstance(value, Star):
        return weight
    return when(value.is_null(), 0, weight, kind=INTEGER)


def _times(value: Expression, weight: Expression) -> Expression:
    kind = _product_type(type_of(value))
    assert kind is not None
    if kind == DOUBLE:
        return value * weight.to(DOUBLE)
    product = scalar("mul", value, weight, kind=kind)
    return product if kind == INTEGER else Cast(product, kind, safe=True)


def _product_type(kind: SqlType) -> SqlType | None:
    """The type of a value times a weight, of which so many add up as of values; None: none does."""
    match kind.kind:
        case Kind.INTEGER | Kind.DOUBLE:
            return kind
        case Kind.DECIMAL if kind.precision + WEIGHT_DIGITS <= SAFE_DIGITS:
            return decimal(SAFE_DIGITS, kind.scale)
        case _:
            return None
