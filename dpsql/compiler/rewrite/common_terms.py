"""Terms that occur more than once are computed once, as columns of a projection below.

Above the private rows every expression is total and has the same value wherever it is evaluated, so
a column may hold it. Errors of formulas repeat the formulas many times: their SQL shrinks most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Field, Item, Limit, Project, Relation, Released, Sort
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Call, Cast, Expression, Literal, Ref, SqlType
from dpsql.model.walk import map_children, map_inputs, refs, relations

_LEAST = 3
"""Least number of nodes of a term that gets a column."""

_DEEPEST = 8
"""Largest number of nested projections. Longer chains of terms are written out."""

_Key: TypeAlias = tuple[object, ...]


def computed_once(relation: Relation, identities: Identities) -> Relation:
    """Return the same relation, in which no projection of released rows computes a term twice."""
    if not any(isinstance(part, Released) for part in relations(relation)):
        return relation
    below = map_inputs(relation, lambda part: computed_once(part, identities))
    if not isinstance(below, Project):
        return below
    source, written = once(below.input, [i.expression for i in below.items], identities)
    items = tuple(Item(i.field, e) for i, e in zip(below.items, written, strict=True))
    return Project(source, items)


def once(
    relation: Relation,
    outputs: Sequence[Expression],
    identities: Identities,
    read: frozenset[int] = frozenset(),
) -> tuple[Relation, tuple[Expression, ...]]:
    """Return the relation with shared terms of the outputs as columns, and the outputs over it.

    Rows keep their order: the columns are computed before they are sorted. Columns in `read` are
    kept.

    >>> from dpsql.model.tree import DOUBLE
    >>> table = Released(0, (Field(1, "n", DOUBLE),))
    >>> rest = Call("greatest", (Ref(1, DOUBLE), Literal(1.0, DOUBLE)), DOUBLE)
    >>> square = Call("mul", (rest, rest), DOUBLE)
    >>> below, (square,) = once(table, [square], Identities())
    >>> [item.expression == rest for item in below.items], len(set(square.args))
    ([True], 1)
    """
    if isinstance(relation, Sort | Limit):
        keys = relation.keys if isinstance(relation, Sort) else ()
        read = read.union(*(refs(key.expression) for key in keys))
        below, written = once(relation.input, outputs, identities, read)
        return replace(relation, input=below), written
    terms = _Terms()
    roots = [terms.number(output) for output in outputs]
    levels = terms.shared(roots)
    kinds = {n: kind for level in levels for n, kind in level.items()}
    columns = {n: identities.field("term", kind) for n, kind in kinds.items()}
    written = tuple(terms.over(root, columns) for root in roots)
    projections: list[tuple[Item, ...]] = []
    read = read.union(*map(refs, written))
    for level in reversed(levels):
        items = tuple(Item(columns[n], terms.over(n, columns, itself=False)) for n in level)
        there = {item.field.id for item in items}
        projections.append((*_same(relation, columns.values(), read - there), *items))
        read = (read - there).union(*(refs(item.expression) for item in items))
    for projection in reversed(projections):
        relation = Project(relation, projection)
    return relation, written


def _same(relation: Relation, terms: Iterable[Field], read: frozenset[int]) -> Iterator[Item]:
    """Yield the columns that are passed on unchanged because something above reads them."""
    for each in (*relation.fields, *terms):
        if each.id in read:
            yield each.item


@dataclass(slots=True)
class _Terms:
    """Expressions as a graph, in which equal terms are one node.

    `sizes` are those of the terms written out; `inner` their operands' nodes; `visited` the
    node of each object, which its roots hold.
    """

    numbers: dict[_Key, int] = field(default_factory=dict)
    visited: dict[int, int] = field(default_factory=dict)
    nodes: list[Expression] = field(default_factory=list)
    inner: list[tuple[int, ...]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    constant: list[bool] = field(default_factory=list)

    def number(self, expression: Expression) -> int:
        """Return the node of an expression; an expression that no projection can compute gets its
        own node.
        """
        if (number := self.visited.get(id(expression))) is None:
            number = self.visited[id(expression)] = self._number(expression)
        return number

    def _number(self, expression: Expression) -> int:
        match expression:
            case Call(args=args):
                inner = tuple(map(self.number, args))
                key: _Key = (expression.function, expression.type, inner)
            case Cast(arg=arg):
                inner = (self.number(arg),)
                key = (Cast, expression.type, expression.safe, inner)
            case Literal(value=value):
                inner, key = (), (Literal, type(value), repr(value), expression.type)
            case Ref():
                inner, key = (), (Ref, expression.id)
            case _:
                inner, key = (), (id(expression),)
        if key not in self.numbers:
            self.numbers[key] = len(self.nodes)
            self.nodes.append(expression)
            self.inner.append(inner)
            self.sizes.append(1 + sum(self.sizes[n] for n in inner))
            constant = isinstance(expression, Literal) or bool(inner)
            self.constant.append(constant and all(self.constant[n] for n in inner))
        return self.numbers[key]

    def shared(self, roots: Sequence[int]) -> list[dict[int, SqlType]]:
        """Return the nodes that are read more than once and worth a column, with their types.

        They are grouped into levels, each of which reads only earlier ones.
        """
        readers = Counter((*roots, *(n for inner in self.inner for n in inner)))
        heights: list[int] = []
        levels: list[dict[int, SqlType]] = []
        for n, (node, inner) in enumerate(zip(self.nodes, self.inner, strict=True)):
            height = max((heights[i] for i in inner), default=0)
            worth = not self.constant[n] and self.sizes[n] >= _LEAST and height < _DEEPEST
            column = isinstance(node, Call | Cast) and readers[n] > 1 and worth
            if isinstance(node, Call | Cast) and column:
                if height == len(levels):
                    levels.append({})
                levels[height][n] = node.type
            heights.append(height + column)
        return levels

    def over(self, n: int, columns: Mapping[int, Field], *, itself: bool = True) -> Expression:
        """Return the expression of a node over the columns."""
        if itself and n in columns:
            return columns[n].ref
        inner = iter(self.inner[n])
        if not self.inner[n]:
            return self.nodes[n]
        return map_children(self.nodes[n], lambda _: self.over(next(inner), columns))
