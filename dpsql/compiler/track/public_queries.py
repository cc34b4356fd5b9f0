"""Public queries that are tried when they are compiled, since nothing may fail after a charge.

A scalar subquery fails only if it has several rows, and a recursion only if it does not end. For
public rows both can be checked, by anybody and without charge (PRIVACY.md R21).
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.resolve.scopes import Identities, require_none
from dpsql.compiler.resolve.subqueries import outer_column, several_rows
from dpsql.compiler.track.repeatable import is_repeatable
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import INTEGER, AggregateCall, Ref, Star
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import free_refs, relations


@dataclass(frozen=True, slots=True)
class PublicQueries:
    """Checks of public queries: `frequency` measures rows, `once` evaluates them and keeps them."""

    policy: Policy
    frequency: Callable[[algebra.Relation, tuple[Ref, ...]], int]
    once: Callable[[algebra.Relation], algebra.Evaluated]
    identities: Identities

    def tried(self, relation: algebra.Relation) -> algebra.Relation:
        """Return a public relation after its rows have passed SQL's checks; else raise
        `Refused`.
        """
        match relation:
            case algebra.Single():
                return self._single(relation)
            case algebra.Apply():
                return self._applied(relation)
            case algebra.Recursion():
                return self._recursion(relation)
            case _:
                return relation

    def _single(self, relation: algebra.Single) -> algebra.Relation:
        """Return the rows, which must not agree on those columns; raises `Refused` where
        they do.
        """
        source = relation.input
        there = source if is_repeatable(source, self.policy) else self.once(source)
        places = {f.id: n for n, f in enumerate(source.fields)}
        columns = tuple(there.fields[places[column.id]].ref for column in relation.columns)
        if self.frequency(there, columns) > 1:
            raise several_rows(relation.span)
        return source if relation.columns else algebra.Limit(source, 1, 0, relation.span)

    def _applied(self, relation: algebra.Apply) -> algebra.Relation:
        """Return the rows with their subquery; raises `Refused` if it has several rows for one of
        them.
        """
        for part in relations(relation):
            require_none(part, "in a subquery over public tables")
        if relation.unsure and not free_refs(relation):
            rows, most = (self.identities.field(name, INTEGER) for name in ("rows", "most"))
            count = AggregateCall("count", (Star(None),), type=INTEGER)
            counted = algebra.Aggregate(relation.other, (), (algebra.Measure(rows, count),))
            each = self.identities.field("each", INTEGER)
            largest = AggregateCall("max", (each.ref,), type=INTEGER)
            asked_of = replace(relation, other=counted, value=each)
            evaluated = self.once(
                algebra.Aggregate(asked_of, (), (algebra.Measure(most, largest),))
            )
            if (evaluated.rows[0][0] or 0) > 1:
                raise several_rows(relation.span)
        return replace(relation, unsure=False)

    def _recursion(self, relation: algebra.Recursion) -> algebra.Relation:
        """Return a recursion that ends; raises `Refused` where a trial does not show that."""
        for part in relations(relation):
            require_none(part, "in WITH RECURSIVE")
        if free_refs(relation):
            raise outer_column(relation.span)
        self.once(relation)
        return relation
