"""Repeatable public queries: they have the same rows in every evaluation.

The relations that private rows are joined to are measured when a query is compiled and read again
when it runs, by an engine that evaluates on several threads. Rows of tables, and row-by-row
results, are the same each time; so are the keys of GROUP BY and DISTINCT, and exact sums. The order
of equal rows is not, nor the last digits of a sum of DOUBLE, nor the rows of a view. A relation
that is not known to be repeatable is evaluated once, and its rows are kept.

Proof (PRIVACY.md R21). Each operator that is called repeatable gives the same multiset of rows for
the same inputs, in any order of its input rows.
"""

from __future__ import annotations

from typing import assert_never

from dpsql.compiler.resolve.typing import type_of
from dpsql.model import algebra
from dpsql.model.tree import Kind, Star
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import inputs

EXACT = frozenset("count sum min max bool_and bool_or".split())
"""Aggregates that are the same in every order of exact values, which equal only themselves."""


def is_repeatable(relation: algebra.Relation, policy: Policy) -> bool:
    """Test whether every evaluation of a public relation over the same data has the same rows."""
    return _itself(relation, policy) and all(is_repeatable(r, policy) for r in inputs(relation))


def _itself(relation: algebra.Relation, policy: Policy) -> bool:
    """Test whether the operator itself is repeatable."""
    match relation:
        case (
            algebra.OneRow()
            | algebra.Values()
            | algebra.Evaluated()
            | algebra.Filter()
            | algebra.Project()
            | algebra.Sort()
            | algebra.Join()
            | algebra.Match()
        ):
            return True
        case algebra.Scan():
            table = policy.table(relation.table)
            return table is not None and not table.view
        case algebra.Aggregate():
            keys = (item.field for item in relation.keys)
            return all(map(_is_exact, keys)) and all(map(_is_settled, relation.measures))
        case algebra.Union():
            is_all = relation.kind == "UNION" and relation.all
            return is_all or all(map(_is_exact, relation.fields))
        case algebra.Window() | algebra.Limit() | algebra.Released() | algebra.Staged():
            return False
        case algebra.Single() | algebra.Apply() | algebra.Recursion() | algebra.Again():
            return False
        case _:
            assert_never(relation)


def _is_exact(field: algebra.Field) -> bool:
    """Test whether equal values are identical, unlike 0.0 and -0.0."""
    return field.type.kind is not Kind.DOUBLE


def _is_settled(measure: algebra.Measure) -> bool:
    call = measure.call
    if call.function not in EXACT:
        return False
    arguments = [arg for arg in call.args if not isinstance(arg, Star)]
    return call.function == "count" or all(
        type_of(arg).kind is not Kind.DOUBLE for arg in arguments
    )
