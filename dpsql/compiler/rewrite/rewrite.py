"""rewrite: PrivatePlan → Rewritten. It prints one bounded statement per block, and the
outer query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.errors.bias_ends import Reach
from dpsql.compiler.errors.noisy_columns import Near, NoiseOfBlock, Settled
from dpsql.compiler.errors.outputs import EXACT, Propagated, is_by_row, near_threshold, steady
from dpsql.compiler.errors.propagate import propagate
from dpsql.compiler.errors.selection_errors import Selection
from dpsql.compiler.errors.small_groups import has_means, with_noise_known, written_out
from dpsql.compiler.errors.stated_errors import states
from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.certain_ranges import CertainRanges
from dpsql.compiler.plan.measurement_kinds import BlockAverage
from dpsql.compiler.plan.published_keys import ListedKeys, ThresholdKeys
from dpsql.compiler.plan.shown_query import ShownQuery
from dpsql.compiler.plan.summed_columns import variance_increments
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.common_terms import computed_once, once
from dpsql.compiler.rewrite.dialect import Columns, Dialect, Dialects
from dpsql.compiler.track.uniqueness import Keys
from dpsql.consistency.least_squares import covariance, dependent
from dpsql.consistency.marginals import Spread
from dpsql.mechanisms import standard_deviation, widest
from dpsql.mechanisms.shown_counts import widening
from dpsql.model import algebra
from dpsql.model.tree import DOUBLE, Expression, Literal, Ref
from dpsql.model.vocabulary import Mechanism
from dpsql.model.walk import expressions, inputs, map_inputs, refs, relations

ONE_END = 0.9
"""Confidence of an interval of which each end holds in 95 %."""


def rewrite(
    plan: private_plan.PrivatePlan,
    keys: Callable[[algebra.Relation], Keys],
    identities: Identities,
    dialects: Dialects,
    blocks: Sequence[private_plan.BlockPlan] | None = None,
) -> private_plan.Rewritten:
    """Return the statements of a private query, printed from our own tree.

    If given, `blocks` replace the plan's. Released tables are `release_0`, ... Public tables of the
    outer query are read exactly before it, as `public_0`, ... `keys` returns keys of relations.
    """
    noise, tables, with_noise = _noises(plan), _Tables(dialects), plan.outer
    if has_means(with_noise):
        with_noise = with_noise_known(with_noise, [block.shown_deviations for block in noise])
    selection, ranges = _selection(plan), CertainRanges(plan.outer, plan.certain)

    def traced(relation: algebra.Relation, selection: Selection = selection) -> Propagated:
        return propagate(relation, noise, keys, identities, selection, ranges.range_of)

    outer = foreseen = traced(with_noise)
    if any(isinstance(part, algebra.Limit) for part in relations(outer.relation)):
        foreseen = traced(with_noise, replace(selection, selected=False))
    expected, largest = _errors(plan, noise, foreseen, selection, outer.errors)
    plain = outer.relation if states(with_noise) else with_noise
    return private_plan.Rewritten(
        blocks=tuple(map(dialects.database.block, blocks or plan.blocks)),
        outer_sql=tables.query(outer.relation, outer.columns, identities),
        tables=tuple(tables.listed),
        shown=ShownQuery(plain, outer.outputs, identities.following),
        output=plan.outer.fields,
        stages=tuple(
            _stage(traced, with_noise_known(s, [n.deviations for n in noise]), dialects, identities)
            for s in plan.stages  # each precedes the agreement of levels
        ),
        expected=expected,
        largest=largest,
        halved=tuple(outer.halves),
        certain=tuple(ranges.range_of(f.ref) for f in plan.outer.fields),
    )


def shown_sql(rewritten: private_plan.Rewritten, dialects: Dialects) -> str:
    """Return the outer query without errors, as a person reads it."""
    shown = rewritten.shown
    if isinstance(shown, str):
        return shown
    identities = Identities(shown.following)
    return _Tables(dialects).query(shown.relation, shown.outputs, identities)


def _selection(plan: private_plan.PrivatePlan) -> Selection:
    """Return how the noise of a plan widens the errors of selected numbers."""
    drawn = [noise for block in plan.blocks for noise in block.noises]
    long_tails = any(noise.mechanism is Mechanism.DISCRETE_LAPLACE for noise in drawn)
    return Selection(Reach(widest(drawn), widest(drawn, ONE_END)), long_tails)


def _errors(
    plan: private_plan.PrivatePlan,
    noise: Sequence[NoiseOfBlock],
    foreseen: Propagated,
    selection: Selection,
    errors: Sequence[Expression],
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Return the expected and the largest error of each output. They differ near a threshold, and
    where a selection of rows makes other `errors` of those that are foreseen.
    """
    near = [each.near for each in noise if each.near is not None]
    far = max((10 * each.widening.until * each.step for each in near), default=0.0)
    expected = largest = steady(foreseen.relation, foreseen.errors, far)
    if near:
        largest = near_threshold(foreseen, expected, max(each.most for each in near))
    if foreseen.errors == errors:
        return expected, largest
    return expected, _selected(plan, largest, selection)


