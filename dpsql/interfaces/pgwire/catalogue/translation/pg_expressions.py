"""Expressions: each kind of node in catalogue queries, printed with its PostgreSQL type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids, pg_terms
from dpsql.interfaces.pgwire.catalogue.translation.pg_functions import (
    AGGREGATES,
    RANKS,
    RECORDS,
    aggregate,
    applied,
)
from dpsql.interfaces.pgwire.catalogue.translation.pg_json import TAKES_ROWS, whole_row
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import called, function_name, spelled
from dpsql.model.errors import Reason, Refused

SCHEMAS = ("pg_catalog", "information_schema")
_NOW = "pg_setting('now')"
CONSTANTS: dict[type[exp.Expression], pg_terms.Term] = {
    exp.CurrentUser: pg_terms.Term("pg_me()", oids.NAME, "current_user"),
    exp.SessionUser: pg_terms.Term("pg_me()", oids.NAME, "session_user"),
    exp.CurrentCatalog: pg_terms.Term("pg_database_name()", oids.NAME, "current_catalog"),
    exp.CurrentSchema: pg_terms.Term("pg_search_path(FALSE)[1]", oids.NAME, "current_schema"),
}
"""Value words without parentheses."""
CLOCKS: dict[type[exp.Expression], pg_terms.Term] = {
    exp.CurrentTimestamp: pg_terms.Term(
        f"CAST({_NOW} AS TIMESTAMPTZ)", oids.TIMESTAMPTZ, "current_timestamp"
    ),
    exp.CurrentDate: pg_terms.Term(f"CAST({_NOW} AS DATE)", oids.DATE, "current_date"),
}
"""Time words, which also occur in queries that are not about the catalogue."""

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseRightShift: ">>",
    exp.BitwiseLeftShift: "<<",
}
_PATTERNS: dict[type[exp.Expression], str] = {
    exp.Like: "({0} LIKE {1} ESCAPE {2})",
    exp.ILike: "({0} ILIKE {1} ESCAPE {2})",
    exp.RegexpLike: "(regexp_matches({0}, {1}))",
    exp.RegexpILike: "(regexp_matches({0}, {1}, 'i'))",
}
_OPERANDS = frozenset("this expression low high negate typed safe".split())
"""Allowed arguments of an operator's node. `typed` and `safe` set the rounding of divisions."""

_TIMES = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)
_PARTS = frozenset("epoch year quarter month week day dow isodow doy hour minute second".split())

_INT4_END, _INT8_END = 2**31, 2**63
_TYPE_NAMES = {
    "int": "int4",
    "integer": "int4",
    "smallint": "int2",
    "bigint": "int8",
    "boolean": "bool",
    "double precision": "float8",
    "decimal": "numeric",
}


