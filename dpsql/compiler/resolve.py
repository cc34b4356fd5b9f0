"""resolve: Statement → Resolved. Names, types and tables; every query becomes relations.

CTEs are resolved anew at each use, so every column of the result has its own identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from dpsql.algebra import (
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
)
from dpsql.compiler.grouping import Grouping
from dpsql.compiler.nested import Nested
from dpsql.compiler.scopes import Identities, Scope, Source
from dpsql.compiler.subqueries import Subqueries
from dpsql.compiler.typing import predicate, type_of, typed, typed_call
from dpsql.errors import Reason, Refused
from dpsql.functions import common_type
from dpsql.model import Policy
from dpsql.tree import (
    AggregateCall,
    Call,
    Derived,
    Expression,
    FromItem,
    JoinedTables,
    JoinKind,
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
    WindowCall,
)
from dpsql.walk import walk

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
        nested = Nested(
            scope,
            lambda query, around: self.query(query, environment, around),
            Subqueries(self.policy, self.identities),
            relation,
        )
        nested.where(select.where)
        select, items = nested.below(select, _expanded(select.items, scope))
        grouping = Grouping(self.identities, nested, select, items)
        relation = grouping.filtered()
        outputs = tuple(self._item(item, grouping) for item in items)
        keys = tuple(self._order(key, outputs, grouping) for key in select.order_by)
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

    def _order(self, key: SortKey, outputs: tuple[Item, ...], grouping: Grouping) -> SortKey:
        expression = key.expression
        if isinstance(expression, Literal) and isinstance(expression.value, int):
            return replace(key, expression=_ordinal(expression, outputs).expression)
        if isinstance(expression, Name) and expression.table is None:
            named = [o for o in outputs if o.field.name.lower() == expression.name.lower()]
            if named:
                return replace(key, expression=named[0].expression)
        return replace(key, expression=grouping.lift(expression))

    def _set_operation(self, query: SetOperation, environment: Environment) -> Relation:
        left = self.query(query.left, environment)
        right = self.query(query.right, environment)
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
        keys = tuple(self._union_order(key, outputs, scope) for key in query.order_by)
        return _sorted_and_cut(union, keys, query)

    def _union_order(self, key: SortKey, outputs: tuple[Item, ...], scope: Scope) -> SortKey:
        if isinstance(key.expression, Literal) and isinstance(key.expression.value, int):
            return replace(key, expression=_ordinal(key.expression, outputs).expression)
        expression = typed(key.expression, scope)
        _require_plain(expression, "ORDER BY")
        return replace(key, expression=expression)

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
                return relation, _scope(source.alias, relation.fields, frozenset())
            case JoinedTables():
                return self._join(source, environment)

    def _table(self, name: TableName, environment: Environment) -> tuple[Relation, frozenset[str]]:
        definition = environment.get(name.name.lower())
        if definition is not None:
            relation = self.query(definition.query, definition.environment)
            return self._relabelled(relation, definition.column_aliases, name.span), frozenset()
        table = self.policy.table(name.name)
        if table is None:
            known = tuple(t.name for t in self.policy.tables)
            raise Refused(Reason.UNKNOWN_TABLE, name.span, table=name.name, known=known)
        fields = tuple(self.identities.field(c.name, c.type) for c in table.columns if not c.hidden)
        hidden = frozenset(c.name.lower() for c in table.columns if c.hidden)
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
        merged = left_scope.merged | right_scope.merged
        scope = Scope(left_scope.sources + right_scope.sources, merged)
        condition = None
        if join.using:
            condition, once = _using(join, left_scope, right_scope)
            scope = Scope(scope.sources, merged | once)
        elif join.condition is not None:
            condition = predicate(join.condition, scope)
            _require_plain(condition, "ON")
        return self._padded(Join(left, right, join.kind, condition, join.span), scope)

    def _padded(self, join: Join, scope: Scope) -> tuple[Relation, Scope]:
        """The join; columns that it may fill with NULL get an identity of their own above it."""
        sides = {
            JoinKind.LEFT: join.right.fields,
            JoinKind.RIGHT: join.left.fields,
            JoinKind.FULL: join.fields,
        }
        padded = {f.id: self.identities.field(f.name, f.type) for f in sides.get(join.kind, ())}
        if not padded:
            return join, scope
        items = tuple(Item(padded.get(f.id, f), _ref(f)) for f in join.fields)
        sources = tuple(
            replace(s, fields=tuple(padded.get(f.id, f) for f in s.fields)) for s in scope.sources
        )
        merged = frozenset(padded[n].id if n in padded else n for n in scope.merged)
        return Project(join, items), Scope(sources, merged)


def _using(join: JoinedTables, left: Scope, right: Scope) -> tuple[Expression, frozenset[int]]:
    """The equalities of USING, and the columns that are then shown once."""
    equalities: list[Expression] = []
    once = set()
    for name in join.using:
        a, b = (scope.lookup(Name(name, span=join.span)) for scope in (left, right))
        equalities.append(typed_call(Call("eq", (_ref(a), _ref(b)), span=join.span)))
        once.add(a.id if join.kind is JoinKind.RIGHT else b.id)
        if join.kind is JoinKind.FULL:
            raise Refused(Reason.UNSUPPORTED_SYNTAX, join.span, construct="FULL JOIN USING")
    if len(equalities) == 1:
        return equalities[0], frozenset(once)
    return typed_call(Call("and", tuple(equalities), span=join.span)), frozenset(once)


def _scope(alias: str | None, fields: tuple[Field, ...], hidden: frozenset[str]) -> Scope:
    return Scope((Source(alias, fields, hidden),))


def _no_shared_alias(left: Scope, right: Scope, join: JoinedTables) -> None:
    names = {s.alias.lower() for s in left.sources if s.alias}
    for source in right.sources:
        if source.alias and source.alias.lower() in names:
            raise Refused(Reason.AMBIGUOUS_COLUMN, join.span, column=source.alias)


def _expanded(items: tuple[SelectItem, ...], scope: Scope) -> tuple[SelectItem, ...]:
    """The SELECT list with every star written out."""
    result = []
    for item in items:
        if isinstance(item.expression, Star):
            fields = scope.expand(item.expression)
            result += [SelectItem(Ref(f.id, f.type, item.expression.span), f.name) for f in fields]
        else:
            result.append(item)
    return tuple(result)


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
