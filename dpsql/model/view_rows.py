"""Origin of the rows of an expanded view: its base table, and the columns that it only renames.

An expanded view projects and filters one base table, or another expanded view: PRIVACY.md R98.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.model.algebra import Filter, Project, Relation, Scan, Sort
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Ref


@dataclass(frozen=True, slots=True)
class ViewOrigin:
    """The base table of a view, and the base column of each view column that is only renamed."""

    table: str
    columns: Mapping[str, str]


def origin_of(rows: Relation) -> ViewOrigin | None:
    """Return the origin of rows that are projected and filtered; None for any other relation."""
    names = {field.name: field.id for field in rows.fields}
    while True:
        match rows:
            case Project(input=below, items=items):
                same = {i.field.id: i.expression.id for i in items if isinstance(i.expression, Ref)}
                names = {name: same[n] for name, n in names.items() if n in same}
                rows = below
            case Filter(input=below) | Sort(input=below):
                rows = below
            case Scan(table=table, rows=None):
                stored = {field.id: field.name for field in rows.fields}
                return ViewOrigin(table, {name: stored[n] for name, n in names.items()})
            case Scan(rows=inner) if inner is not None:
                viewed = {field.id: field.name for field in rows.fields}
                there = {field.name: field.id for field in inner.fields}
                names = {name: there[viewed[n]] for name, n in names.items()}
                rows = inner
            case _:
                return None
