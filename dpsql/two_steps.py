"""two_steps: questions that must first find bounds (see `private_bounds`), and all others.

The price of both steps is known before the first, and is refused or paid whatever data say: each
step is charged durably before it runs. Bounds that were found once are remembered by the ledger for
whatever the same analyst asks next, until the data or the policy change.

Both steps are ordinary questions: PRIVACY.md R64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from math import nan
from operator import add

from dpsql import accountants
from dpsql.accountants.remaining import rest
from dpsql.engines import Stop
from dpsql.errors import Reason, Refused
from dpsql.explaining import explanation
from dpsql.explanation import Explanation
from dpsql.ledgers import Ledger
from dpsql.model import Answer, Event, Loss, Policy, Request
from dpsql.prepare import Prepared
from dpsql.private_bounds import (
    SHARE,
    Found,
    found,
    notice,
    payable,
    question,
    shares,
    wanting,
)
from dpsql.questions import Asked, FoundBounds
from dpsql.tree import Statement

_ANY = Decimal("1e-9")
"""Remembered bounds are used whatever was paid for them: bounds are found once."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is asked: the first steps, one per column, what is remembered of them, and the second
    at its widest.
    """

    asked: Asked
    widest: Found
    searches: tuple[Asked, ...]
    known: tuple[Answer | None, ...]
    last: Asked


@dataclass(frozen=True, slots=True)
class TwoSteps:
    """What a proxy lends: how to parse, prepare, remember, bind, charge, and answer in one step."""

    policy: Policy
    ledger: Ledger
    parsed: Callable[[Request], Statement]
    prepared: Callable[[Asked, Decimal], Prepared]
    remembered: Callable[[Asked, Prepared], Answer | None]
    require_bound: Callable[[Prepared, Stop], None]
    charged: Callable[[Asked, Prepared], Answer]
    at_once: Callable[[Asked], Answer]

    def answer(self, asked: Asked) -> Answer:
        """The answer, in two steps where bounds have to be found; raises as `Proxy.ask` does."""
        plan = self._plan(asked)
        if plan is None:
            return self.at_once(asked)
        self._require_pay(plan)
        # The first step is paid for the second, whose statements differ in their constants alone.
        self.require_bound(self.prepared(plan.last, plan.last.epsilon), asked.stop)
        first = [
            known or self.charged(search, self.prepared(search, search.epsilon))
            for search, known in zip(plan.searches, plan.known, strict=True)
        ]
        bounds = self._found(plan, first)
        fresh = [a for a, known in zip(first, plan.known, strict=True) if known is None]
        return _together(asked, fresh, self.at_once(replace(plan.last, bounds=bounds)), bounds)

    def explanation(self, asked: Asked) -> Explanation:
        """The plan and the price of all steps; see `Proxy.explain`."""
        plan = self._plan(asked)
        if plan is None:
            return self._explained(asked)
        if None not in plan.known:
            bounds = self._found(plan, [a for a in plan.known if a is not None])
            one = self._explained(replace(plan.last, bounds=bounds))
            notices = (*one.notices, *map(notice, bounds))
            return replace(one, epsilon=asked.epsilon, notices=notices)
        last = self._explained(plan.last)
        parts = [
            self._explained(search)
            for search, known in zip(plan.searches, plan.known, strict=True)
            if known is None
        ]
        names = ", ".join(f"{b.table}.{b.column}" for b in plan.widest)
        charge = reduce(add, (part.charge for part in parts), last.charge)
        return replace(
            last,
            blocks=tuple(block for part in (*parts, last) for block in part.blocks),
            charge=charge,
            rest=rest(asked.budget, last.spent, charge),
            epsilon=asked.epsilon,
            event=_events(*parts, last),
            expected=tuple(None if e is None else nan for e in last.expected),
            notes=(
                *last.notes,
                f"The bounds of {names} come from data: {SHARE} of the charge finds them first.",
                "Until they are found, the last release is shown with the widest.",
            ),
        )

    def _plan(self, asked: Asked) -> _Plan | None:
        widest = wanting(self.policy, partial(self._compiles, asked))
        if not widest:
            return None
        accountant = accountants.get(asked.budget.accountant)
        small, large = shares(accountant, asked.budget, asked.epsilon, len(widest))
        searches = tuple(self._search(asked, bounds, small) for bounds in widest)
        known = tuple(
            self.remembered(replace(s, epsilon=_ANY), self.prepared(s, s.epsilon)) for s in searches
        )
        last = replace(asked, epsilon=large, bounds=widest)
        return _Plan(asked, widest, searches, known, last)

    def _compiles(self, asked: Asked, bounds: Found) -> bool:
        try:
            self.prepared(replace(asked, bounds=bounds), asked.epsilon)
        except Refused as refused:
            return refused.reason is not Reason.UNBOUNDED_INPUT
        return True

    def _search(self, asked: Asked, bounds: FoundBounds, epsilon: Decimal) -> Asked:
        request = Request(question(self.policy, bounds), asked.request.analyst)
        # What surrounds noise with a δ of its own leaves it to the second step.
        delta = asked.budget.query_delta if asked.budget.accountant == "zcdp" else Decimal(0)
        budget = replace(asked.budget, query_delta=delta)
        return Asked(request, self.parsed(request), budget, epsilon, asked.stop)

    def _require_pay(self, plan: _Plan) -> None:
        """Refuse before the first step what cannot be paid to the end."""
        if None not in plan.known:
            return
        steps = [s for s, known in zip(plan.searches, plan.known, strict=True) if known is None]
        losses = (self._loss(step) for step in steps)
        budget = plan.last.budget
        needed = reduce(add, losses, self._loss(plan.last))
        spent = self.ledger.spent(budget.name)
        plan.last.require_useful(self.prepared(plan.last, plan.last.epsilon).notices, needed)
        try:
            payable(budget, accountants.get(budget.accountant), spent, needed)
        except Refused as refused:
            raise plan.asked.in_epsilon(refused, spent) from None

    def _loss(self, asked: Asked) -> Loss:
        plan = self.prepared(asked, asked.epsilon).plan
        assert plan is not None
        return plan.loss

    def _found(self, plan: _Plan, first: list[Answer]) -> Found:
        bounds = []
        for widest, search, answer in zip(plan.widest, plan.searches, first, strict=True):
            assert answer.receipt is not None
            paid = self.prepared(search, answer.receipt.epsilon).plan
            assert paid is not None
            bounds.append(found(self.policy, widest, answer.rows, paid.blocks[0]))
        return tuple(bounds)

    def _explained(self, asked: Asked) -> Explanation:
        return explanation(asked, self.policy, self.ledger, self.prepared)


def _events(*steps: Explanation) -> Event:
    return Event(tuple(part for step in steps if step.event for part in step.event.parts))


def _together(asked: Asked, fresh: list[Answer], last: Answer, bounds: Found) -> Answer:
    """The second step's answer with the price of all steps and the bounds that were used."""
    receipt = last.receipt
    assert receipt is not None
    charged = reduce(add, (a.receipt.charged for a in fresh if a.receipt), receipt.charged)
    receipt = replace(
        receipt,
        epsilon=asked.epsilon,
        charged=charged,
        remembered=receipt.remembered and not fresh,
        least=receipt.least and not fresh,
    )
    notices = (*last.notices, *map(notice, bounds))
    return replace(last, receipt=receipt, notices=notices)
