"""PostgreSQL's name of a column without an alias, as FigureColname in parse_target.c has it."""

from __future__ import annotations

from sqlglot import exp

from dpsql.dialects.reading.arrays import is_list
from dpsql.dialects.reading.nodes import placeholder_of
from dpsql.dialects.reading.tokens import DURATION, FUNCTION

_NAMELESS = "?column?"
_TYPES = {
    "BOOLEAN": "bool",
    "SMALLINT": "int2",
    "INT": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "TIMESTAMPNTZ": "timestamp",
    "CHAR": "bpchar",
}
"""Types that PostgreSQL calls otherwise than sqlglot."""
_FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.AtTimeZone: "timezone",
    exp.Extract: "extract",
    exp.Exists: "exists",
    exp.StrPosition: "position",
    exp.Substring: "substring",
}
"""Syntax of its own that calls a function."""
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def figure_name(node: exp.Expression) -> str:
    """Return the name of the column.

    >>> from sqlglot import parse_one
    >>> [figure_name(parse_one(text)) for text in ("a + b", "a", "CAST(1 AS INT)")]
    ['?column?', 'a', 'int4']
    """
    return _good(node) or _weak(node) or _NAMELESS


def _good(node: exp.Expression) -> str | None:
    """Return the name of a column or of a function, which a cast and a CASE keep; else None."""
    match node:
        case exp.Column():
            if placeholder_of(node.this) is not None:
                return None
            name = node.name
            return name.removeprefix(FUNCTION).lower() if name.startswith(FUNCTION) else name
        case exp.Anonymous() if is_list(node):
            return "array"
        case exp.Anonymous() if str(node.this).startswith(FUNCTION):
            return str(node.this).removeprefix(FUNCTION).lower()
        case exp.Window() | exp.Filter() | exp.WithinGroup() | exp.Paren() | exp.Cast():
            return _good(node.this)
        case exp.Case():
            return None if node.args.get("default") is None else _good(node.args["default"])
        case exp.Trim():
            return _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim")
        case exp.Subquery() | exp.Select():
            return _of_query(node)
        case _:
            return _FUNCTIONS.get(type(node))


def _of_query(node: exp.Expression) -> str | None:
    """Return the name of a subquery's only column."""
    query = node.unnest()
    if not (isinstance(query, exp.Select) and query.expressions):
        return None
    item = query.expressions[0]
    return item.alias if isinstance(item, exp.Alias) else figure_name(item)


def _weak(node: exp.Expression) -> str | None:
    """Return the type of a cast, or "case"; None for other expressions."""
    match node:
        case exp.Cast():
            kind = node.args["to"].this
            name = str(getattr(kind, "name", kind))
            return _TYPES.get(name, name.lower())
        case exp.Case():
            return "case"
        case exp.Anonymous() if str(node.this).startswith(DURATION):
            return "interval"
        case exp.Paren():
            return _weak(node.this)
        case _:
            return None
