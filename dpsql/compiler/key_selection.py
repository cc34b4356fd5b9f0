"""How private keys are published: beside counts by a threshold, alone by whichever shows more.

Both ways are (ε, δ) steps of the same query, so the one is taken that shows a key of fewer units
at least every other time: see `dpsql.mechanisms.threshold` and `.truncated_geometric`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.accountants import Accountant, Allowance
from dpsql.algebra import Relation, Released
from dpsql.mechanisms.threshold import threshold
from dpsql.mechanisms.truncated_geometric import key_trials, keys_of_unit
from dpsql.model import EventPart, Neighbours, SelectionEvent
from dpsql.plan import BlockPlan
from dpsql.walk import map_inputs


def with_keys_selected(
    plan: BlockPlan,
    accountant: Accountant,
    neighbours: Neighbours,
    allowance: Allowance,
    delta: Fraction,
) -> BlockPlan:
    """The block with a threshold on the first of its measurements, the noisy count of units.

    Where that count is all that is measured and `keys_alone` says that nobody asks for it, trials
    spend its `allowance` in its place, if they show more.
    """
    counted = plan.releases[0]
    chosen = threshold(counted.noise, plan.l0, delta, neighbours, plan.floor)
    noisy = replace(plan, threshold=chosen)
    if not plan.keys_alone:
        return noisy
    keys = keys_of_unit(plan.l0, neighbours)
    epsilon = accountant.step(allowance.amount / keys)
    trials = key_trials(epsilon, delta + allowance.noise_delta, plan.l0, neighbours, plan.floor)
    if trials is None or trials.even >= chosen.value:
        return replace(noisy, runner_up=trials)
    return replace(plan, releases=(), unreleased=(counted.query,), trials=trials, runner_up=chosen)


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
