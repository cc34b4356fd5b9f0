"""Constants and types for Spark, with explicit types that do not depend on context.

A text with other than plain characters is written byte by byte. So no setting of the engine decides
the meaning of a quote, a backslash, a dollar or a colon.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import assert_never
from uuid import UUID

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Kind, Literal, Span, SqlType

ENGINE = "Spark"
WHOLE = "DECIMAL(38,0)"
MOST_DIGITS = 38
_PLAIN = re.compile(r"[A-Za-z0-9 _.,%+()=/@-]*")
_INT64 = 2**63
_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.VARCHAR: "STRING",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMPTZ: "TIMESTAMP",
    Kind.NULL: "STRING",
}


def lacking(construct: str, span: Span = NOWHERE) -> Refused:
    """Return the refusal of a construct without an exact, total form on this engine."""
    return Refused(Reason.ENGINE_LACKS, span, construct=construct, engine=ENGINE)


def type_sql(kind: SqlType) -> str:
    """Return the type of a column or of the target of a cast.

    >>> from dpsql.model.tree import DOUBLE, decimal
    >>> type_sql(DOUBLE), type_sql(decimal(12, 2))
    ('DOUBLE', 'DECIMAL(12,2)')
    """
    if kind.kind is Kind.DECIMAL:
        return f"DECIMAL({kind.precision},{kind.scale})"
    if kind.kind not in _TYPES:
        raise lacking(f"values of type {kind}")
    return _TYPES[kind.kind]


def constant(literal: Literal) -> str:
    """Return SQL for a constant of exactly its value and type; raises `Refused` if it has none.

    >>> from dpsql.model.tree import VARCHAR
    >>> constant(Literal("it is", VARCHAR)), constant(Literal("it's", VARCHAR))
    ("'it is'", "CAST(X'69742773' AS STRING)")
    """
    value, kind = literal.value, literal.type
    match value:
        case None:
            return "NULL" if kind.kind is Kind.NULL else f"CAST(NULL AS {type_sql(kind)})"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return _text(value, literal)
        case datetime():
            if kind.kind is Kind.TIMESTAMPTZ and value.tzinfo is not None:
                value = value.astimezone(UTC).replace(tzinfo=None)
            return f"{type_sql(kind)} '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            return double(value)
        case int() | Decimal() if kind.kind is Kind.DOUBLE:
            return double(float(value))
        case int() if kind.kind is Kind.INTEGER:
            return f"{value}L" if abs(value) < _INT64 else _decimal(Decimal(value), literal)
        case int() | Decimal():
            return _decimal(Decimal(value), literal)
        case time() | UUID():
            raise lacking(f"values of type {kind}", literal.span)
        case _:
            assert_never(value)


def double(value: float) -> str:
    """Return SQL for a DOUBLE of exactly this value.

    >>> double(0.5), double(float("inf"))
    ('0.5D', "CAST('Infinity' AS DOUBLE)")
    """
    if isfinite(value):
        return f"{value!r}D"
    shown = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    return f"CAST('{shown}' AS DOUBLE)"


def _decimal(value: Decimal, literal: Literal) -> str:
    digits = f"{value:.{literal.type.scale}f}"
    if sum(map(str.isdigit, digits)) > MOST_DIGITS:
        raise lacking("a number of so many digits", literal.span)
    return f"{digits}BD"


def _text(value: str, literal: Literal) -> str:
    try:
        coded = value.encode()
    except UnicodeEncodeError:
        raise lacking("a text that is not Unicode", literal.span) from None
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{coded.hex()}' AS STRING)"
