"""Reports of the total ε of k queries by basic, advanced, Rényi, zCDP and PLD composition of their
events.

These are reports, not filters: advanced composition and Rényi DP hold for parameters that are fixed
before the first answer. Each number is an ε such that all the events together are (ε, δ)-DP.

Sources: PRIVACY.md R65.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import fsum, inf, log, sqrt, tanh
from typing import TypeGuard, assert_never

from dpsql.accountants.conversion import epsilon_of, renyi_overhead
from dpsql.accountants.pure import laplace_epsilon
from dpsql.accountants.tight import renyi_divergence
from dpsql.accountants.zcdp import Zcdp
from dpsql.mechanisms.calibration import effective
from dpsql.model import vocabulary
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra

_OUTWARD = 1 + 2.0**-30
"""Relative margin, far above the floating-point error of the expressions below."""
_COARSEST, _FINEST = 1e-3, 1e-6
"""Coarsest and finest step to which privacy losses are rounded up."""


@dataclass(frozen=True, slots=True)
class Composition:
    """Total ε of the same events by four rules of composition; infinity where a rule cannot reach
    δ.
    """

    basic: float
    advanced: float
    renyi: float
    zcdp: float


ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)
"""Orders of the Rényi divergence, fixed in advance. A bound holds at each, so the best one holds.
"""


def composition(events: Sequence[vocabulary.Event], delta: Fraction, *orders: float) -> Composition:
    """Return all reports except PLD. Rényi uses the best of these orders, all above 1.

    >>> from dataclasses import astuple
    >>> queries = [vocabulary.Event((vocabulary.ApproximateEvent(Fraction(1, 100)),))] * 400
    >>> [round(e, 3) for e in astuple(composition(queries, Fraction(1, 10**6), 20))]
    [4.0, 1.071, 0.916, 0.9]
    """
    return Composition(
        basic(events, delta),
        advanced(events, delta),
        min(renyi(events, delta, order) for order in orders),
        zcdp(events, delta),
    )


def zcdp(events: Sequence[vocabulary.Event], delta: Fraction) -> float:
    """Return the ε of Σρ, converted at δ: the charge of a zCDP budget."""
    parts = _parts(events)
    loss = Zcdp().loss(vocabulary.Event(tuple(parts.elements())))
    return Zcdp().epsilon(loss, delta)


def pld(events: Sequence[vocabulary.Event], delta: Fraction) -> float:
    """Return ε by composing privacy loss distributions, each the worst of its kind.

    Gaussians are combined into one continuous Gaussian by the squares of their distances. The worst
    (ε, δ)-DP mechanism is randomised response at ε that fails with probability δ. Distributions are
    rounded outwards, to steps of a hundredth of the least ε. Raises MissingExtra.
    """
    require_pld()
    from dp_accounting.pld import common  # noqa: PLC0415
    from dp_accounting.pld import privacy_loss_distribution as distribution  # noqa: PLC0415

    parts, own = _parts(events), _spent(_parts(events))
    if delta <= own:
        return inf
    epsilons = Counter[float]()
    for part, count in parts.items():
        if not _gaussian(part):
            for epsilon in _steps(part, Fraction(0)):
                epsilons[epsilon] += count
    step = min([_COARSEST, *(max(_FINEST, epsilon / 100) for epsilon in epsilons)])
    rho = sum((_rho(part) * count for part, count in parts.items() if _gaussian(part)), Fraction(0))
    composed = [
        distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=step
        ).self_compose(count)
        for epsilon, count in epsilons.items()
    ]
    if rho:
        composed.append(
            distribution.from_gaussian_mechanism(
                1 / sqrt(2 * rho), value_discretization_interval=step
            )
        )
    if not composed:
        return 0.0
    whole = composed[0]
    for other in composed[1:]:
        whole = whole.compose(other)
    return float(whole.get_epsilon_for_delta(float(delta - own))) * _OUTWARD


def require_pld() -> None:
    """Raise MissingExtra unless the library for privacy loss distributions is installed."""
    try:
        import dp_accounting.pld  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra("PLD needs the extra: pip install 'dpsql[accounting]'.") from None


def basic(events: Sequence[vocabulary.Event], delta: Fraction) -> float:
    """Return Σε. Gaussians share the δ that the events do not spend by themselves."""
    parts = _parts(events)
    left = delta - _spent(parts)
    if left < 0:
        return inf
    return fsum(e * count for e, count in _epsilons(parts, left)) * _OUTWARD


def advanced(events: Sequence[vocabulary.Event], delta: Fraction) -> float:
    """Return min(Σε, Σε·tanh(ε/2) + √(2·ln(1/δ')·Σε²)); δ' is at least half of the unspent δ.

    Kairouz, Oh and Viswanath 2015, Theorem 3.5, with (e^ε - 1)/(e^ε + 1) = tanh(ε/2).
    """
    parts = _parts(events)
    left = delta - _spent(parts)
    if left <= 0:
        return basic(events, delta)
    slack = left / 2 if any(map(_gaussian, parts)) else left
    each = _epsilons(parts, left - slack)
    drift = fsum(count * e * tanh(e / 2) for e, count in each)
    total = drift + sqrt(-2 * log(slack) * fsum(count * e * e for e, count in each))
    return min(total * _OUTWARD, basic(events, delta))


def renyi(events: Sequence[vocabulary.Event], delta: Fraction, order: float) -> float:
    """Return the sum of the Rényi divergences at one order, converted to the ε at δ.

    Mironov 2017 adds them; Canonne, Kamath and Steinke 2020, Proposition 12, converts. Raises
    ValueError unless the order is above 1.
    """
    if order <= 1:
        raise ValueError("the order of a Rényi divergence is above 1")
    parts = _parts(events)
    left = delta - _spent(parts)
    if left <= 0:
        return inf
    total = fsum(count * renyi_divergence(part, order) for part, count in parts.items())
    return max(0.0, total + renyi_overhead(order, left)) * _OUTWARD


def _parts(events: Sequence[vocabulary.Event]) -> Counter[vocabulary.EventPart]:
    """Count each distinct part of all events."""
    counts = Counter[vocabulary.EventPart]()
    for event, count in Counter(events).items():
        for part in event.parts:
            counts[part] += count
    return counts


def _gaussian(part: vocabulary.EventPart) -> TypeGuard[vocabulary.NoiseEvent]:
    return (
        isinstance(part, vocabulary.NoiseEvent)
        and part.noise.mechanism is vocabulary.Mechanism.DISCRETE_GAUSSIAN
    )


def _spent(parts: Counter[vocabulary.EventPart]) -> Fraction:
    """Return Σδ of selections and of (ε, δ)-DP steps, which every rule of composition pays."""
    return sum((_own_delta(part) * count for part, count in parts.items()), Fraction(0))


def _own_delta(part: vocabulary.EventPart) -> Fraction:
    match part:
        case vocabulary.SelectionEvent(delta=delta):
            return delta
        case vocabulary.ApproximateEvent(delta=delta, rounds=rounds):
            return delta * rounds
        case vocabulary.BoundedRangeEvent() | vocabulary.NoiseEvent():
            return Fraction(0)
        case _:
            assert_never(part)


def _epsilons(parts: Counter[vocabulary.EventPart], delta: Fraction) -> list[tuple[float, int]]:
    """List the ε of each step and its count. Gaussians share `delta` equally; without δ their ε is
    infinite.
    """
    gaussians = sum(count for part, count in parts.items() if _gaussian(part))
    share = delta / gaussians if gaussians else Fraction(0)
    return [(epsilon, count) for part, count in parts.items() for epsilon in _steps(part, share)]


def _steps(part: vocabulary.EventPart, delta: Fraction) -> list[float]:
    match part:
        case vocabulary.SelectionEvent():
            return []
        case vocabulary.ApproximateEvent(epsilon=epsilon, rounds=rounds):
            return [float(epsilon)] * rounds
        case vocabulary.BoundedRangeEvent(epsilon=epsilon, rounds=rounds):
            return [float(epsilon)] * rounds
        case vocabulary.NoiseEvent():
            if not _gaussian(part):
                return [float(laplace_epsilon(part))]
            return [float(epsilon_of(_rho(part), delta)) if delta else inf]
        case _:
            assert_never(part)


def _rho(part: vocabulary.NoiseEvent) -> Fraction:
    return effective(part.sensitivity).l2_squared / (2 * part.noise.scale)