def expression(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate one expression in its scope. Raises `Refused` for unsupported nodes."""
    kind = type(node)
    if kind in CONSTANTS or kind in CLOCKS:
        return (CONSTANTS | CLOCKS)[kind]
    if kind in _OPERATORS and any(v and k not in _OPERANDS for k, v in node.args.items()):
        pg_terms.refuse(kind.__name__.upper())
    read: Any = _NODES.get(kind) or pg_terms.refuse(kind.__name__.upper())
    term: pg_terms.Term = read(node, scope)
    negated = node.args.get("negate") and kind is not exp.Is
    return pg_terms.Term(f"(NOT {term.sql})", oids.BOOL) if negated else term


def condition(node: exp.Expression, scope: pg_terms.PgScope) -> str:
    """Return SQL for a boolean expression."""
    return casts.typed(expression(node, scope), oids.BOOL, scope).sql


def ordered(node: exp.Expression, scope: pg_terms.PgScope) -> str:
    """Return SQL for one ORDER BY key that is an expression."""
    if not isinstance(node, exp.Ordered):
        return expression(node, scope).sql
    return expression(node.this, scope).sql + direction(node)


def direction(node: exp.Ordered) -> str:
    """Return ASC or DESC, with PostgreSQL's default order of NULL."""
    way = "DESC" if node.args.get("desc") else "ASC"
    return f" {way} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _bare(node: exp.Expression) -> exp.Expression:
    """Return the expression inside parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


# --- names and constants ---


def _column(node: exp.Column, scope: pg_terms.PgScope) -> pg_terms.Term:
    if isinstance(node.this, exp.Star):
        pg_terms.refuse("a star here")
    name = spelled(node.this)
    table = spelled(node.args["table"]) if node.args.get("table") else None
    if table is None and name in ("user", "current_role") and not node.this.quoted:
        return CONSTANTS[exp.CurrentUser].named(name)
    return scope.column(name, table)


def _literal(node: exp.Expression, _scope: pg_terms.PgScope) -> pg_terms.Term:
    text = str(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        return pg_terms.unknown_literal(text)
    if not text.isdigit():
        return pg_terms.Term(f"CAST({float(text)!r} AS DOUBLE)", oids.NUMERIC)
    if int(text) >= _INT8_END:
        pg_terms.refuse("so large a number")
    return pg_terms.Term(str(int(text)), oids.INT4 if int(text) < _INT4_END else oids.INT8)


def _lines(node: exp.Concat, _scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate adjacent string constants on two lines, which SQL joins."""
    parts = node.expressions
    if not all(isinstance(p, exp.Literal) and p.is_string for p in parts):
        pg_terms.refuse("CONCAT")
    return pg_terms.unknown_literal("".join(str(p.this) for p in parts))


def _parameter(node: exp.Parameter, scope: pg_terms.PgScope) -> pg_terms.Term:
    if not (isinstance(node.this, exp.Literal) and str(node.this.this).isdigit()):
        pg_terms.refuse("this kind of parameter")
    return casts.untyped(int(str(node.this.this)), scope.reading)


def _nameless(node: exp.Expression | None) -> bool:
    """Test whether an expression names its column only by its type or as `case`."""
    while isinstance(node, exp.Cast | exp.Paren | exp.Collate):
        node = node.this
    named = (exp.Column, exp.Anonymous, exp.Dot, exp.Bracket, exp.Subquery, exp.Array, exp.Exists)
    return not isinstance(node, (*named, exp.Trim, exp.Substring, exp.Window, *CONSTANTS))


def _cast(node: exp.Cast, scope: pg_terms.PgScope) -> pg_terms.Term:
    item = expression(node.this, scope)
    oid, typmod = casts.target(node.args["to"], scope.reading.names)
    result = casts.cast(item, oid, scope)
    name = result.name
    if _nameless(node.this):
        # PostgreSQL names the column of a cast constant after the type.
        text = node.args["to"].sql("postgres").lower().split("(")[0].split(".")[-1]
        text = text.replace("[]", "").strip('"')
        name = _TYPE_NAMES.get(text, text)
    return pg_terms.Term(result.sql, oid, name, typmod, result.zero)


def _paren(node: exp.Paren, scope: pg_terms.PgScope) -> pg_terms.Term:
    term = expression(node.this, scope)
    if term.literal is not None or term.parameter is not None or term is pg_terms.NULL:
        return term
    return pg_terms.Term(f"({term.sql})", term.oid, term.name, term.typmod, term.zero)


# --- conditions and queries ---


def _case(node: exp.Case, scope: pg_terms.PgScope) -> pg_terms.Term:
    subject = expression(node.this, scope) if node.this is not None else None
    whens, results = [], []
    for branch in node.args["ifs"]:
        if subject is None:
            whens.append(condition(branch.this, scope))
        else:
            whens.append(_compare("=", subject, expression(branch.this, scope), scope).sql)
        results.append(expression(branch.args["true"], scope))
    default = node.args.get("default")
    otherwise = expression(default, scope) if default is not None else pg_terms.NULL
    (*results, otherwise), oid = casts.agreed([*results, otherwise], scope)
    branches = zip(whens, results, strict=True)
    arms = " ".join(f"WHEN {when} THEN {result.sql}" for when, result in branches)
    named = "case" if _nameless(default) else otherwise.name
    return pg_terms.Term(f"CASE {arms} ELSE {otherwise.sql} END", oid, named)


def _scalar(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    printed = scope.query(node)
    if len(printed.columns) != 1:
        pg_terms.refuse("a subquery of several columns")
    column = printed.columns[0]
    return pg_terms.Term(f"({printed.sql})", column.oid, column.name, column.typmod, column.zero)


def _exists(node: exp.Exists, scope: pg_terms.PgScope) -> pg_terms.Term:
    query = node.this
    if isinstance(query, exp.Select) and not query.expressions:  # EXISTS (SELECT FROM t)
        query = query.select("1")
    return pg_terms.Term(f"EXISTS ({scope.query(query).sql})", oids.BOOL, "exists")


def _in(node: exp.In, scope: pg_terms.PgScope) -> pg_terms.Term:
    query = node.args.get("query")
    if query is not None:
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        row = ", ".join(expression(e, scope).sql for e in left)
        row = f"({row})" if isinstance(node.this, exp.Tuple) else row
        return pg_terms.Term(f"({row} IN ({scope.query(query).sql}))", oids.BOOL)
    if node.args.get("unnest") or node.args.get("field") or not node.expressions:
        pg_terms.refuse("this form of IN")
    items = [expression(e, scope) for e in (node.this, *node.expressions)]
    (item, *rest), _ = casts.agreed(items, scope)
    return pg_terms.Term(f"({item.sql} IN ({', '.join(r.sql for r in rest)}))", oids.BOOL)


def _logic(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    word = "AND" if isinstance(node, exp.And) else "OR"
    sides = [condition(side, scope) for side in (node.this, node.expression)]
    return pg_terms.Term(f"({sides[0]} {word} {sides[1]})", oids.BOOL)


def _is(node: exp.Is, scope: pg_terms.PgScope) -> pg_terms.Term:
    value = node.expression
    if not isinstance(value, exp.Null | exp.Boolean):
        pg_terms.refuse("this form of IS")
    negated = "NOT " if node.args.get("negate") else ""
    word = expression(value, scope).sql
    return pg_terms.Term(f"({expression(node.this, scope).sql} IS {negated}{word})", oids.BOOL)


def _between(node: exp.Between, scope: pg_terms.PgScope) -> pg_terms.Term:
    parts = [expression(p, scope) for p in (node.this, node.args["low"], node.args["high"])]
    (x, low, high), _ = casts.agreed(parts, scope)
    return pg_terms.Term(f"({x.sql} BETWEEN {low.sql} AND {high.sql})", oids.BOOL)


# --- operators ---


def _comparison(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate a comparison. The right side may be ANY or ALL of an array or a subquery."""
    sign, right = _COMPARISONS[type(node)], node.expression
    call = function_name(right) if isinstance(right, exp.Anonymous) else ""
    if not (isinstance(right, exp.Any | exp.All) or call == "all"):
        return _compare(sign, expression(node.this, scope), expression(right, scope), scope)
    word = "ANY" if isinstance(right, exp.Any) else "ALL"
    inner = _bare(right.expressions[0] if call else right.this)
    left = expression(node.this, scope)
    if isinstance(inner, exp.Select | exp.Union | exp.Subquery):
        return pg_terms.Term(f"({left.sql} {sign} {word} ({scope.query(inner).sql}))", oids.BOOL)
    kind = oids.ARRAYS.get(left.oid, oids.ARRAYS[oids.TEXT])
    array = casts.typed(expression(inner, scope), kind, scope)
    left = casts.typed(left, oids.ELEMENTS.get(array.oid, oids.TEXT), scope)
    return pg_terms.Term(f"({left.sql} {sign} {word}({array.sql}))", oids.BOOL)


def _compare(
    sign: str, left: pg_terms.Term, right: pg_terms.Term, scope: pg_terms.PgScope
) -> pg_terms.Term:
    """Return a comparison of two terms. A constant takes the type of the other side."""
    (left, right), _ = casts.agreed([left, right], scope)
    return pg_terms.Term(f"({left.sql} {sign} {right.sql})", oids.BOOL)


def _arithmetic(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    sides = [expression(node.this, scope), expression(node.expression, scope)]
    (left, right), oid = casts.agreed(sides, scope)
    if isinstance(node, exp.Div) and oid == oids.NUMERIC:
        return pg_terms.Term(f"CAST({left.sql} / {right.sql} AS DECIMAL(38, 18))", oid)
    return pg_terms.Term(f"({left.sql} {_ARITHMETIC[type(node)]} {right.sql})", oid)


def _negative(node: exp.Neg, scope: pg_terms.PgScope) -> pg_terms.Term:
    term = expression(node.this, scope)
    return pg_terms.Term(f"(-{term.sql})", term.oid)


def _matched(node: exp.Expression, scope: pg_terms.PgScope, escape: str = "'\\'") -> pg_terms.Term:
    sides = [
        casts.typed(expression(side, scope), oids.TEXT, scope).sql
        for side in (node.this, node.expression)
    ]
    return pg_terms.Term(_PATTERNS[type(node)].format(*sides, escape), oids.BOOL)


def _escaped(node: exp.Escape, scope: pg_terms.PgScope) -> pg_terms.Term:
    like, character = node.this, node.expression
    if not (isinstance(like, exp.Like | exp.ILike) and isinstance(character, exp.Literal)):
        pg_terms.refuse("this form of ESCAPE")
    term = _matched(like, scope, expression(character, scope).sql)
    return pg_terms.Term(f"(NOT {term.sql})", oids.BOOL) if like.args.get("negate") else term


def _joined(node: exp.DPipe, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate `||` of arrays or of texts."""
    sides = [expression(node.this, scope), expression(node.expression, scope)]
    if any(side.oid in oids.ELEMENTS for side in sides):
        (left, right), oid = casts.agreed(sides, scope)
        return pg_terms.Term(f"list_concat({left.sql}, {right.sql})", oid)
    texts = [casts.cast(side, oids.TEXT, scope).sql for side in sides]
    return pg_terms.Term(f"({' || '.join(texts)})", oids.TEXT)


# --- texts and arrays ---


def _trimmed(node: exp.Trim, scope: pg_terms.PgScope) -> pg_terms.Term:
    text = casts.typed(expression(node.this, scope), oids.TEXT, scope).sql
    characters = node.args.get("expression")
    what = pg_terms.unknown_literal(" ") if characters is None else expression(characters, scope)
    names = {"LEADING": ("ltrim", "ltrim"), "TRAILING": ("rtrim", "rtrim")}
    position = str(node.args.get("position")).upper()
    function, name = names.get(position, ("trim", "btrim"))
    return pg_terms.Term(f"{function}({text}, {what.sql})", oids.TEXT, name)


def _substring(node: exp.Substring, scope: pg_terms.PgScope) -> pg_terms.Term:
    text = casts.typed(expression(node.this, scope), oids.TEXT, scope).sql
    parts = [node.args.get("start"), node.args.get("length")]
    rest = "".join(f", {expression(p, scope).sql}" for p in parts if p is not None)
    return pg_terms.Term(f"substring({text}{rest})", oids.TEXT, "substring")


def _array(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate ARRAY[a, b] or ARRAY(SELECT …)."""
    first = node.expressions[0] if node.expressions else None
    if isinstance(first, exp.Select | exp.Union | exp.Subquery):
        printed = scope.query(first)
        return pg_terms.Term(f"ARRAY({printed.sql})", _array_type(printed.columns[0].oid), "array")
    items, oid = casts.agreed([expression(e, scope) for e in node.expressions], scope)
    inner, array = ", ".join(item.sql for item in items), _array_type(oid)
    return pg_terms.Term(f"CAST([{inner}] AS {oids.shadow_type(array)})", array, "array")


def _array_type(element: int) -> int:
    oid = oids.ARRAYS.get(oids.TEXT if element == oids.UNKNOWN else element)
    return oid if oid is not None else pg_terms.refuse("an array of this type")


def _subscript(node: exp.Bracket, scope: pg_terms.PgScope) -> pg_terms.Term:
    array = expression(node.this, scope)
    (index,) = (
        node.expressions if len(node.expressions) == 1 else pg_terms.refuse("several subscripts")
    )
    if array.oid not in oids.ELEMENTS or isinstance(index, exp.Slice):
        pg_terms.refuse("this subscript")
    position = expression(index, scope)
    # Sqlglot subtracts one from constants, since its arrays begin at 0.
    number = index.this if isinstance(index, exp.Neg) else index
    first = int(isinstance(number, exp.Literal)) + int(array.zero)
    sql = f"pg_element({array.sql}, {position.sql} + {first})"
    return pg_terms.Term(sql, oids.ELEMENTS[array.oid], array.name)


# --- times ---


def _part(node: exp.Extract, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate EXTRACT of a part of a time."""
    part, moment = str(node.this.name).lower(), expression(node.expression, scope)
    if part not in _PARTS or moment.oid not in _TIMES:
        pg_terms.refuse(f"EXTRACT of {part}")
    sql = f"CAST(extract('{part}' FROM {moment.sql}) AS DECIMAL(38, 6))"
    return pg_terms.Term(sql, oids.NUMERIC, "extract")


def _in_zone(node: exp.AtTimeZone, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate AT TIME ZONE 'UTC', the zone of all times here."""
    moment, zone = expression(node.this, scope), expression(node.args["zone"], scope).literal
    if moment.oid not in _TIMES or str(zone).upper() not in ("UTC", "GMT"):
        pg_terms.refuse("this AT TIME ZONE")
    oid = oids.TIMESTAMP if moment.oid == oids.TIMESTAMPTZ else oids.TIMESTAMPTZ
    return pg_terms.Term(f"({moment.sql} AT TIME ZONE 'UTC')", oid, "timezone")


# --- calls ---

_FIELDS = {column.name: column.oid for columns in RECORDS.values() for column in columns}
"""Types of the columns of all functions that return several."""


def call(node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate a function call, or `(call).field` of a function that returns several columns."""
    parts = called(node)
    if parts is None:
        composite, name = expression(_bare(node.this), scope), spelled(node.expression)
        if composite.oid != oids.RECORD or name not in _FIELDS:
            pg_terms.refuse("a field of this")
        return pg_terms.Term(f"({composite.sql}).{name}", _FIELDS[name], name)
    schema, function = parts
    name = function_name(function)
    if schema is not None and schema.lower() not in SCHEMAS:
        raise Refused(Reason.UNKNOWN_FUNCTION, name=f"{schema}.{name}")
    if name in AGGREGATES:
        return _aggregate(name, function, scope)
    return applied(name, [_argument(name, a, scope) for a in function.expressions], scope)


def _argument(function: str, node: exp.Expression, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate an argument. In some functions a table's name stands for its row."""
    if function in TAKES_ROWS and isinstance(node, exp.Column) and not node.args.get("table"):
        columns = scope.row(spelled(node.this))
        if columns is not None:
            return whole_row(columns)
    return expression(node, scope)


def _aggregate(name: str, function: exp.Anonymous, scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate an aggregate with its DISTINCT and ORDER BY."""
    nodes = list(function.expressions)
    if name == "count" and len(nodes) == 1 and nodes[0] == exp.Star():
        return pg_terms.Term("count(*)", oids.INT8, "count")
    if not nodes:
        pg_terms.refuse(f"{name}()")
    order = distinct = ""
    if isinstance(nodes[-1], exp.Order):
        order = " ORDER BY " + ", ".join(ordered(o, scope) for o in nodes[-1].expressions)
        nodes[-1] = nodes[-1].this
    if isinstance(nodes[0], exp.Distinct):
        distinct = "DISTINCT "
        nodes[:1] = nodes[0].expressions
    terms = [casts.typed(_argument(name, n, scope), oids.TEXT, scope) for n in nodes]
    return aggregate(name, terms, distinct, order)


def _filtered(node: exp.Filter, scope: pg_terms.PgScope) -> pg_terms.Term:
    term = call(node.this, scope)
    if term.oid in (oids.JSON, oids.JSONB):
        pg_terms.refuse("FILTER of JSON")
    where = expression(node.expression.this, scope).sql
    return pg_terms.Term(f"{term.sql} FILTER (WHERE {where})", term.oid, term.name)


def _window(node: exp.Window, scope: pg_terms.PgScope) -> pg_terms.Term:
    parts = called(node.this)
    name = function_name(parts[1]) if parts else ""
    rank = pg_terms.Term(f"{name}()", oids.INT8, name) if name in RANKS else None
    term = rank or expression(node.this, scope)
    if name not in (*RANKS, *AGGREGATES) or node.args.get("spec") or node.args.get("alias"):
        pg_terms.refuse("this window")
    over = []
    if node.args.get("partition_by"):
        keys = ", ".join(expression(p, scope).sql for p in node.args["partition_by"])
        over.append(f"PARTITION BY {keys}")
    if node.args.get("order"):
        keys = ", ".join(ordered(o, scope) for o in node.args["order"].expressions)
        over.append(f"ORDER BY {keys}")
    return pg_terms.Term(f"{term.sql} OVER ({' '.join(over)})", term.oid, name)


_OPERATORS: dict[type[exp.Expression], Callable[[Any, pg_terms.PgScope], pg_terms.Term]] = {
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: lambda node, scope: pg_terms.Term(f"(NOT {condition(node.this, scope)})", oids.BOOL),
    exp.Is: _is,
    exp.Between: _between,
    exp.Neg: _negative,
    exp.DPipe: _joined,
    exp.Escape: _escaped,
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_PATTERNS, _matched),
}
_NODES: dict[type[exp.Expression], Callable[[Any, pg_terms.PgScope], pg_terms.Term]] = {
    **_OPERATORS,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.ByteString: _literal,
    exp.RawString: _literal,
    exp.Concat: _lines,
    exp.Null: lambda _node, _scope: pg_terms.NULL,
    exp.Boolean: lambda node, _scope: pg_terms.Term("TRUE" if node.this else "FALSE", oids.BOOL),
    exp.Parameter: _parameter,
    exp.Cast: _cast,
    exp.Paren: _paren,
    exp.Collate: lambda node, scope: expression(node.this, scope),
    exp.Case: _case,
    exp.Subquery: _scalar,
    exp.Select: _scalar,
    exp.Union: _scalar,
    exp.Exists: _exists,
    exp.In: _in,
    exp.Trim: _trimmed,
    exp.Substring: _substring,
    exp.Array: _array,
    exp.Bracket: _subscript,
    exp.Anonymous: call,
    exp.Dot: call,
    exp.Extract: _part,
    exp.AtTimeZone: _in_zone,
    exp.Filter: _filtered,
    exp.Window: _window,
}
"""Translator of each node. Nodes without an entry are refused."""
