"""Errors of estimates from randomised reports: those of the counts, and those of the reports.

An estimate is a base of its own. The two parts of its error are independent: noise is drawn
independently of the reports. The dependence of the errors of two estimates is unknown.

It is post-processing: PRIVACY.md R66, R81.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.errors.expression_errors import NAN
from dpsql.compiler.errors.noisy_columns import ErrorSource, Traced, noise_of
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.resolve.randomized_columns import ESTIMATE
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Item, Project
from dpsql.model.tree import Call, Cast, Expression, scalar
from dpsql.model.walk import expressions, map_children, map_expressions, walk

_REPORTS = (-1, 0)
"""Pseudo-block of the reports, on which the errors of all estimates may depend."""


def with_estimates(
    relation: Project, source: Traced, identities: Identities
) -> tuple[Project, Traced]:
    """Return the relation with its estimates read as columns, and its input with these as bases."""
    nodes = (node for expression in expressions(relation) for node in walk(expression))
    calls = [node for node in nodes if isinstance(node, Call) and node.function == ESTIMATE]
    if not calls:
        return relation, source
    fields = {call: identities.field("estimate", call.type) for call in calls}
    items = [f.item for f in source.relation.fields]
    items += [Item(column, call.args[0]) for call, column in fields.items()]
    meaning, deviation, origin = {}, dict(source.deviation), dict(source.origin)
    for call, column in fields.items():
        value, variance = call.args
        meaning[column.id] = column.ref
        unrounded = value.arg if isinstance(value, Cast) else value
        deviation[column.id] = _error(source.error(unrounded), variance)
        noise = noise_of(source.origin[base] for base in source.bases(value))
        origin[column.id] = ErrorSource(noise | {_REPORTS}, column.id, many=True)

    def read(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression in fields:
            return fields[expression].ref
        return map_children(expression, read)

    bases = replace(
        source,
        relation=Project(source.relation, tuple(items)),
        meaning={**source.meaning, **meaning},
        deviation=deviation,
        origin=origin,
    )
    changed = map_expressions(relation, read)
    assert isinstance(changed, Project)
    return changed, bases


def _error(of_counts: Expression, variance: Expression) -> Expression | None:
    if of_counts == NAN:
        return None
    if of_counts == EXACT:
        return scalar("sqrt", variance)
    return scalar("sqrt", variance + of_counts * of_counts)
