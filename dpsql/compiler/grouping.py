"""The aggregate and window half of one SELECT: what is a key, what a measure, what a window."""

from __future__ import annotations

from dpsql.algebra import Aggregate, Field, Filter, Item, Measure, Relation, Window, WindowItem
from dpsql.compiler.scopes import Identities, Scope
from dpsql.compiler.typing import predicate, type_of, typed
from dpsql.errors import Reason, Refused
from dpsql.tree import (
    AggregateCall,
    Expression,
    Kind,
    Literal,
    Name,
    Ref,
    Select,
    SelectItem,
    WindowCall,
)
from dpsql.walk import map_children, walk


class Grouping:
    """Rewrites the expressions of one SELECT so that they read keys, measures and windows.

    An aggregate written twice becomes one measure; a column that is neither a key nor inside an
    aggregate is refused.
    """

    def __init__(
        self,
        identities: Identities,
        scope: Scope,
        relation: Relation,
        select: Select,
        items: tuple[SelectItem, ...],
    ) -> None:
        self._identities, self._scope, self._relation = identities, scope, relation
        self._select, self._items = select, items
        self._measures: dict[AggregateCall, Field] = {}
        self._windows: dict[WindowCall, Field] = {}
        self.grouped = bool(select.group_by) or select.having is not None or self._aggregates()
        self._keys = tuple(self._key(expression) for expression in select.group_by)
        self._key_fields: dict[Expression, Field] = {k.expression: k.field for k in self._keys}
        # Every use is lifted before the relation is built, so that all measures are known.
        for item in items:
            self.lift(item.expression)
        for key in select.order_by:
            if not self._names_output(key.expression):
                self.lift(key.expression)
        self._having = None if select.having is None else self._condition(select.having)
        self._qualify = None if select.qualify is None else self._condition(select.qualify)

    def filtered(self) -> Relation:
        """The relation after GROUP BY and HAVING."""
        relation = self._relation
        if self.grouped:
            measures = tuple(Measure(field, call) for call, field in self._measures.items())
            relation = Aggregate(relation, self._keys, measures, self._select.span)
        return relation if self._having is None else Filter(relation, self._having)

    def windowed(self, relation: Relation) -> Relation:
        """`relation` with the window columns added, if there are any."""
        if not self._windows:
            return relation
        items = tuple(WindowItem(field, call) for call, field in self._windows.items())
        return Window(relation, items)

    def qualify(self) -> Expression | None:
        """The QUALIFY condition over keys, measures and windows."""
        return self._qualify

    def lift(self, expression: Expression) -> Expression:
        """A written expression as one over keys, measures and windows."""
        return self._lifted(typed(expression, self._scope))

    def _lifted(self, expression: Expression) -> Expression:
        if self.grouped and expression in self._key_fields:
            field = self._key_fields[expression]
            return Ref(field.id, field.type)
        match expression:
            case AggregateCall():
                return self._named(self._measures, expression)
            case WindowCall():
                for part in walk(expression):
                    if part is not expression and isinstance(part, WindowCall):
                        raise Refused(Reason.MISPLACED_AGGREGATE, part.span, name=part.function)
                return self._named(self._windows, map_children(expression, self._lifted))
            case Ref() if self.grouped:
                name = next(f.name for f in self._relation.fields if f.id == expression.id)
                raise Refused(Reason.NOT_GROUPED, expression.span, column=name)
            case _:
                return map_children(expression, self._lifted)

    def _named(self, table: dict, call: Expression) -> Ref:  # type: ignore[type-arg]
        kind = type_of(call)
        if call not in table:
            table[call] = self._identities.field(getattr(call, "function", ""), kind)
        return Ref(table[call].id, kind)

    def _condition(self, expression: Expression) -> Expression:
        """HAVING or QUALIFY: may also name output columns."""
        aliases = {
            item.alias.lower(): item.expression for item in self._items if item.alias is not None
        }

        def unfold(node: Expression) -> Expression:
            if isinstance(node, Name) and node.table is None and not self._scope.has(node):
                return aliases.get(node.name.lower(), node)
            return map_children(node, unfold)

        condition = predicate(unfold(expression), self._scope)
        return self._lifted(condition)

    def _key(self, expression: Expression) -> Item:
        written = self._unaliased(expression)
        key = typed(written, self._scope)
        for node in walk(key):
            if isinstance(node, AggregateCall | WindowCall):
                raise Refused(
                    Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause="GROUP BY"
                )
        return Item(self._identities.field(self._key_name(written), type_of(key)), key)

    def _unaliased(self, expression: Expression) -> Expression:
        """An ordinal or an output alias as the expression it stands for."""
        if isinstance(expression, Literal) and expression.type.kind is Kind.INTEGER:
            position = expression.value
            assert isinstance(position, int)
            if not 1 <= position <= len(self._items):
                raise Refused(Reason.UNKNOWN_COLUMN, expression.span, column=f"number {position}")
            return self._items[position - 1].expression
        if isinstance(expression, Name) and not self._scope.has(expression):
            for item in self._items:
                if item.alias and item.alias.lower() == expression.name.lower():
                    return item.expression
        return expression

    def _key_name(self, written: Expression) -> str:
        for item in self._items:
            if item.expression == written and item.alias:
                return item.alias
        return written.name if isinstance(written, Name) else "key"

    def _names_output(self, expression: Expression) -> bool:
        if isinstance(expression, Literal):
            return isinstance(expression.value, int)
        aliases = {(item.alias or "").lower() for item in self._items}
        return (
            isinstance(expression, Name)
            and expression.table is None
            and expression.name.lower() in aliases
        )

    def _aggregates(self) -> bool:
        written = [item.expression for item in self._items]
        written += [key.expression for key in self._select.order_by]
        return any(isinstance(node, AggregateCall) for root in written for node in walk(root))
