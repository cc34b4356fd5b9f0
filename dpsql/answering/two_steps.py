"""two_steps: questions that must first find bounds (see `private_bounds`), and all others.

The price of both steps is known before the first, and is refused or paid whatever data say: each
step is charged durably before it runs. Bounds that were found once are remembered by the ledger for
whatever the same analyst asks next, until the data or the policy change.

Both steps are ordinary questions: PRIVACY.md R64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from operator import add

from dpsql import accountants
from dpsql.answering.vault import Vault
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.private_bounds import (
    ColumnBounds,
    bounds_of_answers,
    notice,
    payable,
    question,
    shares,
)
from dpsql.preparation.question import Account, Question, ReleasedBounds

_ANY = Decimal("1e-9")
"""Remembered bounds are used whatever was paid for them: bounds are found once."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is asked: the first steps, one per column, what is remembered of them, and the second
    at its `widest`.
    """

    asked: Question
    widest: ColumnBounds
    searches: tuple[Question, ...]
    known: tuple[Answer | None, ...]
    last: Question

    @property
    def to_pay(self) -> tuple[Question, ...]:
        """The first steps that are not remembered."""
        pairs = zip(self.searches, self.known, strict=True)
        return tuple(search for search, known in pairs if known is None)

    def found(self, compiler: Compiler, answers: tuple[Answer, ...]) -> ColumnBounds:
        """The bounds that the answers of the first steps say."""
        bounds = []
        for widest, search, answer in zip(self.widest, self.searches, answers, strict=True):
            assert answer.receipt is not None
            paid = compiler.prepared(search.at(answer.receipt.epsilon)).plan
            assert paid is not None
            bounds.append(bounds_of_answers(compiler.policy, widest, answer.rows, paid.blocks[0]))
        return tuple(bounds)


def answered(compiler: Compiler, vault: Vault, asked: Question) -> Answer:
    """The answer, in two steps where bounds have to be found; raises as `Proxy.ask` does."""
    steps = steps_of(compiler, vault, asked)
    if steps is None:
        return vault.answered(compiler, asked)
    _require_pay(compiler, vault, steps)
    # The first step is paid for the second, whose statements differ in their constants alone.
    vault.require_bound(compiler.prepared(steps.last), asked.stop)
    answers = tuple(
        known or vault.charged(compiler, search, compiler.prepared(search))
        for search, known in zip(steps.searches, steps.known, strict=True)
    )
    bounds = steps.found(compiler, answers)
    fresh = [answer for answer, known in zip(answers, steps.known, strict=True) if known is None]
    last = vault.answered(compiler, replace(steps.last, bounds=bounds))
    return _together(asked, fresh, last, bounds)


def steps_of(compiler: Compiler, vault: Vault, asked: Question) -> Steps | None:
    """The steps of a question for which bounds have to be found; None where it is but one."""
    widest = compiler.wanting(asked)
    if not widest:
        return None
    payer = asked.account
    accountant = accountants.get(payer.budget.accountant)
    small, large = shares(accountant, payer.budget, payer.epsilon, len(widest))
    searches = tuple(_search(compiler, asked, bounds, small) for bounds in widest)
    known = tuple(vault.remembered(compiler, search, _ANY) for search in searches)
    return Steps(asked, widest, searches, known, replace(asked.at(large), bounds=widest))


def _search(
    compiler: Compiler, asked: Question, bounds: ReleasedBounds, epsilon: Decimal
) -> Question:
    request = Request(question(compiler.policy, bounds), asked.request.analyst)
    # What surrounds noise with a δ of its own leaves it to the second step.
    budget = asked.account.budget
    needed = accountants.get(budget.accountant).needs_delta
    delta = budget.query_delta if needed else Decimal(0)
    account = Account(request.analyst, replace(budget, query_delta=delta), epsilon)
    return replace(compiler.read(request, asked.stop), account=account)


def _require_pay(compiler: Compiler, vault: Vault, steps: Steps) -> None:
    """Refuse before the first step what cannot be paid to the end."""
    if not steps.to_pay:
        return
    budget = steps.last.account.budget
    losses = (_loss(compiler, step) for step in steps.to_pay)
    needed = reduce(add, losses, _loss(compiler, steps.last))
    spent = vault.ledger.spent(budget.name)
    steps.last.require_useful(compiler.prepared(steps.last).notices, needed)
    try:
        payable(budget, accountants.get(budget.accountant), spent, needed)
    except Refused as refused:
        raise steps.asked.account.in_epsilon(refused, spent) from None


def _loss(compiler: Compiler, asked: Question) -> Loss:
    plan = compiler.prepared(asked).plan
    assert plan is not None
    return plan.loss


def _together(asked: Question, fresh: list[Answer], last: Answer, bounds: ColumnBounds) -> Answer:
    """The second step's answer with the price of all steps and the bounds that were used."""
    receipt = last.receipt
    assert receipt is not None
    charged = reduce(add, (a.receipt.charged for a in fresh if a.receipt), receipt.charged)
    receipt = replace(
        receipt,
        epsilon=asked.account.epsilon,
        charged=charged,
        remembered=receipt.remembered and not fresh,
        least=receipt.least and not fresh,
    )
    notices = (*last.notices, *map(notice, bounds))
    return replace(last, receipt=receipt, notices=notices)
