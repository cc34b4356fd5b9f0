"""Accuracy first: the smallest epsilon that gives the requested precision.

The absolute error of counts, sums and linear expressions of them is known from the plan: epsilon is
found without looking at data. For a relative error, a small part of a query's price is spent first,
to see the size of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from math import isnan

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import Precision
from dpsql.model.vocabulary import Budget
from dpsql.release.finish import margin_factor

FIRST_SHARE = 8
"""Divisor of a query's epsilon for the first try at a relative error."""

_LEAST, _MOST = Decimal("0.0001"), Decimal(10_000)


def epsilon_for(
    precision: Precision, budget: Budget, plan_at: Callable[[Decimal], Prepared]
) -> Decimal:
    """Return the smallest epsilon, to three digits, for which the plan promises an absolute
    error.

    It is at least the epsilon that the least charge buys: extra precision is then free.

    Raises `Refused` if the error depends on data, or with the price if the policy does not allow
    it.
    """

    def fits(epsilon: Decimal) -> bool:
        return _promised(plan_at(epsilon), precision.confidence) <= precision.error

    limit = budget.max_query_epsilon
    if fits(limit):
        least = max(_LEAST, accountants.cheapest_epsilon(budget))
        return _smallest(fits, min(least, limit), limit)
    if not fits(_MOST):
        raise Refused(Reason.BAD_OPTION, option="max_error", why="no epsilon is large enough")
    price = _smallest(fits, limit, _MOST)
    gives = rounded(Decimal(_promised(plan_at(limit), precision.confidence)), ROUND_UP)
    raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=price, limit=limit, gives=gives)


def _promised(prepared: Prepared, confidence: Decimal) -> float:
    """Return the largest half-width of a query's numbers, before any data is seen.

    Raises `Refused` for a number with an error that depends on data.
    """
    errors = [e for e in prepared.rewritten.expected if e is not None]
    if any(map(isnan, errors)):
        names = [
            column.name
            for column, error in zip(prepared.columns, prepared.rewritten.expected, strict=True)
            if error is not None and isnan(error)
        ]
        raise Refused(
            Reason.BAD_OPTION,
            option="max_error",
            why=f"the error of {names[0]} depends on the data",
            fix="Ask for a relative error, such as '5%', or for counts and sums.",
        )
    if prepared.plan is None or not errors:
        return 0.0
    return max(errors) * margin_factor(prepared.plan, float(confidence))


def first_epsilon(budget: Budget) -> Decimal:
    """Return the epsilon of the first try at a relative error."""
    share = rounded(budget.query_epsilon / FIRST_SHARE, ROUND_UP)
    return max(share, accountants.cheapest_epsilon(budget))


def _smallest(fits: Callable[[Decimal], bool], low: Decimal, high: Decimal) -> Decimal:
    """Return the smallest epsilon of three digits in [low, high] that fits; `high` must fit."""
    while True:
        middle = rounded((low * high).sqrt(), ROUND_DOWN)
        if not low < middle < high:
            return low if fits(low) else high
        low, high = (low, middle) if fits(middle) else (middle, high)


def rounded(epsilon: Decimal, rounding: str) -> Decimal:
    """Return an epsilon to three digits."""
    return Context(prec=3, rounding=rounding).plus(epsilon)
