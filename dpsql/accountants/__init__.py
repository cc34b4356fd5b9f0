"""Accountants: events to losses, and the filters that stop a budget."""

from dataclasses import replace
from fractions import Fraction

from dpsql.accountants.approximate import Approximate
from dpsql.accountants.base import Accountant, Allowance
from dpsql.accountants.preference import LAWS_OF, TEXTBOOK, WRONG_ABOVE, bad_mechanism
from dpsql.accountants.pure import Pure
from dpsql.accountants.zcdp import Zcdp

__all__ = ["ACCOUNTANTS", "Accountant", "Allowance", "get", "preferring"]

ACCOUNTANTS: tuple[Accountant, ...] = (Zcdp(), Pure(), Approximate())


def get(name: str) -> Accountant:
    """The accountant that a policy calls `name`; raises ValueError if there is none.

    >>> get("pure").supports_selection
    False
    """
    for accountant in ACCOUNTANTS:
        if accountant.name == name:
            return accountant
    raise ValueError(f"the accountants are {', '.join(a.name for a in ACCOUNTANTS)}")


def preferring(name: str, mechanism: str | None, epsilon: Fraction) -> Accountant:
    """The accountant called `name`, whose noise is of the law that a query of `epsilon` asks for.

    Raises `Refused` where it does not know the law.

        >>> preferring("zcdp", "laplace", Fraction(1)).mechanism
        'laplace'
    """
    accountant = get(name)
    if mechanism is None:
        return accountant
    if mechanism not in LAWS_OF[name]:
        raise bad_mechanism(f"the accountant {name} takes {' or '.join(LAWS_OF[name])}")
    if mechanism == TEXTBOOK and epsilon >= 1:
        raise bad_mechanism(WRONG_ABOVE)
    if isinstance(accountant, Zcdp | Approximate):
        return replace(accountant, mechanism=mechanism)
    return accountant
