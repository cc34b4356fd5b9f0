"""Relative errors, which depend on the values.

A small part is spent to learn the values, then the rest of the price that follows. Each step is one
more private query, chosen by released numbers alone, and charged as one. Absolute errors and the
first step are in `dpsql.preparation.accuracy`.

Prices are steps of a public ladder: an observer of the price, but not of the answer, learns at most
how often it doubled. Steps are charged one by one: PRIVACY.md R64.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import ceil, inf, isfinite, isnan, log

from dpsql.answering import two_steps
from dpsql.compiler.plan.prepared import Prepared
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
        prepared = compiler.prepared(query.at(paid))
        if prepared.plan is None:
            return answer
        refusal_note = f"What was spent to see this stays spent; its answer is free at ε = {paid}."
        more = _wider(prepared, precision.confidence)
        excess = _worst(answer, more, refusal_note) / float(precision.error)
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


def _wider(prepared: Prepared, confidence: Decimal) -> tuple[float, ...]:
    """Return the half-width at this confidence minus the one at 95 %, in standard errors, of each
    output.

    Less confidence makes noise smaller. It makes neither smaller what a limit may leave out, nor
    what selection by noise adds.
    """
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    more = margin_factor(plan, float(confidence)) - margin_factor(plan)
    plain = rewritten.largest == rewritten.expected and not (plan.polls or rewritten.halved)
    return tuple(
        more if plain and error is not None and not isnan(error) else max(0.0, more)
        for error in rewritten.expected
    )


def _worst(answer: Answer, wider: Sequence[float], note: str) -> float:
    """Return the largest half-width of a noisy number, relative to the number.

    `wider` has what is added to the half-width of each column, in standard errors. Raises
    `Refused`, with `note` as fix, for a number with an unknown error.
    """
    cells = [
        (value, error if isnan(error) else max(0.0, margin + error * more))
        for row, errors, margins in zip(answer.rows, answer.errors, answer.margins, strict=True)
        for value, error, margin, more in zip(row, errors, margins, wider, strict=True)
        if error is not None and margin is not None
    ]
    if any(isnan(margin) for _, margin in cells):
        why = "the error of one of these numbers is not known"
        raise Refused(Reason.BAD_OPTION, option="max_error", why=why, fix=note)
    return max(
        (
            inf if value is None or isnan(value) or not value else margin / abs(float(value))
            for value, margin in cells
        ),
        default=0.0,
    )
