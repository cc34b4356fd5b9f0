r"""Decoder of parameters in text and binary, by their type.

>>> parameter(b"42", 20, 0), parameter(b"\x00\x2a", 21, 1), parameter(b"{1,NULL}", 1007, 0)
(42, 42, [1, None])
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from typing import Any
from uuid import UUID

from dpsql.dialects.postgres.array_text import members
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_encoding import BINARY_FORMAT, EPOCH
from dpsql.model.durations import parts_of

_TRUE = frozenset("t true y yes on 1".split())
_FALSE = frozenset("f false n no off 0".split())
_MOST_DIGITS = 400
_WIDE = Context(prec=4 * _MOST_DIGITS)
_NEGATIVE, _NAN = 0x4000, 0xC000
_BASE_DIGITS = 4


class BadValue(Exception):
    """Raised if the bytes are not a value of the type."""


def parameter(raw: bytes, oid: int, form: int) -> Any:
    """Return the value of a parameter of type `oid`, in text (0) or binary (1). Raises
    `BadValue`.
    """
    try:
        if form == BINARY_FORMAT:
            return _binary(raw, oid)
        return _text(raw.decode(), oid)
    except (ValueError, ArithmeticError, struct.error, IndexError):
        raise BadValue from None


# --- text ---


def _text(text: str, oid: int) -> Any:
    if oid in type_oids.ELEMENTS:
        element = type_oids.ELEMENTS[oid]
        return [None if member is None else _text(member, element) for member in members(text)]
    return _TEXT.get(oid, str)(text)


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS or "_" in text:
        raise ValueError
    return int(text)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def _number(text: str) -> Decimal:
    if len(text) > _MOST_DIGITS or "_" in text:
        raise ValueError
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError from None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(_iso(text))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _iso(text: str) -> str:
    return text.strip().removesuffix(" UTC").removesuffix(" GMT")


def _interval(text: str) -> timedelta | str:
    """Parse a duration. With months, which have no fixed length, return the text."""
    parts = parts_of(text)
    if parts is None:
        raise ValueError
    if parts["month"]:
        return text
    return timedelta(days=parts["day"], microseconds=parts["microseconds"])


_TEXT: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys(type_oids.INTEGERS, _integer),
    type_oids.BOOL: _boolean,
    type_oids.FLOAT4: float,
    type_oids.FLOAT8: float,
    type_oids.NUMERIC: _number,
    type_oids.DATE_OID: lambda text: datetime.fromisoformat(_iso(text)).date(),
    type_oids.TIME_OID: lambda text: time.fromisoformat(text.strip()).replace(tzinfo=None),
    type_oids.TIMESTAMP_OID: lambda text: datetime.fromisoformat(_iso(text)).replace(tzinfo=None),
    type_oids.TIMESTAMPTZ_OID: _moment,
    type_oids.INTERVAL_OID: _interval,
    type_oids.UUID_OID: UUID,
}


# --- binary ---


def _binary(raw: bytes, oid: int) -> Any:
    if oid in type_oids.ELEMENTS:
        return _array_binary(raw)
    read = _BINARY.get(oid)
    return raw.decode() if read is None else read(raw)


def _integer_binary(oid: int, raw: bytes) -> int:
    if len(raw) != type_oids.INTEGERS.get(oid, 4):
        raise ValueError
    return int.from_bytes(raw, "big", signed=oid not in type_oids.UNSIGNED)


def _boolean_binary(raw: bytes) -> bool:
    if raw not in (b"\0", b"\1"):
        raise ValueError
    return raw == b"\1"


def _float_binary(layout: str, raw: bytes) -> float:
    (value,) = struct.unpack(layout, raw)
    return float(value)


def _number_binary(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!HhHH", raw)
    groups = struct.unpack(f"!{count}H", raw[8:])
    if sign not in (0, _NEGATIVE) or any(group >= 10**_BASE_DIGITS for group in groups):
        raise ValueError
    if count > _MOST_DIGITS or abs(weight) > _MOST_DIGITS or scale > _MOST_DIGITS:
        raise ValueError
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    value = Decimal(f"{digits}E{_BASE_DIGITS * (weight - count + 1)}")
    exact = value.quantize(Decimal(1).scaleb(-scale), context=_WIDE) if scale else value
    return exact.copy_negate() if sign else exact


def _time_binary(raw: bytes) -> time:
    moment = _timestamp_binary(raw)
    if moment.date() != EPOCH.date():
        raise ValueError
    return moment.time()


def _timestamp_binary(raw: bytes) -> datetime:
    (microseconds,) = struct.unpack("!q", raw)
    return EPOCH + timedelta(microseconds=microseconds)


def _interval_binary(raw: bytes) -> timedelta | str:
    microseconds, days, months = struct.unpack("!qii", raw)
    if months:
        return f"{months} months {days} days {microseconds} microseconds"
    return timedelta(days=days, microseconds=microseconds)


def _array_binary(raw: bytes) -> list[Any]:
    dimensions, _, element = struct.unpack_from("!iiI", raw)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError
    count, _ = struct.unpack_from("!ii", raw, 12)
    members, at = [], 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", raw, at)
        at += 4
        if size < -1 or at + size > len(raw):
            raise ValueError
        members.append(None if size == -1 else _binary(raw[at : at + size], element))
        at += max(0, size)
    return members


_BINARY: dict[int, Callable[[bytes], Any]] = {
    **{
        oid: partial(_integer_binary, oid)
        for oid in (*type_oids.INTEGERS, type_oids.REGCLASS, type_oids.REGTYPE, type_oids.REGPROC)
    },
    type_oids.BOOL: _boolean_binary,
    type_oids.FLOAT4: partial(_float_binary, "!f"),
    type_oids.FLOAT8: partial(_float_binary, "!d"),
    type_oids.NUMERIC: _number_binary,
    type_oids.DATE_OID: lambda raw: EPOCH.date() + timedelta(days=struct.unpack("!i", raw)[0]),
    type_oids.TIME_OID: _time_binary,
    type_oids.TIMESTAMP_OID: _timestamp_binary,
    type_oids.TIMESTAMPTZ_OID: lambda raw: _timestamp_binary(raw).replace(tzinfo=UTC),
    type_oids.INTERVAL_OID: _interval_binary,
    type_oids.UUID_OID: lambda raw: UUID(bytes=raw),
}
