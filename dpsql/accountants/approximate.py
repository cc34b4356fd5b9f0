"""The approximate accountant: ε and δ each add up (basic composition).

Proof (PRIVACY.md R60, R61). Basic composition. A Gaussian costs its own δ and the least ε at which
it is (ε, δ)-DP, by its own distribution (`exact_gaussian`) or through zCDP. Which distribution is
used matters for accuracy alone: each is charged its own loss.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Self, assert_never

from dpsql.accountants import preference
from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.conversion import epsilon_of, rho_of
from dpsql.accountants.exact_gaussian import calibrated, epsilon_at
from dpsql.accountants.pure import laplace_epsilon
from dpsql.mechanisms.calibration import effective, gaussian, laplace
from dpsql.mechanisms.error import standard_deviation
from dpsql.model import vocabulary
from dpsql.model.dataclass import dataclass, replace

_GUARD = 1 - Fraction(1, 1 << 28)
"""A factor just below 1. Calibrating to slightly less than ε leaves room to round the charge
outward.
"""


@dataclass(frozen=True, slots=True)
class Approximate:
    """(ε, δ)-DP with Laplace or Gaussian noise: the better one, or the one that is asked for by
    name.

    `delta_worth` is the ε that a δ of 1 is worth. It is 0 where δ costs nothing, and otherwise the
    budget's ε/δ. Gaussian noise is worth its δ where its error is smaller than that of Laplace
    noise with that much more ε. Then it takes a smaller share of the budget for the same error.
    """

    name: str = "approximate"
    unit: str = "ε"
    laws: tuple[str, ...] = (preference.LAPLACE, preference.GAUSSIAN, preference.TEXTBOOK)
    supports_selection: bool = True
    needs_delta: bool = False
    order: int = 2
    vectors_help: bool = True
    mechanism: str | None = None
    delta_worth: Fraction = Fraction(0)

    def preferring(self, budget: vocabulary.Budget, law: str | None, epsilon: Fraction) -> Self:
        """Return this accountant with the mechanism set to `law` and δ priced for this budget.

        Raises `Refused` for the textbook Gaussian with ε ≥ 1.
        """
        if law == preference.TEXTBOOK and epsilon >= 1:
            raise preference.bad_mechanism(preference.WRONG_ABOVE)
        worth = Fraction(budget.epsilon) / Fraction(budget.delta) if budget.delta else Fraction(0)
        return replace(self, mechanism=law, delta_worth=worth)

    def limit(self, budget: vocabulary.Budget) -> vocabulary.Loss:
        """Return the budget's ε and δ in ledger units, rounded down."""
        return loss_down(Fraction(budget.epsilon), Fraction(budget.delta))

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """Return ε, and δ for the noise; where keys are selected, half of δ each for noise and
        selection.
        """
        selection = delta / 2 if selects_keys else Fraction(0)
        return allowance_down(epsilon, selection, delta - selection)

    def noise(
        self, amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> vocabulary.Noise:
        """Return Laplace noise with b = D1/ε, or Gaussian noise where its smaller deviation is
        worth its δ.

        The Gaussian is calibrated by its exact δ where that is known (`exact_gaussian`), which is
        the analytic Gaussian of Balle and Wang 2018 for discrete noise. Elsewhere it is calibrated
        through zCDP.
        """
        return self._noises(amount, delta, sensitivity)[0]

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> vocabulary.Noise | None:
        """Return the second-best noise of the same loss, or None."""
        return next(iter(self._noises(amount, delta, sensitivity)[1:]), None)

    def _noises(
        self, amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> list[vocabulary.Noise]:
        noises = sorted(
            _noises(amount, delta, sensitivity),
            key=lambda noise: (
                standard_deviation(noise) * (1 + self.delta_worth * noise.delta / amount)
            ),
        )
        if self.mechanism != preference.TEXTBOOK:
            return preference.preferred(noises, self.mechanism)
        _, *others = preference.preferred(noises, preference.TEXTBOOK)
        distance = effective(sensitivity).l2_squared
        variance = preference.textbook_variance(distance, amount, delta)
        return [replace(gaussian(1, 1 / (2 * variance)), delta=delta), *others]

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Return ε = amount/rounds (basic composition)."""
        return amount / rounds

    def step(self, amount: Fraction) -> Fraction:
        """Return the amount, which is ε itself."""
        return amount

    def loss(self, event: vocabulary.Event) -> vocabulary.Loss:
        """Return Σε and Σδ of the parts, rounded up."""
        epsilon = sum(map(_epsilon, event.parts), Fraction(0))
        return loss_up(epsilon, sum(map(_delta, event.parts), Fraction(0)))

    def epsilon(self, loss: vocabulary.Loss, delta: Fraction) -> float:
        """Return the amount if its δ fits, else infinity."""
        return (
            loss.amount / vocabulary.NANO if Fraction(loss.delta, vocabulary.ATTO) <= delta else inf
        )


def _noises(
    amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
) -> list[vocabulary.Noise]:
    """List Laplace noise, and Gaussian noise where δ > 0."""
    bounded = effective(sensitivity)
    noises = [laplace(bounded.l1, amount)]
    rho = rho_of(amount * _GUARD, delta)
    if rho:
        gaussian_noise = gaussian(bounded.l2_squared, rho, delta)
        noises.append(calibrated(bounded, amount * _GUARD, gaussian_noise))
    return noises


def _epsilon(part: vocabulary.EventPart) -> Fraction:
    match part:
        case vocabulary.SelectionEvent():
            return Fraction(0)
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds
        case vocabulary.ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds
        case vocabulary.NoiseEvent(noise=noise):
            pass
        case _:
            assert_never(part)
    match noise.mechanism:
        case vocabulary.Mechanism.DISCRETE_LAPLACE:
            return laplace_epsilon(part)
        case vocabulary.Mechanism.DISCRETE_GAUSSIAN:
            bounded = effective(part.sensitivity)
            textbook = epsilon_of(bounded.l2_squared / (2 * noise.scale), noise.delta)
            return epsilon_at(bounded, noise, textbook)
        case _:
            assert_never(noise.mechanism)


def _delta(part: vocabulary.EventPart) -> Fraction:
    match part:
        case vocabulary.SelectionEvent(delta=delta):
            return delta
        case vocabulary.ApproximateEvent(delta=delta, rounds=rounds):
            return rounds * delta
        case vocabulary.BoundedRangeEvent():
            return Fraction(0)
        case vocabulary.NoiseEvent(noise=noise):
            return noise.delta
        case _:
            assert_never(part)
