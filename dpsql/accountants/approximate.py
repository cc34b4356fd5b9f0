"""The approximate accountant: ε and δ each add up (basic composition).

Proof (PRIVACY.md R60, R61). Basic composition. A Gaussian costs its own δ and the least ε at which
it is (ε, δ)-DP, by its own law (`exact_gaussian`) or through zCDP. Which law is taken is a matter
of accuracy alone: each is charged for what it loses.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Self, assert_never

from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.conversion import epsilon_of, rho_of
from dpsql.accountants.exact_gaussian import calibrated, epsilon_at
from dpsql.accountants.preference import (
    GAUSSIAN,
    LAPLACE,
    TEXTBOOK,
    WRONG_ABOVE,
    bad_mechanism,
    preferred,
    textbook_variance,
)
from dpsql.accountants.pure import laplace_epsilon
from dpsql.mechanisms.calibration import effective, gaussian, laplace
from dpsql.mechanisms.error import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import (
    ATTO,
    NANO,
    ApproximateEvent,
    BoundedRangeEvent,
    Budget,
    Event,
    EventPart,
    Loss,
    Mechanism,
    Noise,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)

_GUARD = 1 - Fraction(1, 1 << 28)
"""Calibrating to a little less than ε leaves room for the outward rounding of the charge."""


@dataclass(frozen=True, slots=True)
class Approximate:
    """(ε, δ)-DP, with Laplace or Gaussian noise: whichever is worth more, or is asked for by name.

    `delta_worth` is the ε that a δ of 1 is worth: 0 where δ costs nothing, and the budget's ε/δ for
    who pays from it. A Gaussian is worth its δ where it errs less than Laplace noise would with
    that much more ε: then it takes a smaller share of the budget for the same error.
    """

    name: str = "approximate"
    unit: str = "ε"
    laws: tuple[str, ...] = (LAPLACE, GAUSSIAN, TEXTBOOK)
    supports_selection: bool = True
    needs_delta: bool = False
    order: int = 2
    vectors_help: bool = True
    mechanism: str | None = None
    delta_worth: Fraction = Fraction(0)

    def preferring(self, budget: Budget, law: str | None, epsilon: Fraction) -> Self:
        """Whose noise is of that law, or is worth more to who pays from this budget."""
        if law == TEXTBOOK and epsilon >= 1:
            raise bad_mechanism(WRONG_ABOVE)
        worth = Fraction(budget.epsilon) / Fraction(budget.delta) if budget.delta else Fraction(0)
        return replace(self, mechanism=law, delta_worth=worth)

    def limit(self, budget: Budget) -> Loss:
        """ε and δ as they are."""
        return loss_down(Fraction(budget.epsilon), Fraction(budget.delta))

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """ε; δ for the noise, or half each for the noise and to select private keys."""
        selection = delta / 2 if selects_keys else Fraction(0)
        return allowance_down(epsilon, selection, delta - selection)

    def noise(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> Noise:
        """Laplace with b = D1/ε, or a Gaussian where its smaller deviation is worth its δ.

        The Gaussian is calibrated by its own δ where that is known (`exact_gaussian`), which is
        the analytic Gaussian of Balle and Wang 2018 for discrete noise, and else through zCDP.
        """
        return self._noises(amount, delta, sensitivity)[0]

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity
    ) -> Noise | None:
        """The other of the two, or the better of those not asked for."""
        return next(iter(self._noises(amount, delta, sensitivity)[1:]), None)

    def _noises(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> list[Noise]:
        noises = sorted(
            _noises(amount, delta, sensitivity),
            key=lambda noise: (
                standard_deviation(noise) * (1 + self.delta_worth * noise.delta / amount)
            ),
        )
        if self.mechanism != TEXTBOOK:
            return preferred(noises, self.mechanism)
        _, *others = preferred(noises, TEXTBOOK)
        distance = effective(sensitivity).l2_squared
        variance = textbook_variance(distance, amount, delta)
        return [replace(gaussian(1, 1 / (2 * variance)), delta=delta), *others]

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Basic composition: ε = amount/rounds."""
        return amount / rounds

    def step(self, amount: Fraction) -> Fraction:
        """The amount is ε itself."""
        return amount

    def loss(self, event: Event) -> Loss:
        """Σε and Σδ of the parts."""
        epsilon = sum(map(_epsilon, event.parts), Fraction(0))
        return loss_up(epsilon, sum(map(_delta, event.parts), Fraction(0)))

    def epsilon(self, loss: Loss, delta: Fraction) -> float:
        """The amount itself."""
        return loss.amount / NANO if Fraction(loss.delta, ATTO) <= delta else inf


def _noises(amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> list[Noise]:
    """Laplace, and a Gaussian where there is a δ for it."""
    bounded = effective(sensitivity)
    noises = [laplace(bounded.l1, amount)]
    rho = rho_of(amount * _GUARD, delta)
    if rho:
        gaussian_noise = gaussian(bounded.l2_squared, rho, delta)
        noises.append(calibrated(bounded, amount * _GUARD, gaussian_noise))
    return noises


def _epsilon(part: EventPart) -> Fraction:
    match part:
        case SelectionEvent():
            return Fraction(0)
        case BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds
        case ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds
        case NoiseEvent(noise=noise):
            pass
        case _:
            assert_never(part)
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            return laplace_epsilon(part)
        case Mechanism.DISCRETE_GAUSSIAN:
            bounded = effective(part.sensitivity)
            textbook = epsilon_of(bounded.l2_squared / (2 * noise.scale), noise.delta)
            return epsilon_at(bounded, noise, textbook)
        case _:
            assert_never(noise.mechanism)


def _delta(part: EventPart) -> Fraction:
    match part:
        case SelectionEvent(delta=delta):
            return delta
        case ApproximateEvent(delta=delta, rounds=rounds):
            return rounds * delta
        case BoundedRangeEvent():
            return Fraction(0)
        case NoiseEvent(noise=noise):
            return noise.delta
        case _:
            assert_never(part)
