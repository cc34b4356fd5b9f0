"""Conditions on the keys of groups, applied to the groups instead of their rows.

All groups may be paid already: then those that a condition keeps are among them.

Proof (PRIVACY.md R69). Rows of one group agree on its keys, so a condition that reads nothing else
is true in all of its rows or in none. The groups that it keeps have the rows that they had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsql.model.algebra import Aggregate, Filter, Limit, Project, Relation, Sort, Window
from dpsql.model.tree import Expression, Ref
from dpsql.model.walk import both, conjuncts, map_children, refs


def behind_groups(relation: Relation) -> Relation | None:
    """Move the conditions on a query's outermost keys above GROUP BY; None without any."""
    match relation:
        case Aggregate(input=Filter() as filtered, sets=()):
            return _behind(relation, filtered)
        case Project() | Sort() | Limit() | Filter() | Window():
            below = behind_groups(relation.input)
            return None if below is None else replace(relation, input=below)
        case _:
            return None


def _behind(aggregate: Aggregate, filtered: Filter) -> Relation | None:
    keys = {key.expression: key.field.ref for key in aggregate.keys}
    fields = {key.id for key in keys.values()}
    of_rows, of_groups = list[Expression](), list[Expression]()
    for part in conjuncts(filtered.predicate):
        over_keys = _over(part, keys)
        if refs(over_keys) and refs(over_keys) <= fields:
            of_groups.append(over_keys)
        else:
            of_rows.append(part)
    condition, remaining = both(tuple(of_groups)), both(tuple(of_rows))
    if condition is None:
        return None
    rows = filtered.input if remaining is None else Filter(filtered.input, remaining)
    return Filter(replace(aggregate, input=rows), condition)


def _over(expression: Expression, keys: Mapping[Expression, Ref]) -> Expression:
    """Replace each key expression by the key's column."""
    if expression in keys:
        return keys[expression]
    return map_children(expression, lambda child: _over(child, keys))
