"""A client of the wire in asyncio, by hand: it logs in without deriving its keys each time."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import struct
from functools import cache
from hashlib import pbkdf2_hmac, sha256

from grammar_tests.wire_kit import packet, startup_packet

TLS_REQUEST = struct.pack("!ii", 8, 80877103)
_BARE = "n=,r=nonce"
Both = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def first_response() -> bytes:
    """SCRAM's first message, without a binding to TLS."""
    first = f"n,,{_BARE}".encode()
    return packet(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)


def final_response(offer: str, password: str) -> bytes:
    """The proof for what the server said first (RFC 5802, section 3)."""
    nonce, salt, iterations = (part[2:] for part in offer.split(","))
    bare = f"c=biws,r={nonce}"
    said = f"{_BARE},{offer},{bare}".encode()
    client_key = _client_key(password, salt, int(iterations))
    stored_key = sha256(client_key).digest()
    signature = hmac.digest(stored_key, said, sha256)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return packet(b"p", f"{bare},p={base64.b64encode(proof).decode()}".encode())


@cache
def _client_key(password: str, salt: str, iterations: int) -> bytes:
    salted = pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), iterations)
    return hmac.digest(salted, b"Client Key", sha256)


async def heard(reader: asyncio.StreamReader, kind: bytes) -> bytes:
    """The body of the next message of this kind; raises EOFError where the server ends first."""
    while True:
        found, size = struct.unpack("!ci", await reader.readexactly(5))
        body = await reader.readexactly(size - 4)
        if found == kind:
            return body


async def opened(port: int, trusting: ssl.SSLContext | None = None) -> Both:
    """A connection that said nothing yet, over TLS where a context is given."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if trusting is not None:
        writer.write(TLS_REQUEST)
        assert await reader.readexactly(1) == b"S"
        await writer.start_tls(trusting)
    return reader, writer


async def logged_in(
    port: int, user: str, password: str, trusting: ssl.SSLContext | None = None
) -> Both:
    """A connection that may ask."""
    reader, writer = await opened(port, trusting)
    writer.write(startup_packet((3, 0), user=user))
    await heard(reader, b"R")
    writer.write(first_response())
    offer = (await heard(reader, b"R"))[4:].decode()
    writer.write(final_response(offer, password))
    await heard(reader, b"Z")
    return reader, writer
