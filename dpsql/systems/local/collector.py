"""`dpsql local collect`: an HTTP server that receives reports and stores them.

It reads, keeps and logs no address, time or browser of a sender: SECURITY.md S26.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
from collections.abc import Callable
from importlib.resources import files

from dpsql.interfaces.hosts import is_local, own_hosts
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import MissingExtra, Unreachable
from dpsql.systems.local.collection import Collection, NoReports
from dpsql.systems.local.report_store import Post, ReportStore

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from dpsql.interfaces.bounded_connections import AddressShares, bounded_protocol
except ImportError:
    message = "Collecting reports needs the extra local: pip install 'dpsql[local]'."
    raise MissingExtra(message) from None

MOST_CONNECTIONS, MOST_OF_ADDRESS = 500, 50
_HEAD_SECONDS = 10
_BODY_SECONDS = 20
_STOPPING_SECONDS = 10
_LATER = "This cannot be kept now; send it again later."
_KEY = re.compile(r"[!-~]{16,64}")

Write = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Listening:
    """Configuration of the server.

    `tls` holds the PEM files of a certificate and its key. `origins` lists the web origins that may
    send. `page` is the HTML for `/`. `of_address` limits the connections of one address.
    """

    host: str
    port: int
    tls: tuple[str, str] | None = None
    origins: tuple[str, ...] = ()
    page: str | None = None
    of_address: int = MOST_OF_ADDRESS

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def own_origins(self) -> frozenset[str]:
        """Origins of the server's own page, from its listening address. The Host header is not
        used.

        >>> sorted(Listening("127.0.0.1", 80).own_origins)
        ['http://127.0.0.1', 'http://127.0.0.1:80', 'http://localhost', 'http://localhost:80']
        """
        hosts = own_hosts(self.scheme, self.host, self.port)
        return frozenset(f"{self.scheme}://{host}" for host in hosts)


@dataclass(slots=True)
class _Batch:
    """Posts that become durable in one transaction."""

    posts: list[Post] = field(default_factory=list)
    is_durable: bool = False


class Collector:
    """HTTP handlers of one collection. `write` receives log lines that hold only counts."""

    def __init__(
        self, collection: Collection, store: ReportStore, listening: Listening, write: Write
    ) -> None:
        self._collection, self._store, self._write = collection, store, write
        self._origins, self._page = frozenset(listening.origins), listening.page
        self._senders = self._origins | listening.own_origins
        self._batch, self._turn = _Batch(), asyncio.Lock()
        script = files("dpsql.systems.local") / "client.js"
        self._client = script.read_text(encoding="utf-8")
        self._questions = [question.as_json() for question in collection.questions]

    def application(self) -> Starlette:
        """Return all handlers as an ASGI application."""
        routes = [
            Route("/health", self._health),
            Route("/client.js", self._module),
            Route("/{table}/questions.json", self._questions_of),
            Route("/{table}/reports", self._reports, methods=["POST"]),
        ]
        if self._page is not None:
            routes.append(Route("/", self._small_page))
        listed = Middleware(
            CORSMiddleware,
            allow_origins=sorted(self._origins),
            allow_methods=["GET", "POST"],
            allow_headers=["content-type", "idempotency-key"],
        )
        handlers = {Unreachable: self._unreachable, Exception: self._failed}
        return Starlette(routes=routes, middleware=[listed], exception_handlers=handlers)

    async def _reports(self, request: Request) -> Response:
        self._require_table(request)
        self._require_origin(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "Send application/json.")
        key = request.headers.get("idempotency-key", "")
        if not _KEY.fullmatch(key):
            why = "Send an Idempotency-Key of 16 to 64 random characters, the same with each retry."
            raise HTTPException(400, why)
        body = await self._body(request)
        try:
            post = Post(key, self._collection.rows_of(body))
        except NoReports as error:
            raise HTTPException(422, str(error)) from None
        await self._keep(post)
        return Response(status_code=204)

    async def _keep(self, post: Post) -> None:
        """Store a post durably, in one batch with all posts that arrived during the previous
        write.
        """
        batch = self._batch
        batch.posts.append(post)
        async with self._turn:
            if batch is self._batch:
                self._batch = _Batch()
                sealed = await asyncio.to_thread(self._store.add, batch.posts)
                batch.is_durable = True
                if sealed:
                    self._write(f"{sealed} reports are sealed for the next dpsql refresh.")
        if not batch.is_durable:
            raise HTTPException(503, _LATER)  # who wrote it told the owner why

    async def _body(self, request: Request) -> bytes:
        most, body = self._collection.longest_post, bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise HTTPException(413, f"A post has at most {most} bytes.")
        except (TimeoutError, ClientDisconnect):
            raise HTTPException(408, f"Send a post within {_BODY_SECONDS} seconds.") from None
        return bytes(body)

    def _require_table(self, request: Request) -> None:
        if request.path_params["table"] != self._collection.table:
            raise HTTPException(404, f"This is the collector of {self._collection.table}.")

    def _require_origin(self, request: Request) -> None:
        """Raise 403 if a page of an origin that is not listed sends the request.

        The Host header is not used, since any domain owner can direct a name to this server.
        """
        origin = request.headers.get("origin")
        if origin is not None and origin not in self._senders:
            raise HTTPException(403, "The owner of this collector does not list this origin.")

    async def _questions_of(self, request: Request) -> Response:
        self._require_table(request)
        return JSONResponse(self._questions, headers={"cache-control": "no-cache"})

    async def _module(self, _request: Request) -> Response:
        headers = {"cache-control": "no-cache"}
        return Response(self._client, media_type="text/javascript", headers=headers)

    async def _small_page(self, _request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def _health(self, _request: Request) -> Response:
        """Answer whether reports can be stored. Shows no counts, which would reveal when others
        send.
        """
        await asyncio.to_thread(self._store.counts)
        return PlainTextResponse("ready\n")

    async def _unreachable(self, _request: Request, error: Exception) -> Response:
        self._write(str(error))
        return PlainTextResponse(_LATER, 503)

    async def _failed(self, _request: Request, error: Exception) -> Response:
        self._write(f"A request failed: {type(error).__name__}.")
        return PlainTextResponse(_LATER, 500)


def collect(collection: Collection, store: ReportStore, listening: Listening, write: Write) -> None:
    """Receive reports until SIGINT or SIGTERM, then finish the open requests.

    Without TLS, only listens on this machine. Raises `Unreachable`.
    """
    if listening.tls is None and not is_local(listening.host):
        raise Unreachable(
            f"{listening.host} is not this machine alone, and without TLS others could change the"
            " page that draws the reports. Give a certificate, or listen on 127.0.0.1 alone."
        )
    with _socket(listening) as listener:
        listening = replace(listening, port=listener.getsockname()[1])
        config = _config(Collector(collection, store, listening, write).application(), listening)
        try:
            config.load()
        except (OSError, ssl.SSLError):
            raise Unreachable("TLS needs PEM files of a certificate and of its key.") from None
        server = uvicorn.Server(config)
        for number in (signal.SIGINT, signal.SIGTERM):  # what uvicorn raises again when it ends
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        where = f"{listening.scheme}://{host}:{listening.port}"
        write(f"Reports for {collection.table} are taken at {where}.")
        asyncio.run(server.serve([listener]))


def _config(application: Starlette, listening: Listening) -> uvicorn.Config:
    """Return the settings of uvicorn: time limits for each head, and no access log."""
    certificate, key = listening.tls or (None, None)
    return uvicorn.Config(
        application,
        lifespan="off",
        ws="none",
        http=bounded_protocol(AddressShares(listening.of_address), _HEAD_SECONDS),
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_STOPPING_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


def _socket(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        where = f"{listening.host}, port {listening.port}"
        raise Unreachable(f"Nothing can listen at {where}: {error}.") from None
