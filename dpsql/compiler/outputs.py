"""What a query shows, as formulas over its measurements: what the budget is split for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.algebra import Field, Filter, Join, Limit, Project, Relation, Released, Sort
from dpsql.tree import Expression, Ref
from dpsql.walk import refs, substitute


def shown(
    outer: Relation, parts: Sequence[Sequence[Field]], measures: Sequence[Expression]
) -> list[Expression]:
    """The output columns that noise reaches, over the columns `parts` of each block.

    A measure that no such formula reads whole (it orders, filters or is aggregated again) counts
    as an output of its own.
    """
    meaning = _meaning(outer, parts)
    outputs = [meaning[f.id] for f in outer.fields if f.id in meaning and f.type.is_numeric]
    noisy = {field.id for block in parts for field in block}
    outputs = [output for output in outputs if refs(output) & noisy]
    read = frozenset[int]().union(*map(refs, outputs))
    return outputs + [measure for measure in measures if not refs(measure) <= read]


def _meaning(relation: Relation, parts: Sequence[Sequence[Field]]) -> Mapping[int, Expression]:
    """Each column row by row over the measurements, as far as it is computed row by row."""
    match relation:
        case Released():
            columns = parts[relation.block]
            here = relation.fields[len(relation.fields) - len(columns) :]
            return {new.id: Ref(old.id, old.type) for new, old in zip(here, columns, strict=True)}
        case Project():
            below = _meaning(relation.input, parts)
            return {item.field.id: substitute(item.expression, below) for item in relation.items}
        case Filter() | Sort() | Limit():
            return _meaning(relation.input, parts)
        case Join():
            return {**_meaning(relation.left, parts), **_meaning(relation.right, parts)}
        case _:
            return {}
