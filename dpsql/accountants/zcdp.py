"""The zCDP accountant: amounts are ρ (Bun and Steinke 2016), selection adds its δ.

Proof (PRIVACY.md R57). Bun and Steinke 2016: ρ of Gaussian noise, ε²/2 of an ε-DP part,
δ-approximate zCDP in which both add up; ε²/8 of ε-bounded range (Cesar and Rogers 2021). Conversion
and selection share δ, so that both together keep it.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Self, assert_never

from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.conversion import epsilon_of, rho_of
from dpsql.accountants.preference import GAUSSIAN, LAPLACE, preferred
from dpsql.mechanisms.calibration import effective, gaussian, laplace, root_down
from dpsql.model import vocabulary
from dpsql.model.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Zcdp:
    """Approximate zCDP: ρ and δ each add up (Whitehouse et al. 2023)."""

    name: str = "zcdp"
    unit: str = "ρ"
    laws: tuple[str, ...] = (LAPLACE, GAUSSIAN)
    supports_selection: bool = True
    needs_delta: bool = True
    order: int = 1
    vectors_help: bool = False
    mechanism: str | None = None

    def preferring(self, budget: vocabulary.Budget, law: str | None, epsilon: Fraction) -> Self:  # noqa: ARG002
        """Return this accountant with the noise mechanism set to `law`."""
        return replace(self, mechanism=law)

    def limit(self, budget: vocabulary.Budget) -> vocabulary.Loss:
        """Return ρ from (ε, δ/2), and δ/2 for selection.

        The filter promises δs-approximate ρ-zCDP, which is (ε, δs + δc)-DP with δc the δ of the
        conversion. Both come out of the budget's δ, half each: converting at the whole δ and
        selecting with the whole δ would promise (ε, 2δ) only. Where the owner declares that all
        keys are public, the conversion gets the whole δ and selection gets none.
        """
        delta = Fraction(budget.delta)
        selection = Fraction(0) if budget.only_public_keys else delta / 2
        return loss_down(rho_of(Fraction(budget.epsilon), delta - selection), selection)

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """Return ρ from (ε, δ); with private keys ρ from (ε, δ/2), and δ/2 to select them."""
        selection = delta / 2 if selects_keys else Fraction(0)
        rho = rho_of(epsilon, delta - selection)
        return allowance_down(rho, selection, Fraction(0))

    def noise(
        self,
        amount: Fraction,
        delta: Fraction,  # noqa: ARG002
        sensitivity: vocabulary.Sensitivity,
    ) -> vocabulary.Noise:
        """Return discrete Gaussian noise with σ² = D2²/(2ρ).

        Canonne, Kamath, Steinke 2020, Theorem 4.
        """
        return self._noises(amount, sensitivity)[0]

    def runner_up(
        self,
        amount: Fraction,
        delta: Fraction,  # noqa: ARG002
        sensitivity: vocabulary.Sensitivity,
    ) -> vocabulary.Noise | None:
        """Return the second-best noise, or None: by default Laplace with ε²/2 = ρ, at least twice
        the variance.
        """
        return next(iter(self._noises(amount, sensitivity)[1:]), None)

    def _noises(
        self, amount: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> list[vocabulary.Noise]:
        bounded, epsilon = effective(sensitivity), self.step(amount)
        laplaces = [laplace(bounded.l1, epsilon)] if epsilon else []
        return preferred([gaussian(bounded.l2_squared, amount), *laplaces], self.mechanism)

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Return the ε of `rounds` choices with ρ = rounds·ε²/8."""
        return root_down(8 * amount / rounds)

    def step(self, amount: Fraction) -> Fraction:
        """Return the ε with ρ = ε²/2."""
        return root_down(2 * amount)

    def loss(self, event: vocabulary.Event) -> vocabulary.Loss:
        """Return Σρ and Σδ of the parts, rounded up."""
        delta = sum(map(_delta, event.parts), Fraction(0))
        return loss_up(sum(map(_rho, event.parts), Fraction(0)), delta)

    def epsilon(self, loss: vocabulary.Loss, delta: Fraction) -> float:
        """Convert ρ to ε at the δ that selection has left; infinity if none is left."""
        left = delta - Fraction(loss.delta, vocabulary.ATTO)
        return inf if left <= 0 else float(epsilon_of(Fraction(loss.amount, vocabulary.NANO), left))


def _delta(part: vocabulary.EventPart) -> Fraction:
    match part:
        case vocabulary.SelectionEvent(delta=delta):
            return delta
        case vocabulary.ApproximateEvent(delta=delta, rounds=rounds):
            return rounds * delta
        case vocabulary.NoiseEvent() | vocabulary.BoundedRangeEvent():
            return Fraction(0)
        case _:
            assert_never(part)


def _rho(part: vocabulary.EventPart) -> Fraction:
    """Return the ρ of a part.

    Gaussian: D2²/(2σ²). Laplace is ε-DP with ε = D1/b: ε²/2. Selection: none. A choice with
    ε-bounded range: ε²/8. Any (ε, δ)-DP step: ε²/2 and its δ (Bun and Steinke 2016, section 8:
    δ-approximate zCDP, in which both add up).
    """
    match part:
        case vocabulary.SelectionEvent():
            return Fraction(0)
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return rounds * epsilon**2 / 8
        case vocabulary.ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return rounds * epsilon**2 / 2
        case vocabulary.NoiseEvent(noise=noise):
            sensitivity = effective(part.sensitivity)
        case _:
            assert_never(part)
    match noise.mechanism:
        case vocabulary.Mechanism.DISCRETE_GAUSSIAN:
            return sensitivity.l2_squared / (2 * noise.scale)
        case vocabulary.Mechanism.DISCRETE_LAPLACE:
            return (sensitivity.l1 / noise.scale) ** 2 / 2
        case _:
            assert_never(noise.mechanism)
