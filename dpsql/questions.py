"""What is asked of the proxy, read as far as the policy's budgets say."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpsql.engines import Stop
from dpsql.explanation import Explanation
from dpsql.model import Answer, Budget, Column, Request
from dpsql.tree import VARCHAR, Statement
from dpsql.wishes import Precision


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with its budget, the epsilon it may spend, and the wish to stop it.

    `wanted` is a relative error, of which `epsilon` is the first try.
    """

    request: Request
    statement: Statement
    budget: Budget
    epsilon: Decimal
    stop: Stop
    wanted: Precision | None = None


def explained(explanation: Explanation) -> Answer:
    """The answer to EXPLAIN PRIVACY: its interface writes the rows from the explanation."""
    return Answer((Column("plan", VARCHAR),), (), (), (), explanation=explanation)
