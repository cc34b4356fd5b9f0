"""STRING_AGG(DISTINCT x) and ARRAY_AGG(DISTINCT x) of many units, as a list of released values.

    SELECT STRING_AGG(DISTINCT x, ', ') FROM t
    SELECT STRING_AGG(x, ', ' ORDER BY x) FROM (SELECT DISTINCT x FROM t)

The distinct values are released as group keys: declared ones all, others if enough units have them.
By group they are refused: not every declared value is in every group.

Proof (PRIVACY.md R66). The list is computed from released values.
"""

from __future__ import annotations

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.algebra import Aggregate, Item, Measure
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import AggregateCall, SortKey, Star


@dataclass(frozen=True, slots=True)
class ListedValues:
    """Private `values`, to be released, and the `list` over them."""

    values: Aggregate
    list: Aggregate


def of_different_values(relation: Aggregate, identities: Identities) -> ListedValues | None:
    """Return such an aggregate as a list of released values; None for other aggregates."""
    if len(relation.measures) != 1 or relation.keys:
        return None
    (measure,) = relation.measures
    match measure.call:
        case AggregateCall("string_agg" | "list", (x, *rest), True, None, clip=None) as call:
            pass
        case _:
            return None
    if isinstance(x, Star) or any(key.expression != x for key in call.order_by):
        return None
    value = Item(identities.field("", type_of(x)), x)
    values = replace(relation, keys=(value,), measures=())
    order = tuple(replace(key, expression=value.field.ref) for key in call.order_by)
    order = order or (SortKey(value.field.ref),)
    args = value.field.ref, *rest
    listed = replace(call, args=args, distinct=False, order_by=order)
    outer = replace(relation, input=values, measures=(Measure(measure.field, listed),))
    return ListedValues(values, outer)
