"""Rows of private tables read from the store of `dpsql prepare`, with fewer joins.

A table of the store has the rows of its table that belong to a unit, each with the columns of the
links that lead from it to the unit. So a join along these links is left out if it fetches no other
column.

Proof (PRIVACY.md R87). This changes what an engine reads, not what it computes. Unowned rows are in
no unit's data, so by R7 no row of any unit follows from them. To leave them out of every table
changes no row of the block. For the remaining rows each link leads to one row, and to one alone,
since `dpsql prepare` has counted in these very files that keys are unique. So an inner join along
it repeats and drops none, and the columns of key and link that it would fetch are stored with the
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations

from dpsql.compiler.plan.measurement_kinds import DistinctSum, RatioVote, expressions_of
from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.compiler.plan.weighed_rows import Weighed
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.rollups import by_turns, over_rollup
from dpsql.compiler.track.equalities import exactly_equal
from dpsql.compiler.track.join_order import INNER, Joined, rebuilt
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.prepared_store import (
    PreparedStore,
    Rollup,
    beside,
    name_in_store,
    table_in_store,
    turn_columns,
)
from dpsql.model.tree import AggregateCall, Call, Expression, Ref
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import both, expressions, inputs, map_inputs, refs, relations


def over_store(
    plan: PrivatePlan, policy: Policy, store: PreparedStore, identities: Identities
) -> tuple[tuple[BlockPlan, ...], tuple[str, ...]]:
    """Return the blocks over the policy's store, and the stored tables that they read.

    Use their measurements for printing only: all facts are those of the plan's blocks.
    """
    blocks = tuple(_over_store(block, policy, store, identities) for block in plan.blocks)
    rows = [part for b in blocks if b.block.weighed for part in relations(b.block.weighed.rows)]
    tables = dict.fromkeys(name for part in rows if (name := _name_in_store(part)))
    return blocks, tuple(tables)


def _name_in_store(relation: algebra.Relation) -> str | None:
    return name_in_store(relation.table) if isinstance(relation, algebra.Scan) else None


def _over_store(
    plan: BlockPlan, policy: Policy, store: PreparedStore, identities: Identities
) -> BlockPlan:
    block = plan.block
    if block.several:
        return plan
    weighed = block.weighed or Weighed(block.rows, None)
    rows = _Stored(policy, store, _read(plan, weighed)).rows(weighed.rows)
    if rows == weighed.rows:
        return plan
    stored = replace(plan, block=replace(block, weighed=replace(weighed, rows=rows)))
    for leaf in Joined.of(rows).leaves:
        table = policy.table(_name_in_store(leaf) or "")
        if table is not None:
            unit = unit_beside(table, policy)
            return (
                over_rollup(stored, store, unit, table, identities)
                or by_turns(stored, store, unit, table, identities)
                or stored
            )
    return stored


def way_of(table: TablePolicy, policy: Policy) -> tuple[TablePolicy, ...]:
    """Return the tables that the links of a table lead to, up to that of the units."""
    way = list[TablePolicy]()
    while table.link is not None and (target := policy.table(table.link.table)) is not None:
        way.append(target)
        table = target
    return tuple(way)


def has_own_names(table: TablePolicy, policy: Policy, rollups: Sequence[Rollup] = ()) -> bool:
    """Test whether the columns of a table in a store have different names, ignoring case.

    A column may be called as the store calls one of another table: `orders.customer_id` in a table
    below orders.
    """
    names = {c.name if c.reading is None else c.reading.column for c in table.columns}
    listed = [*names]
    for target in way_of(table, policy):
        listed += [beside(target.name, c) for c in (target.link.columns if target.link else ())]
    for rollup in rollups:
        listed += turn_columns(rollup.name) if rollup.table == table.name else ()
    return len({name.lower() for name in listed}) == len(listed)


def unit_beside(table: TablePolicy, policy: Policy) -> str:
    """Return the name of the unit's column in the stored rows of a table."""
    own: Callable[[str], str] = str.lower
    while table.link is not None and (target := policy.table(table.link.table)) is not None:
        if target.link is None:
            return own(table.link.column)
        own, table = partial(beside, target.name), target
    return own(policy.unit.key if table.link is None else table.link.column)


