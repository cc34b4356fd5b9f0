"""Widths of numbers in PostgreSQL, on which its division and the types of its columns depend.

SUM over bigint is numeric there, and a quotient of numeric keeps its fraction: `COUNT(*) /
SUM(COUNT(*)) OVER ()` is a share. One of two integers is cut to a whole number.

Source: PostgreSQL 15, sections 9.3 (arithmetic), 9.9 (EXTRACT) and 9.21 (aggregates).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpsql.model.tree import BIGINT_WIDTH, INTEGER_WIDTH, NUMERIC_WIDTH, Call, Kind, SqlType

FRACTIONAL = frozenset("extract floor ceil round trunc".split())
"""Functions whose results PostgreSQL divides with a fraction, even if they are whole numbers."""

LENGTHS = frozenset("length ascii strpos width_bucket".split())
"""Functions whose results are int4 there."""

SPREADS = frozenset("avg variance var_pop stddev stddev_pop".split())
"""Aggregates that are numeric unless they are of double precision."""

SELECTING = frozenset(
    """min max any_value first last mode quantile_disc arg_max arg_min arg_max_null arg_min_null
    lag lead first_value last_value nth_value""".split()
)
"""Aggregates and window functions that return one of their values, with its type."""


def with_width_of_call(call: Call, result: SqlType, types: Iterable[SqlType]) -> SqlType:
    """Return the type of a scalar call, as wide as PostgreSQL's over arguments of `types`."""
    given = [kind for kind in types if kind.is_numeric]
    if result.kind is Kind.INTEGER and call.function in LENGTHS:
        width = INTEGER_WIDTH
    elif result.kind is Kind.INTEGER:
        width = NUMERIC_WIDTH if call.function in FRACTIONAL else _widest(given)
    elif result.kind is Kind.DOUBLE:
        width = BIGINT_WIDTH if any(map(_is_float, given)) else _widest(given)
    else:
        return result
    return replace(result, width=width)


def with_width_of_aggregate(function: str, result: SqlType, types: Iterable[SqlType]) -> SqlType:
    """Return the type of an aggregate or window function, as wide as PostgreSQL's.

    >>> with_width_of_aggregate("sum", SqlType(Kind.INTEGER), [SqlType(Kind.INTEGER)]).width
    16
    """
    given = [kind for kind in types if kind.is_numeric]
    if not given or any(map(_is_float, given)):
        return result
    width = _widest(given)
    if function == "sum" and result.kind is Kind.INTEGER:
        width = BIGINT_WIDTH if width < BIGINT_WIDTH else NUMERIC_WIDTH
    elif function in SPREADS:
        width = NUMERIC_WIDTH
    elif function not in SELECTING and function != "sum":
        return result
    return replace(result, width=width)


def has_fraction(kind: SqlType) -> bool:
    """Test whether PostgreSQL calls a whole number numeric, and keeps fractions of a quotient."""
    return kind.kind is Kind.INTEGER and kind.width == NUMERIC_WIDTH


def _widest(types: Iterable[SqlType]) -> int:
    widths = (NUMERIC_WIDTH if kind.kind is Kind.DECIMAL else kind.width for kind in types)
    return max(widths, default=BIGINT_WIDTH)


def _is_float(kind: SqlType) -> bool:
    return kind.kind is Kind.DOUBLE and kind.width != NUMERIC_WIDTH
