"""Accountants: events to losses, and the filters that stop a budget.

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
    """The accountant that a policy calls `name`; raises `Unusable` if there is none.

    >>> get("pure").supports_selection
    False
    """
    return _BY_NAME.get(name)


def _accepted(value: object, name: str) -> Accountant | None:
    """An accountant that is installed: the ledger records its name, by which it is found again."""
    return value if isinstance(value, Accountant) and value.name == name else None


_OWN: dict[str, Accountant] = {a.name: a for a in ACCOUNTANTS}
_BY_NAME = Registry("accountant", "dpsql.accountants", _OWN, _accepted)


def preferring(budget: Budget, mechanism: str | None, epsilon: Fraction) -> Accountant:
    """The budget's accountant, whose noise is of the law that a query of `epsilon` asks for.

    Where none is asked for, it is the one that is worth more to who pays from this budget. Raises
    `Refused` where the accountant does not know the law.

        >>> preferring(Budget("b", Decimal(1), Decimal("1e-6")), "laplace", Fraction(1)).mechanism
        'laplace'
    """
    accountant = get(budget.accountant)
    if mechanism is not None and mechanism not in accountant.laws:
        laws = " or ".join(accountant.laws)
        raise bad_mechanism(f"the accountant {accountant.name} takes {laws}")
    return accountant.preferring(budget, mechanism, epsilon)


def least_charge(budget: Budget) -> Loss:
    """The least that a question is charged, so that none is nearly free.

    Unless the owner says how much, it is a tenth of what the default question is charged.

    >>> least_charge(Budget("b", Decimal(1), Decimal(0), "pure"))
    Loss(amount=10000000, delta=0)
    """
    if budget.min_query_charge is not None:
        return Loss(ceil(budget.min_query_charge * NANO))
    return Loss(floor(_default_charge(budget) * NANO / 10))


def price(loss: Loss, budget: Budget) -> Loss:
    """What a question that loses this much is charged; one that measures nothing costs nothing.

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
    """What is left of a loss when a part is paid; nothing where the part is more."""
    return Loss(max(0, whole.amount - part.amount), max(0, whole.delta - part.delta))


def cheapest_epsilon(budget: Budget) -> Decimal:
    """The epsilon, rounded down, that the least charge buys: to ask for less saves nothing.

    >>> cheapest_epsilon(Budget("b", Decimal(1), Decimal("1e-6")))
    Decimal('0.0303')
    """
    accountant, delta = get(budget.accountant), Fraction(budget.query_delta)
    epsilon = Decimal(accountant.epsilon(least_charge(budget), delta))
    return min(Context(prec=3, rounding=ROUND_DOWN).plus(epsilon), budget.max_query_epsilon)


def is_least(charged: Loss, budget: Budget) -> bool:
    """Whether a question was charged the least, and not for what it lost."""
    return charged.amount > 0 and charged.amount == least_charge(budget).amount


def is_affordable(budget: Budget) -> bool:
    """Whether the default question is charged no less than the least."""
    return least_charge(budget).amount <= _default_charge(budget) * NANO


def _default_charge(budget: Budget) -> Fraction:
    epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
    return get(budget.accountant).allowance(epsilon, delta, selects_keys=False).amount
