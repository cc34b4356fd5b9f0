"""shared_answers: answers that a budget paid for one analyst, given to others if the owner allows
it.

The receiver's limits that were not charged for it pay: PRIVACY.md R85.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.ledgers import PaidAnswer
from dpsql.model.errors import Failed
from dpsql.model.vocabulary import Answer, Event, Loss
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Cost, Question
from dpsql.vault.vault import Vault


def told_again(compiler: Compiler, vault: Vault, query: Question) -> Answer | None:
    """Return the earlier answer to the same question, of this analyst or of others who share it;
    else None.
    """
    remembered = vault.remembered(compiler, query)
    if remembered is not None or not query.account.is_lent_answers:
        return remembered
    loan = lent(compiler, vault, query)
    if loan is None:
        return None
    released, question = loan
    price = query.account.price_of(released)
    if price.amount:
        query.require_useful(compiler.prepared(query).notices, price)
    charged = shared(vault, query, question, [released])
    answer = (
        vault.memory.paid(compiler, query, released, question, vault.engine)
        if released.cube
        else vault.remembered(compiler, query)
    )
    if answer is None or answer.receipt is None:
        raise Failed(released.query_id, charged=charged.amount > 0)
    if not charged.amount:
        return answer
    return replace(answer, receipt=replace(answer.receipt, charged=charged, remembered=False))


def lent(compiler: Compiler, vault: Vault, query: Question) -> tuple[PaidAnswer, str] | None:
    """Return the most precise answer of other analysts to this question, and the form of the
    question that it answers; None if there is no such answer.

    An answer counts if it is at least as precise as asked, and if its price, charged to this
    analyst, is at most that of a new answer.
    """
    payer, plan = query.account, compiler.prepared(query).plan
    if not payer.is_lent_answers or plan is None:
        return None
    for question in compiler.questions(query):
        others = [
            each
            for each in vault.memory.paid_for(query, question, BY_PLAN)
            if payer.epsilon <= each.epsilon
            and payer.price_of(each).is_within(plan.loss)
            and question in compiler.questions(query.at(each.epsilon))
        ]
        if others:
            return max(reversed(others), key=lambda each: each.epsilon), question
    return None


def shared(vault: Vault, query: Question, question: str, lent: Sequence[PaidAnswer]) -> Loss:
    """Give an analyst others' answers to a question; return the loss that the analyst's limits pay
    now.
    """
    nothing = Cost(question, Event(()), Loss(0))
    charge = query.account.charge("", nothing, BY_PLAN, query.inquiry)
    queries = [each.query_id for each in lent]
    query.stop.settle()
    return vault.till.debit(query.account, lambda: vault.ledger.share(queries, charge))
