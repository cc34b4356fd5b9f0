"""Operators over terms: comparisons, logic, arithmetic, patterns, ANY and ALL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import Term, refuse
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import FUNCTION

Read = Callable[[exp.Expression, PgScope], Term]

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
    exp.Like: "{0} LIKE {1}",
    exp.ILike: "{0} ILIKE {1}",
    exp.RegexpLike: "regexp_matches({0}, {1})",
    exp.RegexpILike: "regexp_matches({0}, {1}, 'i')",
}
_READ = frozenset("this expression low high operator negate typed safe".split())
"""What an operator's node may carry; `typed` and `safe` say how divisions round, as ours do."""

_WRITTEN = {
    "~": "regexp_matches({0}, {1})",
    "!~": "NOT regexp_matches({0}, {1})",
    "~*": "regexp_matches({0}, {1}, 'i')",
    "!~*": "NOT regexp_matches({0}, {1}, 'i')",
    "~~": "{0} LIKE {1} ESCAPE '\\'",
    "!~~": "NOT ({0} LIKE {1} ESCAPE '\\')",
}


def operator(node: exp.Expression, scope: PgScope, read: Read) -> Term:
    """One operator. Raises `Refused` for those that nothing here answers."""
    if any(value and name not in _READ for name, value in node.args.items()):
        refuse(type(node).__name__.upper())
    match node:
        case exp.And() | exp.Or():
            word = "AND" if isinstance(node, exp.And) else "OR"
            sides = [_condition(side, scope, read) for side in (node.this, node.expression)]
            return Term(f"({sides[0]} {word} {sides[1]})", oids.BOOL)
        case exp.Not():
            return Term(f"(NOT {_condition(node.this, scope, read)})", oids.BOOL)
        case exp.Is():
            return _is(node, scope, read)
        case exp.Between():
            parts = [node.this, node.args["low"], node.args["high"]]
            (x, low, high), _ = casts.agreed([read(p, scope) for p in parts], scope)
            return Term(f"({x.sql} BETWEEN {low.sql} AND {high.sql})", oids.BOOL)
        case exp.Neg():
            inner = read(node.this, scope)
            return Term(f"(-{inner.sql})", inner.oid)
        case exp.DPipe():
            return _joined([read(node.this, scope), read(node.expression, scope)], scope)
        case exp.Escape():
            return _escaped(node, scope, read)
        case exp.Operator():
            return _written(node, scope, read)
    return _binary(node, scope, read)


def _binary(node: exp.Expression, scope: PgScope, read: Read) -> Term:
    if (sign := _COMPARISONS.get(type(node))) is not None:
        return compared(sign, node, scope, read)
    if (sign := _ARITHMETIC.get(type(node))) is not None:
        sides = [read(node.this, scope), read(node.expression, scope)]
        (left, right), oid = casts.agreed(sides, scope)
        if isinstance(node, exp.Div) and oid == oids.NUMERIC:
            return Term(f"CAST({left.sql} / {right.sql} AS DECIMAL(38, 18))", oid)
        return Term(f"({left.sql} {sign} {right.sql})", oid)
    if (pattern := _PATTERNS.get(type(node))) is not None:
        escape = " ESCAPE '\\'" if isinstance(node, exp.Like | exp.ILike) else ""
        return _matched(pattern + escape, node.this, node.expression, scope, read)
    return refuse(type(node).__name__.upper())


def _condition(node: exp.Expression, scope: PgScope, read: Read) -> str:
    return casts.typed(read(node, scope), oids.BOOL, scope).sql


def _is(node: exp.Is, scope: PgScope, read: Read) -> Term:
    word = {exp.Null: "NULL", exp.Boolean: "TRUE"}.get(type(node.expression))
    if word is None:
        refuse("this form of IS")
    if isinstance(node.expression, exp.Boolean) and not node.expression.this:
        word = "FALSE"
    negated = "NOT " if node.args.get("negate") else ""
    return Term(f"({read(node.this, scope).sql} IS {negated}{word})", oids.BOOL)


def compared(sign: str, node: exp.Expression, scope: PgScope, read: Read) -> Term:
    """A comparison, whose right side may be ANY or ALL of an array or a subquery."""
    right = node.expression
    is_all = isinstance(right, exp.Anonymous) and right.name.removeprefix(FUNCTION).upper() == "ALL"
    if not (isinstance(right, exp.Any | exp.All) or is_all):
        return compare(sign, [read(node.this, scope), read(right, scope)], scope)
    word = "ANY" if isinstance(right, exp.Any) else "ALL"
    inner = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    left = read(node.this, scope)
    if isinstance(inner, exp.Select | exp.Union | exp.Subquery):
        printed = scope.reading.query(inner, scope)
        return Term(f"({left.sql} {sign} {word} ({printed.sql}))", oids.BOOL)
    array = casts.typed(
        read(inner, scope), oids.ARRAYS.get(left.oid, oids.ARRAYS[oids.TEXT]), scope
    )
    left = casts.typed(left, oids.ELEMENTS.get(array.oid, oids.TEXT), scope)
    return Term(f"({left.sql} {sign} {word}({array.sql}))", oids.BOOL)


def compare(sign: str, sides: list[Term], scope: PgScope) -> Term:
    """A comparison of two terms; a constant beside a number or a boolean becomes one."""
    (left, right), _ = casts.agreed(sides, scope)
    return Term(f"({left.sql} {sign} {right.sql})", oids.BOOL)


def _joined(sides: list[Term], scope: PgScope) -> Term:
    """`||` of arrays or of texts."""
    if any(side.oid in oids.ELEMENTS for side in sides):
        (left, right), oid = casts.agreed(sides, scope)
        return Term(f"list_concat({left.sql}, {right.sql})", oid)
    texts = [casts.cast(side, oids.TEXT, scope).sql for side in sides]
    return Term(f"({' || '.join(texts)})", oids.TEXT)


def _matched(
    pattern: str, left: exp.Expression, right: exp.Expression, scope: PgScope, read: Read
) -> Term:
    sides = [casts.typed(read(side, scope), oids.TEXT, scope).sql for side in (left, right)]
    return Term("(" + pattern.format(*sides) + ")", oids.BOOL)


def _escaped(node: exp.Escape, scope: PgScope, read: Read) -> Term:
    inner, character = node.this, node.expression
    if not (isinstance(inner, exp.Like | exp.ILike) and isinstance(character, exp.Literal)):
        refuse("this form of ESCAPE")
    pattern = _PATTERNS[type(inner)] + f" ESCAPE {read(character, scope).sql}"
    if inner.args.get("negate"):
        pattern = f"NOT ({pattern})"
    return _matched(pattern, inner.this, inner.expression, scope, read)


def _written(node: exp.Operator, scope: PgScope, read: Read) -> Term:
    """`OPERATOR(pg_catalog.~)` and its like."""
    sign = str(node.args["operator"]).removeprefix("pg_catalog.")
    if sign in _COMPARISONS.values():
        return compared(sign, node, scope, read)
    if sign not in _WRITTEN:
        refuse("this operator")
    return _matched(_WRITTEN[sign], node.this, node.expression, scope, read)
