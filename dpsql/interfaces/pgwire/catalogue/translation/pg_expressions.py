"""Expressions: each node that catalogue questions contain, printed with its PostgreSQL type."""

from __future__ import annotations

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_functions import CONSTANTS, call
from dpsql.interfaces.pgwire.catalogue.translation.pg_operators import compare, operator
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import (
    NULL,
    Term,
    refuse,
    unknown_literal,
)
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import called, spelled

_INT4_END, _INT8_END = 2**31, 2**63


def expression(node: exp.Expression, scope: PgScope) -> Term:
    """One expression in its scope. Raises `Refused` for nodes that nothing here answers."""
    match node:
        case exp.Column():
            return _column(node, scope)
        case exp.Paren():
            inner = expression(node.this, scope)
            return inner if inner.literal is not None else _wrapped(inner)
        case exp.Cast():
            return _cast(node, scope)
        case exp.Case():
            return _case(node, scope)
        case exp.Subquery() | exp.Select() | exp.Union():
            return _scalar(node, scope)
        case exp.Exists():
            printed = scope.reading.query(node.this, scope)
            return Term(f"EXISTS ({printed.sql})", oids.BOOL, "exists")
        case exp.Array():
            return _array(node, scope)
        case exp.Bracket():
            return _subscript(node, scope)
        case exp.Dot() if called(node) is None:
            return _field(node, scope)
        case exp.Window() | exp.Filter() | exp.Anonymous() | exp.Dot():
            return call(node, scope, expression)
        case exp.Collate():
            return expression(node.this, scope)
        case exp.In():
            return _in(node, scope)
    found = _plain(node, scope)
    negated = node.args.get("negate") and not isinstance(node, exp.Is)
    return Term(f"(NOT {found.sql})", oids.BOOL) if negated else found


def _plain(node: exp.Expression, scope: PgScope) -> Term:
    """Constants, words that stand for a value, and operators."""
    match node:
        case exp.Literal() if node.is_string:
            return unknown_literal(str(node.this))
        case exp.ByteString() | exp.RawString():
            return unknown_literal(str(node.this))
        case exp.Literal():
            return _number(str(node.this))
        case exp.Concat():
            return _joined(node)
        case exp.Null():
            return NULL
        case exp.Boolean():
            return Term("TRUE" if node.this else "FALSE", oids.BOOL)
        case exp.Parameter():
            return _parameter(node, scope)
        case exp.Trim() | exp.Substring():
            return _text_syntax(node, scope)
    word = CONSTANTS.get(type(node))
    return word if word is not None else operator(node, scope, expression)


def _nameless(node: exp.Expression | None) -> bool:
    """Whether an expression suggests no name but that of its type, or `case`."""
    while isinstance(node, exp.Cast | exp.Paren | exp.Collate):
        node = node.this
    named = (exp.Column, exp.Anonymous, exp.Dot, exp.Bracket, exp.Subquery, exp.Array, exp.Exists)
    return not isinstance(node, (*named, exp.Trim, exp.Substring, exp.Window, *CONSTANTS))


def _wrapped(term: Term) -> Term:
    if term.parameter is not None or term is NULL:
        return term
    return Term(f"({term.sql})", term.oid, term.name, term.typmod, term.zero)


def _column(node: exp.Column, scope: PgScope) -> Term:
    if isinstance(node.this, exp.Star):
        refuse("a star here")
    name = spelled(node.this)
    table = spelled(node.args["table"]) if node.args.get("table") else None
    if table is None and name in ("user", "current_role") and not node.this.quoted:
        return CONSTANTS[exp.CurrentUser].named(name)
    return scope.column(name, table)


def _number(text: str) -> Term:
    if not text.isdigit():
        return Term(f"CAST({float(text)!r} AS DOUBLE)", oids.NUMERIC)
    number = int(text)
    if number < _INT4_END:
        return Term(str(number), oids.INT4)
    if number < _INT8_END:
        return Term(str(number), oids.INT8)
    return refuse("so large a number")


def _joined(node: exp.Concat) -> Term:
    """Constants on two lines, which SQL reads as one."""
    parts = node.expressions
    if not all(isinstance(p, exp.Literal) and p.is_string for p in parts):
        refuse("CONCAT")
    return unknown_literal("".join(str(p.this) for p in parts))


def _parameter(node: exp.Parameter, scope: PgScope) -> Term:
    if not (isinstance(node.this, exp.Literal) and str(node.this.this).isdigit()):
        refuse("this kind of parameter")
    return casts.untyped(int(str(node.this.this)), scope.reading)


def _cast(node: exp.Cast, scope: PgScope) -> Term:
    item = expression(node.this, scope)
    oid, typmod = casts.target(node.args["to"], scope.reading.names)
    result = casts.cast(item, oid, scope)
    name = result.name
    if _nameless(node.this):
        name = _type_name(node.args["to"])
    return Term(result.sql, oid, name, typmod, result.zero)


def _type_name(node: exp.Expression) -> str:
    """What PostgreSQL calls the column of a cast constant: the type's own name."""
    text = node.sql("postgres").lower().split("(")[0].split(".")[-1].replace("[]", "")
    own = {"int": "int4", "integer": "int4", "smallint": "int2", "bigint": "int8"}
    more = {"boolean": "bool", "double precision": "float8", "decimal": "numeric"}
    return (own | more).get(text.strip('"'), text.strip('"'))


