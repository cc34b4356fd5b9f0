"""Sampler of noise: one distribution per mechanism, in blocks, from uniform integers alone.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 1. The
rate γ is kept as a product of fractions. A trial with probability a·b is a trial with probability a
and then one with probability b, so no integer ever outgrows a single denominator.

Proof (PRIVACY.md R41). With K the first k whose trial with probability γ/k fails, P(K > k) =
γ^k/k!, and the alternating sum of these, P(K odd), is exp(-γ). Larger rates are products of trials.

Proof (PRIVACY.md R42). The discrete Laplace distribution is P(x) ∝ exp(-|x|/b) on the integers.
P(x)/P(x + s) <= exp(|s|/b): integers that lie D1 apart in L1 are (D1/b)-DP. The sampler draws from
it exactly, as below.

Proof (PRIVACY.md R43). The discrete Gaussian distribution is P(x) ∝ exp(-x²/(2σ²)) on the integers.
Canonne, Kamath and Steinke 2020, Theorem 4: such noise with σ² >= D2²/(2ρ) is ρ-zCDP; of
independent entries the Rényi divergences add. The sampler draws from it exactly, as below.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import assert_never

import numpy as np

from dpsql.mechanisms.entropy import Entropy, accepted, compose, concatenated
from dpsql.mechanisms.exponential import Candidates, exponential, permute_and_flip
from dpsql.mechanisms.laws import Flips, Law, Softmax, Uniform
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Mechanism, Noise


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """A factor numerator / denominator in [0, 1]; a numerator array holds one value per draw."""

    numerator: int | np.ndarray
    denominator: int

    def at(self, places: np.ndarray) -> Factor:
        """Return the factor of the draws at `places`, in their order."""
        if isinstance(self.numerator, int):
            return self
        return Factor(self.numerator.take(places), self.denominator)

    def succeed(self, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Return those of `places` with a successful trial of this probability."""
        if isinstance(self.numerator, int) and self.numerator == self.denominator:
            return places
        threshold = self.at(places).numerator
        hit = entropy.below(self.denominator, places.size) < threshold
        return places.take(hit.nonzero()[0])


@dataclass(frozen=True, slots=True, eq=False)
class Decay:
    """The probability exp(-γ), γ = whole + Π factors / divisor, with every factor in [0, 1].

    >>> Decay.of(Fraction(7, 2)).whole
    3
    """

    whole: int = 0
    factors: tuple[Factor, ...] = ()
    divisor: int = 1

    @classmethod
    def of(cls, rate: Fraction) -> Decay:
        """Return the probability exp(-rate) for a rational rate > 0."""
        whole = -(-rate.numerator // rate.denominator) - 1
        rest = rate - whole
        return cls(whole, (Factor(rest.numerator, rest.denominator),))

    def survivors(self, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Return those of `places` with a successful trial of this probability."""
        for _ in range(self.whole):
            if not places.size:
                return places
            places = _algorithm_1(places, (), 1, entropy)
        return _algorithm_1(places, self.factors, self.divisor, entropy)

    def repeated(self, times: np.ndarray, places: np.ndarray, entropy: Entropy) -> np.ndarray:
        """Return those of `places` with `times[place]` successful independent trials, in
        any order.
        """
        done = []
        rounds = 0
        while places.size:
            more = times.take(places) > rounds
            done.append(places.take((~more).nonzero()[0]))
            places = self.survivors(places.take(more.nonzero()[0]), entropy)
            rounds += 1
        return np.concatenate([*done, places])

    def run_lengths(self, count: int, entropy: Entropy) -> np.ndarray:
        """Draw the number of successes before the first failure: P(v) ∝ exp(-γ·v), v >= 0."""
        lengths = np.zeros(count, dtype=np.int64)
        places = np.arange(count)
        while places.size:
            places = self.survivors(places, entropy)
            lengths[places] += 1
        return lengths


def _algorithm_1(
    places: np.ndarray, factors: tuple[Factor, ...], divisor: int, entropy: Entropy
) -> np.ndarray:
    """Draw K, the first k whose trial with probability γ/k fails; succeed where K is odd."""
    local = tuple(factor.at(places) for factor in factors)
    first_failure_is_odd = np.ones(places.size, dtype=bool)
    inside = np.arange(places.size)
    k = 1
    while inside.size:
        for factor in (Factor(1, k * divisor), *local):
            inside = factor.succeed(inside, entropy)
        first_failure_is_odd[inside] = k % 2 == 0
        k += 1
    return places.take(first_failure_is_odd.nonzero()[0])


def discrete_laplace(scale: Fraction, count: int, entropy: Entropy) -> np.ndarray:
    """Draw `count` integers with scale b = t/s: Canonne, Kamath, Steinke 2020, Algorithm 2.

    int64, or object where 64 bits do not hold every step. With u uniform below t and accepted with
    probability exp(-u/t), and v the number of successes of exp(-1), u + t·v is geometric with ratio
    exp(-1/t). The floor of its s-th part has ratio exp(-s/t). One zero is dropped.
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
    """Give the candidates random signs and drop the second zero, -0."""
    signs = entropy.signs(places.size)
    drawn = ((magnitudes != 0) | (signs > 0)).nonzero()[0]
    return places.take(drawn), signs.take(drawn) * magnitudes.take(drawn)


def discrete_gaussian(variance: Fraction, count: int, entropy: Entropy) -> np.ndarray:
    """Draw `count` integers with variance parameter σ²; int64, or object where 64 bits do not
    suffice.

    The distribution is that of Canonne, Kamath, Steinke 2020, Algorithm 3, drawn by the same kind
    of rejection: a geometric proposal accepted by trials of their Algorithm 1. Their acceptance
    test needs integers near σ⁴; written as follows (the decomposition of Karney 2016, Algorithm D)
    it needs none above σ². With t = max(1, floor(σ)), f = t²/σ² and |x| = t·v + u, 0 <= u < t,

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
    """Draw a uniform u below t for each block number; return the places where u is accepted too.

    For t = 1, where the rate may exceed 1, u is zero and always accepted.
    """
    rests = entropy.below(t, blocks.size)
    places = np.arange(blocks.size)
    if t == 1:
        return rests, places
    shrink, part = Factor(rate.numerator, rate.denominator), Factor(rests, t)
    places = Decay(0, (part, part, shrink), 2).survivors(places, entropy)
    return rests, Decay(0, (part, shrink)).repeated(blocks, places, entropy)


_BLOCK = 1 << 17
"""Number of draws at a time: enough to hide the cost of a call, few enough for about 20 MB of
arrays.
"""


def sample(law: Law, count: int, entropy: Entropy) -> np.ndarray:
    """Draw `count` independent integers from a distribution, exactly and without floats.

    Returns an int64 array, or an object array of Python integers where 64 bits are too few. Raises
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
