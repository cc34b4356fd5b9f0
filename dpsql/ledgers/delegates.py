"""Delegations in a ledger: who asks for whom, from the entries alone.

Proof (PRIVACY.md R112). An agent has one delegator for ever, and no losses of its own before: the
sums of a person and all its agents are sums of one set of names, whenever they are computed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from dpsql.ledgers.codec import canonical
from dpsql.model.dataclass import replace
from dpsql.model.delegation import LONGEST_CHAIN, Chain, Delegation, chain_of
from dpsql.model.errors import Reason, Refused

Delegations: TypeAlias = Mapping[str, Delegation]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def names_above(delegations: Delegations, analyst: str) -> tuple[str, ...]:
    """Return an analyst and all for whom it asks: what it receives, all of these receive."""
    if analyst not in delegations:
        return (analyst,)
    return (analyst, *(each.delegator for each in chain_of(delegations, analyst)))


def names_below(delegations: Delegations, analysts: Iterable[str]) -> frozenset[str]:
    """Return these analysts and all agents that ever asked for them."""
    given = frozenset(analysts)
    agents = (a for a in delegations if not given.isdisjoint(names_above(delegations, a)))
    return given.union(agents)


def require_chain(delegations: Delegations, new: Delegation, charged: Iterable[str] = ()) -> None:
    """Raise ValueError for a cycle, a long chain, a second delegator, or a name with losses."""
    agent, own = new.agent, delegations.get(new.agent)
    above = names_above(delegations, new.delegator)
    if agent in above:
        raise ValueError(f"{new.delegator} asks for {agent} already: a chain has no cycle.")
    if own is not None and own.delegator != new.delegator:
        raise ValueError(f"{agent} asks for {own.delegator}. Give the new agent another name.")
    if own is None and agent in charged:
        raise ValueError(f"{agent} was charged before. Give the agent a new name.")
    below = (each for each in delegations if agent in names_above(delegations, each))
    longest = max((len(chain_of(delegations, e)) for e in below), default=0)
    depth = longest - len(chain_of(delegations, agent)) if longest else 0
    if len(above) + 1 + depth > LONGEST_CHAIN:
        raise ValueError(f"{new.delegator} is an agent's agent: the longest chain has three names.")


def live_chain(delegations: Delegations, analyst: str, now: Callable[[], int]) -> Chain:
    """Return the chain of an agent. Raises `Refused` if a part of it has ended.

    The clock, in microseconds since 1970, is read for agents only.
    """
    if analyst not in delegations:
        return ()
    chain, moment = chain_of(delegations, analyst), now()
    for each in chain:
        if each.revoked or moment >= (each.until - _EPOCH) // _MICROSECOND:
            raise Refused(Reason.DELEGATION_ENDED, analyst=analyst, agent=each.agent)
    return chain


# --- entries and checkpoints ---


def terms_text(delegation: Delegation) -> str:
    """Return the terms of a delegation as canonical JSON, without names and amounts."""
    until = (delegation.until - _EPOCH) // _MICROSECOND
    return canonical({"until": until, "delta": str(delegation.delta), "roles": delegation.roles})


def read_delegation(
    agent: str, delegator: str, budget: str, epsilon: str, terms: str
) -> Delegation:
    """Return the delegation of an entry. Raises ValueError, TypeError or KeyError."""
    read = json.loads(terms)
    return Delegation(
        agent=agent,
        delegator=delegator,
        budget=budget,
        epsilon=Decimal(epsilon),
        delta=Decimal(read["delta"]),
        until=_EPOCH + read["until"] * _MICROSECOND,
        roles=tuple(map(str, read["roles"])),
    )


def delegation_lists(delegations: Delegations) -> list[list[object]]:
    """Return delegations as lists for JSON."""
    return [
        [d.agent, d.delegator, d.budget, str(d.epsilon), terms_text(d), d.revoked]
        for _, d in sorted(delegations.items())
    ]


def read_delegations(lists: Iterable[list[object]]) -> dict[str, Delegation]:
    """Return the delegations of `delegation_lists`."""
    read = {}
    for *parts, revoked in lists:
        agent, delegator, budget, epsilon, terms = map(str, parts)
        each = read_delegation(agent, delegator, budget, epsilon, terms)
        read[each.agent] = replace(each, revoked=revoked is True)
    return read
