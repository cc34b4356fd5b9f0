"""Where the octaves of norms end, and what is squared of them, in whole numbers.

Squares add up over the groups of a unit, so that coarse numbers are squared: PRIVACY.md R73.
"""

from __future__ import annotations

from math import isqrt

from dpsql.compiler.plan.measurement_kinds import RangeVote, ScaledTotal, Vote
from dpsql.mechanisms.norm_bounds import Octaves
from dpsql.model.vocabulary import Norm

SQUARED_BITS = 44
"""Bits of what is squared: 2^38 groups of a unit fit 126 bits."""
ROOM = 1 + 2.0**-40
"""Outweighs what the square root of a DOUBLE is off by."""


def excess_bits(lower: int, upper: int, steps: int) -> int:
    """The bits of a total of so many steps that are too many for its square."""
    return max(0, (max(-lower, upper) * steps).bit_length() - SQUARED_BITS)


def bits_of(part: Vote | ScaledTotal) -> int:
    """The bits of a total that are too many for its square."""
    return excess_bits(part.total.total_lower, part.total.total_upper, part.steps)


def first_place(vote: Vote | RangeVote) -> int:
    """The place of the lowest octave, or half, that is voted for."""
    bins = vote.bins if isinstance(vote, Vote) else Octaves(*vote.octaves)
    return bins.places[0]


def edges_of(vote: Vote | RangeVote) -> list[int]:
    """The ends of the octaves of a vote, or of their halves, but the last: the largest norm of each
    as `norm_of_unit` has it, which is squared for L2.
    """
    bins, half, bits = Octaves(*vote.octaves), 1, 0
    if isinstance(vote, Vote):
        bins = vote.bins
        if vote.norm is Norm.L2:
            half, bits = 2, bits_of(vote) * bins.parts
    return [
        _root_of_power(bins.whole ** (2 * half), 2 * half * (place - bits) // bins.parts)
        for place in bins.places[:-1]
    ]


def _root_of_power(square: int, power: int) -> int:
    """√(square · 2^power), rounded down."""
    return isqrt(square << power if power >= 0 else square >> -power)
