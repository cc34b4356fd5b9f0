"""What is asked of the proxy, read as far as the policy's budgets say."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction

from dpsql import accountants
from dpsql.accountants.remaining import in_epsilon, keyed_questions, questions
from dpsql.engines import Stop
from dpsql.errors import Reason, Refused
from dpsql.explanation import Explanation
from dpsql.model import Answer, Budget, Column, Loss, Receipt, Request
from dpsql.notices import Notice, useless
from dpsql.tree import VARCHAR, Statement
from dpsql.wishes import Precision


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """Bounds of one column of a private table, as released values or their widest say."""

    table: str
    column: str
    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its budget, the epsilon it may spend, and the wish to stop it.

    `wanted` is a relative error, of which `epsilon` is the first try. `bounds` are those that
    were found privately for columns that declare none.
    """

    request: Request
    statement: Statement
    budget: Budget
    epsilon: Decimal
    stop: Stop
    wanted: Precision | None = None
    bounds: tuple[FoundBounds, ...] = ()

    def receipt(
        self, query_id: str, epsilon: Decimal, charged: Loss, spent: Loss, *, remembered: bool
    ) -> Receipt:
        """What is told with the answer of a query that now cost `charged`."""
        accountant = accountants.get(self.budget.accountant)
        payer = self.request.analyst, self.budget.name, accountant.name
        limit = accountant.limit(self.budget)
        least = accountants.is_least(charged, self.budget)
        counts = questions(self.budget, spent), keyed_questions(self.budget, spent)
        rest = self.budget.query_epsilon, *counts
        return Receipt(query_id, *payer, epsilon, charged, spent, limit, remembered, least, *rest)

    def in_epsilon(self, refused: Refused, spent: Loss) -> Refused:
        """What the ledger refuses to charge, told in ε."""
        return in_epsilon(refused, self.budget, self.epsilon, spent)

    def require_useful(self, notices: tuple[Notice, ...], needed: Loss) -> None:
        """Refuse what cannot be of use, where the policy wants it confirmed and nobody has."""
        why, limit = useless(notices), self.budget.confirm_above
        if why is None or limit is None or self.epsilon <= limit or self.request.confirmed:
            return
        facts = {field.name: getattr(why, field.name) for field in fields(why)}
        paid = {"epsilon": self.epsilon, "needed": needed, "accountant": self.budget.accountant}
        raise Refused(Reason.NOT_USEFUL, **(facts | paid))


def explained(explanation: Explanation) -> Answer:
    """The answer to EXPLAIN PRIVACY: its interface writes the rows from the explanation."""
    return Answer((Column("plan", VARCHAR),), (), (), (), explanation=explanation)
