"""Joint prices of several statements, as a table for every interface."""

from __future__ import annotations

from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING

from dpsql.interfaces.amounts import loss_text, number_text, plain
from dpsql.interfaces.plan_text import forecast_text
from dpsql.model.tree import VARCHAR
from dpsql.model.vocabulary import Answer, Column, Loss
from dpsql.preparation.explanation import Forecast

if TYPE_CHECKING:
    from dpsql.answering.joint_plan import JointPlan, PlannedStatement

_HEADERS = ("question", "alone", "together", "expected error")


def prices(plan: JointPlan, widest: int | None = None) -> Answer:
    """Return a row for each statement: price alone, additional charge in the plan, expected
    margins.

    The additional charge is 0 if earlier statements cover it. Texts longer than `widest` are
    cut.
    """
    unit = plan.account.budget.accountant
    rows = tuple(_row(n, statement, unit, widest) for n, statement in enumerate(plan.statements, 1))
    total = ("all", loss_text(plan.alone, unit), loss_text(plan.price, unit), "")
    columns = tuple(Column(name, VARCHAR) for name in _HEADERS)
    exact = ((None,) * len(_HEADERS),) * (len(rows) + 1)
    return Answer(columns, (*rows, total), exact, exact)


def price_text(plan: JointPlan) -> str:
    """Return the total price in one line."""
    unit, count = plan.account.budget.accountant, len(plan.questions)
    if plan.price == Loss(0):
        verb, who = ("costs", "it asks") if count == 1 else ("cost", "they ask")
        return (
            f"{count_noun(count, 'statement')} {verb} nothing: what {who} is remembered, or public"
        )
    price, alone = loss_text(plan.price, unit), loss_text(plan.alone, unit)
    worth = plain(plan.account.epsilon)
    if count == 1:
        return f"1 statement costs ε = {worth} ({price})"
    return f"{count} statements cost ε = {worth} ({price}) together, {alone} one by one"


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_noun(1, "table"), count_noun(2, "table")
    ('1 table', '2 tables')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _row(
    number: int, statement: PlannedStatement, unit: str, widest: int | None
) -> tuple[str, ...]:
    text = " ".join(statement.sql.split())
    cut = widest is not None and len(text) > widest
    shown = f"{text[: widest - 1]}…" if cut and widest else text
    if statement.refused is not None:
        return f"{number}: {shown}", "", "", f"refused: {statement.refused.reason.value}"
    alone, together = loss_text(statement.alone, unit), loss_text(statement.together, unit)
    return f"{number}: {shown}", alone, together, _errors(statement)


def _errors(statement: PlannedStatement) -> str:
    noisy = [
        f"{column.name} {_error(column, error)}"
        for column, error in zip(statement.columns, statement.expected, strict=True)
        if error is not None
    ]
    return ", ".join(noisy) or "exact"


def _error(column: Column, error: float | Forecast) -> str:
    if isinstance(error, Forecast):
        return forecast_text(error)
    margin = "?" if isnan(error) else number_text(Decimal(0), error, column.type.scale)[1]
    return f"± {margin}"