def _selected(
    plan: private_plan.PrivatePlan, errors: tuple[float | None, ...], selection: Selection
) -> tuple[float | None, ...]:
    """Return the largest errors of the first rows by a noisy number.

    The last selected one counts as near. Of n listed groups at most n - k others compete with it
    for k places. The number of other rows is not known in advance, so their errors are infinite.
    """
    factor, domain = 1.0, plan.blocks[0].domain
    alone = len(plan.blocks) == 1 and is_by_row(plan.outer)
    rows = len(domain) if alone and domain is not None else inf
    for part in relations(plan.outer):
        if isinstance(part, algebra.Limit) and isinstance(part.limit, int):
            rivals = max(1.0, rows + 1 - part.limit - part.offset)
            factor *= evaluate(selection.factor(Literal(rivals, DOUBLE)), {}) or inf
    return tuple(each * factor if each and not isnan(each) else each for each in errors)


def _noises(plan: private_plan.PrivatePlan) -> list[NoiseOfBlock]:
    """Return the noise of each released table, and of consistent groups of them."""
    noises = [_noise(block) for block in plan.blocks]
    if any(block.block.keys for block in plan.blocks) and _aggregates(plan.outer, *plan.stages):
        noises = [
            _with_groups(noise, block) for noise, block in zip(noises, plan.blocks, strict=True)
        ]
    for levels in plan.levels:
        spread = Spread.of(levels)
        for n, table in enumerate(levels.tables):
            releases = plan.blocks[table.block].releases
            steps = {r.field.id: float(r.query.released.step) for r in releases}
            noises[table.block] = replace(noises[table.block], settled=Settled(spread, n, steps))
    return noises


def _noise(block: private_plan.BlockPlan) -> NoiseOfBlock:
    """Return the noise of a released table after its measurements are made to agree."""
    steps = np.array([float(release.query.released.step) for release in block.releases])
    deviations = [standard_deviation(release.noise) for release in block.releases]
    after = np.diag(np.square(deviations))
    if block.agreements:
        after = covariance(block.placed_agreements, deviations)
    sizes = np.sqrt(np.diag(after))
    measured = tuple(release.field.id for release in block.releases)
    errors = dict(zip(measured, (sizes * steps).tolist(), strict=True))
    return NoiseOfBlock(
        {column.id: errors.get(column.id) for column in block.noisy},
        measured,
        after / np.outer(sizes, sizes),
        dependent(block.agreements) if block.agreements else [],
        halves=block.halves,
        selected=not isinstance(block.keys, ListedKeys) or bool(block.keys.within),
        withheld=frozenset(r.field.id for r in block.releases if r.stability is not None),
        near=_near(block, block.keys) if isinstance(block.keys, ThresholdKeys) else None,
        single={
            release.field.id: standard_deviation(release.single) * step
            for release, step in zip(block.releases, steps.tolist(), strict=True)
            if release.single is not None
        },
        biased=block.biased,
        summed=tuple(variance_increments(block)),
    )


def _aggregates(*outer: algebra.Relation) -> bool:
    """Test whether queries over released tables compute values from several of their rows."""
    computed = algebra.Aggregate | algebra.Window | algebra.Match
    return any(isinstance(part, computed) for each in outer for part in relations(each))


def _with_groups(noise: NoiseOfBlock, block: private_plan.BlockPlan) -> NoiseOfBlock:
    """Return the noise of listed groups, some of them without rows."""
    rows, keys = block.block, block.keys
    listed = isinstance(keys, ListedKeys) and not keys.shown and rows.vote is None
    if not (listed and rows.keys and rows.groups is None and block.domain):
        return noise
    additive = {
        release.field.id
        for release in block.releases
        if release.stability is None and not isinstance(release.query, BlockAverage)
    }
    return replace(
        noise,
        listed=len(block.domain),
        additive=frozenset(additive - {*noise.summed, *noise.halves}),
        noises=block.noises,
    )


def _near(block: private_plan.BlockPlan, keys: ThresholdKeys) -> Near | None:
    """Return the effect of a threshold on the errors of a block's counts; None without an
    effect.
    """
    wider = widening(keys.threshold)
    if wider is None:
        return None
    step = float(block.releases[0].query.released.step)
    return Near(wider, keys.counted, step, wider.largest_factor(keys.threshold.value))


