"""The JSON interface: a request in, a question to the proxy, a reply in the wanted format.

It knows no SQL and no privacy. SECURITY.md S31.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from anyio import CancelScope
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import dpsql
from dpsql.answering.together import PlanTogether
from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Stop
from dpsql.interfaces.dbapi.local_answers import spending
from dpsql.interfaces.doors import DATABASE_API, HTTP, Door
from dpsql.interfaces.joint_prices import price_text, prices
from dpsql.interfaces.listing import listed
from dpsql.interfaces.pgwire.answers import is_lasting
from dpsql.interfaces.pgwire.faults import Fault, internal
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import DpsqlError
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Answer, Receipt, Request
from dpsql.policy.restrict import rows_granted
from dpsql.systems.web.answer_formats import (
    EVENTS,
    JSON,
    HttpReply,
    VersionedAnswer,
    answer_document,
    choose_format,
    json_text,
    render_answer,
)
from dpsql.systems.web.api_routes import ROUTES, ApiRoute, describe_api
from dpsql.systems.web.idempotency import KeptReplies, require_key
from dpsql.systems.web.problems import PROBLEM_TYPE, Problem, problem_of
from dpsql.systems.web.repeated_replies import MOMENT, RepeatedReplies, RepeatedReply
from dpsql.systems.web.request_bodies import (
    QuestionBody,
    parse_json,
    read_body,
    read_json,
    read_question,
    read_statements,
)
from dpsql.systems.web.web_queries import Caller, QueryRunner
from dpsql.systems.web.web_users import TOKEN_SECONDS, WebLogin, WebUsers, scheme_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from dpsql.proxy import Proxy

DOOR = "http"
PYTHON = "dpsql-python"
"""User agent of `dpsql.connect`, whose messages speak of Python."""
_LONGEST_CLIENT = 200
_Handle: TypeAlias = Callable[[Caller, HttpRequest, str], Awaitable[HttpReply | Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route as an ASGI application. Its request counts until the reply has been sent."""

    api: JsonApi
    route: ApiRoute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Every error becomes a problem."""
        request = HttpRequest(scope, receive)
        api, route = self.api, self.route
        try:
            if route.is_open:
                await as_response(api.description())(scope, receive, send)
                return
            address = request.client.host if request.client else ""
            login = await api.users.identify(request.headers, address)
            async with api.runner.server.admit_request(login.analyst) as present:
                caller = caller_of(present, login, DOOR, HTTP, request)
                response = await self._respond(caller, request)
                await response(scope, receive, send)
        except Problem as problem:
            await as_response(problem_reply(problem))(scope, receive, send)
        except (DpsqlError, Fault) as error:
            reply = problem_reply(unadmitted(error))
            await as_response(reply)(scope, receive, send)

    async def _respond(self, caller: Caller, request: HttpRequest) -> Response:
        """Return the response to an admitted request. Nothing of an unknown error is shown."""
        try:
            media_type = choose_format(request.headers.get("accept", ""), self.route.formats)
            reply = await self.api.handler(self.route.name)(caller, request, media_type)
        except Problem as problem:
            reply = problem_reply(problem)
        except DpsqlError as error:
            reply = problem_reply(problem_of(error))
        except Exception as error:  # noqa: BLE001 - its text may hold anything
            reply = problem_reply(self.api.unknown_problem(error))
        return reply if isinstance(reply, Response) else as_response(reply)


@dataclass(frozen=True, slots=True)
class JsonApi:
    """Handlers of all routes, with the users of a server and the replies that it keeps."""

    runner: QueryRunner
    users: WebUsers
    replies: KeptReplies
    repeats: RepeatedReplies = field(default_factory=RepeatedReplies)
    turns: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )

    def routes(self) -> list[Route]:
        """Return the routes of `ROUTES`."""
        return [Route(r.path, Endpoint(self, r), methods=[r.method], name=r.name) for r in ROUTES]

    def handler(self, name: str) -> _Handle:
        """Return the handler of a route."""
        handlers: dict[str, _Handle] = {
            "query": self._query,
            "explain": self._explain,
            "plan": self._plan,
            "tables": self._tables,
            "describe": self._tables,
            "budget": self._spending,
            "history": self._spending,
            "cancel": self._cancel,
            "token": self._token,
        }
        return handlers[name]

    @staticmethod
    def description() -> HttpReply:
        """Return the OpenAPI description."""
        return _document(describe_api(dpsql.__version__))

    def unknown_problem(self, error: Exception) -> Problem:
        """Return the problem of an unknown error, which is logged without its text."""
        fault = internal(secrets.token_hex(8))
        telemetry = self.runner.server.telemetry
        telemetry.event("failed", query=fault.query, kind=type(error).__name__)
        return Problem(500, "failed", fault.message, about={"query_id": fault.query})

    # --- queries ---

    async def _query(
        self, caller: Caller, request: HttpRequest, media_type: str
    ) -> HttpReply | Response:
        body, key = await read_body(request), request.headers.get("idempotency-key")
        same = (caller.analyst, caller.words, media_type, body)
        if key is None:
            repeated = self.repeats.get(self.runner.stamp(caller, MOMENT), same)
            if repeated is not None:
                self.runner.report_repeat(caller, repeated.receipt)
                return repeated.reply
        question = read_question(parse_json(body))
        if media_type == EVENTS:
            return StreamingResponse(self._events(caller, question, key), media_type=EVENTS)
        stamp = await asyncio.to_thread(self.runner.stamp, caller) if key is None else None
        events = _Events()
        reply = await self._answer(caller, question, key, media_type, events)
        if events.is_lasting:
            self.repeats.put(stamp, same, RepeatedReply(as_response(reply), events.receipt))
        return reply

    async def _answer(
        self,
        caller: Caller,
        question: QuestionBody,
        key: str | None,
        media_type: str,
        events: _Events,
    ) -> HttpReply:
        """Return the reply to a question, kept under its key. Raises `Problem`.

        A kept reply is repeated only if its question would still be accepted, about the same
        rows.
        """
        plain = question.request(caller.analyst, DOOR, caller.client)  # refused before any key
        ask = partial(self._ask, caller, plain, media_type, events, question)
        if key is None:
            return await ask()
        key = require_key(key)
        proxy = caller.present.proxy
        chain = await asyncio.to_thread(proxy.chain, caller.analyst)
        rows = rows_granted(proxy.policy, caller.analyst, chain)
        canonical = json.dumps([question.canonical(), media_type, *([rows] if rows else [])])
        # A retry that comes while the first request is asked waits for its reply.
        async with self.turns.setdefault((caller.analyst, key, canonical), asyncio.Lock()):
            return await self._answer_once(caller, plain, key, canonical, ask)

    async def _answer_once(
        self,
        caller: Caller,
        plain: Request,
        key: str,
        canonical: str,
        ask: Callable[[], Awaitable[HttpReply]],
    ) -> HttpReply:
        """Return the reply that is kept under a key, or ask and keep it. Raises `Problem`."""
        replies = self.replies
        earlier = await asyncio.to_thread(replies.find, caller.analyst, key, canonical)
        if earlier is not None:
            # Whoever lost the right to a name is refused here (PRIVACY.md R105).
            await self.runner.explain(caller, plain)
            return earlier
        try:
            reply = await ask()
        except Problem as problem:
            if not problem.document.get("charged"):
                await asyncio.to_thread(replies.drop, caller.analyst, key, canonical)
                raise
            reply = replace(problem_reply(problem), is_charged=True)
        await asyncio.to_thread(replies.keep, caller.analyst, key, canonical, reply)
        return reply

    async def _ask(
        self,
        caller: Caller,
        request: Request,
        media_type: str,
        events: _Events,
        question: QuestionBody,
    ) -> HttpReply:
        tell = events.tell
        result = await self.runner.ask(caller, request, query_id=question.id, tell=tell)
        events.receipt, events.is_lasting = result.answer.receipt, is_lasting(result.answer)
        result = replace(result, answer=question.show(result.answer))
        return await asyncio.to_thread(render_answer, result, media_type, caller.words)

    async def _events(
        self, caller: Caller, question: QuestionBody, key: str | None
    ) -> AsyncIterator[bytes]:
        """Yield the progress of a query, and its answer or its problem as the last event.

        The query goes on to its end if the client leaves, and counts until then; its answer is
        remembered.
        """
        events = _Events()

        async def ask() -> None:
            try:
                reply = await self._answer(caller, question, key, JSON, events)
            except Problem as problem:
                reply = problem_reply(problem)
            except DpsqlError as error:
                reply = problem_reply(problem_of(error))
            except Exception as error:  # noqa: BLE001 - whoever waits for the last event is told
                reply = problem_reply(self.unknown_problem(error))
            events.end(reply)

        task = asyncio.create_task(ask())
        try:
            while (event := await events.next()) is not None:
                yield event
        finally:
            with CancelScope(shield=True), suppress(Exception):  # whoever left cancels this one
                await asyncio.shield(task)

    async def _explain(self, caller: Caller, request: HttpRequest, _media_type: str) -> HttpReply:
        question = read_question(await read_json(request))
        plain = question.request(caller.analyst, DOOR, caller.client)
        explanation = await self.runner.explain(caller, plain)
        plan = plan_text(explanation, PlanForm.JSON, door=caller.words)
        text = json.dumps(plan_text(explanation, PlanForm.SHORT, door=caller.words))
        return HttpReply(200, JSON, f'{{"plan": {plan}, "text": {text}}}'.encode())

    async def _plan(self, caller: Caller, request: HttpRequest, _media_type: str) -> HttpReply:
        texts, common = read_statements(await read_json(request))
        epsilon = common.request("", DOOR, "").epsilon
        shared = {name: each for name, each in common.fields.items() if name != "epsilon"}
        requests = [
            QuestionBody({**shared, "sql": text}).request(caller.analyst, DOOR, caller.client)
            for text in texts
        ]

        def step(proxy: Proxy, stop: Stop) -> dict[str, Any]:
            plan = proxy.run(PlanTogether(requests, epsilon), stop)
            rows = answer_document(prices(plan), proxy.ledger.data_version())["rows"]
            return {"text": price_text(plan), "statements": rows}

        return _document(await self.runner.run(caller, step))

    async def _cancel(self, caller: Caller, request: HttpRequest, _media_type: str) -> HttpReply:
        query_id = read_question(await read_json(request), "id").id
        return _document({"cancelled": self.runner.cancel(caller.analyst, query_id)})

    # --- free lists ---

    async def _tables(self, caller: Caller, request: HttpRequest, media_type: str) -> HttpReply:
        table = request.path_params.get("table")
        wish = (
            Listing() if table is None else read_listing(f"DESCRIBE {table}") or Listing((table,))
        )

        def step(proxy: Proxy, stop: Stop) -> Answer:
            own = proxy.own_tables(caller.analyst, stop)
            return listed(wish, proxy.policy_of(caller.analyst), synthetic=own)

        return await self._list(caller, step, media_type)

    async def _spending(self, caller: Caller, request: HttpRequest, media_type: str) -> HttpReply:
        report = f"dpsql_{request.url.path.rpartition('/')[2]}"
        return await self._list(
            caller, lambda proxy, _: spending(proxy, caller.analyst, report), media_type
        )

    async def _list(
        self, caller: Caller, step: Callable[[Proxy, Stop], Answer], media_type: str
    ) -> HttpReply:
        def whole(proxy: Proxy, stop: Stop) -> VersionedAnswer:
            version = proxy.ledger.data_version()
            return VersionedAnswer(step(proxy, stop), version)

        result = await self.runner.run(caller, whole)
        return render_answer(result, media_type, caller.words)

    async def _token(self, caller: Caller, request: HttpRequest, _media_type: str) -> HttpReply:
        if scheme_of(request.headers) != "basic":
            title = "A token is issued for a password, not for another token."
            raise Problem(403, "login", title, fix="Log in with user and password.")
        token = await self.users.issue(caller.analyst)
        return _document({"token": token, "expires_in": TOKEN_SECONDS})


class _Events:
    """Events of one query, in their order, as server-sent events, and its receipt."""

    def __init__(self) -> None:
        self._queue = asyncio.Queue[bytes | None]()
        self.receipt: Receipt | None = None
        self.is_lasting = False

    def tell(self, event: str, **facts: float | str) -> None:
        """Add an event."""
        self._queue.put_nowait(_event(event, json_text(facts)))

    def end(self, reply: HttpReply) -> None:
        """Add the last event: the answer or the problem."""
        name = "answer" if reply.media_type == JSON else "problem"
        self._queue.put_nowait(_event(name, reply.body.decode()))
        self._queue.put_nowait(None)

    async def next(self) -> bytes | None:
        """Return the next event; None after the last one."""
        return await self._queue.get()


def caller_of(
    present: Present, login: WebLogin, door: str, words: Door, request: HttpRequest
) -> Caller:
    """Return the caller of an admitted request."""
    client = request.headers.get("user-agent", "")[:_LONGEST_CLIENT]
    if client.startswith(PYTHON):
        words = DATABASE_API
    address = request.client.host if request.client else ""
    return Caller(
        present=present,
        analyst=login.analyst,
        door=door,
        words=words,
        address=address,
        client=client,
        require_valid=login.require_valid,
    )


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\ndata: {data}\n\n".encode()


def _document(content: dict[str, Any]) -> HttpReply:
    return HttpReply(200, JSON, json_text(content).encode())


def problem_reply(problem: Problem) -> HttpReply:
    """Return a problem as a reply."""
    body = json_text(problem.document).encode()
    return HttpReply(problem.status, PROBLEM_TYPE, body, dict(problem.headers))


def as_response(reply: HttpReply) -> Response:
    """Return a reply as Starlette sends it."""
    headers = dict(reply.headers)
    return Response(reply.body, reply.status, headers, media_type=reply.media_type)


def unadmitted(error: DpsqlError | Fault) -> Problem:
    """Return the problem of a request that was not admitted."""
    if isinstance(error, DpsqlError):
        return problem_of(error)
    if error.sqlstate == "53300":
        fix = "Wait until other requests have ended."
        return Problem(429, "too-many-requests", "There are too many requests.", fix=fix)
    return Problem(503, "stopping", "The server is stopping.")
