"""The tight accountant: three filters, of which one has to hold.

Proof (PRIVACY.md R109). Gaussian DP at w·δ, pure ε, and Rényi DP of one order at (1 - w)·δ, where δ
is what selection leaves. Amounts are μ², and the other two stand in the further coordinates of a
loss. The μ of discrete Gaussian noise is more than D2/σ.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, floor, inf, log1p
from typing import Self, assert_never

from dpsql.accountants.base import Allowance, allowance_down, loss_down, loss_up
from dpsql.accountants.conversion import (
    epsilon_of_squared_mu,
    renyi_overhead,
    squared_mu_of,
)
from dpsql.accountants.preference import GAUSSIAN
from dpsql.accountants.pure import laplace_epsilon
from dpsql.mechanisms.calibration import effective, gaussian, root_down
from dpsql.model import vocabulary
from dpsql.model.dataclass import dataclass, replace

NAME = "tight"
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Orders of which a budget has one. Neighbours lose at most 3 % of ρ between two of them."""

_GAUSSIAN_SHARE = Fraction(98, 100)
"""The part w of δ that the Gaussian filter has."""

_HALF_PI = Fraction(355, 226)
"""A bound on π/2 from above."""

_OUTWARD = 1e-11
"""Absolute margin, far above the floating-point error of a divergence or an overhead."""


@dataclass(frozen=True, slots=True)
class Tight:
    """Gaussian DP, pure ε, and Rényi DP of `renyi_order`; a total that fits one of them is within
    its budget.

    The order is in the name, so that a ledger never adds divergences of two orders.
    """

    name: str = NAME
    unit: str = "μ²"
    laws: tuple[str, ...] = (GAUSSIAN,)
    supports_selection: bool = True
    needs_delta: bool = True
    order: int = 1
    vectors_help: bool = False
    renyi_order: int = 32

    @property
    def filters(self) -> tuple[str, ...]:
        """Names of the filters, in the order of their coordinates."""
        return "Gaussian DP", "pure ε", f"Rényi DP of order {self.renyi_order}"

    def preferring(self, budget: vocabulary.Budget, law: str | None, epsilon: Fraction) -> Self:  # noqa: ARG002
        """Return the accountant itself: its noise is Gaussian."""
        return self

    def limit(self, budget: vocabulary.Budget) -> vocabulary.Loss:
        """Return the limits of all filters, and half of δ for selection, as under zCDP."""
        epsilon, delta = Fraction(budget.epsilon), Fraction(budget.delta)
        selection = Fraction(0) if budget.only_public_keys else delta / 2
        gaussian_delta, renyi_delta = _shares(delta - selection)
        whole = loss_down(squared_mu_of(epsilon, gaussian_delta), selection)
        left = 0.0
        if renyi_delta:
            left = float(epsilon) - renyi_overhead(self.renyi_order, renyi_delta) - _OUTWARD
        nano = vocabulary.NANO
        return replace(whole, further=(floor(epsilon * nano), max(0, floor(left * nano))))

    def allowance(self, epsilon: Fraction, delta: Fraction, *, selects_keys: bool) -> Allowance:
        """Return μ² at w·δ; with private keys at w·δ/2, and δ/2 to select them."""
        selection = delta / 2 if selects_keys else Fraction(0)
        squared = squared_mu_of(epsilon, _shares(delta - selection)[0])
        return allowance_down(squared, selection, Fraction(0))

    def noise(
        self,
        amount: Fraction,
        delta: Fraction,  # noqa: ARG002
        sensitivity: vocabulary.Sensitivity,
    ) -> vocabulary.Noise:
        """Return the least discrete Gaussian noise of this μ²."""
        return gaussian(1, _inverse_variance(amount / effective(sensitivity).l2_squared) / 2)

    def runner_up(
        self, amount: Fraction, delta: Fraction, sensitivity: vocabulary.Sensitivity
    ) -> None:
        """Return None: there is one distribution."""

    def choice(self, amount: Fraction, rounds: int) -> Fraction:
        """Return the ε of `rounds` choices with μ² = rounds·πε²/8."""
        return root_down(4 * amount / (rounds * _HALF_PI))

    def step(self, amount: Fraction) -> Fraction:
        """Return the ε with μ² = πε²/2."""
        return root_down(amount / _HALF_PI)

    def loss(self, event: vocabulary.Event) -> vocabulary.Loss:
        """Return the sums of μ², δ, ε and the divergence of the parts, rounded up."""
        each = [(*_coordinates(part), self._divergence(part)) for part in event.parts]
        zero = Fraction(0)
        columns = zip((zero,) * 4, *each, strict=True)
        squared, delta, *further = (sum(column, zero) for column in columns)
        nano = (ceil(coordinate * vocabulary.NANO) for coordinate in further)
        return replace(loss_up(squared, delta), further=tuple(nano))

    def _divergence(self, part: vocabulary.EventPart) -> Fraction:
        """Return the Rényi divergence of a part, rounded up."""
        divergence = renyi_divergence(part, self.renyi_order)
        return Fraction(divergence * (1 + _OUTWARD) + _OUTWARD) if divergence else Fraction(0)

    def most_of(self, amount: int) -> tuple[int, int]:
        """Return the most that a loss of this μ² may be in the further coordinates.

        A divergence is at most α/2 times μ²: equal for noise, and 2/π of that for ε-DP parts. Two
        units are for rounding up.
        """
        return vocabulary.UNBOUNDED, ceil(Fraction(self.renyi_order * amount, 2)) + 2

    def epsilon(self, loss: vocabulary.Loss, delta: Fraction) -> float:
        """Return the least ε at which one of the filters holds with this δ."""
        left = delta - Fraction(loss.delta, vocabulary.ATTO)
        if left < 0:
            return inf
        pure, divergence = (spent / vocabulary.NANO for spent in loss.filters(2))
        if not left:
            return pure if pure < vocabulary.UNBOUNDED / vocabulary.NANO else inf
        gaussian_delta, renyi_delta = _shares(left)
        squared = Fraction(loss.amount, vocabulary.NANO)
        renyi = divergence + renyi_overhead(self.renyi_order, renyi_delta) + _OUTWARD
        return max(0.0, min(pure, renyi, epsilon_of_squared_mu(squared, gaussian_delta)))


