"""resolve: Statement → Resolved. Names, types and tables; every query becomes relations.

CTEs are resolved anew at each use, so every column of the result has its own identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from dpsql.compiler.resolve.aliases import spelled_out
from dpsql.compiler.resolve.constant_rows import constants
from dpsql.compiler.resolve.grouping import Grouping
from dpsql.compiler.resolve.merging import by_name, merged, padded
from dpsql.compiler.resolve.nested import Nested
from dpsql.compiler.resolve.scopes import Identities, Scope, Source
from dpsql.compiler.resolve.subqueries import Subqueries
from dpsql.compiler.resolve.typing import predicate, type_of, typed
from dpsql.functions import common_type
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    OneRow,
    Project,
    Relation,
    Resolved,
    Scan,
    Sort,
    Union,
    Window,
    WindowItem,
)
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    BOOLEAN,
    INTEGER,
    AggregateCall,
    Call,
    Derived,
    Expression,
    FromItem,
    JoinedTables,
    Kind,
    Literal,
    Name,
    Query,
    Ref,
    Select,
    SelectItem,
    SetOperation,
    SortKey,
    Span,
    Star,
    Statement,
    TableName,
    ValuesList,
    WindowCall,
)
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import walk

Environment: TypeAlias = "Mapping[str, _Definition]"


@dataclass(frozen=True, slots=True)
class _Definition:
    """A CTE: its query, the CTEs it can see, and its column aliases."""

    query: Query
    environment: Environment
    column_aliases: tuple[str, ...]
    span: Span


def resolve(statement: Statement, policy: Policy, identities: Identities) -> Resolved:
    """The statement as relations over the policy's tables.

    Raises `Refused` for unknown, ambiguous and hidden names, wrong types, misplaced aggregates
    and columns that are neither grouped nor aggregated.
    """
    return Resolved(_Resolver(policy, identities).query(statement.query, {}))


@dataclass(frozen=True, slots=True)
class _Resolver:
    policy: Policy
    identities: Identities

    # --- queries ---

    def query(self, query: Query, environment: Environment, outer: Scope | None = None) -> Relation:
        environment = self._with_ctes(query, environment)
        if isinstance(query, SetOperation):
            return self._set_operation(query, environment)
        return self._select(query, environment, outer)

    def _with_ctes(self, query: Query, environment: Environment) -> Environment:
        for cte in query.ctes:
            definition = _Definition(cte.query, environment, cte.column_aliases, query.span)
            self._relabelled(self.query(cte.query, environment), cte.column_aliases, query.span)
            environment = {**environment, cte.name.lower(): definition}
        return environment

    def _select(self, select: Select, environment: Environment, outer: Scope | None) -> Relation:
        relation, scope = self._source(select.source, environment)
        scope = replace(scope, outer=outer)
        select, items = spelled_out(select, scope)
        nested = Nested(
            scope,
            lambda query, around: self.query(query, environment, around),
            Subqueries(self.policy, self.identities),
            relation,
        )
        nested.where(select.where)
        select, items = nested.below(select, items)
        grouping = Grouping(self.identities, nested, select, items)
        relation = grouping.filtered()
        outputs = tuple(self._item(item, grouping) for item in items)
        keys = tuple(k for key in select.order_by for k in self._order(key, outputs, grouping))
        return self._finish(select, grouping.windowed(relation), outputs, keys, grouping)

    def _finish(
        self,
        select: Select,
        relation: Relation,
        outputs: tuple[Item, ...],
        keys: tuple[SortKey, ...],
        grouping: Grouping,
    ) -> Relation:
        if (qualify := grouping.qualify()) is not None:
            relation = Filter(relation, qualify)
        if select.distinct_on:
            relation = self._first_of_each(select, relation, outputs, keys, grouping)
        visible = {item.expression: Ref(item.field.id, item.field.type) for item in outputs}
        hidden: dict[Expression, Item] = {}
        sort = []
        for key in keys:
            target = visible.get(key.expression)
            if target is None:
                if select.distinct:
                    raise Refused(Reason.NOT_GROUPED, select.span, column="the ORDER BY expression")
                item = hidden.setdefault(key.expression, self._hidden(key.expression))
                target = Ref(item.field.id, item.field.type)
            sort.append(replace(key, expression=target))
        relation = Project(relation, outputs + tuple(hidden.values()))
        if select.distinct:
            relation = self.distinct(relation, select.span)
            renamed = dict(zip((o.field.id for o in outputs), relation.fields, strict=True))
            sort = [_moved(key, renamed) for key in sort]
        relation = _sorted_and_cut(relation, tuple(sort), select)
        if not hidden:
            return relation
        return Project(relation, tuple(Item(o.field, _ref(o.field)) for o in outputs))

    def _hidden(self, expression: Expression) -> Item:
        return Item(self.identities.field("", type_of(expression)), expression)

    def distinct(self, relation: Relation, span: Span) -> Relation:
        """SELECT DISTINCT is a GROUP BY of every column without aggregates."""
        keys = tuple(Item(self.identities.field(f.name, f.type), _ref(f)) for f in relation.fields)
        return Aggregate(relation, keys, (), span)

    def _item(self, item: SelectItem, grouping: Grouping) -> Item:
        expression = grouping.lift(item.expression)
        name = item.alias or _label(item.expression)
        return Item(self.identities.field(name, type_of(expression)), expression)

    def _first_of_each(
        self,
        select: Select,
        relation: Relation,
        outputs: tuple[Item, ...],
        order: tuple[SortKey, ...],
        grouping: Grouping,
    ) -> Relation:
        """DISTINCT ON (keys): the rows that ORDER BY puts first among those of equal keys."""
        keys = tuple(self._output(key, outputs, grouping) for key in select.distinct_on)
        number = self.identities.field("row_number", INTEGER)
        call = WindowCall("row_number", (), keys, order, type=INTEGER, span=select.span)
        first = Call("eq", (_ref(number), Literal(1, INTEGER)), BOOLEAN, select.span)
        return Filter(Window(relation, (WindowItem(number, call),)), first)

    def _order(
        self, key: SortKey, outputs: tuple[Item, ...], grouping: Grouping
    ) -> tuple[SortKey, ...]:
        """An item of ORDER BY over the input's columns; ALL is every output."""
        if isinstance(key.expression, Star):
            return tuple(replace(key, expression=o.expression) for o in outputs)
        return (replace(key, expression=self._output(key.expression, outputs, grouping)),)

    def _output(
        self, expression: Expression, outputs: tuple[Item, ...], grouping: Grouping
    ) -> Expression:
        """An ordinal, an output's name or any expression, over the input's columns."""
        if isinstance(expression, Literal) and isinstance(expression.value, int):
            return _ordinal(expression, outputs).expression
        if isinstance(expression, Name) and expression.table is None:
            named = [o for o in outputs if o.field.name.lower() == expression.name.lower()]
            if named:
                return named[0].expression
        return grouping.lift(expression)

    def _set_operation(self, query: SetOperation, environment: Environment) -> Relation:
        left = self.query(query.left, environment)
        right = self.query(query.right, environment)
        if query.by_name:
            left, right = by_name(query, left, right, self.identities)
        if len(left.fields) != len(right.fields):
            raise Refused(Reason.TYPE_MISMATCH, query.span, function=query.kind, types=())
        fields = []
        for a, b in zip(left.fields, right.fields, strict=True):
            kind = common_type((a.type, b.type))
            if kind is None:
                types = (str(a.type), str(b.type))
                raise Refused(Reason.TYPE_MISMATCH, query.span, function=query.kind, types=types)
            fields.append(self.identities.field(a.name, kind))
        union = Union(query.kind, query.all, left, right, tuple(fields), query.span)
        outputs = tuple(Item(f, _ref(f)) for f in fields)
        scope = Scope((Source(None, tuple(fields)),))
        keys = tuple(k for key in query.order_by for k in self._union_order(key, outputs, scope))
        return _sorted_and_cut(union, keys, query)

    def _union_order(
        self, key: SortKey, outputs: tuple[Item, ...], scope: Scope
    ) -> tuple[SortKey, ...]:
        if isinstance(key.expression, Star):
            return tuple(replace(key, expression=o.expression) for o in outputs)
        if isinstance(key.expression, Literal) and isinstance(key.expression.value, int):
            return (replace(key, expression=_ordinal(key.expression, outputs).expression),)
        expression = typed(key.expression, scope)
        _require_plain(expression, "ORDER BY")
        return (replace(key, expression=expression),)

    # --- FROM ---

    def _source(self, source: FromItem | None, environment: Environment) -> tuple[Relation, Scope]:
        match source:
            case None:
                return OneRow(), Scope()
            case TableName():
                relation, hidden = self._table(source, environment)
                relation = self._relabelled(relation, source.column_aliases, source.span)
                return relation, _scope(source.alias or source.name, relation.fields, hidden)
            case Derived():
                relation = self.query(source.query, environment)
                relation = self._relabelled(relation, source.column_aliases, source.span)
                return relation, _scope(source.alias, relation.fields, {})
            case ValuesList():
                values = constants(source, self.identities)
                relation = self._relabelled(values, source.column_aliases, source.span)
                return relation, _scope(source.alias, relation.fields, {})
            case JoinedTables():
                return self._join(source, environment)

    def _table(
        self, name: TableName, environment: Environment
    ) -> tuple[Relation, Mapping[str, str]]:
        definition = environment.get(name.name.lower())
        if definition is not None:
            relation = self.query(definition.query, definition.environment)
            return self._relabelled(relation, definition.column_aliases, name.span), {}
        table = self.policy.table(name.name)
        if table is None:
            known = tuple(t.name for t in self.policy.tables)
            raise Refused(Reason.UNKNOWN_TABLE, name.span, table=name.name, known=known)
        hidden = {c.name.lower(): "" for c in table.columns if c.hidden}
        hidden |= {name: table.name for name in table.second_keys if name in hidden}
        fields = tuple(self.identities.field(c.name, c.type) for c in table.columns if not c.hidden)
        return Scan(table.name, fields, name.span), hidden

    def _relabelled(self, relation: Relation, aliases: tuple[str, ...], span: Span) -> Relation:
        if not aliases:
            return relation
        if len(aliases) > len(relation.fields):
            raise Refused(Reason.UNKNOWN_COLUMN, span, column=aliases[len(relation.fields)])
        names = (*aliases, *(f.name for f in relation.fields[len(aliases) :]))
        items = tuple(
            Item(self.identities.field(name, f.type), _ref(f))
            for name, f in zip(names, relation.fields, strict=True)
        )
        return Project(relation, items)

    def _join(self, join: JoinedTables, environment: Environment) -> tuple[Relation, Scope]:
        left, left_scope = self._source(join.left, environment)
        right, right_scope = self._source(join.right, environment)
        _no_shared_alias(left_scope, right_scope, join)
        if join.using or join.natural:
            return merged(join, (left, right), (left_scope, right_scope), self.identities)
        scope = left_scope.beside(right_scope)
        condition = None
        if join.condition is not None:
            condition = predicate(join.condition, scope)
            _require_plain(condition, "ON")
        return padded(Join(left, right, join.kind, condition, join.span), scope, self.identities)


