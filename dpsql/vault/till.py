"""Standing of payers, receipts, and charges, from the ledger alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from dpsql.ledgers import Charge, Ledger
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import LIFETIME, Cap, Loss, Receipt
from dpsql.preparation import question

T = TypeVar("T")


class Till:
    """Charges and receipts of a ledger: thread-safe."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def receipt(
        self, account: question.Account, query_id: str, charged: Loss | None = None
    ) -> Receipt:
        """Return the receipt of an answer that now cost `charged` (None: it is remembered)."""
        standing = self.standing(account)
        return account.receipt(query_id, charged or Loss(0), standing, remembered=charged is None)

    def standing(self, account: question.Account) -> question.Standing:
        """Return the rest for a payer: of the budget, or of the cap with the least rest.

        Its other windows and lifetimes stand next to it.
        """
        every = self.standings(account)
        least = min(every, key=attrgetter("left"))
        if account.rule is not None:
            return least
        beside = [
            each.spending
            for each in every
            if each is not least and (each.window or each.cap.startswith(LIFETIME))
        ]
        if account.budget.renews is not None or account.caps:
            beside += question.unbounded((account.budget,), account.caps, self._ledger)
        return replace(least, beside=tuple(beside))

    def standings(self, account: question.Account) -> tuple[question.Standing, ...]:
        """Return the budget and every cap that covers its payer, each with its spending."""
        budget, rule = account.budget, account.rule
        if rule is not None:
            periods = account.periods or ChargedPeriods(rule, rule.blocks, "")
            limits: list[Cap | None] = [None, *account.caps]
            each = (question.period_standings(budget, periods, self._ledger, c) for c in limits)
            return tuple(chain.from_iterable(each))
        parts = (question.cap_standing(cap, budget, self._ledger) for cap in account.caps)
        return (question.budget_standing(budget, self._ledger), *parts)

    def charge(self, account: question.Account, *charges: Charge) -> None:
        """Charge a payer, for all or for none; a refusal for lack of budget is stated in ε."""
        if not charges:
            return
        try:
            self._ledger.charge(*charges)
        except Refused as refused:
            raise self._in_epsilon(account, refused) from None

    def debit(self, account: question.Account, step: Callable[[], T]) -> T:
        """Run a charge; a refusal for lack of budget is stated in ε."""
        try:
            return step()
        except Refused as refused:
            raise self._in_epsilon(account, refused) from None

    def _in_epsilon(self, account: question.Account, refused: Refused) -> Refused:
        if refused.reason is not Reason.BUDGET_EXHAUSTED:
            return refused
        stated = account.in_epsilon(refused, self.standing(account))
        if account.rule is None:
            return stated
        return account.leaving_out(stated, self.standings(account))
