"""Operators that stay within one unit: per-unit aggregates, windows and UNION ALL.

A result per unit must not depend on other units, not even through the order in which an engine
reads rows: order-dependent functions get a complete order, or are refused.

Proof (PRIVACY.md R9, R16, R17, R18, R19, R93). A group or a partition that contains the unit's key
has rows of one unit, and its results are the same in every order of its rows: functions of that
unit's rows. Row numbers of one partition differ, so at most k are at most k. Nothing of it raises
(SECURITY.md S8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpsql.compiler.plan.private_plan import DeclaredLimits, least, product
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.track.uniqueness import Key
from dpsql.compiler.track.units import (
    UNJOINED,
    Anchor,
    Before,
    Growth,
    Private,
    Unique,
    attach_unit,
    names_of,
)
from dpsql.model import algebra, tree
from dpsql.model.algebra import Window
from dpsql.model.comparisons import against_constant
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DOUBLE, NULL
from dpsql.model.vocabulary import Fact, Policy
from dpsql.model.walk import conjuncts, refs

QUANTILES = frozenset({"quantile_cont", "quantile_disc"})
BETWEEN_DAYS = frozenset({"quantile_cont", "median"})
"""Aggregates between two dates that are times: DuckDB fails on a day that has none."""

EXTREMES = QUANTILES | frozenset("count min max median bool_and bool_or".split())
MOMENTS = frozenset(
    """stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp regr_slope
    regr_intercept regr_r2 regr_sxx regr_syy regr_sxy regr_avgx regr_avgy skewness kurtosis
    kurtosis_pop""".split()
)
ORDER_FREE = EXTREMES | MOMENTS | {"sum", "avg", "regr_count"}
"""Aggregates that are the same in every order of their rows, up to the rounding of DOUBLE."""

BY_ORDER = frozenset(
    """mode any_value first last string_agg list arg_max arg_min arg_max_null arg_min_null mad
    entropy""".split()
)
"""Aggregates that are the same in every order once their arguments are sorted."""

SAFE_DIGITS = 29
"""Digits of a DECIMAL with which a thousand million values add up without overflow in 38."""

MAX_OFFSET = 1_000_000

BY_POSITION = frozenset("row_number ntile lag lead first_value last_value nth_value".split())
"""Window functions that depend on the order of equal rows."""

BY_PEERS = frozenset("rank dense_rank percent_rank cume_dist".split())
"""Window functions that treat equal rows alike."""


def unit_keys(keys: Iterable[tree.Expression], source: Private) -> tuple[Anchor, ...]:
    """Return the keys that are a unit or belong to one, by column identity only."""
    anchors = {a.id: a for a in source.anchors}
    return tuple(anchors[k.id] for k in keys if isinstance(k, tree.Ref) and k.id in anchors)


def name_unit(keys: Iterable[tree.Expression], source: Private) -> frozenset[Fact] | None:
    """Return the facts by which rows that agree on the keys are of one unit; None if there are
    none.
    """
    columns = {key.id for key in keys if isinstance(key, tree.Ref)}
    if any(a.id in columns for a in source.anchors):
        return frozenset()
    said = [
        t.facts
        for t in source.together
        if t.single and not t.nullable and columns.issuperset(t.ids)
    ]
    return min(said, key=len, default=None)


def require_present(keys: Iterable[tree.Expression], source: Private) -> None:
    """Raise `Refused` for a group by a `same_unit` column that may be NULL: its NULL group would
    mix units.
    """
    beside = {t.ids[0] for t in source.together if t.beside and t.nullable}
    for key in keys:
        if isinstance(key, tree.Ref) and key.id in beside:
            name = next(f.name for f in source.relation.fields if f.id == key.id)
            fix = f"Add the condition {name} IS NOT NULL."
            what = f"a group for {name}, which NULL makes one of many people"
            raise _per_unit(what, key.span, fix, absent=name)


def aggregate_within(
    relation: algebra.Aggregate, source: Private, policy: Policy, identities: Identities
) -> Private:
    """Return GROUP BY keys that identify a unit: one row per unit and other keys, still private."""
    own_keys = unit_keys((item.expression for item in relation.keys), source)
    rows = attach_unit(source, policy, identities)
    unit = rows.unit(policy)
    holders = tuple(i for i in relation.keys if _is_unit(i.expression, rows, policy))
    hidden = () if holders else (algebra.Item(identities.field("unit", unit.type), unit),)
    keys = tuple(_one_zero(item, rows) for item in relation.keys) + hidden
    measures = tuple(replace(m, call=in_any_order(m.call)) for m in relation.measures)
    limit = _rows_of_unit(rows)
    grouped = replace(
        rows,
        relation=algebra.Aggregate(rows.relation, keys, measures, relation.span, limit),
        anchors=frozenset(
            replace(a, id=item.field.id)
            for item in keys
            for a in rows.anchors
            if isinstance(item.expression, tree.Ref) and a.id == item.expression.id
        ),
        unique={},
        ranks={},
        growth=UNJOINED.beside(rows.growth),
        copied=(),
        before=(),
        together=frozenset(new for old in rows.together for new in old.renamed(names_of(keys))),
    )
    fixed = rows.determined | {a.id for a in rows.anchors if a.table == policy.unit.table}
    determined = frozenset(i.field.id for i in keys if refs(i.expression) <= fixed)
    # There is one row for each unit and its other keys, which may be NULL.
    free = frozenset(i.field.id for i in keys) - determined
    grouped = replace(grouped, apart=(Key(free, nulls=True),))
    if len(determined) == len(keys):
        return _one_row(grouped, (holders or hidden)[0].field.id, alone=len(keys) == 1)
    tables = (policy.table(a.table) for a in own_keys)
    most = least(limit, *(t.max_rows_per_unit for t in tables if t is not None))
    per_group = least(most, rows.declared.rows_per_group)
    declared = replace(rows.declared, rows_per_unit=most, rows_per_group=per_group)
    return replace(grouped, determined=determined, declared=declared)


def _one_zero(item: algebra.Item, rows: Private) -> algebra.Item:
    """Return a key with 0.0 for -0.0 too; keys that identify rows stay unchanged."""
    if isinstance(item.expression, tree.Ref) and any(
        a.id == item.expression.id for a in rows.anchors
    ):
        return item
    return replace(item, expression=zeroed(item.expression))


def _one_row(grouped: Private, unit: int, *, alone: bool) -> Private:
    """Return a relation with one row per unit: the unit determines all of it."""
    return replace(
        grouped,
        max_rows=1,
        determined=frozenset(f.id for f in grouped.relation.fields),
        unique={unit: Unique(settling=frozenset())} if alone else {},
        growth=Growth(keys=frozenset({unit}) if alone else frozenset()),
        declared=DeclaredLimits(1, 1, 1, grouped.declared.public_groups),
    )


def _rows_of_unit(rows: Private) -> int | None:
    """Return the limit on the rows of a unit; without one, that on its rows in a single group."""
    most = least(rows.declared.rows_per_unit, rows.max_rows)
    return rows.declared.rows_per_group if most is None else most


def _is_unit(expression: tree.Expression, rows: Private, policy: Policy) -> bool:
    return isinstance(expression, tree.Ref) and any(
        a.id == expression.id and a.table == policy.unit.table for a in rows.anchors
    )


def in_any_order(call: tree.AggregateCall) -> tree.AggregateCall:
    """Return an aggregate that does not depend on the order in which the engine reads the rows.

    Raises `Refused` for an aggregate that is not known to be the same in every order.
    """
    by_another = any(k.expression != call.args[0] for k in call.order_by)
    if call.function in QUANTILES and (by_another or call.args[2:]):
        raise _per_unit(f"{call.function.upper()} by another order", call.span)
    args = tuple(guarded(call.function, arg, call.span) for arg in call.args)
    picks = call.function not in MOMENTS | {"sum", "avg"}
    call = replace(call, args=tuple(map(zeroed, args)) if picks else args)
    summed = call.function in MOMENTS or any(
        not isinstance(a, tree.Star) and type_of(a).kind is tree.Kind.DOUBLE for a in call.args
    )
    if call.function in ORDER_FREE and not (summed and call.function not in EXTREMES):
        return call
    if call.function not in ORDER_FREE | BY_ORDER:
        raise _per_unit(f"{call.function.upper()} within one unit", call.span)
    # Sums of DOUBLE depend on their order in the last digits, and that on other units' rows.
    ties = tuple(tree.SortKey(arg) for arg in call.args if not isinstance(arg, tree.Literal))
    return replace(call, order_by=call.order_by + ties)


def zeroed(expression: tree.Expression) -> tree.Expression:
    """Return a DOUBLE expression without -0.0, since the choice between 0.0 and -0.0 depends on the
    order of rows. Other types are unchanged.
    """
    if isinstance(expression, tree.Star) or type_of(expression).kind is not tree.Kind.DOUBLE:
        return expression
    zero = tree.Literal(0.0, DOUBLE)
    return tree.when(expression.eq(zero), zero, expression)


def guarded(function: str, arg: tree.Expression, span: tree.Span) -> tree.Expression:
    """Convert an argument so that its aggregate over one unit's rows cannot fail; NULL if out of
    range.
    """
    if isinstance(arg, tree.Star):
        return arg
    match type_of(arg).kind:
        case _ if function == "mad":
            return tree.Cast(arg, DOUBLE, safe=True)
        case tree.Kind.DATE if function in BETWEEN_DAYS:
            return tree.Cast(arg, tree.TIMESTAMP, safe=True)
        case tree.Kind.INTEGER if function in ("sum", "avg"):
            return tree.Cast(arg, tree.INTEGER, safe=True)
        case tree.Kind.DECIMAL if (
            function in ("sum", "avg") and type_of(arg).precision > SAFE_DIGITS
        ):
            if type_of(arg).scale > SAFE_DIGITS - 9:
                raise _per_unit(f"{function.upper()} of {type_of(arg)} within one unit", span)
            return tree.Cast(arg, tree.decimal(SAFE_DIGITS, type_of(arg).scale), safe=True)
        case _:
            return arg


def _per_unit(construct: str, span: tree.Span, fix: str = "", **more: str) -> Refused:
    facts = {"fix": fix, **more} if fix else more
    return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, span, construct=construct, **facts)


def window_within(
    relation: Window, source: Private, policy: Policy, identities: Identities
) -> Private:
    """Return windows that are partitioned by a unit: every row stays, with its unit."""
    said = [name_unit(item.call.partition_by, source) for item in relation.items]
    for item, facts in zip(relation.items, said, strict=True):
        if facts is None:
            require_present(item.call.partition_by, source)
            fix = f"Add PARTITION BY {policy.unit.key}, or use it after the aggregation."
            raise _per_unit("a window function over rows of several people", item.call.span, fix)
    vouched = source.facts.union(*(facts for facts in said if facts is not None))
    rows = attach_unit(replace(source, facts=vouched), policy, identities)
    unit = rows.unit(policy)
    items = tuple(
        algebra.WindowItem(item.field, _settled(_by_unit(item.call, unit, rows, policy), rows))
        for item in relation.items
    )
    fixed = rows.determined | {a.id for a in rows.anchors if a.table == policy.unit.table}
    ranks = {
        item.field.id: before
        for item in items
        if item.call.function == "row_number"
        if (before := _parted(item.call, rows, fixed)) is not None
    }
    result = Window(rows.relation, items, _rows_of_unit(rows))
    # Ties are broken by a column that identifies rows; its facts are recorded.
    vouching = (u.settling for u in rows.unique.values() if u.settling is not None)
    facts = rows.facts | frozenset().union(*vouching)
    return replace(rows, relation=result, ranks={**rows.ranks, **ranks}, facts=facts)


ONE = Before(frozenset(), 1, DeclaredLimits(1, 1, 1))
"""The whole of a unit as a single part."""


def _parted(call: tree.WindowCall, rows: Private, fixed: frozenset[int]) -> Before | None:
    """Return the parts of a unit's rows in a partition: one, or one for each earlier row; None if
    unknown.
    """
    read = frozenset().union(*map(refs, call.partition_by)) - fixed
    parts = [before for before in rows.before if read <= before.free]
    if not read:
        return ONE
    return min(parts, key=lambda before: (before.rows is None, before.rows), default=None)


def _by_unit(
    call: tree.WindowCall, unit: tree.Ref, rows: Private, policy: Policy
) -> tree.WindowCall:
    if any(_is_unit(key, rows, policy) for key in call.partition_by):
        return call
    return replace(call, partition_by=(*call.partition_by, unit))


def _settled(call: tree.WindowCall, rows: Private) -> tree.WindowCall:
    """Return the window function with an order that leaves no choice to the engine."""
    by_rows = call.frame is not None and call.frame.unit == "ROWS"
    _check_constants(call)
    if call.function in BY_PEERS:
        return call
    if call.function in BY_POSITION or by_rows:
        written = {key.expression for key in call.order_by}
        here = {f.id for f in rows.relation.fields}
        single = [n for n, u in sorted(rows.unique.items()) if n in here and u.settling is not None]
        rest = [f for f in rows.relation.fields if not single or f.id == single[0]]
        ties = tuple(
            _tie(f) for f in rest if f.ref not in written or f.type.kind is tree.Kind.DOUBLE
        )
        call = replace(call, order_by=call.order_by + ties)
    if call.function in BY_POSITION:
        return call
    exact = all(
        isinstance(a, tree.Star) or type_of(a).kind is not tree.Kind.DOUBLE for a in call.args
    )
    if call.function not in ORDER_FREE - MOMENTS or not (exact or call.function in EXTREMES):
        fix = "Cast the argument to DECIMAL: sums of DOUBLE depend on the order of rows."
        raise _per_unit(f"{call.function.upper()} OVER of this type in one unit", call.span, fix)
    args = (zeroed(guarded(call.function, a, call.span)) for a in call.args)
    return replace(call, args=tuple(args))


def _tie(column: algebra.Field) -> tree.SortKey:
    """Return a column as the last sort key; as text it distinguishes 0.0 from -0.0."""
    ref = column.ref
    return tree.SortKey(
        tree.Cast(ref, tree.VARCHAR) if column.type.kind is tree.Kind.DOUBLE else ref
    )


def _check_constants(call: tree.WindowCall) -> None:
    """Refuse offsets that are not positive constants, distances of GROUPS, and distances along
    anything but exact numbers, which dialects print so that no row makes them fail.
    """
    frame = call.frame
    if frame is not None and frame.has_distance and not _has_places(frame, call.order_by):
        raise _per_unit(f"a {frame.unit} frame with an offset within one unit", call.span)
    if call.function not in BY_POSITION:
        return
    counts = call.args if call.function == "ntile" else call.args[1:2]
    for arg in counts:
        if not (
            isinstance(arg, tree.Literal) and type(arg.value) is int and 0 < arg.value < MAX_OFFSET
        ):
            raise _per_unit(f"{call.function.upper()} with this offset within one unit", call.span)
    for arg in call.args[2:]:
        if isinstance(arg, tree.Star) or type_of(arg) not in (call.type, NULL):
            raise _per_unit(f"{call.function.upper()} with a default of another type", call.span)


def _has_places(frame: tree.Frame, order: tuple[tree.SortKey, ...]) -> bool:
    """Test whether distances of a frame are rows, or differences of exact numbers."""
    exact = (tree.Kind.INTEGER, tree.Kind.DECIMAL)
    along = frame.unit == "RANGE" and all(type_of(k.expression).kind in exact for k in order)
    return frame.unit == "ROWS" or along


def cut_by_rank(source: Private, predicate: tree.Expression) -> Private:
    """Limit rows by a row number of at most k within their unit, or its part: no part has more than
    k.
    """
    for part in conjuncts(predicate):
        rank, most = _rank_limit(part)
        if rank in source.ranks:
            source = _cut(source, source.ranks[rank], most)
    return source


def _cut(source: Private, parts: Before, most: int) -> Private:
    proved = product(parts.rows, most)
    if proved is not None and source.max_rows is not None and source.max_rows <= proved:
        return source
    declared = source.declared
    limits = parts.declared.times(DeclaredLimits(most, most, most))
    declared = replace(
        declared,
        rows_per_unit=least(limits.rows_per_unit, declared.rows_per_unit),
        groups_per_unit=least(limits.groups_per_unit, declared.groups_per_unit),
        rows_per_group=least(limits.rows_per_group, declared.rows_per_group),
    )
    proved = least(proved, source.max_rows)
    every = frozenset(f.id for f in source.relation.fields)
    determined = source.determined | (every if proved == 1 else frozenset())
    return replace(source, max_rows=proved, determined=determined, declared=declared)


def _rank_limit(predicate: tree.Expression) -> tuple[int, int]:
    """Return a column and its greatest value for which a condition is true; else no column."""
    match against_constant(predicate):
        case ("eq" | "le" | "lt" as name, tree.Ref(id=rank), tree.Literal(value=int() as most)):
            if isinstance(most, bool) or most < 1:
                return _NO_RANK
            return rank, {"eq": 1, "le": most, "lt": max(1, most - 1)}[name]
        case _:
            return _NO_RANK


_NO_RANK = (-1, 0)
