"""Distributions of integers: noise, and the draws by which keys are selected or chosen."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from dpsql.model.dataclass import dataclass, field
from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class Uniform:
    """The uniform distribution of whole numbers from 0 to `bound` - 1, for trials."""

    bound: int


@dataclass(frozen=True, slots=True)
class Softmax:
    """The distribution of a place in a list of scores: P(n) ∝ exp(rate · scores[n]).

    The scores decrease, so 0 is the likeliest place.
    """

    scores: tuple[int, ...] = field(repr=False)
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Flips:
    """The distribution of a place in a list of scores by permute-and-flip, highest first.

    A place passes with probability exp(-rate · (scores[0] - scores[n])). Each place that passes is
    chosen with equal probability.
    """

    scores: tuple[int, ...] = field(repr=False)
    rate: Fraction


Law: TypeAlias = Noise | Uniform | Softmax | Flips
"""A distribution of integers."""
