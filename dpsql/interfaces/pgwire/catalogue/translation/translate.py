"""Translation of one statement: SELECT, UNION, VALUES and WITH, printed from its tree.

Every column has the name that PostgreSQL gives it. Unsupported parts are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids, pg_expressions, pg_functions
from dpsql.interfaces.pgwire.catalogue.translation.pg_expressions import condition, expression
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import (
    Names,
    PgColumn,
    PgScope,
    PgSource,
    Printed,
    Reading,
    Term,
    refuse,
)
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import (
    called,
    function_name,
    read,
    spelled,
)
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import identifier

PLACE = "row_"
"""Column of a row's index among VALUES, with a name that no client can use."""

OF_CONSTANTS = frozenset({"age", "generate_series", "unnest"})
"""Functions that are often called with constants, independent of the catalogue."""

_STAR = exp.Star()
_SIDES = {"": "", "LEFT": "LEFT ", "RIGHT": "RIGHT ", "FULL": "FULL "}
_TABLE = frozenset("this db catalog alias joins ordinality only".split())
_CLAUSES = frozenset(
    """hint distinct expressions limit offset from_ joins laterals where group having order with_
    operation_modifiers fetch""".split()
)
_SETS: dict[type[exp.Expression], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}


@dataclass(frozen=True, slots=True)
class Translation:
    """DuckDB SQL over the shadow, the columns that it returns, and the types of its parameters."""

    sql: str
    columns: tuple[PgColumn, ...]
    parameters: tuple[int, ...]


def translate(text: str, names: Names, values: tuple[Any, ...] | None, count: int) -> Translation:
    """Translate one statement. Without `values`, its `count` parameters are NULL.

    Raises `Refused`.
    """
    reading = Reading(names, values, _query)
    root = read(text)
    try:
        printed = _query(root, PgScope(reading))
    except RecursionError:  # 1 + 1 + 1 ... is a deep tree that is read without recursion
        raise Refused(Reason.TOO_LARGE, what="levels") from None
    types = tuple(reading.types.get(n, oids.TEXT) for n in range(1, count + 1))
    columns = (replace(c, oid=oids.TEXT) if c.oid == oids.UNKNOWN else c for c in printed.columns)
    return Translation(printed.sql, tuple(columns), types)


