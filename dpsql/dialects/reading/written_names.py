"""DuckDB's name of a computed column of a SELECT list without an alias: its text, in one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.dialects.reading.interval_tokens import TEXT
from dpsql.dialects.reading.nodes import placeholder_of
from dpsql.dialects.reading.quoted_words import KEYWORDS
from dpsql.dialects.reading.tokens import DURATION, FUNCTION

_UNKNOWN = "…"
"""Text of a part without a rule, as a subquery, or of a very long one."""
_LONGEST = 1000
"""Most characters of a part; a CASE repeats the value that it compares."""

_BETWEEN: Mapping[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
}
_PATTERNS: Mapping[type[exp.Expression], str] = {exp.Like: "~~", exp.ILike: "~~*"}
_TYPES = {
    "INT": "INTEGER",
    "TEXT": "VARCHAR",
    "TIMESTAMPNTZ": "TIMESTAMP",
    "INT128": "HUGEINT",
}
"""Types that DuckDB writes in another word than sqlglot."""
_UNLIMITED = "DECIMAL(18, 3)"
"""What sqlglot reads DECIMAL without digits as."""
_OTHERWISE = {
    "ifnull": "COALESCE",
    "coalesce": "COALESCE",
    "grouping": "GROUPING",
    "percentile_cont": "quantile_cont",
    "percentile_disc": "quantile_disc",
}
"""Functions that DuckDB's parser writes by another name or in capitals."""


def describe_column(node: exp.Expression) -> str | None:
    """Return the expression as DuckDB writes it; None for what has no such text.

    >>> from sqlglot import parse_one
    >>> describe_column(parse_one("a / (b - 1)")), describe_column(parse_one("a"))
    ('(a / (b - 1))', 'a')
    """
    text = _text(node)
    return None if text.startswith(_UNKNOWN) else text


def _text(node: exp.Expression | None) -> str:
    text = "NULL" if node is None else _written(node)
    return text if len(text) <= _LONGEST else _UNKNOWN


def _written(node: exp.Expression) -> str:
    if (sign := _BETWEEN.get(type(node))) is not None:
        parts = _chain(node) if sign in ("AND", "OR") else [node.this, node.expression]
        return f"({f' {sign} '.join(map(_text, parts))})"
    if (sign := _PATTERNS.get(type(node))) is not None:
        negation = "!" if node.args.get("negate") else ""
        return f"({_text(node.this)} {negation}{sign} {_text(node.expression)})"
    writer = _WRITERS.get(type(node))
    return _UNKNOWN if writer is None else writer(node)


def _chain(node: exp.Expression) -> list[exp.Expression]:
    """Return the members of a chain of AND or of OR, in whatever parentheses."""
    members: list[exp.Expression] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if type(current.unnest()) is type(node):
            pending += [current.unnest().expression, current.unnest().this]
        else:
            members.append(current)
    return members


def _listed(nodes: list[exp.Expression]) -> str:
    return ", ".join(map(_text, nodes))


def _literal(node: exp.Expression) -> str:
    text = str(node.this)
    return "'" + text.replace("'", "''") + "'" if node.args.get("is_string") else text


def _column(node: exp.Expression) -> str:
    number = placeholder_of(node.this)
    if number is not None:
        return f"${number + 1}"
    if node.name.startswith(FUNCTION):  # a word of the time, as current_date
        return node.name.removeprefix(FUNCTION).lower()
    table = node.args.get("table")
    return ".".join(_quote(part.name) for part in (table, node.this) if part is not None)


def _quote(name: str) -> str:
    """Return a name, in quotes if it is a keyword or no plain word."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _call(node: exp.Expression) -> str:
    marked, args = str(node.this), node.expressions
    if marked.startswith(DURATION):
        return _interval(marked.removeprefix(DURATION), _listed(args))
    name = marked.removeprefix(FUNCTION).lower()
    if name == "count" and (not args or isinstance(args[0], exp.Star)):
        return "count_star()"
    return f"{_OTHERWISE.get(name) or _quote(name)}({_listed(args)})"


def _interval(unit: str, count: str) -> str:
    """Return an INTERVAL as the functions that DuckDB's parser makes of it."""
    if unit == TEXT:
        return f"CAST({count} AS INTERVAL)"
    exact = f"CAST({count} AS DOUBLE)"
    if unit in ("second", "millisecond"):
        return f"to_{unit}s({exact})"
    whole = "BIGINT" if unit in ("hour", "minute", "microsecond") else "INTEGER"
    return (
        f"to_{'millennia' if unit == 'millennium' else unit + 's'}(CAST(trunc({exact}) AS {whole}))"
    )


