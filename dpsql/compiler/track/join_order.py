"""Inner joins as sets: every order gives the same rows, so the order with the least bound is used.

`FROM a, b, c` joins in the order of the text; where `a` and `b` share no column, each row of one
meets all rows of the other. Inner joins commute, and a condition may wait until its columns exist.
Every order makes the same rows, so a proof along one order holds for the rows of any. Outer joins
and other operators are sides that stay whole.

Proof (PRIVACY.md R13). A set of inner joins is a product with a filter, in every order; so a bound
that one order proves is one of the rows.

Leaves of a tree of inner joins can be removed and inserted wherever that leaves the same rows.
Public relations that only multiply rows do so by a number, not by rows. `FROM people, cities`
counts each unit as often as there are cities. Nothing above reads a city, so the cities are only
counted, because they are public, and counts and sums of the people are multiplied. A condition on
the cities alone stays with them.

The result is equal: an inner join with n rows without a condition to the others repeats each of
those n times. COUNT and SUM of repeated rows are n times as large; averages, extremes and sets of
values are unchanged.

Proof (PRIVACY.md R23). An inner join with n rows that no condition ties to the others repeats each
row n times, and n is public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from math import inf, prod

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.equalities import equal_columns
from dpsql.compiler.track.uniqueness import Keys, key_within
from dpsql.compiler.track.units import Anchor, Private, Together, agreeing, led_beside
from dpsql.model import tree
from dpsql.model.algebra import (
    Aggregate,
    Filter,
    Item,
    Join,
    Measure,
    Project,
    Relation,
    Scan,
    Values,
)
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, map_inputs, refs, relations


@dataclass(frozen=True, slots=True)
class Joined:
    """The inputs of an inner join, and every condition on it."""

    leaves: tuple[Relation, ...]
    conditions: tuple[tree.Expression, ...]

    @classmethod
    def of(cls, relation: Relation) -> Joined:
        match relation:
            case Filter():
                inner = cls.of(relation.input)
                return cls(inner.leaves, inner.conditions + conjuncts(relation.predicate))
            case Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
                left, right = cls.of(relation.left), cls.of(relation.right)
                own = conjuncts(relation.condition)
                return cls(left.leaves + right.leaves, left.conditions + right.conditions + own)
            case _:
                return cls((relation,), ())

    def groups(self) -> list[tuple[Relation, ...]]:
        """Group the leaves; no condition ties leaves of different groups."""
        groups: list[tuple[Relation, ...]] = [(leaf,) for leaf in self.leaves]
        for condition in self.conditions:
            tied = [group for group in groups if refs(condition) & columns_of(group)]
            if len(tied) > 1:
                groups = [group for group in groups if group not in tied]
                groups.append(tuple(leaf for group in tied for leaf in group))
        return groups


def columns_of(leaves: Sequence[Relation]) -> frozenset[int]:
    """Return the columns of these relations."""
    return frozenset(f.id for leaf in leaves for f in leaf.fields)


def rebuilt(
    relation: Relation,
    leaf: Callable[[Relation], Relation | None],
    keeps: Callable[[tree.Expression], bool],
) -> Relation | None:
    """Rebuild the tree with `leaf` of each leaf (None: removed) and with the conditions that
    `keeps` accepts.
    """
    match relation:
        case Filter():
            inner = rebuilt(relation.input, leaf, keeps)
            return inner if inner is None else filtered(inner, relation.predicate, keeps)
        case Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
            left, right = (rebuilt(side, leaf, keeps) for side in (relation.left, relation.right))
            if left is None or right is None:
                alone = left if right is None else right
                return None if alone is None else filtered(alone, relation.condition, keeps)
            own = tuple(filter(keeps, conjuncts(relation.condition)))
            kind = relation.kind if own else tree.JoinKind.CROSS
            return replace(relation, left=left, right=right, kind=kind, condition=both(own))
        case _:
            return leaf(relation)


def filtered(
    relation: Relation, predicate: tree.Expression | None, keeps: Callable[[tree.Expression], bool]
) -> Relation:
    """Return the rows that satisfy the kept conditions of the predicate."""
    condition = both(tuple(filter(keeps, conjuncts(predicate))))
    return relation if condition is None else Filter(relation, condition)


INNER = frozenset({tree.JoinKind.INNER, tree.JoinKind.CROSS})
MOST_SIDES = 24
"""Largest number of sides that are reordered; the search takes quadratic time."""


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a join: keys for public rows, the anchors of their unit for private ones."""

    relation: Relation
    keys: Keys = ()
    anchors: frozenset[Anchor] | None = None
    together: frozenset[Together] = frozenset()

    def beside(self, other: Side) -> Side:
        """Return the anchors of the rows of both sides."""
        anchors = (self.anchors or frozenset()) | (other.anchors or frozenset())
        return replace(self, anchors=anchors, together=self.together | other.together)

    def is_linked(self, other: Side, equal: Mapping[int, int]) -> bool:
        """Test whether equated columns make rows of both sides those of one unit."""
        beside = led_beside(self.together, other.together)
        return any(
            equal.get(a.id) == b.id and a.table == b.table
            for a in self.anchors or ()
            for b in other.anchors or ()
        ) or any(
            a.of == b.of and tuple(map(equal.get, a.ids)) == b.ids
            for a in agreeing(self.anchors or (), self.together, beside)
            for b in agreeing(other.anchors or (), other.together, beside)
        )


