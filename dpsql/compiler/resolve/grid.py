"""Times of a statement on the public grid: the value of NOW(), and recent constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dpsql.model.algebra import Relation, Resolved
from dpsql.model.notices import RoundedTimes
from dpsql.model.public_times import rounded
from dpsql.model.resources import Limits
from dpsql.model.tree import Expression, Literal, Statement
from dpsql.model.walk import expressions, map_children, map_expressions, map_inputs, relations, walk


def on_grid(
    resolved: Resolved, statement: Statement, limits: Limits
) -> tuple[Resolved, tuple[RoundedTimes, ...]]:
    """Return the statement with its times on the grid, and a notice about that.

    Rounding down keeps the order of any two times: adjacent ranges stay adjacent.
    """
    relation, instant = resolved.relation, statement.instant
    if instant is None:
        return resolved, ()
    if limits.round_recent_times:
        step = partial(rounded, resolution=limits.time_resolution, instant=instant)
        relation = _changed(relation, step)
    constants = relation != resolved.relation
    spoken = statement.reads_clock or (statement.says_now and _has_now(statement, relation))
    if not (spoken or constants):
        return resolved, ()
    notice = RoundedTimes(limits.time_resolution, instant if spoken else None, constants)
    return replace(resolved, relation=relation), (notice,)


def _has_now(statement: Statement, relation: Relation) -> bool:
    """Test whether a text that contains 'now' is read as a time."""
    assert statement.instant is not None
    moments = statement.instant, statement.instant.replace(tzinfo=None)
    return any(
        isinstance(node, Literal) and node.value in moments
        for each in relations(relation)
        for expression in expressions(each)
        for node in walk(expression)
    )


def _changed(relation: Relation, change: Callable[[Expression], Expression]) -> Relation:
    def below(expression: Expression) -> Expression:
        return change(map_children(expression, below))

    return map_expressions(map_inputs(relation, partial(_changed, change=change)), below)
