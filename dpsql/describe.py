"""describe: the plan in words and natural units, for the person who checks it."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import assert_never

from dpsql.canonical import Writer
from dpsql.compiler.choices import rank_error
from dpsql.explanation import BlockLines, ChoiceLine, LimitLine, ReleaseLine
from dpsql.grids import Choice, Histogram, TreeRelease
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.scores import Aim, Most, Peak, Rank, Reached
from dpsql.mechanisms.shown_counts import widening
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.top import Top
from dpsql.mechanisms.truncated_geometric import KeyTrials
from dpsql.model import Mechanism, Noise, Policy
from dpsql.plan import BlockPlan, BlockSql, PartQuery, PrivatePlan, Release


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
        (*map(_choice, plan.choices), *map(_tree, plan.trees)),
    )


def notes(plan: PrivatePlan) -> Iterator[str]:
    """What is made to agree; and where private keys are in the way, that nothing is."""
    for levels in plan.levels:
        names = ", ".join(f"release_{table.block}" for table in levels.tables)
        yield (
            f"{names} measure the same rows: their totals are made equal (weighted least squares)"
        )
    rows = [_rows(block) for block in plan.blocks]
    for n, block in enumerate(plan.blocks):
        if block.domain is None and rows.count(rows[n]) > 1:
            yield (
                f"release_{n} shows private keys, not all of them: they do not add up to totals "
                "of the same rows"
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


def _choice(choice: Choice) -> ChoiceLine:
    """One choice as a line."""
    histogram = choice.query.histogram
    rival = "" if choice.otherwise is None else f"a tree of counts, error {choice.otherwise:,.4g}"
    return ChoiceLine(
        _asked(histogram, choice.aim),
        _cells(histogram),
        histogram.grid.cells,
        choice.rounds,
        histogram.rows,
        _mechanism(choice),
        f"ε = {float(choice.epsilon):,.4g}",
        choice.expected,
        rank_error(choice),
        rival,
    )


def _tree(tree: TreeRelease) -> ChoiceLine:
    """The quantiles read from one tree as a line."""
    noise, shape, histogram = tree.noise, tree.shape, tree.histogram
    asked = ", ".join(f"{float(rank.fraction):.6g}" for rank in tree.ranks)
    kept = "" if histogram.condition is None else " (filtered)"
    ends = any(rank.is_extreme for rank in tree.ranks)
    reached = f", ends reached by {tree.reserve} rows" if ends else ""
    return ChoiceLine(
        f"quantiles {asked}{kept}{reached}",
        _cells(histogram),
        histogram.grid.cells,
        tree.sensitivity.l0 // shape.levels,
        histogram.rows,
        f"tree of {shape.levels} levels by {shape.branching}, {noise.mechanism.value}",
        f"{standard_deviation(noise):,.4g} a count",
        tree.error,
        tree.error * margin(noise) / standard_deviation(noise),
        f"a choice for each, error {tree.otherwise:,.4g}",
    )


def _asked(histogram: Histogram, aim: Aim) -> str:
    kept = "" if histogram.condition is None else " (filtered)"
    match aim:
        case Most():
            return f"most frequent value{kept}"
        case Peak(options=options, lowest=lowest, rows=rows):
            units = "unit" if rows == 1 else "units"
            end = "lowest" if lowest else "highest"
            return f"which of {options} values {rows} {units} reach the {end} level with{kept}"
        case Rank() if aim.is_extreme:
            name = "maximum" if aim.numerator else "minimum"
            units = "unit" if aim.rows == 1 else "units"
            return f"{name}{kept}, reached by {aim.rows} {units}"
        case Reached(highest=highest, rows=rows):
            name = "maximum" if highest else "minimum"
            return f"{name}{kept}, reached by {rows} noisy units"
        case Rank():
            return f"quantile {float(aim.fraction):.6g}{kept}"
        case _:
            assert_never(aim)


def _mechanism(choice: Choice) -> str:
    if choice.scan is not None:
        return "sparse vector"
    return "permute-and-flip" if choice.flips else "exponential"


def _cells(histogram: Histogram) -> str:
    grid = histogram.grid
    ends = f"[{grid.value(grid.lower)}, {grid.value(grid.upper)}]"
    each = "each value" if grid.width == 1 else f"{grid.cells} equal cells"
    listed = f"{grid.cells} listed values" if grid.values else f"{each} in {ends}"
    kept = histogram.kept.value
    return f"{listed}; of each unit and group at most {histogram.rows} rows, {kept}"


def _rows(block: BlockPlan) -> str:
    writer = Writer()
    writer.number(block.block.rows)
    return writer.write((block.block.rows, block.block.unit))
