"""exp(-γ) between two integers, and whether a uniform number is below it: exactly, without floats.

A number whose first bits are drawn is below exp(-γ) or above it wherever these bits are outside of
the two integers; where they are between them more bits are drawn until it shows. So the odds are
exp(-γ) itself, and the price is that of integers of 64 bits.

Proof (PRIVACY.md R41). The trial decides whether a uniform real number, of which ever more bits are
read, is below exp(-γ); both bounds hold at every precision, being partial sums of an alternating
series whose terms fall.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, repeat

import numpy as np

from dpsql.mechanisms.entropy import Entropy

_FINE = 12
"""Bits of an index into a table: the fraction of an exponent is looked up twice."""

_FACTOR = 31
"""Bits of a factor: two of them fit 64 bits."""

_LOOSE = 22
"""exp(-γ) is above (1 - 2**-22)·upper - 1: its fraction is cut off at 24 bits, factors at 29."""

_WHOLE = 44
"""From this exponent on, exp(-γ) is less than 2**-62."""

_WIDE = 128
"""Bits that tables are computed with."""

_MORE = 62
"""Bits that are drawn at a time where the first do not tell."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """lower <= 2**bits · exp(-γ) <= upper, for every γ; equal at γ = 0, where they are 2**bits."""

    bits: int
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, rate: Fraction, bits: int) -> Bounds:
        """Of γ = rate·steps for whole steps >= 0 and at most 62 bits.

        >>> bounds = Bounds.of(np.array([0, 1]), Fraction(1), 20)
        >>> bounds.lower.tolist(), bounds.upper.tolist()
        ([1048576, 385748], [1048576, 385750])
        """
        whole, fine = _split(steps, rate)
        first, second = np.divmod(fine, 1 << _FINE)
        factor = -(-(_COARSELY[first] * _FINELY[second]) >> _FACTOR)
        near = np.minimum(whole, _WHOLE - 1)
        shift = np.minimum(2 * _FACTOR - bits + _SHIFTS[near], 2 * _FACTOR)
        upper = np.where(whole < _WHOLE, -(-(factor * _WHOLES[near]) >> shift), 1)
        lower = np.maximum(upper - (upper >> _LOOSE) - 2, 0)
        return cls(bits, np.where(steps == 0, upper, lower).astype(np.int64), upper)


def _split(steps: np.ndarray, rate: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """The whole part of rate·steps, no more than `_WHOLE`, and 24 bits of its fraction."""
    most = int(steps.max(initial=0)) * rate.numerator
    if most >= 1 << 62 or rate.denominator >= 1 << (62 - 2 * _FINE):
        steps = steps.astype(object)
    exponents = steps * rate.numerator
    whole = np.minimum(exponents // rate.denominator, _WHOLE)
    fine = (exponents % rate.denominator) * (1 << (2 * _FINE)) // rate.denominator
    return whole.astype(np.int64), fine.astype(np.int64)


def is_below(first: int, bits: int, exponent: Fraction, entropy: Entropy) -> bool:
    """Whether a uniform number in [0, 1) with these first bits is below exp(-exponent)."""
    while True:
        first, bits = first << _MORE | int(entropy.below(1 << _MORE, 1)[0]), bits + _MORE
        lower, upper = _enclosed(exponent, bits)
        if first < lower or first >= upper:
            return first < lower


def _enclosed(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Integers around 2**bits·exp(-exponent), by the partial sums of its series.

    These alternate around the limit, as the terms of a fraction fall.
    """
    whole = int(exponent)
    if whole > bits:
        return 0, 1
    ends = zip(_sums(exponent - whole, bits), _sums(Fraction(1), bits), strict=True)
    low, high = (rest * one**whole * 2**bits for rest, one in ends)
    return int(low), -int(-high // 1)


def _sums(fraction: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Sums of exp(-fraction)'s series on both sides of it, 2**-bits apart or less; 0 to 1."""
    terms = accumulate(_terms(fraction, 2 * (bits // 6 + 10)))
    *_, below, above = terms
    return below, above


def _terms(fraction: Fraction, last: int) -> Iterator[Fraction]:
    term = Fraction(1)
    for n in range(1, last + 2):
        yield term
        term *= -fraction / n


def _powers(step: Fraction, size: int) -> list[int]:
    """2**128·exp(-n·step) for n from 0, rounded up."""
    _, factor = _enclosed(step, _WIDE)
    up = accumulate(repeat(factor, size - 1), lambda a, b: -(-a * b >> _WIDE), initial=1 << _WIDE)
    return list(up)


def _table(step: Fraction) -> np.ndarray:
    """2**31·exp(-n·step) for n of so many bits, rounded up."""
    powers = _powers(step, 1 << _FINE)
    return np.array([-(-power >> (_WIDE - _FACTOR)) for power in powers], dtype=np.int64)


def _whole_table() -> tuple[np.ndarray, np.ndarray]:
    """exp(-k) <= factor·2**(-31 - shift), with factors of 31 bits."""
    powers = _powers(Fraction(1), _WHOLE)
    shifts = [max(0, _WIDE - power.bit_length()) for power in powers]
    listed = zip(powers, shifts, strict=True)
    factors = [-(-power >> (_WIDE - _FACTOR - shift)) for power, shift in listed]
    return np.array(factors, dtype=np.int64), np.array(shifts, dtype=np.int64)


_COARSELY, _FINELY = _table(Fraction(1, 1 << _FINE)), _table(Fraction(1, 1 << (2 * _FINE)))
_WHOLES, _SHIFTS = _whole_table()
