"""Accountants: they turn events into losses and stop a budget at its limit.

The least charge: PRIVACY.md R63. Accountants of other packages: SECURITY.md S23.
"""

from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from itertools import zip_longest
from math import ceil, floor

from dpsql.accountants.approximate import Approximate
from dpsql.accountants.base import Accountant, Allowance
from dpsql.accountants.preference import bad_mechanism
from dpsql.accountants.pure import Pure
from dpsql.accountants.tight import NAME, ORDERS, Tight, order_of
from dpsql.accountants.zcdp import Zcdp
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.installed import Registry
from dpsql.model.vocabulary import NANO, UNBOUNDED, Budget, Loss

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Allowance",
    "cheapest_epsilon",
    "fill_filters",
    "get",
    "larger_loss",
    "least_charge",
    "preferring",
    "price",
]

# Those that drafts and plans compare.
ACCOUNTANTS: tuple[Accountant, ...] = (Zcdp(), Pure(), Approximate())


def get(name: str) -> Accountant:
    """Return the accountant that a policy calls `name`.

    Raises `Unusable` if no accountant has this name.

    >>> get("pure").supports_selection
    False
    """
    return _BY_NAME.get(name) if name not in _ORDERED else _ORDERED[name]


def get_for(name: str, epsilon: Decimal, delta: Decimal) -> Accountant:
    """Return the accountant that a policy calls `name`, for a budget of ε and δ.

    The tight one gets an order, which stays in its name. Raises `Unusable` as `get` does.

    >>> get_for("tight", Decimal(3), Decimal("1e-6")).name
    'tight-12'
    """
    if name != NAME:
        return get(name)
    return get(f"{NAME}-{order_of(Fraction(epsilon), Fraction(delta))}")


def _accepted(value: object, name: str) -> Accountant | None:
    """Return an installed value if it is an accountant of this name, else None.

    The ledger records the name and finds the accountant again by it.
    """
    return value if isinstance(value, Accountant) and value.name == name else None


_ORDERED: dict[str, Accountant] = {
    f"{NAME}-{order}": Tight(f"{NAME}-{order}", renyi_order=order) for order in ORDERS
}
_OWN: dict[str, Accountant] = {a.name: a for a in (*ACCOUNTANTS, Tight())}
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

    Of further filters it is at least the same share as `least_charge` is of the limit.

    >>> price(Loss(1), Budget("b", Decimal(1), Decimal(0), "pure"))
    Loss(amount=10000000, delta=0)
    """
    if loss == Loss(0):
        return loss
    least = least_charge(budget).amount
    if not loss.further:
        return replace(loss, amount=max(loss.amount, least))
    limit = get(budget.accountant).limit(budget)
    same = (ceil(Fraction(least * most, max(1, limit.amount))) for most in limit.further)
    return larger_loss(loss, Loss(least, 0, tuple(same)))


def fill_filters(loss: Loss, accountant: Accountant) -> Loss:
    """Return a loss that follows from its amount in all filters, whatever it is the loss of."""
    if not isinstance(accountant, Tight):
        return loss
    return larger_loss(loss, Loss(loss.amount, 0, accountant.most_of(loss.amount)))


def larger_loss(one: Loss, other: Loss) -> Loss:
    """The larger of two losses, in each coordinate that they state."""
    further = zip_longest(one.further, other.further, fillvalue=0)
    amount, delta = max(one.amount, other.amount), max(one.delta, other.delta)
    return Loss(amount, delta, tuple(map(max, further)))


@dataclass(frozen=True, slots=True)
class FilterUse:
    """The spent part of one filter of a budget, in 1e-9; None if it bounds some charge not at
    all.
    """

    name: str
    spent: int | None
    limit: int

    @property
    def holds(self) -> bool:
        """True if all charges fit this filter."""
        return self.spent is not None and self.spent <= self.limit


def list_filters(accountant: str, spent: Loss, limit: Loss) -> tuple[FilterUse, ...]:
    """Return the filters of a budget if its accountant has several, else ()."""
    of = get(accountant)
    if not isinstance(of, Tight):
        return ()
    coordinates = (spent.amount, *spent.filters(len(limit.further)))
    limits = (limit.amount, *limit.further)
    return tuple(
        FilterUse(name, used if used < UNBOUNDED else None, most)
        for name, used, most in zip(of.filters, coordinates, limits, strict=True)
    )


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
