"""Copies of a relation with new column ids, for relations that are read twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

from dpsql.model.algebra import (
    Again,
    Aggregate,
    Apply,
    Evaluated,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    Match,
    Measure,
    OneRow,
    Project,
    Recursion,
    Relation,
    Released,
    Scan,
    Single,
    Sort,
    Staged,
    Union,
    Values,
    Window,
    WindowItem,
)
from dpsql.model.walk import map_expressions, map_inputs, relations, substitute

Named = TypeVar("Named", Item, Measure, WindowItem)


def renumbered(
    relation: Relation, fresh: Callable[[Field], Field]
) -> tuple[Relation, Mapping[int, Field]]:
    """Return the same rows with new columns, and the new column of each old id."""
    names: dict[int, Field] = {}
    for part in relations(relation):
        for column in part.fields:
            names.setdefault(column.id, fresh(column))
    values = {number: column.ref for number, column in names.items()}

    def named(items: tuple[Named, ...]) -> tuple[Named, ...]:
        return tuple(replace(item, field=names[item.field.id]) for item in items)

    def change(part: Relation) -> Relation:
        part = map_expressions(map_inputs(part, change), lambda node: substitute(node, values))
        match part:
            case Scan() | Values() | Released() | Staged() | Evaluated() | Union():
                return replace(part, fields=tuple(names[f.id] for f in part.fields))
            case Recursion() | Again():
                return replace(part, fields=tuple(names[f.id] for f in part.fields))
            case Single():
                return replace(part, columns=tuple(names[c.id].ref for c in part.columns))
            case Apply():
                return replace(part, value=names[part.value.id])
            case Project():
                return replace(part, items=named(part.items))
            case Aggregate():
                return replace(part, keys=named(part.keys), measures=named(part.measures))
            case Window():
                return replace(part, items=named(part.items))
            case Match():
                return replace(part, mark=names[part.mark.id])
            case Filter() | Join() | Sort() | Limit() | OneRow():
                return part
            case _:
                assert_never(part)

    return change(relation), names
