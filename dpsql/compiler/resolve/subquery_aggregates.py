"""Aggregates in subqueries: totals of one row, and those that belong to the query outside."""

from __future__ import annotations

from dpsql.model.algebra import Aggregate, Filter, Limit, Project, Relation, Sort
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Expression
from dpsql.model.walk import both, conjuncts, refs, relations, substitute


def one_total(relation: Relation) -> tuple[Aggregate, Expression | None] | None:
    """Return the aggregate without keys that gives a relation's row, and the condition on that row.

    Returns None where there may be more rows, and where a condition reads more than the aggregate.
    """
    conditions: tuple[Expression, ...] = ()
    while not isinstance(relation, Aggregate) or relation.keys:
        match relation:
            case Sort() | Limit(limit=None, offset=0):
                pass
            case Limit(limit=int(limit), offset=0) if limit > 0:
                pass
            case Filter():
                conditions += conjuncts(relation.predicate)
            case Project():
                items = {item.field.id: item.expression for item in relation.items}
                conditions = tuple(substitute(part, items) for part in conditions)
            case Aggregate(measures=(), sets=()):  # DISTINCT of one row
                items = {key.field.id: key.expression for key in relation.keys}
                conditions = tuple(substitute(part, items) for part in conditions)
            case _:
                return None
        relation = relation.input
    return relation, both(conditions)


def require_own_aggregates(relation: Relation, outer: frozenset[int]) -> None:
    """Refuse an aggregate that reads columns of the outer query alone.

    SQL computes it over the outer rows, which then become one row or groups; our tree has it
    inside.
    """
    for part in relations(relation):
        for measure in part.measures if isinstance(part, Aggregate) else ():
            if (read := refs(measure.call)) and read <= outer:
                raise Refused(
                    Reason.UNSUPPORTED_SYNTAX,
                    measure.call.span,
                    construct="an aggregate of the outer query's columns in a subquery",
                    fix="Aggregate them outside, or columns of the subquery's own tables here.",
                )
