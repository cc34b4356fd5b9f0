"""A clip for the norm of what one unit contributes, chosen from noisy votes by predicted error.

Each unit votes once, for the octave that its norm is in. What is released of the votes is one noisy
number for each octave; everything below is computed from these numbers.

* The largest norm is looked for from the far end: the outermost octave whose count stands out so
  that of empty ones one in a million would, and from there on octaves that stand out a little, of
  which one in between may not. Looking from the peak outward instead ends at the first gap, and a
  tenth of the units a thousand times larger than the others would be cut.
* What a clip C takes away is a sum over octaves, within each of which counts are taken to fall or
  rise as they do from the octave before to the next; or over halves of them: over many groups a
  unit that noise hides takes little away, so that what it hides in halves is outweighed by where
  they tell that norms end. The clip with the least predicted error is taken, the mean |bias +
  noise| of a group.
* What is cut of a norm is cut of all groups of its unit: of their sizes together so many times as
  much as these add up to more than the norm. Votes for both say how much (`spread`).
* Beyond the outermost octave that is seen there may be units that cannot be. Where the counts fall
  towards it, they are taken to fall on in a few octaves more, each time faster than before, and are
  weighed with what was counted there: a clip may lie beyond what is seen. Where they do not fall,
  or so many would be there that they were seen, norms end sharply.

What is cut is a bias that the votes cannot tell where it matters: units in octaves that do not
stand out may hold everything. They bound how many are cut instead (`NormBound.above`).

Private keys are shown by counts of units that are scaled too, for which the error says little: with
a small clip more keys are shown and all counts are too small, with a large one few are. How many
units a key needs is the threshold over what one of its units counts on average, which the votes
say; of the clips with which it needs about the fewest, the largest is taken (`for_keys`).

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
"""How probably an empty octave stands out, anywhere, and next to one that stood out."""

_QUARTERS = 4
"""Candidates for the clip in an octave."""

_BEYOND = 3
"""So many octaves beyond the last that stands out, counts are taken to fall on."""

_STEEPER, _FLATTEST = 0.7, 0.9
"""By how much at least a fall steepens from one octave to the next, and the slowest first fall."""

_WELL = 4
"""Of so many times as many units as stand out, noise hides little of where they are."""

_SURE = 2.0
"""Deviations of noise that a sum stays within at 97 %, of Laplace noise too."""

_HIDDEN = 2.0
"""An octave is taken to have as many units as so many deviations of its noise: they may hide."""

_TIE = 1 - 1e-9
"""Errors so close are equal: which is less must not depend on the last bit of a logarithm."""

_ABOUT = 1.1
"""Keys that need so many times the fewest units are about as many: to cut less is worth that."""

_LN2 = log(2)

_SHARES = {(1, False): Fraction(3, 20), (1, True): Fraction(1, 10)} | {
    (2, False): Fraction(1, 5),
    (2, True): Fraction(3, 20),
}
_MANY_GROUPS = 8
HALVED = 16
"""From so many groups on votes are for halves of octaves."""


@dataclass(frozen=True, slots=True)
class Octaves:
    """Bins of whole norms, in steps of which `whole` are 1: octave i has those in (2^(i-1), 2^i],
    for i from `lowest` to `highest`.

    What is smaller counts in the lowest, what is larger in the highest. No bin is below a step. Of
    two `parts` the first is up to 2^(i-1/2).

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
        """What is voted for: octaves, or halves of them by the doubled exponents of their ends."""
        return range(self.parts * (self.lowest - 1) + 1, self.parts * self.highest + 1)

    @property
    def most(self) -> int:
        """The end of the highest."""
        return self.end(_QUARTERS * self.highest)

    def of(self, norm: int) -> int:
        """The octave that a norm counts in."""
        least = octave_of(norm, self.whole) if norm else self.lowest
        return min(max(least, self.lowest), self.highest)

    def end(self, quarters: int) -> int:
        """2^(quarters/4) in steps, rounded down, the same on every machine."""
        fourth = self.whole**4
        return isqrt(isqrt(fourth << quarters if quarters >= 0 else fourth >> -quarters))

    def middle(self, place: int) -> float:
        """The middle of the octave of a place."""
        return self.end(_QUARTERS * (self.lowest + place)) / sqrt(2)

    def beyond(self, bound: int) -> int:
        """The place of the first octave in which norms are above a bound."""
        return max(0, octave_of(bound + 1, self.whole) - self.lowest)


@dataclass(frozen=True, slots=True)
class NormBound:
    """A clip for norms, in whole steps, and at most about how many units have more (95 %).

    Where no octave stands out, the clip is not `visible`: there are too few units to find one. The
    `error` is what is predicted of a group.
    """

    bound: int
    above: int
    visible: bool
    error: float = field(default=inf, compare=False, repr=False)


