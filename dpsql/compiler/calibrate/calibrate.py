"""calibrate: Bounded → PrivatePlan. Contribution bounds, sensitivities, noise and the charge.

One joint release per query. Equal measurements are made once, and the budget is split for the least
error of the outputs.

Proof (PRIVACY.md R31, R34, R56). The event has the noise of every charge with the distance that it
was made for, every tree, choice and test, and the cost of showing keys. A measurement lacks its own
part only where the charge before it covers both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor

from dpsql.accountants import Accountant, Allowance, fill_filters
from dpsql.compiler.aggregates.recipe import MeasurementOptions
from dpsql.compiler.calibrate import propose_test_release
from dpsql.compiler.calibrate.block_measurements import measured_blocks
from dpsql.compiler.calibrate.choices import Payer, event_of
from dpsql.compiler.calibrate.common_noise import events_of_noise, with_common_noise
from dpsql.compiler.calibrate.fixed_shares import Claim, with_claims
from dpsql.compiler.calibrate.key_selection import KeySelection, keys_selected
from dpsql.compiler.calibrate.level_shares import with_levels
from dpsql.compiler.calibrate.measurements import PartColumn
from dpsql.compiler.calibrate.poll_queries import of_shown
from dpsql.compiler.calibrate.quantile_trees import planned, trees_of
from dpsql.compiler.calibrate.shared_totals import levels_of
from dpsql.compiler.calibrate.splitting import split
from dpsql.compiler.calibrate.strategies import (
    Measured,
    charges,
    least_error,
    paid_for,
    with_values,
)
from dpsql.compiler.calibrate.top_groups import with_top
from dpsql.compiler.errors.outputs import apart, shown
from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.lattices import RangeStrategy
from dpsql.compiler.plan.published_keys import Keys, ListedKeys
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.blocks import noise_of_one
from dpsql.mechanisms import standard_deviation
from dpsql.model import vocabulary
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span
from dpsql.model.walk import refs

_FIRST = 5
"""Weight of the numbers of the first groups, relative to the count that shows all groups."""


def calibrate(
    bounded: private_plan.Bounded,
    accountant: Accountant,
    neighbours: vocabulary.Neighbours,
    options: MeasurementOptions,
    delta: Fraction,
    identities: Identities,
) -> private_plan.PrivatePlan:
    """Return the plan of a query that may spend its epsilon, with δ up to `delta` for private keys.

    Raises `Refused` where a contribution has no limit, an argument no bound, an aggregate no
    recipe, or private keys no δ for selection.
    """
    options = replace(options, noise=noise_of_one(accountant, neighbours, options.epsilon, delta))
    measured = measured_blocks(bounded, identities, options, accountant)
    has_polls = any(m.polls for m in measured)
    polls = of_shown([m.polls for m in measured], bounded) if has_polls else ()
    allowance, selection = _allowance(measured, accountant, neighbours, options.epsilon, delta)
    payers = [Payer(accountant, neighbours, m.l0) for m in measured]
    shares, claims = [Fraction(1)], list[Claim]()
    is_one_count = len(measured) == 1 and measured[0].is_one_count
    if not is_one_count:
        measured = _with_least_error(bounded, measured, allowance, payers, identities)
    queries = [with_values(q, measured, identities) for q in (bounded.outer, *bounded.stages)]
    if not is_one_count:
        parts, outputs = charges(measured, queries[0])
        claims = _claims(measured, accountant, allowance, delta)
        shares = with_claims(split(parts, outputs, accountant.order), parts, claims)
    spending = _Spending(measured, payers, allowance, selection, options)
    if accountant.vectors_help and not claims and len(measured) > 1:
        levels = levels_of(spending.blocks(shares), queries[1:])
        sizes = [len(list(paid_for(m))) for m in measured]
        shares = with_levels(shares, sizes, levels, accountant.order)
    blocks, paid = spending.blocks(shares), spending.paid(shares)
    if any(m.bounded.block.keys for m in measured) and not (claims or options.whole):
        blocks, queries = with_top(blocks, queries, paid, accountant)
    plan = _priced(blocks, queries, accountant, options.epsilon, shares)
    if polls or options.norms:
        plan = replace(plan, loss=_whole(plan.loss, allowance, sum(shares), accountant))
    return replace(plan, polls=polls, certain=bounded.certain)


def _whole(
    loss: vocabulary.Loss, allowance: Allowance, shares: Fraction | int, accountant: Accountant
) -> vocabulary.Loss:
    """Raise a loss to the whole allowance of measurements that are charged before their bounds are
    found, in all filters.

    Noise is rounded up a little, so otherwise the charge would depend on the found bounds.
    """
    amount = max(loss.amount, floor(allowance.share(Fraction(shares)).amount * vocabulary.NANO))
    return fill_filters(replace(loss, amount=amount), accountant)


@dataclass(frozen=True, slots=True)
class _Spending:
    """Blocks, the payer of each, and their shares."""

    measured: Sequence[Measured]
    payers: Sequence[Payer]
    allowance: Allowance
    selection: Fraction
    options: MeasurementOptions

    def paid(self, shares: Sequence[Fraction]) -> list[list[Allowance]]:
        """Return the allowance of each measurement and choice of each block."""
        each = iter(shares)
        return [[self.allowance.share(next(each)) for _ in paid_for(m)] for m in self.measured]

    def blocks(self, shares: Sequence[Fraction]) -> tuple[private_plan.BlockPlan, ...]:
        own = zip(self.measured, self.payers, self.paid(shares), strict=True)
        return tuple(
            _released(measured, payer, allowances, self.selection, self.options)
            for measured, payer, allowances in own
        )


def _priced(
    blocks: tuple[private_plan.BlockPlan, ...],
    queries: Sequence[Relation],
    accountant: Accountant,
    epsilon: Fraction,
    shares: Sequence[Fraction],
) -> private_plan.PrivatePlan:
    """Return the plan of these blocks and its cost, with shared noise of groups where that is
    better.
    """
    outer, *stages = queries
    levels = levels_of(blocks, stages) if len(blocks) > 1 else ()
    if any(block.block.keys for block in blocks):
        blocks = with_common_noise(blocks, queries, levels, accountant)
    event = vocabulary.Event(tuple(part for block in blocks for part in _events(block)))
    return private_plan.PrivatePlan(
        blocks=blocks,
        stages=tuple(stages),
        outer=outer,
        event=event,
        loss=accountant.loss(event),
        epsilon=epsilon,
        shares=tuple(shares),
        levels=levels,
    )


def _allowance(
    measured: list[Measured],
    accountant: Accountant,
    neighbours: vocabulary.Neighbours,
    epsilon: Fraction,
    delta: Fraction,
) -> tuple[Allowance, Fraction]:
    """Return the allowance of the query, and the δ of each step that needs one."""
    for m in measured:
        if propose_test_release.means_of(m.measurements.parts):
            propose_test_release.require_testable(m.bounded, accountant, neighbours)
    private = [m for m in measured if m.bounded.domain is None]
    if private and not accountant.supports_selection:
        raise Refused(Reason.PRIVATE_KEYS_NEED_DELTA, private[0].bounded.block.span)
    steps = len(private) + sum(
        len(propose_test_release.means_of(m.measurements.parts)) for m in measured
    )
    allowance = accountant.allowance(epsilon, delta, selects_keys=steps > 0)
    if not allowance.amount or (steps and not allowance.selection_delta):
        raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to spend")
    return allowance, allowance.selection_delta / max(1, steps)


def _with_least_error(
    bounded: private_plan.Bounded,
    measured: list[Measured],
    allowance: Allowance,
    payers: Sequence[Payer],
    identities: Identities,
) -> list[Measured]:
    """Return the measurements with trees of quantiles, in the way with the least errors."""
    measured = [
        replace(m, histograms=planned(m.histograms, allowance, payer, identities))
        if m.histograms.single
        else m
        for m, payer in zip(measured, payers, strict=True)
    ]
    measured = _apart(measured, with_values(bounded.outer, measured, identities))
    return least_error(measured, bounded.outer, payers[0].accountant, allowance, identities)


def _apart(measured: list[Measured], outer: Relation) -> list[Measured]:
    """Add the additional outputs to each block: see `Apart`."""
    outputs = shown(outer, [m.fields for m in measured])
    each = (apart(outputs, m.values, _deciding(m)) for m in measured)
    times = (_FIRST if m.first else 1 for m in measured)
    return [
        replace(m, apart=replace(a, times=t)) for m, a, t in zip(measured, each, times, strict=True)
    ]


def _claims(
    measured: list[Measured], accountant: Accountant, allowance: Allowance, delta: Fraction
) -> list[Claim]:
    """Return the allowances of single aggregates by their own epsilon, as parts of the query's
    allowance.

    One written call may stand for several: elements of a list, groupings of ROLLUP.
    """
    selects = bool(allowance.selection_delta)
    columns, shares = dict[Span, frozenset[int]](), dict[Span, Fraction]()
    for m in measured:
        for measure, value in zip(m.bounded.block.measures, m.values, strict=True):
            call = measure.call
            if call.epsilon is not None:
                own = accountant.allowance(Fraction(call.epsilon), delta, selects_keys=selects)
                columns[call.span] = columns.get(call.span, frozenset()) | refs(value)
                shares[call.span] = own.amount / allowance.amount
    return [Claim(columns[span], share, span) for span, share in shares.items()]


def _deciding(measured: Measured) -> list[Field]:
    """List the counts that decide something: the selection of private keys, and tests."""
    tests = {mean.test for mean in propose_test_release.means_of(measured.measurements.parts)}
    keys = measured.fields[:1] if measured.bounded.domain is None else ()
    return [
        *keys,
        *(column.field for column in measured.measurements.columns if column.part in tests),
    ]


def _released(
    measured: Measured,
    payer: Payer,
    allowances: list[Allowance],
    selection_delta: Fraction,
    options: MeasurementOptions,
) -> private_plan.BlockPlan:
    contributions, bounded = measured.contributions, measured.bounded
    count = len(measured.measurements.paid)
    paid = zip(measured.measurements.paid, allowances[:count], strict=True)
    noisy = tuple(r for parts, own in paid for r in _paid(measured, parts, own, payer))
    means = propose_test_release.means_of(measured.measurements.parts)
    releases = propose_test_release.tested(noisy, selection_delta, payer.l0) if means else noisy
    keys: Keys
    if bounded.domain is not None:
        keys = ListedKeys(bounded.domain, bounded.within, shown=bounded.shown)
    else:
        counted, alone = measured.measurements.counted, not options.whole and measured.keys_alone
        selection = KeySelection(counted, measured.rival, options.floor, alone)
        keys, releases = keys_selected(releases, payer, allowances[0], selection_delta, selection)
    chosen, trees = trees_of(measured.histograms, allowances[count:], payer)
    return private_plan.BlockPlan(
        block=bounded.block,
        keys=keys,
        releases=releases,
        groups=contributions.groups,
        rows_per_group=contributions.rows_per_group,
        rows=contributions.rows,
        row_level=contributions.row_level,
        enforce_l0=contributions.enforce,
        choices=chosen,
        trees=trees,
        agreements=measured.measurements.agreed,
        norms=measured.norms,
        biased=tuple(b for b in measured.biased if b.column in {r.field.id for r in releases}),
        totals=measured.totals,
        ranges=tuple(_range_strategies(measured, allowances, payer))
        if measured.measurements.workloads
        else (),
    )


def _range_strategies(
    measured: Measured, allowances: Sequence[Allowance], payer: Payer
) -> Iterator[RangeStrategy]:
    """Yield the strategies of range workloads, with the errors at their allowances."""
    paid = list(zip(measured.measurements.paid, allowances, strict=False))
    for workload in measured.measurements.workloads:
        cells = workload.part(workload.levels[-1][0])
        parts = {workload.part(node) for level in workload.levels for node in level}
        spent = [share for columns, share in paid if columns[0].part in parts]
        alone = next(c for columns, _ in paid for c in columns if c.part == cells)
        noise = payer.accountant.noise(
            sum((share.amount for share in spent), Fraction(0)),
            sum((share.noise_delta for share in spent), Fraction(0)),
            measured.sensitivity(alone, payer.neighbours, 1),
        )
        unit = standard_deviation(noise) * float(alone.part.released.step)
        taken, by_cells, apart = (unit * error for error in workload.errors)
        nodes = tuple(map(len, workload.levels))
        yield RangeStrategy(workload.subject, len(workload.runs), nodes, (taken, by_cells, apart))


def _paid(
    measured: Measured, together: tuple[PartColumn, ...], allowance: Allowance, payer: Payer
) -> Iterator[private_plan.Release]:
    """Yield the releases of columns that share one payment."""
    size, neighbours = len(together), payer.neighbours
    (sensitivity,) = {measured.sensitivity(c, neighbours, size) for c in together}
    amount, delta = allowance.amount, allowance.noise_delta
    payment = private_plan.Payment(
        noise=payer.accountant.noise(amount, delta, sensitivity),
        sensitivity=sensitivity,
        columns=tuple(column.field.id for column in together),
        runner_up=payer.accountant.runner_up(amount, delta, sensitivity),
    )
    return (private_plan.Release(column.field, column.part, payment) for column in together)


def _events(block: private_plan.BlockPlan) -> tuple[vocabulary.EventPart, ...]:
    losses = (
        *(event for payment in block.payments for event in events_of_noise(payment)),
        *(vocabulary.NoiseEvent(tree.noise, tree.sensitivity) for tree in block.trees),
        *map(event_of, block.choices),
    )
    tests = (
        vocabulary.SelectionEvent(r.stability.delta)
        for r in block.releases
        if r.stability is not None
    )
    return (*losses, *tests, *block.keys.events)
