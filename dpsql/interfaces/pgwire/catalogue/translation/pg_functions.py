"""Calls: which functions may be asked, what they return, and how the shadow computes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids
from dpsql.interfaces.pgwire.catalogue.translation.function_table import FUNCTIONS, PgFunction
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import Term, refuse, unknown_literal
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import called, function_name
from dpsql.model.errors import Reason, Refused

Read = Callable[[exp.Expression, PgScope], Term]
SCHEMAS = ("pg_catalog", "information_schema")

CONSTANTS: dict[type[exp.Expression], Term] = {
    exp.CurrentUser: Term("pg_me()", oids.NAME, "current_user"),
    exp.SessionUser: Term("pg_me()", oids.NAME, "session_user"),
    exp.CurrentCatalog: Term("pg_database_name()", oids.NAME, "current_catalog"),
    exp.CurrentSchema: Term("'public'", oids.NAME, "current_schema"),
}
"""Words without parentheses that stand for a value."""

_AGGREGATES = {
    "count": oids.INT8,
    "min": None,
    "max": None,
    "sum": oids.INT8,
    "array_agg": None,
    "string_agg": oids.TEXT,
    "bool_and": oids.BOOL,
    "bool_or": oids.BOOL,
    "every": oids.BOOL,
}
"""The type of an aggregate; None where it follows from its argument's."""

_SHADOW_NAMES = {"array_agg": "list", "every": "bool_and"}
_ANY_NUMBER = ("coalesce", "greatest", "least", "nullif")
_RANKS = ("row_number", "rank", "dense_rank")


def call(node: exp.Expression, scope: PgScope, read: Read) -> Term:
    """A function's call, plain, over a window or with a filter."""
    match node:
        case exp.Window():
            return _window(node, scope, read)
        case exp.Filter():
            inner = call(node.this, scope, read)
            condition = read(node.expression.this, scope)
            sql = f"{inner.sql} FILTER (WHERE {condition.sql})"
            return Term(sql, inner.oid, inner.name)
    found = called(node)
    if found is None:
        refuse("this call")
    schema, function = found
    name = function_name(function)
    if schema is not None and schema.lower() not in SCHEMAS:
        raise Refused(Reason.UNKNOWN_FUNCTION, name=f"{schema}.{name}")
    if name in _AGGREGATES:
        return _aggregate(name, function, scope, read)
    arguments = [read(a, scope) for a in function.expressions]
    if name in _SETS:
        return _SETS[name](name, arguments, scope)
    if name == "format":
        return _format(arguments, scope)
    return _plain(name, arguments, scope)


def _plain(name: str, arguments: list[Term], scope: PgScope) -> Term:
    if name in _ANY_NUMBER:
        agreed, oid = casts.agreed(arguments, scope)
        return Term(f"{name}({', '.join(a.sql for a in agreed)})", oid, name)
    row = FUNCTIONS.get((name, len(arguments)))
    if row is None:
        raise Refused(Reason.UNKNOWN_FUNCTION, name=name)
    return _applied(name, row, arguments, scope)


def _applied(name: str, row: PgFunction, arguments: list[Term], scope: PgScope) -> Term:
    """A row of the table over its arguments; constants take the types that the row names."""
    given = []
    for argument, oid in zip(arguments, row.arguments, strict=True):
        item = casts.typed(argument, oid or oids.TEXT, scope)
        if oid in oids.REGS and item.oid in oids.TEXTS:
            item = casts.cast(item, oid, scope)
        given.append(item)
    first = given[0] if given else None
    like_first = oids.TEXT if first is None else first.oid
    oid = like_first if row.oid is None else row.oid
    # The first position of a vector is 0, that of other arrays 1.
    base = 0 if first is not None and first.zero else 1
    sql = row.sql.format(*(item.sql for item in given), base=base)
    return Term(sql, oid, name)


def _format(arguments: list[Term], scope: PgScope) -> Term:
    """FORMAT of a constant with %s and %I, which are all that tools write."""
    template = arguments[0].literal if arguments else None
    if template is None:
        refuse("format without a constant")
    pieces = re.split("%([sI])", template)
    if "%" in "".join(pieces[::2]) or len(pieces) // 2 != len(arguments) - 1:
        refuse("this format")
    values = [casts.cast(v, oids.TEXT, scope).sql for v in arguments[1:]]
    told = [_FORMATS[kind].format(v) for kind, v in zip(pieces[1::2], values, strict=True)]
    plain = [unknown_literal(text).sql for text in pieces[::2]]
    parts = [part for pair in zip_longest(plain, told) for part in pair if part is not None]
    return Term("(" + " || ".join(parts) + ")", oids.TEXT, "format")


_FORMATS = {"s": "coalesce({}, '')", "I": "pg_quote_ident({})"}
"""What FORMAT writes of a value: its text, or a name quoted where it must be."""