def _cast(node: exp.Expression) -> str:
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    kind = node.args["to"]
    name = str(getattr(kind.this, "name", kind.this))
    digits = ", ".join(each.name for each in kind.expressions)
    name = _TYPES.get(name, name) + (f"({digits})" if digits else "")
    return f"{word}({_text(node.this)} AS {'DECIMAL' if name == _UNLIMITED else name})"


def _case(node: exp.Expression) -> str:
    """Return a CASE; one that compares a value is written as conditions."""
    branches = ""
    for branch in node.args["ifs"]:
        condition = _text(branch.this)
        if node.this is not None:
            condition = f"({_text(node.this)} = {condition})"
        branches += f" WHEN ({condition}) THEN ({_text(branch.args['true'])})"
    return f"CASE {branches} ELSE {_text(node.args.get('default'))} END"


def _negated(node: exp.Expression) -> str:
    this = node.this.unnest()
    if isinstance(this, exp.Is):
        return f"({_text(this.this)} IS NOT {_text(this.expression)})"
    return f"(NOT {_text(this)})"


def _ordered(node: exp.Expression) -> str:
    """Return an argument, if there is one, and the order of an aggregate's rows."""
    keys = ", ".join(
        _text(key.this) + " DESC" * bool(key.args.get("desc")) for key in node.expressions
    )
    return f"{'' if node.this is None else _text(node.this) + ' '}ORDER BY {keys}"


def _window(node: exp.Expression) -> str:
    keys = node.args.get("partition_by") or []
    order = node.args.get("order")
    parts = [f"PARTITION BY {_listed(keys)}"] if keys else []
    parts += [] if order is None else [_ordered(order)]
    parts += [_UNKNOWN] if node.args.get("spec") or node.args.get("alias") else []
    return f"{_text(node.this)} OVER ({' '.join(parts)})"


_WRITERS: Mapping[type[exp.Expression], Callable[[exp.Expression], str]] = {
    exp.Anonymous: _call,
    exp.AtTimeZone: lambda node: f"timezone({_text(node.args['zone'])}, {_text(node.this)})",
    exp.Between: lambda node: (
        f"({_text(node.this)} BETWEEN {_text(node.args['low'])} AND {_text(node.args['high'])})"
    ),
    exp.Boolean: lambda node: str(node.this).lower(),
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Column: _column,
    exp.Distinct: lambda node: f"DISTINCT {_listed(node.expressions)}",
    exp.Extract: lambda node: f"date_part('{node.this.name}', {_text(node.expression)})",
    exp.Filter: lambda node: f"{_text(node.this)} FILTER (WHERE {_text(node.expression.this)})",
    exp.In: lambda node: (
        f"({_text(node.this)} IN ({_listed(node.expressions)}))" if node.expressions else _UNKNOWN
    ),
    exp.Is: lambda node: f"({_text(node.this)} IS {_text(node.expression)})",
    exp.Literal: _literal,
    exp.Neg: lambda node: (
        f"-{_text(node.this)}"
        if isinstance(node.this, exp.Literal) and not node.this.is_string
        else f"(-({_text(node.this)}))"
    ),
    exp.Not: _negated,
    exp.Null: lambda _node: "NULL",
    exp.Order: _ordered,
    exp.Paren: lambda node: _text(node.this),
    exp.Star: lambda _node: "*",
    exp.Substring: lambda node: (
        f'"substring"({_listed([n for n in map(node.args.get, ("this", "start", "length")) if n])})'
    ),
    exp.Trim: lambda node: f'"trim"({_text(node.this)})',
    exp.TryCast: _cast,
    exp.Window: _window,
    exp.WithinGroup: lambda node: f"{_text(node.this)[:-1]} {_ordered(node.expression)})",
}
