"""Contribution bounds: the price of polls, and the clipping bounds from their noisy counts.

Proof (PRIVACY.md R64, R71, R97). A poll is an ordinary question over public keys. Choosing a bound
by its noisy counts is post-processing, and clipping is valid for any bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from math import inf, sqrt
from typing import TypeAlias, assert_never

from dpsql import accountants
from dpsql.accountants import Accountant
from dpsql.compiler.calibrate.poll_queries import places
from dpsql.compiler.calibrate.typed_ratios import RATIO_STEPS
from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    MeanVote,
    RangeVote,
    RatioVote,
    RowCount,
    UnitCount,
    Vote,
)
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, Payment, Poll
from dpsql.compiler.plan.published_keys import ThresholdKeys, TopKeys
from dpsql.mechanisms import norm_bounds, standard_deviation
from dpsql.mechanisms.clipping_bias import ClippedAnswer, best_bound, lost_part
from dpsql.mechanisms.norm_bounds import (
    NormBound,
    chosen,
    for_keys,
    seen,
    spread,
    visible_from,
)
from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Answer, Budget, Mechanism, Noise, Norm
from dpsql.preparation.private_bounds import shares

_SEEN = 1e-6
"""Probability that an empty place of means counts as inhabited, which may be far off."""
_OF_RANKS, _OF_RANKS_OF_SUMS = 0.005, 0.05
"""Rank errors per clipped amount, of values and of sums. Clipped rows leave rows on either side of
a rank. A unit's sum depends more on its number of rows than the values of a column do.
"""
_SPREAD = 0.4
"""Power of the number of groups by which clipping all groups exceeds clipping an L2 norm,
roughly.
"""
_FAR = 8
"""Limit on a place of means, as a multiple of the median."""
_BETWEEN_NORMS = 1.41
"""Ratio of the loss of all groups to that of the L2 norm, if both norms end in one octave."""
_FOR_CENTRES = Fraction(1, 20)
_MANY_KEYS = 2**20
"""Number of groups whose share of the charge holds for any number of shown keys."""


def share(widest: Prepared, accountant: Accountant) -> Fraction:
    """Return the share of a question's loss that all its searches for norms may spend together.

    The number of shown keys was released to one analyst: it must not decide what is charged.
    """
    polls = widest.polls
    if polls[0].first:
        return _FOR_CENTRES
    order, shown = accountant.order, any(block.lists_shown for block in widest.blocks)
    return max(
        norm_bounds.share(order, _MANY_KEYS if shown else poll.groups, total=_is_of_total(poll))
        for poll in polls
    )


def _is_of_total(poll: Poll) -> bool:
    """Return whether the norm bounds a sum of rows in groups that are public, or of which a unit
    is in one: its bias is estimated.
    """
    vote = poll.block.vote
    total = vote.total if isinstance(vote, Vote) else None
    return poll.listed and poll.column is not None and isinstance(total, RowCount | ClippedSum)


@dataclass(frozen=True, slots=True)
class Split:
    """Division of a question's charge: `part` is the share of its polls, with epsilon `polls`. The
    question itself has epsilon `rest`.
    """

    part: Fraction
    polls: Decimal
    rest: Decimal


def split(widest: Prepared, budget: Budget, epsilon: Decimal) -> Split:
    """Return the division of the charge for a question that needs polls."""
    accountant = accountants.get(budget.accountant)
    part = share(widest, accountant)
    polls, rest = shares(accountant, budget, epsilon, 1, part, selecting=(widest.selects,))
    return Split(part, polls, rest)


Held: TypeAlias = tuple[tuple[str, ...], Prepared, Answer]
"""Keys of polls that were held together, their plan, and the answer."""


def norms_of(widest: Prepared, answers: Sequence[Held]) -> tuple[FoundNorm, ...]:
    """Return the norms for a question, from the answers to the polls that it needs."""
    results = {
        key: _Result(place, paid, answer)
        for keys, paid, answer in answers
        for place, key in enumerate(keys)
    }
    sizes = {poll.beside: poll for poll in widest.polls}
    bounds = dict[str, FoundNorm]()
    for poll in widest.polls:
        if poll.beside is not None:
            beside = next(other for other in widest.polls if other.key == poll.beside)
            both = _of_both(widest, (poll, results[poll.key]), (beside, results[beside.key]))
            bounds |= {norm.key: norm for norm in both}
        elif poll.key not in sizes:
            bounds[poll.key] = _norm_of(widest, poll, results[poll.key])
    return tuple(bounds[poll.key] for poll in widest.polls)


@dataclass(frozen=True, slots=True)
class _Result:
    """A poll's place among those that were held together, their plan, and their answer."""

    place: int
    paid: Prepared
    answer: Answer

    def counts(self, poll: Poll) -> list[int]:
        """Return the noisy counts of a poll, one for each of its places, in order."""
        votes = {what: units for number, what, units in self.answer.rows if number == self.place}
        return [int(votes[what]) for what in places(poll)]

    @property
    def noise(self) -> Noise:
        (release,) = self.paid.blocks[self.place].releases
        return release.noise


