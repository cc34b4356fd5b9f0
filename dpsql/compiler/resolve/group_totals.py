"""Aggregates over groups of many privacy units, as totals over their rows.

    SELECT AVG(v) FROM (SELECT basket, SUM(price) AS v FROM items GROUP BY basket)
    SELECT SUM(price) / COUNT(DISTINCT basket) FROM items WHERE price IS NOT NULL

Keys that are not listed are released only where many units have them, and the average of the
others is not that of all. A total needs no keys, and the number of groups is that of their
distinct keys. NULL is a key of one group, so it is counted as a text that no other key gives.

Sums, averages and counts of inner SUM and COUNT have this form, and so do MIN of MIN and MAX of
MAX. Conditions on inner keys choose rows. All other aggregates stay as they are.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.compiler.aggregates import result_type
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.resolve.window_aggregates import lacks_null, not_null
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, map_inputs, refs, substitute

_ONE_TEXT = frozenset({tree.Kind.BOOLEAN, tree.Kind.INTEGER, tree.Kind.DATE, tree.Kind.TIMESTAMP})
"""Types in which equal values, and no others, have one text, and none is empty."""


def as_totals(
    relation: algebra.Relation, groups: frozenset[tree.Span], policy: Policy, identities: Identities
) -> algebra.Relation:
    """Return the relation with totals for the aggregates over `groups` at these places; the same
    object if there are none.
    """
    inner = map_inputs(relation, lambda r: as_totals(r, groups, policy, identities))
    relation = relation if inner == relation else inner
    if not isinstance(relation, algebra.Aggregate) or relation.sets or relation.span not in groups:
        return relation
    below = _Groups.of(relation, policy, identities)
    return relation if below is None else below.totals() or relation


@dataclass(frozen=True, slots=True)
class _Groups:
    """Aggregate `outer` over the aggregate `groups`, with its expressions by their ids there and
    the condition on groups.
    """

    outer: algebra.Aggregate
    groups: algebra.Aggregate
    values: Mapping[int, tree.Expression]
    condition: tree.Expression | None
    policy: Policy
    identities: Identities

    @classmethod
    def of(cls, outer: algebra.Aggregate, policy: Policy, identities: Identities) -> _Groups | None:
        """Return the groups below an aggregate; None over another relation."""
        between = list[algebra.Project | algebra.Filter]()
        below = outer.input
        while isinstance(below, algebra.Project | algebra.Filter):
            between.append(below)
            below = below.input
        if not isinstance(below, algebra.Aggregate) or below.sets or not below.keys:
            return None
        values: dict[int, tree.Expression] = {f.id: f.ref for f in below.fields}
        conditions = list[tree.Expression]()
        for part in reversed(between):
            if isinstance(part, algebra.Filter):
                conditions.append(substitute(part.predicate, values))
            else:
                values = {i.field.id: substitute(i.expression, values) for i in part.items}
        return cls(outer, below, values, both(tuple(conditions)), policy, identities)

    def totals(self) -> algebra.Relation | None:
        """Return the outer aggregate over the rows of the groups; None if it is none of them."""
        keys = [substitute(item.expression, self.values) for item in self.outer.keys]
        condition = None if self.condition is None else self._of_keys(self.condition)
        others = (item for item in self.groups.keys if item.field.ref not in keys)
        group = self._counted(tuple(item.expression for item in others))
        if group is None or (self.condition is not None and condition is None):
            return None
        groups = [self._of_keys(key) for key in keys]
        numbers = [self._number(measure, group) for measure in self.outer.measures]
        if None in groups or None in numbers:
            return None
        rows = self.groups.input
        rows = rows if condition is None else algebra.Filter(rows, condition)
        named = zip(self.outer.keys, groups, strict=True)
        listed = tuple(replace(item, expression=key) for item, key in named if key is not None)
        measures = tuple(m for number in numbers if number is not None for m in number[0])
        totals = algebra.Aggregate(rows, listed, measures, self.outer.span)
        items = tuple(
            algebra.Item(measure.field, number[1])
            for measure, number in zip(self.outer.measures, numbers, strict=True)
            if number is not None
        )
        return algebra.Project(totals, (*(item.field.item for item in listed), *items))

    def _of_keys(self, expression: tree.Expression) -> tree.Expression | None:
        """Return an expression over keys of groups, as one over their rows; None for others."""
        keys = {item.field.id: item.expression for item in self.groups.keys}
        return substitute(expression, keys) if refs(expression) <= keys.keys() else None

    def _number(
        self, measure: algebra.Measure, group: tree.Expression
    ) -> tuple[tuple[algebra.Measure, ...], tree.Expression] | None:
        """Return the measures of rows, and the outer aggregate over them; None if it has none."""
        call = measure.call
        plain = not (call.distinct or call.clip or call.epsilon or call.order_by)
        here = None if call.filter is None else substitute(call.filter, self.values)
        here = None if here is None else self._of_keys(here)
        if not plain or len(call.args) != 1 or (call.filter and here is None):
            return None
        if isinstance(call.args[0], tree.Star):
            return self._of(measure, group, here) if call.function == "count" else None
        value = substitute(call.args[0], self.values)
        inner = [m.call for m in self.groups.measures if m.field.ref == value]
        if not inner or not _is_plain(inner[0]):
            return None
        return self._total(measure, inner[0], group, here)

    def _total(
        self,
        measure: algebra.Measure,
        inner: tree.AggregateCall,
        group: tree.Expression,
        here: tree.Expression | None,
    ) -> tuple[tuple[algebra.Measure, ...], tree.Expression] | None:
        call, arg = measure.call, inner.args[0]
        rows = both(tuple(c for c in (here, inner.filter) if c is not None))
        total = replace(inner, filter=rows)
        there = here
        if inner.function != "count":
            there = both(tuple(c for c in (rows, not_null(arg)) if c is not None))
        match call.function, inner.function:
            case ("sum", "sum" | "count") | ("min", "min") | ("max", "max"):
                field = self.identities.field(measure.field.name, inner.type)
                return (algebra.Measure(field, total),), _typed(field.ref, measure.field)
            case "count", _:
                return self._of(measure, group, there)
            case "avg", "sum" | "count":
                parts, number = self._of(measure, group, there)
                field = self.identities.field(measure.field.name, inner.type)
                mean = tree.scalar("div", tree.Cast(field.ref, tree.DOUBLE), number)
                measures = algebra.Measure(field, total), *parts
                return measures, _typed(mean, measure.field)
            case _:
                return None

    def _of(
        self, measure: algebra.Measure, group: tree.Expression, condition: tree.Expression | None
    ) -> tuple[tuple[algebra.Measure, ...], tree.Expression]:
        """Return the number of groups with a row that meets the condition."""
        span = measure.call.span
        call = tree.AggregateCall("count", (group,), distinct=True, filter=condition, span=span)
        kind = result_type("count", (type_of(group),))
        assert kind is not None
        field = self.identities.field(measure.field.name, kind)
        return (algebra.Measure(field, replace(call, type=kind)),), field.ref

    def _counted(self, keys: tuple[tree.Expression, ...]) -> tree.Expression | None:
        """Return an expression that is never NULL, with one value for each group."""
        if len(keys) == 1 and lacks_null(keys[0], self.groups.input, self.policy):
            return keys[0]
        texts = [key for key in keys if type_of(key) == tree.VARCHAR]
        others = [key for key in keys if type_of(key) != tree.VARCHAR]
        if len(texts) > 1 or not all(type_of(key).kind in _ONE_TEXT for key in others):
            return None
        empty, mark = tree.Literal("", tree.VARCHAR), tree.Literal("|", tree.VARCHAR)
        parts = list[tree.Expression]()
        for key in others:
            parts += (
                tree.scalar("coalesce", tree.Cast(key, tree.VARCHAR), empty, kind=tree.VARCHAR),
                mark,
            )
        for key in texts:  # only the last part may have a mark within
            marked = tree.scalar("concat", mark, key, kind=tree.VARCHAR)
            parts.append(tree.scalar("coalesce", marked, empty, kind=tree.VARCHAR))
        return tree.scalar("concat", *parts, kind=tree.VARCHAR)


def _is_plain(call: tree.AggregateCall) -> bool:
    """Test for an aggregate of one argument that counts all rows."""
    special = call.distinct or call.clip or call.epsilon or call.order_by
    return not special and len(call.args) == 1 and call.function in ("sum", "count", "min", "max")


def _typed(value: tree.Expression, field: algebra.Field) -> tree.Expression:
    return value if type_of(value) == field.type else tree.Cast(value, field.type)
