"""Accuracy first: the smallest epsilon that gives the requested precision.

The absolute error of counts, sums and linear expressions of them is known from the plan: epsilon is
found without looking at data. For a relative error, a small part of a query's price is spent first,
to see the size of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from math import inf, isnan

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import Precision
from dpsql.model.vocabulary import Budget
from dpsql.release.finish import expected_margins

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
        return promised_error(plan_at(epsilon), precision.confidence) <= precision.error

    limit = budget.max_query_epsilon
    if fits(limit):
        least = max(_LEAST, accountants.cheapest_epsilon(budget))
        return _smallest(fits, min(least, limit), limit)
    if not fits(_MOST):
        raise Refused(Reason.BAD_OPTION, option="max_error", why="no epsilon is large enough")
    price = _smallest(fits, limit, _MOST)
    gives = rounded(Decimal(promised_error(plan_at(limit), precision.confidence)), ROUND_UP)
    raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=price, limit=limit, gives=gives)


def promised_error(prepared: Prepared, confidence: Decimal) -> float:
    """Return the largest half-width of a query's numbers, before any data is seen.

    Raises `Refused` for a number with an error that depends on data.
    """
    rewritten, sure = prepared.rewritten, float(confidence)
    if rewritten.largest != rewritten.expected:
        sure = max(sure, 0.95)  # less would not make smaller what selection adds
    rewritten = replace(rewritten, expected=rewritten.largest)
    margins = expected_margins(prepared.plan, rewritten, sure)
    noisy = [n for n, margin in enumerate(margins) if margin is not None]
    why = "depends on the data"
    unknown = [n for n in noisy if isnan(margins[n] or 0.0)]
    if prepared.polls:
        why, unknown = "depends on limits that are found privately first", noisy
    elif inf in margins:
        why, unknown = "depends on which rows are the first ones", noisy
    if unknown:
        raise Refused(
            Reason.BAD_OPTION,
            option="max_error",
            why=f"the error of {prepared.columns[unknown[0]].name} {why}",
            fix="Ask for a relative error, such as '5%', or for counts and sums.",
        )
    return max((margin or 0.0 for margin in margins), default=0.0)


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
