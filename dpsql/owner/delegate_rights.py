"""Terms of a delegation, checked against the policy before the ledger records them.

Proof (PRIVACY.md R112).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from dpsql.ledgers import CUBES, Ledger
from dpsql.model.delegation import Delegation
from dpsql.model.table_names import unknown_name
from dpsql.policy.draft import Draft
from dpsql.preparation.question import delegated_cap, limit_of


def delegate_rights(
    draft: Draft,
    ledger: Ledger,
    delegator: str,
    agent: str,
    epsilon: Decimal,
    until: datetime,
    roles: Sequence[str],
    reason: str,
) -> Delegation:
    """Record in the ledger that an agent may ask for a delegator; return the delegation.

    Raises ValueError for terms that make no sense, `Refused` for unknown names, and as
    `Ledger.delegate`.
    """
    analysts, chain = dict(draft.analysts), ledger.chain(delegator)
    person = chain[-1].delegator if chain else delegator
    if person not in analysts:
        raise unknown_name("analyst", delegator, tuple(analysts))
    if agent in analysts:
        raise ValueError(f"{agent} is an analyst of the policy: an agent has a name of its own")
    if not agent.strip() or not agent.isprintable() or agent.startswith(CUBES):
        raise ValueError("this cannot be the name of an agent")
    named = tuple(role.name for role in draft.roles)
    for role in roles:
        if role not in named:
            raise unknown_name("role", role, named)
    budget = next(b for b in draft.budgets if b.name == analysts[person])
    new = Delegation(
        agent=agent,
        delegator=delegator,
        budget=budget.name,
        epsilon=epsilon,
        delta=budget.delta,
        until=until,
        roles=tuple(roles),
    )
    periods = "" if draft.period is None else draft.period.text
    ledger.delegate(new, limit_of(delegated_cap(new).within(budget)), reason, periods)
    return new
