"""Subqueries in expressions as joins: EXISTS and IN mark rows, a scalar subquery is joined.

A correlated subquery is decorrelated: the ANDed conditions of its WHERE that read outer columns
move into the join. Over public tables alone any other use of outer columns is left to the engine
(`Apply`), elsewhere it is refused. `Nested` resolves those of one SELECT and attaches them to its
rows.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.resolve.scopes import Identities, Scope
from dpsql.compiler.resolve.subquery_aggregates import one_total, require_own_aggregates
from dpsql.compiler.resolve.typing import predicate, type_of, typed, typed_call
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import scalar
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import (
    both,
    conjuncts,
    free_refs,
    map_children,
    map_expressions,
    map_inputs,
    refs,
    relations,
    substitute,
    walk,
)

TRUE = tree.Literal(True, tree.BOOLEAN)
NOTHING = tree.Literal(None, tree.NULL)
COUNTS = frozenset({"count", "regr_count", "approx_count_distinct"})
"""Aggregates that are 0 without rows; all others are NULL."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A subquery that can be attached to the rows that evaluate it; `value` is its result. With
    `mark` it is EXISTS or IN; `condition` and `member` read outer columns and `other`'s.
    """

    other: algebra.Relation
    condition: tree.Expression | None
    value: tree.Expression
    mark: algebra.Field | None = None
    member: tuple[tree.Expression, tree.Expression] | None = None
    renamed: tuple[tuple[algebra.Field, algebra.Field], ...] = ()
    span: tree.Span = tree.NOWHERE
    applied: algebra.Apply | None = None

    @property
    def columns(self) -> frozenset[int]:
        """The columns that the lookup reads or adds and that the outer rows lack."""
        own = {f.id for f in self.other.fields} | {new.id for _old, new in self.renamed}
        if self.applied is not None:
            own.add(self.applied.value.id)
        return frozenset(own if self.mark is None else own | {self.mark.id})

    def attach(self, relation: algebra.Relation) -> algebra.Relation:
        """Return the rows with the subquery's columns added."""
        if self.applied is not None:
            return replace(self.applied, input=relation)
        if self.mark is not None:
            return algebra.Match(
                input=relation,
                other=self.other,
                condition=self.condition,
                mark=self.mark,
                member=self.member,
                span=self.span,
            )
        if self.condition is None:
            return algebra.Join(relation, self.other, tree.JoinKind.CROSS, None, self.span)
        join = algebra.Join(relation, self.other, tree.JoinKind.LEFT, self.condition, self.span)
        items = tuple(f.item for f in relation.fields)
        renamed = tuple(algebra.Item(new, old.ref) for old, new in self.renamed)
        return algebra.Project(join, items + renamed)

    def map(self, change: Callable[[tree.Expression], tree.Expression]) -> Lookup:
        """Return the same lookup with its outer expressions changed."""
        condition = None if self.condition is None else change(self.condition)
        member = None if self.member is None else (change(self.member[0]), self.member[1])
        value, applied = change(self.value), self.applied
        if applied is not None:
            applied = _asked_by(applied, change)
        return replace(self, condition=condition, value=value, member=member, applied=applied)


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Turns the resolved query of a subquery into a lookup for the outer rows."""

    policy: Policy
    identities: Identities

    def membership(
        self,
        node: tree.Membership,
        values: tuple[tree.Expression, ...],
        relation: algebra.Relation,
        rows: algebra.Relation,
    ) -> Lookup:
        """Return EXISTS (relation), or values IN (relation), for these rows. With several values it
        is true where it is in SQL, and else false.
        """
        relation = _unordered(relation)
        outer = free_refs(relation)
        member, equal = None, tuple[tree.Expression, ...]()
        if values:
            if len(relation.fields) != len(values):
                raise _several_columns(node.span)
            pairs = zip(values, relation.fields, strict=True)
            equal = tuple(
                typed_call(tree.Call("eq", (v, option.ref), span=node.span)) for v, option in pairs
            )
        if len(values) == 1:
            (same,) = equal
            assert isinstance(same, tree.Call)
            member, equal = (same.args[0], same.args[1]), ()
        mark = self.identities.field("found", tree.BOOLEAN)
        try:
            other, conditions = Decorrelation(outer, self.identities, node.span).pulled(relation)
            no_outer_left(other, outer, node.span)
        except Refused:
            if equal or not self._are_public(rows, relation):
                raise
            tested = None if member is None else member[0]
            return _applied(
                algebra.Apply(rows, relation, mark, tests=True, member=tested, span=node.span)
            )
        condition = both((*conditions, *equal))
        return Lookup(other, condition, mark.ref, mark, member, span=node.span)

    def scalar(
        self, node: tree.ScalarQuery, relation: algebra.Relation, rows: algebra.Relation
    ) -> Lookup:
        """Return (relation) as a value, for these rows. Refused where it may have more than one
        row, unless it is public: then its rows are checked.
        """
        if len(relation.fields) != 1:
            raise _several_columns(node.span)
        outer, (result,) = free_refs(relation), relation.fields
        if outer:
            try:
                return self._correlated(node, relation, outer, rows)
            except Refused:
                if not self._are_public(rows, relation):
                    raise
            value = self.identities.field(result.name, result.type)
            unsure = _rows_at_most(relation) is None
            return _applied(algebra.Apply(rows, relation, value, unsure=unsure, span=node.span))
        least_and_most = _rows_at_most(relation)
        if least_and_most is None and _is_of_one_group(relation):
            relation, least_and_most = algebra.Limit(relation, 1, 0, node.span), (0, 1)
        if least_and_most is None:
            if not self._are_public(relation):
                raise several_rows(node.span)
            relation = algebra.Single(relation, span=node.span)
        if least_and_most == (1, 1):
            return Lookup(relation, None, result.ref, span=node.span)
        new = self.identities.field(result.name, result.type)
        return Lookup(relation, TRUE, new.ref, renamed=((result, new),), span=node.span)

    def _correlated(
        self,
        node: tree.ScalarQuery,
        relation: algebra.Relation,
        outer: frozenset[int],
        rows: algebra.Relation,
    ) -> Lookup:
        """Return one row per value of the correlated columns: an aggregate, or a row by its key."""
        if not isinstance(relation, algebra.Project):
            raise several_rows(node.span)
        core, expression = relation.input, relation.items[0].expression
        source = core.input if isinstance(core, algebra.Aggregate) else core
        if isinstance(core, algebra.Aggregate) and core.keys:
            raise several_rows(node.span)
        pulled, conditions = Decorrelation(outer, self.identities, node.span, core).pulled(core)
        no_outer_left(pulled, outer, node.span)
        if not isinstance(core, algebra.Aggregate) and not self._by_key(source, conditions):
            columns = _compared(pulled, conditions)
            # Public rows are checked for several matches.
            if not columns or self._are_public(rows) or not self._are_public(pulled):
                raise several_rows(node.span)
            pulled = algebra.Single(pulled, columns, node.span)
        read = refs(expression) - outer
        renamed = tuple(
            (f, self.identities.field(f.name, f.type)) for f in pulled.fields if f.id in read
        )
        counts = counts_of(pulled)
        values = {old.id: or_zero(new.ref) if old.id in counts else new.ref for old, new in renamed}
        value = substitute(expression, values)
        return Lookup(pulled, both(conditions) or TRUE, value, renamed=renamed, span=node.span)

    def _are_public(self, *relations_read: algebra.Relation) -> bool:
        """Test whether these relations read no private table."""
        scans = (p for r in relations_read for p in relations(r) if isinstance(p, algebra.Scan))
        tables = (self.policy.table(scan.table) for scan in scans)
        return not any(table is None or table.private for table in tables)

    def _by_key(self, source: algebra.Relation, conditions: tuple[tree.Expression, ...]) -> bool:
        """Test whether the conditions fix the declared key of the only table that is read."""
        while isinstance(source, algebra.Filter):
            source = source.input
        if not isinstance(source, algebra.Scan):
            return False
        table = self.policy.table(source.table)
        assert table is not None
        here = {f.id: f.name.lower() for f in source.fields}
        fixed = set()
        for part in conditions:
            if isinstance(part, tree.Call) and part.function == "eq":
                sides = [arg for arg in part.args if isinstance(arg, tree.Ref) and arg.id in here]
                fixed |= {here[arg.id] for arg in sides if len(sides) == 1}
        return bool(table.key) and {name.lower() for name in table.key} <= fixed


@dataclass(frozen=True, slots=True)
class Decorrelation:
    """Moves the conditions that read outer columns upwards, out of a subquery. An aggregate without
    keys has a row even without input rows. Only the reader of `total` handles its missing row.
    """

    outer: frozenset[int]
    identities: Identities
    span: tree.Span
    total: algebra.Relation | None = None

    def pulled(
        self, relation: algebra.Relation
    ) -> tuple[algebra.Relation, tuple[tree.Expression, ...]]:
        """Return the relation without those conditions, and the conditions, over its own
        columns.
        """
        match relation:
            case algebra.Filter():
                source, conditions = self.pulled(relation.input)
                stay, moved = self._split(relation.predicate)
                return (
                    source if stay is None else algebra.Filter(source, stay)
                ), conditions + moved
            case algebra.Join(kind=tree.JoinKind.INNER | tree.JoinKind.CROSS):
                left, first = self.pulled(relation.left)
                right, second = self.pulled(relation.right)
                stay, moved = self._split(relation.condition)
                kind = tree.JoinKind.CROSS if stay is None else tree.JoinKind.INNER
                join = replace(relation, left=left, right=right, kind=kind, condition=stay)
                return join, first + second + moved
            case algebra.Project():
                source, conditions = self.pulled(relation.input)
                there = {item.field.id for item in relation.items}
                needed = frozenset().union(*map(refs, conditions)) - there - self.outer
                hidden = tuple(f.item for f in source.fields if f.id in needed)
                return replace(relation, input=source, items=relation.items + hidden), conditions
            case algebra.Aggregate():
                return self._grouped(relation)
            case algebra.Match():
                source, conditions = self.pulled(relation.input)
                return replace(relation, input=source), conditions
            case _:
                return relation, ()

    def _grouped(
        self, relation: algebra.Aggregate
    ) -> tuple[algebra.Relation, tuple[tree.Expression, ...]]:
        """Return an aggregate per value of the columns that the conditions equate with
        outer ones.
        """
        source, correlated = self.pulled(relation.input)
        if correlated and not relation.keys and relation is not self.total:
            raise outer_column(self.span)
        keys: dict[tree.Expression, algebra.Item] = {}
        conditions = []
        for part in correlated:
            inner, outside = self._sides(part)
            item = keys.setdefault(
                inner, algebra.Item(self.identities.field("key", type_of(inner)), inner)
            )
            conditions.append(
                typed_call(tree.Call("eq", (item.field.ref, outside), span=self.span))
            )
        new = tuple(keys.values())
        grouped = replace(relation, input=source, keys=relation.keys + new)
        return grouped, tuple(conditions)

    def _sides(self, part: tree.Expression) -> tuple[tree.Expression, tree.Expression]:
        if isinstance(part, tree.Call) and part.function == "eq":
            for inner, outside in (part.args, part.args[::-1]):
                if not refs(inner) & self.outer and refs(inner) and refs(outside) <= self.outer:
                    return inner, outside
        raise outer_column(self.span)

    def _split(
        self, predicate: tree.Expression | None
    ) -> tuple[tree.Expression | None, tuple[tree.Expression, ...]]:
        parts = conjuncts(predicate)
        stay = tuple(p for p in parts if not refs(p) & self.outer)
        return both(stay), tuple(p for p in parts if refs(p) & self.outer)


def _applied(applied: algebra.Apply) -> Lookup:
    """Return a subquery that is evaluated for each outer row."""
    require_own_aggregates(applied.other, free_refs(applied.other))
    return Lookup(applied.other, None, applied.value.ref, span=applied.span, applied=applied)


def _asked_by(
    applied: algebra.Apply, change: Callable[[tree.Expression], tree.Expression]
) -> algebra.Apply:
    """Return the same subquery with the outer columns that it reads changed."""
    outer = free_refs(applied.other)

    def replaced(expression: tree.Expression) -> tree.Expression:
        if isinstance(expression, tree.Ref):
            return change(expression) if expression.id in outer else expression
        return map_children(expression, replaced)

    def below(relation: algebra.Relation) -> algebra.Relation:
        return map_expressions(map_inputs(relation, below), replaced)

    member = None if applied.member is None else change(applied.member)
    return replace(applied, other=below(applied.other), member=member)


def _compared(
    relation: algebra.Relation, conditions: tuple[tree.Expression, ...]
) -> tuple[tree.Ref, ...]:
    """Return the columns of a relation that the conditions equate with others' columns."""
    own = {f.id for f in relation.fields}
    pairs = [
        pair
        for part in conditions
        if isinstance(part, tree.Call) and part.function == "eq"
        for pair in (part.args, part.args[::-1])
    ]
    columns = (a for a, b in pairs if isinstance(a, tree.Ref) and a.id in own and not refs(b) & own)
    return tuple(dict.fromkeys(columns))


