"""Averages over the rows of many privacy units that are released first, as a stage.

`amount > AVG(amount) OVER (PARTITION BY status)` compares each row with the average of its group.
The average is released like any other, and each row is joined with the released number of its
group. Its error is no part of the ± of what is asked above it. Windows with an order or a frame,
and averages that are group keys, stay as they are.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.resolve.window_aggregates import lacks_null
from dpsql.model.algebra import (
    Aggregate,
    Item,
    Join,
    Measure,
    Project,
    Relation,
    Window,
    WindowItem,
)
from dpsql.model.dataclass import replace
from dpsql.model.renumber import renumbered
from dpsql.model.tree import BOOLEAN, AggregateCall, Call, Expression, JoinKind, WindowCall
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, map_inputs, refs, substitute


def as_stages(
    relation: Relation, policy: Policy, identities: Identities, keys: frozenset[int] = frozenset()
) -> Relation:
    """Return the relation with such averages joined; the same object if there are none.

    `keys` are columns that group keys above read.
    """
    below = _read_by_keys(relation, keys)
    inner = map_inputs(relation, lambda r: as_stages(r, policy, identities, below))
    relation = relation if inner == relation else inner
    if not isinstance(relation, Window) or not any(_is_average(i.call) for i in relation.items):
        return relation
    if any(_is_average(item.call) and item.field.id in keys for item in relation.items):
        return relation
    rows = relation.input
    for item in relation.items:
        if _is_average(item.call):
            rows = _with_average(rows, relation.input, item, policy, identities)
    others = tuple(item for item in relation.items if not _is_average(item.call))
    rows = Window(rows, others, relation.rows) if others else rows
    return Project(rows, tuple(field.item for field in relation.fields))


def _read_by_keys(relation: Relation, keys: frozenset[int]) -> frozenset[int]:
    """Return the columns of a relation's input that group keys in it or above it read."""
    read = frozenset[int]()
    match relation:
        case Aggregate():
            return read.union(*(refs(item.expression) for item in relation.keys))
        case Project():
            return read.union(*(refs(i.expression) for i in relation.items if i.field.id in keys))
        case _:
            return keys


def _is_average(call: WindowCall) -> bool:
    """Test for AVG over a whole partition."""
    return call.function == "avg" and not (call.order_by or call.frame or call.ignore_nulls)


def _with_average(
    rows: Relation, source: Relation, item: WindowItem, policy: Policy, identities: Identities
) -> Relation:
    """Join rows with the average of their group in `source`, a relation of the same rows."""
    call = item.call
    average = AggregateCall(
        "avg", call.args, call.distinct, filter=call.filter, type=call.type, span=call.span
    )
    measures = (Measure(item.field, average),)
    return with_released(rows, source, call.partition_by, measures, policy, identities)


def with_released(
    rows: Relation,
    source: Relation,
    keys: tuple[Expression, ...],
    measures: tuple[Measure, ...],
    policy: Policy,
    identities: Identities,
) -> Relation:
    """Join rows with aggregates of their group by `keys` in `source`, a relation of the same rows.

    The aggregates are released first, since rows of many units are in them.
    """
    span = measures[0].call.span
    copy, names = renumbered(source, lambda f: identities.field(f.name, f.type))
    values = {number: field.ref for number, field in names.items()}
    renamed = tuple(replace(m, call=_renamed_call(m.call, values)) for m in measures)
    grouped = tuple(
        Item(identities.field("", type_of(key)), substitute(key, values)) for key in keys
    )
    groups = Aggregate(copy, grouped, renamed, span)
    same = tuple(
        Call(
            "eq" if lacks_null(mine, source, policy) else "is_not_distinct",
            (mine, key.field.ref),
            BOOLEAN,
            span,
        )
        for mine, key in zip(keys, grouped, strict=True)
    )
    kind = JoinKind.INNER if same else JoinKind.CROSS
    return Join(rows, groups, kind, both(same), span)


def _renamed_call(call: AggregateCall, values: Mapping[int, Expression]) -> AggregateCall:
    renamed = substitute(call, values)
    assert isinstance(renamed, AggregateCall)
    return renamed
