"""Quoted numbers and truths: a string literal beside a number or a BOOLEAN is one, as in SQL.

Drivers that splice parameters into text write `amount < '99.5'`, and leave the type to the server.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from dpsql.model.bound_parameters import MAX_DIGITS, bound
from dpsql.model.tree import BOOLEAN, INTEGER, VARCHAR, Literal, SqlType, Value

_TRUTHS = {
    **dict.fromkeys("t true y yes on 1".split(), True),
    **dict.fromkeys("f false n no off 0".split(), False),
}
"""PostgreSQL's words, https://www.postgresql.org/docs/15/datatype-boolean.html."""


def coerced(literal: Literal, wanted: SqlType) -> Literal:
    """A string literal as a constant that is compared with `wanted`; as it is where it is none.

    Beside INTEGER only whole numbers are numbers, as in PostgreSQL.

    >>> coerced(Literal("99", VARCHAR), INTEGER).value
    99
    >>> coerced(Literal("99.5", VARCHAR), INTEGER).value
    '99.5'
    """
    if literal.type != VARCHAR or not isinstance(literal.value, str):
        return literal
    value = _value(literal.value.strip().lower(), wanted)
    return literal if value is None else bound(value, literal.span)


def _value(text: str, wanted: SqlType) -> Value:
    if wanted == BOOLEAN:
        return _TRUTHS.get(text)
    if not wanted.is_numeric or "_" in text or len(text) > MAX_DIGITS:
        return None
    try:
        return int(text) if wanted == INTEGER else _finite(Decimal(text))
    except (ValueError, InvalidOperation):
        return None


def _finite(number: Decimal) -> Decimal | None:
    """A number of which neither the size nor the digits are extreme."""
    size = abs(number.adjusted()) + len(number.as_tuple().digits)
    return number if number.is_finite() and size < MAX_DIGITS else None
