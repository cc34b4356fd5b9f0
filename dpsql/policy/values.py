"""Values of the policy in the exact type of their column; inexact ones are refused."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from dpsql.model.tree import Kind, SqlType, Value

INT128 = 2**127


def of_type(value: Any, kind: SqlType) -> Value:
    """Return the value in the column's type, exactly; None if the type has no such value.

    A DOUBLE takes the nearest float, and no NaN, infinity or negative zero.

        >>> of_type(Decimal("12.5"), SqlType(Kind.DECIMAL, 10, 2))
        Decimal('12.50')
        >>> of_type(Decimal("12.5"), SqlType(Kind.INTEGER)) is None
        True
    """
    match kind.kind:
        case Kind.VARCHAR:
            return value if isinstance(value, str) else None
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else None
        case Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE:
            return None if isinstance(value, bool) else _number(value, kind)
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _moment(value, kind)
        case Kind.TIME:
            return value if isinstance(value, time) and value.tzinfo is None else None
        case Kind.UUID:
            return _uuid(value)
        case _:
            return None


def _number(value: Any, kind: SqlType) -> Value:
    if not isinstance(value, int | float | Decimal):
        return None
    if kind.kind is Kind.DOUBLE:
        return _double(value)
    if isinstance(value, float):
        return None
    digits = _scaled(value, kind.scale)
    if kind.kind is Kind.INTEGER:
        return digits if digits is not None and -INT128 <= digits < INT128 else None
    if digits is None or abs(digits) >= 10**kind.precision:
        return None
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -kind.scale))


def _double(value: float | Decimal) -> float | None:
    try:
        near = float(value) + 0.0
    except OverflowError:
        return None
    return near if isfinite(near) else None


def _scaled(value: int | Decimal, scale: int) -> int | None:
    """Return the value times 10^scale if that is an integer of about 128 bits at most, else
    None.
    """
    if isinstance(value, int):
        return value * _power(scale)
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not value:
        return 0
    if value.adjusted() > len(str(INT128)):  # 1e999999999 is short to write and long to compute
        return None
    whole, shift = int("".join(map(str, digits))), exponent + scale
    if shift < 0:
        if -shift > len(digits) or whole % _power(-shift):
            return None
        whole //= _power(-shift)
    else:
        whole *= _power(shift)
    return -whole if sign else whole


def _power(exponent: int) -> int:
    return int(10**exponent)


def _uuid(value: Any) -> UUID | None:
    """Return a UUID from itself or from its text; None if it is not one."""
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (AttributeError, TypeError, ValueError):
        return None


def _moment(value: Any, kind: SqlType) -> Value:
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        return value if kind.kind is (Kind.TIMESTAMPTZ if zoned else Kind.TIMESTAMP) else None
    if not isinstance(value, date) or kind.kind is Kind.TIMESTAMPTZ:
        return None
    return value if kind.kind is Kind.DATE else datetime.combine(value, time.min)
