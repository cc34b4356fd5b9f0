r"""Values → text and binary in PostgreSQL's format, by the announced type.

>>> encoder(type_oids.NUMERIC, 0)(Decimal("1.50")), encoder(type_oids.BOOL, 1)(True)
(b'1.50', b'\x01')
>>> encoder(22, 0)([1, 2])
b'1 2'
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import partial
from math import isinf, isnan
from typing import Any
from uuid import UUID

from dpsql.interfaces.pgwire.values import type_oids
from dpsql.model.durations import days_and_rest, spelled

Encoder = Callable[[Any], bytes]
TEXT_FORMAT, BINARY_FORMAT = 0, 1
EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
"""Origin of PostgreSQL's days and microseconds."""

_VECTORS = (type_oids.INT2VECTOR, type_oids.OIDVECTOR)
_BASE_DIGITS = 4
PLAIN_FROM, PLAIN_TO = 1e-4, 1e15
"""Range in which PostgreSQL writes no exponent."""


class OutOfRange(Exception):
    """Raised if a released number does not fit the announced type."""


def encoder(oid: int, form: int, zone: tzinfo = UTC) -> Encoder:
    """Return the encoder of a type in text (0) or binary (1), with timestamps in `zone`."""
    if oid in type_oids.ELEMENTS:
        element = encoder(type_oids.ELEMENTS[oid], form, zone)
        if form == BINARY_FORMAT:
            return partial(
                _array_binary, type_oids.ELEMENTS[oid], element, int(oid not in _VECTORS)
            )
        return partial(_vector_text if oid in _VECTORS else _array_text, element)
    if form == BINARY_FORMAT:
        return _BINARY.get(oid, as_text)
    if oid == type_oids.TIMESTAMPTZ_OID:
        return partial(_moment_text, zone)
    return _TEXT.get(oid, as_text)


# --- text ---


def as_text(value: Any) -> bytes:
    """Return the text of a value without a rule of its own."""
    return str(value).encode("utf-8", "replace")


def range_of(oid: int) -> tuple[int, int]:
    """Return the range of an integer type: its minimum, and its maximum plus one."""
    bits = 8 * type_oids.INTEGERS[oid]
    return (0, 1 << bits) if oid in type_oids.UNSIGNED else (-1 << bits - 1, 1 << bits - 1)


def _integer_text(oid: int) -> Encoder:
    least, end = range_of(oid)

    def write(value: int) -> bytes:
        if not least <= value < end:
            raise OutOfRange
        return b"%d" % value

    return write


def _exact(value: Decimal | float) -> Decimal:
    """Return a number with the fewest digits that identify it."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def float_text(value: float) -> bytes:
    """Return the shortest digits that identify a number, with an exponent as in PostgreSQL.

    >>> float_text(100000.0), float_text(1e15), float_text(0.00001), float_text(float("inf"))
    (b'100000', b'1e+15', b'1e-05', b'Infinity')
    """
    if PLAIN_FROM <= abs(value) < PLAIN_TO:
        return repr(value).removesuffix(".0").encode()
    if isnan(value):
        return b"NaN"
    if isinf(value):
        return b"Infinity" if value > 0 else b"-Infinity"
    sign, digits, _ = Decimal(repr(value)).as_tuple()
    if value == 0:
        return b"-0" if sign else b"0"
    exponent = Decimal(repr(value)).adjusted()
    figures = "".join(map(str, digits)).rstrip("0")
    mantissa = f"{figures[0]}.{figures[1:]}".rstrip(".")
    return f"{'-' * sign}{mantissa}e{exponent:+03d}".encode()


def _time_text(value: time) -> bytes:
    text = value.isoformat()
    return (text.rstrip("0") if value.microsecond else text).encode()


def _timestamp_text(value: datetime) -> bytes:
    plain = value.replace(tzinfo=None)
    text = plain.isoformat(" ")
    return (text.rstrip("0") if plain.microsecond else text).encode()


def _moment_text(zone: tzinfo, value: datetime) -> bytes:
    """Return a timestamp in the session's zone, with the shortest form of offset: +00, +05:30."""
    try:
        local = _aware(value).astimezone(zone)
    except OverflowError:
        local = _aware(value)
    seconds = int((local.utcoffset() or UTC.utcoffset(None)).total_seconds())
    hours, rest = divmod(abs(seconds), 3600)
    offset = f"{'-' if seconds < 0 else '+'}{hours:02d}"
    parts = [rest // 60, rest % 60]
    while parts and not parts[-1]:
        parts.pop()
    offset += "".join(f":{part:02d}" for part in parts)
    return _timestamp_text(local) + offset.encode()


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _vector_text(element: Encoder, values: Sequence[Any]) -> bytes:
    return b" ".join(map(element, values))


def _array_text(element: Encoder, values: Sequence[Any]) -> bytes:
    """Return {a,b}, with NULL unquoted, and quotes around ambiguous texts."""
    return b"{" + b",".join(_member_text(element, value) for value in values) + b"}"


def _member_text(element: Encoder, value: Any) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, list | tuple):
        return _array_text(element, value)
    text = element(value)
    special = any(c in b'{},"\\ \t\r\n\v\f' for c in text)
    if text and not special and text.upper() != b"NULL":
        return text
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


