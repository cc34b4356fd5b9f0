"""Subqueries in expressions as joins: EXISTS and IN mark rows, a scalar subquery is looked up.

A correlated subquery is decorrelated: the ANDed conditions of its WHERE that read outer columns
move into the join. Any other use of outer columns is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of, typed_call
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    Match,
    OneRow,
    Project,
    Relation,
    Scan,
    Sort,
)
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    BOOLEAN,
    INTEGER,
    NOWHERE,
    Call,
    Expression,
    JoinKind,
    Literal,
    Membership,
    Ref,
    ScalarQuery,
    Span,
)
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, expressions, refs, relations, substitute

TRUE = Literal(True, BOOLEAN)
COUNTS = frozenset({"count", "regr_count", "approx_count_distinct"})
"""Aggregates that are 0 over nothing; all others are NULL."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A subquery ready to be attached to the rows that ask it; `value` is what it then is.

    With `mark` it is EXISTS or IN; `condition` and `member` read outer columns and `other`'s.
    """

    other: Relation
    condition: Expression | None
    value: Expression
    mark: Field | None = None
    member: tuple[Expression, Expression] | None = None
    renamed: tuple[tuple[Field, Field], ...] = ()
    span: Span = NOWHERE

    @property
    def columns(self) -> frozenset[int]:
        """The columns that the lookup reads or adds and the rows that ask do not have."""
        own = {f.id for f in self.other.fields} | {new.id for _old, new in self.renamed}
        return frozenset(own if self.mark is None else own | {self.mark.id})

    def attach(self, relation: Relation) -> Relation:
        """The rows with the subquery's columns beside them."""
        if self.mark is not None:
            return Match(relation, self.other, self.condition, self.mark, self.member, self.span)
        if self.condition is None:
            return Join(relation, self.other, JoinKind.CROSS, None, self.span)
        join = Join(relation, self.other, JoinKind.LEFT, self.condition, self.span)
        kept = tuple(Item(f, Ref(f.id, f.type)) for f in relation.fields)
        found = tuple(Item(new, Ref(old.id, old.type)) for old, new in self.renamed)
        return Project(join, kept + found)

    def map(self, change: Callable[[Expression], Expression]) -> Lookup:
        """The same lookup with its outer expressions changed."""
        condition = None if self.condition is None else change(self.condition)
        member = None if self.member is None else (change(self.member[0]), self.member[1])
        return replace(self, condition=condition, value=change(self.value), member=member)


@dataclass(frozen=True, slots=True)
class Subqueries:
    """Turns the resolved query of a subquery into a lookup by the rows outside of it."""

    policy: Policy
    identities: Identities

    def membership(self, node: Membership, value: Expression | None, relation: Relation) -> Lookup:
        """EXISTS (relation), or value IN (relation)."""
        relation = _unordered(relation)
        outer = _outer_refs(relation)
        other, conditions = _Decorrelation(outer, self.identities, node.span).pulled(relation)
        _no_outer_left(other, outer, node.span)
        member = None
        if value is not None:
            if len(relation.fields) != 1:
                raise _several_columns(node.span)
            (option,) = relation.fields
            equal = typed_call(Call("eq", (value, _ref(option)), span=node.span))
            member = (equal.args[0], equal.args[1])
        mark = self.identities.field("found", BOOLEAN)
        return Lookup(other, both(conditions), _ref(mark), mark, member, span=node.span)

    def scalar(self, node: ScalarQuery, relation: Relation) -> Lookup:
        """(relation) as a value; refused unless it surely has at most one row."""
        if len(relation.fields) != 1:
            raise _several_columns(node.span)
        outer = _outer_refs(relation)
        if outer:
            return self._correlated(node, relation, outer)
        (result,) = relation.fields
        rows = _rows_at_most(relation)
        if rows is None:
            raise _several_rows(node.span)
        if rows == (1, 1):
            return Lookup(relation, None, _ref(result), span=node.span)
        new = self.identities.field(result.name, result.type)
        return Lookup(relation, TRUE, _ref(new), renamed=((result, new),), span=node.span)

    def _correlated(self, node: ScalarQuery, relation: Relation, outer: frozenset[int]) -> Lookup:
        """One row per value of the correlated columns: an aggregate, or a row by its key."""
        if not isinstance(relation, Project):
            raise _several_rows(node.span)
        core, expression = relation.input, relation.items[0].expression
        source = core.input if isinstance(core, Aggregate) else core
        if isinstance(core, Aggregate) and core.keys:
            raise _several_rows(node.span)
        pulled, conditions = _Decorrelation(outer, self.identities, node.span).pulled(core)
        _no_outer_left(pulled, outer, node.span)
        if not isinstance(core, Aggregate) and not self._by_key(source, conditions):
            raise _several_rows(node.span)
        read = refs(expression) - outer
        renamed = tuple(
            (f, self.identities.field(f.name, f.type)) for f in pulled.fields if f.id in read
        )
        counts = _counts(pulled)
        values = {
            old.id: _or_zero(_ref(new)) if old.id in counts else _ref(new) for old, new in renamed
        }
        value = substitute(expression, values)
        return Lookup(pulled, both(conditions) or TRUE, value, renamed=renamed, span=node.span)

    def _by_key(self, source: Relation, conditions: tuple[Expression, ...]) -> bool:
        """Whether the conditions fix the declared key of the one table that is read."""
        while isinstance(source, Filter):
            source = source.input
        if not isinstance(source, Scan):
            return False
        table = self.policy.table(source.table)
        assert table is not None
        here = {f.id: f.name.lower() for f in source.fields}
        fixed = set()
        for part in conditions:
            if isinstance(part, Call) and part.function == "eq":
                sides = [arg for arg in part.args if isinstance(arg, Ref) and arg.id in here]
                fixed |= {here[arg.id] for arg in sides if len(sides) == 1}
        return bool(table.key) and {name.lower() for name in table.key} <= fixed


