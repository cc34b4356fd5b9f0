"""Windows of the ledger: the open one of each calendar, and the sums at its start.

Time goes forward by one window at a step, and never back: PRIVACY.md R110. Losses
of periods of people have sums of their own: PRIVACY.md R103.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from dpsql.model.calendars import Calendar
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.vocabulary import Loss


def period_key(budget: str, rule: str, period: str) -> str:
    """Return the name under which the sums of a budget in one period are kept.

    >>> period_key("default", "month from 2024-01", "2024-02")
    'default [month from 2024-01: 2024-02]'
    """
    return f"{_periods_of(budget, rule)}{period}]"


def _periods_of(budget: str, rule: str = "") -> str:
    return f"{budget} [{rule}: " if rule else f"{budget} ["


Share: TypeAlias = tuple[str, str, frozenset[str]]
"""A budget, an analyst who received an answer that it had paid for, and the earlier holders."""


@dataclass(frozen=True, slots=True)
class LossSums:
    """Losses by budget and analyst, and prices of shared answers by budget, analyst, and earlier
    holders.
    """

    losses: Mapping[tuple[str, str], Loss] = field(default_factory=dict)
    shared: Mapping[Share, Loss] = field(default_factory=dict)

    def spent(self, budget: str | None, analysts: frozenset[str] | None = None) -> Loss:
        """Return the spending of a budget (None: of all), by these analysts (None: by all).

        A shared answer counts once for them, with the first of them who had it. What was charged to
        periods of people is added up over the periods.
        """
        start = None if budget is None else _periods_of(budget)
        counted = self.losses.items() if analysts is None else self._counted_for(analysts)
        losses = [
            loss
            for (of, _), loss in counted
            if start is None or of == budget or of.startswith(start)
        ]
        return sum(losses, Loss(0))

    def _counted_for(self, analysts: frozenset[str]) -> list[tuple[tuple[str, str], Loss]]:
        """Return the items that count for these analysts: their losses, and what they received."""
        own = [(key, loss) for key, loss in self.losses.items() if key[1] in analysts]
        received = [
            ((of, by), loss)
            for (of, by, before), loss in self.shared.items()
            if by in analysts and before.isdisjoint(analysts)
        ]
        return [*own, *received]

    def spent_in(
        self,
        budget: str,
        rule: str,
        periods: Sequence[str],
        analysts: frozenset[str] | None = None,
    ) -> tuple[Loss, ...]:
        """Return the spending of a budget in each of these periods, by these analysts (None: all).

        What was charged without periods, or under another rule, counts in every period. So a
        changed rule gives no period a new budget.
        """
        own, start, whole = dict.fromkeys(periods, Loss(0)), _periods_of(budget, rule), Loss(0)
        counted = self.losses.items() if analysts is None else self._counted_for(analysts)
        for (of, _), loss in counted:
            if of.startswith(start):
                period = of[len(start) : -1]
                if period in own:
                    own[period] += loss
            elif of == budget or of.startswith(_periods_of(budget)):
                whole += loss
        return tuple(own[period] + whole for period in periods)

    def lists(self) -> list[Any]:
        """Return the sums as lists for JSON: losses, then shared prices."""
        losses = sorted([*key, *numbers_of(loss)] for key, loss in self.losses.items())
        shared = sorted(
            [of, by, sorted(before), *numbers_of(loss)]
            for (of, by, before), loss in self.shared.items()
        )
        return [losses, shared]


def numbers_of(loss: Loss) -> tuple[int, ...]:
    """Return the coordinates of a loss, as the ledger writes them."""
    return loss.amount, loss.delta, *loss.further


def loss_of(amount: int, delta: int, *further: int) -> Loss:
    """Return the loss with these coordinates."""
    return Loss(amount, delta, further)


def read_sums(losses: list[Any], shared: list[Any]) -> LossSums:
    """Return the sums of `LossSums.lists`."""
    return LossSums(
        {(of, by): loss_of(*numbers) for of, by, *numbers in losses},
        {(of, by, frozenset(before)): loss_of(*numbers) for of, by, before, *numbers in shared},
    )


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The open window of a calendar: its name, and all sums `before` its first charge.

    `leapt` is true if ledger time went over more than one window to it: then only the owner opens
    the next. `last` is the window that was open before, for a correction.
    """

    name: str
    before: LossSums = field(default_factory=LossSums)
    leapt: bool = False
    last: OpenWindow | None = None

    def follow(self, calendar: Calendar, name: str, sums: LossSums) -> OpenWindow:
        """Return the window `name`, which opens at these sums."""
        leapt = name != calendar.next_window(self.name)
        return OpenWindow(name, sums, leapt, replace(self, last=None))

    def correct(self, calendar: Calendar, name: str) -> OpenWindow:
        """Return this window under an earlier name, or its own: nothing is renewed.

        If the window `name` was open before, its losses count again. If the ledger no longer knows
        which losses belong to `name`, all of them count.
        """
        last, first = self.last, calendar.first_day(name)
        if last is not None and last.name == name:
            return replace(last, leapt=False)
        if name == self.name or (last is not None and calendar.first_day(last.name) < first):
            return replace(self, name=name, leapt=False)
        return OpenWindow(name)

    def lists(self) -> list[Any]:
        """Return the window as lists for JSON."""
        last = [] if self.last is None else self.last.lists()
        return [self.name, *self.before.lists(), self.leapt, last]


def read_window(lists: list[Any]) -> OpenWindow:
    """Return the window of `OpenWindow.lists`."""
    name, losses, shared, leapt, last = lists
    before = read_window(last) if last else None
    return OpenWindow(name, read_sums(losses, shared), leapt is True, before)


def window_now(
    open_window: OpenWindow | None, calendar: Calendar, moment: datetime, sums: LossSums
) -> OpenWindow:
    """Return the window to which a charge at this moment counts: never an earlier one than is open.

    A later moment opens one more window, and no further one after a leap. The first window of a
    calendar counts all earlier losses. Raises `LedgerError` for an unknown time zone.
    """
    name = calendar.window_at(moment)
    if open_window is None:
        return OpenWindow(name)
    later = calendar.first_day(name) > calendar.first_day(open_window.name)
    if not later or open_window.leapt:
        return open_window
    return open_window.follow(calendar, name, sums)
