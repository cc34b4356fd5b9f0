"""The subqueries in the expressions of one SELECT: resolved, and attached to its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dpsql.compiler.resolve.scopes import Scope
from dpsql.compiler.resolve.subqueries import Lookup, Subqueries
from dpsql.compiler.resolve.typing import predicate, typed
from dpsql.model.algebra import Filter, Item, Project, Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    AggregateCall,
    Expression,
    Literal,
    Membership,
    Name,
    Query,
    Ref,
    ScalarQuery,
    Select,
    SelectItem,
    SortKey,
    WindowCall,
)
from dpsql.model.walk import both, conjuncts, map_children, walk


def has_subquery(expression: Expression) -> bool:
    """Whether a query stands somewhere in a written expression."""
    return any(isinstance(node, ScalarQuery | Membership) for node in walk(expression))


def is_grouped(select: Select, items: tuple[SelectItem, ...]) -> bool:
    """Whether a SELECT aggregates: by GROUP BY, HAVING or an aggregate that it asks for."""
    written = [item.expression for item in items]
    written += [key.expression for key in select.order_by]
    return (
        bool(select.group_by)
        or select.having is not None
        or any(isinstance(node, AggregateCall) for root in written for node in walk(root))
    )


def _key_positions(select: Select, items: tuple[SelectItem, ...]) -> frozenset[int]:
    """The items that GROUP BY names by their number or alias, or repeats."""
    named = {item.alias.lower(): n for n, item in enumerate(items) if item.alias}
    found = set()
    for key in select.group_by:
        match key:
            case Literal(value=int(position)):
                found.add(position - 1)
            case Name(name=name, table=None):
                found.add(named.get(name.lower(), -1))
            case _:
                found |= {n for n, item in enumerate(items) if item.expression == key}
    return frozenset(found)


@dataclass(slots=True)
class Nested:
    """Subqueries below the grouping of one SELECT: `resolve` resolves one within the scope."""

    scope: Scope
    resolve: Callable[[Query, Scope], Relation]
    subqueries: Subqueries
    relation: Relation
    known: dict[Expression, Expression] = field(default_factory=dict)

    def lookup(self, node: ScalarQuery | Membership) -> Lookup:
        """One subquery as a lookup by the rows of this scope."""
        relation = self.resolve(node.query, self.scope)
        if isinstance(node, ScalarQuery):
            return self.subqueries.scalar(node, relation)
        value = None if node.value is None else typed(node.value, self.scope)
        return self.subqueries.membership(node, value, relation)

    def attached(self, expression: Expression) -> Expression:
        """The expression with its subqueries as columns, which `relation` then has."""
        expression = map_children(expression, self.attached)
        if not isinstance(expression, ScalarQuery | Membership):
            return expression
        if expression not in self.known:
            found = self.lookup(expression)
            self.relation = found.attach(self.relation)
            self.known[expression] = found.value
        return self.known[expression]

    def where(self, condition: Expression | None) -> None:
        """Keep the rows that satisfy WHERE: plain conditions first, then those that ask."""
        parts = conjuncts(condition)
        plain = tuple(part for part in parts if not has_subquery(part))
        if (both_plain := both(plain)) is not None:
            self._filter(both_plain)
        before = self.relation.fields
        for part in parts:
            if has_subquery(part):
                self._filter(self.attached(part))
        if self.known:
            kept = tuple(Item(f, Ref(f.id, f.type)) for f in before)
            self.relation = Project(self.relation, kept)
            self.known = {}

    def _filter(self, condition: Expression) -> None:
        held = predicate(condition, self.scope)
        for node in walk(held):
            if isinstance(node, AggregateCall | WindowCall):
                raise Refused(
                    Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause="WHERE"
                )
        self.relation = Filter(self.relation, held)

    def below(
        self, select: Select, items: tuple[SelectItem, ...]
    ) -> tuple[Select, tuple[SelectItem, ...]]:
        """The SELECT with the subqueries that its rows ask, not its groups, attached."""
        grouped = is_grouped(select, items)
        change = self._inside_aggregates if grouped else self.attached
        keys = _key_positions(select, items)
        items = tuple(
            replace(item, expression=(self.attached if n in keys else change)(item.expression))
            for n, item in enumerate(items)
        )
        return replace(
            select,
            group_by=tuple(map(self.attached, select.group_by)),
            having=None if select.having is None else change(select.having),
            qualify=None if select.qualify is None else change(select.qualify),
            order_by=tuple(self._key(key, change) for key in select.order_by),
        ), items

    @staticmethod
    def _key(key: SortKey, change: Callable[[Expression], Expression]) -> SortKey:
        return replace(key, expression=change(key.expression))

    def _inside_aggregates(self, expression: Expression) -> Expression:
        if isinstance(expression, AggregateCall):
            return self.attached(expression)
        return map_children(expression, self._inside_aggregates)
