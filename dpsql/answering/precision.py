"""A relative error: it depends on the values. A small part is spent to learn them, then what they
ask for: each step is one more private query, chosen by released numbers alone, and charged as one.

Where it begins, and how absolute errors are met, is in `dpsql.preparation.accuracy`.

Prices are rungs of a public ladder: who sees a price, and not the answer, learns at most how often
it doubled. Steps are charged one by one: PRIVACY.md R64.
"""

from __future__ import annotations

from decimal import Decimal
from math import ceil, inf, isfinite, isnan, log

from dpsql.answering import two_steps
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Answer
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.release.finish import margin_factor
from dpsql.vault.vault import Vault

_ROOM = 1.1
"""Next time a little more than would have been right this time: values move."""
_RUNG = 2
"""Prices double from one rung of the public ladder to the next."""
_MOST = 1e9


def answered(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    """The answer to a question; its numbers are as precise as asked.

    Raises `Refused` with the price where the policy does not allow a relative error; what was spent
    to find the price stays spent, and its answer is remembered. Otherwise as `Proxy.ask`.
    """
    precision, limit = query.precision, query.account.budget.max_query_epsilon
    if precision is None:
        return two_steps.answered(compiler, vault, query)
    epsilon = query.account.epsilon
    while True:
        paid = min(epsilon, limit)
        answer = two_steps.answered(compiler, vault, query.at(paid))
        plan = compiler.prepared(query.at(paid)).plan
        if plan is None:
            return answer
        refusal_note = f"What was spent to see this stays spent; its answer is free at ε = {paid}."
        excess = _worst(answer, margin_factor(plan, float(precision.confidence)), refusal_note)
        excess /= float(precision.error)
        if excess <= 1:
            return answer
        price = _rung(epsilon, excess)
        if price > limit:
            reaches = _at_most(excess * float(precision.error), paid, limit)
            facts = {"epsilon": price, "limit": limit, "paid": paid, "reaches": reaches}
            raise Refused(Reason.EPSILON_TOO_LARGE, **facts)
        epsilon = price


def _rung(epsilon: Decimal, excess: float) -> Decimal:
    """The first price above `epsilon`, which is a rung, that makes errors so many times smaller.

    >>> [_rung(Decimal("0.1"), excess) for excess in (1.1, 1.9, 20.0)]
    [Decimal('0.2'), Decimal('0.4'), Decimal('3.2')]
    """
    doublings = max(1, ceil(log(min(excess * _ROOM, _MOST), _RUNG)))
    return epsilon * Decimal(_RUNG) ** doublings


def _at_most(fraction: float, epsilon: Decimal, limit: Decimal) -> str:
    """How large an error the largest epsilon leaves, where this one leaves such a fraction."""
    per_cent = 100 * fraction * float(epsilon / limit)
    return f"{per_cent:.2g} %" if isfinite(fraction) else "more than all of it, as it is 0"


def _worst(answer: Answer, factor: float, note: str) -> float:
    """The largest half-width of a noisy number, as a fraction of it.

    Refuses, with what is `note`, a number whose error is not known.
    """
    cells = (
        (value, error)
        for row, errors in zip(answer.rows, answer.errors, strict=True)
        for value, error in zip(row, errors, strict=True)
        if error is not None
    )
    margins = [(value, error * factor) for value, error in cells]
    if any(isnan(margin) for _, margin in margins):
        why = "the error of one of these numbers is not known"
        raise Refused(Reason.BAD_OPTION, option="max_error", why=why, fix=note)
    return max((_fraction(value, margin) for value, margin in margins), default=0.0)


def _fraction(value: float | Decimal | None, margin: float) -> float:
    return inf if value is None or isnan(value) or not value else margin / abs(float(value))
