"""describe: the plan in words and natural units, for the person who checks it."""

from __future__ import annotations

from math import sqrt
from typing import assert_never

from dpsql.describe_choices import choice_line, tree_line
from dpsql.explanation import BlockLines, LimitLine, ReleaseLine
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.shown_counts import widening
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.top import Top
from dpsql.mechanisms.truncated_geometric import KeyTrials
from dpsql.model import Mechanism, Noise, Policy
from dpsql.plan import BlockPlan, BlockSql, PartQuery, Release


def describe(plan: BlockPlan, sql: BlockSql, policy: Policy) -> BlockLines:
    """One block as lines: unit, limits, keys, measurements, facts and SQL."""
    limits = (
        LimitLine("groups per unit (L0)", plan.groups.value, plan.groups.how),
        LimitLine("rows per unit", plan.rows.value, plan.rows.how),
        LimitLine("rows per unit and group", plan.rows_per_group.value, plan.rows_per_group.how),
    )
    return BlockLines(
        f"{policy.unit.table}.{policy.unit.key} ({policy.unit.neighbours.value})",
        limits,
        _keys(plan),
        tuple(_release(r, _adjusted(n, plan)) for n, r in enumerate(plan.releases)),
        tuple(f"{f.table}: {f.kind.value} ({f.voucher.value})" for f in plan.block.facts),
        sql.sql,
        (*map(choice_line, plan.choices), *map(tree_line, plan.trees)),
    )


def _keys(plan: BlockPlan) -> str:
    names = ", ".join(key.field.name for key in plan.block.keys)
    if not plan.block.keys:
        return "one group: no GROUP BY"
    if plan.top is not None:
        return f"{names}: {_top(plan, plan.top)}"
    if plan.domain is not None:
        return f"{names}: {len(plan.domain)} public keys, each answered, empty ones too"
    chosen = plan.trials or plan.threshold
    assert chosen is not None
    rival = "" if plan.runner_up is None else f"; otherwise: {_shown(plan.runner_up)}"
    return f"{names}: private keys; {_shown(chosen)}{rival}"


def _top(plan: BlockPlan, top: Top) -> str:
    (scored,) = plan.unreleased
    step = float(scored.lattice.step)
    which = "lowest" if top.lowest else "highest"
    mechanism = "permute-and-flip" if top.flips else "exponential mechanism"
    measured = ", and then measured" if plan.releases else ""
    return (
        f"{top.count} of {top.keys} public keys, chosen one after another by the {which} "
        f"{_summed(scored)} ({_bounds(scored)}; {mechanism}, ε = "
        f"{float(top.epsilon):.3g} each){measured}; a key passed over exceeds the one chosen by "
        f"at most {top.error * step:.4g} at 95 %; otherwise: every key with noise, by at most "
        f"{plan.otherwise * step:.4g}"
    )


def _shown(selection: Threshold | KeyTrials) -> str:
    match selection:
        case Threshold():
            columns = selection.counted.columns
            summed = f", the sum of its first {columns} measurements," if columns > 1 else ""
            return (
                f"a key is shown if its noisy unit count{summed} reaches {selection.units:.6g} "
                f"(δ = {float(selection.delta):.3g}){_near(selection)}"
            )
        case KeyTrials():
            delta = selection.delta * selection.keys
            return (
                f"a key of {selection.even} units is shown every other time, of "
                f"{selection.certain} always, by a trial each with truncated geometric odds "
                f"(δ = {float(delta):.3g})"
            )
        case _:
            assert_never(selection)


def _near(threshold: Threshold) -> str:
    """What a count says that is shown because it is large."""
    wider = widening(threshold)
    if wider is None:
        return ""
    return (
        f"; a count below about {wider.until / threshold.counted.unit:.4g} may be that of a much "
        "smaller group, which noise has lifted: its margin reaches as far"
    )


def _adjusted(place: int, plan: BlockPlan) -> str:
    adjusted = any(place in agreement.places for agreement in plan.agreements)
    return ", then adjusted to agree with the others of its rows" if adjusted else ""


def _release(release: Release, adjusted: str) -> ReleaseLine:
    query, step = release.query, float(release.query.released.step)
    scale = float(release.noise.scale)
    if release.noise.mechanism is Mechanism.DISCRETE_GAUSSIAN:
        scale = sqrt(scale)
    return ReleaseLine(
        _measured(release),
        _bounds(query) + (", paid for with the line above" if release.joint else "") + adjusted,
        query.total_lower * step,
        query.total_upper * step,
        release.sensitivity.l0,
        release.sensitivity.linf * step,
        step,
        release.noise.mechanism.value,
        scale * step,
        standard_deviation(release.noise) * step,
        margin(release.noise) * step,
        "" if release.runner_up is None else _otherwise(release.runner_up, step),
    )


def _otherwise(noise: Noise, step: float) -> str:
    price = f", δ = {float(noise.delta):.3g}" if noise.delta else ""
    return f"{noise.mechanism.value}, error {standard_deviation(noise) * step:,.4g}{price}"


def _measured(release: Release) -> str:
    query = release.query
    kept = "" if query.condition is None else " (filtered)"
    if query.proposal is not None:
        rows, test = query.proposal.rows, release.stability
        if test is None:
            return f"test of at least {rows} rows{kept}"
        delta = f"δ = {float(test.delta):.3g}"
        return f"mean{kept}, shown if the noisy count of its test is {test.least} ({delta})"
    return _summed(query)


def _summed(query: PartQuery) -> str:
    kept = "" if query.condition is None else " (filtered)"
    if query.blocks:
        return f"sum over {query.blocks} blocks of units"
    if query.units:
        return f"number of units{kept}"
    if query.distinct:
        return f"number of distinct values{kept}"
    if query.argument is None:
        return f"number of rows{kept}"
    return f"{'centred ' if query.centre else ''}sum{kept}"


def _bounds(query: PartQuery) -> str:
    if query.distinct:
        how = "chosen by a keyed hash" if query.chosen else "proved: no unit has more"
        return f"at most {query.total_upper} of each unit and group, {how}"
    if query.argument is None:
        return "each counts 1"
    step = float(query.lattice.step)
    centre = f", minus {query.centre * step:g}" if query.centre else ""
    each = "each block, chosen by a keyed hash of the unit," if query.blocks else "each row"
    return f"{each} in [{query.lower * step:g}, {query.upper * step:g}]{centre}"
