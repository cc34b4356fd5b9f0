"""Bound parameters → literals: plain Python values, and library types derived from them."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import cast

from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

MAX_DIGITS = 38
"""Digits of the widest INTEGER and DECIMAL."""

MAX_BYTES = 64 * 1024
"""Longest string, in UTF-8 bytes, as long as the longest query text."""


def bound(value: object, span: tree.Span) -> tree.Literal:
    """Convert a parameter to a literal. Times with a zone become UTC, intervals become
    microseconds.

    Numbers of NumPy and times of pandas are read as their base types. Raises `Refused` for other
    values.

    >>> bound(True, tree.Span(0, 1)).type.kind.value
    'BOOLEAN'
    """
    try:
        plain = _plain(value)
    except (OverflowError, TypeError, ValueError):
        raise Refused(Reason.BAD_PARAMETER, span, why="no such number or time in UTC") from None
    return tree.Literal(plain, _type_of(plain, value, span), span)


def frozen(parameters: Iterable[object]) -> tuple[tree.Parameter, ...]:
    """Return parameters as a request keeps them: arrays become tuples.

    >>> frozen([1, ["a", None]])
    (1, ('a', None))
    """
    return tuple(
        tuple(value) if isinstance(value, list | tuple) else cast("tree.Value", value)
        for value in parameters
    )


def types_of(parameters: tuple[tree.Parameter, ...]) -> tuple[object, ...]:
    """Return the types of parameters, and of the members of arrays among them."""
    return tuple(tuple(map(type, p)) if isinstance(p, tuple) else type(p) for p in parameters)


def said(text: str, kind: tree.SqlType) -> time | uuid.UUID:
    """Parse a TIME or UUID. Raises ValueError.

    >>> said("08:30", tree.TIME)
    datetime.time(8, 30)
    """
    if kind == tree.UUID:
        return uuid.UUID(text.strip())
    return time.fromisoformat(text.strip()).replace(tzinfo=None)


_ENDLESS = re.compile(r"\s*(-?)inf(?:inity)?\s*\Z", re.IGNORECASE)


def endless_moment(value: tree.Expression, kind: tree.SqlType) -> tree.Cast | None:
    """Convert the text `infinity` or `-infinity` to a date or moment after or before all others.

    Python has no such constant, so the engine converts the text. Returns None for other values.

    >>> endless_moment(tree.Literal("-Infinity", tree.VARCHAR), tree.DATE).arg.value
    '-infinity'
    """
    if not (isinstance(value, tree.Literal) and isinstance(value.value, str) and kind.is_temporal):
        return None
    if (sign := _ENDLESS.match(value.value)) is None:
        return None
    return tree.Cast(
        tree.Literal(f"{sign[1]}infinity", tree.VARCHAR, value.span), kind, span=value.span
    )


def _plain(value: object) -> tree.Value:
    """Convert the value to exactly one of our types, so that it prints as that type; else None."""
    match value:
        case bool() | Decimal():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case str():
            return str.__str__(value)
        case timedelta():
            return value // timedelta(microseconds=1)
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            clock = moment.hour, moment.minute, moment.second, moment.microsecond
            zone = moment.tzinfo and UTC
            return datetime(moment.year, moment.month, moment.day, *clock, tzinfo=zone)
        case date():
            return date(value.year, value.month, value.day)
        case time() if value.tzinfo is None:
            return time(value.hour, value.minute, value.second, value.microsecond)
        case uuid.UUID():
            return uuid.UUID(int=value.int)
        case _ if str(getattr(value, "dtype", "")) == "bool" and getattr(value, "shape", 1) == ():
            return bool(value)  # of NumPy
        case _:
            return None


def _type_of(value: tree.Value, given: object, span: tree.Span) -> tree.SqlType:
    match value:
        case None if given is None:
            return tree.NULL
        case bool():
            return tree.BOOLEAN
        case int() if isinstance(given, timedelta):
            return tree.INTERVAL
        case int() if abs(value) < 10**MAX_DIGITS:
            return tree.INTEGER
        case float() if math.isfinite(value):
            return tree.DOUBLE
        case Decimal() if value.is_finite():
            return _decimal_type(value, span)
        case str() if "\0" not in value and _fits(value, span):
            return tree.VARCHAR
        case datetime():
            return tree.TIMESTAMP if value.tzinfo is None else tree.TIMESTAMPTZ
        case date():
            return tree.DATE
        case time():
            return tree.TIME
        case uuid.UUID():
            return tree.UUID
        case _:
            why = f"no literal for this {type(given).__name__}"
            if isinstance(given, bytes):
                why = "no column has bytes; pass a text, as in value.decode()"
            raise Refused(Reason.BAD_PARAMETER, span, why=why)


def _decimal_type(value: Decimal, span: tree.Span) -> tree.SqlType:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MAX_DIGITS:
        raise Refused(Reason.BAD_PARAMETER, span, why=f"more than {MAX_DIGITS} digits")
    return tree.decimal(precision, scale)


def _fits(value: str, span: tree.Span) -> bool:
    """Test whether a string is Unicode text. Raises `Refused` for one that is too long."""
    try:
        size = len(value.encode()) if len(value) <= MAX_BYTES else len(value)
    except UnicodeEncodeError:
        return False
    if size > MAX_BYTES:
        raise Refused(Reason.TOO_LARGE, span, what="bytes", limit=MAX_BYTES)
    return True
