"""Clipping bound and clipping bias of a sum, from the noisy histogram of log2 norms.

A posterior over models of the tail says how much of all norms lies above each candidate bound. The
bound is taken whose whole 95 % interval is narrowest: noise on both sides, and on one side what the
bound removes. Norms in an octave are log-uniform; beyond the last octave that stands out, counts
fall as A·r^j·g^(j(j-1)/2), or nothing is there. A tail with octaves that bend
(n·n''/n'² < 1) is expected to bend as much beyond them.

It is post-processing of released counts. Floats may err here: no sensitivity depends on them.

Proof (PRIVACY.md R97). The histogram is released before. What is computed of it and of public
numbers costs nothing, and the sensitivity follows from the bound that is enforced.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from dpsql.mechanisms.error import standard_deviation, widest
from dpsql.mechanisms.norm_bounds import Octaves, last_octave
from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Mechanism, Noise

ALONE, TOGETHER = 0.95, 0.8
"""Confidence that a bound removes no more than is said: of one or two groups, or numbers of either
sign, and of many groups of one sign. The more groups, the more differ by their noise.
"""

GUESS = 8.0
"""Standard deviations of the noise above which a bias is a guess."""

_RARE = 1e-6
"""Probability that an empty octave stands out."""

_QUARTERS = range(-12, 29)
"""Candidate bounds, in quarters of octaves from the last octave that stands out."""

_SEEN = 14
"""Number of octaves that are added up, from the last that stands out downwards."""

_NOTHING = 0.2
"""Prior probability that no unit is beyond the last octave."""

_UNLIKELY = 1e-8
"""Probability over that of the likeliest model below which a model decides nothing."""

_RATIOS = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
_BENDS = np.array([0.25, 0.5, 0.75, 1.0])
_BEND_PRIORS = np.array([1.0, 1.0, 1.0, 3.0]) / 6
_UNEVEN = 0.02
"""Variance of the logarithm of a bend between octaves of a smooth tail."""

_SMOOTH = 0.25
"""Count over that of the next octave below which norms may begin within the octave."""

_BEYOND = 8
"""Octaves beyond the last in which units may be."""


@dataclass(frozen=True, slots=True)
class ClippingBias:
    """Upper bound on what a clipping bound removes, in steps.

    It removes `common` of a mean group, in proportion to its size, and `few` more where few units
    hold much, by the root of that. There are `groups`. A bias that is a `guess` holds less often.
    It is at most `part` of a clipped group, and all of `beyond` units.
    """

    common: float
    few: float
    groups: int
    guess: bool
    part: float = np.inf
    beyond: float = 0.0

    def of_group(self, left: np.ndarray) -> np.ndarray:
        """Return the bias of groups that have these sizes after clipping, in steps."""
        sizes = left / left.sum() * self.groups
        bias: np.ndarray = self.common * sizes + self.few * np.sqrt(sizes)
        return np.minimum(bias, self.part * left + self.beyond) if self.part < np.inf else bias


@dataclass(frozen=True, slots=True)
class ClippedAnswer:
    """Properties of an answer that decide the cost of a clipping bound.

    Each step of the bound adds noise of standard deviation `deviation` to each of the `groups`, by
    a `gaussian` or a Laplace mechanism. The groups together lose `weight` times the loss of the
    norms. With `signs` both ends of an interval move.
    """

    deviation: float
    gaussian: bool
    groups: int
    weight: float
    signs: bool


@dataclass(frozen=True, slots=True)
class BestBound:
    """The clipping bound with the narrowest interval, its bias, and half the width."""

    bound: int
    bias: ClippingBias
    width: float


def best_bound(
    octaves: Octaves,
    most: int,
    counts: Sequence[int],
    votes: Noise,
    answer: ClippedAnswer,
    bound: int | None = None,
) -> BestBound:
    """The clipping bound of the narrowest interval; `bound` where it was chosen otherwise.

    `counts` are those of octaves, the lowest first; no norm is above `most`. `votes` is the
    distribution of the noise of counts.

    >>> votes = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(25))
    >>> answer = ClippedAnswer(2.0, gaussian=True, groups=1, weight=1.0, signs=False)
    >>> counts = [3, -3, 6, 104, 890, 1012, 413, 2, -7, 1, 0]
    >>> best_bound(Octaves(0, 10), 2**10, counts, votes, answer).bound
    64
    """
    histogram = _Histogram.of(np.array(counts, dtype=float), votes)
    last = histogram.last
    first, behind = 4 * (octaves.lowest - 1), 4 * octaves.highest + 1
    ends = [octaves.end(quarter) for quarter in range(first, behind)]
    candidates = _candidates(ends, most, last) if bound is None else np.array([float(bound)])
    bounds = np.maximum(candidates, 1)  # a bound of 0 has no noise
    excess = _Excess.of(np.array(ends, dtype=float)[::4], most, last, bounds)
    common, few = _biases(histogram, excess, answer)
    noise = answer.deviation * bounds
    widths = _half_width(common + few, noise, answer)
    place = int(np.argmin(widths))
    bias = ClippingBias(
        common=float(common[place]),
        few=float(few[place]),
        groups=answer.groups,
        guess=bool(common[place] + few[place] > GUESS * noise[place]),
    )
    return BestBound(int(bounds[place]), bias, float(widths[place]))


def lost_part(octaves: Octaves, counts: Sequence[int], votes: Noise, bound: int) -> float:
    """Return about the most that a bound takes of the units in a group, over what it leaves.

    A unit in k groups has the norm √k and counts for bound/√k in each. Norms are log-uniform in
    their octaves, or at their far ends: the mean of both is returned.

    >>> votes = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> round(lost_part(Octaves(0, 4), [3, 2, 7000, 600, -2], votes, 3), 2)
    0.38
    """
    last = last_octave(counts, votes)
    inside, ends = np.zeros(2), np.zeros(2)
    for place, count in enumerate(counts[: last + 1]):
        upper = octaves.end(4 * (octaves.lowest + place))
        lower, units = upper / 2, max(count, 0)
        between = min(max(bound, lower), upper)
        left = (between**2 - lower**2) / 2 + bound * (upper - between)
        inside += units * np.array([(upper**2 - lower**2) / 2, left])
        ends += units * np.array([upper**2, upper * min(upper, bound)])
    lost = (whole / max(left, 1.0) - 1 for whole, left in (inside, ends))
    return max(0.0, float(sum(lost)) / 2)


def one_sided(width: float, one_end: float, bias: np.ndarray) -> np.ndarray:
    """The reach of noise beyond a bias, all in standard deviations of the noise.

    An interval from -c to c + b holds what is off by 0 to b with 95 %. Without a bias c is the
    `width`, of a large one it is `one_end`; between them this is a little more than needed.
    """
    room = width - one_end
    reached: np.ndarray = one_end + room * np.exp(-bias / (2 * room))
    return reached


def _half_width(bias: np.ndarray, noise: np.ndarray, answer: ClippedAnswer) -> np.ndarray:
    width, one_end = _reaches(gaussian=answer.gaussian)
    if answer.signs:
        spread: np.ndarray = np.sqrt((width * noise) ** 2 + (bias / 2) ** 2)
        return spread
    half: np.ndarray = one_sided(width, one_end, bias / noise) * noise + bias / 2
    return half


@cache
def _reaches(*, gaussian: bool) -> tuple[float, float]:
    """Half of a 95 % and of a 90 % interval, in standard deviations."""
    mechanism = Mechanism.DISCRETE_GAUSSIAN if gaussian else Mechanism.DISCRETE_LAPLACE
    noise = Noise(
        mechanism, Fraction(10**10 if gaussian else 10**5)
    )  # so fine that steps do not matter
    return widest([noise]), widest([noise], 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class _Histogram:
    """Noisy counts of octaves, and the last that stands out, or the largest where none does."""

    counts: np.ndarray
    last: int
    votes: Noise

    @classmethod
    def of(cls, counts: np.ndarray, votes: Noise) -> _Histogram:
        seen = np.flatnonzero(counts >= reach(votes, _RARE))
        return cls(counts, int(seen[-1] if len(seen) else np.argmax(counts)), votes)

    @property
    def variance(self) -> float:
        return standard_deviation(self.votes) ** 2

    @property
    def seen(self) -> np.ndarray:
        """The counts from the last octave down."""
        return self.counts[max(0, self.last - _SEEN + 1) : self.last + 1][::-1]

    def beyond(self, octaves: int) -> np.ndarray:
        """The counts of so many octaves behind the last."""
        return self.counts[self.last + 1 : self.last + 1 + octaves]


def _candidates(ends: Sequence[int], most: int, last: int) -> np.ndarray:
    """Candidate bounds in whole steps, rounded up, so that each removes no more than it says."""
    top = 4 * last + 4
    places = (top + quarter for quarter in _QUARTERS)
    bounds = {
        min(ends[place] + (place % 4 > 0), most) for place in places if 0 <= place < len(ends)
    }
    return np.array(sorted(bounds | {max(1, min(ends[top], most))}), dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class _Excess:
    """Mean excess of a norm over each candidate bound: a row for each octave.

    `seen` are octaves from the last down, hedged by their far ends; `beyond` those behind it.
    """

    seen: np.ndarray
    beyond: np.ndarray

    @classmethod
    def of(cls, ends: np.ndarray, most: int, last: int, bounds: np.ndarray) -> _Excess:
        """Return the excess for octaves with these ends; no norm is above `most`."""
        upper = np.minimum(ends[1:], most)[:, None]
        lower = np.minimum(np.maximum(ends[:-1], ends[1:] / 2), most)[:, None]
        between = np.clip(bounds[None, :], lower, upper)
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.log(upper / lower)
            mean = (upper - between - bounds * np.log(upper / between)) / width
        mean = np.where(width > 0, np.maximum(mean, 0.0), np.maximum(upper - bounds, 0.0))
        down = slice(max(0, last - _SEEN + 1), last + 1)
        hedged = (mean[down] + np.maximum(upper - bounds, 0.0)[down]) / 2
        return cls(hedged[::-1], mean[last + 1 : last + 1 + _BEYOND])


def _bend(histogram: _Histogram) -> tuple[float, float]:
    """Return the bend of the octaves up to the last, and the variance of its logarithm.

    Of three octaves s apart, the outer counts over the square of the middle one are g^(s·s). The
    lowest of all norms within an octave would look like a bend: the octaves at the lower end of
    the three must not fall off downwards. Without a bend it is 1.
    """
    counts, variance = histogram.counts, histogram.variance
    for apart in (2, 1):
        place = histogram.last - 2 * apart
        if place < 1:
            continue
        below, lowest, middle, top = np.maximum(
            counts[[place - 1, *range(place, place + 2 * apart + 1, apart)]], 1.0
        )
        falls = lowest >= middle
        rises = apart == 1 and lowest >= _SMOOTH * middle and below > 3 * variance**0.5
        if below >= _SMOOTH * lowest and (falls or rises):
            squares = ((1, top), (4, middle), (1, lowest))
            spread = sum(k * (variance / n**2 + 1 / n) for k, n in squares)
            bend = (top * lowest / middle**2) ** (1 / apart**2)
            return min(1.0, float(bend)), _UNEVEN + float(spread) / apart**4
    return 1.0, 1.0


def _models(histogram: _Histogram, octaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Units that models expect in octaves beyond the last, and the models' probabilities.

    The first model is that there are none.
    """
    counts, last, variance = histogram.counts, histogram.last, histogram.variance
    top, before = max(counts[last], 1.0), counts[last - 1] if last else 0.0
    steps = np.arange(1, octaves + 1)
    ratios, bends = (grid.ravel() for grid in np.meshgrid(_RATIOS, _BENDS, indexing="ij"))
    expected = top * ratios[:, None] ** steps * bends[:, None] ** (steps * (steps - 1) / 2)
    prior = np.tile(_BEND_PRIORS, len(_RATIOS))
    fall = top / max(before, 1.0)
    if fall < 1:
        spread = 0.25 + variance * (1 / top**2 + 1 / max(before, variance**0.5) ** 2)
        faster = np.maximum(0.0, np.log(ratios / (bends * fall)))
        prior = prior * np.exp(-(faster**2) / (2 * spread))
    bend, spread = _bend(histogram)
    slower = np.maximum(0.0, np.log(bends / bend))
    prior = prior * np.exp(-(slower**2) / (2 * spread))
    prior *= (1 - _NOTHING) / prior.sum()  # a shape says nothing of whether there are any
    models = np.vstack([np.zeros(octaves), expected])
    logs = np.log(np.concatenate([[_NOTHING], np.maximum(prior, 1e-300)]))
    off = histogram.beyond(octaves) - models
    if histogram.votes.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        each = variance + models
        logs += (-(off**2) / (2 * each) - np.log(each) / 2).sum(axis=1)
    else:
        scale = np.sqrt(variance / 2 + models)
        logs += (-np.abs(off) / scale - np.log(2 * scale)).sum(axis=1)
    weights = np.exp(logs - logs.max())
    likely = weights > _UNLIKELY
    return models[likely], weights[likely] / weights[likely].sum()


