"""Messages over a socket: read whole and within their limits, written with back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct

from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.frontend import ProtocolError

_HEAD = struct.Struct("!ci")
WAITING_BYTES = 1 << 19
"""How much may wait for a slow client before the server waits for it."""
_SETTLE_SECONDS = 0.001


class Stream:
    """One client's socket."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
    ) -> None:
        self._reader, self._writer, self._patience = reader, writer, patience
        self.encrypted = False
        writer.transport.set_write_buffer_limits(high=WAITING_BYTES)
        found = writer.get_extra_info("socket")
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def startup(self) -> frontend.Startup | frontend.Encrypt | frontend.Cancel:
        """The first message. Raises `ProtocolError`, or IncompleteReadError at the end."""
        (length,) = struct.unpack("!i", await self._reader.readexactly(4))
        if not 8 <= length <= frontend.MAX_STARTUP_BYTES:  # noqa: PLR2004 - length and code
            raise ProtocolError("invalid length of startup packet")
        return frontend.startup(await self._reader.readexactly(length - 4))

    async def message(self, most: int) -> tuple[frontend.Message, int]:
        """The next message of at most `most` bytes, and its size. Raises as `startup` does."""
        kind, length = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
        if not 4 <= length <= most + 4:  # noqa: PLR2004 - the length counts itself
            raise ProtocolError("invalid message length")
        return frontend.decode(kind, await self._reader.readexactly(length - 4)), length

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Agree to TLS and go over to it.

        Bytes that came before the agreement were not encrypted and could be anybody's: they end
        the connection (CVE-2021-23214). Raises `ProtocolError`.
        """
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader.read(1), _SETTLE_SECONDS)
            raise ProtocolError("received unencrypted data after SSL request")
        self._writer.write(b"S")
        await self._writer.start_tls(context)
        self.encrypted = True

    async def send(self, data: bytes) -> None:
        """Write, and wait while too much is on its way. Raises OSError where nobody reads."""
        if data:
            self._writer.write(data)
            async with asyncio.timeout(self._patience):
                await self._writer.drain()

    async def refuse(self, fault: Fault) -> None:
        """The last word, if it can still be said."""
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            await self.send(backend.error(fault.fields))

    async def close(self) -> None:
        """Close the socket; what a dead client has not read is dropped."""
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            self._writer.transport.abort()
