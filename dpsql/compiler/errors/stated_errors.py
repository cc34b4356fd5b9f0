"""Errors that a query states.

DP_STDDEV, DP_INTERVAL_LOW and DP_INTERVAL_HIGH of released numbers are columns. They are computed
from noise scales and released values, which are public, so they cost no budget. An exact number has
the error 0. A stated error is exact itself, and does not influence the split of the budget: the
same numbers are measured with and without their errors.

Ends lie within the range that is certain of the number, or at the number where noise moved it out
of a range with one end.

It is post-processing: PRIVACY.md R66, R108.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import TypeVar, cast

from dpsql.compiler.errors.bias_ends import Reach
from dpsql.compiler.errors.expression_errors import NAN, value_type
from dpsql.compiler.errors.noisy_columns import Traced
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.resolve.scopes import Identities, is_stated, stated_in
from dpsql.model.algebra import (
    Aggregate,
    Filter,
    Item,
    Limit,
    Project,
    Relation,
    Sort,
    Window,
)
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Interval
from dpsql.model.tree import DOUBLE, Call, Expression, Literal, Ref, operand, scalar, when
from dpsql.model.walk import map_children, map_expressions, relations, walk

OneInput = TypeVar("OneInput", bound=Filter | Sort | Limit | Project | Aggregate | Window)


def states(relation: Relation) -> bool:
    """Test whether errors are stated anywhere in a query."""
    return any(True for part in relations(relation) for _ in stated_in(part))


@dataclass(frozen=True, slots=True)
class Stating:
    """Writer of stated errors as columns; `reach` is the half-width over the standard error.

    `range_of` returns the certain range of an expression.
    """

    identities: Identities
    reach: Reach
    range_of: Callable[[Expression], Interval]

    def over(self, relation: OneInput, source: Traced) -> tuple[OneInput, Traced]:
        """Return the relation with errors read as columns, and its input with these columns.

        Raises `Refused` where an error is unknown.
        """
        while calls := {
            c
            for c in stated_in(relation)
            if not any(is_stated(node) for arg in c.args for node in walk(arg))
        }:
            errors = {call: self.identities.field("error", DOUBLE) for call in calls}
            items = (f.item for f in source.relation.fields)
            stated = (Item(f, self._formula(call, source)) for call, f in errors.items())
            source = source.over(Project(source.relation, (*items, *stated)))
            read = {call: Ref(f.id, DOUBLE) for call, f in errors.items()}
            relation = cast("OneInput", map_expressions(relation, partial(_put, read)))
        return relation, source

    def _formula(self, call: Call, source: Traced) -> Expression:
        """Return the formula of a stated error: NULL where the number is, or where its error is
        unknown.
        """
        (number,) = call.args
        error = source.error(number)
        if error is NAN:
            construct = f"{call.function.upper()} of a number whose error is not known"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)
        deviation = operand(0.0)
        if error is not EXACT:
            deviation = scalar("nullif", scalar("coalesce", error, 0.0), NAN)
        value, margin = number.to(DOUBLE), deviation * self.reach.width
        ends = None if error is EXACT else source.ends(number)
        below, above = (margin, margin) if ends is None else self.reach.halves(deviation, ends)
        match call.function:
            case "dp_stddev":
                bound = deviation
            case "dp_interval_low":
                bound = self._within(number, value - below, below + above, high=False)
            case "dp_interval_high":
                bound = self._within(number, value + above, below + above, high=True)
            case _:
                raise AssertionError(call.function)
        return when(number.is_null(), EXACT, bound)

    def _within(
        self, number: Expression, end: Expression, width: Expression, *, high: bool
    ) -> Expression:
        """Return an end of an interval within the certain range of the number.

        What is left of an interval beyond the range is half of it, at the nearer end of the range.
        A number beyond the only end of a range is an end itself: an interval holds its number.
        """
        certain, half, kind = self.range_of(number), width * 0.5, value_type(number)
        if kind is None or not kind.is_numeric:
            return end
        low, top = (
            Literal(float(each), DOUBLE) if isinstance(each, Fraction) else None
            for each in (certain.lo, certain.hi)
        )
        near, far, back = (top, low, half) if high else (low, top, half * -1.0)
        if far is not None:
            end = when(end.lt(far) if high else end.gt(far), far + back, end)
        if near is None:
            return end
        extreme = "greatest" if high else "least"
        last = near if far is not None else scalar(extreme, near, number.to(DOUBLE))
        return when(end.gt(last) if high else end.lt(last), last, end)


def _put(columns: Mapping[Call, Ref], expression: Expression) -> Expression:
    if isinstance(expression, Call) and expression in columns:
        return columns[expression]
    return map_children(expression, partial(_put, columns))
