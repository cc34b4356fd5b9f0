"""Inputs of a block's measurements: the expressions of a row that they read."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.plan.lattices import Histogram
from dpsql.compiler.plan.measurement_kinds import BlockAverage, Measurement, expressions_of
from dpsql.model.tree import AggregateCall, Expression, Literal, Star
from dpsql.model.walk import children, walk


def aggregates(expression: Expression) -> Iterator[AggregateCall]:
    """Return the aggregates in an expression."""
    return (node for node in walk(expression) if isinstance(node, AggregateCall))


def inputs_of(part: Measurement | Histogram) -> list[Expression]:
    """Return the expressions of a row that a measurement reads.

    For sample-and-aggregate these are the arguments of its aggregates, without constants.
    """
    match part:
        case BlockAverage():
            read = [child for call in aggregates(part.argument) for child in children(call)]
            return [child for child in read if not isinstance(child, Literal | Star)]
        case Histogram():
            return part.expressions
        case _:
            return expressions_of(part)