def _norm_of(widest: Prepared, poll: Poll, result: _Result) -> FoundNorm:
    vote, counts, noise = poll.block.vote, result.counts(poll), result.noise
    match vote:
        case Vote() if _is_of_total(poll):
            return _of_total(poll, vote, counts, noise, _law(widest, poll, vote), 0.0)[0]
        case Vote():
            choose = _for_keys if poll.of_keys else _chosen
            best = choose(widest, poll, vote, counts, noise)
            norm = FoundNorm(poll.key, best.bound, best.above, best.visible)
            return _with_bias(norm, poll, vote, counts, noise, _law(widest, poll, vote))
        case MeanVote():
            means = [vote.total.lower, *vote.edges, vote.total.upper]
            return _middle(poll.key, means, counts, noise)
        case RatioVote(edges=edges):
            lowest = min(edges[0], Fraction(0))
            ratios = [int(RATIO_STEPS * edge) for edge in (lowest, *edges, edges[-1])]
            return _middle(poll.key, ratios, counts, noise)
        case RangeVote():
            bound, visible = norm_bounds.largest(vote.bins, counts, noise)
            return FoundNorm(poll.key, bound, 0, visible)
        case None:
            raise AssertionError(poll)
        case _:
            assert_never(vote)


def _chosen(
    widest: Prepared, poll: Poll, vote: Vote, counts: Sequence[int], noise: Noise
) -> NormBound:
    law = _law(widest, poll, vote)
    alone = vote.norm is not Norm.MAX or law.one_group
    groups = poll.groups if alone else 1
    spread = law.gaussian and vote.norm is not Norm.MAX and not poll.alone
    weight = groups**_SPREAD if spread else 1.0
    if poll.column is None:
        weight = _OF_RANKS_OF_SUMS if poll.of_sums else _OF_RANKS
    return _least(vote, counts, noise, law, groups, weight)


def _of_total(
    poll: Poll, vote: Vote, counts: Sequence[int], noise: Noise, law: _Law, more: float
) -> tuple[FoundNorm, float]:
    """The bound with the narrowest interval, and half of its width.

    All groups together lose at most `more` times what norms lose (0: that is not known).
    """
    spread = 1.0 if vote.norm is not Norm.L2 else sqrt(min(poll.groups, law.l0))
    answer = ClippedAnswer(
        deviation=law.deviation,
        gaussian=law.gaussian,
        groups=poll.groups,
        weight=min(more or spread, spread),
        signs=vote.total.total_lower < 0 < vote.total.total_upper,
    )
    best = best_bound(vote.bins, vote.most, counts, noise, answer)
    above = norm_bounds.at_most(counts[vote.bins.beyond(best.bound) :], noise)
    visible = max(counts) >= visible_from(noise)
    return FoundNorm(poll.key, best.bound, above, visible, bias=best.bias), best.width


