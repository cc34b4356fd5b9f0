"""Accountants: they turn events into losses and stop a budget at its limit.

The least charge: PRIVACY.md R63. Accountants of other packages: SECURITY.md S23.
"""

from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from math import ceil, floor

from dpsql.accountants.approximate import Approximate
from dpsql.accountants.base import Accountant, Allowance
from dpsql.accountants.preference import bad_mechanism
from dpsql.accountants.pure import Pure
from dpsql.accountants.zcdp import Zcdp
from dpsql.model.installed import Registry
from dpsql.model.vocabulary import NANO, Budget, Loss

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Allowance",
    "cheapest_epsilon",
    "get",
    "larger_loss",
    "least_charge",
    "preferring",
    "price",
    "subtract_loss",
]

ACCOUNTANTS: tuple[Accountant, ...] = (Zcdp(), Pure(), Approximate())


def get(name: str) -> Accountant:
    """Return the accountant that a policy calls `name`.

    Raises `Unusable` if no accountant has this name.

    >>> get("pure").supports_selection
    False
    """
    return _BY_NAME.get(name)


def _accepted(value: object, name: str) -> Accountant | None:
    """Return an installed value if it is an accountant of this name, else None.

    The ledger records the name and finds the accountant again by it.
    """
    return value if isinstance(value, Accountant) and value.name == name else None


_OWN: dict[str, Accountant] = {a.name: a for a in ACCOUNTANTS}
_BY_NAME = Registry("accountant", "dpsql.accountants", _OWN, _accepted)


def preferring(budget: Budget, mechanism: str | None, epsilon: Fraction) -> Accountant:
    """Return the budget's accountant, set to the noise mechanism that a query asks for.

    Without a mechanism, the accountant chooses the noise that is worth more under this budget.
    Raises `Refused` where the accountant does not know the mechanism.

    >>> preferring(Budget("b", Decimal(1), Decimal("1e-6")), "laplace", Fraction(1)).mechanism
    'laplace'
    """
    accountant = get(budget.accountant)
    if mechanism is not None and mechanism not in accountant.laws:
        laws = " or ".join(accountant.laws)
        raise bad_mechanism(f"the accountant {accountant.name} takes {laws}")
    return accountant.preferring(budget, mechanism, epsilon)


def least_charge(budget: Budget) -> Loss:
    """Return the minimum charge of a query, so that no query is nearly free.

    It is `min_query_charge` of the budget, or a tenth of the charge of the default query.

    >>> least_charge(Budget("b", Decimal(1), Decimal(0), "pure"))
    Loss(amount=10000000, delta=0)
    """
    if budget.min_query_charge is not None:
        return Loss(ceil(budget.min_query_charge * NANO))
    return Loss(floor(_default_charge(budget) * NANO / 10))


def price(loss: Loss, budget: Budget) -> Loss:
    """Return the charge of a query with this loss: at least `least_charge`, but 0 for a loss of 0.

    >>> price(Loss(1), Budget("b", Decimal(1), Decimal(0), "pure"))
    Loss(amount=10000000, delta=0)
    """
    if loss == Loss(0):
        return loss
    return replace(loss, amount=max(loss.amount, least_charge(budget).amount))


def larger_loss(one: Loss, other: Loss) -> Loss:
    """The larger of two losses, in each coordinate."""
    return Loss(max(one.amount, other.amount), max(one.delta, other.delta))


def subtract_loss(whole: Loss, part: Loss) -> Loss:
    """Subtract a part from a loss, in each coordinate, but never below 0."""
    return Loss(max(0, whole.amount - part.amount), max(0, whole.delta - part.delta))


def cheapest_epsilon(budget: Budget) -> Decimal:
    """Return the ε, rounded down to 3 digits, that the minimum charge buys.

    A query with a smaller ε costs the same.

    >>> cheapest_epsilon(Budget("b", Decimal(1), Decimal("1e-6")))
    Decimal('0.0303')
    """
    accountant, delta = get(budget.accountant), Fraction(budget.query_delta)
    epsilon = Decimal(accountant.epsilon(least_charge(budget), delta))
    return min(Context(prec=3, rounding=ROUND_DOWN).plus(epsilon), budget.max_query_epsilon)


def is_least(charged: Loss, budget: Budget) -> bool:
    """Test whether a query was charged the minimum instead of its loss."""
    return charged.amount > 0 and charged.amount == least_charge(budget).amount


def is_affordable(budget: Budget) -> bool:
    """Test whether the default query is charged at least the minimum."""
    return least_charge(budget).amount <= _default_charge(budget) * NANO


def _default_charge(budget: Budget) -> Fraction:
    epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
    return get(budget.accountant).allowance(epsilon, delta, selects_keys=False).amount
