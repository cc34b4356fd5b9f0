"""The sources of a FROM: relations, common table expressions, subqueries and functions."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_expressions import expression
from dpsql.interfaces.pgwire.catalogue.translation.pg_functions import call, returns_rows
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope, PgSource, Printed
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn, refuse
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import called, function_name, spelled
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import identifier

PLACE = "row_"
"""The column of a row's place among VALUES."""

_TABLE = frozenset({"this", "db", "catalog", "alias", "joins", "ordinality", "only"})
_SIDES = {"": "", "LEFT": "LEFT ", "RIGHT": "RIGHT ", "FULL": "FULL "}


def add_source(node: exp.Expression, scope: PgScope) -> str:
    """Print a source and put it in sight."""
    match node:
        case exp.Table():
            return _table(node, scope)
        case exp.Subquery():
            return _subquery(node, scope, scope.parent or scope)
        case exp.Lateral():
            return _lateral(node, scope)
        case exp.Values():
            return _derived(_numbered(scope.reading.query(node, scope)), node, scope)
        case exp.Unnest():
            refuse("this UNNEST")
    return refuse(type(node).__name__.upper())


def _table(node: exp.Table, scope: PgScope) -> str:
    if any(v for k, v in node.args.items() if k not in _TABLE):
        refuse("TABLESAMPLE" if node.args.get("sample") else "this table")
    if not isinstance(node.this, exp.Identifier):
        sql = _function(node, scope)
    else:
        sql = _relation(node, scope)
    for join in node.args.get("joins") or ():
        sql = f"{sql}{add_join(join, scope)}"
    return f"({sql})" if node.args.get("joins") else sql


def _relation(node: exp.Table, scope: PgScope) -> str:
    name = spelled(node.this)
    schema = spelled(node.args["db"]) if node.args.get("db") else None
    columns = scope.cte(name) if schema is None else None
    sql, number = identifier(name), None
    if columns is None:
        relation = scope.reading.names.relation(schema, name)
        if relation is None:
            raise Refused(Reason.UNKNOWN_TABLE, table=name, known=())
        sql, columns, number = relation.sql, relation.columns, relation.oid
    aliased = _aliased(sql, columns, node, scope, name)
    scope.sources[-1] = replace(scope.sources[-1], number=number)
    return aliased


def _aliased(
    sql: str, columns: tuple[PgColumn, ...], node: exp.Expression, scope: PgScope, default: str
) -> str:
    """`sql AS alias(columns)`, in sight from now on."""
    alias = node.args.get("alias")
    name = spelled(alias.this) if alias is not None and alias.this is not None else default
    given = [spelled(c) for c in (alias.args.get("columns") or ())] if alias is not None else []
    if len(given) > len(columns):
        raise Refused(Reason.SYNTAX)
    new = [*given, *(c.name for c in columns[len(given) :])]
    shown = tuple(replace(c, name=n) for n, c in zip(new, columns, strict=True))
    if any(source.alias == name for source in scope.sources):
        raise Refused(Reason.SYNTAX, why="a table's name is used twice")
    scope.sources.append(PgSource(name, shown))
    listed = f"({', '.join(identifier(c.name) for c in shown)})" if given else ""
    return f"{sql} AS {identifier(name)}{listed}"


def _function(node: exp.Table, scope: PgScope) -> str:
    """A function that returns rows as a table of one column, maybe numbered."""
    inner = node.this
    if node.args.get("db"):
        inner = exp.Dot(this=node.args["db"].copy(), expression=inner.copy())
    found = called(inner)
    name = "" if found is None else function_name(found[1])
    kept = scope.reading.names.function(name)
    if found is not None and kept is not None and not found[1].expressions:
        return _aliased(kept.sql, kept.columns, node, scope, name)
    if found is None or not returns_rows(name):
        return _single(node, inner, scope)
    item = call(inner, scope, expression)
    alias = node.args.get("alias")
    own = spelled(alias.this) if alias is not None and alias.this is not None else name
    columns = [PgColumn(own, item.oid)]
    if item.oid == oids.RECORD:
        columns = [PgColumn("x", oids.INT2), PgColumn("n", oids.INT4)]
    number = " WITH ORDINALITY" if node.args.get("ordinality") else ""
    if number:
        columns.append(PgColumn("ordinality", oids.INT8))
    if item.oid == oids.RECORD:
        listed = f"(SELECT e.x, e.n FROM (SELECT {item.sql}) AS q(e))"
        return _aliased(listed, tuple(columns), node, scope, name)
    shown = ", ".join(identifier(c.name) for c in columns)
    given = alias is not None and alias.args.get("columns")
    sql = _aliased(f"{item.sql}{number}", tuple(columns), node, scope, name)
    return sql if given else f"{sql}({shown})"


