"""sqlglot FROM clauses → our FROM items: tables, joins, subqueries, VALUES and series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from dpsql.dialects.reading.arrays import members
from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.interval_literals import duration_of, interval_text
from dpsql.dialects.reading.nodes import Origin, name_of, schema_of
from dpsql.dialects.reading.pivots import pivoted
from dpsql.dialects.reading.series import MAX_ROWS, SERIES, folded, moments, series
from dpsql.dialects.reading.token_checks import MAX_JOINS
from dpsql.dialects.reading.tokens import FUNCTION
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

ReadQuery: TypeAlias = Callable[[exp.Expression, Origin], tree.Query]


def alias_of(node: exp.Expression | None, origin: Origin) -> tuple[str | None, tuple[str, ...]]:
    """Return an alias and its column aliases, as in `AS t(a, b)`."""
    if node is None:
        return None, ()
    name, columns = origin.take(node, "this", "columns")
    return (
        None if name is None else name_of(name, origin),
        tuple(name_of(column, origin) for column in columns or ()),
    )


def source(
    start: exp.Expression | None, joins: list[exp.Expression], origin: Origin, read: ReadQuery
) -> tree.FromItem | None:
    """Return FROM a JOIN b …, c JOIN d …: JOIN binds closer than the comma."""
    if start is None:
        return None
    (first,) = origin.take(start, "this")
    return _with_joins(relation(first, origin, read), joins, origin, read)


def _with_joins(
    first: tree.FromItem, joins: list[exp.Expression], origin: Origin, read: ReadQuery
) -> tree.FromItem:
    if len(joins) > MAX_JOINS:
        raise Refused(Reason.TOO_LARGE, origin.span(joins[-1]), what="joins", limit=MAX_JOINS)
    parts = [first]
    for join in joins:
        # A comma is a join of nothing but its table: JOIN without ON was refused on the tokens.
        if not any(value for name, value in join.args.items() if name != "this"):
            (this,) = origin.take(join, "this")
            parts.append(relation(this, origin, read))
        else:
            parts[-1] = _joined(parts[-1], join, origin, read)
    left = parts[0]
    for right in parts[1:]:
        span = right.join.span if isinstance(right, tree.HalfJoin) else right.span
        left = tree.JoinedTables(left, right, tree.JoinKind.CROSS, span=span)
    return left


def _joined(
    left: tree.FromItem, node: exp.Expression, origin: Origin, read: ReadQuery
) -> tree.JoinedTables | tree.HalfJoin:
    names = "this", "on", "side", "kind", "using", "method"
    this, on, side, kind, using, method = origin.take(node, *names)
    word = str(method or "").upper()
    natural, asof = word == "NATURAL", word == "ASOF"
    named = natural and on is None and not using and str(kind).upper() != "CROSS"
    if method and not (named or asof):
        construct = "NATURAL JOIN with a condition" if natural else "this kind of JOIN"
        raise origin.refusal(node, construct)
    written = str(side or "").upper(), str(kind or "").upper()
    half = written in _HALVES
    join_kind = tree.JoinKind.INNER if half else _KINDS.get(written)
    if join_kind is None or (half and asof):
        raise origin.refusal(node, f"{side or ''} {kind or ''} JOIN".strip())
    joined = tree.JoinedTables(
        left,
        relation(this, origin, read),
        join_kind,
        None if on is None else expression(on, origin),
        tuple(name_of(column, origin) for column in using or ()),
        span=origin.span(node),
        natural=natural,
        asof=asof,
    )
    return tree.HalfJoin(joined, anti=written[1] == "ANTI") if half else joined


_HALVES = {(side, kind) for side in ("", "LEFT") for kind in ("SEMI", "ANTI")}
_KINDS = {
    ("", ""): tree.JoinKind.INNER,
    ("", "INNER"): tree.JoinKind.INNER,
    ("", "CROSS"): tree.JoinKind.CROSS,
    **{
        (side, kind): tree.JoinKind[side]
        for side in ("LEFT", "RIGHT", "FULL")
        for kind in ("", "OUTER")
    },
}


def relation(node: exp.Expression, origin: Origin, read: ReadQuery) -> tree.FromItem:
    """Return one item of FROM."""
    match node:
        case exp.Table():
            return _table(node, origin, read)
        case exp.Subquery():
            return _subquery(node, origin, read)
        case exp.Values():
            return _values(node, origin)
        case exp.Lateral():
            return _lateral(node, origin, read)
        case _:
            raise origin.refusal(node)


def _lateral(node: exp.Lateral, origin: Origin, read: ReadQuery) -> tree.Derived:
    """Return `LATERAL (SELECT …) AS q`."""
    this, alias = origin.take(node, "this", "alias")
    rows = relation(this, origin, read)
    if not isinstance(rows, tree.Derived):
        raise origin.refusal(node, "LATERAL of anything but a query")
    name, columns = alias_of(alias, origin)
    return replace(rows, alias=name, column_aliases=columns, lateral=True)


def _subquery(node: exp.Subquery, origin: Origin, read: ReadQuery) -> tree.FromItem:
    """Return `(SELECT …) AS q` or `(a JOIN b ON …) [AS q]`, with the joins after it."""
    this, alias, joins, pivots = origin.take(node, "this", "alias", "joins", "pivots")
    name, columns = alias_of(alias, origin)
    span = origin.span(node)
    if not _is_joined(this):
        first: tree.FromItem = tree.Derived(read(this, origin), name, columns, span)
    elif name is None:
        first = relation(this, origin, read)
    else:
        # Its columns are all of the joined tables: those of USING once.
        items = (tree.SelectItem(tree.Star(None, span)),)
        whole = tree.Select(items, relation(this, origin, read), span=span)
        first = tree.Derived(whole, name, columns, span)
    return _with_joins(_with_pivots(first, pivots or [], origin), joins or [], origin, read)


def _is_joined(node: exp.Expression) -> bool:
    """Test whether parentheses enclose an item of FROM instead of a query."""
    if not isinstance(node, exp.Subquery):
        return isinstance(node, exp.Table)
    return bool(node.args.get("alias") or node.args.get("joins")) or _is_joined(node.this)


def _table(node: exp.Expression, origin: Origin, read: ReadQuery) -> tree.FromItem:
    """Return a table with the joins in its parentheses."""
    names = "this", "db", "catalog", "alias", "joins", "pivots"
    this, schema, catalog, alias, joins, pivots = origin.take(node, *names)
    if isinstance(this, exp.Anonymous) and schema is catalog is None and not (joins or pivots):
        return _series(this, alias, origin)
    if not isinstance(this, exp.Identifier):
        is_call = isinstance(this, exp.Func)
        raise _table_function(this, origin) if is_call else origin.refusal(this)
    name = name_of(this, origin)
    label, columns = alias_of(alias, origin)
    where = schema_of(catalog, schema, origin)
    table = tree.TableName(name, label, columns, origin.span(this), where)
    return _with_joins(_with_pivots(table, pivots or [], origin), joins or [], origin, read)


def _with_pivots(
    first: tree.FromItem, pivots: list[exp.Expression], origin: Origin
) -> tree.FromItem:
    """Return `t PIVOT (…) AS p`, with any further ones."""
    for pivot in pivots:
        name, columns = alias_of(pivot.args.get("alias"), origin)
        first = tree.Derived(pivoted(pivot, first, origin), name, columns, origin.span(pivot))
    return first


def _values(node: exp.Expression, origin: Origin) -> tree.ValuesList:
    """Return VALUES (1, 'a'), (2, 'b'): rows of constants, all of one length."""
    written, alias = origin.take(node, "expressions", "alias")
    rows = tuple(_row(row, origin) for row in written)
    _check_rows(len(rows), node, origin)
    if any(len(row) != len(rows[0]) for row in rows):
        raise Refused(Reason.SYNTAX, origin.span(node), why="VALUES rows differ in length")
    # Where VALUES is a query of its own, sqlglot gives it a name that nobody wrote.
    given = None if alias is not None and "start" not in alias.this.meta else alias
    name, columns = alias_of(given, origin)
    names = tuple(f"col{n}" for n in range(len(rows[0])))
    return tree.ValuesList(names, rows, name, columns, origin.span(node))


def _row(node: exp.Expression, origin: Origin) -> tuple[tree.Literal, ...]:
    if not isinstance(node, exp.Tuple):
        raise origin.refusal(node, "this VALUES row")
    (cells,) = origin.take(node, "expressions")
    return tuple(_constant(cell, origin) for cell in cells)


def _constant(node: exp.Expression, origin: Origin) -> tree.Literal:
    value = folded(expression(node, origin))
    if not isinstance(value, tree.Literal):
        raise origin.refusal(node, "VALUES of anything but constants")
    return value


def function_name(node: exp.Expression, origin: Origin) -> str:
    """Return the name of a call, in lower case."""
    this, _ = origin.take(node, "this", "expressions")
    written = name_of(this, origin) if isinstance(this, exp.Identifier) else str(this)
    return written.removeprefix(FUNCTION).lower()


def _series(node: exp.Anonymous, alias: exp.Expression | None, origin: Origin) -> tree.ValuesList:
    """Return a series in FROM; in PostgreSQL an alias without columns also names its column."""
    function = function_name(node, origin)
    if function not in SERIES:
        raise _table_function(node, origin)
    name, columns = alias_of(alias, origin)
    column = name if name is not None and origin.dialect == "postgres" else function
    return replace(rows_of(node, origin), names=(column,), alias=name, column_aliases=columns)


def _table_function(node: exp.Expression, origin: Origin) -> Refused:
    fix = "Name a table that SHOW TABLES lists; series are GENERATE_SERIES, RANGE and UNNEST."
    return origin.refusal(node, "a table function", fix=fix)


def rows_of(node: exp.Expression, origin: Origin) -> tree.ValuesList:
    """Return the rows of RANGE or GENERATE_SERIES with constant bounds, or of UNNEST of an
    array.

    A series is an array in DuckDB, and rows in PostgreSQL.
    """
    function, span = function_name(node, origin), origin.span(node)
    _, args = origin.take(node, "this", "expressions")
    if function == "unnest" and origin.dialect != "postgres" and is_series(args[0], origin):
        return replace(rows_of(args[0], origin), names=(function,), span=span)
    if function == "unnest":
        values = _unnested(args, node, origin)
    else:
        values = _numbers_or_times(function, args, node, origin)
    _check_rows(len(values), node, origin)
    if not values:
        raise origin.refusal(node, "a series without values")
    return tree.ValuesList((function,), tuple((value,) for value in values), span=span)


def is_series(node: exp.Expression | None, origin: Origin) -> bool:
    """Test whether a node calls one of `SERIES`."""
    return isinstance(node, exp.Anonymous) and function_name(node, origin) in SERIES


def _unnested(
    args: list[exp.Expression], node: exp.Expression, origin: Origin
) -> list[tree.Literal]:
    if len(args) != 1:
        raise origin.refusal(node, "UNNEST of more than one array")
    listed = members(args[0], origin, expression) or []
    constants = [member for member in listed if isinstance(member, tree.Literal)]
    if len(constants) < len(listed):
        raise origin.refusal(node, "UNNEST of anything but constants")
    return constants


def _numbers_or_times(
    function: str, args: list[exp.Expression], node: exp.Expression, origin: Origin
) -> list[tree.Literal]:
    span = origin.span(node)
    stepped = len(args) == len(("a", "z", "s"))
    step = duration_of(args[2], origin, expression) if stepped else None
    if step is None and stepped and isinstance(args[2], exp.Literal) and args[2].is_string:
        step = interval_text(args[2].name, origin.span(args[2]))
        expression(args[2], origin)
    if step is not None:
        ends = tuple(_constant(arg, origin) for arg in args[:2])
        return moments(function, ends, step, origin.dialect, span)
    return series(function, tuple(_constant(arg, origin) for arg in args), span, MAX_ROWS)


def _check_rows(count: int, node: exp.Expression, origin: Origin) -> None:
    if count > MAX_ROWS:
        raise Refused(Reason.TOO_LARGE, origin.span(node), what="rows of constants", limit=MAX_ROWS)
