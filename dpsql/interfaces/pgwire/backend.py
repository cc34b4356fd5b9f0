r"""What the server sends, version 3 of the protocol: values → bytes.

The layout is PostgreSQL's manual, chapter "Frontend/Backend Protocol", "Message Formats".

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
    """A message of this type byte."""
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


# --- the beginning of a connection ---


def authentication(code: int, body: bytes = b"") -> bytes:
    """A step of authentication: 0 accepted, 10 mechanisms, 11 go on, 12 the last word."""
    return message(b"R", struct.pack("!i", code) + body)


def mechanisms(names: Sequence[str]) -> bytes:
    """The SASL mechanisms on offer."""
    return authentication(10, b"".join(map(_text, names)) + b"\0")


def parameter_status(name: str, value: str) -> bytes:
    """A setting that clients follow."""
    return message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: bytes) -> bytes:
    """What a cancel request must name."""
    return message(b"K", struct.pack("!i", process) + secret)


def negotiate_version(version: tuple[int, int], unknown: Sequence[str]) -> bytes:
    """The newest version spoken here, and the protocol options that are not known."""
    major, minor = version
    body = struct.pack("!ii", major << 16 | minor, len(unknown))
    return message(b"v", body + b"".join(map(_text, unknown)))


def ready(status: bytes) -> bytes:
    """The server waits: I idle, T in a transaction, E in a failed one."""
    return message(b"Z", status)


# --- results ---


def row_description(columns: Sequence[WireColumn], formats: Sequence[int]) -> bytes:
    """Names, types and formats of the columns that follow."""
    fields = [
        _text(c.name) + struct.pack("!IHIhih", 0, 0, c.oid, size_of(c.oid), c.typmod, form)
        for c, form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(fields)) + b"".join(fields))


def parameter_description(types: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def command_complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", _text(tag))


def copy_out(columns: int, form: int) -> bytes:
    """COPY begins: 0 text, 1 binary."""
    body = struct.pack(f"!bH{columns}H", form, columns, *([form] * columns))
    return message(b"H", body)


def copy_data(data: bytes) -> bytes:
    """A row of COPY."""
    return message(b"d", data)


def error(fields: Mapping[str, str]) -> bytes:
    """An ErrorResponse: S severity, C SQLSTATE, M message, D detail, H hint, P position."""
    return message(b"E", _fields(fields))


def notice(fields: Mapping[str, str]) -> bytes:
    """A NoticeResponse, of the same fields."""
    return message(b"N", _fields(fields))


def _fields(fields: Mapping[str, str]) -> bytes:
    return b"".join(code.encode() + _text(text) for code, text in fields.items()) + b"\0"
