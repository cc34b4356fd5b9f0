"""PostgreSQL's name of a column without an alias in a SELECT list."""

from __future__ import annotations

from dpsql.model.tree import AggregateCall, Call, Cast, Expression, Kind, Literal, Name

_NAMELESS = "?column?"
_OPERATORS = frozenset(
    "add sub mul div int_div pg_div mod neg eq ne lt le gt ge is_distinct is_not_distinct "
    "and or not is_null in like ilike".split()
)
_TYPES = {
    Kind.BOOLEAN: "bool",
    Kind.INTEGER: "int8",
    Kind.DECIMAL: "numeric",
    Kind.DOUBLE: "float8",
    Kind.VARCHAR: "text",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamptz",
    Kind.INTERVAL: "interval",
    Kind.TIME: "time",
    Kind.UUID: "uuid",
}
_LISTED = {
    "list": "array_agg",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
}
"""Aggregates with array results, by our name."""
_TYPED = frozenset(
    {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.TIME, Kind.UUID}
)
"""Types of constants that PostgreSQL reads as casts."""


def unaliased(written: Expression) -> str | None:
    """Return the name of the column; None if it is that of a function or column.

    FigureColname in PostgreSQL's parse_target.c.

    >>> unaliased(Call("add", (Name("a"), Name("b")))), unaliased(Call("length", (Name("a"),)))
    ('?column?', None)
    """
    match written:
        case Call("list", (_, _, _, AggregateCall(function=function), *_)):
            return _LISTED.get(function, function)
        case Call("list"):
            return "array"
        case Literal(type=kind):
            return _TYPES[kind.kind] if kind.kind in _TYPED else _NAMELESS
        case Call(function=function) if function in _OPERATORS:
            return _NAMELESS
        case Cast(arg=Name(name=name)):
            return name
        case Cast(arg=Call(function=function) as arg) if unaliased(arg) is None:
            return function
        case Cast(arg=Literal() | Call(), type=kind):
            return _TYPES[kind.kind]
        case _:
            return None
