"""What k queries cost together by basic, advanced, Rényi and zCDP composition, from their events.

Reports, not filters: advanced composition and Rényi DP hold for parameters that are fixed before
the first answer. Each number is an ε such that all the events together are (ε, δ)-DP.

Sources: PRIVACY.md R65.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, fsum, inf, log, log1p, sqrt, tanh
from typing import assert_never

from dpsql.accountants.conversion import epsilon_of
from dpsql.accountants.pure import laplace_epsilon
from dpsql.accountants.zcdp import Zcdp
from dpsql.mechanisms.calibration import effective
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    EventPart,
    Mechanism,
    NoiseEvent,
    SelectionEvent,
)

_OUTWARD = 1 + 2.0**-30
"""Far more than the float error of the expressions below."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The same events, added up in four ways; `inf` where a way cannot reach the δ."""

    basic: float
    advanced: float
    renyi: float
    zcdp: float


def composition(events: Sequence[Event], delta: Fraction, order: float) -> Composition:
    """Every report at once; `order` > 1 is that of the Rényi divergence, fixed beforehand.

    >>> from dataclasses import astuple
    >>> from dpsql.model.vocabulary import ApproximateEvent
    >>> queries = [Event((ApproximateEvent(Fraction(1, 100)),))] * 400
    >>> [round(e, 3) for e in astuple(composition(queries, Fraction(1, 10**6), 20))]
    [4.0, 1.071, 0.916, 0.9]
    """
    return Composition(
        basic(events, delta),
        advanced(events, delta),
        renyi(events, delta, order),
        Zcdp().epsilon(Zcdp().loss(Event(_parts(events))), delta),
    )


def basic(events: Sequence[Event], delta: Fraction) -> float:
    """Σε: what δ the events do not spend by themselves is shared by their Gaussians."""
    parts = _parts(events)
    left = delta - _spent(parts)
    if left < 0:
        return inf
    return fsum(_epsilons(parts, left)) * _OUTWARD


def advanced(events: Sequence[Event], delta: Fraction) -> float:
    """min(Σε, Σε·tanh(ε/2) + √(2·ln(1/δ')·Σε²)) with half of the δ that is left for δ'.

    Kairouz, Oh and Viswanath 2015, Theorem 3.5, with (e^ε - 1)/(e^ε + 1) = tanh(ε/2).
    """
    parts = _parts(events)
    left = delta - _spent(parts)
    if left <= 0:
        return basic(events, delta)
    slack = left / 2 if any(map(_gaussian, parts)) else left
    each = _epsilons(parts, left - slack)
    drift = fsum(e * tanh(e / 2) for e in each)
    total = drift + sqrt(-2 * log(slack) * fsum(e * e for e in each))
    return min(total * _OUTWARD, basic(events, delta))


def renyi(events: Sequence[Event], delta: Fraction, order: float) -> float:
    """Σ of the divergences at one order, converted to (ε, δ).

    Mironov 2017 adds them; Canonne, Kamath and Steinke 2020, Proposition 12, converts.
    Raises ValueError unless the order is above 1.
    """
    if order <= 1:
        raise ValueError("the order of a Rényi divergence is above 1")
    parts = _parts(events)
    left = delta - _spent(parts)
    if left <= 0:
        return inf
    total = fsum(_divergence(part, order) for part in parts)
    overhead = log1p(-1 / order) - (log(left) + log(order)) / (order - 1)
    return max(0.0, total + overhead) * _OUTWARD


def _parts(events: Sequence[Event]) -> tuple[EventPart, ...]:
    return tuple(part for event in events for part in event.parts)


def _gaussian(part: EventPart) -> bool:
    return isinstance(part, NoiseEvent) and part.noise.mechanism is Mechanism.DISCRETE_GAUSSIAN


def _spent(parts: Sequence[EventPart]) -> Fraction:
    """The δ of selections and of (ε, δ)-DP steps: every way of adding up pays it."""
    return sum(map(_own_delta, parts), Fraction(0))


def _own_delta(part: EventPart) -> Fraction:
    match part:
        case SelectionEvent(delta=delta):
            return delta
        case ApproximateEvent(delta=delta, rounds=rounds):
            return delta * rounds
        case BoundedRangeEvent() | NoiseEvent():
            return Fraction(0)
        case _:
            assert_never(part)


def _epsilons(parts: Sequence[EventPart], delta: Fraction) -> list[float]:
    """The ε of every step; Gaussians share `delta` equally, and have none without it."""
    gaussians = sum(map(_gaussian, parts))
    share = delta / gaussians if gaussians else Fraction(0)
    return [epsilon for part in parts for epsilon in _steps(part, share)]


def _steps(part: EventPart, delta: Fraction) -> list[float]:
    match part:
        case SelectionEvent():
            return []
        case ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return [float(epsilon)] * rounds
        case BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return [float(epsilon)] * rounds
        case NoiseEvent():
            if not _gaussian(part):
                return [float(laplace_epsilon(part))]
            return [float(epsilon_of(_rho(part), delta)) if delta else inf]
        case _:
            assert_never(part)


def _divergence(part: EventPart, order: float) -> float:
    """Of a Gaussian αρ; of anything that is ε-DP what randomised response at ε has, the most."""
    match part:
        case SelectionEvent():
            return 0.0
        case ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return rounds * _response(float(epsilon), order)
        case BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return rounds * min(order * float(epsilon) ** 2 / 8, _response(float(epsilon), order))
        case NoiseEvent():
            if _gaussian(part):
                return order * float(_rho(part))
            return _response(float(laplace_epsilon(part)), order)
        case _:
            assert_never(part)


def _rho(part: NoiseEvent) -> Fraction:
    return effective(part.sensitivity).l2_squared / (2 * part.noise.scale)


def _response(epsilon: float, order: float) -> float:
    """The Rényi divergence of randomised response: ln(p^α·q^(1-α) + q^α·p^(1-α))/(α - 1),

    where p = e^ε·q and p + q = 1; in logarithms, which do not overflow.
    """
    log_q = -log1p(exp(epsilon))
    log_p = epsilon + log_q
    larger = order * log_p + (1 - order) * log_q
    smaller = order * log_q + (1 - order) * log_p
    return (larger + log1p(exp(smaller - larger))) / (order - 1)
