"""Guard in front of all routes: which hosts and origins a request may name.

A loopback address is no defence: a web page can send requests to it, and any domain owner can
direct a name to it. SECURITY.md S31.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dpsql.model.dataclass import dataclass, field
from dpsql.systems.web.json_api import Endpoint, as_response, problem_reply
from dpsql.systems.web.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"),
]


@dataclass(frozen=True, slots=True)
class Guard:
    """An ASGI application behind the checks of the headers Host and Origin.

    `hosts` are the accepted values of Host. An origin is accepted if it is one of these hosts with
    the scheme of the server, which is that of its pages. No header allows a page of another origin
    to read an answer.
    """

    application: ASGIApp
    scheme: str
    hosts: frozenset[str]
    direct: Mapping[tuple[str, str], ASGIApp] = field(default_factory=dict)
    """Applications by method and whole path, which need no search among the routes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it before anything else is read."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        problem = self.refuse(scope["headers"])
        application = self.direct.get((scope["method"], scope["path"]), self.application)
        if problem is not None:
            application = as_response(problem_reply(problem))
        await application(scope, receive, send_guarded)

    def refuse(self, headers: Sequence[tuple[bytes, bytes]]) -> Problem | None:
        """Return the problem of a request with these headers, or None.

        A body with two lengths could hold a second request, where another program in front of this
        one reads the other length (RFC 9112, section 6.1).

        >>> guard = Guard(None, "http", frozenset({"localhost:80"}))
        >>> guard.refuse([(b"host", b"evil.example:80")]).status
        421
        """
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
            title = "The body has two lengths."
            return Problem(400, "bad-body", title, headers={"connection": "close"})
        named = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        if not named:
            return Problem(400, "host", "The request has no header Host.")
        if len(named) != 1 or named[0] not in self.hosts:
            fix = "Use the address of the server, or let its owner add --http-name."
            return Problem(421, "host", "This server has another name.", fix=fix)
        origins = [value.decode("latin-1").lower() for name, value in headers if name == b"origin"]
        if origins and not {f"{self.scheme}://{host}" for host in self.hosts}.issuperset(origins):
            return Problem(403, "origin", "Pages of other origins may ask nothing.")
        return None


def guarded_app(routes: Sequence[BaseRoute], scheme: str, hosts: frozenset[str]) -> Guard:
    """Return all routes behind the guard."""
    handlers: dict[Any, Any] = {HTTPException: _no_route}
    application = Starlette(routes=routes, exception_handlers=handlers)
    direct: dict[tuple[str, str], ASGIApp] = {
        (each.route.method, each.route.path): each
        for each in (getattr(route, "endpoint", None) for route in routes)
        if isinstance(each, Endpoint) and "{" not in each.route.path
    }
    return Guard(application, scheme, hosts, direct)


async def _no_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = "method" if error.status_code == 405 else "no-route"  # noqa: PLR2004
    fix = "See /v1/openapi.json for the routes."
    problem = Problem(error.status_code, reason, error.detail, fix=fix, headers=error.headers or {})
    return as_response(problem_reply(problem))
