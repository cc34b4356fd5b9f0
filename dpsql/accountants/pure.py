"""The pure accountant: amounts are ε, there is no δ.

Proof (PRIVACY.md R59). Basic composition; a choice of ε-bounded range is ε-DP, and any part that is
not ε-DP raises an error.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Self, assert_never

from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.preference import LAPLACE
from dpsql.mechanisms.calibration import effective, laplace
from dpsql.model import vocabulary
from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure ε-DP: ε adds up; private keys cannot be selected."""

    name: str = "pure"
    unit: str = "ε"
    laws: tuple[str, ...] = (LAPLACE,)
    supports_selection: bool = False
    needs_delta: bool = False
    order: int = 2
    vectors_help: bool = True

    def preferring(self, budget: vocabulary.Budget, law: str | None, epsilon: Fraction) -> Self:  # noqa: ARG002
        """Return the accountant itself: it has one distribution."""
        return self

    def limit(self, budget: vocabulary.Budget) -> vocabulary.Loss:
        """Return the budget's ε; a δ of the budget is not used."""
        return loss_down(Fraction(budget.epsilon), Fraction(0))

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:  # noqa: ARG002
        """Return ε; raises ValueError for private keys."""
        if selects_keys:
            raise ValueError("the pure accountant cannot select private keys")
        return allowance_down(epsilon, Fraction(0), Fraction(0))

    def noise(
        self,
        amount: Fraction,
        delta: Fraction,  # noqa: ARG002
        sensitivity: vocabulary.Sensitivity,
    ) -> vocabulary.Noise:
        """Return discrete Laplace noise with b = D1/ε."""
        return laplace(effective(sensitivity).l1, amount)

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> None:
        """Return None: Gaussian noise is not ε-DP."""

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Return ε = amount/rounds (basic composition)."""
        return amount / rounds

    def step(self, amount: Fraction) -> Fraction:
        """Return the amount, which is ε itself."""
        return amount

    def loss(self, event: vocabulary.Event) -> vocabulary.Loss:
        """Return Σε of the parts; raises ValueError for a part that is not ε-DP."""
        return loss_up(sum(map(_epsilon, event.parts), Fraction(0)), Fraction(0))

    def epsilon(self, loss: vocabulary.Loss, delta: Fraction) -> float:  # noqa: ARG002
        """Return the amount itself, at every δ."""
        return loss.amount / vocabulary.NANO


def laplace_epsilon(part: vocabulary.NoiseEvent) -> Fraction:
    """Return the ε of Laplace noise: D1/b."""
    return effective(part.sensitivity).l1 / part.noise.scale


def _epsilon(part: vocabulary.EventPart) -> Fraction:
    match part:
        case vocabulary.SelectionEvent():
            raise ValueError("the selection of private keys is not ε-DP")
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds
        case vocabulary.ApproximateEvent(epsilon=epsilon, delta=delta, rounds=rounds):
            if delta:
                raise ValueError("a step that needs a δ is not ε-DP")
            return epsilon * rounds
        case vocabulary.NoiseEvent(noise=noise):
            pass
        case _:
            assert_never(part)
    match noise.mechanism:
        case vocabulary.Mechanism.DISCRETE_LAPLACE:
            return laplace_epsilon(part)
        case vocabulary.Mechanism.DISCRETE_GAUSSIAN:
            raise ValueError("Gaussian noise is not ε-DP")
        case _:
            assert_never(noise.mechanism)
