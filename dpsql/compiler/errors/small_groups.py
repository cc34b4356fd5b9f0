"""Means of groups with a small noisy count, shrunk towards the middle of their bounds.

A mean's offset from the middle lies in [-M, M]; if it may be anywhere there, its variance is M²/3.
Of a noisy centred sum S = n·offset + noise and a noisy count n, the linear estimate with the least
mean squared error is S·n/(n² + k), k = (σS² + σn²·M²/3) / (M²/3): the ratio S/n where n is large
against the noise, and the middle where n is small against it (ridge regression of S on n; Hoerl and
Kennard 1970). It reads released numbers and noise scales only, which are public.

The formula is `mean_offset(S, n, lower, upper)` until the noise is known, which adds k. Its error
is that of S/√max(k/2, n² - k): of the ratio where n is large; elsewhere of one by fewer rows, since
a large noisy count of a small group hides how far the mean was shrunk. Up to n = 4·√k the error is
that of (S + n·M/√3)/√max(k/2, n² - k): what the noise of n hides of S counts as if the mean were
anywhere, and no group of nobody looks larger; beyond, that part is zero. At its most the error is
M·√(2/3), so that a mean at one bound is within 1.96 of them from most of the range.

A condition on a mean is unknown, like one on NULL, in a group whose noisy count is at most √k: the
middle of the bounds would otherwise let listed groups without people through.

It is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import hypot, sqrt

from dpsql.compiler.aggregates.formulas import at_least_one, evaluate
from dpsql.compiler.resolve.scopes import stated_in
from dpsql.model.algebra import Filter, Project, Relation, Released
from dpsql.model.tree import Call, Expression, operand, scalar, when
from dpsql.model.walk import (
    composed,
    expressions,
    map_children,
    map_inputs,
    refs,
    relations,
    walk,
)

NAME = "mean_offset"
CLEAR = 4.0
"""A count above this number of √k is no count of nobody."""

Deviations = Mapping[int, float]
"""Standard deviation of each column of a released table, in units of its values."""


def has_means(relation: Relation) -> bool:
    """Test whether a query contains a mean that is written as an estimate."""
    nodes = (n for part in relations(relation) for each in expressions(part) for n in walk(each))
    return any(isinstance(node, Call) and node.function == NAME for node in nodes)


def with_noise_known(relation: Relation, blocks: Sequence[Mapping[int, float | None]]) -> Relation:
    """Return the query with k in every mean; `blocks` has the deviation of each column by
    its id.
    """

    def with_deviations(expression: Expression, source: Relation) -> Expression:
        if not isinstance(source, Released):
            return expression
        columns = blocks[source.block]
        by_field = {f.id: columns.get(column) for column, f in source.reads.items()}
        deviations = {n: d for n, d in by_field.items() if d is not None}
        return _with_deviation(expression, deviations)

    return _with_conditions(_map_items(relation, with_deviations))


def _with_conditions(relation: Relation) -> Relation:
    """Return the query whose conditions on means are unknown in groups without people."""
    inner = map_inputs(relation, _with_conditions)
    if isinstance(inner, Filter) and not any(stated_in(inner)):
        return _filtered(inner.input, inner.predicate) or inner
    return inner


def _filtered(relation: Relation, predicate: Expression) -> Relation | None:
    """Return the rows for which a condition holds, tested where its means are written; None if it
    reads no mean.
    """
    if isinstance(relation, Filter):
        below = _filtered(relation.input, predicate)
        return None if below is None else replace(relation, input=below)
    if not isinstance(relation, Project):
        return None
    formulas = {item.field.id: item.expression for item in relation.items}
    formula = composed(predicate, formulas)
    if formula is None:
        return None
    if any(isinstance(node, Call) and node.function == NAME for node in walk(formula)):
        return replace(relation, input=Filter(relation.input, _or_unknown(formula)))
    below = _filtered(relation.input, formula)
    return None if below is None else replace(relation, input=below)


def _or_unknown(expression: Expression) -> Expression:
    """Return the expression with NULL for the mean of a group without people."""
    node = map_children(expression, _or_unknown)
    if not isinstance(node, Call) or node.function != NAME:
        return node
    _, count, *_, k = node.args
    noise = evaluate(k, {})
    assert noise is not None
    return when(count.gt(sqrt(noise)), node, None)


def written_out(relation: Relation) -> Relation:
    """Return the query with every mean written in SQL functions."""
    return _map_items(relation, lambda expression, _source: _estimate(expression))


def _map_items(
    relation: Relation, change: Callable[[Expression, Relation], Expression]
) -> Relation:
    inner = map_inputs(relation, lambda source: _map_items(source, change))
    if isinstance(inner, Filter):
        return replace(inner, predicate=change(inner.predicate, inner.input))
    if not isinstance(inner, Project):
        return inner
    items = (replace(i, expression=change(i.expression, inner.input)) for i in inner.items)
    return replace(inner, items=tuple(items))


def _with_deviation(expression: Expression, deviations: Deviations) -> Expression:
    node = map_children(expression, lambda child: _with_deviation(child, deviations))
    if not isinstance(node, Call) or node.function != NAME:
        return node
    centred, count, *bounds = node.args
    reach = _reach(bounds)
    noise = hypot(
        sqrt(3) * _deviation(centred, deviations) / reach if reach else 0.0,
        _deviation(count, deviations),
    )
    return replace(node, args=(*node.args, operand(noise**2)))


def _spread(bounds: Sequence[Expression]) -> float:
    """Return the deviation of a mean's offset that may be anywhere within the bounds."""
    return _reach(bounds) / sqrt(3)


def _reach(bounds: Sequence[Expression]) -> float:
    return max(abs(value) for bound in bounds if (value := evaluate(bound, {})) is not None)


def _deviation(formula: Expression, deviations: Deviations) -> float:
    """Return the deviation of a linear formula over columns with independent noise."""
    nothing = dict.fromkeys(refs(formula), 0.0)
    moved = (evaluate(formula, {**nothing, n: deviations[n]}) for n in nothing)
    least = evaluate(formula, nothing)
    assert least is not None
    return hypot(*(value - least for value in moved if value is not None))


def _estimate(expression: Expression) -> Expression:
    node = map_children(expression, _estimate)
    if not isinstance(node, Call) or node.function != NAME:
        return node
    centred, count, lower, upper, k = node.args
    rows = at_least_one(count)
    return scalar("least", scalar("greatest", centred * rows / (rows * rows + k), lower), upper)


def as_ratio(expression: Expression) -> Expression:
    """Return the formula with the error of the estimate: a ratio by fewer rows than counted."""
    node = map_children(expression, as_ratio)
    if not isinstance(node, Call) or node.function != NAME:
        return node
    centred, count, *bounds, k = node.args
    noise = evaluate(k, {})
    assert noise is not None
    clear, spread = operand(CLEAR * sqrt(noise)), _spread(bounds)
    few = scalar("least", count, clear)
    at_most = evaluate(clear / _rows_shown(clear, k), {})
    assert at_most is not None
    hidden = spread * few / _rows_shown(few, k) - spread * at_most
    return centred / _rows_shown(count, k) + hidden


def _rows_shown(count: Expression, k: Expression) -> Expression:
    rows = at_least_one(count)
    return scalar("sqrt", scalar("greatest", 1.0, 0.5 * k, rows * rows - k))
