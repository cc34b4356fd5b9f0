"""`dpsql.connect("https://…")`: a connection of PEP 249 to a server, without any other package."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from decimal import Decimal
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Event, Thread
from typing import Any, Unpack
from urllib.parse import quote, unquote, urlsplit

from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Stop
from dpsql.engines.process import SLICE_SECONDS
from dpsql.interfaces.dbapi import Connection, ConnectionOptions
from dpsql.interfaces.dbapi.dbapi_cursor import Cursor
from dpsql.interfaces.dbapi.dbapi_errors import (
    InterfaceError,
    NotSupportedError,
    OperationalError,
)
from dpsql.interfaces.hosts import is_local
from dpsql.model.dataclass import dataclass
from dpsql.model.table_names import SEARCH_PATH
from dpsql.model.vocabulary import Answer, Loss, Receipt, Request
from dpsql.systems.web.answer_formats import json_text
from dpsql.systems.web.answer_reader import read_answer, read_problem, write_parameters

_FORM = "A server is given as https://user@host:port; one of several databases ends with /db/NAME."
_DATABASE = re.compile(r"/db/[A-Za-z0-9._-]+")
"""Path of one database of a server with several."""
_PORTS = {"http": 80, "https": 443}
_AGENT = "dpsql-python"
_ATTEMPTS = 2
"""Number of attempts to send a query, under one idempotency key."""
_SECONDS = 3600.0
"""Longest wait for a reply. The server's own limits end a query long before."""


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server and the login of one analyst: one connection for each request, safe for threads.

    `below` is the path of its database, if the server has several.
    """

    scheme: str
    host: str
    port: int
    login: str
    context: ssl.SSLContext | None
    below: str = ""

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> Any:
        """Return the document of a reply. Raises the exceptions of PEP 249, or OSError."""
        headers = {"Authorization": self.login, "Accept": "application/json", "User-Agent": _AGENT}
        data = None if body is None else json_text(dict(body)).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        with closing(
            HTTPConnection(self.host, self.port, timeout=_SECONDS)
            if self.context is None
            else HTTPSConnection(self.host, self.port, timeout=_SECONDS, context=self.context)
        ) as connection:
            connection.request(method, self.below + path, data, headers)
            response = connection.getresponse()
            document = json.loads(response.read(), parse_float=Decimal)
        if response.status != 200:  # noqa: PLR2004
            raise read_problem(document)
        return document

    def send_twice(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> Any:
        """Send a request, and once more if the connection breaks. Raises OperationalError."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self.send(method, path, body, key)
            except (OSError, HTTPException, ValueError) as error:
                if attempt == _ATTEMPTS or isinstance(error, ssl.SSLError):
                    why = type(error).__name__
                    where = f"{self.scheme}://{self.host}:{self.port}"
                    message = f"The server at {where} cannot be reached ({why})."
                    raise OperationalError(message, sqlstate="08001") from None
        raise AssertionError

    # --- what a cursor asks of a proxy ---

    def nothing_paid(self, analyst: str) -> Receipt:
        """Return the receipt of an answer without private rows."""
        row = read_answer(self.send_twice("GET", "/v1/budget"), analyst)
        budget = dict(zip((column.name for column in row.columns), row.rows[0], strict=True))
        spent, limit = (
            Loss(int(budget[name].scaleb(9)), int(budget[f"delta_{name}"].scaleb(18)))
            for name in ("spent", "total")
        )
        return Receipt(
            query_id="",
            analyst=analyst,
            budget=budget["budget"],
            accountant=budget["accountant"],
            epsilon=Decimal(0),
            charged=Loss(0),
            spent=spent,
            limit=limit,
        )

    def explain(self, request: Request) -> RemotePlan:
        """Return the plan of a query, for free."""
        document = self.send_twice("POST", "/v1/explain", question_of(request))
        return RemotePlan(document["text"], document["plan"])


@dataclass(frozen=True, slots=True)
class RemotePlan:
    """A plan of a server: its text, and the plan as EXPLAIN PRIVACY (FORMAT JSON) shows it."""

    text: str
    plan: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text


def question_of(request: Request) -> dict[str, Any]:
    """Return the body of a request. Raises NotSupportedError for a search_path.

    >>> question_of(Request("SELECT 1", "ana"))
    {'sql': 'SELECT 1', 'dialect': 'duckdb'}
    """
    precision, question = request.precision, dict[str, Any]()
    if request.search_path != SEARCH_PATH:
        raise NotSupportedError("A server reads no search_path: write schemas before the tables.")
    if precision is not None:
        question["within"] = f"{precision.error:f}{'%' * precision.relative}"
        question["confidence"] = precision.confidence
    optional = {
        "parameters": write_parameters(request.parameters),
        "epsilon": request.epsilon,
        "confirm": request.confirmed,
        "nonnegative": request.nonnegative,
    }
    written = {name: value for name, value in optional.items() if value}
    return {"sql": request.sql, "dialect": request.dialect, **written, **question}


