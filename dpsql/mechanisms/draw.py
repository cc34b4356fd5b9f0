"""Draw noise: one law per mechanism, block by block."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.exponential import Candidates, exponential, permute_and_flip
from dpsql.mechanisms.gaussian import discrete_gaussian
from dpsql.mechanisms.integers import concatenated
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.mechanisms.laws import Flips, Law, Softmax, Uniform
from dpsql.model.vocabulary import Mechanism, Noise

_BLOCK = 1 << 17
"""Draws at a time: enough to hide the cost of a call, few enough for about 20 MB of arrays."""


def sample(law: Law, count: int, entropy: Entropy) -> np.ndarray:
    """`count` independent draws of an integer law, exactly and without floats.

    An int64 array, or an object array of Python integers where 64 bits are too few. Raises
    ValueError for a scale that is not positive.

        >>> from fractions import Fraction
        >>> sample(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10)), 5, Entropy()).shape
        (5,)
    """
    if isinstance(law, Uniform):
        return entropy.below(law.bound, count)
    if isinstance(law, Softmax):
        return exponential(Candidates.of(law.scores, count), law.rate, entropy)
    if isinstance(law, Flips):
        return permute_and_flip(Candidates.of(law.scores, count), law.rate, entropy)
    if law.scale <= 0:
        raise ValueError("a noise law needs a positive scale")
    starts = range(0, max(count, 1), _BLOCK)
    blocks = [_draw(law, min(_BLOCK, count - start), entropy) for start in starts]
    return concatenated(blocks)


def _draw(noise: Noise, count: int, entropy: Entropy) -> np.ndarray:
    match noise.mechanism:
        case Mechanism.DISCRETE_LAPLACE:
            return discrete_laplace(noise.scale, count, entropy)
        case Mechanism.DISCRETE_GAUSSIAN:
            return discrete_gaussian(noise.scale, count, entropy)
        case _:
            assert_never(noise.mechanism)
