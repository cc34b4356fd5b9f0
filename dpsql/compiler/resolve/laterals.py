"""LATERAL and ASOF JOIN as joins: each row of the left meets its own rows of the right.

The first k rows are found by a ROW_NUMBER over the columns of the left row.
"""

from __future__ import annotations

from dpsql.compiler.resolve import subqueries
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.subqueries import TRUE
from dpsql.model import algebra, tree
from dpsql.model.comparisons import MIRRORED
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import FactKind, Policy
from dpsql.model.walk import both, conjuncts, free_refs, refs, substitute

INNER = (tree.JoinKind.INNER, tree.JoinKind.CROSS)
_LATER = frozenset({"ge", "gt"})


@dataclass(frozen=True, slots=True)
class Laterals:
    """Joins with a right side that reads the row of the left, or takes the nearest row."""

    policy: Policy
    identities: Identities

    def lateral(self, join: algebra.Join) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return the join with a right side that reads columns of the left, evaluated for each row.

        Also returns the new columns above it for those that it may fill with NULL. Raises `Refused`
        for a query that is no join.
        """
        outer = free_refs(join.right) & {f.id for f in join.left.fields}
        if join.kind not in (*INNER, tree.JoinKind.LEFT):
            raise _unsupported(f"{join.kind} JOIN LATERAL", join.span)
        cut = _cut_of(join.right)
        if (total := _total(cut.rows)) is not None and cut.most != 0 and not cut.skipped:
            return self._totals(join, total, outer)
        if isinstance(cut.rows, algebra.Project) and any(
            refs(i.expression) & outer for i in cut.rows.items
        ):
            return self._computed(join, cut, cut.rows, outer)
        return self._met(join, cut, outer)

    def first_row(
        self, left: algebra.Relation, query: algebra.Relation, span: tree.Span
    ) -> tuple[algebra.Relation, tree.Expression] | None:
        """Return the rows with the one value that a correlated query with ORDER BY … LIMIT 1 has
        for each, NULL where it has no row; None for another query.
        """
        cut, (value, *more) = _cut_of(query), query.fields
        outer = free_refs(query) & {f.id for f in left.fields}
        computed = isinstance(cut.rows, algebra.Project) and any(
            refs(item.expression) & outer for item in cut.rows.items
        )
        if cut.most != 1 or cut.skipped or not cut.order or more or not outer or computed:
            return None
        join = algebra.Join(left, query, tree.JoinKind.LEFT, TRUE, span)
        relation, new = self.lateral(join)
        return relation, new[value.id].ref

    def _computed(
        self, join: algebra.Join, cut: _Cut, listed: algebra.Project, outer: frozenset[int]
    ) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return a join with a right side that computes values from the left row."""
        whole = cut.most != 0 and not cut.skipped and join.condition in (None, TRUE)
        if join.kind is tree.JoinKind.LEFT and not (
            whole and isinstance(listed.input, algebra.OneRow)
        ):
            construct = "LEFT JOIN LATERAL of a value of the left row"
            raise _unsupported(construct, join.span, "Compute it outside.")
        values = {i.field.id: i.expression for i in listed.items}
        order = tuple(replace(k, expression=substitute(k.expression, values)) for k in cut.order)
        condition = None if join.condition is None else substitute(join.condition, values)
        met = replace(join, right=listed.input, condition=condition, kind=tree.JoinKind.INNER)
        relation, new = self._met(met, replace(cut, rows=listed.input, order=order), outer)
        return algebra.Project(relation, (*(f.item for f in join.left.fields), *listed.items)), new

    def _met(
        self, join: algebra.Join, cut: _Cut, outer: frozenset[int]
    ) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return the rows that meet a row of the left by conditions on both, or the first
        of them.
        """
        below = subqueries.Decorrelation(outer, self.identities, join.span)
        rows, conditions = below.pulled(cut.rows)
        subqueries.no_outer_left(rows, outer, join.span)
        if cut.most is None and not cut.skipped:
            condition = both((*conditions, *conjuncts(join.condition)))
            kind = tree.JoinKind.INNER if join.kind in INNER else join.kind
            return self._padded(replace(join, right=rows, kind=kind, condition=condition))
        met = replace(join, right=rows, condition=both(conditions))
        return self._first(met, cut, join.condition)

    def nearest(self, join: algebra.Join) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return an ASOF JOIN: of the rows that match a row, the nearest by the single
        inequality.
        """
        here = {f.id for f in join.left.fields}
        parts = conjuncts(join.condition)
        others = [p for p in parts if not (isinstance(p, tree.Call) and p.function == "eq")]
        sides = [_compared(part, here) for part in others]
        if len(sides) != 1 or sides[0] is None or join.kind not in (*INNER, tree.JoinKind.LEFT):
            raise _unsupported("this ASOF JOIN", join.span, _ASOF)
        name, place = sides[0]
        order = (tree.SortKey(place, descending=name in _LATER),)
        return self._first(join, _Cut(join.right, order, 1), None)

    def _first(
        self, join: algebra.Join, cut: _Cut, condition: tree.Expression | None
    ) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return the first rows that each row of the left meets, in this order."""
        outer = join.kind is tree.JoinKind.LEFT
        if outer and (not cut.most or cut.skipped or condition not in (None, TRUE)):
            construct = "LEFT JOIN LATERAL with OFFSET, LIMIT 0 or a condition of its own"
            raise _unsupported(construct, join.span, "Write ON TRUE, and the condition inside.")
        left, columns = self._told_apart(join.left, join.span)
        kind = tree.JoinKind.LEFT if outer else tree.JoinKind.INNER
        kind = kind if join.condition is not None else tree.JoinKind.CROSS
        relation, new = self._padded(replace(join, left=left, kind=kind))
        values = {number: field.ref for number, field in new.items()}
        order = tuple(
            replace(key, expression=substitute(key.expression, values)) for key in cut.order
        )
        number = self.identities.field("row_number", tree.INTEGER)
        call = tree.WindowCall("row_number", (), columns, order, type=tree.INTEGER, span=join.span)
        relation = algebra.Window(relation, (algebra.WindowItem(number, call),))
        if cut.most == 1:
            relation = algebra.Filter(relation, number.ref.eq(cut.skipped + 1))
        elif cut.most is not None:
            relation = algebra.Filter(relation, number.ref.le(cut.skipped + cut.most))
        if cut.skipped and cut.most != 1:
            relation = algebra.Filter(relation, number.ref.gt(cut.skipped))
        return relation if condition is None else algebra.Filter(relation, condition), new

    def _told_apart(
        self, left: algebra.Relation, span: tree.Span
    ) -> tuple[algebra.Relation, tuple[tree.Ref, ...]]:
        """Return the rows of the left, and columns that identify each row."""
        if (key := self._key(left)) is not None:
            return left, key
        columns = tuple(f.ref for f in left.fields)
        again = self.identities.field("row_number", tree.INTEGER)
        call = tree.WindowCall("row_number", (), columns, type=tree.INTEGER, span=span)
        return algebra.Window(left, (algebra.WindowItem(again, call),)), (*columns, again.ref)

    def _key(self, relation: algebra.Relation) -> tuple[tree.Ref, ...] | None:
        """Return columns on which no two rows agree, by facts about tables; None if unknown."""
        match relation:
            case algebra.Scan():
                table = self.policy.table(relation.table)
                assert table is not None
                there = {f.name.lower(): f.ref for f in relation.fields}
                names = [name.lower() for name in table.key]
                facts = (FactKind.UNIQUE_KEY, FactKind.NOT_NULL_KEY)
                whole = all(self.policy.fact(kind, table.name) is not None for kind in facts)
                fitting = whole and names and there.keys() >= set(names)
                return tuple(there[name] for name in names) if fitting else None
            case algebra.Filter() | algebra.Sort() | algebra.Match() | algebra.Window():
                return self._key(relation.input)
            case algebra.Project():
                key = self._key(relation.input)
                new = {
                    item.expression.id: item.field.ref
                    for item in relation.items
                    if isinstance(item.expression, tree.Ref)
                }
                if key is None or not all(column.id in new for column in key):
                    return None
                return tuple(new[column.id] for column in key)
            case algebra.Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
                sides = [self._key(relation.left), self._key(relation.right)]
                return None if None in sides else tuple(c for side in sides for c in side or ())
            case _:
                return None

    def _totals(
        self, join: algebra.Join, rows: algebra.Project, outer: frozenset[int]
    ) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return the join with an aggregate without GROUP BY, which has a row for each row of the
        left.
        """
        if join.kind is tree.JoinKind.LEFT and join.condition not in (None, TRUE):
            raise _unsupported("LEFT JOIN LATERAL with a condition of its own", join.span)
        total = rows.input
        below = subqueries.Decorrelation(outer, self.identities, join.span, total)
        groups, conditions = below.pulled(total)
        subqueries.no_outer_left(groups, outer, join.span)
        met = replace(
            join, right=groups, kind=tree.JoinKind.LEFT, condition=both(conditions) or TRUE
        )
        relation, new = self._padded(met)
        counts = subqueries.counts_of(groups)
        values: dict[int, tree.Expression] = {
            number: subqueries.or_zero(field.ref) if number in counts else field.ref
            for number, field in new.items()
        }
        computed = [algebra.Item(i.field, substitute(i.expression, values)) for i in rows.items]
        relation = algebra.Project(relation, (*(f.item for f in join.left.fields), *computed))
        return relation if join.condition is None else algebra.Filter(relation, join.condition), {}

    def _padded(self, join: algebra.Join) -> tuple[algebra.Relation, dict[int, algebra.Field]]:
        """Return the join, with new columns for those that it may fill with NULL."""
        if join.kind is not tree.JoinKind.LEFT:
            return join, {}
        new = {f.id: self.identities.field(f.name, f.type) for f in join.right.fields}
        return algebra.Project(
            join, tuple(algebra.Item(new.get(f.id, f), f.ref) for f in join.fields)
        ), new


