"""sqlglot FROM clauses → our FROM items: tables, joins, subqueries, VALUES and series."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.nodes import Origin, name_of, schema_of
from dpsql.dialects.reading.tokens import FUNCTION, MAX_JOINS
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    INTEGER,
    Derived,
    FromItem,
    JoinedTables,
    JoinKind,
    Literal,
    Query,
    Span,
    TableName,
    ValuesList,
)

MAX_ROWS = 10_000
"""Most rows of constants that one FROM item may have."""

ReadQuery: TypeAlias = Callable[[exp.Expression, Origin], Query]


def alias_of(node: exp.Expression | None, origin: Origin) -> tuple[str | None, tuple[str, ...]]:
    """An alias and its column aliases, as in `AS t(a, b)`."""
    if node is None:
        return None, ()
    name, columns = origin.take(node, "this", "columns")
    return (
        None if name is None else name_of(name, origin),
        tuple(name_of(column, origin) for column in columns or ()),
    )


def source(
    start: exp.Expression | None, joins: list[exp.Expression], origin: Origin, read: ReadQuery
) -> FromItem | None:
    """FROM a JOIN b …, c JOIN d …: JOIN binds closer than the comma."""
    if start is None:
        return None
    (first,) = origin.take(start, "this")
    return _with_joins(_relation(first, origin, read), joins, origin, read)


def _with_joins(
    first: FromItem, joins: list[exp.Expression], origin: Origin, read: ReadQuery
) -> FromItem:
    if len(joins) > MAX_JOINS:
        raise Refused(Reason.TOO_LARGE, origin.span(joins[-1]), what="joins", limit=MAX_JOINS)
    parts = [first]
    for join in joins:
        if _is_comma(join):
            (this,) = origin.take(join, "this")
            parts.append(_relation(this, origin, read))
        else:
            parts[-1] = _joined(parts[-1], join, origin, read)
    left = parts[0]
    for right in parts[1:]:
        left = JoinedTables(left, right, JoinKind.CROSS, span=right.span)
    return left


def _is_comma(join: exp.Expression) -> bool:
    """A join of nothing but its table; JOIN without ON was refused on the tokens."""
    return not any(value for name, value in join.args.items() if name != "this")


def _joined(left: FromItem, node: exp.Expression, origin: Origin, read: ReadQuery) -> JoinedTables:
    names = "this", "on", "side", "kind", "using", "method"
    this, on, side, kind, using, method = origin.take(node, *names)
    natural = str(method or "").upper() == "NATURAL"
    if method and not (natural and on is None and not using and str(kind).upper() != "CROSS"):
        construct = "NATURAL JOIN with a condition" if natural else "this kind of JOIN"
        raise origin.refusal(node, construct)
    join_kind = _KINDS.get((str(side or "").upper(), str(kind or "").upper()))
    if join_kind is None:
        raise origin.refusal(node, f"{side or ''} {kind or ''} JOIN".strip())
    right = _relation(this, origin, read)
    return JoinedTables(
        left,
        right,
        join_kind,
        None if on is None else expression(on, origin),
        tuple(name_of(column, origin) for column in using or ()),
        span=origin.span(node),
        natural=natural,
    )


_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.CROSS,
    **{
        (side, kind): JoinKind[side] for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")
    },
}


def _relation(node: exp.Expression, origin: Origin, read: ReadQuery) -> FromItem:
    match node:
        case exp.Table():
            return _table(node, origin, read)
        case exp.Subquery() if isinstance(node.this, exp.Table):
            return _parenthesised(node, origin, read)
        case exp.Subquery():
            this, alias = origin.take(node, "this", "alias")
            name, columns = alias_of(alias, origin)
            return Derived(read(this, origin), name, columns, origin.span(node))
        case exp.Values():
            return _values(node, origin)
        case _:
            raise origin.refusal(node)


def _parenthesised(node: exp.Expression, origin: Origin, read: ReadQuery) -> FromItem:
    """`(a JOIN b ON …)`: joined first; an alias for the whole is refused."""
    (table,) = origin.take(node, "this")
    return _relation(table, origin, read)


def _table(node: exp.Expression, origin: Origin, read: ReadQuery) -> FromItem:
    """A table with the joins that stand in its parentheses."""
    names = "this", "db", "catalog", "alias", "joins"
    this, schema, catalog, alias, joins = origin.take(node, *names)
    if isinstance(this, exp.Anonymous) and schema is catalog is None and not joins:
        return _series(this, alias, origin)
    if not isinstance(this, exp.Identifier):
        raise origin.refusal(this, "a table function" if isinstance(this, exp.Func) else None)
    name = name_of(this, origin)
    label, columns = alias_of(alias, origin)
    where = schema_of(catalog, schema, origin)
    table = TableName(name, label, columns, origin.span(this), where)
    return _with_joins(table, joins or [], origin, read)


def _values(node: exp.Expression, origin: Origin) -> ValuesList:
    """VALUES (1, 'a'), (2, 'b'): rows of constants, all of one length."""
    written, alias = origin.take(node, "expressions", "alias")
    rows = tuple(_row(row, origin) for row in written)
    _check_rows(len(rows), node, origin)
    if any(len(row) != len(rows[0]) for row in rows):
        raise Refused(Reason.SYNTAX, origin.span(node), why="VALUES rows differ in length")
    # Where VALUES is a query of its own, sqlglot gives it a name that nobody wrote.
    given = None if alias is not None and "start" not in alias.this.meta else alias
    name, columns = alias_of(given, origin)
    names = tuple(f"col{n}" for n in range(len(rows[0])))
    return ValuesList(names, rows, name, columns, origin.span(node))


def _row(node: exp.Expression, origin: Origin) -> tuple[Literal, ...]:
    if not isinstance(node, exp.Tuple):
        raise origin.refusal(node, "this VALUES row")
    (cells,) = origin.take(node, "expressions")
    return tuple(_constant(cell, origin) for cell in cells)


def _constant(node: exp.Expression, origin: Origin) -> Literal:
    value = expression(node, origin)
    if not isinstance(value, Literal):
        raise origin.refusal(node, "VALUES of anything but constants")
    return value


def _series(node: exp.Anonymous, alias: exp.Expression | None, origin: Origin) -> ValuesList:
    """RANGE or GENERATE_SERIES with constant bounds: its one column has the function's name."""
    this, args = origin.take(node, "this", "expressions")
    function = name_of(this, origin).lower() if isinstance(this, exp.Identifier) else str(this)
    function = function.removeprefix(FUNCTION).lower()
    if function not in ("range", "generate_series"):
        raise origin.refusal(node, "a table function")
    bounds = tuple(_constant(arg, origin) for arg in args)
    values = series(function, bounds, origin.span(node), MAX_ROWS)
    _check_rows(len(values), node, origin)
    if not values:
        raise origin.refusal(node, "a series without values")
    name, columns = alias_of(alias, origin)
    rows = tuple((value,) for value in values)
    return ValuesList((function,), rows, name, columns, origin.span(node))