def _of_both(
    widest: Prepared, norms: tuple[Poll, _Result], sizes: tuple[Poll, _Result]
) -> Iterator[FoundNorm]:
    """Yield the clipping bounds for both norms of the same totals.

    The L2 norm is used unless the L1 norm with Laplace noise is predicted to err less. The L1 norm
    shows how much more clipping affects all groups together than the L2 norm does.
    """
    both = [(poll, result.counts(poll), result.noise) for poll, result in (norms, sizes)]
    (poll, *_), (first, second) = norms, [p.block.vote for p, _, _ in both]
    assert isinstance(first, Vote)
    assert isinstance(second, Vote)
    law = _law(widest, poll, first)
    if not _is_of_total(poll):
        yield from _of_both_by_error(both, (first, second), law)
        return
    ends = [norm_bounds.last_octave(counts, noise) for _, counts, noise in both]
    more = _BETWEEN_NORMS * 2.0 ** max(0, ends[1] - ends[0])
    laws = (first, law, more), (second, law.of_sizes, 1.0)
    best = [
        _of_total(each, vote, counts, noise, of, weight)
        for (each, counts, noise), (vote, of, weight) in zip(both, laws, strict=True)
    ]
    instead = poll.either and best[1][1] < best[0][1]
    for norm, _ in best:
        yield replace(norm, instead=instead and norm.key != poll.key)


def _of_both_by_error(
    both: Sequence[tuple[Poll, Sequence[int], Noise]], votes: tuple[Vote, Vote], law: _Law
) -> Iterator[FoundNorm]:
    """The same for private groups, whose bias is not known: the norm with the least mean error."""
    poll = both[0][0]
    of_norms, of_sizes = (
        seen(counts, noise, vote.parts)
        for vote, (_, counts, noise) in zip(votes, both, strict=True)
    )
    more = min(spread(of_norms, of_sizes, both[0][2]), sqrt(poll.groups))
    laws = law, law.of_sizes
    clips = [
        _least(vote, counts, noise, of, poll.groups, weight)
        for vote, (_, counts, noise), of, weight in zip(votes, both, laws, (more, 1.0), strict=True)
    ]
    instead = poll.either and clips[1].error < clips[0].error
    for (each, counts, noise), best, vote, of in zip(both, clips, votes, laws, strict=True):
        taken = instead and each is not poll
        norm = FoundNorm(each.key, best.bound, best.above, best.visible, instead=taken)
        yield _with_bias(norm, each, vote, counts, noise, of)


def _with_bias(
    norm: FoundNorm, poll: Poll, vote: Vote, counts: Sequence[int], noise: Noise, law: _Law
) -> FoundNorm:
    """Return the norm of totals in private groups with the bias of its bound.

    All groups together lose at most √l0 times what L2 norms lose. For a unit that is counted in k
    groups the factor is its norm √k, so the largest norm that stands out bounds it too.
    """
    if poll.column is None or vote.norm is Norm.MAX:
        return norm
    bins, counted = vote.bins, isinstance(vote.total, UnitCount) and vote.norm is Norm.L2
    last = norm_bounds.last_octave(counts, noise)
    weight = sqrt(law.l0) if vote.norm is Norm.L2 else 1.0
    if counted:
        weight = min(weight, bins.end(4 * (bins.lowest + last)) / vote.steps)
    signs = vote.total.total_lower < 0 < vote.total.total_upper
    answer = ClippedAnswer(law.deviation, law.gaussian, poll.groups, weight, signs)
    bias = best_bound(bins, vote.most, counts, noise, answer, norm.bound).bias
    if counted:
        beyond = norm_bounds.at_most(counts[last + 1 :], noise) * vote.steps
        part = lost_part(bins, counts, noise, norm.bound)
        bias = replace(bias, part=part, beyond=float(beyond))
    return replace(norm, bias=bias)


def _least(
    vote: Vote, counts: Sequence[int], noise: Noise, law: _Law, groups: float, weight: float
) -> NormBound:
    return chosen(
        vote.bins,
        counts,
        noise,
        lambda bound: law.deviation * bound,
        gaussian=law.gaussian,
        groups=groups,
        weight=weight,
    )


def _for_keys(
    widest: Prepared, poll: Poll, vote: Vote, counts: Sequence[int], noise: Noise
) -> NormBound:
    """Return the norm of a unit's counts that reveals about the most private keys: see `Poll`."""
    keys = (block.keys for block in widest.blocks)
    (threshold,) = (
        shown.threshold
        for shown in keys
        if isinstance(shown, ThresholdKeys) and poll.column in shown.counted
    )
    unit = threshold.counted.unit
    noisy = (threshold.value - unit) / threshold.counted.most
    power = 2 if vote.norm is Norm.L2 else 1
    return for_keys(vote.bins, counts, noise, unit, power, lambda bound: unit + noisy * bound)


