"""Recognition of queries for the first keys of public groups.

They are ORDER BY aggregate LIMIT k, and ARG_MAX(key, aggregate) over grouped rows, alone or with
MAX(aggregate): the first key of such an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.model.algebra import Aggregate, Limit, Measure, Project, Relation, Released, Sort
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Cast, Expression, Ref
from dpsql.model.walk import composed, refs

_ENDS = {"arg_max": "max", "arg_min": "min"}
"""Aggregates that name a row by its value, and the aggregates that return the value."""


@dataclass(frozen=True, slots=True)
class TopShape:
    """The `count` first keys of `block`, ordered by the measurement in column `scored`.

    `scored` is the id of a released column. `shown` says that measurements are shown too. `filled`
    are places of keys where NULLs do not count.
    """

    block: int
    count: int
    scored: int
    lowest: bool
    shown: bool
    filled: frozenset[int] = frozenset()


def top_shape(query: Relation, keys: Sequence[int]) -> TopShape | None:
    """Return the shape of a query for the first groups of a block in an order; None for others.

    `keys` has the number of key columns of each block.
    """
    outputs: list[Expression] = [f.ref for f in query.fields]
    while isinstance(query, Project):
        shorter = _composed(outputs, query)
        if shorter is None:
            return None
        outputs, query = shorter, query.input
    match query:
        case Limit(limit=int(limit), offset=0, input=Sort() as ordered) if limit:
            return _first_rows(ordered, outputs, limit, keys)
        case Aggregate(keys=(), sets=(), measures=measures):
            return _of_ends(query.input, measures, keys)
        case _:
            return None


def first_groups(query: Relation, keys: Sequence[int]) -> Mapping[int, int]:
    """Return how many groups of a block a query shows, if it shows those of its largest numbers.

    `keys` has the number of key columns of each block.
    """
    while isinstance(query, Project):
        query = query.input
    match query:
        case Limit(limit=int(limit), offset=offset, input=Sort() as ordered) if limit:
            over = _over_released(ordered.input, [key.expression for key in ordered.keys])
        case _:
            return {}
    if over is None or not ordered.keys[0].descending:
        return {}
    released, (first, *_) = over
    columns = {field.id for field in released.fields[: keys[released.block]]}
    return {} if refs(first) <= columns else {released.block: limit + offset}


def _first_rows(
    ordered: Sort, outputs: list[Expression], limit: int, keys: Sequence[int]
) -> TopShape | None:
    """Return the shape of rows ordered by a measurement first."""
    order = [key.expression for key in ordered.keys]
    measured_over = _over_released(ordered.input, [*outputs, *order])
    if measured_over is None:
        return None
    released, read = measured_over
    pairs = zip(ordered.keys, read[len(outputs) :], strict=True)
    first, *others = [replace(key, expression=expression) for key, expression in pairs]
    scored = _measurement(first.expression, released, keys)
    if scored is None:
        return None
    noisy = {f.id for f in released.fields[keys[released.block] :]}
    shown = [*read[: len(outputs)], *(key.expression for key in others)]
    measured = any(refs(expression) & noisy for expression in shown)
    return TopShape(released.block, limit, scored, not first.descending, measured)


def _of_ends(
    source: Relation, measures: tuple[Measure, ...], keys: Sequence[int]
) -> TopShape | None:
    """Return the shape of ARG_MAX(key, y) and MAX(y) of one measurement y, or ARG_MIN and MIN."""
    calls = [measure.call for measure in measures]
    ends = {call.function for call in calls} & _ENDS.keys()
    measured_over = _over_released(source, [arg for call in calls for arg in call.args])
    more = any(call.distinct or call.filter is not None or call.order_by for call in calls)
    if len(ends) != 1 or measured_over is None or more:
        return None
    (end,), (released, read) = ends, measured_over
    places = {f.id: n for n, f in enumerate(released.fields[: keys[released.block]])}
    left, scores, filled = iter(read), set[int | None](), set[int | None]()
    for call in calls:
        if call.function == end:
            key = next(left)
            filled.add(places.get(key.id) if isinstance(key, Ref) else None)
        elif call.function != _ENDS[end]:
            return None
        scores.add(_measurement(next(left), released, keys))
    if len(scores) != 1 or None in filled | scores:
        return None
    (scored,) = (score for score in scores if score is not None)
    all_filled = frozenset(place for place in filled if place is not None)
    shown = any(call.function != end for call in calls)
    return TopShape(
        block=released.block,
        count=1,
        scored=scored,
        lowest=end == "arg_min",
        shown=shown,
        filled=all_filled,
    )


def _over_released(
    source: Relation, expressions: list[Expression]
) -> tuple[Released, list[Expression]] | None:
    """Return the expressions over the table of a block, if only projections are above it."""
    while isinstance(source, Project):
        shorter = _composed(expressions, source)
        if shorter is None:
            return None
        expressions, source = shorter, source.input
    return (source, expressions) if isinstance(source, Released) else None


def _composed(expressions: Sequence[Expression], project: Project) -> list[Expression] | None:
    """Return the expressions over the input of the projection; None where they grow too large."""
    by_field = {item.field.id: item.expression for item in project.items}
    over_input = [composed(expression, by_field) for expression in expressions]
    return [e for e in over_input if e is not None] if None not in over_input else None


def _measurement(score: Expression, released: Released, keys: Sequence[int]) -> int | None:
    """Return the column of the measurement that an expression reads, ignoring numeric casts."""
    while isinstance(score, Cast) and score.type.is_numeric:
        score = score.arg
    behind = {field.id for field in released.fields[keys[released.block] :]}
    columns = [
        column
        for column, field in released.reads.items()
        if field.id in behind and score == field.ref
    ]
    return columns[0] if columns else None
