"""Public relations that multiply rows and do nothing else: by a number, not by rows.

`FROM people, cities` counts each person as often as there are cities. Nothing above reads a city,
so the cities need not meet anybody's rows: they are counted, which anybody may, and what is counted
and summed of the people is multiplied. A condition on the cities alone is theirs.

What this leaves is equal: an inner join with n rows that no condition ties to the others repeats
each of those n times. COUNT and SUM of rows that are repeated are n times as large; averages,
extremes and sets of values are as they were.

Proof (PRIVACY.md R23). An inner join with n rows that no condition ties to the others repeats each
row n times, and n is public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from math import prod

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.inner_joins import Joined, columns_of, is_public_table, rebuilt
from dpsql.model.algebra import (
    Aggregate,
    Filter,
    Item,
    Join,
    Measure,
    Project,
    Relation,
    Scan,
    Values,
)
from dpsql.model.tree import INTEGER, AggregateCall, Call, Expression, JoinKind, Kind, Literal, Ref
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, map_inputs, refs, relations

Count = Callable[[Relation, tuple[Ref, ...]], int]
"""How often one value of some columns occurs in a public relation; see `track`."""

REPEATED = frozenset({"count", "sum", "count_if"})
"""What grows with the rows. COUNT and SUM of DISTINCT values do not."""
UNMOVED = frozenset("avg min max bool_and bool_or var_pop stddev_pop".split())
"""What is the same however often all rows are repeated."""
MOST = 1 << 31
"""A larger number is left to the limit on joins."""


def counted(relation: Relation, policy: Policy, count: Count, identities: Identities) -> Relation:
    """The same query, in which public relations that only multiply are numbers."""

    def change(part: Relation) -> Relation:
        return counted(part, policy, count, identities)

    relation = map_inputs(relation, change)
    if not isinstance(relation, Aggregate) or not _may_be_multiplied(relation):
        return relation
    joined = Joined.of(relation.input)
    if all(_is_public(part, policy) for part in relations(relation.input) if _is_table(part)):
        return relation
    idle = [group for group in joined.groups() if _is_idle(group, relation, joined, policy)]
    numbers = [count(_product(group, joined), ()) for group in idle]
    # One row or none: it is not for `count` to say which, and one multiplies nothing.
    gone = [group for group, number in zip(idle, numbers, strict=True) if 1 < number < MOST]
    factor = prod(number for number in numbers if 1 < number < MOST)
    if not gone or factor >= MOST:
        return relation
    columns = frozenset().union(*map(columns_of, gone))
    rest = _without(relation.input, columns)
    return _multiplied(replace(relation, input=rest), factor, identities)


def _is_idle(group: tuple[Relation, ...], above: Aggregate, joined: Joined, policy: Policy) -> bool:
    """Whether a group is of public tables, and nothing but its own conditions reads it.

    A condition on no table at all belongs to none of them.
    """
    columns = columns_of(group)
    read = (item.expression for item in above.keys)
    measured = (part for m in above.measures for part in _inputs(m.call))
    return (
        all(_is_public(leaf, policy) for leaf in group)
        and not any(refs(part) & columns for part in (*read, *measured))
        and all(refs(c) <= columns for c in joined.conditions if refs(c) & columns)
    )


def _is_table(part: Relation) -> bool:
    return isinstance(part, Scan | Values)


def _is_public(part: Relation, policy: Policy) -> bool:
    """Whether this is a public table, or columns and conditions over one: it has as many rows
    every time.
    """
    if isinstance(part, Project | Filter):
        return _is_public(part.input, policy)
    return is_public_table(part, policy)


def _inputs(call: AggregateCall) -> Iterator[Expression]:
    yield from call.args
    yield from () if call.filter is None else (call.filter,)
    yield from (key.expression for key in call.order_by)


def _product(group: tuple[Relation, ...], joined: Joined) -> Relation:
    """The rows of a group that meet its own conditions."""
    own = tuple(c for c in joined.conditions if refs(c) and refs(c) <= columns_of(group))
    rows = reduce(lambda a, b: Join(a, b, JoinKind.CROSS, None), group)
    condition = both(own)
    return rows if condition is None else Filter(rows, condition)


def _may_be_multiplied(relation: Aggregate) -> bool:
    return all(_is_unmoved(m.call) or _is_repeated(m) for m in relation.measures)


def _is_unmoved(call: AggregateCall) -> bool:
    return call.clip is None and (
        call.function in UNMOVED or (call.distinct and call.function in REPEATED)
    )


def _is_repeated(measure: Measure) -> bool:
    call = measure.call
    exact = measure.field.type.kind in (Kind.INTEGER, Kind.DOUBLE)
    return call.function in REPEATED and call.clip is None and exact


def _without(relation: Relation, columns: frozenset[int]) -> Relation:
    """The join without the leaves that have these columns and without what is said of them."""
    rest = rebuilt(
        relation,
        lambda leaf: None if columns_of((leaf,)) & columns else leaf,
        lambda condition: not refs(condition) & columns,
    )
    assert rest is not None
    return rest


def _multiplied(relation: Aggregate, factor: int, identities: Identities) -> Relation:
    """The aggregate of rows each of which stands for so many."""
    items = [Item(key.field, Ref(key.field.id, key.field.type)) for key in relation.keys]
    measures = []
    for measure in relation.measures:
        column = measure.field
        if _is_unmoved(measure.call):
            measures.append(measure)
            items.append(Item(column, Ref(column.id, column.type)))
            continue
        once = identities.field(column.name, column.type)
        measures.append(Measure(once, measure.call))
        value = Ref(once.id, once.type), Literal(factor, INTEGER)
        items.append(Item(column, Call("mul", value, column.type)))
    return Project(replace(relation, measures=tuple(measures)), tuple(items))
