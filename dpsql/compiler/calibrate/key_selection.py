"""How private keys are published: beside counts by a threshold, alone by whichever shows more.

Both ways are (ε, δ) steps of the same query, so the one is taken that shows a key of fewer units
at least every other time: see `dpsql.mechanisms.threshold` and `.truncated_geometric`.

Proof (PRIVACY.md R44, R46). The count has its own noise and charge, and looking at it for the
threshold costs δ; trials spend in its place no more than it would have, as many rounds as a unit
has keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.accountants import Allowance
from dpsql.compiler.calibrate.choices import Payer
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms.threshold import ALONE, Threshold, UnitCounting, threshold
from dpsql.mechanisms.truncated_geometric import key_trials, keys_of_unit
from dpsql.model.algebra import Relation, Released
from dpsql.model.vocabulary import EventPart, Noise, SelectionEvent, Sensitivity
from dpsql.model.walk import map_inputs


@dataclass(frozen=True, slots=True)
class Rival:
    """Another way to count the units of a block, and what it would have to spend."""

    counted: UnitCounting
    allowance: Allowance


def with_keys_selected(
    plan: BlockPlan,
    payer: Payer,
    allowance: Allowance,
    delta: Fraction,
    counted: UnitCounting = ALONE,
    rival: Rival | None = None,
) -> BlockPlan:
    """The block with a threshold on the first of its measurements, which are `counted` as units.

    Where that count is all that is measured and `keys_alone` says that nobody asks for it, trials
    spend its `allowance` in its place, if they show more.
    """
    first, *others = plan.releases[: counted.columns]
    assert all(r.noise == first.noise and r.query.total_upper == counted.most for r in others)
    chosen = _threshold(plan, payer, first.noise, delta, counted)
    noisy = replace(plan, threshold=chosen)
    if rival is not None and rival.counted != counted:
        noise = _noise_of(rival, payer)
        return replace(noisy, runner_up=_threshold(plan, payer, noise, delta, rival.counted))
    if not plan.keys_alone:
        return noisy
    keys = keys_of_unit(plan.l0, payer.neighbours)
    epsilon = payer.accountant.step(allowance.amount / keys)
    spent = delta + allowance.noise_delta
    trials = key_trials(epsilon, spent, plan.l0, payer.neighbours, plan.floor)
    if trials is None or trials.even >= chosen.value:
        return replace(noisy, runner_up=trials)
    return replace(plan, releases=(), unreleased=(first.query,), trials=trials, runner_up=chosen)


def _threshold(
    plan: BlockPlan, payer: Payer, noise: Noise, delta: Fraction, counted: UnitCounting
) -> Threshold:
    return threshold(noise, plan.l0, delta, payer.neighbours, plan.floor, counted)


def _noise_of(rival: Rival, payer: Payer) -> Noise:
    alone = rival.counted == ALONE
    sensitivity = Sensitivity(payer.l0, 0, rival.counted.most, payer.neighbours, alone)
    share = rival.allowance
    return payer.accountant.noise(share.amount, share.noise_delta, sensitivity)


def selection_events(plan: BlockPlan) -> tuple[EventPart, ...]:
    """What publishing the keys of a block costs beside its noise."""
    chosen = plan.trials or plan.top
    if chosen is not None:
        return (chosen.event,)
    return () if plan.threshold is None else (SelectionEvent(plan.threshold.delta),)


def as_released(relation: Relation, blocks: tuple[BlockPlan, ...]) -> Relation:
    """A query over the columns that its blocks do release.

    Keys shown by trial have no others; those chosen as the top and not measured have their place
    in its stead.
    """
    if not isinstance(relation, Released):
        return map_inputs(relation, lambda source: as_released(source, blocks))
    block = blocks[relation.block]
    keys = len(block.block.keys)
    return replace(relation, fields=relation.fields[: keys + len(block.lattices)])
