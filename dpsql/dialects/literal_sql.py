"""Constants as SQL text, as DuckDB and most other engines read them.

A dialect of a different engine has its own function.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import assert_never
from uuid import UUID

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Kind, Literal, SqlType, type_name

INT128 = 2**127
MAX_PRECISION = 38


def constant(literal: Literal) -> str:
    """Return SQL for a constant of exactly its value and type.

    Raises `Refused` for numbers without an exact type, and for text that is not Unicode.
    """
    value, kind = literal.value, literal.type
    match value:
        case None:
            return "NULL" if kind.kind is Kind.NULL else f"CAST(NULL AS {type_name(kind)})"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return _text(value, literal)
        case datetime() | date():
            return _moment(value, kind)
        case time():
            return f"TIME '{value.isoformat()}'"
        case UUID():
            return f"CAST('{value}' AS UUID)"
        case float():
            return _double(value)
        case int() if kind.kind is Kind.INTERVAL:
            return str(value)
        case int() | Decimal():
            return _double(float(value)) if kind.kind is Kind.DOUBLE else _exact(value, literal)
        case _:
            assert_never(value)


def _text(value: str, literal: Literal) -> str:
    """Return a quoted text; NUL cannot stand in SQL text and is written as chr(0)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(Reason.SYNTAX, literal.span) from None
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"


def _moment(value: date, kind: SqlType) -> str:
    if isinstance(value, datetime):
        if kind.kind is Kind.TIMESTAMPTZ and value.tzinfo is not None:
            value = value.astimezone(UTC)
        return f"{kind.kind} '{value.isoformat(' ')}'"
    return f"{kind.kind} '{value.isoformat()}'"


def _double(value: float) -> str:
    """Return SQL for a DOUBLE with an exponent, so that it is not read as DECIMAL first."""
    if not isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    text = repr(value)
    return text if "e" in text else text + "e0"


def _exact(value: int | Decimal, literal: Literal) -> str:
    kind = literal.type
    if kind.kind is Kind.INTEGER:
        if not -INT128 <= value < INT128:
            raise Refused(
                Reason.TYPE_MISMATCH, literal.span, function="literal", types=(str(kind),)
            )
        return str(int(value))
    if kind.precision > MAX_PRECISION or len(Decimal(value).as_tuple().digits) > MAX_PRECISION:
        raise Refused(Reason.TYPE_MISMATCH, literal.span, function="literal", types=(str(kind),))
    text = f"{Decimal(value):.{kind.scale}f}"
    # 5 alone would be an INTEGER, and more than 38 digits, with a leading zero, a DOUBLE.
    if kind.scale and sum(map(str.isdigit, text)) <= MAX_PRECISION:
        return text
    return f"CAST('{text}' AS {type_name(kind)})"
