"""What integers are drawn from: noise, and the draws by which keys are shown or chosen."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from dpsql.model.dataclass import dataclass, field
from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class Uniform:
    """The law of whole numbers from 0 to `bound` - 1, each equally likely: what trials draw."""

    bound: int


@dataclass(frozen=True, slots=True)
class Softmax:
    """The law of a place in a list of whole numbers: P(n) ∝ exp(rate · scores[n]).

    The scores fall, so that 0 is the likeliest place.
    """

    scores: tuple[int, ...] = field(repr=False)
    rate: Fraction


@dataclass(frozen=True, slots=True)
class Flips:
    """The law of a place in a list of whole numbers by permute-and-flip, highest first.

    A place passes with probability exp(-rate · (scores[0] - scores[n])); of those that pass each
    is as likely.
    """

    scores: tuple[int, ...] = field(repr=False)
    rate: Fraction


Law: TypeAlias = Noise | Uniform | Softmax | Flips
"""What integers are drawn from."""