# --- binary ---


def _integer_binary(oid: int) -> Encoder:
    (least, end), width, signed = (
        range_of(oid),
        type_oids.INTEGERS[oid],
        oid not in type_oids.UNSIGNED,
    )

    def write(value: int) -> bytes:
        if not least <= value < end:
            raise OutOfRange
        return value.to_bytes(width, "big", signed=signed)

    return write


def _reg_binary(value: Any) -> bytes:
    return int(value).to_bytes(4, "big") if isinstance(value, int) else as_text(value)


_NAN = 0xC000
_ENDLESS = {Decimal("inf"): 0xD000, Decimal("-inf"): 0xF000}
"""Signs of numeric values without digits (PostgreSQL 15, utils/adt/numeric.c)."""


def _numeric_binary(value: Decimal | float) -> bytes:
    """Return base-10000 digits, with weight, sign and number of decimal places."""
    number = _exact(value)
    if not number.is_finite():
        return struct.pack("!hhHh", 0, 0, _ENDLESS.get(number, _NAN), 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    figures = ("".join(map(str, digits)) + "0" * max(0, exponent)).rjust(scale, "0")
    whole, fraction = figures[: len(figures) - scale], figures[len(figures) - scale :]
    whole = whole.rjust(-(-len(whole) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    fraction = fraction.ljust(-(-len(fraction) // _BASE_DIGITS) * _BASE_DIGITS, "0")
    joined = whole + fraction
    groups = [int(joined[n : n + _BASE_DIGITS]) for n in range(0, len(joined), _BASE_DIGITS)]
    weight = len(whole) // _BASE_DIGITS - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups = groups[:-1]
    signed = 0x4000 if sign and groups else 0
    head = struct.pack("!HhHH", len(groups), weight if groups else 0, signed, scale)
    return head + struct.pack(f"!{len(groups)}H", *groups)


def _time_binary(value: time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("!q", seconds * 10**6 + value.microsecond)


def _timestamp_binary(value: datetime) -> bytes:
    since = value.replace(tzinfo=None) - EPOCH
    return struct.pack("!q", (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds)


def _interval_binary(value: timedelta) -> bytes:
    days, rest = days_and_rest(value)
    return struct.pack("!qii", rest, days, 0)


def _array_binary(oid: int, element: Encoder, lower: int, values: Sequence[Any]) -> bytes:
    """Return an array of one dimension (none if empty) from index `lower`; vectors count from 0."""
    members = [None if value is None else element(value) for value in values]
    dimensions = struct.pack("!ii", len(members), lower) if members else b""
    head = struct.pack("!iiI", int(bool(members)), int(None in members), oid) + dimensions
    packed = (
        b"\xff\xff\xff\xff" if member is None else struct.pack("!i", len(member)) + member
        for member in members
    )
    return head + b"".join(packed)


_TEXT: dict[int, Encoder] = {
    **{oid: _integer_text(oid) for oid in type_oids.INTEGERS},
    type_oids.BOOL: lambda value: b"t" if value else b"f",
    type_oids.BYTEA: lambda value: b"\\x" + value.hex().encode(),
    type_oids.FLOAT4: float_text,
    type_oids.FLOAT8: float_text,
    type_oids.NUMERIC: lambda value: format(_exact(value), "f").encode(),
    type_oids.DATE_OID: lambda value: value.isoformat().encode(),
    type_oids.TIME_OID: _time_text,
    type_oids.TIMESTAMP_OID: _timestamp_text,
    type_oids.INTERVAL_OID: lambda value: spelled(value).encode(),
}

_BINARY: dict[int, Encoder] = {
    **{oid: _integer_binary(oid) for oid in type_oids.INTEGERS},
    type_oids.BOOL: lambda value: b"\1" if value else b"\0",
    type_oids.BYTEA: bytes,
    type_oids.FLOAT4: partial(struct.pack, "!f"),
    type_oids.FLOAT8: partial(struct.pack, "!d"),
    type_oids.NUMERIC: _numeric_binary,
    type_oids.DATE_OID: lambda value: struct.pack("!i", (value - EPOCH.date()).days),
    type_oids.TIME_OID: _time_binary,
    type_oids.TIMESTAMP_OID: _timestamp_binary,
    type_oids.TIMESTAMPTZ_OID: lambda value: _timestamp_binary(_aware(value).astimezone(UTC)),
    type_oids.INTERVAL_OID: _interval_binary,
    type_oids.REGCLASS: _reg_binary,
    type_oids.REGPROC: _reg_binary,
    type_oids.REGTYPE: _reg_binary,
    type_oids.UUID_OID: lambda value: UUID(str(value)).bytes,
}