def _case(node: exp.Case, scope: PgScope) -> Term:
    subject = expression(node.this, scope) if node.this is not None else None
    whens, results = [], []
    for branch in node.args["ifs"]:
        condition = expression(branch.this, scope)
        if subject is None:
            whens.append(casts.typed(condition, oids.BOOL, scope).sql)
        else:
            whens.append(compare("=", [subject, condition], scope).sql)
        results.append(expression(branch.args["true"], scope))
    default = node.args.get("default")
    otherwise = expression(default, scope) if default is not None else NULL
    (*results, otherwise), oid = casts.agreed([*results, otherwise], scope)
    branches = zip(whens, results, strict=True)
    arms = " ".join(f"WHEN {when} THEN {result.sql}" for when, result in branches)
    named = "case" if _nameless(default) else otherwise.name
    return Term(f"CASE {arms} ELSE {otherwise.sql} END", oid, named)


def _scalar(node: exp.Expression, scope: PgScope) -> Term:
    printed = scope.reading.query(node, scope)
    if len(printed.columns) != 1:
        refuse("a subquery of several columns")
    column = printed.columns[0]
    return Term(f"({printed.sql})", column.oid, column.name, column.typmod, column.zero)


def _array(node: exp.Array, scope: PgScope) -> Term:
    """ARRAY[a, b] or ARRAY(SELECT …)."""
    first = node.expressions[0] if node.expressions else None
    if isinstance(first, exp.Select | exp.Union | exp.Subquery):
        printed = scope.reading.query(first, scope)
        oid = _array_type(printed.columns[0].oid)
        return Term(f"ARRAY({printed.sql})", oid, "array")
    items, oid = casts.agreed([expression(e, scope) for e in node.expressions], scope)
    inner = ", ".join(item.sql for item in items)
    array = _array_type(oid)
    return Term(f"CAST([{inner}] AS {oids.shadow_type(array)})", array, "array")


def _array_type(element: int) -> int:
    found = oids.ARRAYS.get(oids.TEXT if element == oids.UNKNOWN else element)
    return found if found is not None else refuse("an array of this type")


def _subscript(node: exp.Bracket, scope: PgScope) -> Term:
    array = expression(node.this, scope)
    (index,) = node.expressions if len(node.expressions) == 1 else refuse("several subscripts")
    if array.oid not in oids.ELEMENTS or isinstance(index, exp.Slice):
        refuse("this subscript")
    position = expression(index, scope)
    # sqlglot has taken one from constants, as its arrays begin at 0.
    number = index.this if isinstance(index, exp.Neg) else index
    first = int(isinstance(number, exp.Literal)) + int(array.zero)
    sql = f"pg_element({array.sql}, {position.sql} + {first})"
    return Term(sql, oids.ELEMENTS[array.oid], array.name)


def _field(node: exp.Dot, scope: PgScope) -> Term:
    """`(composite).field`, where the composite is what _pg_expandarray makes."""
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    composite, name = expression(inner, scope), spelled(node.expression)
    if composite.oid != oids.RECORD or name not in ("x", "n"):
        refuse("a field of this")
    oid = oids.INT4 if name == "n" else oids.INT2
    return Term(f"({composite.sql}).{name}", oid, name)


def _in(node: exp.In, scope: PgScope) -> Term:
    if node.args.get("negate"):
        return Term(f"(NOT {_inside(node, scope).sql})", oids.BOOL)
    return _inside(node, scope)


def _inside(node: exp.In, scope: PgScope) -> Term:
    query = node.args.get("query")
    if query is not None:
        left = _row(node.this, scope)
        return Term(f"({left} IN ({scope.reading.query(query, scope).sql}))", oids.BOOL)
    if node.args.get("unnest") or node.args.get("field") or not node.expressions:
        refuse("this form of IN")
    items = [expression(e, scope) for e in (node.this, *node.expressions)]
    (left_item, *rest), _ = casts.agreed(items, scope)
    inner = ", ".join(item.sql for item in rest)
    return Term(f"({left_item.sql} IN ({inner}))", oids.BOOL)


def _row(node: exp.Expression, scope: PgScope) -> str:
    if isinstance(node, exp.Tuple):
        return "(" + ", ".join(expression(e, scope).sql for e in node.expressions) + ")"
    return expression(node, scope).sql


def _text_syntax(node: exp.Expression, scope: PgScope) -> Term:
    """TRIM(…) and SUBSTRING(… FROM … FOR …)."""
    text = casts.typed(expression(node.this, scope), oids.TEXT, scope).sql
    if isinstance(node, exp.Trim):
        characters = node.args.get("expression")
        what = unknown_literal(" ") if characters is None else expression(characters, scope)
        position = str(node.args.get("position") or "BOTH").upper()
        names = {"BOTH": ("trim", "btrim"), "LEADING": ("ltrim",) * 2, "TRAILING": ("rtrim",) * 2}
        function, name = names[position]
        return Term(f"{function}({text}, {what.sql})", oids.TEXT, name)
    parts = [node.args.get("start"), node.args.get("length")]
    rest = "".join(f", {expression(p, scope).sql}" for p in parts if p is not None)
    return Term(f"substring({text}{rest})", oids.TEXT, "substring")
