"""BOOL_OR and BOOL_AND: whether the noisy number of rows that decide is at least one.

BOOL_OR counts the rows where the condition is true, BOOL_AND those where it is false. A few rows
among much noise decide nothing: the answer is reliable where the count is far from zero or the
noise below one row, as `explain` shows. Over no rows BOOL_OR is false and BOOL_AND true.

Proof (PRIVACY.md R31). The rows that decide are counted, as COUNT counts.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe, conjunction, rows_of_unit
from dpsql.compiler.plan.measurement_kinds import RowCount
from dpsql.model.tree import Expression, Ref


def _any(asked: BoundedCall) -> Parts:
    condition = conjunction(asked.call.filter, asked.expression)
    return (RowCount(condition, rows_of_unit(asked)),)


def _some(_asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].ge(1)


def _but(asked: BoundedCall) -> Parts:
    condition = conjunction(asked.call.filter, ~asked.expression)
    return (RowCount(condition, rows_of_unit(asked)),)


def _none(_asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].lt(1)


BOOL_OR = Recipe(_any, _some)
BOOL_AND = Recipe(_but, _none)
