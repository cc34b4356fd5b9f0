"""Top-k selection of public groups instead of releasing every group, if that errs less.

The keys are chosen one after another: a unit in many groups influences a choice by one
contribution, and a release by all of them. The numbers of the chosen groups are then measured only
there, where a unit can change at most k groups. Every share of the budget for the choice is tried.
The way with the smallest maximum error is taken, relative to the same error of a release of every
group (`dpsql.mechanisms.top_keys`).

Proof (PRIVACY.md R54). The rounds are charged for the change of two scores' difference by a unit in
any number of groups. Then the numbers of the k chosen groups are charged for at most k groups of a
unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.accountants import Accountant, Allowance
from dpsql.compiler.calibrate.key_selection import as_released
from dpsql.compiler.calibrate.top_shapes import TopShape, top_shape
from dpsql.compiler.plan.private_plan import BlockPlan, Contribution, Payment, Release
from dpsql.compiler.plan.published_keys import ListedKeys, TopKeys
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.top_keys import error_of_noise, top
from dpsql.model.algebra import Relation, Released
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.walk import relations

NOT_NEEDED = "no limit is needed: a unit sways a choice by one group's contribution"

SHARES = tuple(Fraction(n, 16) for n in range(1, 16))
"""Shares of the budget for a choice where the chosen groups are measured too."""


def with_top(
    blocks: tuple[BlockPlan, ...],
    queries: Sequence[Relation],
    paid: Sequence[Sequence[Allowance]],
    accountant: Accountant,
) -> tuple[tuple[BlockPlan, ...], list[Relation]]:
    """Let a block choose its first keys, if the query needs only these and that errs less.

    `queries` are the outer query and the stages, `paid` the allowances of each block. Returns the
    blocks and the queries over the columns that they then release.
    """
    shape = top_shape(queries[0], [len(block.block.keys) for block in blocks])
    read = [r.block for query in queries for r in relations(query) if isinstance(r, Released)]
    if shape is not None and read.count(shape.block) == 1:
        chosen = _chosen(blocks[shape.block], shape, paid[shape.block], accountant)
        blocks = tuple(chosen if n == shape.block else block for n, block in enumerate(blocks))
    return blocks, [as_released(query, blocks) for query in queries]


def _chosen(
    block: BlockPlan, shape: TopShape, paid: Sequence[Allowance], accountant: Accountant
) -> BlockPlan:
    keys = block.keys
    if (
        not isinstance(keys, ListedKeys)
        or block.block.several
        or block.histograms
        or any(r.stability is not None for r in block.releases)
    ):
        return block
    if any(key[place] is None for key in keys.domain for place in shape.filled):
        return block
    if not shape.count < len(keys.domain):
        return block
    measured = shape.shown or len(block.releases) > 1
    shares = SHARES if measured else (Fraction(1),)
    choice = _Choice(block, keys, shape, accountant, measured=measured)
    plans = [
        choice.with_share(share, paid)
        for share in shares
        if min(_epsilons(paid, share, shape.count, accountant)) > 0
    ]
    best = min(plans, key=lambda way: _worst(way, block), default=block)
    return best if _worst(best, block) < 1 else block


def _epsilons(
    paid: Sequence[Allowance], share: Fraction, rounds: int, accountant: Accountant
) -> tuple[Fraction, Fraction]:
    """Return the ε of each round of the exponential mechanism, and of permute-and-flip."""
    amount = share * sum((allowance.amount for allowance in paid), Fraction(0))
    return accountant.choice(amount, rounds), accountant.step(amount / rounds)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice of a block's groups, which are then `measured` if numbers are shown."""

    block: BlockPlan
    keys: ListedKeys
    shape: TopShape
    accountant: Accountant
    measured: bool = field(kw_only=True)

    def with_share(self, share: Fraction, paid: Sequence[Allowance]) -> BlockPlan:
        """Return the block that spends a share of the budget on its choice, the rest on
        measurements.
        """
        block, shape, accountant = self.block, self.shape, self.accountant
        (scored,) = (r for r in block.releases if r.field.id == shape.scored)
        keys = len(self.keys.domain)
        ranged, stepped = _epsilons(paid, share, shape.count, accountant)
        unlimited = replace(scored.sensitivity, l0=keys)
        cheapest = min(
            (
                top(shape.count, keys, unlimited, epsilon, lowest=shape.lowest, flips=flips)
                for epsilon, flips in ((ranged, False), (stepped, True))
            ),
            key=lambda way: way.error,
        )
        l0 = min(shape.count, keys if block.enforce_l0 else block.l0)
        rest = [allowance.share(1 - share) for allowance in paid]
        return replace(
            block,
            releases=_measured(block, rest, l0, accountant) if self.measured else (),
            keys=TopKeys(
                domain=self.keys.domain,
                within=self.keys.within,
                top=cheapest,
                unreleased=scored.query,
                otherwise=error_of_noise(scored.noise, keys),
                place=None if self.measured else scored.field,
            ),
            groups=Contribution(keys, NOT_NEEDED),
            enforce_l0=False,
            biased=block.biased if self.measured else (),
        )


def _measured(
    block: BlockPlan, rest: Sequence[Allowance], l0: int, accountant: Accountant
) -> tuple[Release, ...]:
    """Return the measurements of the chosen groups; the runner-up is the noise of a full
    release.
    """

    def of_few(payment: Payment, allowance: Allowance) -> Payment:
        sensitivity = replace(payment.sensitivity, l0=l0)
        noise = accountant.noise(allowance.amount, allowance.noise_delta, sensitivity)
        return Payment(noise, sensitivity, payment.columns, runner_up=payment.alone)

    paid = dict(zip(block.payments, map(of_few, block.payments, rest), strict=True))
    return tuple(replace(release, payment=paid[release.payment]) for release in block.releases)


def _worst(way: BlockPlan, block: BlockPlan) -> float:
    """Return the largest error of a way, relative to releasing every group of the block."""
    if not isinstance(way.keys, TopKeys):
        return 1.0
    measured = [
        standard_deviation(one.noise) / standard_deviation(every.noise)
        for one, every in zip(way.releases, block.releases, strict=False)
    ]
    return max([way.keys.top.error / way.keys.otherwise, *measured])