@dataclass(frozen=True, slots=True)
class _Decorrelation:
    """Moves the conditions that read outer columns upwards, out of a subquery."""

    outer: frozenset[int]
    identities: Identities
    span: Span

    def pulled(self, relation: Relation) -> tuple[Relation, tuple[Expression, ...]]:
        """The relation without those conditions, and the conditions, over its own columns."""
        match relation:
            case Filter():
                source, found = self.pulled(relation.input)
                stay, moved = self._split(relation.predicate)
                return (source if stay is None else Filter(source, stay)), found + moved
            case Join(kind=JoinKind.INNER | JoinKind.CROSS):
                left, first = self.pulled(relation.left)
                right, second = self.pulled(relation.right)
                stay, moved = self._split(relation.condition)
                kind = JoinKind.CROSS if stay is None else JoinKind.INNER
                join = replace(relation, left=left, right=right, kind=kind, condition=stay)
                return join, first + second + moved
            case Project():
                source, found = self.pulled(relation.input)
                there = {item.field.id for item in relation.items}
                needed = frozenset().union(*map(refs, found)) - there - self.outer
                hidden = tuple(Item(f, _ref(f)) for f in source.fields if f.id in needed)
                return replace(relation, input=source, items=relation.items + hidden), found
            case Aggregate():
                return self._grouped(relation)
            case Match():
                source, found = self.pulled(relation.input)
                return replace(relation, input=source), found
            case _:
                return relation, ()

    def _grouped(self, relation: Aggregate) -> tuple[Relation, tuple[Expression, ...]]:
        """An aggregate per value of the columns that the conditions equate with outer ones."""
        source, found = self.pulled(relation.input)
        keys: dict[Expression, Item] = {}
        conditions = []
        for part in found:
            inner, outside = self._sides(part)
            item = keys.setdefault(inner, Item(self.identities.field("key", type_of(inner)), inner))
            conditions.append(typed_call(Call("eq", (_ref(item.field), outside), span=self.span)))
        new = tuple(keys.values())
        grouped = replace(relation, input=source, keys=relation.keys + new)
        return grouped, tuple(conditions)

    def _sides(self, part: Expression) -> tuple[Expression, Expression]:
        if isinstance(part, Call) and part.function == "eq":
            for inner, outside in (part.args, part.args[::-1]):
                if not refs(inner) & self.outer and refs(inner) and refs(outside) <= self.outer:
                    return inner, outside
        raise _correlation(self.span)

    def _split(
        self, predicate: Expression | None
    ) -> tuple[Expression | None, tuple[Expression, ...]]:
        parts = conjuncts(predicate)
        stay = tuple(p for p in parts if not refs(p) & self.outer)
        return both(stay), tuple(p for p in parts if refs(p) & self.outer)


def _outer_refs(relation: Relation) -> frozenset[int]:
    """Columns that a query reads and nothing inside of it provides."""
    read = frozenset(n for part in relations(relation) for e in expressions(part) for n in refs(e))
    own = frozenset(f.id for part in relations(relation) for f in part.fields)
    return read - own


def _no_outer_left(relation: Relation, outer: frozenset[int], span: Span) -> None:
    if _outer_refs(relation) & outer:
        raise _correlation(span)


def _unordered(relation: Relation) -> Relation:
    """Without an order, and without a LIMIT that leaves a row if there is one."""
    while True:
        match relation:
            case Sort():
                relation = relation.input
            case Limit(limit=limit, offset=0) if limit is None:
                relation = relation.input
            case _:
                return relation


def _rows_at_most(relation: Relation) -> tuple[int, int] | None:
    """(least, most) rows where the most is one; None where there may be more."""
    match relation:
        case OneRow():
            return 1, 1
        case Aggregate(keys=()):
            return 1, 1
        case Project() | Sort():
            return _rows_at_most(relation.input)
        case Filter():
            return (0, 1) if _rows_at_most(relation.input) else None
        case Limit():
            if relation.limit == 1:
                return 0, 1
            return (0, 1) if _rows_at_most(relation.input) else None
        case _:
            return None


def _counts(relation: Relation) -> frozenset[int]:
    """The measures of the aggregate that count."""
    if not isinstance(relation, Aggregate):
        return frozenset()
    return frozenset(m.field.id for m in relation.measures if m.call.function in COUNTS)


def _or_zero(ref: Ref) -> Call:
    return Call("coalesce", (ref, Literal(0, INTEGER)), ref.type)


def _ref(field: Field) -> Ref:
    return Ref(field.id, field.type)


def _several_columns(span: Span) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a subquery of several columns")


def _several_rows(span: Span) -> Refused:
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        span,
        construct="a subquery as a value that may have several rows",
        fix="Aggregate it without GROUP BY, fix the key of its table, or add LIMIT 1.",
    )


def _correlation(span: Span) -> Refused:
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        span,
        construct="this use of an outer column in a subquery",
        fix="Use outer columns only in ANDed conditions of its WHERE; below an aggregate, with =.",
    )
