"""Rows in canonical form: a product of sources, a conjunction of conditions, and the columns.

Projections, filters and inner joins are merged, for any division into subqueries. All other
operators are sources, over inputs in this form. A filter below a LEFT JOIN's left side, or below
EXISTS and IN, moves above it.

Proof (PRIVACY.md R77). A row of a projection is one of its input with other columns, so readers of
a column may read its definition. Filters and products of bags commute, and a join is a filter of a
product. A LEFT JOIN, or a truth value for each row, keeps each row of its left side separately:
conditions on that side's columns may be applied before or afterwards. The right side's columns may
be NULL above: only their own values are read there, and knowledge about them from below is not
used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias, cast

from dpsql.compiler.plan.conditions import TRUE, required
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.ticking import tick
from dpsql.model.tree import AggregateCall, WindowCall
from dpsql.model.walk import both, composed, map_inputs

Columns: TypeAlias = Mapping[int, tree.Expression]


@dataclass(frozen=True, slots=True)
class FlatRows:
    """The rows of a product of `sources` for which all `conditions` are true.

    `columns` are those of the represented relation, over the columns of the sources.
    """

    sources: tuple[algebra.Relation, ...]
    conditions: tuple[tree.Expression, ...]
    columns: Columns

    def plus(self, *conditions: tree.Expression) -> FlatRows:
        """Return the rows for which these conditions are true too."""
        return replace(self, conditions=(*self.conditions, *conditions))


class _TooLong(Exception):
    """A formula over the columns of sources would be too long."""


def _over(expression: tree.Expression, columns: Columns) -> tree.Expression:
    below = composed(expression, columns)
    if below is None:
        raise _TooLong
    return below


@dataclass(frozen=True, slots=True)
class Flattener:
    """Flattens relations. `written` identifies and orders sources; `never_null` columns have no
    NULL.
    """

    written: Callable[[algebra.Relation], str]
    never_null: Collection[int] = ()
    _flat: dict[int, FlatRows] = field(default_factory=dict)

    def rows(self, flat: FlatRows, present: frozenset[int] = frozenset()) -> algebra.Relation:
        """Return the rows as a relation over columns of sources; the `present` columns have no
        NULL.
        """
        product = self._product(flat.sources)
        if not flat.conditions:
            return product
        condition = both(required(flat.conditions, self.present(flat.sources) | present))
        return product if condition is None else algebra.Filter(product, condition)

    def relation(self, relation: algebra.Relation) -> algebra.Relation:
        """Return the relation in canonical form, with the same columns in their order."""
        flat = self.flat(relation)
        items = tuple(algebra.Item(column, flat.columns[column.id]) for column in relation.fields)
        return algebra.Project(self.rows(flat), items)

    def flat(self, relation: algebra.Relation) -> FlatRows:
        """Return the rows of a relation; it is a source itself where formulas would be too long."""
        tick()
        if id(relation) not in self._flat:
            try:
                flat = self._together(relation)
            except _TooLong:
                flat = _source(map_inputs(relation, self.relation))
            self._flat[id(relation)] = flat
        return self._flat[id(relation)]

    def _together(self, relation: algebra.Relation) -> FlatRows:
        match relation:
            case algebra.Filter(predicate=predicate):
                below = self.flat(relation.input)
                return below.plus(_over(predicate, below.columns))
            case algebra.Project(items=items):
                below = self.flat(relation.input)
                columns = {item.field.id: _over(item.expression, below.columns) for item in items}
                return replace(below, columns=columns)
            case algebra.Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
                return self._inner(relation)
            case algebra.Join(kind=tree.JoinKind.LEFT):
                return self._left(relation)
            case algebra.Match():
                return self._match(relation)
            case algebra.Aggregate():
                return _source(self._aggregate(relation))
            case algebra.Window():
                return self._window(relation)
            case algebra.Apply() | algebra.Recursion():
                return _source(relation)  # its parts may read columns of other inputs
            case _:
                return _source(map_inputs(relation, self.relation))

    def _inner(self, join: algebra.Join) -> FlatRows:
        left, right = self.flat(join.left), self.flat(join.right)
        columns = {**left.columns, **right.columns}
        together = FlatRows(
            (*left.sources, *right.sources), (*left.conditions, *right.conditions), columns
        )
        return together if join.condition is None else together.plus(_over(join.condition, columns))

    def _left(self, join: algebra.Join) -> FlatRows:
        left, right = self.flat(join.left), self.flat(join.right)
        there, columns = self.rows(right), right.columns
        if not all(isinstance(column, tree.Ref) for column in columns.values()):
            there = self.relation(join.right)
            columns = {column.id: column.ref for column in join.right.fields}
        columns = {**left.columns, **columns}
        condition: tree.Expression = TRUE
        if join.condition is not None:
            sides = self.present((*left.sources, *right.sources))
            condition = both(required((_over(join.condition, columns),), sides)) or TRUE
        padded = algebra.Join(self._product(left.sources), there, tree.JoinKind.LEFT, condition)
        return FlatRows((padded,), left.conditions, columns)

    def _match(self, match: algebra.Match) -> FlatRows:
        left, right = self.flat(match.input), self.flat(match.other)
        columns = {**left.columns, **right.columns}
        condition, member = match.condition, match.member
        if member is not None:
            member = _over(member[0], columns), _over(member[1], columns)
        marked = replace(
            match,
            input=self._product(left.sources),
            other=self.rows(right),
            condition=None if condition is None else both(required((_over(condition, columns),))),
            member=None
            if member is None
            else (_over(member[0], columns), _over(member[1], columns)),
        )
        return FlatRows((marked,), left.conditions, {**left.columns, match.mark.id: match.mark.ref})

    def _aggregate(self, aggregate: algebra.Aggregate) -> algebra.Aggregate:
        below = self.flat(aggregate.input)
        keys = tuple(
            replace(key, expression=_over(key.expression, below.columns)) for key in aggregate.keys
        )
        measures = tuple(
            replace(m, call=cast("AggregateCall", _over(m.call, below.columns)))
            for m in aggregate.measures
        )
        return replace(aggregate, input=self.rows(below), keys=keys, measures=measures)

    def _window(self, window: algebra.Window) -> FlatRows:
        below = self.flat(window.input)
        items = tuple(
            replace(item, call=cast("WindowCall", _over(item.call, below.columns)))
            for item in window.items
        )
        added = {item.field.id: item.field.ref for item in items}
        above = replace(window, input=self.rows(below), items=items)
        return FlatRows((above,), (), {**below.columns, **added})

    def _product(self, sources: tuple[algebra.Relation, ...]) -> algebra.Relation:
        first, *others = sorted(sources, key=self.written) if len(sources) > 1 else sources
        for other in others:
            first = algebra.Join(first, other, tree.JoinKind.CROSS, None)
        return first

    def present(self, sources: Iterable[algebra.Relation]) -> frozenset[int]:
        """Return the columns of tables without NULL, as they are read and not behind an
        outer join.
        """
        scanned = (
            f.id for source in sources if isinstance(source, algebra.Scan) for f in source.fields
        )
        return frozenset(scanned) & frozenset(self.never_null)


def _source(relation: algebra.Relation) -> FlatRows:
    return FlatRows((relation,), (), {column.id: column.ref for column in relation.fields})
