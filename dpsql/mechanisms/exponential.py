"""Choices among finitely many candidates with integer scores, by uniform integers alone.

Both mechanisms report the place of a noisy maximum and never its value. The exponential mechanism
(McSherry and Talwar 2007) is the maximum of scores with Gumbel noise, permute-and-flip (McKenna and
Sheldon 2020) is that of scores with exponential noise (Ding et al. 2021).

Proof (PRIVACY.md R47, R48), in full in `mechanisms.top_keys` for scores that move one way. With
`rate` r and `range` the most by which one unit can change the difference of two scores, the
exponential mechanism has (r·range)-bounded range: `BoundedRangeEvent(r * range)`. Permute-and-flip
is (r·range)-DP where range = 2Δ, or where the range is Δ because all scores move one way:
`ApproximateEvent(r * range)`.

Whether a uniform number is below exp(-γ) is decided exactly, without floats. A number whose first
bits are drawn is below exp(-γ) or above it wherever these bits are outside of the two integers.
Where they are between them more bits are drawn until it shows. So the probability is exp(-γ)
exactly, at about the cost of 64-bit integers.

Proof (PRIVACY.md R41). The trial decides whether a uniform real number, read bit by bit, is below
exp(-γ). Both bounds hold at every precision, being partial sums of an alternating series whose
terms fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, repeat

import numpy as np

from dpsql.mechanisms.entropy import Entropy, distinct
from dpsql.model.dataclass import dataclass

_FINE = 12
"""Bits of an index into a table. The fraction of an exponent is looked up in two steps."""

_FACTOR = 31
"""Bits of a factor, so that a product of two factors fits 64 bits."""

_LOOSE = 22
"""Bits of accuracy: exp(-γ) is above (1 - 2**-22)·upper - 1, with 24 bits of fraction and factors
of 29.
"""

_WHOLE = 44
"""Exponent from which exp(-γ) is less than 2**-62."""

_WIDE = 128
"""Bits with which tables are computed."""

_MORE = 62
"""Bits that are drawn at a time where the first ones do not decide."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Bounds lower <= 2**bits · exp(-γ) <= upper, for every γ; equal at γ = 0, where they are
    2**bits.
    """

    bits: int
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, rate: Fraction, bits: int) -> Bounds:
        """Return the bounds for γ = rate·steps, for whole steps >= 0 and at most 62 bits.

        >>> bounds = Bounds.of(np.array([0, 1]), Fraction(1), 20)
        >>> bounds.lower.tolist(), bounds.upper.tolist()
        ([1048576, 385748], [1048576, 385750])
        """
        whole, fine = _split(steps, rate)
        first, second = np.divmod(fine, 1 << _FINE)
        factor = -(-(_table(_FINE)[first] * _table(2 * _FINE)[second]) >> _FACTOR)
        factors, shifts = _whole_table()
        near = np.minimum(whole, _WHOLE - 1)
        shift = np.minimum(2 * _FACTOR - bits + shifts[near], 2 * _FACTOR)
        upper = np.where(whole < _WHOLE, -(-(factor * factors[near]) >> shift), 1)
        lower = np.maximum(upper - (upper >> _LOOSE) - 2, 0)
        return cls(bits, np.where(steps == 0, upper, lower).astype(np.int64), upper)


def _split(steps: np.ndarray, rate: Fraction) -> tuple[np.ndarray, np.ndarray]:
    """Return the whole part of rate·steps, at most `_WHOLE`, and 24 bits of its fraction."""
    most = int(steps.max(initial=0)) * rate.numerator
    if most >= 1 << 62 or rate.denominator >= 1 << (62 - 2 * _FINE):
        steps = steps.astype(object)
    exponents = steps * rate.numerator
    whole = np.minimum(exponents // rate.denominator, _WHOLE)
    fine = (exponents % rate.denominator) * (1 << (2 * _FINE)) // rate.denominator
    return whole.astype(np.int64), fine.astype(np.int64)


def is_below(first: int, bits: int, exponent: Fraction, entropy: Entropy) -> bool:
    """Test whether a uniform number in [0, 1) with these first bits is below exp(-exponent)."""
    while True:
        first, bits = first << _MORE | int(entropy.below(1 << _MORE, 1)[0]), bits + _MORE
        lower, upper = _enclosed(exponent, bits)
        if first < lower or first >= upper:
            return first < lower


def _enclosed(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers that enclose 2**bits·exp(-exponent), from the partial sums of its series.

    The sums alternate around the limit, as the terms of a fraction decrease.
    """
    whole = int(exponent)
    if whole > bits:
        return 0, 1
    ends = zip(_sums(exponent - whole, bits), _sums(Fraction(1), bits), strict=True)
    low, high = (rest * one**whole * 2**bits for rest, one in ends)
    return int(low), -int(-high // 1)


def _sums(fraction: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return partial sums below and above exp(-fraction), at most 2**-bits apart, for 0 to 1."""
    terms = accumulate(_terms(fraction, 2 * (bits // 6 + 10)))
    *_, below, above = terms
    return below, above


def _terms(fraction: Fraction, last: int) -> Iterator[Fraction]:
    term = Fraction(1)
    for n in range(1, last + 2):
        yield term
        term *= -fraction / n


def _powers(step: Fraction, size: int) -> list[int]:
    """Return 2**128·exp(-n·step) for n from 0, rounded up."""
    _, factor = _enclosed(step, _WIDE)
    up = accumulate(repeat(factor, size - 1), lambda a, b: -(-a * b >> _WIDE), initial=1 << _WIDE)
    return list(up)


@cache
def _table(bits: int) -> np.ndarray:
    """Return a table of 2**31·exp(-n / 2**bits) for all table indices n, rounded up."""
    powers = _powers(Fraction(1, 1 << bits), 1 << _FINE)
    return np.array([-(-power >> (_WIDE - _FACTOR)) for power in powers], dtype=np.int64)


@cache
def _whole_table() -> tuple[np.ndarray, np.ndarray]:
    """Return factors of 31 bits and shifts with exp(-k) <= factor·2**(-31 - shift)."""
    powers = _powers(Fraction(1), _WHOLE)
    shifts = [max(0, _WIDE - power.bit_length()) for power in powers]
    listed = zip(powers, shifts, strict=True)
    factors = [-(-power >> (_WIDE - _FACTOR - shift)) for power, shift in listed]
    return np.array(factors, dtype=np.int64), np.array(shifts, dtype=np.int64)


_BLOCK = 1 << 17
"""Number of candidates that are tried at a time: about 20 MB of arrays."""

_WORD, _REST = 62, 54
"""Bits of a uniform number, and those behind the first eight."""

_RATE_BITS = 24
"""Bits of a rate's numerator: with them, scores below 2**38 stay in 64-bit words."""

_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A number of `lists` with `size` candidates each; one is chosen in every list.

    Adjacent candidates with equal scores form one run. Run j begins with candidate `starts[j]`,
    counted through all lists. Its scores are `behind[j]` >= 0 below the best of its list, and the
    best run has 0. `starts` rises strictly and holds the first candidate of every list. `best` are
    the best scores themselves, which only `mechanisms.sparse_vector` reads.
    """

    lists: int
    size: int
    starts: np.ndarray
    behind: np.ndarray
    best: np.ndarray

    @classmethod
    def of(cls, scores: Sequence[int], lists: int = 1) -> Candidates:
        """Return `lists` copies of the same candidates, with one score each.

        >>> Candidates.of([3, 5, 5]).behind.tolist()
        [2, 0, 0]
        """
        best = max(scores)
        wide = best - min(scores) >= _ENDLESS
        behind = np.array(
            [best - score for score in scores] * lists, dtype=object if wide else np.int64
        )
        return cls(lists, len(scores), np.arange(behind.size), behind, np.array([best] * lists))

    def behind_at(self, places: np.ndarray) -> np.ndarray:
        """Return the score distances behind the best of the candidates at these places.

        Places count through all lists.
        """
        return self.behind.take(np.searchsorted(self.starts, places, side="right") - 1)


def rate_down(epsilon: Fraction, spread: int) -> Fraction:
    """Return the largest simple rate with rate · spread <= ε, at most 2**-23 of it below ε /
    spread.

    Raises ValueError if either is not positive.

    >>> rate_down(Fraction(1, 2), 4)
    Fraction(1, 8)
    """
    if epsilon <= 0 or spread <= 0:
        raise ValueError("a choice needs a positive ε and a positive range")
    exact = epsilon / spread
    bits = exact.numerator.bit_length() - exact.denominator.bit_length()
    unit = Fraction(2) ** (bits - _RATE_BITS + 1)
    return (exact // unit) * unit


def exponential(candidates: Candidates, rate: Fraction, entropy: Entropy) -> np.ndarray:
    """Choose a place in every list by the exponential mechanism: P(i) ∝ exp(rate · score_i),
    exactly.

    A candidate is proposed by an upper bound of exp(-rate · behind), and then tried by a uniform
    number below that bound: a proposal fails about once in four million.

    >>> exponential(Candidates.of([0, 10**6]), Fraction(1), Entropy()).tolist()
    [1]
    """
    bits = _WORD - (candidates.size - 1).bit_length()
    bounds = Bounds.of(candidates.behind, rate, bits)
    chosen = np.zeros(candidates.lists, dtype=np.int64)
    waiting = np.arange(candidates.lists)
    while waiting.size:
        run, within = _proposed(candidates, bounds.upper, waiting, entropy)
        place, first = np.divmod(within, bounds.upper[run])
        passed = _passing(candidates, rate, bounds, run, first, entropy)
        chosen[waiting[passed]] = (candidates.starts[run] + place)[passed] % candidates.size
        waiting = waiting[~passed]
    return chosen


def permute_and_flip(candidates: Candidates, rate: Fraction, entropy: Entropy) -> np.ndarray:
    """Choose a place in every list by permute-and-flip, exactly.

    Candidates are tried in a random order, without replacement, until one passes a trial of
    exp(-rate · behind). The trials are independent, so all are made at once. One of those that
    passed is chosen uniformly; the best always passes. Most trials fail by the first eight bits.

    >>> permute_and_flip(Candidates.of([0, 10**6]), Fraction(1), Entropy()).tolist()
    [1]
    """
    size, starts = candidates.size, candidates.starts
    bounds = Bounds.of(candidates.behind, rate, _WORD)
    highest = (bounds.upper - 1) >> _REST
    chosen = np.zeros(candidates.lists, dtype=np.int64)
    lists = np.arange(candidates.lists)
    step = max(1, _BLOCK // size)
    for block in (lists[start : start + step] for start in range(0, lists.size, step)):
        first, last = block[0] * size, (block[-1] + 1) * size
        runs = np.arange(*np.searchsorted(starts, [first, last]))
        own = np.repeat(runs, np.diff(np.append(starts[runs], last)))
        bits = entropy.below(1 << (_WORD - _REST), own.size)
        left = np.flatnonzero(bits <= highest[own])
        drawn = bits[left] << _REST | entropy.below(1 << _REST, left.size)
        passed = left[_passing(candidates, rate, bounds, own[left], drawn, entropy)]
        counts = np.bincount(passed // size, minlength=block.size)
        ends = np.cumsum(counts)
        chosen[block] = passed.take(ends - counts + _uniform(counts, entropy)) % size
    return chosen


def _proposed(
    candidates: Candidates, upper: np.ndarray, lists: np.ndarray, entropy: Entropy
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a run of each of these lists, P(run) ∝ its candidates · upper, and a number below that.

    The sums over all lists may pass 64 bits and wrap around; differences within a list do not.
    """
    total = candidates.lists * candidates.size
    mass = (np.diff(np.append(candidates.starts, total)) * upper).astype(np.uint64)
    before = np.append(np.uint64(0), np.cumsum(mass))
    low = np.searchsorted(candidates.starts, lists * candidates.size)
    ends = np.searchsorted(candidates.starts, (lists + 1) * candidates.size)
    high, base = ends - 1, before[low]
    drawn = _uniform((before[ends] - base).astype(np.int64), entropy)
    target = drawn.astype(np.uint64)
    while (low < high).any():
        middle = (low + high) // 2
        inside = before[middle + 1] - base > target
        low, high = np.where(inside, low, middle + 1), np.where(inside, middle, high)
    return low, drawn - (before[low] - base).astype(np.int64)


def _passing(
    candidates: Candidates,
    rate: Fraction,
    bounds: Bounds,
    runs: np.ndarray,
    first: np.ndarray,
    entropy: Entropy,
) -> np.ndarray:
    """Test which candidates of these runs pass, where a trial's uniform number begins with
    `first`.
    """
    passed = first < bounds.lower[runs]
    for place in np.flatnonzero(~passed & (first < bounds.upper[runs])):
        exponent = rate * int(candidates.behind[runs[place]])
        passed[place] = is_below(int(first[place]), bounds.bits, exponent, entropy)
    return np.asarray(passed)


def _uniform(bounds: np.ndarray, entropy: Entropy) -> np.ndarray:
    """Draw a uniform integer below each bound."""
    drawn = np.zeros_like(bounds)
    for bound in distinct(bounds):
        here = np.flatnonzero(bounds == bound)
        drawn[here] = entropy.below(int(bound), here.size)
    return drawn


def best(candidates: Candidates) -> np.ndarray:
    """Return the first best candidate of every list: the limit of both mechanisms without noise.

    >>> best(Candidates.of([3, 5, 5])).tolist()
    [1]
    """
    tops = candidates.starts.take(np.flatnonzero(candidates.behind == 0))
    _, first = np.unique(tops // candidates.size, return_index=True)
    return np.asarray(tops.take(first) % candidates.size)