def _middle(key: str, ends: Sequence[int], counts: Sequence[int], noise: Noise) -> FoundNorm:
    """Return roughly the mean of means, from places with significant counts; else the middle."""
    least = reach(noise, _SEEN / len(counts))
    places = zip(counts, pairwise(ends), strict=True)
    seen = [place for place in places if place[0] >= least]
    return FoundNorm(key, centre(seen) if seen else (ends[0] + ends[-1]) // 2, 0, bool(seen))


def centre(places: Sequence[tuple[int, tuple[int, int]]]) -> int:
    """Return roughly the mean of values that are counted by place, in order of their ends.

    An empty place far out may have noisy counts. So no value counts as farther from the median than
    some multiple of the median or of its place's width.

    >>> centre([(50, (0, 2)), (900, (8, 12)), (60, (2**30, 2**31))])
    14
    """
    total = sum(count for count, _ in places)
    below = accumulate(count for count, _ in places)
    low, high = next(ends for (_, ends), n in zip(places, below, strict=True) if 2 * n >= total)
    median = (low + high) // 2
    room = _FAR * max(abs(median), high - low)
    middles = ((count, (low + high) // 2) for count, (low, high) in places)
    return sum(n * max(median - room, min(median + room, x)) for n, x in middles) // total


def placeholder(poll: Poll) -> FoundNorm:
    """Return a placeholder for an unknown centre, to find out which other bounds are needed."""
    vote = poll.block.vote
    if isinstance(vote, RatioVote):
        return FoundNorm(poll.key, 0, 0, visible=False)
    assert isinstance(vote, MeanVote)
    return FoundNorm(poll.key, (vote.total.lower + vote.total.upper) // 2, 0, visible=False)


@dataclass(frozen=True, slots=True)
class _Law:
    """Standard deviation of the answer's noise for a bound of one step, and its kind.

    `in_l1` is that of Laplace noise for a step of the L1 norm over all groups. With `one_group`, a
    unit is in at most one group.
    """

    deviation: float
    gaussian: bool
    one_group: bool
    in_l1: float = inf
    l0: int = 1

    @property
    def of_sizes(self) -> _Law:
        """Deviation for answers with a bounded L1 norm."""
        return _Law(self.in_l1, gaussian=False, one_group=self.one_group, l0=self.l0)


def _law(widest: Prepared, poll: Poll, vote: Vote) -> _Law:
    """Return the noise of the answer; for ranks, the rank error of a choice in rows.

    For a choice of keys that shows no sum, it is the error of the sum that it decides by.
    """
    most = vote.bins.most
    for block in widest.blocks:
        one = block.l0 == 1
        for release in block.releases:
            if release.field.id == poll.column:
                return _law_of(release.payment, block.l0)
        if isinstance(block.keys, TopKeys) and block.keys.place is not None:
            error = sqrt(2) / float(block.keys.top.rate)
            return _Law(error / most, gaussian=False, one_group=one, l0=block.l0)
        for choice in block.choices:
            if choice.query.histogram.rows == most:
                error = sqrt(2) / float(choice.rate * choice.aim.per_row)
                return _Law(error / most, gaussian=False, one_group=one)
        for tree in block.trees:
            if tree.histogram.rows == most:
                return _Law(tree.error / most, gaussian=True, one_group=one)
    raise AssertionError(poll)


def _law_of(payment: Payment, l0: int) -> _Law:
    sensitivity = payment.sensitivity
    gaussian = payment.alone.mechanism is Mechanism.DISCRETE_GAUSSIAN
    deviation = standard_deviation(payment.alone) / max(sensitivity.linf, 1)
    noises = (payment.alone, payment.runner_up)
    others = (n for n in noises if n and n.mechanism is Mechanism.DISCRETE_LAPLACE)
    in_l1 = min((standard_deviation(n) / max(sensitivity.l1, 1) for n in others), default=inf)
    return _Law(deviation, gaussian, l0 == 1, in_l1, l0)
