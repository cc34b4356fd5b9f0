"""The charge of an answer and the remaining budget, in one line."""

from __future__ import annotations

from decimal import Decimal

from dpsql.interfaces.amounts import loss_text, plain, share_text
from dpsql.model.vocabulary import Loss, Receipt, Spending

_UNREAD = "no private row was read"


def questions_text(count: int, epsilon: Decimal, keyed: int | None) -> str:
    """Return words for a number of queries at the default ε, and for those with private keys if
    fewer.

    >>> print(questions_text(1, Decimal("0.30"), 1))
    1 question at ε = 0.3
    >>> print(questions_text(1160, Decimal("0.3"), 90))
    1,160 questions at ε = 0.3 (90 with private keys)
    """
    some = f"{count:,} question{'' if count == 1 else 's'} at ε = {plain(epsilon)}"
    return some if keyed is None or keyed >= count else f"{some} ({keyed:,} with private keys)"


def cost_text(receipt: Receipt | None) -> str:
    """Return one line on the charge. None stands for an answer without private rows.

    >>> from decimal import Decimal
    >>> from dpsql.model.vocabulary import Loss
    >>> print(cost_text(Receipt("6f", "ana", "default", "zcdp", Decimal("0.1"),
    ...     Loss(500_000), Loss(1_000_000), Loss(185_000_000))))
    cost: ε = 0.1 (ρ = 0.0005), query 6f; budget default: 0.54 % spent
    >>> print(cost_text(None))
    cost: nothing, no private row was read
    """
    if receipt is None:
        return f"cost: nothing, {_UNREAD}"
    title = receipt.cap or f"budget {receipt.budget}"
    pot = Spending(title, receipt.spent, receipt.limit, receipt.window)
    budget = spending_text(pot, receipt.accountant)
    if receipt.question is not None and receipt.left is not None:
        budget += f", {questions_text(receipt.left, receipt.question, receipt.keyed)} left"
    epsilon = plain(receipt.epsilon)
    if receipt.remembered and receipt.recalled:
        first = f"cost: nothing, derived of query {receipt.query_id} and others at ε = {epsilon}"
    elif receipt.remembered:
        first = f"cost: nothing, remembered answer of query {receipt.query_id} at ε = {epsilon}"
    elif receipt.charged == Loss(0):
        first = f"cost: nothing, {_UNREAD}"
    else:
        charged = loss_text(receipt.charged, receipt.accountant)
        least = ", the least that a question is charged" if receipt.least else ""
        parts = f", from memory {receipt.recalled} %, paid {100 - receipt.recalled} %"
        memory = parts if receipt.recalled else ""
        periods = f" {receipt.periods.phrase}" if receipt.periods else ""
        first = f"cost: ε = {epsilon}{periods} ({charged}{least}{memory}), query {receipt.query_id}"
    beside = (spending_text(each, receipt.accountant) for each in receipt.beside)
    return "; ".join((first, budget, *beside))


def spending_text(spending: Spending, accountant: str) -> str:
    """Return words for the spending below one limit.

    >>> spending_text(Spending("budget default", Loss(5), Loss(20), "2026-11"), "pure")
    'budget default in 2026-11: 25 % spent'
    >>> print(spending_text(Spending("budget default", Loss(10**8)), "pure"))
    budget default since its beginning: ε = 0.1 spent, without a limit
    """
    if spending.limit is None:
        spent = loss_text(spending.spent, accountant)
        return f"{spending.title} since its beginning: {spent} spent, without a limit"
    window = f" in {spending.window}" if spending.window else ""
    return f"{spending.title}{window}: {share_text(spending.spent, spending.limit)} spent"
