"""The discrete Gaussian law: P(x) ∝ exp(-x²/(2σ²)) on the integers.

Proof (PRIVACY.md R43). Canonne, Kamath and Steinke 2020, Theorem 4: noise of this law with σ² >=
D2²/(2ρ) is ρ-zCDP; of independent entries the Rényi divergences add. The sampler draws that law
exactly, as below.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from dpsql.mechanisms.bernoulli import Decay, Factor
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.integers import accepted, compose
from dpsql.mechanisms.laplace import signed


def discrete_gaussian(variance: Fraction, count: int, entropy: Entropy) -> np.ndarray:
    """`count` draws with variance parameter σ²; int64, or object where 64 bits do not suffice.

    The law of Canonne, Kamath, Steinke 2020, Algorithm 3, by the same kind of rejection: a
    geometric proposal accepted by trials of their Algorithm 1. Their acceptance test needs
    integers near σ⁴; written as follows (the decomposition of Karney 2016, Algorithm D) it needs
    none above σ². With t = max(1, floor(σ)), f = t²/σ² and |x| = t·v + u, 0 <= u < t,

        x²/(2σ²) = f·v/2 + f·v(v-1)/2 + f·(u/t)·v + f·(u/t)²/2:

    v comes from runs of exp(-f/2), u is uniform, and the other three terms are trials.
    """
    t = max(1, isqrt(variance.numerator // variance.denominator))
    rate = t * t / variance
    step, pair = Decay.of(rate / 2), Decay.of(rate)

    def propose(size: int) -> tuple[np.ndarray, np.ndarray]:
        blocks = step.run_lengths(size, entropy)
        places = pair.repeated(blocks * (blocks - 1) // 2, np.arange(size), entropy)
        blocks = blocks.take(places)
        rests, inside = _rests(t, rate, blocks, entropy)
        magnitudes = compose(blocks.take(inside), t, rests.take(inside))
        return signed(places.take(inside), magnitudes, entropy)

    return accepted(count, propose)


def _rests(
    t: int, rate: Fraction, blocks: np.ndarray, entropy: Entropy
) -> tuple[np.ndarray, np.ndarray]:
    """A uniform u below t for each block number, and the places where u is accepted.

    For t = 1, where the rate may exceed 1, u is zero and always accepted.
    """
    rests = entropy.below(t, blocks.size)
    places = np.arange(blocks.size)
    if t == 1:
        return rests, places
    shrink, part = Factor(rate.numerator, rate.denominator), Factor(rests, t)
    places = Decay(0, (part, part, shrink), 2).survivors(places, entropy)
    return rests, Decay(0, (part, shrink)).repeated(blocks, places, entropy)
