"""`dpsql serve` from start to end: certificate, listening, signals, shutdown."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from dpsql.engines.memory import bound_memory
from dpsql.interfaces.hosts import is_local
from dpsql.interfaces.pgwire import tls
from dpsql.interfaces.pgwire.bearer_tokens import load_library
from dpsql.interfaces.pgwire.catalogue import DATABASE, Catalogue
from dpsql.interfaces.pgwire.databases import Databases
from dpsql.interfaces.pgwire.login_file import read_users
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import JsonHandler, Telemetry, serve_metrics
from dpsql.model.errors import Unreachable
from dpsql.policy.draft import ServerSettings as Limits

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


TURN_SECONDS = 0.0002
"""Maximum time for which a compiling thread may block the others.

Resending an answer needs several turns. By default each would wait 0.005 seconds.
"""

Make = Callable[[], tuple["Proxy", Limits]]
"""Function that opens the present policy, and returns its server limits."""


Encryption = Callable[[Limits], tuple[ssl.SSLContext | None, bytes | None]]
"""Function that returns the TLS context and the channel binding."""


class SecondInterface(Protocol):
    """An interface next to this one, for the same users, budgets, limits and log."""

    async def start(self, server: Server) -> None:
        """Listen. Raises `Unreachable`."""

    async def stop(self) -> None:
        """Accept no more requests, and end those that run."""


def serve(
    makes: Mapping[str, Make],
    write: Callable[[str], object],
    *,
    self_signed: bool,
    second: SecondInterface | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, and reload at SIGHUP.

    `makes` has a policy for each name of a database; one alone is called "". `write` receives log
    lines. Other hosts are served with TLS only. Raises the errors of `makes`, `Unreachable` and
    `MissingExtra`.
    """
    sys.setswitchinterval(TURN_SECONDS)
    with TemporaryDirectory(prefix="dpsql-") as folder:
        telemetry = Telemetry(write)
        logging.getLogger().addHandler(JsonHandler(telemetry))
        server = _server(makes, telemetry, Path(folder), self_signed=self_signed)
        present, servers = server.present, server.databases.servers.values()
        bound_memory(*(each.present.limits.memory for each in servers))
        gc.freeze()  # what is there by now stays: nobody has to look through it again
        try:
            asyncio.run(_until_stopped(server, present, telemetry, second))
        finally:
            gc.unfreeze()


def _server(
    makes: Mapping[str, Make], telemetry: Telemetry, folder: Path, *, self_signed: bool
) -> Server:
    """Return the server that listens, for itself and for the servers of further databases."""
    encryption: Encryption = partial(_encryption, folder=folder, self_signed=self_signed)
    servers, failures = dict[str, Server](), None
    for name, make in makes.items():
        renewed = partial(_present, make, encryption, name or DATABASE)
        present, part = renewed(), telemetry.make_part(name) if name else telemetry
        for event, fields in present.warnings():
            part.event(event, **fields)
        secret = not is_local(present.limits.host)
        server = Server(present, part, renewed, only_encrypted=secret, failures=failures)
        servers[name], failures, encryption = server, server.failures, lambda _limits: (None, None)
    for server in servers.values():
        server.databases = Databases(servers)
    return Databases(servers).front


def _present(make: Make, encryption: Encryption, database: str) -> Present:
    """Return the state to serve from now on."""
    proxy, limits = make()
    try:
        if limits.oidc is not None:
            load_library()
        context, binding = encryption(limits)
    except BaseException:
        proxy.close()
        raise
    apart = proxy.compiler.apart
    catalogue = partial(Catalogue, proxy.policy, apart=apart, database=database)
    users = partial(read_users, limits.users)
    return Present(
        proxy=proxy,
        catalogue=catalogue,
        users=users,
        limits=limits,
        context=context,
        binding=binding,
    )


def _encryption(
    limits: Limits, folder: Path, *, self_signed: bool
) -> tuple[ssl.SSLContext | None, bytes | None]:
    """Return the TLS context and the channel binding, or None for both."""
    certificate, key = limits.certificate, limits.key
    if self_signed:
        certificate, key = tls.self_signed(folder, limits.host)
    if certificate is not None and key is not None:
        return tls.context(certificate, key, limits.client_ca), tls.binding(certificate)
    if not is_local(limits.host):
        raise Unreachable(
            f"{limits.host} is not this machine alone: passwords and answers would travel in "
            "the clear. Give [server] certificate and key, or --self-signed for trying out."
        )
    return None, None


@contextmanager
def _listening(address: str, key: str) -> Iterator[None]:
    """Turn errors of listening at an address into `Unreachable`, with its policy key."""
    try:
        yield
    except OSError:
        raise Unreachable(
            f"{address} ([server] {key}) cannot be listened on. Is another server running there?"
            f" Write another {key}."
        ) from None


def _warn_of_empty_ledgers(databases: Databases) -> None:
    """Log a warning for each ledger to which nothing was ever charged (SECURITY.md S16)."""
    fix = "If this ledger is not new, stop the server and restore a backup"
    for each in databases.servers.values():
        if not each.present.proxy.ledger.budgets():
            each.telemetry.event("ledger_empty", level="warning", fix=fix)


async def _until_stopped(
    server: Server, present: Present, telemetry: Telemetry, second: SecondInterface | None
) -> None:
    stopped, limits = asyncio.Event(), present.limits
    reloading = set[asyncio.Task[None]]()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def reload() -> None:
        for each in server.databases.servers.values():
            task = asyncio.create_task(each.renew())
            reloading.add(task)
            task.add_done_callback(reloading.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    with _listening(f"{limits.host}:{limits.port}", "port"):
        listening = await server.start()
    metrics = None
    if limits.metrics_port is not None:
        host, metrics_port = limits.metrics_host, limits.metrics_port
        with _listening(f"{host}:{metrics_port}", "metrics_port"):
            metrics = await serve_metrics(telemetry, host, metrics_port, server.databases.gauges)
    port = listening.sockets[0].getsockname()[1]
    telemetry.event("listening", host=limits.host, port=port, tls=present.context is not None)
    _warn_of_empty_ledgers(server.databases)
    if second is not None:
        await second.start(server)
    await stopped.wait()
    telemetry.event("stopping")
    if metrics is not None:
        metrics.close()
    if second is not None:
        await second.stop()
    await server.stop()
    telemetry.event("stopped")
