"""Price of a query, and confirmation by the user."""

from __future__ import annotations

from decimal import Decimal

import click

from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.cli.terminal import note
from dpsql.interfaces.doors import Door
from dpsql.interfaces.sentences import sentence
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Failed
from dpsql.model.notices import useless
from dpsql.model.vocabulary import Answer, Loss
from dpsql.preparation.explanation import Explanation


@dataclass(frozen=True, slots=True)
class QuestionPrice:
    """Charge of a query at its ε. `vain` says why its answer would be useless, or is empty."""

    epsilon: Decimal
    charge: Loss
    accountant: str
    vain: str = ""

    def __str__(self) -> str:
        return f"ε = {plain(self.epsilon)} ({loss_text(self.charge, self.accountant)})"

    @property
    def is_free(self) -> bool:
        return self.charge == Loss(0)


def price_of(plan: Explanation, door: Door) -> QuestionPrice:
    """Return the price in a plan."""
    why = useless(plan.notices)
    vain = "" if why is None else sentence(why, plan.columns, door)
    return QuestionPrice(plan.epsilon, plan.charge, plan.accountant, vain)


def insisted(price: QuestionPrice, most: Decimal | None = None) -> bool:
    """Ask for confirmation if the answer is useless or costs more than ε = `most`.

    Returns whether it was confirmed; False if no confirmation was needed. Raises click.Abort if
    declined.
    """
    dear = most is not None and price.epsilon > most
    if price.is_free or not (price.vain or dear):
        return False
    if price.vain:
        note(price.vain)
    same = " all the same" if price.vain else ""
    click.confirm(f"It costs {price}{same}. Ask?", abort=True, err=True)
    return True


def uncancelled(answer: Answer, *, cancelled: bool) -> Answer:
    """Return the answer. Raises `Failed` with its charge if Ctrl-C came too late."""
    if not cancelled:
        return answer
    if answer.receipt is None:
        raise click.Abort
    free = answer.receipt.remembered
    raise Failed(answer.receipt.query_id, cancelled=True, charged=not free)