def _biases(
    histogram: _Histogram, excess: _Excess, answer: ClippedAnswer
) -> tuple[np.ndarray, np.ndarray]:
    """The common bias of each candidate in a mean group, and what few units add to it."""
    unseen, probabilities = _models(histogram, len(excess.beyond))
    alone = 1.0 if answer.signs else min(1.0, (2 / answer.groups) ** 0.5)
    level = TOGETHER + (ALONE - TOGETHER) * alone
    part, here = answer.weight / answer.groups, histogram.seen
    sums = np.maximum(np.maximum.accumulate((here @ excess.seen)[::-1])[::-1], 0.0)
    noise = histogram.variance * (excess.seen**2).sum(axis=0)
    means = unseen @ excess.beyond
    squares = unseen @ excess.beyond**2
    common = _quantiles(probabilities, means * part, (noise + squares) * part**2, level)
    common = sums * part + np.maximum(common, 0.0)
    if answer.groups == 1:
        return common, np.zeros_like(common)
    gathered = np.maximum(here, 0.0) @ excess.seen**2 / answer.groups
    spread = squares * max(1 / answer.groups, part**2) + noise * part**2 + gathered
    whole = sums * part + _quantiles(probabilities, means * part, spread, level)
    return common, np.maximum(whole - common, 0.0)


def _quantiles(
    weights: np.ndarray, means: np.ndarray, variances: np.ndarray, level: float
) -> np.ndarray:
    """The quantile `level` of mixtures of normal distributions, by bisection: one for each column.

    `weights` has a number per component. `means` and `variances` have a row per component and a
    column per mixture.
    """
    deviations = np.sqrt(variances) + 1e-12
    low, high = (means - 9 * deviations).min(axis=0), (means + 9 * deviations).max(axis=0)
    for _ in range(30):
        middle = (low + high) / 2
        below = weights @ _normal((middle - means) / deviations) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(high)


def _normal(z: np.ndarray) -> np.ndarray:
    """The normal distribution function, within 1e-7 (Abramowitz and Stegun 26.2.17)."""
    size = np.minimum(np.abs(z), 30.0)
    t = 1 / (1 + 0.2316419 * size)
    terms = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    series = np.zeros_like(t)
    for term in reversed(terms):
        series = (series + term) * t
    tail = np.exp(-(size**2) / 2) / np.sqrt(2 * np.pi) * series
    above: np.ndarray = np.where(z > 0, 1 - tail, tail)
    return above
