"""Public rows that a private row meets alike are replaced by one row with their number: a weight.

`FROM people p JOIN cities c ON p.city = c.district` makes as many rows of a unit as there are
cities in the district, which shows in the running time. Where only the district of a city is read,
the cities of each district are counted first, because they are public. A unit then meets one row
that stands for all of them: COUNT adds up weights, and SUM(x) x times the weight.

Quantiles and other choices, samples, and aggregates within one unit other than counts, sums,
averages, extremes and sets of values read every row.

Conditions between public tables are applied among them: `a` and `b` in `p JOIN a ON p.x = a.x JOIN
b ON a.y = b.y` meet a unit as one table of `x`.

Proof (PRIVACY.md R23). This changes what an engine does, not what it computes. Let K be the public
columns that anything else reads. Rows that agree on K meet the same private rows and give the same
values. So a sum over all of them is that over one row for each value of K, times the number of rows
with it. The integers of a block are the same, one by one, including clipping. All proofs about its
rows, measurements of public rows and claims about the integers refer to the rows without weights.
Repetition moves no extreme and no set of values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import prod
from typing import assert_never

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.plan.lattices import ContributedRows
from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.compiler.plan.weighed_rows import Weighed
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.weighed_measures import is_weighable, weighed_aggregate
from dpsql.compiler.track.join_order import Joined, columns_of, connects, rebuilt
from dpsql.compiler.track.uniqueness import key_within, keys_of
from dpsql.model import tree
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Match,
    Measure,
    Project,
    Relation,
    Scan,
    Staged,
)
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import DOUBLE
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, expressions, map_inputs, refs, relations

Frequency = Callable[[Relation, tuple[tree.Ref, ...]], int]
"""A function to the most rows of a public relation that agree on some columns."""

MOST_WEIGHT = 1 << 31
"""Largest weight. A row of 62 bits times as much, for each of as many rows, fits 128 bits. Weights
are at most `max_fanout`, beyond which joins are refused.
"""

MOST_PAIRS = 10_000_000
"""Largest number of pairs of public rows that may be compared, in about the usual time of a
query.
"""


def weighed(
    plan: PrivatePlan, policy: Policy, frequency: Frequency, identities: Identities
) -> PrivatePlan:
    """Return the plan with weighted rows in blocks where public tables repeat rows."""
    parts = (part for block in plan.blocks for part in relations(block.block.rows))
    if policy.limits.max_fanout > MOST_WEIGHT or not any(isinstance(p, Join) for p in parts):
        return plan
    weigher = _Weigher(policy, frequency, identities)
    return replace(plan, blocks=tuple(map(weigher.block, plan.blocks)))


@dataclass(frozen=True, slots=True)
class _Thin:
    """A relation where rows count by the product of the `weights` columns.

    Weights in `absent` are NULL in a row without a match, which counts once.
    """

    relation: Relation
    weights: tuple[Field, ...] = ()
    absent: frozenset[int] = frozenset()

    def weight(self) -> tree.Expression | None:
        """Return the number of rows that one row stands for; None where each is one."""
        factors = [self._factor(column) for column in self.weights]
        return (
            reduce(lambda a, b: tree.scalar("mul", a, b, kind=tree.INTEGER), factors)
            if factors
            else None
        )

    def _factor(self, column: Field) -> tree.Expression:
        column_ref = column.ref
        if column.id not in self.absent:
            return column_ref
        return tree.scalar("coalesce", column_ref, 1, kind=tree.INTEGER)


@dataclass(frozen=True, slots=True)
class _Weigher:
    policy: Policy
    frequency: Frequency
    identities: Identities

    def block(self, plan: BlockPlan) -> BlockPlan:
        block, rows = plan.block, self.within(plan.block.rows)
        thin = _Thin(rows)
        if _adds_up(plan):
            read = [key.expression for key in block.keys]
            read += [node for query in plan.queries for node in kinds.expressions_of(query)]
            read += [node for query in plan.histograms for node in query.expressions]
            read += [] if block.several else [block.unit]
            thin = self.thin(rows, _read(read))
        if thin.relation == block.rows:
            return plan
        return replace(plan, block=replace(block, weighed=Weighed(thin.relation, thin.weight())))

    def within(self, relation: Relation) -> Relation:
        """Return the same rows, with aggregates within one unit over weighted rows."""
        relation = map_inputs(relation, self.within)
        if not isinstance(relation, Aggregate) or self._is_public(relation):
            return relation
        if relation.sets or not all(map(is_weighable, relation.measures)):
            return relation
        thin = self.thin(relation.input, _read(expressions(relation)))
        weight = thin.weight()
        grouped = replace(relation, input=thin.relation)
        return grouped if weight is None else weighed_aggregate(grouped, weight, self.identities)

    def thin(self, relation: Relation, needed: frozenset[int]) -> _Thin:
        """Return the relation for readers of only the columns `needed`, with its public rows
        counted.
        """
        match relation:
            case _ if self._is_public(relation):
                joined = Joined.of(relation)
                return self._component(joined.leaves, joined.conditions, needed) or _Thin(relation)
            case Filter() | Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
                return self._inner(relation, needed)
            case Join(kind=tree.JoinKind.LEFT):
                return self._left(relation, needed)
            case Project():
                return self._project(relation, needed)
            case Match():
                read = (relation.condition, *(relation.member or ()))
                source = self.thin(relation.input, needed | _read(e for e in read if e is not None))
                return replace(source, relation=replace(relation, input=source.relation))
            case _:
                return _Thin(relation)

    def _project(self, relation: Project, needed: frozenset[int]) -> _Thin:
        """Return the columns that are read; an unread column does not separate rows."""
        items = tuple(item for item in relation.items if item.field.id in needed)
        source = self.thin(relation.input, _read(item.expression for item in items))
        if not source.weights:
            return _Thin(relation)
        passed = tuple(f.item for f in source.weights)
        return replace(source, relation=Project(source.relation, items + passed))

    def _left(self, join: Join, needed: frozenset[int]) -> _Thin:
        """Return a LEFT JOIN, where rows without a match count once.

        Conditions on public rows of the right side alone are applied there, before they are
        counted.
        """
        conditions, right = conjuncts(join.condition), join.right
        own = [c for c in conditions if refs(c) and refs(c) <= columns_of((right,))]
        rest = tuple(c for c in conditions if c not in own)
        if rest and self._is_public(right):
            right, conditions = _filtered_rows(right, own), rest
        read = needed | _read(conditions)
        left, other = self.thin(join.left, read), self.thin(right, read)
        weights = left.weights + other.weights
        if not weights:
            return _Thin(join)
        sides, condition = (left.relation, other.relation), both(conditions)
        thin = replace(join, left=sides[0], right=sides[1], condition=condition)
        absent = left.absent | {f.id for f in other.weights}
        return _Thin(thin, weights, absent)

    def _inner(self, relation: Relation, needed: frozenset[int]) -> _Thin:
        """Return a tree of inner joins; conditions on merged public tables are applied above."""
        joined = Joined.of(relation)
        public = tuple(leaf for leaf in joined.leaves if self._is_public(leaf))
        among = tuple(c for c in joined.conditions if refs(c) and refs(c) <= columns_of(public))
        tied = Joined(public, among).groups()
        groups = [part for group in tied for part in self._joinable(group, among)]
        components = {group: self._component(group, joined.conditions, needed) for group in groups}
        counted = {group: thin for group, thin in components.items() if thin is not None}
        read = needed | _read(joined.conditions)
        others = {leaf: self.thin(leaf, read) for leaf in joined.leaves if leaf not in public}
        thins = [*counted.values(), *others.values()]
        weights = tuple(f for thin in thins for f in thin.weights)
        if not weights:
            return _Thin(relation)
        instead: dict[Relation, Relation | None] = {n: t.relation for n, t in others.items()}
        settled, merged = set[tree.Expression](), frozenset[int]()
        for group, thin in counted.items():
            columns = columns_of(group)
            settled |= {c for c in among if refs(c) <= columns}
            merged |= columns if len(group) > 1 else frozenset()
            instead |= {**dict.fromkeys(group), group[0]: thin.relation}
        all_above = dict.fromkeys(c for c in joined.conditions if refs(c) & merged)
        above = [c for c in all_above if c not in settled]
        moved = settled.union(above)
        rows = rebuilt(relation, lambda leaf: instead.get(leaf, leaf), lambda c: c not in moved)
        assert rows is not None
        absent = frozenset().union(*(thin.absent for thin in thins))
        return _Thin(_filtered_rows(rows, above), weights, absent)

    def _joinable(
        self, group: tuple[Relation, ...], conditions: Sequence[tree.Expression]
    ) -> list[tuple[Relation, ...]]:
        """Return the group, or its members where too many pairs of their rows would be compared.

        A private row, of which there may be few, meets at most `max_fanout` of them.
        """
        own = [c for c in conditions if refs(c) <= columns_of(group)]
        if len(group) == 1 or connects(_chain(group, own)):
            return [group]
        measured = not any(isinstance(part, Staged) for leaf in group for part in relations(leaf))
        if measured and prod(self.frequency(leaf, ()) for leaf in group) <= MOST_PAIRS:
            return [group]
        return [(leaf,) for leaf in group]

    def _component(
        self,
        group: Sequence[Relation],
        conditions: Sequence[tree.Expression],
        needed: frozenset[int],
    ) -> _Thin | None:
        """Merge public relations into one with weights, of the columns that others read.

        Returns None where no row repeats.
        """
        columns = columns_of(group)
        own = [c for c in dict.fromkeys(conditions) if refs(c) <= columns]
        outside = needed | _read(c for c in conditions if c not in own)
        parts = []
        for leaf in group:
            alone = [c for c in own if refs(c) <= columns_of((leaf,))]
            own = [c for c in own if c not in alone]
            parts.append(self._counted(_Thin(_filtered_rows(leaf, alone)), outside | _read(own)))
        if len(parts) > 1:
            weights = tuple(f for part in parts for f in part.weights)
            whole = _chain([part.relation for part in parts], own)
            parts = [self._counted(_Thin(whole, weights), outside, several=True)]
        return parts[0] if parts[0].weights else None

    def _counted(self, rows: _Thin, read: frozenset[int], *, several: bool = False) -> _Thin:
        """Return the distinct rows of the columns that are read, each with its number.

        Two rows that agree are enough: counting them is faster than joining both, and slower
        without repetitions. A join of `several` relations is not measured, because that could be
        more work than the query.
        """
        fields = [f for f in rows.relation.fields if f.id in read]
        keys = keys_of(rows.relation, self.policy, _no_block)
        if key_within(keys, frozenset(f.id for f in fields)) is not None:
            return rows
        if not several and not self._repeats(rows.relation, fields):
            return rows
        weight, number = rows.weight(), self.identities.field("weight", tree.INTEGER)
        call = tree.AggregateCall("count", (tree.Star(),), type=tree.INTEGER)
        if weight is not None:
            call = tree.AggregateCall("sum", (weight,), type=tree.INTEGER)
        items = tuple(f.item for f in fields)
        apart = (f for f in fields if f.type == DOUBLE)
        items += tuple(
            Item(self.identities.field("text", tree.VARCHAR), tree.Cast(f.ref, tree.VARCHAR))
            for f in apart
        )
        grouped: Relation = Aggregate(rows.relation, items, (Measure(number, call),))
        if not items:  # one row also without input rows
            some = number.ref.gt(0)
            grouped = Filter(grouped, some)
        return _Thin(grouped, (number,))

    def _repeats(self, rows: Relation, fields: Sequence[Field]) -> bool:
        """Test whether rows agree on these columns; earlier evaluated rows are assumed to."""
        if any(isinstance(part, Staged) for part in relations(rows)):
            return True
        return self.frequency(rows, tuple(f.ref for f in fields)) > 1

    def _is_public(self, relation: Relation) -> bool:
        """Test whether a relation reads nothing private or released."""
        for part in relations(relation):
            if isinstance(part, Scan):
                table = self.policy.table(part.table)
                if table is None or table.private:
                    return False
            if isinstance(part, Staged) and part.source is None:
                return False
        return True


def _adds_up(plan: BlockPlan) -> bool:
    """Test whether a block reads only sums, sets of values and extremes of its rows.

    Where no unit has more than one row, none is repeated.
    """
    extremes = all(
        h.contributed in (ContributedRows.LEAST, ContributedRows.GREATEST) for h in plan.histograms
    )
    sums = all(map(_weighs, plan.queries))
    return extremes and sums and (plan.block.several or not plan.row_level)


def _weighs(part: kinds.Measurement) -> bool:
    """Test whether a row with a weight can replace that many rows."""
    match part:
        case (
            kinds.RowCount()
            | kinds.UnitCount()
            | kinds.ClippedSum()
            | kinds.ScaledTotal()
            | kinds.DistinctCount()
            | kinds.DistinctSum()
            | kinds.RowTest()
            | kinds.StableMean()
        ):
            return True
        case kinds.BlockAverage():
            return False
        case _:
            assert_never(part)


def _chain(parts: Sequence[Relation], conditions: Sequence[tree.Expression]) -> Relation:
    """Join the relations one after another, with each condition as early as possible."""
    rows, rest = parts[0], list(conditions)
    for part in parts[1:]:
        here = columns_of((rows, part))
        now = tuple(c for c in rest if refs(c) <= here)
        rest = [c for c in rest if c not in now]
        rows = Join(rows, part, tree.JoinKind.INNER if now else tree.JoinKind.CROSS, both(now))
    return rows


def _filtered_rows(rows: Relation, conditions: Sequence[tree.Expression]) -> Relation:
    """Return the rows that also meet these conditions."""
    if not conditions:
        return rows
    if isinstance(rows, Filter):
        predicates = conjuncts(rows.predicate)
        return replace(rows, predicate=_all((*predicates, *conditions)))
    return Filter(rows, _all(conditions))


def _all(conditions: Iterable[tree.Expression]) -> tree.Expression:
    condition = both(tuple(conditions))
    assert condition is not None
    return condition


def _read(nodes: Iterable[tree.Expression]) -> frozenset[int]:
    return frozenset().union(*map(refs, nodes))


def _no_block(number: int) -> int:
    raise AssertionError(number)