def _read(plan: BlockPlan, weighed: Weighed) -> frozenset[int]:
    """Return the columns that the block, or a relation below it, reads."""
    block, vote = plan.block, plan.block.vote
    keys, queries = [*block.keys], [*plan.queries]
    if vote is not None:
        keys += vote.keys
        queries += [vote.total, vote.below] if isinstance(vote, RatioVote) else [vote.total]
    nodes: list[Expression] = [key.expression for key in keys]
    nodes += [node for query in queries for node in expressions_of(query)]
    nodes += [query.argument for query in queries if isinstance(query, DistinctSum)]
    nodes += [node for query in plan.histograms for node in query.expressions]
    nodes += [] if weighed.weight is None else [weighed.weight]
    nodes += [block.unit]
    read = set[int]()
    for part in relations(weighed.rows):
        nodes += expressions(part)
        if isinstance(part, algebra.Union | algebra.Recursion | algebra.Apply | algebra.Single):
            read |= {f.id for source in inputs(part) for f in source.fields}
    return frozenset(read).union(*map(refs, nodes))


@dataclass(slots=True)
class _Leaf:
    """An input of an inner join: rows of a prepared table, with truth values, or each key once.

    `names` are the column names in its store. `added` are columns that replace those of left-out
    inputs.
    """

    relation: algebra.Scan | algebra.Match | algebra.Aggregate
    table: TablePolicy
    names: dict[int, str]
    added: tuple[algebra.Field, ...] = ()

    def fetched(self, read: frozenset[int]) -> list[algebra.Field]:
        """Return the columns that are read."""
        return [f for f in (*self.relation.fields, *self.added) if f.id in read]

    def is_itself(self, condition: Expression, moved: set[int]) -> bool:
        """Test whether the condition equates a stored column, which is never NULL, with itself."""
        return any(
            a.id in moved and a.id in self.names and self.names[a.id] == self.names.get(b.id)
            for a, b in _equated(condition)
        )


@dataclass(frozen=True, slots=True)
class _Superfluous:
    """A join that can be left out: the columns of the rows `above` are stored with the rows
    `below`.
    """

    below: _Leaf
    above: _Leaf
    names: Mapping[str, str]
    conditions: frozenset[Expression]

    def taken_in(self, read: frozenset[int]) -> None:
        """Take over the columns that are read of the rows above."""
        fetched = self.above.fetched(read)
        named = {f.id: self.names[self.above.names[f.id]] for f in fetched}
        self.below.names |= named
        self.below.added += tuple(replace(f, name=named[f.id]) for f in fetched)


