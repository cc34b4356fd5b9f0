"""SELECT, UNION, VALUES and WITH: printed anew, every column under the name PostgreSQL gives it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_expressions import expression
from dpsql.interfaces.pgwire.catalogue.translation.pg_functions import (
    direction,
    is_aggregate,
    ordered,
)
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope, Printed, column_of
from dpsql.interfaces.pgwire.catalogue.translation.pg_sources import PLACE, add_join, add_source
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn, Term, refuse
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import function_name, spelled
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import identifier

_CLAUSES = frozenset(
    """kind hint distinct expressions limit offset from_ joins laterals where group having order
    with_ operation_modifiers fetch""".split()
)
_SETS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}


def query(node: exp.Expression, outer: PgScope) -> Printed:
    """A query in the sight of `outer`. Raises `Refused`."""
    match node:
        case exp.Subquery():
            return _parenthesised(node, outer)
        case exp.Select():
            return _select(node, outer)
        case exp.Union() | exp.Intersect() | exp.Except():
            return _set_operation(node, outer)
        case exp.Values():
            return values(node, outer)
    return refuse(type(node).__name__.upper())


def _parenthesised(node: exp.Subquery, outer: PgScope) -> Printed:
    inner = query(node.this, outer)
    rest = _order_by_output(node, inner.columns) + _limit(node, outer)
    return Printed(f"({inner.sql}){rest}" if rest else inner.sql, inner.columns)


def _select(node: exp.Select, outer: PgScope) -> Printed:
    unread = [k for k, v in node.args.items() if v and k not in _CLAUSES]
    if unread or node.args.get("kind"):
        refuse(" ".join(unread).upper() or "this SELECT")
    scope = outer.inner()
    prefix = _with(node, scope)
    tables = _from(node, scope)
    items = _items(node.expressions, scope)
    if not items:
        refuse("a SELECT of nothing")
    where = node.args.get("where")
    having = node.args.get("having")
    parts = [
        f"{prefix}SELECT {_distinct(node, scope)}{_listed(items)}{tables}",
        f" WHERE {_condition(where.this, scope)}" if where else "",
        _group(node.args.get("group"), items, scope),
        f" HAVING {_condition(having.this, scope)}" if having else "",
        _order(node.args.get("order"), items, scope) or _as_listed(node),
        _limit(node, scope),
    ]
    return Printed("".join(parts), tuple(column_of(item) for item in items))


def _condition(node: exp.Expression, scope: PgScope) -> str:
    return casts.typed(expression(node, scope), oids.BOOL, scope).sql


def _listed(items: Sequence[Term]) -> str:
    return ", ".join(f"{item.sql} AS {identifier(item.name)}" for item in items)


def _items(nodes: Sequence[exp.Expression], scope: PgScope) -> list[Term]:
    found: list[Term] = []
    for node in nodes:
        match node:
            case exp.Star():
                found += scope.star(None)
            case exp.Column() if isinstance(node.this, exp.Star):
                found += scope.star(spelled(node.args["table"]))
            case exp.Alias():
                item = expression(node.this, scope)
                found.append(item.named(spelled(node.args["alias"])))
            case _:
                found.append(expression(node, scope))
    return found


def _distinct(node: exp.Select, scope: PgScope) -> str:
    distinct = node.args.get("distinct")
    if distinct is None:
        return ""
    on = distinct.args.get("on")
    if on is None:
        return "DISTINCT "
    keys = on.expressions if isinstance(on, exp.Tuple) else [on]
    return f"DISTINCT ON ({', '.join(expression(k, scope).sql for k in keys)}) "


def _with(node: exp.Expression, scope: PgScope) -> str:
    """WITH, whose names the query and the later ones see; a recursive one sees itself."""
    found = node.args.get("with_")
    if found is None:
        return ""
    recursive = bool(found.args.get("recursive"))
    printed = []
    for cte in found.expressions:
        name = spelled(cte.args["alias"].this)
        given = [spelled(c) for c in cte.args["alias"].args.get("columns") or ()]
        inner = cte.this
        if recursive and isinstance(inner, exp.Union):
            scope.ctes[name] = renamed(_first(inner, scope).columns, given)
        body = query(inner, scope)
        columns = renamed(body.columns, given)
        scope.ctes[name] = columns
        listed = ", ".join(identifier(c.name) for c in columns)
        printed.append(f"{identifier(name)}({listed}) AS ({body.sql})")
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(printed)} "


def _first(node: exp.Union, scope: PgScope) -> Printed:
    """The part of a recursive query that does not see itself."""
    return query(node.this, scope)


def renamed(columns: Sequence[PgColumn], names: Sequence[str]) -> tuple[PgColumn, ...]:
    """Columns under the names of an alias's list, as far as it reaches."""
    if len(names) > len(columns):
        raise Refused(Reason.SYNTAX)
    new = [*names, *(c.name for c in columns[len(names) :])]
    return tuple(PgColumn(n, c.oid, c.typmod, c.zero) for n, c in zip(new, columns, strict=True))


