"""HISTOGRAM(x) over public values: a noisy count of each, as the text that DuckDB shows.

Values without a positive noisy count are left out, as the engine leaves out absent ones.

Proof (PRIVACY.md R31). Each value is a COUNT of its own; a row has one value, so that one charge
may pay for all where that is proved (R34).
"""

from __future__ import annotations

import re

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.plan.measurement_kinds import RowCount
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

MOST_VALUES = 100
"""Largest number of values of a histogram. GROUP BY is the better way to show more counts."""

_PLAIN = re.compile(r"[\w.:/+-]+(?: [\w.:/+-]+)*")


def _values(bounded: recipe.BoundedCall) -> tuple[tree.Value, ...]:
    facts, exact = (
        bounded.argument,
        (tree.Kind.INTEGER, tree.Kind.VARCHAR, tree.Kind.BOOLEAN, tree.Kind.DATE),
    )
    listed = None if facts is None or facts.type.kind not in exact else facts.domain
    if not listed or len(listed) > MOST_VALUES:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            bounded.call.span,
            name="histogram",
            fix="Ask for COUNT(*) with GROUP BY: it takes values that are not listed, or many.",
        )
    return listed


def _parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    recipe.no_distinct(bounded)
    facts = bounded.argument
    assert facts is not None
    return tuple(
        RowCount(
            recipe.conjunction(
                bounded.call.filter, bounded.expression.eq(tree.Literal(value, facts.type))
            ),
            recipe.rows_of_unit(bounded),
        )
        for value in _values(bounded)
    )


def _combine(bounded: recipe.BoundedCall, parts: tuple[tree.Ref, ...]) -> tree.Expression:
    entries = map(_entry, _values(bounded), parts)
    inside = tree.scalar("concat_ws", ", ", *entries, kind=tree.VARCHAR)
    return tree.scalar("concat", "{", inside, "}", kind=tree.VARCHAR)


def _entry(value: tree.Value, count: tree.Ref) -> tree.Expression:
    name = str(value).lower() if isinstance(value, bool) else str(value)
    if not _PLAIN.fullmatch(name):
        name = "'" + name.replace("'", "\\'") + "'"
    shown = tree.scalar("concat", f"{name}=", count.to(tree.VARCHAR), kind=tree.VARCHAR)
    return tree.when(count.gt(0), shown, None, kind=tree.VARCHAR)


HISTOGRAM = recipe.Recipe(_parts, _combine)
