"""Accuracy first: the smallest epsilon at which the numbers of a query are as precise as asked.

An absolute error of counts, sums and what is linear in them is a number of the plan: epsilon is
found without looking at data. A relative error depends on the values: a small part is spent to
learn them, then what they ask for (each step is one more private query, chosen by released
numbers alone, and charged as one).

Steps are charged one by one: PRIVACY.md R64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from math import inf, isnan

from dpsql import accountants
from dpsql.answering import two_steps
from dpsql.answering.vault import Vault
from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import Precision, requested_precision
from dpsql.model.vocabulary import Answer, Budget, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.release.finish import margin_factor

FIRST_SHARE = 8
"""A relative error is first looked for with this part of the epsilon that a query costs."""

_LEAST, _MOST = Decimal("0.0001"), Decimal(10_000)
_ROOM = 1.1
"""Next time a little more than would have been right this time: values move."""


def read(compiler: Compiler, request: Request, stop: Stop) -> Question:
    """The request with the epsilon that it may spend, its wish for precision heeded.

    Raises `Refused` before anything is paid, or `Failed` where that takes too long or is stopped.
    """
    return compiler.freely(lambda: _read(compiler, request, stop), stop)


def _read(compiler: Compiler, request: Request, stop: Stop) -> Question:
    asked = compiler.read(request, stop)
    statement = asked.statement
    wanted = requested_precision(request.precision, statement.max_error, statement.confidence)
    if wanted is None:
        return asked
    if statement.divided or not (request.epsilon is statement.epsilon is None):
        raise Refused(Reason.BAD_OPTION, option="max_error", why="epsilon is asked for too")
    if not wanted.relative:
        return asked.at(_epsilon_for(wanted, asked, compiler))
    first = replace(asked.at(_first(asked.account.budget)), wanted=wanted)
    compiler.prepared(first)  # refused before anything is paid
    return first


def _epsilon_for(wanted: Precision, asked: Question, compiler: Compiler) -> Decimal:
    """The smallest epsilon, to three digits, whose plan promises an absolute error.

    No smaller than what the least charge buys: the rest is more precise than asked, for nothing.

    Raises `Refused` where the error depends on data, or with the price where the policy does not
    allow it.
    """

    def fits(epsilon: Decimal) -> bool:
        plan = compiler.prepared(asked.at(epsilon))
        return _promised(plan, wanted.confidence) <= wanted.error

    budget = asked.account.budget
    limit = budget.max_query_epsilon
    if fits(limit):
        least = max(_LEAST, accountants.cheapest_epsilon(budget))
        return _smallest(fits, min(least, limit), limit)
    if not fits(_MOST):
        raise Refused(Reason.BAD_OPTION, option="max_error", why="no epsilon is large enough")
    price = _smallest(fits, limit, _MOST)
    raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=price, limit=limit)


def _promised(prepared: Prepared, confidence: Decimal) -> float:
    """The largest half-width of the numbers of a query, before any data is seen.

    Raises `Refused` for a number whose error depends on data.
    """
    known = [e for e in prepared.rewritten.expected if e is not None]
    if any(map(isnan, known)):
        names = [
            column.name
            for column, error in zip(prepared.columns, prepared.rewritten.expected, strict=True)
            if error is not None and isnan(error)
        ]
        raise Refused(
            Reason.BAD_OPTION,
            option="max_error",
            why=f"the error of {names[0]} depends on the data",
            fix="Ask for a relative error, such as '5%', or for counts and sums.",
        )
    if prepared.plan is None or not known:
        return 0.0
    return max(known) * margin_factor(prepared.plan, float(confidence))


def _first(budget: Budget) -> Decimal:
    """The epsilon with which a relative error is first looked for."""
    share = _rounded(budget.query_epsilon / FIRST_SHARE, ROUND_UP)
    return max(share, accountants.cheapest_epsilon(budget))


def answered(compiler: Compiler, vault: Vault, asked: Question) -> Answer:
    """The answer to what `read` gave; its numbers are as precise as asked.

    Raises `Refused` with the price where the policy does not allow a relative error; what was spent
    to find the price stays spent, and its answer is remembered. Otherwise as `Proxy.ask`.
    """
    wanted, limit = asked.wanted, asked.account.budget.max_query_epsilon
    if wanted is None:
        return two_steps.answered(compiler, vault, asked)
    epsilon = asked.account.epsilon
    while True:
        paid = min(epsilon, limit)
        answer = two_steps.answered(compiler, vault, asked.at(paid))
        plan = compiler.prepared(asked.at(paid)).plan
        if plan is None:
            return answer
        kept = f"What was spent to see this stays spent; its answer is free at ε = {paid}."
        excess = _worst(answer, margin_factor(plan, float(wanted.confidence)), kept)
        excess /= float(wanted.error)
        if excess <= 1:
            return answer
        price = _rounded(epsilon * Decimal(min(excess * _ROOM, 1e9)), ROUND_UP)
        if price > limit:
            raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=price, limit=limit, fix=kept)
        epsilon = max(price, 2 * epsilon)


def _worst(answer: Answer, factor: float, kept: str) -> float:
    """The largest half-width of a noisy number, as a fraction of it.

    Refuses, with what is `kept`, a number whose error is not known.
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
        raise Refused(Reason.BAD_OPTION, option="max_error", why=why, fix=kept)
    return max((_fraction(value, margin) for value, margin in margins), default=0.0)


def _fraction(value: float | Decimal | None, margin: float) -> float:
    return inf if value is None or isnan(value) or not value else margin / abs(float(value))


def _smallest(fits: Callable[[Decimal], bool], low: Decimal, high: Decimal) -> Decimal:
    """The smallest epsilon of three digits in [low, high] that fits, where high does."""
    while True:
        middle = _rounded((low * high).sqrt(), ROUND_DOWN)
        if not low < middle < high:
            return low if fits(low) else high
        low, high = (low, middle) if fits(middle) else (middle, high)


def _rounded(epsilon: Decimal, rounding: str) -> Decimal:
    return Context(prec=3, rounding=rounding).plus(epsilon)
