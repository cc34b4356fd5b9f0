"""A server on a free port, in a thread of this process, over the shop's real proxy."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from dpsql.interfaces.pgwire import tls
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.login_file import User, Users, verifier_of
from dpsql.interfaces.pgwire.pacing import Pacer
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.policy.draft import ServerSettings as Limits
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop

PASSWORD = "correct horse"  # noqa: S105 - of a test


@dataclass(slots=True)
class Door:
    """A running server: where it listens, its parts, and what it logged."""

    port: int
    proxy: Proxy
    server: Server
    loop: asyncio.AbstractEventLoop
    lines: list[str]
    certificate: str

    def conninfo(self, **changes: object) -> dict[str, Any]:
        """Keywords of libpq."""
        basic = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "ana",
            "password": PASSWORD,
            "dbname": "dpsql",
        }
        return {**basic, **changes}

    def raw(self) -> socket.socket:
        """A socket that said nothing yet."""
        return socket.create_connection(("127.0.0.1", self.port), 60)


def users() -> Users:
    return _USERS


_USERS = {name: User(verifier_of(PASSWORD)) for name in ("ana", "bob", "mallory")}


@contextmanager
def door(folder: Path, *changes: tuple[str, str], **limits: Any) -> Iterator[Door]:
    """A server over a shop in this folder, stopped at the end."""
    with opened(folder, shop(folder / "shop", *changes), **limits) as found:
        yield found


@contextmanager
def opened(
    folder: Path,
    policy: Path,
    users: Callable[[], Users] = users,
    *,
    paced: bool = False,
    **limits: Any,
) -> Iterator[Door]:
    """A server over this policy, its certificate in this folder, stopped at the end.

    Unless it is `paced`, its answers wait for nothing and are never late.
    """
    certificate, key = tls.self_signed(folder, "127.0.0.1")
    lines: list[str] = []
    started, found = Event(), list[Door]()
    context = tls.context(certificate, key, limits.get("client_ca"))

    def present() -> Present:
        proxy = Proxy.open(str(policy))
        catalogue, given = partial(Catalogue, proxy.policy), replace(Limits(port=0), **limits)
        return Present(proxy, catalogue, users, given, context, tls.binding(certificate))

    first = present()
    with first.proxy as proxy:
        server = Server(first, Telemetry(lines.append), present)
        if not paced:
            server._pacer = unpaced(proxy)

        async def run() -> None:
            listening = await server.start()
            loop = asyncio.get_running_loop()
            port = listening.sockets[0].getsockname()[1]
            found.append(Door(port, proxy, server, loop, lines, certificate))
            started.set()
            await ended.wait()

        ended = asyncio.Event()
        thread = Thread(target=lambda: asyncio.run(run()))
        thread.start()
        assert started.wait(30)
        try:
            yield found[0]
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(1), found[0].loop).result(60)
            found[0].loop.call_soon_threadsafe(ended.set)
            thread.join(30)


def unpaced(proxy: Proxy) -> Pacer:
    """A grid without time."""
    parts = proxy.ledger, 0, 1, 1, lambda **_facts: None, lambda: 0.0, lambda _seconds: True
    return Pacer(*parts, alarm=AtTheEnd)


@dataclass
class AtTheEnd:
    """An alarm without time: it rings when somebody waits for it, unless it was cancelled."""

    seconds: float
    ring: Callable[[], None]

    def cancel(self) -> None:
        self.ring = lambda: None

    def join(self) -> None:
        self.ring()


# --- bytes by hand ---


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def startup_packet(version: tuple[int, int], **parameters: str) -> bytes:
    pairs = "".join(f"{name}\0{value}\0" for name, value in parameters.items())
    body = struct.pack("!i", version[0] << 16 | version[1]) + pairs.encode() + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def messages(data: bytes) -> list[tuple[bytes, bytes]]:
    """What a server sent, divided."""
    found = []
    while data:
        (size,) = struct.unpack("!i", data[1:5])
        found.append((data[:1], data[5 : size + 1]))
        data = data[size + 1 :]
    return found


def fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or a NoticeResponse."""
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