def _stage(
    traced: Callable[[algebra.Relation], Propagated],
    relation: algebra.Relation,
    dialects: Dialects,
    identities: Identities,
) -> private_plan.StageSql:
    """Return the statement of a table that later blocks read, with columns named by position."""
    columns = tuple((f"c{n}", f.type) for n, f in enumerate(relation.fields))
    if isinstance(relation, algebra.Evaluated):
        return private_plan.StageSql(columns, (), relation.sql, relation.rows)
    tables = _Tables(dialects)
    outputs = tuple(f.ref for f in relation.fields)
    rows = traced(relation).relation if states(relation) or _aggregates(relation) else relation
    sql = tables.query(rows, outputs, identities)
    return private_plan.StageSql(columns, tuple(tables.listed), sql)


def rewrite_public(
    relation: algebra.Relation, identities: Identities, dialect: Dialect, factor: float
) -> private_plan.Rewritten:
    """Return a query over public tables alone: one statement for the owner's database.

    It is exact, except for estimates from reports: then it has errors.
    """
    selection = Selection(Reach(factor, factor))
    read = propagate(relation, (), lambda _: (), identities, selection)
    plain = dialect.query(read.relation if states(relation) else relation, read.outputs)
    if all(error == EXACT for error in read.errors):
        return private_plan.Rewritten((), (), plain, plain, relation.fields)
    expected = tuple(None if error == EXACT else nan for error in read.errors)
    sql = dialect.query(read.relation, read.columns)
    return private_plan.Rewritten((), (), sql, plain, relation.fields, expected=expected)


class _Tables:
    """The tables that the outer query reads, collected while it is printed."""

    def __init__(self, dialects: Dialects) -> None:
        self.dialects = dialects
        self.listed: list[private_plan.ReleasedTable] = []

    def query(
        self, relation: algebra.Relation, outputs: tuple[Expression, ...], identities: Identities
    ) -> str:
        """Print the statement of these outputs, in which each term is computed once."""
        parts = list(relations(relation))
        terms = (*outputs, *(each for part in parts for each in expressions(part)))
        if not all(isinstance(term, Ref | Literal) for term in terms):
            written = written_out(relation) if has_means(relation) else relation
            relation, outputs = once(computed_once(written, identities), outputs, identities)
        if any(isinstance(part, algebra.Scan) for part in parts):
            relation = of_columns_read(relation, outputs)
        return self.dialects.scratch.query(relation, outputs, self.source)

    def source(self, relation: algebra.Relation) -> tuple[str, Columns] | None:
        """Return the table that holds this relation, or None where the printer must look inside."""
        if isinstance(relation, algebra.OneRow):
            return None
        block = relation.block if isinstance(relation, algebra.Released) else None
        if block is None and not _is_public(relation):
            return None
        name = f"release_{block}" if block is not None else f"public_{len(self.listed)}"
        columns = tuple((f"c{n}", f.type) for n, f in enumerate(relation.fields))
        if name not in {table.name for table in self.listed}:
            sql = None
            if block is None:
                outputs = tuple(f.ref for f in relation.fields)
                sql = self.dialects.database.query(relation, outputs)
            self.listed.append(private_plan.ReleasedTable(name, columns, block, sql))
        return name, {f.id: f"c{n}" for n, f in enumerate(relation.fields)}


def of_columns_read(relation: algebra.Relation, outputs: Sequence[Expression]) -> algebra.Relation:
    """Return the same relation with only those columns of public tables that something above reads.

    Public tables are copied whole from the owner's database; often two of thirty columns are
    needed.

    >>> from dpsql.model.tree import INTEGER
    >>> day, week = algebra.Field(1, "day", INTEGER), algebra.Field(2, "week", INTEGER)
    >>> of_columns_read(algebra.Scan("days", (day, week)), [week.ref]).fields == (week,)
    True
    """
    parts = tuple(relations(relation))
    if not any(isinstance(part, algebra.Scan) for part in parts):
        return relation
    read = frozenset[int]().union(*map(refs, outputs))
    for part in parts:
        read = read.union(*map(refs, expressions(part)))
        if isinstance(part, algebra.Union | algebra.Recursion | algebra.Apply | algebra.Single):
            read = read.union(f.id for source in inputs(part) for f in source.fields)
    return _narrowed(relation, read)


def _narrowed(relation: algebra.Relation, read: frozenset[int]) -> algebra.Relation:
    if not _is_public(relation):
        return map_inputs(relation, lambda part: _narrowed(part, read))
    fields = tuple(f for f in relation.fields if f.id in read) or relation.fields[:1]
    return (
        relation
        if fields == relation.fields
        else algebra.Project(relation, tuple(f.item for f in fields))
    )


def _is_public(relation: algebra.Relation) -> bool:
    """Test whether a relation reads public tables and no released ones."""
    parts = tuple(relations(relation))
    return any(isinstance(p, algebra.Scan) for p in parts) and not any(
        isinstance(p, algebra.Released) for p in parts
    )