def no_outer_left(relation: algebra.Relation, outer: frozenset[int], span: tree.Span) -> None:
    """Raise `Refused` where a relation still reads these columns of queries around it."""
    if free_refs(relation) & outer:
        raise outer_column(span)


def _unordered(relation: algebra.Relation) -> algebra.Relation:
    """Remove an order, and a LIMIT that keeps a row if there is one."""
    while True:
        match relation:
            case algebra.Sort():
                relation = relation.input
            case algebra.Limit(limit=limit, offset=0) if limit is None:
                relation = relation.input
            case _:
                return relation


def _rows_at_most(relation: algebra.Relation) -> tuple[int, int] | None:
    """Return (least, most) rows where the most is one; None where there may be more."""
    match relation:
        case algebra.OneRow():
            return 1, 1
        case algebra.Aggregate(keys=()):
            return 1, 1
        case algebra.Project() | algebra.Sort():
            return _rows_at_most(relation.input)
        case algebra.Filter():
            return (0, 1) if _rows_at_most(relation.input) else None
        case algebra.Limit():
            if relation.limit == 1:
                return 0, 1
            return (0, 1) if _rows_at_most(relation.input) else None
        case _:
            return None


def _is_of_one_group(relation: algebra.Relation) -> bool:
    """Test whether the rows are groups by columns that a filter below equates with constants."""
    while isinstance(relation, algebra.Project | algebra.Sort | algebra.Filter):
        relation = relation.input
    if not isinstance(relation, algebra.Aggregate) or relation.sets:
        return False
    fixed, source = set[tree.Expression](), relation.input
    while isinstance(source, algebra.Filter):
        for part in conjuncts(source.predicate):
            if isinstance(part, tree.Call) and part.function == "eq":
                fixed |= {a for a, b in (part.args, part.args[::-1]) if isinstance(b, tree.Literal)}
        source = source.input
    return {key.expression for key in relation.keys} <= fixed


