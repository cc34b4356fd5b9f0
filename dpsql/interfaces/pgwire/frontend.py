r"""Decoders of the client's messages in version 3 of the protocol: bytes → frozen messages.

The layout follows PostgreSQL's manual, chapter "Frontend/Backend Protocol", "Message Formats".

>>> decode(b"Q", b"SELECT 1\x00")
Query(sql='SELECT 1')
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from dpsql.model.dataclass import dataclass

CANCEL_REQUEST, SSL_REQUEST, GSSENC_REQUEST = 80877102, 80877103, 80877104
"""Request codes in place of a version."""
MAX_STARTUP_BYTES = 10_000


class ProtocolError(Exception):
    """Raised if bytes are not a message. The connection must end."""


@dataclass(frozen=True, slots=True)
class Startup:
    """First message: version (major, minor), and parameters such as user and database."""

    version: tuple[int, int]
    parameters: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Encrypt:
    """Request for TLS, or with `gss` for GSSAPI encryption."""

    gss: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """Request to cancel the statement of the session with this key."""

    process: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Query:
    """Text of statements to run at once."""

    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """A statement to prepare under a name. Parameter types are OIDs, 0 if unknown."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Values for a statement. Formats are 0 for text and 1 for binary; (), one for all, or one
    each.
    """

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Request for the parameters and columns of a statement (or portal)."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Request for rows of a portal: at most `limit`, or all for 0."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class Close:
    """Request to close a statement (or portal)."""

    portal: bool
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """End of a series: replies are due, and an error is over."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Request to send the buffered replies."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """End of the connection."""


@dataclass(frozen=True, slots=True)
class Response:
    """A step of authentication, with a body that depends on the step."""

    body: bytes


@dataclass(frozen=True, slots=True)
class CopyIn:
    """CopyData, CopyDone or CopyFail, which are ignored: nothing is ever copied in."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function call by OID, which is obsolete."""


Message: TypeAlias = (
    Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sync
    | Flush
    | Terminate
    | Response
    | CopyIn
    | FunctionCall
)


class _Body:
    """Reader of the fields of a message."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def _numbers(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        if self._at + size > len(self._body):
            raise ProtocolError("a message is too short")
        numbers = struct.unpack_from(layout, self._body, self._at)
        self._at += size
        return numbers

    def int16(self) -> int:
        return self._numbers("!H")[0]

    def int32(self) -> int:
        return self._numbers("!i")[0]

    def int16s(self) -> tuple[int, ...]:
        count = self.int16()
        return self._numbers(f"!{count}H")

    def oids(self) -> tuple[int, ...]:
        count = self.int16()
        return self._numbers(f"!{count}I")

    def byte(self) -> bytes:
        return self.take(1)

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._body):
            raise ProtocolError("a message is too short")
        self._at += count
        return self._body[self._at - count : self._at]

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a string is not ended")
        raw = self.take(end - self._at)
        self._at += 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError("a string is not UTF-8") from None

    def value(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self.take(size)

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise ProtocolError("a message is too long")


def startup(body: bytes) -> Startup | Encrypt | Cancel:
    """Decode the first message of a connection, without its length. Raises `ProtocolError`."""
    reader = _Body(body)
    code = reader.int32()
    match code:
        case 80877103 | 80877104:
            reader.end()
            return Encrypt(gss=code == GSSENC_REQUEST)
        case 80877102:
            return Cancel(reader.int32(), reader.rest())
    parameters = []
    while name := reader.text():
        parameters.append((name, reader.text()))
    reader.end()
    return Startup((code >> 16, code & 0xFFFF), tuple(parameters))


def _bind(body: _Body) -> Bind:
    portal, statement, formats = body.text(), body.text(), body.int16s()
    values = tuple(body.value() for _ in range(body.int16()))
    return Bind(portal, statement, formats, values, body.int16s())


def _is_portal(body: _Body) -> bool:
    kind = body.byte()
    if kind not in (b"S", b"P"):
        raise ProtocolError("this is neither a statement nor a portal")
    return kind == b"P"


def _copy_in(body: _Body) -> CopyIn:
    body.rest()
    return CopyIn()


def _function(body: _Body) -> FunctionCall:
    body.rest()
    return FunctionCall()


_DECODERS: dict[bytes, Callable[[_Body], Message]] = {
    b"Q": lambda body: Query(body.text()),
    b"P": lambda body: Parse(body.text(), body.text(), body.oids()),
    b"B": _bind,
    b"D": lambda body: Describe(_is_portal(body), body.text()),
    b"E": lambda body: Execute(body.text(), max(0, body.int32())),
    b"C": lambda body: Close(_is_portal(body), body.text()),
    b"S": lambda _: Sync(),
    b"H": lambda _: Flush(),
    b"X": lambda _: Terminate(),
    b"p": lambda body: Response(body.rest()),
    b"d": _copy_in,
    b"c": _copy_in,
    b"f": _copy_in,
    b"F": _function,
}


def decode(kind: bytes, body: bytes) -> Message:
    """Decode a message of this type byte. Raises `ProtocolError`."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise ProtocolError("there is no such message")
    reader = _Body(body)
    message = decoder(reader)
    reader.end()
    return message
