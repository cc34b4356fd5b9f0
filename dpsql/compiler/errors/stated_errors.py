"""DP_STDDEV, DP_INTERVAL_LOW and DP_INTERVAL_HIGH of released numbers, as columns.

They are computed from scales of noise and released values, which are public, so that they measure
and cost nothing. An exact number has the error 0. What is stated is exact itself, and the budget
is split as if it were not asked for: the same numbers are measured with and without their errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from dpsql.compiler.aggregates.formulas import double, minus, plus, times
from dpsql.compiler.errors.expression_errors import NAN
from dpsql.compiler.errors.noisy_columns import Traced
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.stated_names import is_stated, stated_in
from dpsql.model.algebra import Aggregate, Filter, Item, Limit, Project, Relation, Sort, Window
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, DOUBLE, Call, Cast, Expression, Ref
from dpsql.model.walk import map_children, map_expressions, relations, walk

OneInput = TypeVar("OneInput", bound=Filter | Sort | Limit | Project | Aggregate | Window)


def states(relation: Relation) -> bool:
    """Whether errors are stated anywhere in a query."""
    return any(True for part in relations(relation) for _ in stated_in(part))


@dataclass(frozen=True, slots=True)
class Stating:
    """Writes stated errors as columns; `factor` is half an interval over the standard error."""

    identities: Identities
    factor: float

    def over(self, relation: OneInput, source: Traced) -> tuple[OneInput, Traced]:
        """The relation reading errors as columns, and its input, `source`, with these columns.

        Raises `Refused` where an error is not known.
        """
        while calls := {c for c in stated_in(relation) if _is_innermost(c)}:
            errors = {call: self.identities.field("error", DOUBLE) for call in calls}
            kept = (Item(f, Ref(f.id, f.type)) for f in source.relation.fields)
            stated = (Item(f, self._formula(call, source)) for call, f in errors.items())
            source = source.over(Project(source.relation, (*kept, *stated)))
            read = {call: Ref(f.id, DOUBLE) for call, f in errors.items()}
            relation = cast("OneInput", map_expressions(relation, partial(_put, read)))
        return relation, source

    def _formula(self, call: Call, source: Traced) -> Expression:
        """NULL where the number is, or where its error is not known for its row."""
        (number,) = call.args
        error = source.error(number)
        if error is NAN:
            construct = f"{call.function.upper()} of a number whose error is not known"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)
        known = double(0) if error is EXACT else _where_known(error)
        value, margin = Cast(number, DOUBLE), times(known, double(self.factor))
        match call.function:
            case "dp_stddev":
                found = known
            case "dp_interval_low":
                found = minus(value, margin)
            case "dp_interval_high":
                found = plus(value, margin)
            case _:
                raise AssertionError(call.function)
        return Call("case", (Call("is_null", (number,), BOOLEAN), EXACT, found), DOUBLE)


def _where_known(error: Expression) -> Expression:
    return Call("nullif", (Call("coalesce", (error, double(0)), DOUBLE), NAN), DOUBLE)


def _is_innermost(call: Call) -> bool:
    return not any(is_stated(node) for arg in call.args for node in walk(arg))


def _put(known: Mapping[Call, Ref], expression: Expression) -> Expression:
    if isinstance(expression, Call) and expression in known:
        return known[expression]
    return map_children(expression, partial(_put, known))