def counts_of(relation: algebra.Relation) -> frozenset[int]:
    """Return the counting measures of an aggregate."""
    if not isinstance(relation, algebra.Aggregate):
        return frozenset()
    return frozenset(m.field.id for m in relation.measures if m.call.function in COUNTS)


def or_zero(ref: tree.Ref) -> tree.Call:
    """Return a count that is 0 for a missing row."""
    return scalar("coalesce", ref, 0, kind=ref.type)


def _values(node: tree.Membership) -> tuple[tree.Expression, ...]:
    """Return the values that are searched: none for EXISTS, else one value, or several in a row."""
    match node.value:
        case None:
            return ()
        case tree.Call(function="row", args=args):
            return args
        case value:
            return (value,)


def _row_of_values(span: tree.Span) -> Refused:
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        span,
        construct="(a, b) IN (SELECT …) but as one of the ANDed conditions of WHERE",
        fix="Use EXISTS, and equate the columns there.",
    )


def _several_columns(span: tree.Span) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a subquery of several columns")


def several_rows(span: tree.Span) -> Refused:
    """Return the refusal of a value that may have several rows."""
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        span,
        construct="a subquery as a value that may have several rows",
        fix="Aggregate it without GROUP BY, compare its table's whole key, or add LIMIT 1.",
    )


