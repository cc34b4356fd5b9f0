"""sqlglot queries → our queries: SELECT, set operations, WITH and FROM."""

from __future__ import annotations

from sqlglot import exp

from dpsql.dialects.from_sqlglot_calls import sort_keys
from dpsql.dialects.from_sqlglot_expressions import expression
from dpsql.dialects.from_sqlglot_limits import MAX_JOINS
from dpsql.dialects.from_sqlglot_nodes import Origin, name_of, star_of
from dpsql.errors import Reason, Refused
from dpsql.tree import (
    CommonTable,
    Derived,
    Expression,
    FromItem,
    JoinedTables,
    JoinKind,
    Literal,
    Query,
    Select,
    SelectItem,
    SetOperation,
    TableName,
)

_SELECT = (
    "expressions",
    "from_",
    "from",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
    "with",
)
_SET = (
    "this",
    "expression",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
    "with",
)
"""Arguments of exp.Select and exp.SetOperation; `from` and `with` became `from_` and `with_`."""


def query(node: exp.Expression, origin: Origin) -> Query:
    """The query that `node` says; raises `Refused` for what the tree cannot say."""
    match node:
        case exp.Select():
            return _select(node, origin)
        case exp.Union() | exp.Intersect() | exp.Except():
            return _set_operation(node, origin)
        case exp.Subquery():
            (inner,) = origin.take(node, "this")
            return query(inner, origin)
        case _:
            raise origin.refusal(node, "a statement in a query" if _is_statement(node) else None)


def _is_statement(node: exp.Expression) -> bool:
    return isinstance(node, exp.Command | exp.DDL | exp.DML)


def _select(node: exp.Select, origin: Origin) -> Select:
    taken = dict(zip(_SELECT, origin.take(node, *_SELECT), strict=True))
    if not taken["expressions"]:
        raise Refused(Reason.SYNTAX, origin.span(node), why="nothing is selected")
    return Select(
        items=tuple(_item(item, origin) for item in taken["expressions"]),
        source=_source(taken["from_"] or taken["from"], taken["joins"] or [], origin),
        where=_clause(taken["where"], origin),
        group_by=_group_by(taken["group"], origin),
        having=_clause(taken["having"], origin),
        qualify=_clause(taken["qualify"], origin),
        distinct=_distinct(taken["distinct"], origin),
        order_by=sort_keys(taken["order"], origin, expression),
        limit=_count(taken["limit"], origin),
        offset=_count(taken["offset"], origin) or 0,
        ctes=_common_tables(taken["with_"] or taken["with"], origin),
        span=origin.span(node),
    )


def _item(node: exp.Expression, origin: Origin) -> SelectItem:
    if isinstance(node, exp.Alias):
        this, alias = origin.take(node, "this", "alias")
        return SelectItem(expression(this, origin), name_of(alias, origin))
    star = star_of(node, origin)
    return SelectItem(expression(node, origin) if star is None else star)


def _clause(node: exp.Expression | None, origin: Origin) -> Expression | None:
    """The condition in WHERE, HAVING or QUALIFY."""
    if node is None:
        return None
    (condition,) = origin.take(node, "this")
    return expression(condition, origin)


def _group_by(node: exp.Expression | None, origin: Origin) -> tuple[Expression, ...]:
    if node is None:
        return ()
    (keys,) = origin.take(node, "expressions")
    return tuple(expression(key, origin) for key in keys or ())


def _distinct(node: exp.Expression | None, origin: Origin) -> bool:
    if node is None:
        return False
    origin.take(node)
    return True


def _count(node: exp.Expression | None, origin: Origin) -> int | None:
    """LIMIT or OFFSET: a whole number, written or bound."""
    if node is None:
        return None
    if not isinstance(node, exp.Limit | exp.Offset):
        raise origin.refusal(node, "FETCH FIRST")
    (value,) = origin.take(node, "expression")
    if isinstance(value, exp.Literal | exp.Column):
        count = expression(value, origin)
        if isinstance(count, Literal) and type(count.value) is int and count.value >= 0:
            return count.value
    raise origin.refusal(node, "LIMIT or OFFSET by an expression")


def _set_operation(node: exp.Expression, origin: Origin) -> SetOperation:
    taken = dict(zip(_SET, origin.take(node, *_SET), strict=True))
    for side in (taken["this"], taken["expression"]):
        if isinstance(node, exp.Intersect) and isinstance(side, exp.Union | exp.Except):
            # INTERSECT binds closer than UNION; some parsers read from left to right.
            raise origin.refusal(node, "INTERSECT beside UNION or EXCEPT without parentheses")
    return SetOperation(
        kind=type(node).__name__.upper(),
        all=taken["distinct"] is False,
        left=query(taken["this"], origin),
        right=query(taken["expression"], origin),
        order_by=sort_keys(taken["order"], origin, expression),
        limit=_count(taken["limit"], origin),
        offset=_count(taken["offset"], origin) or 0,
        ctes=_common_tables(taken["with_"] or taken["with"], origin),
        span=origin.span(node),
    )


