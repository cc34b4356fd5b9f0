"""The HTTP server next to the Postgres port: listening, TLS, limits on heads, and its end.

Each of several databases has its own routes: SECURITY.md S35.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dpsql.interfaces.hosts import is_local, own_hosts
from dpsql.interfaces.pgwire.databases import make_decoy
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import GRACE_SECONDS, Server
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra, Unreachable

try:
    import uvicorn
    from starlette.routing import BaseRoute, Mount, Route

    from dpsql.interfaces.bounded_connections import AddressShares, bounded_protocol
    from dpsql.systems.web.guarded_app import guarded_app
    from dpsql.systems.web.json_api import JsonApi
except ImportError:
    message = "Answering over HTTP needs the extra web: pip install 'dpsql[web]'."
    raise MissingExtra(message) from None

from dpsql.systems.web.idempotency import KeptReplies
from dpsql.systems.web.web_queries import QueryRunner
from dpsql.systems.web.web_users import WebUsers

if TYPE_CHECKING:
    from dpsql.systems.web.mcp_endpoint import McpEndpoint

DATABASES = "db"
"""First part of the paths of several databases: /db/NAME/v1/query."""


class _QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to `dpsql serve`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Address of the server, its `names` in the header Host, and files of kept replies, one for
    each database.
    """

    host: str
    port: int
    names: tuple[str, ...]
    replies: tuple[str, ...]


class WebServer:
    """HTTP for the users of a server, from its start to its end.

    With a certificate it speaks HTTPS alone. Without one it listens on this machine alone.
    """

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.port = settings.port
        self._stopped = asyncio.Event()
        self._mcp: asyncio.Task[None] | None = None
        self._runners: list[QueryRunner] = []
        self._endpoints: list[McpEndpoint] = []

    async def start(self, server: Server) -> None:
        """Listen. Raises `Unreachable` if the address is in use, or is not safe without TLS."""
        settings, context = self.settings, server.present.context
        if context is None and not is_local(settings.host):
            raise Unreachable(
                f"{settings.host} is not this machine alone: passwords and answers would travel in"
                " the clear. Give [server] certificate and key, or --self-signed for trying out."
            )
        if settings.host in ("0.0.0.0", "::") and not settings.names:  # noqa: S104
            raise Unreachable("Give the names by which clients call this server: --http-name.")
        listener = _listen(settings)
        self.port = listener.getsockname()[1]
        scheme = "http" if context is None else "https"
        hosts = own_hosts(scheme, settings.host, self.port, settings.names)
        config = _configure(guarded_app(await self._routes(server), scheme, hosts), server)
        config.load()
        config.ssl = context
        self._serving = _QuietServer(config)
        self._task = asyncio.create_task(self._serving.serve([listener]))
        server.telemetry.event(
            "http_listening", host=settings.host, port=self.port, tls=bool(context)
        )

    async def _routes(self, server: Server) -> list[BaseRoute]:
        """Return the routes of the only database, or those of each below its own path.

        An unknown name has the routes of a database without users.
        """
        databases, routes = server.databases, list[BaseRoute]()
        for (name, each), replies in zip(
            databases.servers.items(), self.settings.replies, strict=True
        ):
            runner = QueryRunner(each)
            self._runners.append(runner)
            users = WebUsers(partial(_present_of, each), each.failures, each.telemetry)
            below = self._routes_of(runner, users, replies)
            routes += [Mount(f"/{DATABASES}/{name}", routes=below)] if name else below
        if databases.are_several:
            decoy = partial(_decoy_of, server)
            users = WebUsers(decoy, server.failures, server.telemetry)
            below = self._routes_of(self._runners[0], users, self.settings.replies[0])
            routes.append(Mount(f"/{DATABASES}/{{database}}", routes=below))
        await self._run_calls()
        return routes

    def _routes_of(self, runner: QueryRunner, users: WebUsers, replies: str) -> list[BaseRoute]:
        """Return the routes of one database; that of MCP is one of them if its extra is
        installed.
        """
        routes: list[BaseRoute] = [*JsonApi(runner, users, KeptReplies(replies)).routes()]
        try:
            from dpsql.systems.web.mcp_endpoint import PATH, McpEndpoint  # noqa: PLC0415
        except (ImportError, MissingExtra):
            return routes
        endpoint = McpEndpoint(runner, users)
        self._endpoints.append(endpoint)
        return [*routes, Route(PATH, endpoint, methods=["POST"])]

    async def _run_calls(self) -> None:
        """Run the tasks of MCP until `stop`."""
        started = asyncio.Event()

        async def run() -> None:
            async with AsyncExitStack() as stack:
                for endpoint in self._endpoints:
                    await stack.enter_async_context(endpoint.running())
                started.set()
                await self._stopped.wait()

        self._mcp = asyncio.create_task(run())
        await started.wait()

    async def stop(self) -> None:
        """Accept no more requests, and let those that run end within the server's grace."""
        self._serving.should_exit = True
        await self._task
        for runner in self._runners:
            runner.stop_all()
        self._stopped.set()
        if self._mcp is not None:
            await self._mcp


def _configure(application: object, server: Server) -> uvicorn.Config:
    limits = server.present.limits
    shares = AddressShares(limits.max_connections)
    return uvicorn.Config(
        application,  # type: ignore[arg-type]
        lifespan="off",
        ws="none",
        http=bounded_protocol(shares, limits.login_seconds),
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.max_connections,
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )


def _listen(settings: WebSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=1024)
    except (OSError, OverflowError):
        where = f"{settings.host}:{settings.port} (--http)"
        raise Unreachable(f"{where} cannot be listened on. Is another server there?") from None


def _present_of(server: Server) -> Present:
    return server.present


def _decoy_of(server: Server) -> Present:
    return make_decoy(server.present, "")


def make_web_server(
    host: str, port: int, names: tuple[str, ...], replies: tuple[str, ...]
) -> WebServer:
    """Return the HTTP interface for an address, names in the header Host, and a file of replies
    for each database.
    """
    return WebServer(WebSettings(host, port, names, replies))
