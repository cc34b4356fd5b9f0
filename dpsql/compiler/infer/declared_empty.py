"""Aggregates that certainly have no rows: they are constants, without measurement.

A filter, of the rows or of one aggregate, may exclude all values that are listed for a column, or
all rows by a fact. Stored values are not read. This is the same as for keys, where unlisted values
are in no group. What the query does not read is no measure either.

Proof (PRIVACY.md R38). It depends on the text, the policy and public data alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dpsql.compiler.infer.certain_measures import EqualCounts, read_columns
from dpsql.compiler.infer.certain_rows import CertainRows
from dpsql.compiler.infer.column_facts import (
    Columns,
    Evaluate,
    FactSource,
    PublicData,
    Row,
    about,
    without_found_bounds,
)
from dpsql.compiler.infer.infer import domain_of
from dpsql.compiler.plan.private_plan import PrivateBlock, Tracked
from dpsql.model import algebra, tree
from dpsql.model.row_notices import ByDeclaration, NoRows
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy
from dpsql.model.walk import both, map_inputs, refs, relations, walk

_ZERO = frozenset("count regr_count sum".split())
"""Aggregates that are 0 without rows, as a measurement would be around 0."""
_NULL = frozenset(
    """avg variance var_pop stddev stddev_pop min max median mode quantile_cont quantile_disc
    any_value arg_min arg_max covar_pop covar_samp corr regr_slope regr_intercept regr_r2 bool_or
    bool_and""".split()
)
"""Aggregates that are NULL without rows."""


def without_empty_blocks(
    tracked: Tracked, policy: Policy, public: PublicData, evaluate: Evaluate
) -> Tracked:
    """Replace aggregates that have no rows by declaration with their constants.

    Input of a stage stays, because it is released before its joins are known. Bounds that were
    found decide nothing, so that every step of a question measures the same.
    """
    if not _may_be_decided(tracked):
        return tracked
    policy = policy.with_tables(without_found_bounds)
    origin = FactSource(policy, public, evaluate, policy.limits.max_public_groups)
    domain = partial(domain_of, policy=policy, public=public, evaluate=evaluate)
    judge = CertainRows(origin)
    counts = EqualCounts(tracked.blocks, tracked.outer, judge)
    outer = counts.folded(tracked.outer)
    rest, reasons = _measured(replace(tracked, outer=outer), judge, domain)
    reasons = counts.reasons | reasons
    if not reasons and all(rest[n] is block for n, block in enumerate(tracked.blocks)):
        return tracked
    left = [n for n, block in enumerate(tracked.blocks) if rest[n] is not None]

    def folded(relation: algebra.Relation) -> algebra.Relation:
        match relation:
            case algebra.Released(block=number) if number not in left:
                block = tracked.blocks[number]
                return _constants(relation, block, domain(block))
            case algebra.Released(block=number):
                table, block = replace(relation, block=left.index(number)), tracked.blocks[number]
                return _beside_constants(table, block, rest[number] or block)
            case _:
                return map_inputs(relation, folded)

    outer, notices = folded(outer), (*tracked.notices, *reasons)
    if not _released(outer):
        return Tracked(outer, (), notices=notices)
    blocks = tuple(rest[number] or tracked.blocks[number] for number in left)
    return Tracked(outer, blocks, tuple(map(folded, tracked.stages)), notices)


def _may_be_decided(tracked: Tracked) -> bool:
    """Test whether facts or lists could decide a measure, or whether one is not read.

    Nothing decides the only measure of rows without conditions, if it is read.
    """
    measures = [measure.call for block in tracked.blocks for measure in block.measures]
    parts = [part for block in tracked.blocks for part in relations(block.rows)]
    return (
        len(measures) != 1
        or not all(isinstance(part, algebra.Scan | algebra.Project) for part in parts)
        or measures[0].filter is not None
        or any(isinstance(argument, tree.Call) for argument in measures[0].args)
        or any(_unread(tracked.outer, tracked.blocks))
    )


def _released(relation: algebra.Relation) -> tuple[algebra.Released, ...]:
    return tuple(part for part in relations(relation) if isinstance(part, algebra.Released))


def _measured(
    tracked: Tracked,
    judge: CertainRows,
    domain: Callable[[PrivateBlock], tuple[Row, ...] | None],
) -> tuple[dict[int, PrivateBlock | None], dict[NoRows, None]]:
    """Return the measured rest of each block, or None, and why other measures have no rows."""
    staged = {part.block for stage in tracked.stages for part in _released(stage)}
    unread = _unread(tracked.outer, tracked.blocks)
    rest, reasons = dict[int, PrivateBlock | None](enumerate(tracked.blocks)), dict[NoRows, None]()
    for number, block in enumerate(tracked.blocks):
        if number not in staged:
            whole = _why_empty(block.rows, judge)
            constant = dict.fromkeys(unread[number]) | dict(_without_rows(block, whole, judge))
            rest[number], why = _rest(block, whole, constant, domain)
            reasons |= dict.fromkeys(why)
    return rest, reasons


def _unread(outer: algebra.Relation, blocks: Sequence[PrivateBlock]) -> list[set[int]]:
    """Return the places of the measures of each block on which no output depends."""
    read = read_columns(outer, frozenset(f.id for f in outer.fields))
    places = [set(range(len(block.measures))) for block in blocks]
    for released in _released(outer):
        columns = released.fields[len(blocks[released.block].keys) :]
        for field, place in zip(columns, released.measures, strict=True):
            places[released.block] -= {place} if field.id in read else set()
    return places


def _rest(
    block: PrivateBlock,
    whole: NoRows | None,
    constant: Mapping[int, NoRows | None],
    domain: Callable[[PrivateBlock], tuple[Row, ...] | None],
) -> tuple[PrivateBlock | None, tuple[NoRows, ...]]:
    """Return the measured rest of a block, or None, and the reasons why other measures have no
    rows.
    """
    reasons = tuple(each for each in constant.values() if each is not None)
    if len(constant) < len(block.measures):
        measures = tuple(m for place, m in enumerate(block.measures) if place not in constant)
        return (replace(block, measures=measures) if constant else block), reasons
    if whole is not None:
        return None, (whole,)
    if constant and block.keys and not (reasons and domain(block) is not None):
        return replace(block, measures=()), reasons  # its groups are still to be listed or found
    return (None if constant else block), reasons


def _without_rows(
    block: PrivateBlock, whole: NoRows | None, judge: CertainRows
) -> Iterator[tuple[int, NoRows]]:
    """Yield the places of measures that have no rows, with the reason: that of the `whole` block,
    if any.
    """
    for place, call in enumerate(measure.call for measure in block.measures):
        reason = whole
        if reason is None and call.filter is not None:
            reason = _why_empty(algebra.Filter(block.rows, call.filter), judge)
        if reason is None:
            reason = judge.why_nothing(call, block.rows)
        if reason is not None and call.function in _ZERO | _NULL:
            yield place, reason


def _why_empty(rows: algebra.Relation, judge: CertainRows) -> NoRows | None:
    """Return why there are no rows: by a list of values, or by a fact."""
    return next(_outside(rows, judge.origin), None) or judge.why_empty(rows)


# --- where a filter leaves no listed value ---


def _outside(rows: algebra.Relation, origin: FactSource) -> Iterator[ByDeclaration]:
    """Yield the columns for which the conditions exclude every listed value.

    The rows must certainly exist. It uses conditions that compare a column with constants, and not
    the consequences of joins.
    """
    columns = Columns(rows, origin)
    said = defaultdict[int, list[tree.Expression]](list)
    for predicate in (each.predicate for each in columns.predicates if each.of is None):
        stored = columns.over_sources(predicate)
        for number in refs(stored):
            if (alone := about(stored, number)) is not None:
                said[number].append(alone)
    for field, table, declared in _listed(rows, origin.policy) if said else ():
        condition = both(tuple(said.get(field.id, ())))
        if condition is not None and declared.values is not None:
            # NULL is no other value: it may occur despite the declaration.
            tried: list[Row] = [(value,) for value in (*declared.values, None)]
            verdicts = origin.evaluate((condition,), (field,), tried)
            if not any(holds for (holds,) in verdicts):
                near = _near(condition, declared.values)
                yield ByDeclaration(table.name, declared.name, declared.values, near)


def _near(condition: tree.Expression, values: Sequence[tree.Value]) -> str | None:
    """Return a listed text that is similar to a text of the condition."""
    texts = [value for value in values if isinstance(value, str)]
    said = (node.value for node in walk(condition) if isinstance(node, tree.Literal))
    near = (nearest(t, texts) for t in said if isinstance(t, str) and t not in texts)
    return next(filter(None, near), None)


def _listed(
    rows: algebra.Relation, policy: Policy
) -> Iterator[tuple[algebra.Field, TablePolicy, ColumnPolicy]]:
    """Yield the columns with listed values of private tables that are present in every row."""
    for scan in _present(rows):
        table = policy.table(scan.table)
        assert table is not None
        for field in scan.fields if table.private else ():
            column = table.column(field.name)
            if column is not None and column.values is not None:
                yield field, table, column


def _present(relation: algebra.Relation) -> Iterator[algebra.Scan]:
    """Yield the tables that have a row in every row of the relation, or rows in every group."""
    match relation:
        case algebra.Scan():
            yield relation
        case (
            algebra.Project()
            | algebra.Filter()
            | algebra.Sort()
            | algebra.Match()
            | algebra.Window()
        ):
            yield from _present(relation.input)
        case algebra.Aggregate(keys=keys, sets=sets) if keys and not sets:
            yield from _present(relation.input)
        case algebra.Join(left=left, right=right, kind=kind):
            yield from _present(left)
            if kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS):
                yield from _present(right)
        case _:
            return


# --- results without rows ---


def _constants(
    released: algebra.Released, block: PrivateBlock, domain: tuple[Row, ...] | None
) -> algebra.Relation:
    """Return the table that the block would release: its public keys with the constants of no rows.

    Private keys have no group.
    """
    if block.keys and not domain:
        return algebra.rowless(released.fields)
    width = len(block.keys)
    keys, measures = released.fields[:width], released.fields[width:]
    rows: algebra.Relation = algebra.OneRow()
    if domain and keys:
        types = [key.type for key in keys]
        rows = algebra.Values(keys, tuple(tuple(map(tree.Literal, row, types)) for row in domain))
    calls = [block.measures[number].call for number in released.measures]
    items = (
        algebra.Item(f, _of_none(call, f.type)) for f, call in zip(measures, calls, strict=True)
    )
    return algebra.Project(rows, (*(key.item for key in keys), *items))


def _beside_constants(
    released: algebra.Released, block: PrivateBlock, rest: PrivateBlock
) -> algebra.Relation:
    """Return the released table of a block with a measured `rest`: its other measures are
    constants.
    """
    if rest is block:
        return released
    width = len(block.keys)
    keys, measures = released.fields[:width], released.fields[width:]
    places = {id(measure): place for place, measure in enumerate(rest.measures)}
    columns = [(f, block.measures[n]) for f, n in zip(measures, released.measures, strict=True)]
    there = [(f, places[id(measure)]) for f, measure in columns if id(measure) in places]
    table = replace(
        released,
        fields=(*keys, *(field for field, _ in there)),
        measures=tuple(place for _, place in there),
    )
    items = (
        f.item if id(measure) in places else algebra.Item(f, _of_none(measure.call, f.type))
        for f, measure in columns
    )
    return algebra.Project(table, (*(key.item for key in keys), *items))


def _of_none(call: tree.AggregateCall, kind: tree.SqlType) -> tree.Expression:
    """Return the value of an aggregate without rows."""
    return tree.Cast(
        tree.Literal(0, tree.INTEGER) if call.function in _ZERO else tree.Literal(None, tree.NULL),
        kind,
    )
