"""Edges of the log2 bins of norms, and coarsening before squares, in integers.

Squares add up over the groups of a unit, so coarse numbers are squared: PRIVACY.md R73.
"""

from __future__ import annotations

from math import isqrt

from dpsql.compiler.plan.measurement_kinds import RangeVote, ScaledTotal, Vote
from dpsql.model.vocabulary import Norm

SQUARED_BITS = 44
"""Bits of a number to square: the squares of 2^38 groups of a unit fit 126 bits."""
ROOM = 1 + 2.0**-40
"""Factor that outweighs the error of a DOUBLE's square root."""


def excess_bits(lower: int, upper: int, steps: int) -> int:
    """Return the number of bits by which a total in steps is too long to be squared."""
    return max(0, (max(-lower, upper) * steps).bit_length() - SQUARED_BITS)


def bits_of(part: Vote | ScaledTotal) -> int:
    """Return the number of bits by which a measurement's totals are too long to be squared."""
    return excess_bits(part.total.total_lower, part.total.total_upper, part.steps)


def first_place(vote: Vote | RangeVote) -> int:
    """Return the index of the lowest log2 bin, or half bin, of the histogram."""
    return vote.bins.places[0]


def edges_of(vote: Vote | RangeVote) -> list[int]:
    """Return the upper edges of the histogram's log2 bins, or half bins, without the last.

    Each is the largest norm in the bin on the scale of `norm_of_unit`, which is squared for L2.
    """
    bins, half, bits = vote.bins, 1, 0
    if isinstance(vote, Vote) and vote.norm is Norm.L2:
        half, bits = 2, bits_of(vote) * bins.parts
    return [
        _root_of_power(bins.whole ** (2 * half), 2 * half * (place - bits) // bins.parts)
        for place in bins.places[:-1]
    ]


def _root_of_power(square: int, power: int) -> int:
    """Return √(square · 2^power), rounded down."""
    return isqrt(square << power if power >= 0 else square >> -power)
