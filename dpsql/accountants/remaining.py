"""The rest of a budget as analysts count it: how many more queries, and how large."""

from __future__ import annotations

from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil

from dpsql.accountants import get, price
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import ATTO, NANO, Budget, Loss, Rest

_TWO = Context(prec=2, rounding=ROUND_UP)


def questions(budget: Budget, spent: Loss) -> int:
    """Return how many default queries the budget can still pay for after this loss.

    >>> pot = Budget("b", Decimal(1), Decimal(0), "pure", query_epsilon=Decimal("0.3"))
    >>> questions(pot, Loss(150_000_000))
    2
    """
    return _left(budget, spent) // max(1, _price(budget, budget.query_epsilon))


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
    limit, each = accountant.limit(budget), _keyed_price(budget)
    counts = (limit.amount - spent.amount) // each.amount, (limit.delta - spent.delta) // each.delta
    return max(0, min(counts))


def fitting(budget: Budget, spent: Loss) -> Decimal | None:
    """Return the largest ε, to two digits, of a query that the rest of the budget can pay for.

    Returns None if the rest pays for no query. It is at most the ε of the budget: its δ may allow
    one query somewhat more.

    >>> pot = Budget("b", Decimal(1), Decimal(0), "pure", query_epsilon=Decimal("0.3"))
    >>> fitting(pot, Loss(150_000_000)), fitting(pot, Loss(999_000_000))
    (Decimal('0.85'), None)
    """
    left, most = _left(budget, spent), min(budget.max_query_epsilon, budget.epsilon)
    if left < _price(budget, Decimal("1e-9")):
        return None
    if _price(budget, most) <= left:
        return most
    delta = Fraction(budget.query_delta)
    epsilon = _TWO.plus(Decimal(get(budget.accountant).epsilon(Loss(left), delta)))
    while epsilon > most or _price(budget, epsilon) > left:  # both roundings are up
        epsilon = _TWO.subtract(epsilon, Decimal(1).scaleb(epsilon.adjusted() - 1))
    return epsilon


def rest(budget: Budget, spent: Loss, charge: Loss) -> Rest:
    """Return the remaining queries after a charge, and the largest ε that would fit before it."""
    after = spent + charge
    counts = questions(budget, after), keyed_questions(budget, after)
    return Rest(budget.query_epsilon, *counts, fitting(budget, spent))


def in_epsilon(refused: Refused, budget: Budget, epsilon: Decimal, spent: Loss) -> Refused:
    """Add to a ledger's refusal the ε that was asked for and the largest ε that would fit."""
    fits = fitting(budget, spent)
    instead = {"nothing": "no question"} if fits is None else {"fits": fits}
    return Refused(refused.reason, refused.span, **refused.facts, **instead, epsilon=epsilon)


def _left(budget: Budget, spent: Loss) -> int:
    return max(0, get(budget.accountant).limit(budget).amount - spent.amount)


@lru_cache(maxsize=64)
def _keyed_price(budget: Budget) -> Loss:
    """Return the maximum charge of a default query with private keys."""
    epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
    allowance = get(budget.accountant).allowance(epsilon, delta, selects_keys=True)
    amount, selection = ceil(allowance.amount * NANO), ceil(allowance.selection_delta * ATTO)
    return price(Loss(max(1, amount), max(1, selection)), budget)


@lru_cache(maxsize=512)
def _price(budget: Budget, epsilon: Decimal) -> int:
    """Return the maximum charge of one query of this ε, in ledger units."""
    delta = Fraction(budget.query_delta)
    allowance = get(budget.accountant).allowance(Fraction(epsilon), delta, selects_keys=False)
    return price(Loss(max(1, ceil(allowance.amount * NANO))), budget).amount