class HttpConnection(Connection):
    """A connection of PEP 249 over HTTP.

    A query that fails because the connection broke is sent once more, under the same key, so that
    it is charged once.
    """

    def __init__(
        self,
        server: HttpServer,
        analyst: str,
        dialect: str,
        epsilon: Decimal | None,
        **wish: Unpack[ConnectionOptions],
    ) -> None:
        proxy: Any = server
        super().__init__(proxy, analyst, dialect, epsilon, lambda: None, **wish)
        self._server = server

    def answer(self, request: Request, stop: Stop) -> Answer:
        """Return the answer to one request. `stop` cancels it on the server."""
        wish = read_listing(request.sql)
        if wish is not None:
            return self._listed(wish)
        name, server = secrets.token_hex(16), self._server
        body = {**question_of(request), "id": name}
        document = _wait(
            lambda: server.send_twice("POST", "/v1/query", body, secrets.token_hex(16)),
            stop,
            lambda: server.send_twice("POST", "/v1/cancel", {"id": name}),
        )
        return read_answer(document, self.analyst)

    def _listed(self, wish: Listing) -> Answer:
        """Return what the server lists, also for `tables` and `columns` of the base class."""
        table = f"/{quote('.'.join(wish.table), safe='')}" if wish.table else ""
        return self._read(f"/v1/tables{table}")

    def budget(self) -> Cursor:
        return self.cursor().take(self._read("/v1/budget"))

    def history(self) -> Cursor:
        return self.cursor().take(self._read("/v1/history"))

    def _read(self, path: str) -> Answer:
        _ = self.proxy
        return read_answer(self._server.send_twice("GET", path), self.analyst)

    def plan(self, *_arguments: Any, **_options: Any) -> Any:
        """Raise NotSupportedError: POST /v1/plan has the joint price."""
        raise NotSupportedError("Joint prices of a server come from POST /v1/plan.")

    def watch(self, *_arguments: Any, **_options: Any) -> Any:
        """Raise NotSupportedError: monitors are for a local policy."""
        raise NotSupportedError("Monitors run where the policy is: open that file.")


def _wait(call: Callable[[], Any], stop: Stop, cancel: Callable[[], Any]) -> Any:
    """Return the result of a call in a thread; cancel it when `stop` is requested."""
    results, errors, done = list[Any](), list[BaseException](), Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - is raised below
            errors.append(error)
        done.set()

    Thread(target=run, daemon=True).start()
    is_cancelled = False
    try:
        while not done.wait(SLICE_SECONDS):
            if stop.requested and not is_cancelled:
                is_cancelled = True
                cancel()
    except KeyboardInterrupt:
        cancel()
        raise
    if errors:
        raise errors[0]
    return results[0]


def open_connection(
    url: str,
    analyst: str | None,
    dialect: str,
    epsilon: Decimal | None,
    **wish: Unpack[ConnectionOptions],
) -> HttpConnection:
    """Connect to the server of a URL, and check the login.

    The user is that of the URL, or `analyst`. The password is that of the URL, or DPSQL_PASSWORD;
    DPSQL_TOKEN is a token instead. Plain HTTP is for this machine alone. Raises InterfaceError, or
    OperationalError.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise InterfaceError(_FORM) from None
    user = unquote(parts.username or "") or analyst or ""
    host, token = parts.hostname or "", os.environ.get("DPSQL_TOKEN", "")
    below = parts.path.rstrip("/")
    if (below and not _DATABASE.fullmatch(below)) or parts.query or not host:
        raise InterfaceError(_FORM)
    if parts.scheme == "http" and not is_local(host):
        raise InterfaceError(f"{host} is not this machine: its URL begins with https://.")
    if analyst is not None and user != analyst:
        raise InterfaceError("The URL names another user than analyst.")
    password = unquote(parts.password or "") or os.environ.get("DPSQL_PASSWORD", "")
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    login = f"Bearer {token}" if token and not password else f"Basic {pair}"
    context = ssl.create_default_context() if parts.scheme == "https" else None
    server = HttpServer(parts.scheme, host, port, login=login, context=context, below=below)
    server.send_twice("GET", "/v1/budget")
    return HttpConnection(server, user, dialect, epsilon, **wish)
