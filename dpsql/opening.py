"""opening: the policy over the data as it is, and who pays for a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from dpsql.engines import Engine, EngineFailed, Interrupted, TimedOut
from dpsql.errors import Reason, Refused, Unreachable
from dpsql.ledgers import Ledger
from dpsql.model import Budget, Policy
from dpsql.policy.bind import bind, vouched_for
from dpsql.policy.draft import Draft
from dpsql.public import PublicTables
from dpsql.wishes import sensible


def bound(draft: Draft, engine: Engine, ledger: Ledger) -> Policy:
    """The policy over the data as it now is, with the facts recorded for it."""
    schema = engine.schema()
    policy = bind(draft, schema, PublicTables(engine).values)
    return replace(policy, facts=policy.facts | ledger.facts(vouched_for(policy)))


def reached(rebind: Callable[[], Policy]) -> Policy:
    """`rebind`, its engine failures told as a database that cannot be used."""
    try:
        return rebind()
    except (EngineFailed, Interrupted, TimedOut):
        raise Unreachable(
            "The database's schema or a public table cannot be read. Check the database."
        ) from None


def payer(policy: Policy, analyst: str, *wishes: Decimal | None) -> tuple[Budget, Decimal]:
    """The budget that pays for an analyst, and the smallest epsilon that is wished for.

    Without a wish it is the policy's. Raises `Refused` for an unknown analyst, and for an epsilon
    that is no positive number or more than one question may cost.
    """
    budget = policy.budget_of(analyst)
    if budget is None:
        raise Refused(Reason.BAD_OPTION, option="analyst", value=analyst)
    wanted = [wish for wish in wishes if wish is not None]
    for wish in wanted:
        if not sensible(wish):
            raise Refused(Reason.BAD_OPTION, option="epsilon", value=wish)
    epsilon = min(wanted, default=budget.query_epsilon)
    if epsilon > budget.max_query_epsilon:
        raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=epsilon, limit=budget.max_query_epsilon)
    return budget, epsilon
