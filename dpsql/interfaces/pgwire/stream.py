"""Messages over a socket: read whole and within limits, written with back-pressure."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct

from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.frontend import ProtocolError
from dpsql.interfaces.pgwire.tls import common_name

_HEAD = struct.Struct("!ci")
WAITING_BYTES = 1 << 19
"""Maximum number of bytes that wait for a slow client before the server waits."""
READ_BYTES = 1 << 16
"""Maximum number of bytes to read at once."""
_SETTLE_SECONDS = 0.001


class MessageStream:
    """Socket of one client.

    `address` is the client's address, and `common_name` the name in its certificate. `binding` is
    the hash of the server's certificate if TLS is used.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
    ) -> None:
        self._reader, self._writer, self._patience = reader, writer, patience
        self.encrypted = False
        self.common_name: str | None = None
        self.binding: bytes | None = None
        self.address = str((writer.get_extra_info("peername") or ("",))[0])
        self._ahead = b""
        self._at = 0
        writer.transport.set_write_buffer_limits(high=WAITING_BYTES)
        connection = writer.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def startup(self) -> frontend.Startup | frontend.Encrypt | frontend.Cancel:
        """Read the first message. Raises `ProtocolError`, or IncompleteReadError at the end."""
        (length,) = struct.unpack("!i", await self._taken(4))
        if not 8 <= length <= frontend.MAX_STARTUP_BYTES:  # noqa: PLR2004 - length and code
            raise ProtocolError("invalid length of startup packet")
        return frontend.startup(await self._taken(length - 4))

    async def message(self, most: int) -> tuple[frontend.Message, int]:
        """Read the next message of at most `most` bytes, and its size. Raises as `startup` does."""
        kind, length = _HEAD.unpack(await self._taken(_HEAD.size))
        if not 4 <= length <= most + 4:  # noqa: PLR2004 - the length counts itself
            raise ProtocolError("invalid message length")
        return frontend.decode(kind, await self._taken(length - 4)), length

    async def _taken(self, count: int) -> bytes:
        """Return the next bytes, usually from the buffer, so that a batch needs one wait."""
        end = self._at + count
        if end > len(self._ahead):
            await self._read(count)
            end = count
        taken = self._ahead[self._at : end]
        self._at = end
        return taken

    async def _read(self, count: int) -> None:
        parts = [self._ahead[self._at :]]
        missing = count - len(parts[0])
        while missing > 0:
            parts.append(await self._reader.read(READ_BYTES))
            missing -= len(parts[-1])
            if not parts[-1]:
                raise asyncio.IncompleteReadError(b"".join(parts), count)
        self._ahead, self._at = b"".join(parts), 0

    async def encrypt(self, context: ssl.SSLContext, binding: bytes | None) -> None:
        """Accept TLS and switch to it.

        Bytes before the agreement were not encrypted and may come from an attacker. They end the
        connection (CVE-2021-23214). Raises `ProtocolError`.
        """
        if self._at < len(self._ahead):
            raise ProtocolError("received unencrypted data after SSL request")
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader.read(1), _SETTLE_SECONDS)
            raise ProtocolError("received unencrypted data after SSL request")
        self._writer.write(b"S")
        await self._writer.start_tls(context)
        self.encrypted, self.binding = True, binding
        self.common_name = common_name(self._writer.get_extra_info("peercert"))

    async def send(self, data: bytes) -> None:
        """Write, and wait while too much is buffered. Raises OSError if the client does not
        read.
        """
        if data:
            self._writer.write(data)
            if self._writer.transport.get_write_buffer_size() <= WAITING_BYTES:
                return
            async with asyncio.timeout(self._patience):
                await self._writer.drain()

    async def refuse(self, fault: Fault) -> None:
        """Send a last error if possible."""
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            await self.send(backend.error(fault.fields))

    async def close(self) -> None:
        """Close the socket. Bytes that a dead client has not read are dropped."""
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            self._writer.transport.abort()