def concerns(text: str, names: Names) -> bool:
    """Test whether a statement reads only the catalogue. False if it cannot be parsed."""
    try:
        root = read(text)
    except Refused:
        return False
    if not isinstance(root, exp.Query):
        return False
    tables = [t for t in root.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
    if not tables:
        return _asks_nothing_else(root, names)
    ctes = {spelled(c.args["alias"].this) for c in root.find_all(exp.CTE)}
    return all(_of_catalogue(t, ctes, names) for t in tables)


def _of_catalogue(table: exp.Table, ctes: set[str], names: Names) -> bool:
    name = spelled(table.this)
    if table.args.get("db"):
        return spelled(table.args["db"]) in pg_expressions.SCHEMAS
    meant = name in ctes and not _in_definition(table, name)
    return meant or names.relation(None, name) is not None


def _in_definition(table: exp.Table, name: str) -> bool:
    """Test whether a table stands in a non-recursive definition with its own name.

    It then means the table outside of the definition.
    """
    cte = table.find_ancestor(exp.CTE)
    if cte is None or spelled(cte.args["alias"].this) != name:
        return False
    return not (isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive"))


def _asks_nothing_else(root: exp.Expression, names: Names) -> bool:
    """Test whether a statement without tables has only known calls, and at least one of the
    catalogue.

    Results of constants reveal nothing to other analysts.
    """
    calls = [function_name(c) for c in root.find_all(exp.Anonymous)]
    words = any(isinstance(node, tuple(pg_expressions.CONSTANTS)) for node in root.walk())
    named = words or any(map(_casts, root.find_all(exp.Cast)))
    listed = (pg_functions.is_known(name) or names.function(name) is not None for name in calls)
    return (named or not (pg_functions.TIMES | OF_CONSTANTS).issuperset(calls)) and all(listed)


def _casts(node: exp.Cast) -> bool:
    """Test whether a cast is to a type of the catalogue."""
    target = node.args["to"]
    return isinstance(target, exp.ObjectIdentifier) or bool(target.args.get("kind"))


# --- queries ---


def _query(node: exp.Expression, outer: PgScope) -> Printed:
    """Translate a query inside the scope `outer`. Raises `Refused`."""
    match node:
        case exp.Subquery():
            inner = _query(node.this, outer)
            rest = _order_by_output(node, inner.columns) + _limit(node, outer)
            return Printed(f"({inner.sql}){rest}" if rest else inner.sql, inner.columns)
        case exp.Select():
            return _select(node, outer)
        case exp.Union() | exp.Intersect() | exp.Except():
            return _set_operation(node, outer)
        case exp.Values():
            return _values(node, outer)
    return refuse(type(node).__name__.upper())


def _select(node: exp.Select, outer: PgScope) -> Printed:
    unread = [k for k, v in node.args.items() if v and k not in _CLAUSES]
    if unread:
        refuse(" ".join(unread).upper())
    scope = PgScope(outer.reading, outer)
    prefix = _with(node, scope)
    tables = _from(node, scope)
    items = _items(node.expressions, scope)
    if not items:
        refuse("a SELECT of nothing")
    where, having = node.args.get("where"), node.args.get("having")
    listed = ", ".join(f"{item.sql} AS {identifier(item.name)}" for item in items)
    parts = [
        f"{prefix}SELECT {_distinct(node, scope)}{listed}{tables}",
        f" WHERE {condition(where.this, scope)}" if where else "",
        _group(node.args.get("group"), items, scope),
        f" HAVING {condition(having.this, scope)}" if having else "",
        _order(node, items, scope),
        _limit(node, scope),
    ]
    return Printed("".join(parts), tuple(item.column for item in items))


def _items(nodes: Sequence[exp.Expression], scope: PgScope) -> list[Term]:
    items: list[Term] = []
    for node in nodes:
        match node:
            case exp.Star() if node == _STAR:
                items += scope.star(None)
            case exp.Column() if node.this == _STAR:
                items += scope.star(spelled(node.args["table"]))
            case exp.Alias():
                items.append(expression(node.this, scope).named(spelled(node.args["alias"])))
            case _:
                items.append(expression(node, scope))
    return items


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
    """Translate WITH. The query and later definitions see its names; a recursive one sees
    itself.
    """
    clause = node.args.get("with_")
    if clause is None:
        return ""
    recursive = bool(clause.args.get("recursive"))
    printed = []
    for cte in clause.expressions:
        name, given = _alias(cte, "")
        if recursive and isinstance(cte.this, exp.Union):
            # Its columns are those of the non-recursive part.
            scope.ctes[name] = _named(_query(cte.this.this, scope).columns, given)
        body = _query(cte.this, scope)
        columns = scope.ctes[name] = _named(body.columns, given)
        printed.append(f"{identifier(name)}({_listed(columns)}) AS ({body.sql})")
    return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(printed)} "


def _alias(node: exp.Expression, default: str) -> tuple[str, list[str]]:
    """Return the alias of a source, and the given names of its columns."""
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        return default, []
    return spelled(alias.this), [spelled(c) for c in alias.args.get("columns") or ()]


def _named(columns: Sequence[PgColumn], names: Sequence[str]) -> tuple[PgColumn, ...]:
    """Return columns renamed by an alias list, as far as it reaches."""
    if len(names) > len(columns):
        raise Refused(Reason.SYNTAX)
    new = [*names, *(c.name for c in columns[len(names) :])]
    return tuple(replace(c, name=n) for n, c in zip(new, columns, strict=True))


def _listed(columns: Sequence[PgColumn]) -> str:
    return ", ".join(identifier(c.name) for c in columns)


def _group(node: exp.Group | None, items: Sequence[Term], scope: PgScope) -> str:
    if node is None:
        return ""
    if any(v for k, v in node.args.items() if k != "expressions"):
        refuse("this GROUP BY")
    keys = [_group_key(key, items, scope) for key in node.expressions]
    return f" GROUP BY {', '.join(keys)}"


def _group_key(key: exp.Expression, items: Sequence[Term], scope: PgScope) -> str:
    """Return SQL for a GROUP BY key: a position, an input column, or an output name."""
    if isinstance(key, exp.Literal):
        return str(_position(key, len(items)))
    try:
        return expression(key, scope).sql
    except Refused:
        names = [item.name for item in items]
        plain = isinstance(key, exp.Column) and not key.args.get("table")
        if plain and spelled(key.this) in names:
            return str(names.index(spelled(key.this)) + 1)
        raise


def _position(node: exp.Literal, columns: int) -> int:
    text = str(node.this)
    if node.is_string or not text.isdigit() or not 0 < int(text) <= columns:
        raise Refused(Reason.SYNTAX, why="this is no position of a column")
    return int(text)


def _order(node: exp.Select, items: Sequence[Term], scope: PgScope) -> str:
    """Return ORDER BY: positions and output names first, then expressions over the input."""
    order = node.args.get("order")
    if order is None:
        return _as_listed(node)
    names = [item.name for item in items]
    keys = [_output(key, names) or pg_expressions.ordered(key, scope) for key in order.expressions]
    return f" ORDER BY {', '.join(keys)}"


def _as_listed(node: exp.Select) -> str:
    """Return the order of a lone VALUES, which PostgreSQL keeps. The descriptions of psql rely on
    it.
    """
    source = node.args.get("from_")
    if source is None or not isinstance(source.this, exp.Values):
        return ""
    if any(node.args.get(k) for k in ("joins", "laterals", "group", "having", "distinct")):
        return ""
    if any(function_name(c) in pg_functions.AGGREGATES for c in node.find_all(exp.Anonymous)):
        return ""
    return f" ORDER BY {PLACE}"


def _output(key: exp.Ordered, names: Sequence[str]) -> str | None:
    """Return the key as a position in the SELECT list, or None."""
    inner = key.this
    while isinstance(inner, exp.Collate | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Literal):
        return f"{_position(inner, len(names))}{pg_expressions.direction(key)}"
    if isinstance(inner, exp.Column) and not inner.args.get("table"):
        name = spelled(inner.this)
        if name in names:
            return f"{names.index(name) + 1}{pg_expressions.direction(key)}"
    return None


def _order_by_output(node: exp.Expression, columns: Sequence[PgColumn]) -> str:
    order = node.args.get("order")
    if order is None:
        return ""
    names = [c.name for c in columns]
    keys = [
        _output(key, names) or refuse("ORDER BY of an expression over UNION")
        for key in order.expressions
    ]
    return f" ORDER BY {', '.join(keys)}"


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
    scope = PgScope(outer.reading, outer)
    prefix = _with(node, scope)
    left, right = _query(node.this, scope), _query(node.expression, scope)
    if len(left.columns) != len(right.columns):
        raise Refused(Reason.SYNTAX, why="both sides of UNION must have as many columns")
    word = _SETS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    columns = tuple(
        PgColumn(a.name, oids.common(a.oid, b.oid), a.typmod if a.typmod == b.typmod else -1)
        for a, b in zip(left.columns, right.columns, strict=True)
    )
    rest = _order_by_output(node, columns) + _limit(node, scope)
    return Printed(f"{prefix}({left.sql}) {word} ({right.sql}){rest}", columns)


def _values(node: exp.Values, outer: PgScope) -> Printed:
    """Translate VALUES with columns column1, column2, …"""
    rows = [[expression(e, outer) for e in row.expressions] for row in node.expressions]
    types = [oids.common(*(item.oid for item in column)) for column in zip(*rows, strict=True)]
    columns = tuple(PgColumn(f"column{i}", oid) for i, oid in enumerate(types, 1))
    listed = ", ".join(
        "(" + ", ".join(casts.typed(i, t, outer).sql for i, t in zip(r, types, strict=True)) + ")"
        for r in rows
    )
    return Printed(f"SELECT * FROM (VALUES {listed}) AS v({_listed(columns)})", columns)


# --- sources ---


def _from(node: exp.Select, scope: PgScope) -> str:
    """Translate FROM and its joins. A lateral source sees those before it."""
    source = node.args.get("from_")
    if source is None:
        return ""
    sql = _source(source.this, scope) + _joins(node, scope)
    for lateral in node.args.get("laterals") or ():
        sql += f", {_source(lateral, scope)}"
    return f" FROM {sql}"


def _source(node: exp.Expression, scope: PgScope) -> str:
    """Print a source and add it to the scope."""
    match node:
        case exp.Table():
            return _table(node, scope)
        case exp.Subquery():
            return _subquery(node, scope)
        case exp.Lateral() if isinstance(node.this, exp.Subquery):
            return f"LATERAL {_derived(_query(node.this.this, scope), node, scope)}"
        case exp.Lateral():
            return _function(node, node.this, scope)
        case exp.Values():
            printed = _values(node, scope)
            sql = f"SELECT *, row_number() OVER () AS {PLACE} FROM ({printed.sql})"
            return _derived(Printed(sql, printed.columns), node, scope)
    return refuse(type(node).__name__.upper())


def _table(node: exp.Table, scope: PgScope) -> str:
    if any(v for k, v in node.args.items() if k not in _TABLE):
        refuse("TABLESAMPLE" if node.args.get("sample") else "this table")
    if isinstance(node.this, exp.Identifier):
        sql = _relation(node, scope)
    else:
        db = node.args.get("db")
        inner = exp.Dot(this=db.copy(), expression=node.this.copy()) if db else node.this
        sql = _function(node, inner, scope)
    joins = _joins(node, scope)
    return f"({sql}{joins})" if joins else sql


def _relation(node: exp.Table, scope: PgScope) -> str:
    name = spelled(node.this)
    schema = spelled(node.args["db"]) if node.args.get("db") else None
    columns = scope.cte(name) if schema is None else None
    if columns is not None:
        return _aliased(identifier(name), columns, node, scope, name)
    relation = scope.reading.names.relation(schema, name)
    if relation is None:
        raise Refused(Reason.UNKNOWN_TABLE, table=name, known=())
    return _aliased(relation.sql, relation.columns, node, scope, name, relation.oid)


def _aliased(
    sql: str,
    columns: Sequence[PgColumn],
    node: exp.Expression,
    scope: PgScope,
    default: str,
    number: int | None = None,
) -> str:
    """Return `sql AS alias(columns)`, and add it to the scope."""
    name, given = _alias(node, default)
    shown = _named(columns, given)
    if any(source.alias == name for source in scope.sources):
        raise Refused(Reason.SYNTAX, why="a table's name is used twice")
    scope.sources.append(PgSource(name, shown, number))
    return f"{sql} AS {identifier(name)}" + (f"({_listed(shown)})" if given else "")


def _function(node: exp.Expression, inner: exp.Expression, scope: PgScope) -> str:
    """Translate a function that returns rows to a table of one column, maybe with ordinality."""
    parts = called(inner)
    name = "" if parts is None else function_name(parts[1])
    rows = scope.reading.names.function(name)
    if parts is not None and rows is not None and not parts[1].expressions:
        return _aliased(rows.sql, rows.columns, node, scope, name)
    if name == "unnest" and parts is not None and len(parts[1].expressions) > 1:
        return _side_by_side(node, parts[1].expressions, scope)
    item = pg_expressions.call(inner, scope)
    own, given = _alias(node, name)
    if name not in pg_functions.SETS:  # one value, as a table of one row
        item = item.named(own if node.args.get("alias") else item.name)
        sql = f"(SELECT {item.sql} AS {identifier(item.name)})"
        return _aliased(sql, [item.column], node, scope, item.name)
    if item.oid == oids.RECORD:
        listed = ", ".join(f"e.{column.name}" for column in pg_functions.RECORDS[name])
        sql = f"(SELECT {listed} FROM (SELECT {item.sql}) AS q(e))"
        return _aliased(sql, pg_functions.RECORDS[name], node, scope, name)
    columns = [PgColumn(own, item.oid)]
    if node.args.get("ordinality"):
        columns.append(PgColumn("ordinality", oids.INT8))
        item = replace(item, sql=f"{item.sql} WITH ORDINALITY")
    sql = _aliased(item.sql, columns, node, scope, name)
    return sql if given else f"{sql}({_listed(columns)})"


def _side_by_side(node: exp.Expression, arrays: list[exp.Expression], scope: PgScope) -> str:
    """Translate UNNEST of several arrays: a column of each, with the rows of the longest."""
    items = [casts.typed(expression(a, scope), oids.ARRAYS[oids.TEXT], scope) for a in arrays]
    if any(item.oid not in oids.ELEMENTS for item in items):
        refuse("unnest of this")
    longest = ", ".join(f"coalesce(len({item.sql}), 0)" for item in items)
    sets = [f"unnest({item.sql}) AS c{i}" for i, item in enumerate(items)]
    sets.append(f"unnest(range(1, greatest({longest}) + 1)) AS {PLACE}")
    columns = [PgColumn("unnest", oids.ELEMENTS[item.oid]) for item in items]
    if node.args.get("ordinality"):
        columns.append(PgColumn("ordinality", oids.INT8))
    listed = ", ".join([f"c{i}" for i in range(len(items))] + [PLACE] * (len(columns) > len(items)))
    sql = f"LATERAL (SELECT {listed} FROM (SELECT {', '.join(sets)}))"
    _own, given = _alias(node, "unnest")
    sql = _aliased(sql, columns, node, scope, "unnest")
    return sql if given else f"{sql}({_listed(columns)})"


def _subquery(node: exp.Subquery, scope: PgScope) -> str:
    """Translate a subquery, which sees the outer scope and WITH, or a join in parentheses."""
    inner = node.this
    if isinstance(inner, exp.Table | exp.Subquery) and not node.args.get("alias"):
        sql = _source(inner, scope)
        return f"({sql}{_joins(inner, scope) if isinstance(inner, exp.Subquery) else ''})"
    around = PgScope(scope.reading, scope.parent, ctes=scope.ctes)
    return _derived(_query(inner, around), node, scope)


def _derived(printed: Printed, node: exp.Expression, scope: PgScope) -> str:
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        raise Refused(Reason.SYNTAX, why="a subquery of FROM needs a name")
    return _aliased(f"({printed.sql})", printed.columns, node, scope, "")


def _joins(node: exp.Expression, scope: PgScope) -> str:
    return "".join(_join(join, scope) for join in node.args.get("joins") or ())


def _join(node: exp.Join, scope: PgScope) -> str:
    """Translate a join with its condition, which sees both sides."""
    kind, side = str(node.args.get("kind") or ""), str(node.args.get("side") or "")
    if node.args.get("method") or kind not in ("", "INNER", "OUTER", "CROSS") or side not in _SIDES:
        refuse("this JOIN")
    before = {c.name for source in scope.sources for c in source.columns}
    sql = _source(node.this, scope)
    on, using = node.args.get("on"), node.args.get("using")
    if using:
        names = [spelled(name) for name in using]
        if not set(names) <= before:
            raise Refused(Reason.UNKNOWN_COLUMN, column=names[0], known=())
        scope.merged += [n for n in names if n not in scope.merged]
        return f" {_SIDES[side]}JOIN {sql} USING ({', '.join(map(identifier, names))})"
    if on is not None:
        return f" {_SIDES[side]}JOIN {sql} ON {condition(on, scope)}"
    return f" CROSS JOIN {sql}" if kind == "CROSS" else f", {sql}"
