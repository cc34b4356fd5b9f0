"""Constants and types: numbers, typed strings, bound parameters, and the types of casts."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin
from dpsql.model import tree
from dpsql.model.bound_parameters import MAX_DIGITS, endless_moment, said
from dpsql.model.errors import Reason, Refused
from dpsql.model.public_times import word

_DOUBLE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+\Z")
_DECIMAL = re.compile(r"(\d*)(?:\.(\d*))?\Z")
_WHOLE = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_INT4_END = 2**31
_EXACT = 2**53
"""Whole numbers up to here are numbers of DOUBLE."""

_INT4 = tree.SqlType(tree.Kind.INTEGER, width=tree.INTEGER_WIDTH)

_TYPES = {
    "BOOLEAN": tree.BOOLEAN,
    "TINYINT": _INT4,
    "SMALLINT": _INT4,
    "INT": _INT4,
    "BIGINT": tree.INTEGER,
    "INT128": tree.SqlType(tree.Kind.INTEGER, width=tree.NUMERIC_WIDTH),
    "UTINYINT": _INT4,
    "USMALLINT": _INT4,
    "UINT": tree.INTEGER,
    "UBIGINT": tree.INTEGER,
    "FLOAT": tree.DOUBLE,
    "DOUBLE": tree.DOUBLE,
    "TEXT": tree.VARCHAR,
    "VARCHAR": tree.VARCHAR,
    "CHAR": tree.VARCHAR,
    "DATE": tree.DATE,
    "TIMESTAMP": tree.TIMESTAMP,
    "TIMESTAMPNTZ": tree.TIMESTAMP,
    "TIMESTAMPTZ": tree.TIMESTAMPTZ,
    "INTERVAL": tree.INTERVAL,
    "TIME": tree.TIME,
    "UUID": tree.UUID,
}
"""Our types by sqlglot's names.

Integers of every width become INTEGER: dpsql computes in 64 bits and wider. So a narrow cast does
not fail or overflow as the engine's own would.
"""


def number(written: str, span: tree.Span) -> tree.Literal:
    """Return an unsigned numeric literal as the engines type it: INTEGER, DECIMAL(p, s) or
    DOUBLE.

    >>> number("1.50", tree.Span(0, 4)).type
    SqlType(kind=<Kind.DECIMAL: 'DECIMAL'>, precision=3, scale=2)
    """
    if _DOUBLE.match(written):
        value = float(written)
        if math.isinf(value):
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a number beyond DOUBLE")
        return tree.Literal(value, tree.DOUBLE, span)
    parts = _DECIMAL.match(written)
    if parts is None or written in ("", "."):
        raise Refused(Reason.SYNTAX, span, why="this is not a number")
    whole, fraction = parts.groups()
    if len(whole) + len(fraction or "") > MAX_DIGITS:
        construct = f"a number of more than {MAX_DIGITS} digits"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct)
    if fraction is None:
        return tree.Literal(int(whole), _INT4 if int(whole) < _INT4_END else tree.INTEGER, span)
    kind = tree.decimal(max(1, len(whole) + len(fraction)), len(fraction))
    return tree.Literal(Decimal(f"{whole or '0'}.{fraction or '0'}"), kind, span)


def literal(node: exp.Expression, origin: Origin) -> tree.Literal:
    """Return a number or a string as written."""
    written, is_string = origin.take(node, "this", "is_string")
    span = origin.span(node)
    if not is_string:
        return number(str(written), span)
    moment = word(str(written), origin.instant)
    if str(written).strip().lower() == "now":
        origin.nows.add(span.start)
    return tree.Literal(str(written), tree.VARCHAR, span, moment)


def negative(positive: tree.Literal, span: tree.Span) -> tree.Literal:
    """Return the literal with its sign changed: -1 is a constant, not an operation."""
    assert isinstance(positive.value, int | float | Decimal)
    return tree.Literal(-positive.value, positive.type, span)


def cast_type(node: exp.Expression, origin: Origin) -> tuple[tree.SqlType, int | None]:
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
    if sizes and (target != tree.VARCHAR or len(sizes) > 1):
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


def _decimal_of(sizes: list[int], node: exp.Expression, origin: Origin) -> tree.SqlType:
    match sizes:
        case []:
            numeric = tree.SqlType(tree.Kind.DOUBLE, width=tree.NUMERIC_WIDTH)
            return numeric if origin.dialect == "postgres" else tree.decimal(18, 3)
        case [precision] if 1 <= precision <= MAX_DIGITS:
            return tree.decimal(precision, 0)
        case [precision, scale] if 1 <= precision <= MAX_DIGITS and 0 <= scale <= precision:
            return tree.decimal(precision, scale)
        case _:
            raise origin.refusal(node, "DECIMAL of this precision")


def temporal(text: tree.Literal, target: tree.SqlType, origin: Origin) -> tree.Literal:
    """Return a string literal as a DATE, TIMESTAMP or TIMESTAMPTZ (ISO 8601 only), a TIME or a
    UUID.

    The string may also be a word such as 'now'. A TIMESTAMPTZ without a time zone is UTC. A
    TIMESTAMP with one becomes UTC in DuckDB and ignores it in Postgres, as these engines do.
    """
    assert isinstance(text.value, str)
    try:
        if target in (tree.TIME, tree.UUID):
            return tree.Literal(said(text.value, target), target, text.span)
        moment = text.moment or datetime.fromisoformat(text.value.strip())
        return tree.Literal(_as_kind(moment, target.kind, origin.dialect), target, text.span)
    except (ValueError, OverflowError):
        raise Refused(
            Reason.TYPE_MISMATCH, text.span, text=text.value, kind=target.kind.value
        ) from None


def casted(
    arg: tree.Expression,
    target: tree.SqlType,
    origin: Origin,
    span: tree.Span,
    *,
    safe: bool = False,
) -> tree.Expression:
    """Return CAST(arg AS target), or its value if `arg` is a constant of certain value.

    Drivers write a bound value as `'paid'::VARCHAR` and `10::INTEGER`: these become the constants
    themselves, so the query is the same as with bare constants.
    """
    constant = target.is_temporal or target in (tree.TIME, tree.UUID)
    if (endless := endless_moment(arg, target)) is not None:
        return endless
    if isinstance(arg, tree.Literal):
        if arg.type == tree.VARCHAR and constant and not safe:
            return temporal(arg, target, origin)
        if arg.type == target and target in (tree.VARCHAR, tree.INTEGER, tree.BOOLEAN):
            return replace(arg, type=target, span=span)
        if isinstance(arg.value, str) and target == tree.INTEGER and _WHOLE.match(arg.value):
            return tree.Literal(int(arg.value), target, span)
        if type(arg.value) is int and target == tree.DOUBLE and abs(arg.value) <= _EXACT:
            return tree.Literal(float(arg.value), tree.DOUBLE, span)
    return tree.Cast(arg, target, safe, span)


def _as_kind(moment: datetime, kind: tree.Kind, dialect: str) -> date | datetime:
    if kind is tree.Kind.DATE:
        return moment.date()
    if kind is tree.Kind.TIMESTAMPTZ:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.tzinfo and dialect != "postgres":
        moment = moment.astimezone(UTC)
    return moment.replace(tzinfo=None)
