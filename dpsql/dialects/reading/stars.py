"""`*` and `t.*` in a SELECT list, with what they leave out, replace and rename."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin, name_of
from dpsql.model.tree import Expression, Name, Star


def star_of(
    node: exp.Expression,
    origin: Origin,
    read: Callable[[exp.Expression, Origin], Expression],
) -> Star | None:
    """`*` or `t.*` with EXCLUDE (EXCEPT), REPLACE and RENAME; None for anything else."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        star, table = origin.take(node, "this", "table")
        qualifier = name_of(table, origin)
    elif isinstance(node, exp.Star):
        star, qualifier = node, None
    else:
        return None
    names = "except_", "except", "replace", "rename"
    left_out, excluded, replaced, renamed = origin.take(star, *names)
    return Star(
        qualifier,
        origin.span(node),
        tuple(_column(e, origin, read) for e in left_out or excluded or ()),
        tuple(_replaced(e, origin, read) for e in replaced or ()),
        tuple(_renamed(e, origin, read) for e in renamed or ()),
    )


def _column(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], Expression]
) -> str:
    column = read(node, origin)
    if not isinstance(column, Name) or column.table is not None:
        raise origin.refusal(node, "this column of a * list")
    return column.name


def _replaced(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], Expression]
) -> tuple[str, Expression]:
    value, column = _aliased(node, origin)
    return name_of(column, origin), read(value, origin)


def _renamed(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], Expression]
) -> tuple[str, str]:
    old, new = _aliased(node, origin)
    return _column(old, origin, read), name_of(new, origin)


def _aliased(node: exp.Expression, origin: Origin) -> tuple[exp.Expression, exp.Expression]:
    if not isinstance(node, exp.Alias):
        raise origin.refusal(node, "this item of a * list")
    this, alias = origin.take(node, "this", "alias")
    return this, alias