def outer_column(span: tree.Span) -> Refused:
    """Return the refusal of a subquery that is no join."""
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        span,
        construct="this use of an outer column in a subquery",
        fix="Use outer columns only in ANDed conditions of its WHERE; below an aggregate, with =.",
    )


def has_subquery(expression: tree.Expression) -> bool:
    """Test whether a written expression contains a query."""
    return any(isinstance(node, tree.ScalarQuery | tree.Membership) for node in walk(expression))


def is_grouped(select: tree.Select, items: tuple[tree.SelectItem, ...]) -> bool:
    """Test whether a SELECT aggregates: by GROUP BY, HAVING or an aggregate in its outputs."""
    written = [item.expression for item in items]
    written += [key.expression for key in select.order_by]
    return (
        bool(select.group_by or select.grouping_sets)
        or select.having is not None
        or any(isinstance(node, tree.AggregateCall) for root in written for node in walk(root))
    )


def _key_positions(select: tree.Select, items: tuple[tree.SelectItem, ...]) -> frozenset[int]:
    """Return the items that GROUP BY names by number or alias, or repeats."""
    named = {item.alias.lower(): n for n, item in enumerate(items) if item.alias}
    positions = set()
    for key in select.group_by:
        match key:
            case tree.Literal(value=int(position)):
                positions.add(position - 1)
            case tree.Name(name=name, table=None):
                positions.add(named.get(name.lower(), -1))
            case _:
                positions |= {n for n, item in enumerate(items) if item.expression == key}
    return frozenset(positions)