def _from(node: exp.Select, scope: PgScope) -> str:
    """FROM and its joins; each source sees those before it where it is lateral."""
    source = node.args.get("from_")
    if source is None:
        return ""
    sql = add_source(source.this, scope)
    for join in node.args.get("joins") or ():
        sql += add_join(join, scope)
    for lateral in node.args.get("laterals") or ():
        sql += f", {add_source(lateral, scope)}"
    return f" FROM {sql}"


def _group(node: exp.Group | None, items: Sequence[Term], scope: PgScope) -> str:
    if node is None:
        return ""
    if any(v for k, v in node.args.items() if k != "expressions"):
        refuse("this GROUP BY")
    keys = [_group_key(key, items, scope) for key in node.expressions]
    return f" GROUP BY {', '.join(keys)}"


def _group_key(key: exp.Expression, items: Sequence[Term], scope: PgScope) -> str:
    """A position, an input column or the name of an output column, in this order."""
    if isinstance(key, exp.Literal):
        return str(_position(key, len(items)))
    if isinstance(key, exp.Column) and not key.args.get("table"):
        name = spelled(key.this)
        try:
            return scope.column(name, None).sql
        except Refused:
            found = [i for i, item in enumerate(items, 1) if item.name == name]
            if found:
                return str(found[0])
            raise
    return expression(key, scope).sql


def _position(node: exp.Literal, columns: int) -> int:
    text = str(node.this)
    if node.is_string or not text.isdigit() or not 0 < int(text) <= columns:
        raise Refused(Reason.SYNTAX, why="this is no position of a column")
    return int(text)


def _order(node: exp.Order | None, items: Sequence[Term], scope: PgScope) -> str:
    """ORDER BY: positions and output names first, then expressions over the input."""
    if node is None:
        return ""
    keys = []
    for key in node.expressions:
        place = _output(key, [item.name for item in items])
        keys.append(ordered(key, scope, expression) if place is None else place)
    return f" ORDER BY {', '.join(keys)}"


def _as_listed(node: exp.Select) -> str:
    """The order of a lone VALUES, which PostgreSQL keeps: psql counts on it to describe."""
    source = node.args.get("from_")
    if source is None or not isinstance(source.this, exp.Values):
        return ""
    if any(node.args.get(k) for k in ("joins", "laterals", "group", "having", "distinct")):
        return ""
    if any(is_aggregate(function_name(call)) for call in node.find_all(exp.Anonymous)):
        return ""
    return f" ORDER BY {PLACE}"


def _output(key: exp.Ordered, names: Sequence[str]) -> str | None:
    """The key as a position in the SELECT list, if it names one."""
    inner = key.this
    while isinstance(inner, exp.Collate | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Literal):
        return f"{_position(inner, len(names))}{direction(key)}"
    if isinstance(inner, exp.Column) and not inner.args.get("table"):
        name = spelled(inner.this)
        if name in names:
            return f"{names.index(name) + 1}{direction(key)}"
    return None


def _order_by_output(node: exp.Expression, columns: Sequence[PgColumn]) -> str:
    order = node.args.get("order")
    if order is None:
        return ""
    keys = [_output(key, [c.name for c in columns]) for key in order.expressions]
    if any(key is None for key in keys):
        refuse("ORDER BY of an expression over UNION")
    return f" ORDER BY {', '.join(str(key) for key in keys)}"


def _limit(node: exp.Expression, scope: PgScope) -> str:
    sql = ""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit and limit.expression
    if isinstance(limit, exp.Fetch) and count is None:
        sql = " LIMIT 1"
    elif count is not None and not isinstance(count, exp.Null):
        sql = f" LIMIT {casts.typed(expression(count, scope), oids.INT8, scope).sql}"
    if offset is not None:
        start = casts.typed(expression(offset.expression, scope), oids.INT8, scope)
        sql += f" OFFSET {start.sql}"
    return sql


def _set_operation(node: exp.Expression, outer: PgScope) -> Printed:
    scope = outer.inner()
    prefix = _with(node, scope)
    left, right = query(node.this, scope), query(node.expression, scope)
    if len(left.columns) != len(right.columns):
        raise Refused(Reason.SYNTAX, why="both sides of UNION must have as many columns")
    word = _SETS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    columns = tuple(
        PgColumn(a.name, oids.common(a.oid, b.oid), a.typmod if a.typmod == b.typmod else -1)
        for a, b in zip(left.columns, right.columns, strict=True)
    )
    rest = _order_by_output(node, columns) + _limit(node, scope)
    return Printed(f"{prefix}({left.sql}) {word} ({right.sql}){rest}", columns)


def values(node: exp.Values, outer: PgScope) -> Printed:
    """VALUES: columns column1, column2, …"""
    rows = [[expression(e, outer) for e in row.expressions] for row in node.expressions]
    types = [oids.common(*(item.oid for item in column)) for column in zip(*rows, strict=True)]
    columns = tuple(PgColumn(f"column{i}", oid) for i, oid in enumerate(types, 1))
    listed = ", ".join(
        "(" + ", ".join(casts.typed(i, t, outer).sql for i, t in zip(r, types, strict=True)) + ")"
        for r in rows
    )
    names = ", ".join(identifier(c.name) for c in columns)
    return Printed(f"SELECT * FROM (VALUES {listed}) AS v({names})", columns)
