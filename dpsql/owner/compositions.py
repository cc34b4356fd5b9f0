"""Sums of a budget's charges under other accountants: a report for the owner.

Formulas: PRIVACY.md R65.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction

from dpsql.accountants.reports import ORDERS, composition, pld
from dpsql.ledgers import Entry
from dpsql.model.dataclass import dataclass

POINTS = 20
"""Number of places in the history at which the sums are computed."""


@dataclass(frozen=True, slots=True)
class Sums:
    """The ε of the first `charges` charges, by each accountant; `inf` if none suffices.

    `pld` is None if the package that composes distributions is not installed.
    """

    charges: int
    basic: float
    advanced: float
    renyi: float
    zcdp: float
    pld: float | None

    @property
    def epsilons(self) -> tuple[float | None, ...]:
        """All sums, in the order of the fields."""
        return self.basic, self.advanced, self.renyi, self.zcdp, self.pld


def sums(charges: Sequence[Entry], delta: Decimal, *, distributions: bool) -> tuple[Sums, ...]:
    """Return the sums at evenly spaced places of these charges, oldest first; with PLD if
    `distributions`.
    """
    events, at = [charge.event for charge in charges], Fraction(delta)
    places = sorted({len(events) * n // POINTS for n in range(1, POINTS + 1)} - {0})
    points = []
    for place in places:
        four = composition(events[:place], at, *ORDERS)
        composed = pld(events[:place], at) if distributions else None
        points.append(Sums(place, pld=composed, **asdict(four)))
    return tuple(points)