def _check_rows(count: int, node: exp.Expression, origin: Origin) -> None:
    if count > MAX_ROWS:
        raise Refused(Reason.TOO_LARGE, origin.span(node), what="rows of constants", limit=MAX_ROWS)


def series(function: str, bounds: tuple[Literal, ...], span: Span, limit: int) -> list[Literal]:
    """The values of `function` from start to stop by step; GENERATE_SERIES includes the stop.

    >>> [n.value for n in series("range", (Literal(3, INTEGER),), Span(0, 0), 10)]
    [0, 1, 2]

    At most `limit` + 1 of them are made, so that the caller can tell that there are too many.
    Raises `Refused` for bounds that are not whole numbers and for a step of zero.
    """
    numbers = [bound.value for bound in bounds if type(bound.value) is int]
    if len(numbers) != len(bounds) or not 1 <= len(numbers) <= len(("start", "stop", "step")):
        types = tuple(str(bound.type) for bound in bounds)
        raise Refused(Reason.TYPE_MISMATCH, span, function=function, types=types)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise Refused(Reason.SYNTAX, span, why="the step of a series is not zero")
    end = stop if function == "range" else stop + (1 if step > 0 else -1)
    return [Literal(n, INTEGER, span) for n in range(start, end, step)[: limit + 1]]
