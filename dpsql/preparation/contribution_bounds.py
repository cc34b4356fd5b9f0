"""Bounds of what a person contributes: what polls cost, and the clips that their votes say.

Proof (PRIVACY.md R64, R71). A poll is an ordinary question over public keys. What is chosen by its
noisy votes is post-processing, and clips hold whatever they are.
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
from dpsql.compiler.plan.measurement_kinds import MeanVote, RangeVote, RatioVote, Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, Payment, Poll
from dpsql.compiler.plan.published_keys import ThresholdKeys
from dpsql.mechanisms import norm_bounds, standard_deviation
from dpsql.mechanisms.norm_bounds import NormBound, Octaves, chosen, for_keys, seen, spread
from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Answer, Budget, Mechanism, Noise, Norm
from dpsql.preparation.private_bounds import shares

_SEEN = 1e-6
"""How probably an empty place of means is taken for one where there are people: it may be far."""
_OF_RANKS, _OF_RANKS_OF_SUMS = 0.005, 0.05
"""How much of what is cut a rank is off: those whose rows are cut have rows on either side. What a
unit's rows add up to depends more on how many they are than the values of a column do."""
_SPREAD = 0.4
"""The power of the groups that is about how much more is cut of all of them than of an L2 norm."""
_FAR = 8
"""How many times as far out as the median a mean of means may be drawn."""
_FOR_CENTRES = Fraction(1, 20)


def share(polls: Sequence[Poll], accountant: Accountant) -> Fraction:
    """What finding norms may spend of what a question may spend, for all of them together."""
    if polls[0].first:
        return _FOR_CENTRES
    return max(norm_bounds.share(accountant.order, poll.groups) for poll in polls)


@dataclass(frozen=True, slots=True)
class Split:
    """What the polls of a question take of its charge: a `part`; so they have an epsilon of
    `polls`, and what is asked with what they find has one of `rest`.
    """

    part: Fraction
    polls: Decimal
    rest: Decimal


def split(widest: Prepared, budget: Budget, epsilon: Decimal) -> Split:
    """How a question that needs polls is paid for."""
    accountant = accountants.get(budget.accountant)
    part = share(widest.polls, accountant)
    return Split(part, *shares(accountant, budget, epsilon, 1, part, selecting=(widest.selects,)))


Held: TypeAlias = tuple[tuple[str, ...], Prepared, Answer]
"""The keys of polls that were held together, as what, and the answer."""


def norms_of(widest: Prepared, answers: Sequence[Held]) -> tuple[FoundNorm, ...]:
    """The bounds for a question, by the answers to the polls that it needs."""
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
            both = (poll, results[poll.key]), (beside, results[beside.key])
            bounds |= {norm.key: norm for norm in _of_both(widest, *both)}
        elif poll.key not in sizes:
            bounds[poll.key] = _norm_of(widest, poll, results[poll.key])
    return tuple(bounds[poll.key] for poll in widest.polls)


@dataclass(frozen=True, slots=True)
class _Result:
    """The place of a poll among those that were held together, as what, and their answer."""

    place: int
    paid: Prepared
    answer: Answer

    def counts(self, poll: Poll) -> list[int]:
        """How many voted for what there is, in order."""
        votes = {what: units for number, what, units in self.answer.rows if number == self.place}
        return [int(votes[what]) for what in places(poll)]

    @property
    def noise(self) -> Noise:
        (release,) = self.paid.blocks[self.place].releases
        return release.noise


def _norm_of(widest: Prepared, poll: Poll, result: _Result) -> FoundNorm:
    vote, counts, noise = poll.block.vote, result.counts(poll), result.noise
    match vote:
        case Vote():
            choose = _for_keys if poll.of_keys else _chosen
            best = choose(widest, poll, vote, counts, noise)
            return FoundNorm(poll.key, best.bound, best.above, best.visible)
        case MeanVote():
            means = [vote.total.lower, *vote.edges, vote.total.upper]
            return _middle(poll.key, means, counts, noise)
        case RatioVote(edges=edges):
            lowest = min(edges[0], Fraction(0))
            ratios = [int(RATIO_STEPS * edge) for edge in (lowest, *edges, edges[-1])]
            return _middle(poll.key, ratios, counts, noise)
        case RangeVote():
            bound, visible = norm_bounds.largest(Octaves(*vote.octaves), counts, noise)
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


