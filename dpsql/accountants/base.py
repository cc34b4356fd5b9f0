"""What an accountant is: events to losses, budgets to limits, amounts to noise.

Why the sum is a filter: PRIVACY.md R56.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Protocol, Self, runtime_checkable

from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import ATTO, NANO, Budget, Event, Loss, Noise, Sensitivity


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one query may spend: `amount` in the accountant's own measure (ρ or ε).

    `selection_delta` is for publishing private keys, `noise_delta` for Gaussian noise where the
    accountant charges it a δ. All three are whole ledger units, so shares of them add up to a
    charge that fits.
    """

    amount: Fraction
    selection_delta: Fraction
    noise_delta: Fraction

    def share(self, part: Fraction) -> Allowance:
        """That part of all three.

        >>> Allowance(Fraction(1), Fraction(0), Fraction(0)).share(Fraction(1, 4)).amount
        Fraction(1, 4)
        """
        return Allowance(self.amount * part, self.selection_delta * part, self.noise_delta * part)


@runtime_checkable
class Accountant(Protocol):
    """One way to measure and add up privacy loss, chosen when a budget is created.

    Its filter is: the sum of the losses fits the limit. That is valid when queries and their
    parameters are chosen adaptively (PRIVACY.md R56).
    """

    @property
    def name(self) -> str:
        """Its name in a policy."""

    @property
    def unit(self) -> str:
        """The letter of its amounts: ρ or ε."""

    @property
    def laws(self) -> tuple[str, ...]:
        """The laws of noise that it can charge for as they are meant, by their names in a query."""

    @property
    def supports_selection(self) -> bool:
        """Whether private keys can be published, which costs δ: if not, no δ is ever spent."""

    @property
    def needs_delta(self) -> bool:
        """Whether an ε is an amount only together with a δ, in a budget and in a question."""

    @property
    def order(self) -> int:
        """n, where the variance of the noise is proportional to 1/amount^n."""

    @property
    def vectors_help(self) -> bool:
        """Whether values that are measured together may err less than one by one.

        So it is where a charge grows with the sum of what a unit changes in each (L1): none
        changes each by the most at once.
        """

    def preferring(self, budget: Budget, law: str | None, epsilon: Fraction) -> Self:
        """Itself as it serves a query of `epsilon` from this budget, with noise of that law.

        Raises `Refused` where the law would not be what its name says.
        """

    def limit(self, budget: Budget) -> Loss:
        """The most a budget may spend in total, rounded down."""

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """What a query may spend to be (ε, δ)-DP by itself, rounded down.

        Raises ValueError if it selects keys and the accountant does not support that.
        """

    def noise(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> Noise:
        """The noise whose loss on one measurement is at most (amount, δ) and is best for it.

        Raises ValueError if the amount is not positive.
        """

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity
    ) -> Noise | None:
        """The other noise within that loss, worse than `noise` or not worth its δ, if any."""

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """The largest ε, rounded down, of `rounds` choices with ε-bounded range for the amount."""

    def step(self, amount: Fraction) -> Fraction:
        """The largest ε, rounded down, of one (ε, δ)-DP step for the amount."""

    def loss(self, event: Event) -> Loss:
        """The exact loss of an event, rounded up to ledger units."""

    def epsilon(self, loss: Loss, delta: Fraction) -> float:
        """The ε at which this loss in total is (ε, δ)-DP, rounded up; inf if δ is too small."""


def loss_up(amount: Fraction, delta: Fraction) -> Loss:
    """A charge in ledger units.

    >>> loss_up(Fraction(1, 3), Fraction(0))
    Loss(amount=333333334, delta=0)
    """
    return Loss(ceil(amount * NANO), ceil(delta * ATTO))


def loss_down(amount: Fraction, delta: Fraction) -> Loss:
    """A limit in ledger units."""
    return Loss(floor(amount * NANO), floor(delta * ATTO))


def allowance_down(amount: Fraction, selection: Fraction, noise: Fraction) -> Allowance:
    """An allowance of whole ledger units.

    >>> allowance_down(Fraction(1, 3), Fraction(0), Fraction(0)).amount
    Fraction(333333333, 1000000000)
    """
    return Allowance(
        Fraction(floor(amount * NANO), NANO),
        Fraction(floor(selection * ATTO), ATTO),
        Fraction(floor(noise * ATTO), ATTO),
    )