def octave_of(norm: int, whole: int) -> int:
    """The least i with a positive norm of no more than 2^i, in steps of which `whole` are 1."""
    if norm > whole:
        return ((norm - 1) // whole).bit_length()
    return 1 - (whole // norm).bit_length()


def share(order: int, groups: int) -> Fraction:
    """What part of the budget the votes take, by the order of the accountant and public groups.

    The order is 1 where amounts are ρ and 2 where they are ε. One number needs a clip that cuts a
    few units, to see which takes more.

    >>> share(1, 53), share(2, 1)
    (Fraction(1, 10), Fraction(1, 5))
    """
    return _SHARES[order, groups >= _MANY_GROUPS]


def largest(octaves: Octaves, counts: Sequence[int], votes: Noise) -> tuple[int, bool]:
    """The end of the outermost octave that stands out, and whether one does."""
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
    """The clip of least predicted error, by the noisy counts of places, the lowest first.

    `votes` is the law of their noise; `noise_of` has the standard deviation, in steps, of the
    answer's noise for a clip, `gaussian` or Laplace's. Of what a clip takes from the norms of all
    units, `weight` times is lost over all of the `groups` together.

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
    """How many times as large sizes are as other norms of the same units, which are nowhere larger,
    by the votes for both in the same octaves: of as large units as can be told well.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> law = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
    >>> small, large = (seen(counts, law) for counts in ([1, 900, 2, -3], [2, 1, 3, 898]))
    >>> round(spread(small, large, law), 1)
    4.0
    """
    few = _WELL * visible_from(votes)
    return float(max(1.0, 2 ** (_place_of(sizes, few) - _place_of(norms, few))))


def _place_of(expected: Seen, few: float) -> float:
    """The octave, with a part, above which the largest `few` units are, or half of all."""
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
    """How many units there are at most in all of these octaves (95 %)."""
    return max(0, ceil(sum(counts) + _SURE * standard_deviation(votes) * sqrt(len(counts))))


@dataclass(frozen=True, slots=True)
class Seen:
    """The units that octaves are taken to have: of the first `places` what was counted.

    In octaves behind these, counts are taken to fall on. Where no octave stands out, they are not
    `visible`. Each octave has one of `parts`, or two. Their noise has a `deviation` in an octave.
    """

    units: tuple[float, ...]
    places: int
    visible: bool
    parts: tuple[tuple[float, ...], ...]
    deviation: float

    def fall(self, place: int) -> float:
        """How many times as many units there are where an octave ends as where it begins, by the
        octaves on either side, as far as noise does not hide these.
        """
        around = (*self.units[max(0, place - 1) : place + 2], 0.0)
        least = _HIDDEN * self.deviation
        before, after = (max(n, least) for n in (around[0], around[min(place, 1) + 1]))
        return sqrt(after / before)


def seen(counts: Sequence[int], votes: Noise, parts: int = 1) -> Seen:
    """What the noisy counts of octaves say, up to the last that there are taken to be units in.

    With two `parts` they are those of halves, which say nothing alone of whether units are there.

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
    """A law of the deviation of so many draws together, whose tails are no lighter."""
    if parts == 1:
        return votes
    if votes.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return replace(votes, scale=votes.scale * parts)
    return replace(votes, scale=votes.scale * Fraction(sqrt(parts)))


def least_seen(votes: Noise) -> int:
    """How many units an octave must have to stand out."""
    return reach(votes, _FAR)


def visible_from(votes: Noise) -> int:
    """How many units of one octave stand out anywhere, by the law of the noise on their number."""
    return reach(votes, _FAR)


def for_keys(
    octaves: Octaves,
    counts: Sequence[int],
    votes: Noise,
    unit: int,
    power: int,
    threshold_of: Callable[[int], float],
) -> NormBound:
    """The largest clip with which a private key needs about the fewest units to be shown.

    A norm is that of `unit` in each of a unit's keys, whose `power` adds up; `threshold_of` is what
    a scaled count of units has to reach for a clip. Units are met by their keys: those of many keys
    more often. Without votes that stand out, none is taken to have more keys than one.

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
        """The units of a key that is shown every other time."""
        return threshold_of(clip) * met / sum(n * min(1.0, clip / norm) for norm, n in keys)

    units = list(map(needed, clips))
    about = _ABOUT * min(units)
    bound = max(clip for clip, each in zip(clips, units, strict=True) if each <= about)
    more = counts[octaves.beyond(bound) :]
    return NormBound(bound, at_most(more, votes), visible)


def _last(counts: Sequence[int], votes: Noise) -> tuple[int, bool]:
    """The place of the outermost octave that stands out, and whether there is one."""
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
    """What is expected in the octaves beyond the last, of which none where counts rise to it.

    The fall from the last two steepens by as much as it steepened before. What is expected is as
    unsure as it is large: it and what was counted are weighed by their variances, and no more than
    that is expected farther out. Where so many are expected that they would have been seen, norms
    end: they were not.
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
    """Candidates for the clip, the largest first, and what each takes from the norms of all units.

    Counts are noisy, so that the sums need not rise where the clip falls: the largest so far holds.
    """
    units = norms = most = 0.0
    for upper, lower, count in _quarters(expected, octaves):
        most = max(most, norms - units * upper)
        yield upper, most
        units += count
        norms += count * ((upper - lower) / log(upper / lower) if lower else upper / (2 * _LN2))


def _quarters(expected: Seen, octaves: Octaves) -> Iterator[tuple[int, int, float]]:
    """Quarters of octaves, the largest first: their whole ends, and how many units are in each."""
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
    """The mean of |bias + noise|."""
    if gaussian:
        z = bias / deviation
        return deviation * sqrt(2 / pi) * exp(-z * z / 2) + bias * erf(z / sqrt(2))
    scale = deviation / sqrt(2)
    return bias + scale * exp(-bias / scale)