def _of_both(
    widest: Prepared, norms: tuple[Poll, _Result], sizes: tuple[Poll, _Result]
) -> Iterator[FoundNorm]:
    """The clips of both norms of the same totals, of which the L2 norm is taken unless the other
    is predicted to err less with Laplace noise: the L1 norm says how much more is cut of all
    groups together than of the L2 norm.
    """
    both = [(poll, result.counts(poll), result.noise) for poll, result in (norms, sizes)]
    poll, votes = norms[0], [p.block.vote for p, _, _ in both]
    first, second = votes
    assert isinstance(first, Vote)
    assert isinstance(second, Vote)
    of_norms, of_sizes = (seen(counts, noise, first.parts) for _, counts, noise in both)
    more = min(spread(of_norms, of_sizes, both[0][2]), sqrt(poll.groups))
    law = _law(widest, poll, first)
    laws = law, law.of_sizes
    clips = [
        _least(vote, counts, noise, of, poll.groups, weight)
        for vote, (_, counts, noise), of, weight in zip(
            (first, second), both, laws, (more, 1.0), strict=True
        )
    ]
    instead = poll.either and clips[1].error < clips[0].error
    for (each, _, _), best in zip(both, clips, strict=True):
        taken = instead and each is not poll
        yield FoundNorm(each.key, best.bound, best.above, best.visible, instead=taken)


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
    """The norm of a unit's counts that shows about the most private keys: see `Poll`."""
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
    """About the mean of the means, by the places between ends that stand out; else the middle."""
    least = reach(noise, _SEEN / len(counts))
    places = zip(counts, pairwise(ends), strict=True)
    seen = [place for place in places if place[0] >= least]
    return FoundNorm(key, centre(seen) if seen else (ends[0] + ends[-1]) // 2, 0, bool(seen))


def centre(places: Sequence[tuple[int, tuple[int, int]]]) -> int:
    """About the mean of as many values as are counted in each place between two ends, in order.

    A place far out that is empty may be counted for some: no value counts as more than some times
    as far from zero as the median, or so many times its place.

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
    """What stands for a centre that is not known, so that it is seen what else is to be found."""
    vote = poll.block.vote
    if isinstance(vote, RatioVote):
        return FoundNorm(poll.key, 0, 0, visible=False)
    assert isinstance(vote, MeanVote)
    return FoundNorm(poll.key, (vote.total.lower + vote.total.upper) // 2, 0, visible=False)


@dataclass(frozen=True, slots=True)
class _Law:
    """The deviation of the answer's noise for a bound of one step, and whether it is Gaussian.

    So much is that of Laplace noise for a step of the L1 norm over all groups, `in_l1`; a unit may
    be in `one_group` only.
    """

    deviation: float
    gaussian: bool
    one_group: bool
    in_l1: float = inf

    @property
    def of_sizes(self) -> _Law:
        """That of answers whose L1 norm is bounded."""
        return _Law(self.in_l1, gaussian=False, one_group=self.one_group)


def _law(widest: Prepared, poll: Poll, vote: Vote) -> _Law:
    """The law of the answer's noise; of ranks it is how many rows a choice is off."""
    most = vote.bins.most
    for block in widest.blocks:
        one = block.l0 == 1
        for release in block.releases:
            if release.field.id == poll.column:
                return _law_of(release.payment, one_group=one)
        for choice in block.choices:
            if choice.expected is not None and choice.query.histogram.rows == most:
                return _Law(choice.expected / most, gaussian=False, one_group=one)
        for tree in block.trees:
            if tree.histogram.rows == most:
                return _Law(tree.error / most, gaussian=True, one_group=one)
    raise AssertionError(poll)


def _law_of(payment: Payment, *, one_group: bool) -> _Law:
    sensitivity = payment.sensitivity
    gaussian = payment.alone.mechanism is Mechanism.DISCRETE_GAUSSIAN
    deviation = standard_deviation(payment.alone) / max(sensitivity.linf, 1)
    noises = (payment.alone, payment.runner_up)
    others = (n for n in noises if n and n.mechanism is Mechanism.DISCRETE_LAPLACE)
    in_l1 = min((standard_deviation(n) / max(sensitivity.l1, 1) for n in others), default=inf)
    return _Law(deviation, gaussian, one_group, in_l1)
