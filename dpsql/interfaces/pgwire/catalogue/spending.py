"""An analyst's spending and the policy's listed values, as table functions.

They are dpsql_budget(), dpsql_history() and dpsql_values().
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpsql.accountants.remaining import fitting, questions
from dpsql.engines import ScratchTable
from dpsql.interfaces.amounts import share_text
from dpsql.interfaces.listing import listed_values
from dpsql.model.tree import BOOLEAN, TIMESTAMPTZ, VARCHAR, Kind, SqlType, decimal
from dpsql.model.vocabulary import Loss

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

LATEST = 1000
"""Maximum number of rows of dpsql_history()."""

DIGITS = 38
_AMOUNT = decimal(DIGITS, 0)
_AMOUNTS = ("spent", "total", "remaining", "delta_spent", "delta_total")
_IN_EPSILON = ("epsilon", "per_cent_spent", "questions_left", "question_epsilon", "largest_epsilon")
REPORTS: dict[str, tuple[tuple[str, SqlType], ...]] = {
    "dpsql_budget": (
        ("budget", VARCHAR),
        ("accountant", VARCHAR),
        *((name, _AMOUNT) for name in (*_AMOUNTS, *_IN_EPSILON)),
    ),
    "dpsql_history": (
        ("query_id", VARCHAR),
        ("time", TIMESTAMPTZ),
        ("budget", VARCHAR),
        ("epsilon", _AMOUNT),
        ("charge", _AMOUNT),
        ("delta", _AMOUNT),
        ("answered", BOOLEAN),
    ),
    "dpsql_values": (("table_name", VARCHAR), ("column_name", VARCHAR), ("value", VARCHAR)),
}
"""Columns by function. A DECIMAL has as many decimal places as its rows need.

A value is an SQL literal.
"""

_Row = tuple[Any, ...]


def report(proxy: Proxy, analyst: str, function: str) -> ScratchTable:
    """Return the rows for one analyst. Amounts are in the unit of their accountant."""
    match function:
        case "dpsql_budget":
            rows = _budget(proxy, analyst)
        case "dpsql_history":
            rows = _history(proxy, analyst)
        case _:
            rows = list(listed_values(proxy.policy_of(analyst)))
    values = list(zip(*rows, strict=True)) or [()] * len(REPORTS[function])
    columns = tuple(
        (name, _exact(column) if kind.kind is Kind.DECIMAL else kind)
        for (name, kind), column in zip(REPORTS[function], values, strict=True)
    )
    return ScratchTable(function, columns, rows)


def _exact(column: tuple[Decimal, ...]) -> SqlType:
    """Return the DECIMAL type that holds these amounts without trailing zeros."""
    exponents = [int(value.normalize().as_tuple().exponent) for value in column]
    return decimal(DIGITS, max(0, *(-exponent for exponent in exponents), 0))


def _budget(proxy: Proxy, analyst: str) -> list[_Row]:
    own = proxy.standing(analyst)
    budget, spent, limit = own.budget, own.spent, own.limit
    return [
        (
            budget.name,
            budget.accountant,
            _amount(spent),
            _amount(limit),
            _amount(limit) - _amount(spent),
            _delta(spent),
            _delta(limit),
            budget.epsilon,
            Decimal(share_text(spent, limit).removesuffix(" %")),
            Decimal(questions(budget, spent)),
            budget.query_epsilon,
            fitting(budget, spent) or Decimal(0),
        )
    ]


def _history(proxy: Proxy, analyst: str) -> list[_Row]:
    return [
        (e.query_id, e.time, e.budget, e.epsilon, _amount(e.loss), _delta(e.loss), e.remembered)
        for e in proxy.ledger.history(analyst, LATEST)
    ]


def _amount(loss: Loss) -> Decimal:
    return Decimal(loss.amount).scaleb(-9)


def _delta(loss: Loss) -> Decimal:
    return Decimal(loss.delta).scaleb(-18)
