"""exp(-γ) in integers: enclosed on both sides, and compared with uniform numbers exactly."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, sqrt
from statistics import NormalDist

import numpy as np
import pytest

from dpsql.mechanisms import exponential
from dpsql.mechanisms.exponential import Bounds, Candidates, is_below
from grammar_tests.draws import ENTROPY
from grammar_tests.test_exponential import REJECTED, exponential_law, misfit

RATES = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(12345, 1 << 20),
    Fraction(7, 1 << 45),
    Fraction(2**70 + 1, 2**71),
]


def power(exponent: Fraction, bits: int) -> Decimal:
    """2**bits·exp(-exponent) to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        quotient = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        return Decimal((-quotient).exp() * 2**bits)


@pytest.mark.parametrize("bits", [20, 46, 62])
@pytest.mark.parametrize("rate", RATES)
def test_the_bounds_are_on_both_sides_and_near(rate: Fraction, bits: int) -> None:
    most = int(70 / rate)
    steps = np.unique(np.array([0, 1, 2, *(most * n // 500 for n in range(501))], dtype=np.int64))
    bounds = Bounds.of(steps, rate, bits)
    for step, low, high in zip(steps, bounds.lower.tolist(), bounds.upper.tolist(), strict=True):
        value = power(rate * int(step), bits)
        assert low <= value <= high or step == 0
        assert high - low <= value / 2**21 + 4
    assert bounds.lower[0] == bounds.upper[0] == 1 << bits


def passes(first: int, exponent: Fraction, tries: int = 600) -> float:
    """How often a number that begins with one bit is below, in standard errors from one third."""
    hits = sum(is_below(first, 1, exponent, ENTROPY) for _ in range(tries))
    return (hits - tries / 3) / sqrt(tries * 2 / 9)


@pytest.mark.full("further data sets, and all their neighbours")
def test_numbers_are_compared_beyond_their_first_bits() -> None:
    assert is_below(0, 1, Fraction(2, 3), ENTROPY)  # exp(-2/3) is above one half
    assert not is_below(1, 1, Fraction(7, 10), ENTROPY)  # and exp(-7/10) below
    third = Fraction(405465, 10**6)  # -ln(2/3), so that a third of the upper half is below
    assert abs(exp(-third) - 2 / 3) < 1e-6
    assert abs(passes(1, third)) < NormalDist().inv_cdf(1 - 1e-6)
    assert abs(passes(1, third + Fraction(1, 5))) > NormalDist().inv_cdf(1 - 1e-6)


def chosen() -> float:
    scores, rate = [3, 5, 5, 0, 4], Fraction(1, 3)
    found = exponential.exponential(Candidates.of(scores, 3000), rate, ENTROPY)
    return misfit(found, exponential_law(scores, float(rate)))


@pytest.mark.full("thousands of releases are sampled")
def test_doubtful_trials_keep_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so loose that half of the trials need more bits; if these failed, it would be seen."""
    monkeypatch.setattr(exponential, "_LOOSE", 1)
    assert chosen() < REJECTED
    monkeypatch.setattr(exponential, "is_below", lambda *_: False)
    assert chosen() > REJECTED