def _common_tables(node: exp.Expression | None, origin: Origin) -> tuple[CommonTable, ...]:
    if node is None:
        return ()
    (tables,) = origin.take(node, "expressions")
    return tuple(_common_table(table, origin) for table in tables)


def _common_table(node: exp.Expression, origin: Origin) -> CommonTable:
    if not isinstance(node, exp.CTE):
        raise origin.refusal(node)
    this, alias = origin.take(node, "this", "alias")
    name, columns = _alias(alias, origin)
    if name is None:
        raise origin.refusal(node, "WITH without a name")
    return CommonTable(name, query(this, origin), columns)


def _alias(node: exp.Expression | None, origin: Origin) -> tuple[str | None, tuple[str, ...]]:
    if node is None:
        return None, ()
    name, columns = origin.take(node, "this", "columns")
    return (
        None if name is None else name_of(name, origin),
        tuple(name_of(column, origin) for column in columns or ()),
    )


# --- FROM ---


def _source(
    start: exp.Expression | None, joins: list[exp.Expression], origin: Origin
) -> FromItem | None:
    """FROM a JOIN b …, c JOIN d …: JOIN binds closer than the comma."""
    if start is None:
        return None
    (first,) = origin.take(start, "this")
    return _with_joins(_relation(first, origin), joins, origin)


def _with_joins(first: FromItem, joins: list[exp.Expression], origin: Origin) -> FromItem:
    if len(joins) > MAX_JOINS:
        raise Refused(Reason.TOO_LARGE, origin.span(joins[-1]), what="joins", limit=MAX_JOINS)
    parts = [first]
    for join in joins:
        if _is_comma(join):
            (this,) = origin.take(join, "this")
            parts.append(_relation(this, origin))
        else:
            parts[-1] = _joined(parts[-1], join, origin)
    left = parts[0]
    for right in parts[1:]:
        left = JoinedTables(left, right, JoinKind.CROSS, span=right.span)
    return left


def _is_comma(join: exp.Expression) -> bool:
    """A join of nothing but its table; JOIN without ON was refused on the tokens."""
    return not any(value for name, value in join.args.items() if name != "this")


def _joined(left: FromItem, node: exp.Expression, origin: Origin) -> JoinedTables:
    names = "this", "on", "side", "kind", "using"
    this, on, side, kind, using = origin.take(node, *names)
    join_kind = _KINDS.get((str(side or "").upper(), str(kind or "").upper()))
    if join_kind is None:
        raise origin.refusal(node, f"{side or ''} {kind or ''} JOIN".strip())
    right = _relation(this, origin)
    return JoinedTables(
        left,
        right,
        join_kind,
        None if on is None else expression(on, origin),
        tuple(name_of(column, origin) for column in using or ()),
        span=origin.span(node),
    )


_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.CROSS,
    **{
        (side, kind): JoinKind[side] for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")
    },
}


def _relation(node: exp.Expression, origin: Origin) -> FromItem:
    match node:
        case exp.Table():
            return _table(node, origin)
        case exp.Subquery() if isinstance(node.this, exp.Table):
            return _parenthesised(node, origin)
        case exp.Subquery():
            this, alias = origin.take(node, "this", "alias")
            name, columns = _alias(alias, origin)
            return Derived(query(this, origin), name, columns, origin.span(node))
        case exp.Values():
            raise origin.refusal(node, "VALUES")
        case _:
            raise origin.refusal(node)


def _parenthesised(node: exp.Expression, origin: Origin) -> FromItem:
    """`(a JOIN b ON …)`: joined first; an alias for the whole is refused."""
    (table,) = origin.take(node, "this")
    return _relation(table, origin)


def _table(node: exp.Expression, origin: Origin) -> FromItem:
    """A table with the joins that stand in its parentheses; `main.t` and `public.t` are t."""
    names = "this", "db", "catalog", "alias", "joins"
    this, schema, catalog, alias, joins = origin.take(node, *names)
    if not isinstance(this, exp.Identifier):
        raise origin.refusal(this, "a table function" if isinstance(this, exp.Func) else None)
    name = name_of(this, origin)
    known_schema = schema is None or name_of(schema, origin).lower() in ("main", "public")
    if catalog is not None or not known_schema:
        raise Refused(Reason.UNKNOWN_TABLE, origin.span(node), table=name, known=())
    label, columns = _alias(alias, origin)
    table = TableName(name, label, columns, origin.span(this))
    return _with_joins(table, joins or [], origin)