def order_of(epsilon: Fraction, delta: Fraction) -> int:
    """Return the order of `ORDERS` at which the Rényi filter of a budget allows the most Gaussian
    noise.

    >>> order_of(Fraction(1), Fraction(1, 10**6)), order_of(Fraction(3), Fraction(1, 10**6))
    (32, 12)
    """
    renyi_delta = _shares(delta / 2)[1]
    if not renyi_delta:
        return Tight().renyi_order
    return max(ORDERS, key=lambda a: (float(epsilon) - renyi_overhead(a, renyi_delta)) / a)


def _shares(delta: Fraction) -> tuple[Fraction, Fraction]:
    """Split what selection leaves of δ between the Gaussian filter and the Rényi filter."""
    return _GAUSSIAN_SHARE * delta, (1 - _GAUSSIAN_SHARE) * delta


def squared_mu(variance: Fraction) -> Fraction:
    """Return a bound from above on μ² of discrete Gaussian noise, for neighbours one step apart.

    μ is 2Φ⁻¹(P(X <= 0)). For σ >= 1 its series ends with a term that bounds the rest.

    >>> round(float(squared_mu(Fraction(1))), 4)  # not 1
    1.0938
    """
    inverse = 1 / variance
    if inverse > 1:
        return 4 * inverse + 2
    return inverse * (1 + inverse / 24 + inverse**2 / 240) ** 2


def _inverse_variance(squared: Fraction) -> Fraction:
    """Return a large 1/σ² at which noise has at most this μ² for a step."""
    if squared >= squared_mu(Fraction(1)):
        return max(Fraction(1), (squared - 2) / 4)
    most = inverse = float(squared)
    for _ in range(_STEPS):  # each takes the error down to less than a tenth
        inverse = most / (1 + inverse / 24 + inverse**2 / 240) ** 2
    return Fraction(inverse) * (1 - _SLACK)


_STEPS, _SLACK = 16, Fraction(1, 1 << 40)


def _coordinates(part: vocabulary.EventPart) -> tuple[Fraction, Fraction, Fraction]:
    """Return μ², δ and ε of a part.

    An ε-DP part has μ² of at most πε²/2, a choice of ε-bounded range πε²/8. Gaussian noise is ε-DP
    for no ε.
    """
    match part:
        case vocabulary.SelectionEvent(delta=delta):
            return Fraction(0), delta, Fraction(0)
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return rounds * _HALF_PI * epsilon**2 / 4, Fraction(0), rounds * epsilon
        case vocabulary.ApproximateEvent(epsilon=epsilon, delta=delta, rounds=rounds):
            return rounds * _HALF_PI * epsilon**2, rounds * delta, rounds * epsilon
        case vocabulary.NoiseEvent(noise=noise, sensitivity=sensitivity):
            pass
        case _:
            assert_never(part)
    match noise.mechanism:
        case vocabulary.Mechanism.DISCRETE_GAUSSIAN:
            squared = effective(sensitivity).l2_squared * squared_mu(noise.scale)
            return squared, Fraction(0), Fraction(vocabulary.UNBOUNDED, vocabulary.NANO)
        case vocabulary.Mechanism.DISCRETE_LAPLACE:
            epsilon = laplace_epsilon(part)
            return _HALF_PI * epsilon**2, Fraction(0), epsilon
        case _:
            assert_never(noise.mechanism)


def renyi_divergence(part: vocabulary.EventPart, order: float) -> float:
    """Return the Rényi divergence of a part at one order.

    For a Gaussian it is αρ. For an ε-DP part it is that of randomised response at ε, the largest
    possible.
    """
    match part:
        case vocabulary.SelectionEvent():
            return 0.0
        case vocabulary.ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return rounds * _response(float(epsilon), order)
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return rounds * min(order * float(epsilon) ** 2 / 8, _response(float(epsilon), order))
        case vocabulary.NoiseEvent(noise=noise, sensitivity=sensitivity):
            if noise.mechanism is vocabulary.Mechanism.DISCRETE_GAUSSIAN:
                return order * float(effective(sensitivity).l2_squared / (2 * noise.scale))
            return _response(float(laplace_epsilon(part)), order)
        case _:
            assert_never(part)


def _response(epsilon: float, order: float) -> float:
    """Return the Rényi divergence of randomised response.

    It is ln(p^α·q^(1-α) + q^α·p^(1-α))/(α - 1), where p = e^ε·q and p + q = 1. It is computed in
    logarithms, which do not overflow.
    """
    if not epsilon:
        return 0.0
    log_q = -log1p(exp(epsilon))
    log_p = epsilon + log_q
    larger = order * log_p + (1 - order) * log_q
    smaller = order * log_q + (1 - order) * log_p
    return (larger + log1p(exp(smaller - larger))) / (order - 1)
