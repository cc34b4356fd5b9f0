"""SAMPLE_AGGREGATE on DuckDB: blocks of units by a keyed hash, an expression over each.

One number of each group changes with a unit: PRIVACY.md R37.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.compiler.plan.measurement_kinds import BlockAverage
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.model.tree import (
    AggregateCall,
    Expression,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    Star,
)
from dpsql.model.walk import children, map_children, walk


def inputs_of(part: BlockAverage) -> Iterator[Expression]:
    """What the aggregates of a sampled part read of a row, constants left out."""
    for call in _aggregates(part.argument):
        yield from (child for child in children(call) if not isinstance(child, Literal | Star))


def block_values(
    part: BlockAverage, keys: Sequence[str], inputs: Mapping[Expression, str], source: str
) -> str:
    """One row per group and block of units: its value `v`, NULL where that is not finite.

    `source` has the units as `u`, the keys, and the `inputs` under their names. The block of a
    unit is a keyed hash of it alone: all of its rows are in one block, in every group.
    """
    calls = list(dict.fromkeys(_aggregates(part.argument)))
    names = dict(enumerate(inputs.values()))
    places = {expression: n for n, expression in enumerate(inputs)}
    printer = Printer(lambda _relation: None)

    def over_inputs(child: Expression) -> Expression:
        if child not in places or isinstance(child, Name | Star | ScalarQuery | Membership):
            return child
        return Ref(places[child], child.type)

    found = [
        f"{printer.text(map_children(call, over_inputs), names)} AS a{n}"
        for n, call in enumerate(calls)
    ]
    group = ", ".join([*keys, f"hash($sampling_key::UBIGINT, 'block', u) % {part.blocks}"])
    blocks = f"SELECT {', '.join([*keys, *found])} FROM {source} GROUP BY {group}"
    value = printer.text(_over(part.argument, calls), {n: f"a{n}" for n in range(len(calls))})
    listed = ", ".join([*keys, f"TRY_CAST({value} AS DOUBLE) AS x"])
    finite = ", ".join([*keys, "CASE WHEN isfinite(x) THEN x END AS v"])
    return f"SELECT {finite} FROM (SELECT {listed} FROM ({blocks}))"


def _aggregates(expression: Expression) -> Iterator[AggregateCall]:
    return (node for node in walk(expression) if isinstance(node, AggregateCall))


def _over(expression: Expression, calls: Sequence[AggregateCall]) -> Expression:
    """The expression over the columns that hold its aggregates."""
    if isinstance(expression, AggregateCall):
        return Ref(calls.index(expression), expression.type)
    return map_children(expression, lambda child: _over(child, calls))
