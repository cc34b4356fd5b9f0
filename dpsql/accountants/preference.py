"""Noise by name: an analyst may ask for a mechanism and is charged its actual privacy loss.

The textbook Gaussian, σ = D2·sqrt(2·ln(1.25/δ))/ε (Dwork and Roth 2014, Theorem A.1), is proved for
ε < 1 and wrong above. It adds more noise than it needs, so its charge is less than its ε. The
charge is the actual loss: PRIVACY.md R61.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import log

from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Mechanism, Noise

LAPLACE, GAUSSIAN, TEXTBOOK = "laplace", "gaussian", "gaussian-textbook"

SPARSE_VECTOR = "sparse-vector"
"""A way to choose extremes under every accountant. It is no noise distribution."""

WRONG_ABOVE = "the textbook's σ is wrong from ε = 1 on"

_LAWS = {
    LAPLACE: Mechanism.DISCRETE_LAPLACE,
    GAUSSIAN: Mechanism.DISCRETE_GAUSSIAN,
    TEXTBOOK: Mechanism.DISCRETE_GAUSSIAN,
}


def preferred(noises: Sequence[Noise], name: str | None) -> list[Noise]:
    """Sort noises, given best first, so that those of the named mechanism come before the others.

    Raises `Refused` if no noise of this mechanism is among them.
    """
    if name is None:
        return list(noises)
    law = _LAWS[name]
    if all(noise.mechanism is not law for noise in noises):
        raise bad_mechanism("it needs a larger ε or a δ")
    return sorted(noises, key=lambda noise: noise.mechanism is not law)


def textbook_variance(distance_squared: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return σ² = 2·ln(1.25/δ)·D2²/ε². Raises ValueError unless ε < 1.

    >>> round(float(textbook_variance(1, Fraction(1, 2), Fraction(1, 10**6))))
    112
    """
    if epsilon >= 1:
        raise ValueError(WRONG_ABOVE)
    return Fraction(2 * log(1.25 / delta)) * distance_squared / epsilon**2


def bad_mechanism(why: str) -> Refused:
    """Return the refusal of a mechanism that was asked for by name."""
    return Refused(Reason.BAD_OPTION, option="mechanism", why=why)
