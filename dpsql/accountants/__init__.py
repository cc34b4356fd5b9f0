"""Accountants: events to losses, and the filters that stop a budget."""

from dpsql.accountants.approximate import Approximate
from dpsql.accountants.base import Accountant, Allowance
from dpsql.accountants.pure import Pure
from dpsql.accountants.zcdp import Zcdp

__all__ = ["ACCOUNTANTS", "Accountant", "Allowance", "get"]

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
