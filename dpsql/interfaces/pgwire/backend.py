r"""Encoders of the server's messages in version 3 of the protocol: values → bytes.

The layout follows PostgreSQL's manual, chapter "Frontend/Backend Protocol", "Message Formats".

>>> command_complete("SELECT 1")
b'C\x00\x00\x00\rSELECT 1\x00'
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from dpsql.interfaces.pgwire.values.type_oids import size_of
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message with this type byte."""
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


# --- the beginning of a connection ---


def authentication(code: int, body: bytes = b"") -> bytes:
    """Return a step of authentication: 0 accepted, 10 mechanisms, 11 continue, 12 final."""
    return message(b"R", struct.pack("!i", code) + body)


def mechanisms(names: Sequence[str]) -> bytes:
    """Return the message with the offered SASL mechanisms."""
    return authentication(10, b"".join(map(_text, names)) + b"\0")


def parameter_status(name: str, value: str) -> bytes:
    """Return the message with a setting that clients follow."""
    return message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: bytes) -> bytes:
    """Return the message with the key for cancel requests."""
    return message(b"K", struct.pack("!i", process) + secret)


def negotiate_version(version: tuple[int, int], unknown: Sequence[str]) -> bytes:
    """Return the newest supported version, and the unknown protocol options."""
    major, minor = version
    body = struct.pack("!ii", major << 16 | minor, len(unknown))
    return message(b"v", body + b"".join(map(_text, unknown)))


def ready(status: bytes) -> bytes:
    """Return ReadyForQuery: I idle, T in a transaction, E in a failed one."""
    return message(b"Z", status)


# --- results ---


def row_description(columns: Sequence[WireColumn], formats: Sequence[int]) -> bytes:
    """Return the names, types and formats of the following columns."""
    fields = [
        _text(c.name) + struct.pack("!IHIhih", 0, 0, c.oid, size_of(c.oid), c.typmod, form)
        for c, form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(fields)) + b"".join(fields))


def parameter_description(types: Sequence[int]) -> bytes:
    """Return the types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def command_complete(tag: str) -> bytes:
    """Return the end of a statement."""
    return message(b"C", _text(tag))


def copy_out(columns: int, form: int) -> bytes:
    """Return the beginning of COPY: 0 text, 1 binary."""
    body = struct.pack(f"!bH{columns}H", form, columns, *([form] * columns))
    return message(b"H", body)


def copy_data(data: bytes) -> bytes:
    """Return a row of COPY."""
    return message(b"d", data)


def error(fields: Mapping[str, str]) -> bytes:
    """Return an ErrorResponse: S severity, C SQLSTATE, M message, D detail, H hint, P position."""
    return message(b"E", _fields(fields))


def notice(fields: Mapping[str, str]) -> bytes:
    """Return a NoticeResponse with the same fields."""
    return message(b"N", _fields(fields))


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(code.encode() + _text(text) for code, text in fields.items()) + b"\0"
