"""explaining: the plan and the price of one prepared question; writes nothing, runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpsql import accountants
from dpsql.accountants.remaining import rest
from dpsql.describe import describe
from dpsql.describe_levels import notes
from dpsql.explanation import Explanation
from dpsql.finish import expected_margins
from dpsql.ledgers import Ledger
from dpsql.model import Budget, Loss, Policy
from dpsql.prepare import Prepared
from dpsql.questions import Asked
from dpsql.recalling import recalled


def explanation(
    asked: Asked,
    policy: Policy,
    ledger: Ledger,
    prepared_at: Callable[[Asked, Decimal], Prepared],
) -> Explanation:
    """What asking this would do and cost now: nothing, where the ledger remembers its answer."""
    prepared = prepared_at(asked, asked.epsilon)
    known = prepared.plan and recalled(ledger, asked, prepared, policy.version, prepared_at)
    if known and known[1].question != prepared.question:
        prepared = known[1]
    plan, rewritten = prepared.plan, prepared.rewritten
    charge = Loss(0) if plan is None or known else plan.loss
    accountant = accountants.get(asked.budget.accountant)
    blocks = () if plan is None else plan.blocks
    spent = ledger.spent(asked.budget.name)
    about = [] if plan is None else [*notes(plan)]
    if accountants.is_least(charge, asked.budget):
        about.append(_least(asked.budget))
    return Explanation(
        prepared.columns,
        tuple(describe(*both, policy) for both in zip(blocks, rewritten.blocks, strict=True)),
        rewritten.shown_sql,
        asked.request.analyst,
        asked.budget.name,
        accountant.name,
        asked.epsilon,
        charge,
        spent,
        accountant.limit(asked.budget),
        bool(known),
        tuple(stage.sql for stage in rewritten.stages),
        expected_margins(plan, rewritten),
        None if plan is None else plan.event,
        tuple(about),
        prepared.notices,
        rest(asked.budget, spent, charge),
    )


def _least(budget: Budget) -> str:
    same = f"{accountants.cheapest_epsilon(budget):f}"
    return f"This is the least that a question is charged; ε = {same} costs no more and errs less."
