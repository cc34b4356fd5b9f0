"""Joins of many private tables, as tests of existence or over limited sides.

A join that repeats one unit's rows too often is refused (PRIVACY.md R70). Two forms need no such
join:

* COUNT(DISTINCT x), MIN and MAX are the same however often a row occurs. An inner side that is read
  by conditions alone becomes EXISTS, and the answer is the same.
* Elsewhere each side keeps at most k rows of a unit, chosen by a public hash of their key. The
  power of k by the number of sides is at most `max_fanout`. The answer says so.

Proof (PRIVACY.md R106).
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra, tree
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import both, conjuncts, map_inputs, refs, relations, substitute

_ONCE = frozenset({"min", "max", "bool_and", "bool_or"})
_INNER = tree.JoinKind.INNER, tree.JoinKind.CROSS


def replace_by_existence(relation: Relation, policy: Policy, identities: Identities) -> Relation:
    """Return the relation with EXISTS for sides that only conditions read; the same object if there
    are none.
    """
    inner = map_inputs(relation, lambda r: replace_by_existence(r, policy, identities))
    relation = relation if inner == relation else inner
    if not isinstance(relation, algebra.Aggregate) or relation.sets:
        return relation
    if not all(_is_once(measure.call) for measure in relation.measures):
        return relation
    return _Flat.flatten(relation, policy).with_tests(identities) or relation


def _is_once(call: tree.AggregateCall) -> bool:
    """Test for an aggregate that repeated rows do not change."""
    counts = call.function == "count" and call.distinct
    return (counts or call.function in _ONCE) and call.clip is None


@dataclass(frozen=True, slots=True)
class _Flat:
    """Aggregate over inner joins, with all expressions over the columns of the joined sides."""

    aggregate: algebra.Aggregate
    keys: tuple[tree.Expression, ...]
    calls: tuple[tree.Expression, ...]
    sides: tuple[Relation, ...]
    conditions: tuple[tree.Expression, ...]
    policy: Policy

    @classmethod
    def flatten(cls, aggregate: algebra.Aggregate, policy: Policy) -> _Flat:
        """Return the parts of an aggregate."""
        keys = tuple(key.expression for key in aggregate.keys)
        calls: tuple[tree.Expression, ...] = tuple(measure.call for measure in aggregate.measures)
        conditions: tuple[tree.Expression, ...] = ()
        below = aggregate.input
        while isinstance(below, algebra.Project | algebra.Filter):
            if isinstance(below, algebra.Filter):
                conditions += conjuncts(below.predicate)
            else:
                values = {item.field.id: item.expression for item in below.items}
                keys, calls, conditions = (
                    tuple(substitute(e, values) for e in part) for part in (keys, calls, conditions)
                )
            below = below.input
        sides = tuple(_sides_of(below))
        joined = (part for join in _joins_of(below) for part in conjuncts(join.condition))
        return cls(aggregate, keys, calls, sides, (*conditions, *joined), policy)

    def with_tests(self, identities: Identities) -> Relation | None:
        """Return the aggregate with EXISTS in the place of sides; None if there are no such
        sides.
        """
        needed = frozenset[int]().union(*map(refs, (*self.keys, *self.calls)))
        rest, left, tests = list(self.sides), self._equated_with(needed), list[_Test]()
        for side in reversed(self.sides):
            own = frozenset(field.id for field in side.fields)
            read = [part for part in left if not refs(part).isdisjoint(own)]
            if len(rest) == 1 or needed & own or not read or not _is_private(side, self.policy):
                continue
            rest.remove(side)
            left = [part for part in left if part not in read]
            tests.append(_Test(side, tuple(p for p in read if refs(p) <= own), tuple(read)))
            needed |= frozenset[int]().union(*map(refs, read)) - own
        if not tests:
            return None
        rows = rest[0]
        for side in rest[1:]:
            rows = algebra.Join(rows, side, tree.JoinKind.CROSS, None, self.aggregate.span)
        rows = _filtered(rows, tuple(left))
        for test in tests:
            rows = test.filter_rows(rows, identities, self.aggregate.span)
        return self._over(rows)

    def _equated_with(self, needed: frozenset[int]) -> list[tree.Expression]:
        """Return the conditions with equal columns equated with one of a side that stays."""
        staying = (side for side in self.sides if needed & {field.id for field in side.fields})
        stay = {field.id for side in staying for field in side.fields}
        groups, others = list[set[tree.Ref]](), list[tree.Expression]()
        for part in self.conditions:
            match part:
                case tree.Call("eq", (tree.Ref() as one, tree.Ref() as other)) if (
                    one.type == other.type and one != other
                ):
                    met = [group for group in groups if group & {one, other}]
                    groups = [group for group in groups if group not in met]
                    groups.append({one, other}.union(*met))
                case _:
                    others.append(part)
        for group in groups:
            first, *rest = sorted(group, key=lambda ref: (ref.id not in stay, ref.id))
            others += (first.eq(ref) for ref in rest)
        return others

    def _over(self, rows: Relation) -> Relation:
        aggregate = self.aggregate
        keys = tuple(
            replace(item, expression=key)
            for item, key in zip(aggregate.keys, self.keys, strict=True)
        )
        measures = tuple(
            replace(measure, call=call)
            for measure, call in zip(aggregate.measures, self.calls, strict=True)
            if isinstance(call, tree.AggregateCall)
        )
        return replace(aggregate, input=rows, keys=keys, measures=measures)


@dataclass(frozen=True, slots=True)
class _Test:
    """Side of a join that becomes EXISTS, with its own conditions and all that read it."""

    side: Relation
    own: tuple[tree.Expression, ...]
    read: tuple[tree.Expression, ...]

    def filter_rows(self, rows: Relation, identities: Identities, span: tree.Span) -> Relation:
        """Return the rows that meet a row of this side."""
        other = _filtered(self.side, self.own)
        condition = both(tuple(part for part in self.read if part not in self.own))
        mark = identities.field("", tree.BOOLEAN)
        return algebra.Filter(algebra.Match(rows, other, condition, mark, span=span), mark.ref)


def _sides_of(relation: Relation) -> Iterator[Relation]:
    """Yield the sides of inner joins, from left to right."""
    if isinstance(relation, algebra.Join) and relation.kind in _INNER:
        yield from _sides_of(relation.left)
        yield from _sides_of(relation.right)
    else:
        yield relation


def _joins_of(relation: Relation) -> Iterator[algebra.Join]:
    if isinstance(relation, algebra.Join) and relation.kind in _INNER:
        yield relation
        yield from _joins_of(relation.left)
        yield from _joins_of(relation.right)


def _filtered(relation: Relation, conditions: tuple[tree.Expression, ...]) -> Relation:
    condition = both(conditions)
    return relation if condition is None else algebra.Filter(relation, condition)


def _is_private(relation: Relation, policy: Policy) -> bool:
    scans = (part for part in relations(relation) if isinstance(part, algebra.Scan))
    tables = (policy.table(scan.table) for scan in scans)
    return any(table is not None and table.private for table in tables)


# --- limited sides ---


def limit_joined_sides(
    relation: Relation, policy: Policy, identities: Identities
) -> tuple[Relation, int | None]:
    """Return the relation with at most k rows of a unit in each joined side, and k.

    Returns the same object and None where no aggregate reads such a join.
    """
    joined, own = _first_join(relation, ())
    if joined is None:
        return relation, None
    limiter = _Limiter(policy, identities, 0)
    sides = sum(1 for side in _leaves(joined) if limiter.find_unit_column(side) is not None)
    most = _root(policy.limits.max_fanout, sides) if sides > 1 else 0
    if not most:
        return relation, None
    limiter = replace(limiter, most=most)
    return _with_join(relation, joined, limiter.limit_sides(joined, own)), most


def _first_join(
    relation: Relation, above: tuple[tree.Expression, ...]
) -> tuple[algebra.Join | None, tuple[tree.Expression, ...]]:
    """Return the uppermost join, and the conditions above it on its rows."""
    match relation:
        case algebra.Join():
            there = {field.id for field in relation.fields}
            return relation, tuple(part for part in above if refs(part) <= there)
        case algebra.Filter():
            return _first_join(relation.input, (*above, *conjuncts(relation.predicate)))
        case algebra.Project():
            return _first_join(relation.input, above)
        case algebra.Aggregate() | algebra.Sort() | algebra.Limit() | algebra.Window():
            return _first_join(relation.input, ())
        case _:
            return None, ()


def _with_join(relation: Relation, old: Relation, new: Relation) -> Relation:
    if relation is old:
        return new
    return map_inputs(relation, lambda r: _with_join(r, old, new))


def _leaves(relation: Relation) -> Iterator[Relation]:
    """Yield the sides of joins of every kind."""
    if isinstance(relation, algebra.Join):
        yield from _leaves(relation.left)
        yield from _leaves(relation.right)
    elif isinstance(relation, algebra.Project):
        yield from _leaves(relation.input)
    else:
        yield relation


def _root(most: int, sides: int) -> int:
    """Return the largest whole number with a power of at most `most`."""
    number = 1
    while (number + 1) ** sides <= most:
        number += 1
    return number


@dataclass(frozen=True, slots=True)
class _Limiter:
    """Builder of sides with at most `most` rows of each unit."""

    policy: Policy
    identities: Identities
    most: int

    def limit_sides(self, relation: Relation, own: tuple[tree.Expression, ...] = ()) -> Relation:
        """Return joins over limited sides; `own` are conditions on this side alone."""
        if isinstance(relation, algebra.Join):
            return self._limit_join(relation, own)
        if isinstance(relation, algebra.Project):
            values = {item.field.id: item.expression for item in relation.items}
            below = tuple(substitute(part, values) for part in own)
            return replace(relation, input=self.limit_sides(relation.input, below))
        unit = self.find_unit_column(relation)
        if unit is None:
            return relation
        there = {field.id for field in relation.fields}
        alone = tuple(part for part in own if refs(part) <= there)
        return self._first_rows(_filtered(relation, alone), unit)

    def _limit_join(self, join: algebra.Join, own: tuple[tree.Expression, ...]) -> Relation:
        """Return a join over limited sides, with conditions on one side before its limit."""
        here = {field.id for field in join.right.fields}
        parts = conjuncts(join.condition)
        inner, left = join.kind in _INNER, join.kind is tree.JoinKind.LEFT
        drops = inner or left
        right = tuple(part for part in parts if drops and refs(part) and refs(part) <= here)
        if left and self.find_unit_column(join.right) is not None:
            join = replace(join, condition=both(tuple(part for part in parts if part not in right)))
        return replace(
            join,
            left=self.limit_sides(join.left, own if drops else ()),
            right=self.limit_sides(join.right, (*right, *own) if inner else right),
        )

    def _first_rows(self, rows: Relation, unit: Field) -> Relation:
        table = self._table(rows)
        named = {field.name.lower(): field for field in rows.fields}
        keys = [named[name.lower()] for name in table.key if name.lower() in named] if table else []
        order = [
            tree.SortKey(tree.Call("md5", (tree.Cast(field.ref, tree.VARCHAR),), tree.VARCHAR))
            for field in keys
        ]
        order += [tree.SortKey(field.ref) for field in keys]
        rank = self.identities.field("", tree.INTEGER)
        call = tree.WindowCall("row_number", (), (unit.ref,), tuple(order), type=tree.INTEGER)
        window = algebra.Window(rows, (algebra.WindowItem(rank, call),))
        first = algebra.Filter(window, rank.ref.le(tree.Literal(self.most, tree.INTEGER)))
        return algebra.Project(first, tuple(field.item for field in rows.fields))

    def _table(self, relation: Relation) -> TablePolicy | None:
        while isinstance(relation, algebra.Filter):
            relation = relation.input
        return self.policy.table(relation.table) if isinstance(relation, algebra.Scan) else None

    def find_unit_column(self, relation: Relation) -> Field | None:
        """Return the column of a private table that links to the unit; None for other relations."""
        table = self._table(relation)
        if table is None or not table.private or table.link is None:
            return None
        if table.link.table != self.policy.unit.table or len(table.link.columns) != 1:
            return None
        (name,) = table.link.columns
        return next((f for f in relation.fields if f.name.lower() == name.lower()), None)
