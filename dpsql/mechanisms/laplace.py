"""The discrete Laplace law: P(x) ∝ exp(-|x|/b) on the integers.

Proof (PRIVACY.md R42). P(x)/P(x + s) <= exp(|s|/b): integers that lie D1 apart in L1 are (D1/b)-DP.
The sampler draws that law exactly, as below.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.mechanisms.bernoulli import Decay, Factor
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.integers import accepted, compose


def discrete_laplace(scale: Fraction, count: int, entropy: Entropy) -> np.ndarray:
    """`count` draws with scale b = t/s: Canonne, Kamath, Steinke 2020, Algorithm 2.

    int64, or object where 64 bits do not hold every step. With u uniform below t and accepted
    with probability exp(-u/t), and v the number of successes of exp(-1), u + t·v is geometric
    with ratio exp(-1/t); the floor of its s-th part has ratio exp(-s/t). One zero is dropped.
    """
    t, s = scale.numerator, scale.denominator

    def propose(size: int) -> tuple[np.ndarray, np.ndarray]:
        rests = entropy.below(t, size)
        places = Decay(0, (Factor(rests, t),)).survivors(np.arange(size), entropy)
        blocks = Decay().run_lengths(places.size, entropy)
        magnitudes = compose(blocks, t, rests.take(places), s)
        return signed(places, magnitudes, entropy)

    return accepted(count, propose)


def signed(
    places: np.ndarray, magnitudes: np.ndarray, entropy: Entropy
) -> tuple[np.ndarray, np.ndarray]:
    """The candidates with random signs, without those that would be a second zero, -0."""
    signs = entropy.signs(places.size)
    kept = np.flatnonzero((magnitudes != 0) | (signs > 0))
    return places.take(kept), signs.take(kept) * magnitudes.take(kept)