def _single(node: exp.Table, inner: exp.Expression, scope: PgScope) -> str:
    """A function that returns one value, as a table of one row."""
    item = call(inner, scope, expression)
    alias = node.args.get("alias")
    if alias is not None and alias.this is not None:
        item = item.named(spelled(alias.this))
    return _aliased(
        f"(SELECT {item.sql} AS {identifier(item.name)})",
        (PgColumn(item.name, item.oid),),
        node,
        scope,
        item.name,
    )


def _subquery(node: exp.Subquery, scope: PgScope, outer: PgScope) -> str:
    """A subquery, or a join in parentheses."""
    inner = node.this
    if isinstance(inner, exp.Table | exp.Subquery) and not node.args.get("alias"):
        sql = add_source(inner, scope)
        for join in inner.args.get("joins") or () if isinstance(inner, exp.Subquery) else ():
            sql += add_join(join, scope)
        return f"({sql})"
    return _derived(scope.reading.query(inner, outer_of(scope, outer)), node, scope)


def outer_of(scope: PgScope, outer: PgScope) -> PgScope:
    """Where a subquery of a FROM looks: around the query, and at its common table expressions."""
    return PgScope(scope.reading, outer if outer is not scope else None, ctes=scope.ctes)


def _lateral(node: exp.Lateral, scope: PgScope) -> str:
    if isinstance(node.this, exp.Subquery):
        printed = scope.reading.query(node.this.this, scope)
        sql = _derived(printed, node, scope)
        return f"LATERAL {sql}"
    table = exp.Table(this=node.this.copy(), alias=node.args.get("alias"))
    if node.args.get("ordinality"):
        table.set("ordinality", True)
    return _table(table, scope)


def _numbered(printed: Printed) -> Printed:
    """Rows with their places, in a column that no name of a client reaches."""
    sql = f"SELECT *, row_number() OVER () AS {PLACE} FROM ({printed.sql})"
    return Printed(sql, printed.columns)


def _derived(printed: Printed, node: exp.Expression, scope: PgScope) -> str:
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        raise Refused(Reason.SYNTAX, why="a subquery of FROM needs a name")
    return _aliased(f"({printed.sql})", printed.columns, node, scope, "")


def add_join(node: exp.Join, scope: PgScope) -> str:
    """A join with its condition, which sees both sides."""
    kind, side = str(node.args.get("kind") or ""), str(node.args.get("side") or "")
    if node.args.get("method") or kind not in ("", "INNER", "OUTER", "CROSS") or side not in _SIDES:
        refuse("this JOIN")
    before = {c.name for source in scope.sources for c in source.columns}
    sql = add_source(node.this, scope)
    on, using = node.args.get("on"), node.args.get("using")
    if using:
        names = [spelled(name) for name in using]
        if not set(names) <= before:
            raise Refused(Reason.UNKNOWN_COLUMN, column=names[0], known=())
        scope.merged += [n for n in names if n not in scope.merged]
        listed = ", ".join(identifier(n) for n in names)
        return f" {_SIDES[side]}JOIN {sql} USING ({listed})"
    if on is not None:
        condition = casts.typed(expression(on, scope), oids.BOOL, scope).sql
        return f" {_SIDES[side]}JOIN {sql} ON {condition}"
    return f" CROSS JOIN {sql}" if kind == "CROSS" else f", {sql}"
