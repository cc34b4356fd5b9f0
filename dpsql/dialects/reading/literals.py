"""Constants and types: numbers, typed strings, bound parameters, and the types of casts."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin
from dpsql.model.bound_parameters import MAX_DIGITS, endless_moment, said
from dpsql.model.errors import Reason, Refused
from dpsql.model.public_times import word
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGER_WIDTH,
    INTERVAL,
    NUMERIC_WIDTH,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    Cast,
    Expression,
    Kind,
    Literal,
    Span,
    SqlType,
    decimal,
)

_DOUBLE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+\Z")
_DECIMAL = re.compile(r"(\d*)(?:\.(\d*))?\Z")
_WHOLE = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_INT4_END = 2**31
_EXACT = 2**53
"""Whole numbers up to here are numbers of DOUBLE."""

_INT4 = SqlType(Kind.INTEGER, width=INTEGER_WIDTH)

_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": _INT4,
    "SMALLINT": _INT4,
    "INT": _INT4,
    "BIGINT": INTEGER,
    "INT128": SqlType(Kind.INTEGER, width=NUMERIC_WIDTH),
    "UTINYINT": _INT4,
    "USMALLINT": _INT4,
    "UINT": INTEGER,
    "UBIGINT": INTEGER,
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "TEXT": VARCHAR,
    "VARCHAR": VARCHAR,
    "CHAR": VARCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "TIME": TIME,
    "UUID": UUID,
}
"""Our types by sqlglot's names.

Integers of every width become INTEGER: dpsql computes in 64 bits and wider. So a narrow cast does
not fail or overflow as the engine's own would.
"""


def number(written: str, span: Span) -> Literal:
    """Return an unsigned numeric literal as the engines type it: INTEGER, DECIMAL(p, s) or
    DOUBLE.

    >>> number("1.50", Span(0, 4)).type
    SqlType(kind=<Kind.DECIMAL: 'DECIMAL'>, precision=3, scale=2)
    """
    if _DOUBLE.match(written):
        value = float(written)
        if math.isinf(value):
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a number beyond DOUBLE")
        return Literal(value, DOUBLE, span)
    parts = _DECIMAL.match(written)
    if parts is None or written in ("", "."):
        raise Refused(Reason.SYNTAX, span, why="this is not a number")
    whole, fraction = parts.groups()
    if len(whole) + len(fraction or "") > MAX_DIGITS:
        construct = f"a number of more than {MAX_DIGITS} digits"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct)
    if fraction is None:
        return Literal(int(whole), _INT4 if int(whole) < _INT4_END else INTEGER, span)
    kind = decimal(max(1, len(whole) + len(fraction)), len(fraction))
    return Literal(Decimal(f"{whole or '0'}.{fraction or '0'}"), kind, span)


def literal(node: exp.Expression, origin: Origin) -> Literal:
    """Return a number or a string as written."""
    written, is_string = origin.take(node, "this", "is_string")
    span = origin.span(node)
    if not is_string:
        return number(str(written), span)
    moment = word(str(written), origin.instant)
    if str(written).strip().lower() == "now":
        origin.nows.add(span.start)
    return Literal(str(written), VARCHAR, span, moment)


def negative(positive: Literal, span: Span) -> Literal:
    """Return the literal with its sign changed: -1 is a constant, not an operation."""
    assert isinstance(positive.value, int | float | Decimal)
    return Literal(-positive.value, positive.type, span)


def cast_type(node: exp.Expression, origin: Origin) -> tuple[SqlType, int | None]:
    """Return the target of a cast, and the most characters of a Postgres VARCHAR(n).

    A bare NUMERIC is DECIMAL(18, 3) in DuckDB. In Postgres it keeps every digit, to which DOUBLE
    comes closest. Raises `Refused` for types that the tree cannot express.
    """
    if not isinstance(node, exp.DataType):
        raise origin.refusal(node, "this type")
    kind, params = origin.take(node, "this", "expressions")
    name = str(getattr(kind, "value", kind)).upper()
    sizes = [_size(param, origin) for param in params or []]
    if name == "DECIMAL":
        return _decimal_of(sizes, node, origin), None
    if name not in _TYPES:
        raise origin.refusal(node, f"the type {name}")
    target = _TYPES[name]
    if sizes and (target != VARCHAR or len(sizes) > 1):
        raise origin.refusal(node, f"{name} with a precision")
    if name == "CHAR" and not sizes:
        sizes = [1]
    return target, sizes[0] if sizes and origin.dialect == "postgres" else None


def _size(param: exp.Expression, origin: Origin) -> int:
    if not isinstance(param, exp.DataTypeParam):
        raise origin.refusal(param, "this type")
    (value,) = origin.take(param, "this")
    size = literal(value, origin).value if isinstance(value, exp.Literal) else None
    if not isinstance(size, int):
        raise origin.refusal(param, "this type")
    return size


def _decimal_of(sizes: list[int], node: exp.Expression, origin: Origin) -> SqlType:
    match sizes:
        case []:
            numeric = SqlType(Kind.DOUBLE, width=NUMERIC_WIDTH)
            return numeric if origin.dialect == "postgres" else decimal(18, 3)
        case [precision] if 1 <= precision <= MAX_DIGITS:
            return decimal(precision, 0)
        case [precision, scale] if 1 <= precision <= MAX_DIGITS and 0 <= scale <= precision:
            return decimal(precision, scale)
        case _:
            raise origin.refusal(node, "DECIMAL of this precision")


def temporal(text: Literal, target: SqlType, origin: Origin) -> Literal:
    """Return a string literal as a DATE, TIMESTAMP or TIMESTAMPTZ (ISO 8601 only), a TIME or a
    UUID.

    The string may also be a word such as 'now'. A TIMESTAMPTZ without a time zone is UTC. A
    TIMESTAMP with one becomes UTC in DuckDB and ignores it in Postgres, as these engines do.
    """
    assert isinstance(text.value, str)
    try:
        if target in (TIME, UUID):
            return Literal(said(text.value, target), target, text.span)
        moment = text.moment or datetime.fromisoformat(text.value.strip())
        return Literal(_as_kind(moment, target.kind, origin.dialect), target, text.span)
    except (ValueError, OverflowError):
        raise Refused(
            Reason.TYPE_MISMATCH, text.span, text=text.value, kind=target.kind.value
        ) from None


def casted(
    arg: Expression, target: SqlType, origin: Origin, span: Span, *, safe: bool = False
) -> Expression:
    """Return CAST(arg AS target), or its value if `arg` is a constant of certain value.

    Drivers write a bound value as `'paid'::VARCHAR` and `10::INTEGER`: these become the constants
    themselves, so the query is the same as with bare constants.
    """
    constant = target.is_temporal or target in (TIME, UUID)
    if (endless := endless_moment(arg, target)) is not None:
        return endless
    if isinstance(arg, Literal):
        if arg.type == VARCHAR and constant and not safe:
            return temporal(arg, target, origin)
        if arg.type == target and target in (VARCHAR, INTEGER, BOOLEAN):
            return replace(arg, span=span)
        if isinstance(arg.value, str) and target == INTEGER and _WHOLE.match(arg.value):
            return Literal(int(arg.value), INTEGER, span)
        if type(arg.value) is int and target == DOUBLE and abs(arg.value) <= _EXACT:
            return Literal(float(arg.value), DOUBLE, span)
    return Cast(arg, target, safe, span)


def _as_kind(moment: datetime, kind: Kind, dialect: str) -> date | datetime:
    if kind is Kind.DATE:
        return moment.date()
    if kind is Kind.TIMESTAMPTZ:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.tzinfo and dialect != "postgres":
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None)
