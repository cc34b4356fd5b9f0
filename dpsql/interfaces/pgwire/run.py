"""`dpsql serve` from its policy to its end: certificate, listening, signals, shutdown."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dpsql.errors import Unreachable
from dpsql.interfaces.pgwire import tls
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry, serve_metrics
from dpsql.interfaces.pgwire.users import read_users
from dpsql.policy.draft import Server as Limits

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


def serve(
    proxy: Proxy, limits: Limits, write: Callable[[str], object], *, self_signed: bool
) -> None:
    """Serve until SIGINT or SIGTERM; `write` takes the log's lines.

    Other hosts are served with TLS only. Raises `Unreachable` and `MissingExtra`.
    """
    with TemporaryDirectory(prefix="dpsql-") as folder:
        if self_signed:
            certificate, key = tls.self_signed(Path(folder), limits.host)
        else:
            certificate, key = limits.certificate or "", limits.key or ""
        context = tls.context(certificate, key, limits.client_ca) if certificate else None
        if context is None and not _is_local(limits.host):
            raise Unreachable(
                f"{limits.host} is not this machine alone: passwords and answers would travel in "
                "the clear. Give [server] certificate and key, or --self-signed for trying out."
            )
        telemetry = Telemetry(write)
        server = Server(
            proxy,
            partial(Catalogue, proxy.policy),
            partial(read_users, limits.users),
            limits,
            telemetry,
            context=context,
            binding=tls.binding(certificate) if certificate else None,
            only_encrypted=not _is_local(limits.host),
        )
        asyncio.run(_until_stopped(server, limits, telemetry, encrypted=context is not None))


async def _until_stopped(
    server: Server, limits: Limits, telemetry: Telemetry, *, encrypted: bool
) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        listening = await server.start()
        metrics = None
        if limits.metrics_port is not None:
            metrics = await serve_metrics(telemetry, limits.host, limits.metrics_port)
    except OSError:
        raise Unreachable(
            f"{limits.host}:{limits.port} cannot be listened on. Is another server running there?"
        ) from None
    port = listening.sockets[0].getsockname()[1]
    telemetry.event("listening", host=limits.host, port=port, tls=encrypted)
    await stopped.wait()
    telemetry.event("stopping")
    if metrics is not None:
        metrics.close()
    await server.stop()
    telemetry.event("stopped")


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
