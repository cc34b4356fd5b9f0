"""The contract of an accountant: events to losses, budgets to limits, amounts to noise.

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
    """The privacy loss that one query may spend: `amount` in the accountant's own measure (ρ or ε).

    `selection_delta` is for publishing private keys. `noise_delta` is for Gaussian noise where the
    accountant charges it a δ. All three are whole ledger units, so the charges of shares add up to
    a charge that fits.
    """

    amount: Fraction
    selection_delta: Fraction
    noise_delta: Fraction

    def share(self, part: Fraction) -> Allowance:
        """Return an allowance with this part of all three numbers.

        >>> Allowance(Fraction(1), Fraction(0), Fraction(0)).share(Fraction(1, 4)).amount
        Fraction(1, 4)
        """
        return Allowance(self.amount * part, self.selection_delta * part, self.noise_delta * part)


@runtime_checkable
class Accountant(Protocol):
    """A way to measure and add up privacy loss, chosen when a budget is created.

    Its filter is: the sum of the losses fits the limit. That is valid when queries and their
    parameters are chosen adaptively (PRIVACY.md R56).
    """

    @property
    def name(self) -> str:
        """Name of the accountant in a policy."""

    @property
    def unit(self) -> str:
        """Letter of its amounts: ρ or ε."""

    @property
    def laws(self) -> tuple[str, ...]:
        """Names of the noise distributions that an option of a query may choose."""

    @property
    def supports_selection(self) -> bool:
        """True if private keys can be published, which costs δ. If False, no δ is ever spent."""

    @property
    def needs_delta(self) -> bool:
        """True if an ε becomes an amount only together with a δ, in a budget and in a query."""

    @property
    def order(self) -> int:
        """The n for which the variance of the noise is proportional to 1/amount^n."""

    @property
    def vectors_help(self) -> bool:
        """True if values that are measured as one vector may have less noise than one by one.

        This holds where a charge grows with the L1 norm of what a unit changes: no unit changes
        each value by the maximum at once.
        """

    def preferring(self, budget: Budget, law: str | None, epsilon: Fraction) -> Self:
        """Return the accountant as it serves a query of `epsilon` from this budget, with this
        noise.

        Raises `Refused` where the distribution would not keep the guarantee that its name promises.
        """

    def limit(self, budget: Budget) -> Loss:
        """Return the total loss that a budget allows, rounded down."""

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """Return the loss with which a query is (ε, δ)-DP by itself, rounded down.

        Raises ValueError if it selects keys and the accountant does not support that.
        """

    def noise(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> Noise:
        """Return the best noise with which one measurement loses at most (amount, δ).

        Raises ValueError if the amount is not positive.
        """

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity
    ) -> Noise | None:
        """Return the second-best noise within that loss, or None."""

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Return the largest ε, rounded down, at which `rounds` choices of ε-bounded range cost at
        most the amount.
        """

    def step(self, amount: Fraction) -> Fraction:
        """Return the largest ε, rounded down, of one (ε, δ)-DP step that costs at most the
        amount.
        """

    def loss(self, event: Event) -> Loss:
        """Return the exact loss of an event, rounded up to ledger units."""

    def epsilon(self, loss: Loss, delta: Fraction) -> float:
        """Return the ε at which this total loss is (ε, δ)-DP, rounded up; infinity if δ is too
        small.
        """


def loss_up(amount: Fraction, delta: Fraction) -> Loss:
    """Round a charge up to ledger units.

    >>> loss_up(Fraction(1, 3), Fraction(0))
    Loss(amount=333333334, delta=0)
    """
    return Loss(ceil(amount * NANO), ceil(delta * ATTO))


def loss_down(amount: Fraction, delta: Fraction) -> Loss:
    """Round a limit down to ledger units."""
    return Loss(floor(amount * NANO), floor(delta * ATTO))


def allowance_down(amount: Fraction, selection: Fraction, noise: Fraction) -> Allowance:
    """Round an allowance down to whole ledger units.

    >>> allowance_down(Fraction(1, 3), Fraction(0), Fraction(0)).amount
    Fraction(333333333, 1000000000)
    """
    return Allowance(
        Fraction(floor(amount * NANO), NANO),
        Fraction(floor(selection * ATTO), ATTO),
        Fraction(floor(noise * ATTO), ATTO),
    )
