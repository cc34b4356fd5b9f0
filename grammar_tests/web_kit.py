"""An HTTP server beside a Postgres port, and a client without any library."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

from dpsql.systems.web.web_server import WebServer, make_web_server
from grammar_tests.waiting import HANGS_SECONDS
from grammar_tests.wire_kit import PASSWORD, Door, door

COUNT = "SELECT COUNT(*) AS n FROM orders"


@dataclass(frozen=True, slots=True)
class WebReply:
    """The reply to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class WebDoor:
    """A running server with both interfaces."""

    wire: Door
    web: WebServer

    @property
    def lines(self) -> str:
        """What it logged."""
        return "\n".join(self.wire.lines)

    def send(
        self,
        path: str,
        body: object = None,
        method: str = "",
        *,
        user: str | None = "ana",
        password: str = PASSWORD,
        raw: bytes | None = None,
        **headers: str | None,
    ) -> WebReply:
        """Send a request. `raw` is its body in bytes. A header that is None is left out."""
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        given: dict[str, str | None] = {"host": f"127.0.0.1:{self.web.port}"}
        if user is not None:
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            given["authorization"] = f"Basic {pair}"
        if data is not None:
            given["content-type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(self.connection()) as connection:
            method = method or ("GET" if data is None else "POST")
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if data is not None:
                connection.putheader("content-length", str(len(data)))
            connection.endheaders(data)
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return WebReply(response.status, named, response.read())

    def connection(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=self.wire.certificate)
        return HTTPSConnection("127.0.0.1", self.web.port, timeout=60, context=context)

    def ask(self, sql: str = COUNT, **fields: Any) -> WebReply:
        """Ask one query."""
        return self.send("/v1/query", {"sql": sql, **fields})


@contextmanager
def web_door(
    folder: Path, *changes: tuple[str, str], names: tuple[str, ...] = (), **limits: Any
) -> Iterator[WebDoor]:
    """Both interfaces over a shop in this folder, stopped at the end."""
    with door(folder, *changes, **limits) as opened, beside(folder, opened, names) as found:
        yield found


@contextmanager
def beside(folder: Path, opened: Door, names: tuple[str, ...] = ()) -> Iterator[WebDoor]:
    """HTTP beside an open Postgres port."""
    web = make_web_server("127.0.0.1", 0, names, (str(folder / "replies"),))
    asyncio.run_coroutine_threadsafe(web.start(opened.server), opened.loop).result(HANGS_SECONDS)
    try:
        yield WebDoor(opened, web)
    finally:
        asyncio.run_coroutine_threadsafe(web.stop(), opened.loop).result(HANGS_SECONDS)


def events_of(body: bytes) -> list[tuple[str, Any]]:
    """The server-sent events of a body, with their data."""
    parts = [part.splitlines() for part in body.decode().split("\n\n") if part]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in parts
    ]