def sides_of(relation: Relation) -> Iterator[Relation]:
    """Yield the inputs of a tree of inner joins, in the order of the text."""
    if isinstance(relation, Join) and relation.kind in INNER:
        yield from sides_of(relation.left)
        yield from sides_of(relation.right)
    else:
        yield relation


def connects(relation: Relation) -> bool:
    """Test whether each of the inner joins equates columns of its two sides."""
    if not (isinstance(relation, Join) and relation.kind in INNER):
        return True
    here = {f.id for f in relation.left.fields}
    equal = equal_columns(relation.condition, here)
    return bool(equal) and connects(relation.left) and connects(relation.right)


def connected(join: Join, sides: Sequence[Side]) -> Join:
    """Return the same inner joins in a connected order, beginning with private rows.

    Next come public sides that a row meets at most once, then private rows of the same units, then
    public sides that share a column, then private rows of other units, joined among themselves
    before, then the others.
    """
    order, rest = _Order(join, dict.fromkeys(_conditions(join)), _spans(join)), list(sides)
    first = next(side for side in rest if side.anchors is not None)
    rest.remove(first)
    joined = order.grown(first, rest, SHARING)
    while rest:
        place, _ = order.nearest(joined, rest)
        side = rest.pop(place)
        if side.anchors is not None:
            side = order.grown(side, rest, LINKED)
        joined = order.grown(order.joined(joined, side), rest, SHARING)
    assert isinstance(joined.relation, Join)
    return joined.relation


LINKED, SHARING, OTHERS = 1, 2, 3
"""Ranks in the order of joins: of private rows of the same units, of public rows that share a
column, and of private rows of other units.
"""


@dataclass(frozen=True, slots=True)
class _Order:
    """An order of joins in the making: `conditions` are those that no join has yet."""

    join: Join
    conditions: dict[tree.Expression, None]
    spans: dict[Relation, tree.Span]

    def grown(self, side: Side, rest: list[Side], most: int) -> Side:
        """Return a side joined with all of the rest that have at most this rank, the least first;
        they leave the rest.
        """
        while rest:
            place, rank = self.nearest(side, rest)
            if rank > most:
                break
            side = self.joined(side, rest.pop(place))
        return side

    def nearest(self, side: Side, rest: Sequence[Side]) -> tuple[int, int]:
        """Return the place and the rank of the side to be joined next."""
        columns = columns_of((side.relation,))
        ranks = [_rank(s, self._across(side, s), columns, side) for s in rest]
        place = min(range(len(rest)), key=lambda n: (ranks[n], n))
        return place, ranks[place][0]

    def joined(self, one: Side, other: Side) -> Side:
        """Return the join of two sides, with every condition that it can have."""
        here = self._across(one, other)
        for condition in here:
            del self.conditions[condition]
        kind = tree.JoinKind.INNER if here else tree.JoinKind.CROSS
        span = self.spans[other.relation]
        relation = Join(one.relation, other.relation, kind, both(here), span)
        self.spans[relation] = span
        return replace(one.beside(other), relation=relation)

    def _across(self, one: Side, other: Side) -> tuple[tree.Expression, ...]:
        """Return the conditions on these sides alone; columns of outer queries may be read."""
        there, everywhere = columns_of((one.relation, other.relation)), columns_of((self.join,))
        return tuple(c for c in self.conditions if refs(c) & everywhere <= there)


def cost(private: Private) -> tuple[float, ...]:
    """Return the bounds on a unit's contribution, for comparison; equal bounds are ordered by
    proofs.
    """
    declared = private.declared
    limits = (
        private.max_rows,
        declared.rows_per_unit,
        declared.rows_per_group,
        declared.groups_per_unit,
    )
    growth = private.growth
    bounds = [inf if limit is None else limit for limit in limits]
    return (*bounds, growth.public, growth.own, -len(private.determined), -len(private.unique))


def _rank(
    side: Side, conditions: tuple[tree.Expression, ...], columns: frozenset[int], there: Side
) -> tuple[int, int]:
    """Return the rank of a side in the join order: the fewer of its rows meet one, the sooner."""
    equal = equal_columns(both(conditions), set(columns))
    if side.anchors is not None:
        return (LINKED if there.is_linked(side, equal) else OTHERS + (not equal) * 2), 0
    if key_within(side.keys, frozenset(equal.values())) is not None:
        return 0, 0
    return (SHARING if equal else OTHERS + 1), -len(equal)


def _conditions(relation: Relation) -> Iterator[tree.Expression]:
    if isinstance(relation, Join) and relation.kind in INNER:
        yield from _conditions(relation.left)
        yield from _conditions(relation.right)
        yield from conjuncts(relation.condition)


