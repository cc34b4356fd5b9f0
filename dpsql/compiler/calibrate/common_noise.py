"""Counts and sums of many public groups where the groups share one draw of noise.

Where one unit may be in many groups, such noise is less in each of them at the same loss, and more
in their sum. It is used for groups that are shown one by one. It is not used where the query adds
groups, joins or compares them, makes tables of several groupings agree, or where a later step reads
them. Errors of shown numbers are as usual. Errors of sums that a reader computes are not, and the
plan says so.

Proof (PRIVACY.md R58, R72). The spent amount is that of independent noise, a ρ or an ε with its δ.
The choice of noise depends on the text, on public keys and on limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.accountants import Accountant
from dpsql.accountants.conversion import epsilon_of, rho_of
from dpsql.compiler.calibrate.running_sums import with_running_sums
from dpsql.compiler.plan.private_plan import BlockPlan, Payment
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.consistency.marginals import Marginals
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.calibration import effective
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise, ManyGroups, correlated
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.model.algebra import Filter, Limit, Project, Relation, Released, Sort
from dpsql.model.vocabulary import (
    NANO,
    ApproximateEvent,
    Event,
    Mechanism,
    Noise,
    NoiseEvent,
)
from dpsql.model.walk import relations

_WORTH = 0.9
"""Largest ratio of the errors with shared noise to those without, for which it is used."""

_GUARD = 1 - Fraction(1, 1 << 26)
"""Factor slightly below 1, which leaves room for outward rounding of the price."""


def with_common_noise(
    blocks: tuple[BlockPlan, ...],
    queries: Sequence[Relation],
    levels: Sequence[Marginals],
    accountant: Accountant,
) -> tuple[BlockPlan, ...]:
    """Replace noise by noise that groups share, in blocks where the outputs then err less.

    Tables of `levels` are made to agree, and keep independent noise.
    """
    outer, *stages = queries
    staged = {r.block for stage in stages for r in relations(stage) if isinstance(r, Released)}
    agreeing = {table.block for tables in levels for table in tables.tables}
    shown = set(_shown_by_group(outer)) - staged - agreeing
    if shown:
        return tuple(_shared(b, accountant) if n in shown else b for n, b in enumerate(blocks))
    return blocks if staged or agreeing else with_running_sums(blocks, outer, accountant)


def events_of_noise(payment: Payment) -> tuple[NoiseEvent | ApproximateEvent, ...]:
    """Return the loss of a payment's noise: with a δ, one step at the least ε of its ρ and
    that δ.
    """
    noise = payment.noise
    if isinstance(noise, MatrixNoise):
        return (NoiseEvent(noise.own, noise.combined(payment.sensitivity)),)
    if not isinstance(noise, CorrelatedNoise):
        return (NoiseEvent(noise, payment.sensitivity),)
    if noise.delta:
        return (ApproximateEvent(epsilon_of(noise.rho, noise.delta), noise.delta),)
    return noise.events


def _shown_by_group(outer: Relation) -> Iterator[int]:
    """Yield the block of groups that the query shows one by one, if it does nothing else."""
    match outer:
        case Released():
            yield outer.block
        case Project() | Filter() | Sort() | Limit():
            yield from _shown_by_group(outer.input)
        case _:
            return


def _shared(block: BlockPlan, accountant: Accountant) -> BlockPlan:
    if not isinstance(block.keys, ListedKeys) or len(block.keys.domain) < 2:  # noqa: PLR2004
        return block
    better = {p: _better(p, len(block.keys.domain), accountant) for p in block.payments}
    tested = {release.payment for release in block.releases if release.stability is not None}
    releases = (
        release if release.payment in tested else replace(release, payment=better[release.payment])
        for release in block.releases
    )
    return replace(block, releases=tuple(releases))


def _better(payment: Payment, groups: int, accountant: Accountant) -> Payment:
    """Return the payment with shared noise, if that is worth it and costs no more."""
    noise, sensitivity = payment.noise, payment.sensitivity
    if not isinstance(noise, Noise) or noise.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        return payment
    if len(payment.columns) > 1 or not sensitivity.linf:
        return payment
    if sensitivity.lower and sensitivity.upper:
        return payment
    reached = ManyGroups(groups, min(sensitivity.l0, groups), sensitivity.linf)
    price = accountant.loss(Event(events_of_noise(payment)))
    if noise.delta:  # the spent ρ is that of the price in ε
        rho = rho_of(Fraction(price.amount, NANO) * _GUARD, noise.delta)
    else:
        rho = effective(payment.sensitivity).l2_squared / (2 * noise.scale)
    shared = correlated(reached, rho, sensitivity.neighbours)
    if shared is None or standard_deviation(shared.alone) > _WORTH * standard_deviation(noise):
        return payment
    better = replace(payment, noise=replace(shared, delta=noise.delta), runner_up=noise)
    return better if accountant.loss(Event(events_of_noise(better))).is_within(price) else payment
