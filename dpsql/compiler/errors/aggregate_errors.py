"""The error of an aggregate or a window over many noisy values."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.errors.expression_errors import formula
from dpsql.compiler.errors.noisy_columns import Traced
from dpsql.model.tree import (
    BOOLEAN,
    DOUBLE,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    WindowCall,
)
from dpsql.model.walk import children


def is_noisy(source: Traced, call: AggregateCall | WindowCall) -> bool:
    """Whether noise reaches the call's value: by its rows, arguments, filter, order or partition.

    COUNT(x) of a noisy x alone is exact where noise makes no x NULL.
    """
    if source.selected:
        return True
    if call.function == "count" and not call.distinct and all(map(source.is_certain, call.args)):
        return source.is_noisy(*children(call)[len(call.args) :])
    return source.is_noisy(*children(call))


def argument_error(source: Traced, call: AggregateCall | WindowCall) -> Expression | None:
    """The error of the first argument; None where noise also decides which rows count, or how."""
    others = children(call)[1:]
    if not call.args or call.distinct or source.selected or source.is_noisy(*others):
        return None
    defaults = call.args[2:]
    skips = isinstance(call, WindowCall) and call.ignore_nulls
    return None if defaults or skips else source.error_in_total(call.args[0])


def error_of_many(
    source: Traced,
    call: AggregateCall | WindowCall,
    error: Expression | None,
    named: Callable[[str, Expression], Expression],
) -> Expression | None:
    """The error of an aggregate of values with these errors; None where it has no rule.

    Where the values are not known to be independent, it is at most the sum of theirs. `named` makes
    a hidden column of an aggregate over the same rows.
    """
    if error is None:
        return None
    match call.function:
        case "sum" | "avg":
            error = of_counted(call.args[0], error)
            apart = not any(source.origin[base].many for base in source.bases(call.args[0]))
            total = named("sum", formula("mul", error, error) if apart else error)
            total = formula("sqrt", total) if apart else total
            if call.function == "sum":
                return total
            return formula("div", total, Cast(named("count", call.args[0]), DOUBLE))
        case "min" | "max" | "any_value":
            return named("max", error)
        case "lag" | "lead" | "first_value" | "last_value" | "nth_value":
            return named(call.function, error)
        case _:
            return None


def of_counted(value: Expression, error: Expression) -> Expression:
    """The error of what an aggregate counts: none where it is NULL."""
    absent = Call("is_null", (value,), BOOLEAN)
    return Call("case", (absent, Literal(0.0, DOUBLE), error), DOUBLE)
