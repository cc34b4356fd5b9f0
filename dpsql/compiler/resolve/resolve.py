"""resolve: Statement → Resolved. It resolves names, types and tables; every query becomes
relations.

CTEs are resolved again at each use, so every column of the result has its own identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dpsql.compiler.resolve.called_formulas import with_formulas
from dpsql.compiler.resolve.constant_rows import constants
from dpsql.compiler.resolve.granted_rows import granted_rows
from dpsql.compiler.resolve.grouping import Grouping, output_name
from dpsql.compiler.resolve.laterals import Laterals
from dpsql.compiler.resolve.named_joins import compared, merged, padded, pairs_of
from dpsql.compiler.resolve.scopes import Identities, Scope, Source, spelled_out
from dpsql.compiler.resolve.subqueries import Nested, Subqueries, has_subquery, outer_column
from dpsql.compiler.resolve.typing import predicate, type_of, typed
from dpsql.functions import common_type
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.system_table import FORMULA_CALLS
from dpsql.model.table_names import nearest, shown
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, free_refs, relations, walk


def without_rows(resolved: algebra.Resolved) -> algebra.Resolved:
    """Replace a query that has no rows for any data by its columns without tables; else return it.

    The result reads nothing, so its answer says nothing about data.
    """
    relation = resolved.relation
    if not is_empty(relation):
        return resolved
    return algebra.Resolved(algebra.rowless(relation.fields))


def is_empty(relation: algebra.Relation) -> bool:
    """Test whether the text alone shows that a relation has no rows.

    An aggregate has rows: one for totals, or one for each public key.

    >>> is_empty(algebra.rowless(())), is_empty(algebra.OneRow())
    (True, False)
    """
    match relation:
        case algebra.Limit(limit=0):
            return True
        case algebra.Filter(input=source, predicate=predicate):
            return _never(predicate) or is_empty(source)
        case (
            algebra.Project()
            | algebra.Sort()
            | algebra.Window()
            | algebra.Match()
            | algebra.Limit()
        ):
            return is_empty(relation.input)
        case _:
            return False


def _never(predicate: tree.Expression) -> bool:
    """Test whether a condition is the constant FALSE, or a comparison of constants that is
    false.
    """
    match predicate:
        case tree.Literal(value=False, type=kind):
            return kind == tree.BOOLEAN
        case tree.Call(function="and", args=args):
            return any(map(_never, args))
        case tree.Call(
            function="eq" | "ne" as function,
            args=(tree.Literal(int() as a), tree.Literal(int() as b)),
        ):
            return (a == b) is (function == "ne")
        case _:
            return False


Environment: TypeAlias = "Mapping[str, _Definition | algebra.Again]"


@dataclass(frozen=True, slots=True)
class _Definition:
    """A CTE: its query, the names it can see, its column aliases; its name if it may read
    itself.
    """

    query: tree.Query
    environment: Environment
    column_aliases: tuple[str, ...]
    span: tree.Span
    itself: str | None = None


def resolve(statement: tree.Statement, policy: Policy, identities: Identities) -> algebra.Resolved:
    """Return the statement as relations over the policy's tables.

    Raises `Refused` for unknown, ambiguous and hidden names, wrong types, misplaced aggregates and
    columns that are neither grouped nor aggregated.
    """
    resolver, query = _Resolver(policy, identities, statement.search_path), statement.query
    if not statement.calls.isdisjoint(FORMULA_CALLS):
        query = with_formulas(statement)
    return algebra.Resolved(resolver.query(query, {}))


@dataclass(frozen=True, slots=True)
class _Resolver:
    policy: Policy
    identities: Identities
    path: tuple[str, ...]

    # --- queries ---

    def query(
        self, query: tree.Query, environment: Environment, outer: Scope | None = None
    ) -> algebra.Relation:
        environment = self._with_ctes(query, environment) if query.ctes else environment
        if isinstance(query, tree.SetOperation):
            return self._set_operation(query, environment, outer)
        return self._select(query, environment, outer)

    def _with_ctes(self, query: tree.Query, environment: Environment) -> Environment:
        for cte in query.ctes:
            itself = cte.name.lower() if cte.recursive else None
            definition = _Definition(cte.query, environment, cte.column_aliases, query.span, itself)
            self._defined(definition)
            environment = {**environment, cte.name.lower(): definition}
        return environment

    def _defined(self, definition: _Definition) -> algebra.Relation:
        """Return the rows of a CTE."""
        query, environment = definition.query, definition.environment
        if definition.itself is not None and isinstance(query, tree.SetOperation):
            recursion = self._recursion(definition, definition.itself, query)
            if recursion is not None:
                return recursion
        relation = self.query(query, environment)
        return self._relabelled(relation, definition.column_aliases, definition.span)

    def _recursion(
        self, definition: _Definition, itself: str, query: tree.SetOperation
    ) -> algebra.Recursion | None:
        """Return a UNION with a right side that reads the CTE itself; None where it does not."""
        environment = self._with_ctes(query, definition.environment)
        aliases, span = definition.column_aliases, definition.span
        first = self._relabelled(self.query(query.left, environment), aliases, span)
        number = self.identities.field(itself, tree.INTEGER).id
        before = algebra.Again(number, first.fields)
        step = self.query(query.right, {**environment, itself: before})
        if not any(isinstance(r, algebra.Again) and r.id == number for r in relations(step)):
            return None
        if query.kind != "UNION" or query.order_by or query.limit is not None or query.offset:
            construct = "WITH RECURSIVE of anything but UNION, without ORDER BY and LIMIT"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, query.span, construct=construct)
        _common_types(query, first, step)
        fields = tuple(self.identities.field(f.name, f.type) for f in first.fields)
        return algebra.Recursion(
            id=number, first=first, step=step, fields=fields, all=query.all, span=query.span
        )

    def _select(
        self, select: tree.Select, environment: Environment, outer: Scope | None
    ) -> algebra.Relation:
        relation, scope = self._source(select.source, environment, outer)
        scope = replace(scope, outer=outer)
        select, items = spelled_out(select, scope)
        nested = self._nested(scope, relation, environment)
        if select.where is not None:
            nested.where(select.where)
        select, items = nested.below(select, items)
        grouping = Grouping(self.identities, nested, select, items)
        relation = grouping.filtered()
        outputs = tuple(
            algebra.Item(self.identities.field(output_name(item), type_of(lifted)), lifted)
            for item, lifted in ((item, grouping.lift(item.expression)) for item in items)
        )
        keys = list[tree.SortKey]()
        for key in select.order_by:
            if isinstance(key.expression, tree.Star):  # ALL is every output
                keys += [replace(key, expression=o.expression) for o in outputs]
            else:
                expression = self._output(key.expression, outputs, grouping)
                keys.append(replace(key, expression=expression))
        return self._finish(select, grouping.windowed(relation), outputs, tuple(keys), grouping)

    def _finish(
        self,
        select: tree.Select,
        relation: algebra.Relation,
        outputs: tuple[algebra.Item, ...],
        keys: tuple[tree.SortKey, ...],
        grouping: Grouping,
    ) -> algebra.Relation:
        if grouping.qualify is not None:
            relation = algebra.Filter(relation, grouping.qualify)
        if select.distinct_on:
            relation = self._first_of_each(select, relation, outputs, keys, grouping)
        visible = {item.expression: item.field.ref for item in outputs}
        hidden: dict[tree.Expression, algebra.Item] = {}
        sort = []
        for key in keys:
            target = visible.get(key.expression)
            if target is None:
                if select.distinct:
                    raise Refused(Reason.NOT_GROUPED, select.span, column="the ORDER BY expression")
                field = self.identities.field("", type_of(key.expression))
                item = hidden.setdefault(key.expression, algebra.Item(field, key.expression))
                target = item.field.ref
            sort.append(replace(key, expression=target))
        relation = algebra.Project(relation, outputs + tuple(hidden.values()))
        if select.distinct:
            relation = self.distinct(relation, select.span)
            renamed = dict(zip((o.field.id for o in outputs), relation.fields, strict=True))
            sort = [_moved(key, renamed) for key in sort]
        relation = _sorted_and_cut(relation, tuple(sort), select)
        if not hidden:
            return relation
        return algebra.Project(relation, tuple(algebra.Item(o.field, o.field.ref) for o in outputs))

    def distinct(self, relation: algebra.Relation, span: tree.Span) -> algebra.Relation:
        """Return SELECT DISTINCT as a GROUP BY of every column without aggregates."""
        keys = tuple(
            algebra.Item(self.identities.field(f.name, f.type), f.ref) for f in relation.fields
        )
        return algebra.Aggregate(relation, keys, (), span)

    def _first_of_each(
        self,
        select: tree.Select,
        relation: algebra.Relation,
        outputs: tuple[algebra.Item, ...],
        order: tuple[tree.SortKey, ...],
        grouping: Grouping,
    ) -> algebra.Relation:
        """Return DISTINCT ON (keys): the first row by ORDER BY among those with equal keys."""
        keys = tuple(self._output(key, outputs, grouping) for key in select.distinct_on)
        number = self.identities.field("row_number", tree.INTEGER)
        call = tree.WindowCall("row_number", (), keys, order, type=tree.INTEGER, span=select.span)
        first = tree.Call(
            "eq", (number.ref, tree.Literal(1, tree.INTEGER)), tree.BOOLEAN, select.span
        )
        return algebra.Filter(algebra.Window(relation, (algebra.WindowItem(number, call),)), first)

    def _output(
        self, expression: tree.Expression, outputs: tuple[algebra.Item, ...], grouping: Grouping
    ) -> tree.Expression:
        """Rewrite an ordinal, an output's name or any expression over the input's columns.

        Raises `Refused` for a name of several different outputs.
        """
        if isinstance(expression, tree.Literal) and isinstance(expression.value, int):
            return _ordinal(expression, outputs).expression
        if isinstance(expression, tree.Name) and expression.table is None:
            name = expression.name.lower()
            named = [o.expression for o in outputs if o.field.name.lower() == name]
            if len(set(map(_uncast, named))) > 1:
                raise Refused(Reason.AMBIGUOUS_COLUMN, expression.span, column=expression.name)
            if named:
                return named[0]
        return grouping.lift(expression)

    def _set_operation(
        self, query: tree.SetOperation, environment: Environment, outer: Scope | None
    ) -> algebra.Relation:
        left = self.query(query.left, environment, outer)
        right = self.query(query.right, environment, outer)
        if query.by_name:
            left, right = by_name(query, left, right, self.identities)
        kinds = _common_types(query, left, right)
        fields = [
            self.identities.field(a.name, kind) for a, kind in zip(left.fields, kinds, strict=True)
        ]
        union = algebra.Union(
            kind=query.kind,
            all=query.all,
            left=left,
            right=right,
            fields=tuple(fields),
            span=query.span,
        )
        outputs = tuple(f.item for f in fields)
        scope = Scope((Source(None, tuple(fields)),))
        keys = tuple(k for key in query.order_by for k in self._union_order(key, outputs, scope))
        return _sorted_and_cut(union, keys, query)

    def _union_order(
        self, key: tree.SortKey, outputs: tuple[algebra.Item, ...], scope: Scope
    ) -> tuple[tree.SortKey, ...]:
        if isinstance(key.expression, tree.Star):
            return tuple(replace(key, expression=o.expression) for o in outputs)
        if isinstance(key.expression, tree.Literal) and isinstance(key.expression.value, int):
            return (replace(key, expression=_ordinal(key.expression, outputs).expression),)
        expression = typed(key.expression, scope)
        _require_plain(expression, "ORDER BY")
        return (replace(key, expression=expression),)

    # --- FROM ---

    def _source(
        self, source: tree.FromItem | None, environment: Environment, outer: Scope | None
    ) -> tuple[algebra.Relation, Scope]:
        """Resolve an item of FROM; a query in it sees the columns of the query `outer`
        around it.
        """
        match source:
            case None:
                return algebra.OneRow(), Scope()
            case tree.TableName():
                return self._named(source, environment)
            case tree.Derived():
                relation = self.query(source.query, environment, outer)
                relation = self._relabelled(relation, source.column_aliases, source.span)
                return relation, _scope(source.alias, relation.fields)
            case tree.ValuesList():
                values = constants(source, self.identities)
                relation = self._relabelled(values, source.column_aliases, source.span)
                return relation, _scope(source.alias, relation.fields)
            case tree.JoinedTables():
                return self._join(source, environment, outer)
            case tree.HalfJoin():
                return self._half_join(source, environment, outer)

    def _named(
        self, name: tree.TableName, environment: Environment
    ) -> tuple[algebra.Relation, Scope]:
        """Resolve a table or CTE under its alias."""
        relation, hidden = self._table(name, environment)
        table = self.policy.table(relation.table) if isinstance(relation, algebra.Scan) else None
        names = set() if table is None else {column.lower() for column in table.key}
        keys = [n for n, f in enumerate(relation.fields) if f.name.lower() in names]
        relation = self._relabelled(relation, name.column_aliases, name.span)
        key = frozenset(relation.fields[n].id for n in keys) if len(keys) == len(names) else None
        called = None if table is None else table.name
        source = Source(name.alias or name.name, relation.fields, hidden, called, key or None)
        return relation, Scope((source,))

    def _table(
        self, name: tree.TableName, environment: Environment
    ) -> tuple[algebra.Relation, Mapping[str, str]]:
        definition = None if name.schema else environment.get(name.name.lower())
        if isinstance(definition, algebra.Again):
            columns = tuple(self.identities.field(f.name, f.type) for f in definition.fields)
            return replace(definition, fields=columns), {}
        if definition is not None:
            return self._defined(replace(definition, span=name.span)), {}
        table = self.policy.named((*name.schema, name.name), self.path)
        if table is None:
            raise self._unknown(name, environment)
        hidden = {c.name.lower(): "" for c in table.columns if c.hidden}
        hidden |= {name: table.name for name in table.second_keys if name in hidden}
        if table.grants:
            return granted_rows(table, self.policy, self.identities, name.span), hidden
        fields = tuple(self.identities.field(c.name, c.type) for c in table.columns if not c.hidden)
        return algebra.Scan(table.name, fields, name.span, table.readings, table.rows), hidden

    def _unknown(self, name: tree.TableName, environment: Environment) -> Refused:
        """Return the refusal of an unknown table, with similar names in the policy and in WITH."""
        tables = [t.name for t in self.policy.tables]
        meant = self.policy.named((*name.schema[-1:], name.name))
        alike = sorted((t for t in tables if shown(t)[1].lower() == name.name.lower()), key=len)
        written = ".".join((*name.schema, name.name))
        like = alike[0] if alike else nearest(written, [*tables, *environment])
        near = like if meant is None else meant.name
        facts = {"table": written, "near": near, "known": tuple(tables)}
        return Refused(Reason.UNKNOWN_TABLE, name.span, **facts)

    def _relabelled(
        self, relation: algebra.Relation, aliases: tuple[str, ...], span: tree.Span
    ) -> algebra.Relation:
        if not aliases:
            return relation
        if len(aliases) > len(relation.fields):
            raise Refused(Reason.UNKNOWN_COLUMN, span, column=aliases[len(relation.fields)])
        names = (*aliases, *(f.name for f in relation.fields[len(aliases) :]))
        items = tuple(
            algebra.Item(self.identities.field(name, f.type), f.ref)
            for name, f in zip(names, relation.fields, strict=True)
        )
        return algebra.Project(relation, items)

    def _join(
        self, join: tree.JoinedTables, environment: Environment, outer: Scope | None
    ) -> tuple[algebra.Relation, Scope]:
        left, left_scope = self._source(join.left, environment, outer)
        lateral = isinstance(join.right, tree.Derived) and join.right.lateral
        around = replace(left_scope, outer=outer) if lateral else outer
        right, right_scope = self._source(join.right, environment, around)
        _no_shared_alias(left_scope, right_scope, join)
        if join.using or join.natural:
            if lateral or join.asof:
                construct = "ASOF JOIN with USING" if join.asof else "LATERAL with USING"
                fix = "Write it with ON."
                raise Refused(Reason.UNSUPPORTED_SYNTAX, join.span, construct=construct, fix=fix)
            return merged(join, (left, right), (left_scope, right_scope), self.identities)
        scope = left_scope.beside(right_scope)
        asks = lateral and free_refs(right) & {f.id for f in left.fields}
        plain = not (asks or join.asof)
        asking = join.condition is not None and has_subquery(join.condition)
        if plain and asking and join.kind is tree.JoinKind.INNER:
            # An inner join is a product with a filter.
            product = algebra.Join(left, right, tree.JoinKind.CROSS, None, join.span)
            nested = self._nested(replace(scope, outer=outer), product, environment)
            nested.where(join.condition)
            return nested.relation, scope
        condition = None
        if join.condition is not None:
            seen = replace(scope, outer=outer)
            written, left, right = self._asked_on(join, left, right, seen, environment)
            condition = predicate(written, scope)
            _require_plain(condition, "ON")
        joined = algebra.Join(left, right, join.kind, condition, join.span)
        if plain:
            return padded(joined, scope, self.identities)
        laterals = Laterals(self.policy, self.identities)
        relation, new = laterals.nearest(joined) if join.asof else laterals.lateral(joined)
        return relation, scope.renumbered(new) if new else scope

    def _asked_on(
        self,
        join: tree.JoinedTables,
        left: algebra.Relation,
        right: algebra.Relation,
        scope: Scope,
        environment: Environment,
    ) -> tuple[tree.Expression, algebra.Relation, algebra.Relation]:
        """Resolve the condition of an outer join, with subqueries attached to the rows of one side.

        Raises `Refused` for a subquery that reads columns of both sides.
        """
        parts = []
        for part in conjuncts(join.condition):
            if not has_subquery(part) or join.kind is tree.JoinKind.FULL:
                parts.append(part)
                continue
            nested = self._nested(scope, right, environment)
            parts.append(nested.attached(part))
            if not free_refs(nested.relation) & {f.id for f in left.fields}:
                right = nested.relation
                continue
            nested = self._nested(scope, left, environment)
            parts[-1] = nested.attached(part)
            if free_refs(nested.relation) & {f.id for f in right.fields}:
                raise outer_column(part.span)
            left = nested.relation
        condition = both(tuple(parts))
        assert condition is not None
        return condition, left, right

    def _nested(self, scope: Scope, relation: algebra.Relation, environment: Environment) -> Nested:
        """Return the resolver of subqueries that these rows evaluate."""
        return Nested(
            scope,
            lambda query, around: self.query(query, environment, around),
            Subqueries(self.policy, self.identities),
            relation,
            Laterals(self.policy, self.identities).first_row,
        )

    def _half_join(
        self, half: tree.HalfJoin, environment: Environment, outer: Scope | None
    ) -> tuple[algebra.Relation, Scope]:
        """Resolve SEMI and ANTI JOIN: EXISTS and its negation, written in FROM."""
        join = half.join
        left, scope = self._source(join.left, environment, outer)
        right, right_scope = self._source(join.right, environment, outer)
        _no_shared_alias(scope, right_scope, join)
        if join.condition is None:
            pairs = pairs_of(join, scope, right_scope)
            condition = both(tuple(compared("eq", join, a, b) for a, b in pairs))
        else:
            condition = predicate(join.condition, scope.beside(right_scope))
            _require_plain(condition, "ON")
        mark = self.identities.field("found", tree.BOOLEAN)
        matched = algebra.Match(left, right, condition, mark, span=join.span)
        condition = ~mark.ref if half.anti else mark.ref
        return algebra.Project(
            algebra.Filter(matched, condition), tuple(f.item for f in left.fields)
        ), scope


def _scope(alias: str | None, fields: tuple[algebra.Field, ...]) -> Scope:
    return Scope((Source(alias, fields),))


def _common_types(
    query: tree.SetOperation, left: algebra.Relation, right: algebra.Relation
) -> tuple[tree.SqlType, ...]:
    """Return the type of each column of a set operation."""
    if len(left.fields) != len(right.fields):
        raise Refused(Reason.TYPE_MISMATCH, query.span, function=query.kind, types=())
    kinds = []
    for a, b in zip(left.fields, right.fields, strict=True):
        kind = common_type((a.type, b.type))
        if kind is None:
            types = (str(a.type), str(b.type))
            raise Refused(Reason.TYPE_MISMATCH, query.span, function=query.kind, types=types)
        kinds.append(kind)
    return tuple(kinds)


def _no_shared_alias(left: Scope, right: Scope, join: tree.JoinedTables) -> None:
    """Refuse an alias on both sides, unless two schemas have tables of this name."""
    sources = {s.alias.lower(): s.table for s in left.sources if s.alias}
    for source in right.sources:
        other = sources.get((source.alias or "").lower(), source)
        if other is not source and (None in (other, source.table) or other == source.table):
            raise Refused(Reason.AMBIGUOUS_COLUMN, join.span, column=source.alias)


def _uncast(expression: tree.Expression) -> tree.Expression:
    """Remove a cast to the type that an expression has."""
    match expression:
        case tree.Cast(arg=arg, type=kind) if type_of(arg) == kind:
            return _uncast(arg)
        case _:
            return expression


def _ordinal(literal: tree.Literal, outputs: tuple[algebra.Item, ...]) -> algebra.Item:
    position = literal.value
    assert isinstance(position, int)
    if literal.type.kind is not tree.Kind.INTEGER or not 1 <= position <= len(outputs):
        last = len(outputs)
        raise Refused(Reason.UNKNOWN_COLUMN, literal.span, position=position, last=last)
    return outputs[position - 1]


def _sorted_and_cut(
    relation: algebra.Relation,
    keys: tuple[tree.SortKey, ...],
    query: tree.Select | tree.SetOperation,
) -> algebra.Relation:
    if keys:
        relation = algebra.Sort(relation, keys, query.span)
    if query.limit is not None or query.offset:
        relation = algebra.Limit(relation, query.limit, query.offset, query.span)
    return relation


def _moved(key: tree.SortKey, renamed: Mapping[int, algebra.Field]) -> tree.SortKey:
    assert isinstance(key.expression, tree.Ref)
    return replace(key, expression=renamed[key.expression.id].ref)


def _require_plain(expression: tree.Expression, clause: str) -> None:
    for node in walk(expression):
        if isinstance(node, tree.AggregateCall | tree.WindowCall):
            raise Refused(Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause=clause)


def by_name(
    query: tree.SetOperation,
    left: algebra.Relation,
    right: algebra.Relation,
    identities: Identities,
) -> tuple[algebra.Relation, algebra.Relation]:
    """Return both sides of UNION BY NAME with all columns, the left's first and missing
    ones NULL.
    """
    if query.kind != "UNION":
        raise Refused(Reason.UNSUPPORTED_SYNTAX, query.span, construct=f"{query.kind} BY NAME")
    sides = [{f.name.lower(): f for f in side.fields} for side in (left, right)]
    if any(len(s) < len(r.fields) for s, r in zip(sides, (left, right), strict=True)):
        raise Refused(Reason.AMBIGUOUS_COLUMN, query.span, column="in UNION BY NAME")
    names = {**sides[0], **{name: f for name, f in sides[1].items() if name not in sides[0]}}

    def listed(side: algebra.Relation, columns: dict[str, algebra.Field]) -> algebra.Relation:
        items = []
        for name, label in names.items():
            column = columns.get(name)
            value = tree.Literal(None, tree.NULL) if column is None else column.ref
            items.append(algebra.Item(identities.field(label.name, value.type), value))
        return algebra.Project(side, tuple(items))

    return listed(left, sides[0]), listed(right, sides[1])
