"""explaining: the plan and the price of one prepared question; writes nothing, runs nothing."""

from __future__ import annotations

from dpsql import accountants
from dpsql.describe import describe
from dpsql.explanation import Explanation
from dpsql.finish import expected_margins
from dpsql.ledgers import Ledger
from dpsql.model import Loss, Policy
from dpsql.prepare import Prepared
from dpsql.questions import Asked


def explanation(asked: Asked, prepared: Prepared, policy: Policy, ledger: Ledger) -> Explanation:
    """What asking this would do and cost now: nothing, where the ledger remembers its answer."""
    plan, rewritten = prepared.plan, prepared.rewritten
    known = plan is not None and ledger.recall(
        asked.request.analyst, prepared.question, policy.version, asked.epsilon
    )
    charge = Loss(0) if plan is None or known else plan.loss
    accountant = accountants.get(asked.budget.accountant)
    blocks = () if plan is None else plan.blocks
    return Explanation(
        prepared.columns,
        tuple(
            describe(block, sql, policy)
            for block, sql in zip(blocks, rewritten.blocks, strict=True)
        ),
        rewritten.shown_sql,
        asked.request.analyst,
        asked.budget.name,
        accountant.name,
        asked.epsilon,
        charge,
        ledger.spent(asked.budget.name),
        accountant.limit(asked.budget),
        bool(known),
        tuple(stage.sql for stage in rewritten.stages),
        expected_margins(plan, rewritten),
        None if plan is None else plan.event,
    )
