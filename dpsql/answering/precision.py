"""Relative errors, which depend on the values.

A small part is spent to learn the values, then the rest of the price that follows. Each step is one
more private query, chosen by released numbers alone, and charged as one. Absolute errors and the
first step are in `dpsql.preparation.accuracy`.

Prices are steps of a public ladder: an observer of the price, but not of the answer, learns at most
how often it doubled. Steps are charged one by one: PRIVACY.md R64.
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
"""Factor by which the next step exceeds the needed precision, because values change."""
_RUNG = 2
"""Factor between two prices of the public ladder."""
_MOST = 1e9


def answered(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    """Return the answer to a question, with numbers as precise as requested.

    Raises `Refused` with the price if the policy does not allow the relative error. The spending to
    find the price stays, and that answer is remembered. Otherwise raises as `Proxy.ask`.
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
            fraction = excess * float(precision.error)
            per_cent = 100 * fraction * float(paid / limit)
            reaches = (
                f"{per_cent:.2g} %" if isfinite(fraction) else "more than all of it, as it is 0"
            )
            facts = {"epsilon": price, "limit": limit, "paid": paid, "reaches": reaches}
            raise Refused(Reason.EPSILON_TOO_LARGE, **facts)
        epsilon = price


def _rung(epsilon: Decimal, excess: float) -> Decimal:
    """Return the first price of the ladder above `epsilon` that makes errors `excess` times
    smaller.

    >>> [_rung(Decimal("0.1"), excess) for excess in (1.1, 1.9, 20.0)]
    [Decimal('0.2'), Decimal('0.4'), Decimal('3.2')]
    """
    doublings = max(1, ceil(log(min(excess * _ROOM, _MOST), _RUNG)))
    return epsilon * Decimal(_RUNG) ** doublings


def _worst(answer: Answer, factor: float, note: str) -> float:
    """Return the largest half-width of a noisy number, relative to the number.

    Raises `Refused`, with `note` as fix, for a number with an unknown error.
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
