"""MCP over streamable HTTP: one request a call, behind the checks of the JSON interface.

SECURITY.md S32.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request as HttpRequest

from dpsql.interfaces.doors import MCP
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.model.errors import DpsqlError
from dpsql.systems.web.json_api import as_response, caller_of, problem_reply, unadmitted
from dpsql.systems.web.mcp_tools import McpTools, make_mcp
from dpsql.systems.web.problems import Problem
from dpsql.systems.web.request_bodies import MOST_BYTES, read_json
from dpsql.systems.web.web_queries import Caller, QueryRunner
from dpsql.systems.web.web_users import WebUsers

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

PATH = "/mcp"
DOOR = "mcp"
_CALLER: ContextVar[Caller] = ContextVar("caller")


class McpEndpoint:
    """An ASGI application: each POST is one call of a user, without a session."""

    def __init__(self, runner: QueryRunner, users: WebUsers) -> None:
        self._runner, self._users = runner, users
        self._server = make_mcp(McpTools(runner, _CALLER.get))
        off = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard checks
        self._application = self._server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=MOST_BYTES,
            transport_security=off,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the tasks of the calls."""
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. It counts until its reply has been sent."""
        request = HttpRequest(scope, receive)
        try:
            address = request.client.host if request.client else ""
            login = await self._users.identify(request.headers, address)
            async with self._runner.server.admit_request(login.analyst) as present:
                body: Any = await read_json(request)
                _CALLER.set(caller_of(present, login, DOOR, MCP, request))
                await self._application(scope, _replay(body), send)
        except Problem as problem:
            await as_response(problem_reply(problem))(scope, receive, send)
        except (DpsqlError, Fault) as error:
            await as_response(problem_reply(unadmitted(error)))(scope, receive, send)


def _replay(body: Any) -> Receive:
    """Return a receiver of a body that was read and checked."""
    messages: list[Message] = [
        {"type": "http.request", "body": json.dumps(body, default=float).encode()}
    ]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive
