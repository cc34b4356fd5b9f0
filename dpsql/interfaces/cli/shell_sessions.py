"""Sessions that the shell can ask; here, a policy in this process."""

from __future__ import annotations

import sys
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Protocol

import click

from dpsql.dialects.statements.commands import Listing
from dpsql.interfaces.asking import answered
from dpsql.interfaces.cli.budget_commands import charges_text
from dpsql.interfaces.cli.budget_sheet import budgets_text
from dpsql.interfaces.cli.completions import Completable, names_of
from dpsql.interfaces.cli.prices import QuestionPrice, price_of, uncancelled
from dpsql.interfaces.cli.terminal import Progress, columns, interruptible
from dpsql.interfaces.dbapi.local_answers import free_answer
from dpsql.interfaces.doors import SHELL
from dpsql.interfaces.listing import listed
from dpsql.interfaces.plan_text import WIDTH, plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import remarks
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of a statement: rows or the text of a plan, with notices and cost."""

    answer: Answer | None
    text: str = ""
    remarks: tuple[str, ...] = ()
    cost: str = ""


class ShellSession(Protocol):
    """Session of one analyst. Each method raises `DpsqlError`."""

    @property
    def analyst(self) -> str:
        """The analyst who asks."""

    def names(self) -> Completable:
        """Return the names for completion."""

    def listed(self, wish: Listing) -> Answer:
        """Return the tables, or the columns of one."""

    def free(self, sql: str) -> Reply | None:
        """Return the reply to a statement that is free without a plan; None for a query."""

    def price(self, sql: str) -> QuestionPrice | None:
        """Return the price of a statement; None for EXPLAIN."""

    def plan(self, sql: str) -> str:
        """Return the plan of a statement, as wide as the terminal."""

    def ask(self, sql: str, *, confirmed: bool) -> Reply:
        """Return the answer. `confirmed` says that the user confirmed the price."""

    def at(self, epsilon: Decimal | None) -> None:
        """Set the ε of the following statements; None stands for the policy's."""

    def budget(self) -> str:
        """Return the remaining budget as text."""

    def history(self) -> str:
        """Return the charged queries as text."""


@dataclass(slots=True)
class LocalSession:
    """A policy in this process. Each statement becomes the `request` with its text."""

    proxy: Proxy
    request: Request

    @property
    def analyst(self) -> str:
        return self.request.analyst

    def names(self) -> Completable:
        from dpsql.dialects.reading.function_names import called_functions  # noqa: PLC0415

        return names_of(self.proxy.policy_of(self.analyst), called_functions())

    def listed(self, wish: Listing) -> Answer:
        synthetic = self.proxy.own_tables(self.analyst)
        policy = self.proxy.policy_of(self.analyst)
        return listed(wish, policy, self.request.search_path, synthetic)

    def free(self, sql: str) -> Reply | None:
        answer = free_answer(self.proxy, replace(self.request, sql=sql))
        return None if answer is None else Reply(answer, remarks=remarks(answer, SHELL))

    def price(self, sql: str) -> QuestionPrice | None:
        return None if is_plan(sql) else price_of(self._plan(sql), SHELL)

    def plan(self, sql: str) -> str:
        return _text(self._plan(sql))

    def ask(self, sql: str, *, confirmed: bool) -> Reply:
        request = replace(self.request, sql=sql, confirmed=confirmed)
        call = partial(answered, self.proxy, request)
        answer, cancelled = interruptible(call, self.proxy.cancel, Progress())
        answer = uncancelled(answer, cancelled=cancelled)
        if isinstance(answer.explanation, Explanation):
            return Reply(None, _text(answer.explanation))
        return Reply(answer, remarks=remarks(answer, SHELL), cost=cost_text(answer.receipt))

    def at(self, epsilon: Decimal | None) -> None:
        self.request = replace(self.request, epsilon=epsilon)

    def budget(self) -> str:
        return f"{budgets_text(self.proxy)}\n"

    def history(self) -> str:
        return charges_text(self.proxy, self.analyst)

    def _plan(self, sql: str) -> Explanation:
        call = partial(self.proxy.explain, replace(self.request, sql=sql))
        plan, cancelled = interruptible(call, self.proxy.cancel, Progress())
        if cancelled:
            raise click.Abort
        return plan


def is_plan(sql: str) -> bool:
    """Test whether a statement asks for a plan, which is free."""
    from dpsql.dialects.reading.request_options import read_explain  # noqa: PLC0415

    try:
        return read_explain(sql) is not None
    except Refused:
        return False


def _text(plan: Explanation) -> str:
    return plan_text(plan, width=columns(sys.stdout) or WIDTH, door=SHELL)