@dataclass(slots=True)
class Nested:
    """Subqueries below the grouping of one SELECT: `resolve` resolves one within the scope."""

    scope: Scope
    resolve: Callable[[tree.Query, Scope], algebra.Relation]
    subqueries: Subqueries
    relation: algebra.Relation
    first_row: Callable[
        [algebra.Relation, algebra.Relation, tree.Span],
        tuple[algebra.Relation, tree.Expression] | None,
    ]
    resolved: dict[tree.Expression, tree.Expression] = field(default_factory=dict)

    def lookup(self, node: tree.ScalarQuery | tree.Membership) -> Lookup:
        """Return one subquery as a lookup for the rows of this scope."""
        relation = self.resolve(node.query, self.scope)
        if isinstance(node, tree.ScalarQuery):
            return self.subqueries.scalar(node, relation, self.relation)
        if node.value is None and (total := one_total(relation)) is not None:
            return self._exists_total(node, total[0], total[1])
        values = tuple(typed(value, self.scope) for value in _values(node))
        return self.subqueries.membership(node, values, relation, self.relation)

    def _exists_total(
        self, node: tree.Membership, total: algebra.Aggregate, condition: tree.Expression | None
    ) -> Lookup:
        """Return EXISTS over an aggregate without GROUP BY, which has one row, or none by
        HAVING.
        """
        if condition is None:
            return Lookup(algebra.OneRow(), None, TRUE, span=node.span)
        item = algebra.Item(self.subqueries.identities.field("kept", tree.BOOLEAN), condition)
        query = tree.ScalarQuery(node.query, node.span)
        lookup = self.subqueries.scalar(query, algebra.Project(total, (item,)), self.relation)
        test = tree.Call("is_not_distinct", (lookup.value, TRUE), span=node.span)
        return replace(lookup, value=typed_call(test))

    def attached(self, expression: tree.Expression) -> tree.Expression:
        """Replace the subqueries of an expression by columns, which `relation` then has."""
        expression = map_children(expression, self.attached)
        if not isinstance(expression, tree.ScalarQuery | tree.Membership):
            return expression
        if isinstance(expression, tree.Membership) and len(_values(expression)) > 1:
            raise _row_of_values(expression.span)
        return self._looked_up(expression)

    def _looked_up(self, expression: tree.ScalarQuery | tree.Membership) -> tree.Expression:
        if expression not in self.resolved:
            self.relation, self.resolved[expression] = self._attach(expression)
        return self.resolved[expression]

    def _attach(
        self, node: tree.ScalarQuery | tree.Membership
    ) -> tuple[algebra.Relation, tree.Expression]:
        try:
            lookup = self.lookup(node)
        except Refused:
            query = self.resolve(node.query, self.scope)
            first = self.first_row(self.relation, query, node.span)
            if isinstance(node, tree.Membership) or first is None:
                raise
            return first
        return lookup.attach(self.relation), lookup.value

    def where(self, condition: tree.Expression | None) -> None:
        """Keep the rows that satisfy WHERE: plain conditions first, then those with subqueries."""
        parts = conjuncts(condition)
        plain = tuple(part for part in parts if not has_subquery(part))
        if (both_plain := both(plain)) is not None:
            self._filter(both_plain)
        before = self.relation.fields
        for part in parts:
            if isinstance(part, tree.Membership):
                inside = map_children(part, self.attached)
                assert isinstance(inside, tree.Membership)
                self._filter(self._looked_up(inside))
            elif has_subquery(part):
                self._filter(self.attached(part))
        if self.resolved:
            items = tuple(f.item for f in before)
            self.relation = algebra.Project(self.relation, items)
            self.resolved = {}

    def _filter(self, condition: tree.Expression) -> None:
        condition_there = predicate(condition, self.scope)
        for node in walk(condition_there):
            if isinstance(node, tree.AggregateCall | tree.WindowCall):
                raise Refused(
                    Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause="WHERE"
                )
        self.relation = algebra.Filter(self.relation, condition_there)

    def below(
        self, select: tree.Select, items: tuple[tree.SelectItem, ...]
    ) -> tuple[tree.Select, tuple[tree.SelectItem, ...]]:
        """Attach the subqueries that the SELECT's rows, and not its groups, evaluate."""
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
            order_by=tuple(
                replace(key, expression=change(key.expression)) for key in select.order_by
            ),
        ), items

    def _inside_aggregates(self, expression: tree.Expression) -> tree.Expression:
        if isinstance(expression, tree.AggregateCall):
            return self.attached(expression)
        return map_children(expression, self._inside_aggregates)
