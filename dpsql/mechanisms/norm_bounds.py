"""A clipping bound for the norm of a unit's contributions, from a noisy histogram of log2 norms.

Each unit counts once, in the octave of its norm. The released histogram has one noisy count per
octave; everything below is computed from these counts.

* The search for the largest norm begins at the far end. The first octave found has a count that an
  empty octave would exceed once in a million. From there the search goes on to octaves that stand
  out a little, with at most one in between that does not. A search from the peak outward would end
  at the first gap, and clip a tenth of the units a thousand times larger than the others.
* The loss by a clipping bound C is a sum over octaves, or over halves of them. Within each, counts
  are interpolated between the octaves before and after. Halves are used over many groups: there
  clipping a unit that noise hides loses little, and halves tell better where norms end. The bound
  with the least predicted error is taken, the mean |bias + noise| of a group.
* Clipping a norm reduces all groups of its unit. The sum of their sizes may be larger than the
  norm, and then more is lost. Histograms of both say how much (`spread`).
* Beyond the outermost visible octave there may be hidden units. Where the counts fall towards it,
  they are extrapolated a few octaves further, each time falling faster, and combined with the
  counts there. A bound may lie beyond the visible octaves. Where they do not fall, or where the
  extrapolated units would have been visible, norms end sharply.

Clipping adds a bias that the histogram cannot estimate where it matters: units in hidden octaves
may hold everything. The histogram bounds how many units are clipped instead (`NormBound.above`).

Private keys are selected by counts of units that are scaled too, and the error says little about
them. With a small bound more keys are released and all counts are too small; with a large one few
are released. A key needs the threshold over the average count of one of its units, which the
histogram estimates. Of the bounds with which it needs about the fewest units, the largest is taken
(`for_keys`).

Proof (PRIVACY.md R71, R76). A unit that comes or goes changes one count by one, and a choice that
reads noisy counts and public numbers alone is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, erf, exp, inf, isqrt, log, pi, sqrt

from dpsql.mechanisms.error import standard_deviation
from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.vocabulary import Mechanism, Noise

_FAR, _NEAR = 1e-6, 0.01
"""Probability that an empty octave stands out anywhere, and next to one that stood out."""

_QUARTERS = 4
"""Number of candidates for the clipping bound in an octave."""

_BEYOND = 3
"""Number of octaves beyond the last visible one to which counts are extrapolated."""

_STEEPER, _FLATTEST = 0.7, 0.9
"""Least steepening of a fall from one octave to the next, and the slowest first fall."""

_WELL = 4
"""Multiple of the visible count of units from which noise hides little of their position."""

_SURE = 2.0
"""Standard deviations that a sum stays within at 97 %, of Laplace noise too."""

_HIDDEN = 2.0
"""Standard deviations of noise that an octave's count is raised to, for units that may be
hidden.
"""

_TIE = 1 - 1e-9
"""Relative tolerance of equal errors: the smaller one must not depend on the last bit of a
logarithm.
"""

_ABOUT = 1.1
"""Factor within which numbers of units per key are equal, so that the larger bound is taken."""

_LN2 = log(2)

_SHARES = {(1, False): Fraction(3, 20), (1, True): Fraction(1, 10)} | {
    (2, False): Fraction(1, 5),
    (2, True): Fraction(3, 20),
}
_SHARES_OF_TOTALS = {False: Fraction(3, 10), True: Fraction(1, 5)}
_MANY_GROUPS = 8
HALVED = 16
"""Number of groups from which the histogram has halves of octaves."""


@dataclass(frozen=True, slots=True)
class Octaves:
    """Bins of whole norms, where `whole` steps are 1: octave i has norms in (2^(i-1), 2^i].

    i goes from `lowest` to `highest`. Smaller norms count in the lowest octave, larger ones in the
    highest. No bin is below a step. Of two `parts` the first is up to 2^(i-1/2).

    >>> [Octaves(2, 10).of(norm) for norm in (0, 4, 5, 8, 9, 5000)]
    [2, 2, 3, 3, 4, 10]
    >>> [Octaves(-3, 10, whole=100).of(norm) for norm in (0, 12, 13, 50, 51, 100, 101, 6400)]
    [-3, -3, -2, -1, 0, 0, 1, 6]
    >>> Octaves(2, 4, 2).places
    range(3, 9)
    """

    lowest: int
    highest: int
    parts: int = 1
    whole: int = 1

    @property
    def places(self) -> range:
        """Bins of the histogram: octaves, or halves of them by the doubled exponents of
        their ends.
        """
        return range(self.parts * (self.lowest - 1) + 1, self.parts * self.highest + 1)

    @property
    def most(self) -> int:
        """Upper end of the highest octave."""
        return self.end(_QUARTERS * self.highest)

    def of(self, norm: int) -> int:
        """Return the octave that a norm counts in."""
        least = octave_of(norm, self.whole) if norm else self.lowest
        return min(max(least, self.lowest), self.highest)

    def end(self, quarters: int) -> int:
        """Return 2^(quarters/4) in steps, rounded down, the same on every machine."""
        fourth = self.whole**4
        return isqrt(isqrt(fourth << quarters if quarters >= 0 else fourth >> -quarters))

    def middle(self, place: int) -> float:
        """Return the middle of the octave at a place."""
        return self.end(_QUARTERS * (self.lowest + place)) / sqrt(2)

    def beyond(self, bound: int) -> int:
        """Return the place of the first octave with norms above a bound."""
        return max(0, octave_of(bound + 1, self.whole) - self.lowest)


@dataclass(frozen=True, slots=True)
class NormBound:
    """A clipping bound for norms, in whole steps, and a 95 % upper bound on the units above it.

    Where no octave stands out, the bound is not `visible`: there are too few units to find one.
    `error` is the predicted error of a group.
    """

    bound: int
    above: int
    visible: bool
    error: float = field(default=inf, compare=False, repr=False)


def octave_of(norm: int, whole: int) -> int:
    """Return the least i for which a positive norm is at most 2^i, where `whole` steps are 1."""
    if norm > whole:
        return ((norm - 1) // whole).bit_length()
    return 1 - (whole // norm).bit_length()


def share(order: int, groups: int, *, total: bool = False) -> Fraction:
    """Return the share of the budget for the histogram, by the accountant's order and public
    groups.

    The order is 1 where amounts are ρ and 2 where they are ε. A single number needs a bound that
    clips few units, and finding it takes more. For a `total` the tail is estimated as well.

    >>> share(1, 53), share(2, 1), share(2, 1, total=True)
    (Fraction(1, 10), Fraction(1, 5), Fraction(3, 10))
    """
    many = groups >= _MANY_GROUPS
    return _SHARES_OF_TOTALS[many] if total else _SHARES[order, many]


def largest(octaves: Octaves, counts: Sequence[int], votes: Noise) -> tuple[int, bool]:
    """Return the upper end of the outermost octave that stands out, and whether one does."""
    last, visible = _last(counts, votes)
    return octaves.end(_QUARTERS * (octaves.lowest + last)), visible


def chosen(
    octaves: Octaves,
    counts: Sequence[int],
    votes: Noise,
    noise_of: Callable[[int], float],
    *,
    gaussian: bool,
    groups: float,
    weight: float,
) -> NormBound:
    """Return the clipping bound of least predicted error, from noisy counts, the lowest octave
    first.

    `votes` is the distribution of their noise. `noise_of` returns the standard deviation, in steps,
    of the answer's noise for a bound, which is `gaussian` or Laplace noise. The total norm that
    clipping removes is lost `weight` times, over all `groups` together.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> votes = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> counts, law = [10, -3, 6, 104, 890, 1012, 413, 2, -7, 1], {"groups": 1, "weight": 1}
    >>> chosen(Octaves(0, 9), counts, votes, lambda clip: 2.0 * clip, gaussian=False, **law)
    NormBound(bound=64, above=21, visible=True)
    """
    expected, parts = seen(counts, votes, octaves.parts), octaves.parts
    bound, least = 1, inf
    for clip, cut in _cuts(expected, octaves):
        error = mean_error(cut * weight / groups, noise_of(clip), gaussian=gaussian)
        if error < least * _TIE:
            bound, least = clip, error
    more = counts[parts * octaves.beyond(bound) :]
    return NormBound(bound, at_most(more, votes), expected.visible, least)


def spread(norms: Seen, sizes: Seen, votes: Noise) -> float:
    """Return the ratio of sizes to other norms of the same units, which are nowhere larger.

    It compares two histograms in the same octaves, for the largest units that are well visible.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> law = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> small, large = (seen(counts, law) for counts in ([1, 900, 2, -3], [2, 1, 3, 898]))
    >>> round(spread(small, large, law), 1)
    4.0
    """
    few = _WELL * visible_from(votes)
    return float(max(1.0, 2 ** (_place_of(sizes, few) - _place_of(norms, few))))


def _place_of(expected: Seen, few: float) -> float:
    """Return the fractional octave above which the largest `few` units are, or half of all."""
    parts = [
        (place - n / len(each), max(count, 0.0), 1 / len(each))
        for place, each in enumerate(expected.parts)
        for n, count in enumerate(reversed(each))
    ]
    left = min(few, sum(count for _, count, _ in parts) / 2)
    for end, count, width in sorted(parts, reverse=True):
        if left < count:
            return end - width * left / count
        left -= count
    return 0.0


def at_most(counts: Sequence[int], votes: Noise) -> int:
    """Return a 95 % upper bound on the number of units in all of these octaves."""
    return max(0, ceil(sum(counts) + _SURE * standard_deviation(votes) * sqrt(len(counts))))


@dataclass(frozen=True, slots=True)
class Seen:
    """Estimated units per octave: the first `places` are counted, later ones are extrapolated.

    Where no octave stands out, they are not `visible`. Each octave has one or two of `parts`. The
    noise of an octave has this `deviation`.
    """

    units: tuple[float, ...]
    places: int
    visible: bool
    parts: tuple[tuple[float, ...], ...]
    deviation: float

    def fall(self, place: int) -> float:
        """Return the ratio of densities of units at the end and the beginning of an octave.

        It interpolates between the adjacent octaves, as far as noise does not hide these.
        """
        around = (*self.units[max(0, place - 1) : place + 2], 0.0)
        least = _HIDDEN * self.deviation
        before, after = (max(n, least) for n in (around[0], around[min(place, 1) + 1]))
        return sqrt(after / before)


def seen(counts: Sequence[int], votes: Noise, parts: int = 1) -> Seen:
    """Estimate units from the noisy counts of octaves, up to the last octave that has any.

    With two `parts` the counts are those of halves, which are added to decide whether an octave has
    units.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> votes = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> seen([10, -3, 6, 104, 890, 1012, 413, 2, -7, 1], votes).places
    7
    """
    halves = [tuple(map(float, counts[n : n + parts])) for n in range(0, len(counts), parts)]
    sums, law = [int(sum(each)) for each in halves], _added(votes, parts)
    last, visible = _last(sums, law)
    units = [float(count) for count in sums[: last + 1]]
    beyond = list(_beyond(sums, last, law)) if visible else []
    each = (*halves[: last + 1], *((count,) for count in beyond))
    return Seen((*units, *beyond), last + 1, visible, each, standard_deviation(law))


def _added(votes: Noise, parts: int) -> Noise:
    """Return noise with the deviation of the sum of `parts` draws, and with tails that are no
    lighter.
    """
    if parts == 1:
        return votes
    if votes.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return replace(votes, scale=votes.scale * parts)
    return replace(votes, scale=votes.scale * Fraction(sqrt(parts)))


def least_seen(votes: Noise) -> int:
    """Return the number of units with which an octave stands out."""
    return reach(votes, _FAR)


def visible_from(votes: Noise) -> int:
    """Return the number of units of one octave that stand out anywhere, under this noise."""
    return reach(votes, _FAR)


def for_keys(
    octaves: Octaves,
    counts: Sequence[int],
    votes: Noise,
    unit: int,
    power: int,
    threshold_of: Callable[[int], float],
) -> NormBound:
    """Return the largest clipping bound with which a private key needs about the fewest units.

    A norm is that of `unit` in each of a unit's keys, and its `power` adds up. `threshold_of`
    returns the threshold of a scaled count of units for a bound. Units are weighted by their keys.
    If nothing is visible, each unit is assumed to have one key.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> votes = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> counts = [10, -3, 6, 104, 890, 1012, 413, 2, -7, 1]
    >>> for_keys(Octaves(0, 9), counts, votes, 4, 2, lambda clip: 1 + 20 * clip).bound
    19
    """
    last, visible = _last(counts, votes)
    near = reach(votes, _NEAR)
    clips, keys = [unit], [(float(unit), 1.0)]
    if visible:
        voted = ((octaves.middle(place), n) for place, n in enumerate(counts[: last + 1]))
        norms = [(max(unit, middle), n) for middle, n in voted if n >= near]
        keys = [(norm, n * (norm / unit) ** power) for norm, n in norms]
        quarters = range(_QUARTERS * octaves.lowest, _QUARTERS * (octaves.lowest + last) + 1)
        clips += [clip for clip in map(octaves.end, quarters) if clip > unit]
    met = sum(n for _, n in keys)

    def needed(clip: int) -> float:
        """Return the number of units of a key that is released with probability one half."""
        return threshold_of(clip) * met / sum(n * min(1.0, clip / norm) for norm, n in keys)

    units = list(map(needed, clips))
    about = _ABOUT * min(units)
    bound = max(clip for clip, each in zip(clips, units, strict=True) if each <= about)
    more = counts[octaves.beyond(bound) :]
    return NormBound(bound, at_most(more, votes), visible)


def last_octave(counts: Sequence[int], votes: Noise) -> int:
    """Return the place of the outermost octave that stands out, or of the largest."""
    return _last(counts, votes)[0]


def _last(counts: Sequence[int], votes: Noise) -> tuple[int, bool]:
    """Return the place of the outermost octave that stands out, and whether there is one."""
    far, near = visible_from(votes), reach(votes, _NEAR)
    seen = [place for place, count in enumerate(counts) if count >= far]
    last = seen[-1] if seen else max(range(len(counts)), key=counts.__getitem__)
    for place in range(last + 1, len(counts)):
        if counts[place] >= near:
            last = place
        elif place - last > 1:
            break
    return last, bool(seen)


def _beyond(counts: Sequence[int], last: int, votes: Noise) -> Iterator[float]:
    """Yield the expected units in octaves beyond the last; none where counts rise towards it.

    The fall from the last two octaves steepens by as much as it steepened before. The uncertainty
    of an expected count is as large as the count. It is combined with the measured count by their
    variances, and limits the counts farther out. If the expected units would have been visible,
    norms end here.
    """
    third, second, first = ([0, 0, *counts])[last : last + 3]
    if not 0 < first < second:
        return
    far, variance = visible_from(votes), standard_deviation(votes) ** 2
    fall, expected = min(first / second, _FLATTEST), float(first)
    steeper = _STEEPER * min(max(first * third / second**2, 0.0), 1.0)
    for count in counts[last + 1 : last + 1 + _BEYOND]:
        fall *= steeper
        expected *= fall
        if expected > far:
            return
        weight = expected**2 / (variance + expected**2)
        weighed = max(0.0, expected + weight * (count - expected))
        yield weighed
        expected = min(expected, weighed)


def _cuts(expected: Seen, octaves: Octaves) -> Iterator[tuple[int, float]]:
    """Yield candidates for the bound, the largest first, with the total norm that each one removes.

    Counts are noisy, so the sums need not rise where the bound falls: the maximum so far is used.
    """
    units = norms = most = 0.0
    for upper, lower, count in _quarters(expected, octaves):
        most = max(most, norms - units * upper)
        yield upper, most
        units += count
        norms += count * ((upper - lower) / log(upper / lower) if lower else upper / (2 * _LN2))


def _quarters(expected: Seen, octaves: Octaves) -> Iterator[tuple[int, int, float]]:
    """Yield quarters of octaves, the largest first: their whole ends, and the units in each."""
    for place, parts in reversed(list(enumerate(expected.parts))):
        octave, each = octaves.lowest + place, _QUARTERS // len(parts)
        fall = expected.fall(place)
        for part in reversed(range(len(parts))):
            ends = range(_QUARTERS * (octave - 1) + part * each, _QUARTERS * octave + 1)[: each + 1]
            pairs = [
                pair for pair in pairwise(map(octaves.end, reversed(ends))) if pair[0] > pair[1]
            ]
            weights = [fall ** ((len(pairs) - n) / _QUARTERS) for n in range(len(pairs))]
            for (upper, lower), weight in zip(pairs, weights, strict=True):
                yield upper, lower, parts[part] * weight / sum(weights)


def mean_error(bias: float, deviation: float, *, gaussian: bool) -> float:
    """Return the mean of |bias + noise|."""
    if gaussian:
        z = bias / deviation
        return deviation * sqrt(2 / pi) * exp(-z * z / 2) + bias * erf(z / sqrt(2))
    scale = deviation / sqrt(2)
    return bias + scale * exp(-bias / scale)