def _scope(alias: str | None, fields: tuple[Field, ...], hidden: Mapping[str, str]) -> Scope:
    return Scope((Source(alias, fields, hidden),))


def _no_shared_alias(left: Scope, right: Scope, join: JoinedTables) -> None:
    names = {s.alias.lower() for s in left.sources if s.alias}
    for source in right.sources:
        if source.alias and source.alias.lower() in names:
            raise Refused(Reason.AMBIGUOUS_COLUMN, join.span, column=source.alias)


def _ordinal(literal: Literal, outputs: tuple[Item, ...]) -> Item:
    position = literal.value
    assert isinstance(position, int)
    if literal.type.kind is not Kind.INTEGER or not 1 <= position <= len(outputs):
        raise Refused(Reason.UNKNOWN_COLUMN, literal.span, column=f"number {position}")
    return outputs[position - 1]


def _sorted_and_cut(
    relation: Relation, keys: tuple[SortKey, ...], query: Select | SetOperation
) -> Relation:
    if keys:
        relation = Sort(relation, keys, query.span)
    if query.limit is not None or query.offset:
        relation = Limit(relation, query.limit, query.offset, query.span)
    return relation


def _moved(key: SortKey, renamed: Mapping[int, Field]) -> SortKey:
    assert isinstance(key.expression, Ref)
    return replace(key, expression=_ref(renamed[key.expression.id]))


def _require_plain(expression: Expression, clause: str) -> None:
    for node in walk(expression):
        if isinstance(node, AggregateCall | WindowCall):
            raise Refused(Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause=clause)


def _label(expression: Expression) -> str:
    """The name of an unaliased output column, fixed by the text: as PostgreSQL would name it."""
    match expression:
        case Name(name=name) | Call(function=name):
            return name
        case _:
            return getattr(expression, "function", "column")


def _ref(field: Field) -> Ref:
    return Ref(field.id, field.type)
