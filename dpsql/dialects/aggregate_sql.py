"""Aggregates over rows that engines compute exactly: counts, sums of exact numbers, extremes.

Averages and sums of DOUBLEs are missing, because they depend on the order of rows.
"""

from __future__ import annotations

from dpsql.dialects.sized_text import Sized
from dpsql.model.tree import AggregateCall, Kind, Star, WindowCall

_ORDERED = frozenset(
    {
        Kind.INTEGER,
        Kind.DECIMAL,
        Kind.DOUBLE,
        Kind.VARCHAR,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
    }
)
_SUMMED = frozenset({Kind.INTEGER, Kind.DECIMAL})


_PLACES = frozenset("row_number rank dense_rank".split())
"""Window functions that count rows."""
_ROWS = {"lag": (1, 3), "lead": (1, 3), "first_value": (1, 1), "last_value": (1, 1)}
"""Window functions that return a value of another row, with their numbers of arguments."""
_LEAST_ROW, _MOST_ROWS = 0, 10**6


def window(call: WindowCall, args: tuple[Sized, ...], where: str) -> str | None:
    """Return the call of a window function, without its OVER; None if it cannot be exact."""
    if call.distinct or call.ignore_nulls:
        return None
    name = call.function
    if name in _PLACES:
        return f"{name}()" if not args and not where else None
    if name in _ROWS:
        least, most = _ROWS[name]
        if where or not least <= len(args) <= most or not all(map(_is_some_rows, args[1:2])):
            return None
        return f"{name}({', '.join(arg.sql for arg in args)})"
    return aggregate(call, args, where)


def _is_some_rows(arg: Sized) -> bool:
    """Test whether an argument is a constant offset in rows."""
    value = None if arg.literal is None else arg.literal.value
    return isinstance(value, int) and _LEAST_ROW <= value <= _MOST_ROWS


def aggregate(call: AggregateCall | WindowCall, args: tuple[Sized, ...], where: str) -> str | None:
    """Return the call as text, with its FILTER; None if it cannot be exact."""
    distinct = "DISTINCT " if call.distinct else ""
    if len(args) != 1:
        return f"COUNT(*){where}" if call.function == "count" and not args else None
    (arg,) = args
    kind = arg.type.kind
    match call.function:
        case "count" if isinstance(call.args[0], Star):
            return f"COUNT(*){where}"
        case "count":
            return f"COUNT({distinct}{arg.sql}){where}"
        case "sum" if kind in _SUMMED:
            return f"SUM({distinct}{arg.sql}){where}"
        case "min" | "max" if kind in _ORDERED:
            return f"{call.function.upper()}({arg.sql}){where}"
        case "bool_and" | "bool_or" if kind is Kind.BOOLEAN:
            return f"{call.function.upper()}({arg.sql}){where}"
        case _:
            return None