def _spans(join: Join) -> dict[Relation, tree.Span]:
    """Return the place in the text where each side is joined."""
    spans: dict[Relation, tree.Span] = {}
    for part in (join.left, join.right):
        if isinstance(part, Join) and part.kind in INNER:
            spans |= _spans(part)
        else:
            spans[part] = join.span
    return spans


Count = Callable[[Relation, tuple[tree.Ref, ...]], int]
"""A function to the most rows of a public relation that agree on some columns; see `track`."""

REPEATED = frozenset({"count", "sum", "count_if"})
"""Aggregates that grow with the number of rows. COUNT and SUM of DISTINCT values do not."""
UNMOVED = frozenset("avg min max bool_and bool_or var_pop stddev_pop".split())
"""Aggregates that do not change when all rows are repeated."""
MOST = 1 << 31
"""Largest factor; a larger number is left to the limit on joins."""


def counted(relation: Relation, policy: Policy, count: Count, identities: Identities) -> Relation:
    """Replace public relations that only multiply rows by numbers."""

    def change(part: Relation) -> Relation:
        return counted(part, policy, count, identities)

    relation = map_inputs(relation, change)
    if not isinstance(relation, Aggregate):
        return relation
    if not all(_is_unmoved(m.call) or _is_repeated(m) for m in relation.measures):
        return relation
    tables = (part for part in relations(relation.input) if isinstance(part, Scan | Values))
    if {_is_public(part, policy) for part in tables} != {True, False}:
        return relation
    joined = Joined.of(relation.input)
    idle = [group for group in joined.groups() if _is_idle(group, relation, joined, policy)]
    numbers = [count(_product(group, joined), ()) for group in idle]
    # One row or none: `count` must not reveal which, and one multiplies nothing.
    gone = [group for group, number in zip(idle, numbers, strict=True) if 1 < number < MOST]
    factor = prod(number for number in numbers if 1 < number < MOST)
    if not gone or factor >= MOST:
        return relation
    columns = frozenset().union(*map(columns_of, gone))
    rest = _without(relation.input, columns)
    return _multiplied(replace(relation, input=rest), factor, identities)


def _is_idle(group: tuple[Relation, ...], above: Aggregate, joined: Joined, policy: Policy) -> bool:
    """Test whether a group has public tables only, and just its own conditions read it.

    A condition on no table at all belongs to none of them.
    """
    columns = columns_of(group)
    read = (item.expression for item in above.keys)
    measured = (part for m in above.measures for part in _inputs(m.call))
    return (
        all(_is_public(leaf, policy) for leaf in group)
        and not any(refs(part) & columns for part in (*read, *measured))
        and all(refs(c) <= columns for c in joined.conditions if refs(c) & columns)
    )


def _is_public(part: Relation, policy: Policy) -> bool:
    """Test for a public table, or columns and conditions over one: its number of rows is
    constant.
    """
    if isinstance(part, Project | Filter):
        return _is_public(part.input, policy)
    if isinstance(part, Scan):
        table = policy.table(part.table)
        return table is not None and not table.private
    return isinstance(part, Values)


def _inputs(call: tree.AggregateCall) -> Iterator[tree.Expression]:
    yield from call.args
    yield from () if call.filter is None else (call.filter,)
    yield from (key.expression for key in call.order_by)


def _product(group: tuple[Relation, ...], joined: Joined) -> Relation:
    """Return the rows of a group that satisfy its own conditions."""
    own = tuple(c for c in joined.conditions if refs(c) and refs(c) <= columns_of(group))
    rows = reduce(lambda a, b: Join(a, b, tree.JoinKind.CROSS, None), group)
    condition = both(own)
    return rows if condition is None else Filter(rows, condition)


def _is_unmoved(call: tree.AggregateCall) -> bool:
    return call.clip is None and (
        call.function in UNMOVED or (call.distinct and call.function in REPEATED)
    )


def _is_repeated(measure: Measure) -> bool:
    call = measure.call
    exact = measure.field.type.kind in (tree.Kind.INTEGER, tree.Kind.DOUBLE)
    return call.function in REPEATED and call.clip is None and exact


def _without(relation: Relation, columns: frozenset[int]) -> Relation:
    """Return the join without the leaves that have these columns, and without conditions on
    them.
    """
    rest = rebuilt(
        relation,
        lambda leaf: None if columns_of((leaf,)) & columns else leaf,
        lambda condition: not refs(condition) & columns,
    )
    assert rest is not None
    return rest


def _multiplied(relation: Aggregate, factor: int, identities: Identities) -> Relation:
    """Return the aggregate of rows that each count `factor` times."""
    items = [Item(key.field, key.field.ref) for key in relation.keys]
    measures = []
    for measure in relation.measures:
        column = measure.field
        if _is_unmoved(measure.call):
            measures.append(measure)
            items.append(column.item)
            continue
        once = identities.field(column.name, column.type)
        measures.append(Measure(once, measure.call))
        value = once.ref, tree.Literal(factor, tree.INTEGER)
        items.append(Item(column, tree.Call("mul", value, column.type)))
    return Project(replace(relation, measures=tuple(measures)), tuple(items))
