"""The rest of a budget as analysts count it: how many more queries, and how large."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil

from dpsql.accountants import fill_filters, get, price
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import ATTO, NANO, Budget, Loss, Rest


def questions(budget: Budget, spent: Loss) -> int:
    """Return how many default queries the budget can still pay for after this loss.

    >>> pot = Budget("b", Decimal(1), Decimal(0), "pure", query_epsilon=Decimal("0.3"))
    >>> questions(pot, Loss(150_000_000))
    2
    """
    return _count(budget, spent, _price(budget, budget.query_epsilon))


def keyed_questions(budget: Budget, spent: Loss) -> int | None:
    """Return how many default queries with private keys the budget can still pay for.

    Such queries cost δ too. Returns None where the accountant or the budget allows none.

    >>> keyed_questions(Budget("b", Decimal(1), Decimal("1e-6")), Loss(0))
    135
    """
    accountant = get(budget.accountant)
    possible = accountant.supports_selection and not budget.only_public_keys
    if not (possible and budget.query_delta):
        return None
    each = _price(budget, budget.query_epsilon, selects_keys=True)
    by_delta = max(0, accountant.limit(budget).delta - spent.delta) // each.delta
    return min(by_delta, _count(budget, spent, each))


def fitting(budget: Budget, spent: Loss) -> Decimal | None:
    """Return the largest ε, to two digits, of a query that the rest of the budget can pay for.

    Returns None if the rest pays for no query. It is at most the ε of the budget: its δ may allow
    one query somewhat more.

    >>> pot = Budget("b", Decimal(1), Decimal(0), "pure", query_epsilon=Decimal("0.3"))
    >>> fitting(pot, Loss(150_000_000)), fitting(pot, Loss(999_000_000))
    (Decimal('0.85'), None)
    """
    most = min(budget.max_query_epsilon, budget.epsilon)
    limit = get(budget.accountant).limit(budget)

    def fits(epsilon: Decimal) -> bool:
        whole = spent + _price(budget, epsilon)
        return replace(whole, delta=0).fits(limit)

    if fits(most):
        return most
    steps = range(_DECADE * (most.adjusted() + 10))
    place = bisect_right(steps, 0, key=lambda n: _step(n) > most or not fits(_step(n)))
    return _step(place - 1) if place else None


def _step(number: int) -> Decimal:
    """Return the ε of two digits with this number; the first is 1e-9."""
    return Decimal(10 + number % _DECADE).scaleb(number // _DECADE - 10)


_DECADE = 90
"""Count of numbers of two digits in a decade."""


def rest(budget: Budget, spent: Loss, charge: Loss) -> Rest:
    """Return the remaining queries after a charge, and the largest ε that would fit before it."""
    after = spent + charge
    return Rest(
        budget.query_epsilon,
        questions(budget, after),
        keyed_questions(budget, after),
        fitting(budget, spent),
    )


def in_epsilon(refused: Refused, budget: Budget, epsilon: Decimal, spent: Loss) -> Refused:
    """Add to a ledger's refusal the ε that was asked for and the largest ε that would fit."""
    fits = fitting(budget, spent)
    instead = {"nothing": "no question"} if fits is None else {"fits": fits}
    return Refused(refused.reason, refused.span, **refused.facts, **instead, epsilon=epsilon)


def _count(budget: Budget, spent: Loss, each: Loss) -> int:
    """Return how many of these prices fit the filter that has the most left, without δ."""
    limit = get(budget.accountant).limit(budget)
    count = len(limit.further)
    filters = zip(
        (limit.amount, *limit.further),
        (spent.amount, *spent.filters(count)),
        (each.amount, *each.filters(count)),
        strict=True,
    )
    return max(max(0, most - before) // max(1, price) for most, before, price in filters)


@lru_cache(maxsize=512)
def _price(budget: Budget, epsilon: Decimal, *, selects_keys: bool = False) -> Loss:
    """Return the maximum charge of one query of this ε, in ledger units."""
    accountant, delta = get(budget.accountant), Fraction(budget.query_delta)
    allowance = accountant.allowance(Fraction(epsilon), delta, selects_keys=selects_keys)
    whole = Loss(max(1, ceil(allowance.amount * NANO)))
    charge = price(fill_filters(whole, accountant), budget)
    if not selects_keys:
        return charge
    return replace(charge, delta=max(1, ceil(allowance.selection_delta * ATTO)))
