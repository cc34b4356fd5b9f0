"""Aggregates over rows that PostgreSQL computes exactly: counts, sums of exact numbers, extremes.

No average, and no sum of DOUBLEs: what they are depends on the order of rows.
"""

from __future__ import annotations

from dpsql.dialects.postgres.number_sql import Sized
from dpsql.model.tree import AggregateCall, Kind, Star

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


def aggregate(call: AggregateCall, args: tuple[Sized, ...], where: str) -> str | None:
    """The call as text, with its FILTER; None where it cannot be said exactly."""
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
