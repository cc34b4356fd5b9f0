"""An accountant as somebody else would write one: (ε, δ) by basic composition, Laplace noise alone.

Nothing in `dpsql/` knows of it: a policy names it, and an entry point says where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Self, assert_never

from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.preference import LAPLACE
from dpsql.mechanisms.calibration import effective, laplace
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


@dataclass(frozen=True, slots=True)
class Basic:
    """ε and δ add up; δ is for selecting private keys, and noise is Laplace's."""

    name: str = "basic"
    unit: str = "ε"
    laws: tuple[str, ...] = (LAPLACE,)
    supports_selection: bool = True
    needs_delta: bool = False
    order: int = 2
    vectors_help: bool = True

    def preferring(self, budget: Budget, law: str | None, epsilon: Fraction) -> Self:  # noqa: ARG002
        return self

    def limit(self, budget: Budget) -> Loss:
        return loss_down(Fraction(budget.epsilon), Fraction(budget.delta))

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        return allowance_down(epsilon, delta if selects_keys else Fraction(0), Fraction(0))

    def noise(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> Noise:  # noqa: ARG002
        return laplace(effective(sensitivity).l1, amount)

    def runner_up(self, amount: Fraction, delta: Fraction, sensitivity: Sensitivity) -> None:
        """It has one law."""

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        return amount / rounds

    def step(self, amount: Fraction) -> Fraction:
        return amount

    def loss(self, event: Event) -> Loss:
        epsilons, deltas = zip(*map(_loss, event.parts), strict=True) if event.parts else ((), ())
        return loss_up(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))

    def epsilon(self, loss: Loss, delta: Fraction) -> float:
        return loss.amount / NANO if Fraction(loss.delta, ATTO) <= delta else inf


def _loss(part: EventPart) -> tuple[Fraction, Fraction]:
    match part:
        case SelectionEvent(delta=delta):
            return Fraction(0), delta
        case BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return epsilon * rounds, Fraction(0)
        case ApproximateEvent(epsilon=epsilon, delta=delta, rounds=rounds):
            return epsilon * rounds, delta * rounds
        case NoiseEvent(noise=Noise(mechanism=Mechanism.DISCRETE_LAPLACE, scale=scale)):
            return effective(part.sensitivity).l1 / scale, Fraction(0)
        case NoiseEvent():
            raise ValueError("this accountant charges for Laplace noise alone")
        case _:
            assert_never(part)


BASIC = Basic()
