"""Delegations: an analyst's agents, each with a cap, an end, and at most its delegator's rights.

Proof (PRIVACY.md R112).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from dpsql.model.dataclass import dataclass

LONGEST_CHAIN = 3
"""Most names of a chain: a person, an agent, and its own agent."""

_PREFIX = "delegation to "


@dataclass(frozen=True, slots=True)
class Delegation:
    """The word of the owner that `agent` may ask for `delegator` until a moment of ledger time.

    It may spend `epsilon` and `delta` of this budget, together with its own agents. With `roles` it
    has only the rights that one of them grants too.
    """

    agent: str
    delegator: str
    budget: str
    epsilon: Decimal
    delta: Decimal
    until: datetime
    roles: tuple[str, ...] = ()
    revoked: bool = False

    @property
    def title(self) -> str:
        """Name of its limit in the ledger."""
        return f"{_PREFIX}{self.agent}"


Chain = tuple[Delegation, ...]
"""The delegations of an agent, its own first; empty for a person."""


def chain_of(delegations: Mapping[str, Delegation], analyst: str) -> Chain:
    """Return the delegations from an agent up to its person, its own first; () for a person."""
    chain = list[Delegation]()
    while (own := delegations.get(analyst)) is not None:
        chain.append(own)
        analyst = own.delegator
    return tuple(chain)


def chain_text(delegations: Mapping[str, Delegation], analyst: str) -> str:
    """Return the names of an analyst's chain, the person first.

    >>> chain_text({}, "ana")
    'ana'
    """
    above = (each.delegator for each in reversed(chain_of(delegations, analyst)))
    return " → ".join((*above, analyst))


def is_delegation(title: str) -> bool:
    """Test whether a limit is that of a delegation."""
    return title.startswith(_PREFIX)