@dataclass(frozen=True, slots=True)
class _Stored:
    policy: Policy
    store: PreparedStore
    read: frozenset[int]

    def rows(self, relation: algebra.Relation) -> algebra.Relation:
        """Return the same rows, with those of prepared tables read from the store."""
        if isinstance(relation, algebra.Filter) or (
            isinstance(relation, algebra.Join) and relation.kind in INNER
        ):
            return self._joined(relation)
        leaf = self._leaf(relation)
        if isinstance(relation, algebra.Scan):
            return relation if leaf is None else _from_store(relation, leaf.added)
        return map_inputs(relation, self.rows)

    def _joined(self, relation: algebra.Filter | algebra.Join) -> algebra.Relation:
        """Return a tree of inner joins, without those along links that fetch stored columns
        only.
        """
        joined = Joined.of(relation)
        leaves = [leaf for part in joined.leaves if (leaf := self._leaf(part)) is not None]
        gone, settled, moved = set[algebra.Relation](), set[Expression](), set[int]()
        while (join := next(self._superfluous(leaves, joined.conditions), None)) is not None:
            join.taken_in(self.read)
            leaves.remove(join.above)
            gone.add(join.above.relation)
            settled |= join.conditions
            moved |= join.above.names.keys()
        settled |= {c for leaf in leaves for c in joined.conditions if leaf.is_itself(c, moved)}
        added: dict[algebra.Relation, tuple[algebra.Field, ...]] = {
            leaf.relation: leaf.added for leaf in leaves
        }

        def stored(part: algebra.Relation) -> algebra.Relation | None:
            return None if part in gone else self._read_of_store(part, added.get(part, ()))

        above = [c for c in joined.conditions if refs(c) & moved and c not in settled]
        lifted = settled.union(above)
        rows = rebuilt(relation, stored, lambda condition: condition not in lifted)
        assert rows is not None
        predicate = both(tuple(dict.fromkeys(above)))
        return rows if predicate is None else algebra.Filter(rows, predicate)

    def _read_of_store(
        self, part: algebra.Relation, added: tuple[algebra.Field, ...]
    ) -> algebra.Relation:
        """Return an input over the store, with additional columns."""
        match part:
            case algebra.Scan() if added:
                return _from_store(part, added)
            case algebra.Match() if added:
                below = self._read_of_store(part.input, added)
                return replace(part, input=below, other=self.rows(part.other))
            case _:
                return self.rows(part)

    def _leaf(self, relation: algebra.Relation) -> _Leaf | None:
        """Return the rows or keys of a prepared table; None for anything else.

        Keys are unique in the store: the least or greatest value of one is that of its row.
        """
        match relation:
            case algebra.Match():
                leaf = self._leaf(relation.input)
                if leaf is None or isinstance(leaf.relation, algebra.Aggregate):
                    return None
                return replace(leaf, relation=relation)
            case algebra.Scan():
                scan: algebra.Relation = relation
                name: str | None = relation.table
            case algebra.Aggregate(sets=()):
                scan = self.rows(relation.input)
                name = _name_in_store(scan)
            case _:
                return None
        table = None if name is None else self.policy.table(name)
        if table is None or table.name not in self.store.tables:
            return None
        if not has_own_names(table, self.policy, self.store.rollups):
            return None
        names = {f.id: f.name.lower() for f in scan.fields}
        if isinstance(relation, algebra.Scan):
            return _Leaf(relation, table, names)
        columns = {key.field.id: key.expression for key in relation.keys}
        keys = {n: names[column.id] for n, column in columns.items() if isinstance(column, Ref)}
        ends = {m.field.id: names[end.id] for m in relation.measures if (end := _end_of(m.call))}
        is_key = sorted(keys.values()) == sorted(name.lower() for name in table.key)
        if not is_key or len(keys | ends) < len(relation.fields):
            return None
        return _Leaf(relation, table, keys | ends)

    def _superfluous(
        self, leaves: Sequence[_Leaf], conditions: Sequence[Expression]
    ) -> Iterator[_Superfluous]:
        """Yield the joins along links where only columns in the store are read."""
        for below, above in permutations(leaves, 2):
            if isinstance(below.relation, algebra.Aggregate) or isinstance(
                above.relation, algebra.Match
            ):
                continue
            for target, names in _above(below.table, self.policy):
                if target.name != above.table.name:
                    continue
                keys = {name.lower() for name in target.key}
                same = {
                    condition: above.names[b.id]
                    for condition in conditions
                    for a, b in _equated(condition)
                    if below.names.get(a.id, "") == names.get(above.names.get(b.id, " "))
                }
                fetched = {above.names[f.id] for f in above.fetched(self.read)}
                if set(same.values()) >= keys and fetched <= names.keys():
                    yield _Superfluous(below, above, names, frozenset(same))


def _end_of(call: AggregateCall) -> Ref | None:
    """Return the column of a plain MIN or MAX; None for other calls."""
    match call.args:
        case (Ref() as column,):
            plain = AggregateCall(call.function, (column,), type=call.type)
            return column if call.function in ("min", "max") and call == plain else None
        case _:
            return None


def _equated(condition: Expression) -> Iterator[tuple[Ref, Ref]]:
    """Yield the columns that a condition equates, in both directions."""
    match condition:
        case Call("eq", (Ref() as a, Ref() as b)) if exactly_equal(a, b):
            yield from ((a, b), (b, a))


def _above(table: TablePolicy, policy: Policy) -> list[tuple[TablePolicy, dict[str, str]]]:
    """Return the tables between a table and the unit, with the stored names of their keys and
    links.
    """
    way = list[tuple[TablePolicy, dict[str, str]]]()
    own: Callable[[str], str] = str.lower
    while table.link is not None and (target := policy.table(table.link.table)) is not None:
        pairs = zip(table.link.keys, table.link.columns, strict=True)
        way.append((target, {key.lower(): own(column) for key, column in pairs}))
        own, table = partial(beside, target.name), target
    result, farther = list[tuple[TablePolicy, dict[str, str]]](), dict[str, str]()
    for target, keys in reversed(way):
        columns = () if target.link is None else target.link.columns
        links = {column.lower(): beside(target.name, column) for column in columns}
        result.append((target, farther | links | keys))
        farther |= {name: name for name in links.values()}
    return result


def _from_store(scan: algebra.Scan, added: tuple[algebra.Field, ...]) -> algebra.Scan:
    """Return the scan of the store's table, with additional columns."""
    return replace(scan, table=table_in_store(scan.table), fields=(*scan.fields, *added))