_ASOF = "Equate columns, and compare one more of each side: a.k = b.k AND a.t >= b.t."


@dataclass(frozen=True, slots=True)
class _Cut:
    """A query's rows with its order, limit (None: all) and offset."""

    rows: algebra.Relation
    order: tuple[tree.SortKey, ...] = ()
    most: int | None = None
    skipped: int = 0


def _cut_of(relation: algebra.Relation) -> _Cut:
    """Split a query from its ORDER BY, LIMIT and OFFSET.

    Projections above these rename columns, or leave out columns of the order.
    """
    named = list[algebra.Project]()
    while isinstance(relation, algebra.Project) and _is_cut(relation.input):
        named.append(relation)
        relation = relation.input
    most, skipped, order = None, 0, tuple[tree.SortKey, ...]()
    if isinstance(relation, algebra.Limit):
        most, skipped = relation.limit, relation.offset
        relation = relation.input
    if isinstance(relation, algebra.Sort):
        order = relation.keys
        relation = relation.input
    for project in reversed(named):
        there = {f.id for f in relation.fields}
        new = tuple(i for i in project.items if i.field.id not in there)
        if new:
            relation = algebra.Project(relation, (*(f.item for f in relation.fields), *new))
    return _Cut(relation, order, most, skipped)


def _is_cut(relation: algebra.Relation) -> bool:
    while isinstance(relation, algebra.Project):
        relation = relation.input
    return isinstance(relation, algebra.Limit | algebra.Sort)


def _total(relation: algebra.Relation) -> algebra.Project | None:
    """Return the projection of an aggregate without GROUP BY, if the rows are that."""
    if not isinstance(relation, algebra.Project):
        return None
    inner = relation.input
    if isinstance(inner, algebra.Aggregate):
        return None if inner.keys or inner.sets else relation
    below = _total(inner)
    if below is None:
        return None
    values = {i.field.id: i.expression for i in below.items}
    items = tuple(replace(i, expression=substitute(i.expression, values)) for i in relation.items)
    return algebra.Project(below.input, items)


def _compared(part: tree.Expression, here: set[int]) -> tuple[str, tree.Expression] | None:
    """Return the comparison of a left column, and the right expression that it is compared with."""
    if not (isinstance(part, tree.Call) and part.function in MIRRORED) or part.function in (
        "eq",
        "ne",
    ):
        return None
    (a, b), name = part.args, part.function
    if not refs(a) & here:
        a, b, name = b, a, MIRRORED[name]
    return (name, b) if refs(a) <= here and refs(b) and not refs(b) & here else None


def _unsupported(construct: str, span: tree.Span, fix: str = "") -> Refused:
    facts = {"fix": fix} if fix else {}
    return Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct, **facts)