def _aggregate(name: str, function: exp.Anonymous, scope: PgScope, read: Read) -> Term:
    """An aggregate with its DISTINCT and ORDER BY."""
    nodes = list(function.expressions)
    if name == "count" and len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        return Term("count(*)", oids.INT8, "count")
    if not nodes:
        refuse(f"{name}()")
    order = ""
    if isinstance(nodes[-1], exp.Order):
        order = " ORDER BY " + ", ".join(ordered(o, scope, read) for o in nodes[-1].expressions)
        nodes[-1] = nodes[-1].this
    distinct = ""
    if isinstance(nodes[0], exp.Distinct):
        distinct = "DISTINCT "
        nodes[:1] = nodes[0].expressions
    terms = [casts.typed(t, oids.TEXT, scope) for t in (read(n, scope) for n in nodes)]
    oid = _AGGREGATES[name]
    if name == "array_agg":
        oid = oids.ARRAYS.get(terms[0].oid) or refuse("an array of this type")
    oid = terms[0].oid if oid is None else oid
    inner = ", ".join(t.sql for t in terms)
    sql = f"{_SHADOW_NAMES.get(name, name)}({distinct}{inner}{order})"
    if name == "sum":
        if terms[0].oid == oids.NUMERIC:
            return Term(sql, oids.NUMERIC, name)
        sql = f"CAST({sql} AS BIGINT)"
    return Term(sql, oid, name)


def _window(node: exp.Window, scope: PgScope, read: Read) -> Term:
    inner = node.this
    found = called(inner)
    name = function_name(found[1]) if found else ""
    if name in _RANKS:
        function = Term(f"{name}()", oids.INT8, name)
    else:
        function = call(inner, scope, read)
        if name not in _AGGREGATES:
            refuse("this window")
    if node.args.get("spec") or node.args.get("alias"):
        refuse("this window")
    parts = []
    if node.args.get("partition_by"):
        keys = ", ".join(read(p, scope).sql for p in node.args["partition_by"])
        parts.append(f"PARTITION BY {keys}")
    if node.args.get("order"):
        keys = ", ".join(ordered(o, scope, read) for o in node.args["order"].expressions)
        parts.append(f"ORDER BY {keys}")
    return Term(f"{function.sql} OVER ({' '.join(parts)})", function.oid, name)


def ordered(node: exp.Expression, scope: PgScope, read: Read) -> str:
    """One key of an ORDER BY that is an expression."""
    if not isinstance(node, exp.Ordered):
        return read(node, scope).sql
    return read(node.this, scope).sql + direction(node)


def direction(node: exp.Ordered) -> str:
    """ASC or DESC, with the place of NULL that PostgreSQL gives it."""
    way = "DESC" if node.args.get("desc") else "ASC"
    return f" {way} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _unnest(name: str, arguments: list[Term], scope: PgScope) -> Term:
    (array,) = arguments if len(arguments) == 1 else refuse("unnest of several arrays")
    array = casts.typed(array, oids.ARRAYS[oids.TEXT], scope)
    if array.oid not in oids.ELEMENTS:
        refuse("unnest of this")
    return Term(f"unnest({array.sql})", oids.ELEMENTS[array.oid], name)


def _series(name: str, arguments: list[Term], _scope: PgScope) -> Term:
    if not 1 < len(arguments) < 4:  # noqa: PLR2004 - first, last and maybe a step
        refuse(f"{name} of {len(arguments)} arguments")
    inner = ", ".join(a.sql for a in arguments)
    oid = oids.common(*(a.oid for a in arguments))
    kind = oids.shadow_type(oid) if oid in oids.INTEGERS else refuse(f"this {name}")
    return Term(f"unnest(pg_series({inner})::{kind}[])", oid, name)


def _subscripts(name: str, arguments: list[Term], _scope: PgScope) -> Term:
    array = arguments[0]
    first = 0 if array.zero else 1
    last = f"len({array.sql}) - {1 - first}"
    return Term(f"unnest(generate_series({first}, {last})::INTEGER[])", oids.INT4, name)


def _expanded(name: str, arguments: list[Term], _scope: PgScope) -> Term:
    """Pairs (x, n) of an array's elements and their numbers from 1."""
    return Term(f"unnest(pg_pairs({arguments[0].sql}))", oids.RECORD, name)


def _itself(name: str, arguments: list[Term], scope: PgScope) -> Term:
    relation = casts.typed(arguments[0], oids.REGCLASS, scope)
    return Term(f"unnest([{relation.sql}])", oids.REGCLASS, name)


_SETS: dict[str, Callable[[str, list[Term], PgScope], Term]] = {
    "unnest": _unnest,
    "generate_series": _series,
    "generate_subscripts": _subscripts,
    "_pg_expandarray": _expanded,
    "pg_partition_ancestors": _itself,
}
"""Functions that return rows: in a SELECT list, or as a table of one column."""


def is_known(name: str) -> bool:
    """Whether a function may be asked, with some arguments."""
    words = ("ALL", "format", *_ANY_NUMBER)
    listed = any(name == function for function, _ in FUNCTIONS)
    return listed or name in words or name in _AGGREGATES or name in _SETS


def is_aggregate(name: str) -> bool:
    """Whether a function makes one row of many."""
    return name in _AGGREGATES


def returns_rows(name: str) -> bool:
    """Whether a function may stand in a FROM."""
    return name in _SETS
