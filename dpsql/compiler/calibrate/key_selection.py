"""Partition selection: by a threshold together with counts, or alone by the method that shows more
keys.

Both methods are (ε, δ) steps of the same query. The chosen one needs fewer units to show a key with
probability one half: see `dpsql.mechanisms.threshold` and `.truncated_geometric`.

Proof (PRIVACY.md R44, R46). The count has its own noise and charge, and comparing it with the
threshold costs δ. Trials replace it and spend no more, in as many rounds as a unit has keys.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.accountants import Allowance
from dpsql.compiler.calibrate.choices import Payer
from dpsql.compiler.plan.private_plan import BlockPlan, Release
from dpsql.compiler.plan.published_keys import ThresholdKeys, TrialKeys
from dpsql.mechanisms.threshold import ALONE, UnitCounting, threshold
from dpsql.mechanisms.truncated_geometric import key_trials, keys_of_unit
from dpsql.model.algebra import Relation, Released
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Sensitivity
from dpsql.model.walk import map_inputs


@dataclass(frozen=True, slots=True)
class Rival:
    """An alternative way to count the units of a block, and its allowance."""

    counted: UnitCounting
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The method by which private keys are selected.

    The first measurements are `counted` as units, unless the `rival` is better. No key of fewer
    than `floor` units is released. `alone` says that the query reads no number.
    """

    counted: UnitCounting = ALONE
    rival: Rival | None = None
    floor: int = 1
    alone: bool = False


def keys_selected(
    releases: tuple[Release, ...],
    payer: Payer,
    allowance: Allowance,
    delta: Fraction,
    selection: KeySelection,
) -> tuple[ThresholdKeys | TrialKeys, tuple[Release, ...]]:
    """Return the selection of private keys, and the remaining releases.

    By default it is a threshold on the first releases. If the only measurement is a count that the
    query does not read, trials spend its `allowance` instead, where they show more. Trials are of
    whole units, so scaled counts have none.
    """
    counted, rival, floor = selection.counted, selection.rival, selection.floor
    first, *others = releases[: counted.columns]
    assert all(r.noise == first.noise and r.query.total_upper == counted.most for r in others)
    chosen = threshold(first.noise, payer.l0, delta, payer.neighbours, floor, counted)
    columns = tuple(release.field.id for release in (first, *others))
    noisy = ThresholdKeys(threshold=chosen, counted=columns, floor=floor)
    if rival is not None and rival.counted != counted:
        alone, share = rival.counted == ALONE, rival.allowance
        sensitivity = Sensitivity(payer.l0, 0, rival.counted.most, payer.neighbours, alone)
        noise = payer.accountant.noise(share.amount, share.noise_delta, sensitivity)
        other = threshold(noise, payer.l0, delta, payer.neighbours, floor, rival.counted)
        return replace(noisy, runner_up=other), releases
    if not selection.alone or counted != ALONE:
        return noisy, releases
    keys = keys_of_unit(payer.l0, payer.neighbours)
    epsilon = payer.accountant.step(allowance.amount / keys)
    spent = delta + allowance.noise_delta
    trials = key_trials(epsilon, spent, payer.l0, payer.neighbours, floor)
    if trials is None or trials.even >= chosen.value:
        return replace(noisy, runner_up=trials), releases
    judged = TrialKeys(trials=trials, unreleased=first.query, floor=floor, runner_up=chosen)
    return judged, ()


def as_released(relation: Relation, blocks: tuple[BlockPlan, ...]) -> Relation:
    """Rewrite a query over the columns that its blocks release.

    Keys selected by trial have no other columns. Top keys without measurements have their place as
    a column.
    """
    if not isinstance(relation, Released):
        return map_inputs(relation, lambda source: as_released(source, blocks))
    released = blocks[relation.block].ids
    fields = tuple(relation.reads[column] for column in released)
    return replace(relation, fields=fields, columns=released)
