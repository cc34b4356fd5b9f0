"""MCP: the tools of a language model, which is an analyst like any other.

Results are short, and say what may be said of their numbers. Refusals have a statement that works.
SECURITY.md S22 and S32.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import dpsql
from dpsql.answering.together import PlanTogether
from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.engines import Stop
from dpsql.interfaces.cli.manual import page
from dpsql.interfaces.dbapi.local_answers import spending
from dpsql.interfaces.doors import MCP
from dpsql.interfaces.joint_prices import price_text, prices
from dpsql.interfaces.listing import listed
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DpsqlError, MissingExtra
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import DEFAULT_SPELLING, Answer
from dpsql.systems.web.answer_formats import answer_document, json_text
from dpsql.systems.web.problems import Problem, problem_of
from dpsql.systems.web.request_bodies import QuestionBody, read_question, read_statements
from dpsql.systems.web.web_queries import Caller, QueryRunner, Step

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.resources import TextResource
    from mcp.types import CallToolResult, TextContent
except ImportError:
    message = "Tools for language models need the extra mcp: pip install 'dpsql[mcp]'."
    raise MissingExtra(message) from None

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

MOST_ROWS = 50
"""Maximum number of rows in a result of a tool."""
SAY = (
    "Each number with low and high is an estimate with noise. Say 'about', and give the interval:"
    " with 95 % confidence the true number lies in it. Call two numbers different only if their"
    " intervals do not overlap. Numbers that are exact are public."
)
GUIDE = """# How to ask

1. list_tables, then describe_table: only these names exist. Rows of people are never shown.
2. price says what a query costs and how precise it is, for free. Ask for aggregates (COUNT, SUM,
   AVG, quantiles) with GROUP BY, and for one query instead of many.
3. query charges the budget once; the same query again is free. A refusal is free, has a reason, and
   often a statement under try that works.
4. plan prices several queries together; budget and history say what was spent.
"""
GLOSSARY = """# Words

* epsilon: the price of a query. A larger one gives less noise and costs more of the budget.
* budget: all that may be spent. It is never given back.
* interval: low to high holds the true number with 95 % confidence.
* charged: paid by this query; remembered: an answer that was paid for before, free.
* notice: what an interval leaves out, such as clipped values or rare groups.
"""


@dataclass(frozen=True, slots=True)
class McpTools:
    """The tools of one server. `caller` returns who calls now.

    A tool returns a text, or the problem of a refusal as an error of MCP.
    """

    runner: QueryRunner
    caller: Callable[[], Caller]

    async def list_tables(self) -> Any:
        """List the tables that may be asked about."""
        return await self._list(Listing())

    async def describe_table(self, table: str) -> Any:
        """List the columns of a table, with their types and bounds."""
        return await self._list(read_listing(f"DESCRIBE {table}") or Listing((table,)))

    async def price(self, sql: str, epsilon: str = "", dialect: str = DEFAULT_SPELLING) -> Any:
        """Return the price of a query, the expected errors and proposals, for free."""

        async def call(caller: Caller) -> str:
            question = _question(sql, epsilon, dialect)
            request = question.request(caller.analyst, caller.door, caller.client)
            explanation = await self.runner.explain(caller, request)
            return plan_text(explanation, PlanForm.SHORT, door=MCP)

        return await self._guarded(call)

    async def query(self, sql: str, epsilon: str = "", dialect: str = DEFAULT_SPELLING) -> Any:
        """Answer one SELECT with aggregates. It is charged, unless it was answered before."""

        async def call(caller: Caller) -> str:
            question = _question(sql, epsilon, dialect)
            request = question.request(caller.analyst, caller.door, caller.client)
            versioned = await self.runner.ask(caller, request)
            return shorten_answer(versioned.answer, versioned.version)

        return await self._guarded(call)

    async def plan(self, statements: list[str]) -> Any:
        """Return the joint price of several SELECTs, for free."""

        async def call(caller: Caller) -> str:
            texts, _ = read_statements({"statements": statements})
            requests = [
                _question(sql, "").request(caller.analyst, caller.door, caller.client)
                for sql in texts
            ]

            def step(proxy: Proxy, stop: Stop) -> str:
                joint = proxy.run(PlanTogether(requests), stop)
                rows = answer_document(prices(joint), proxy.ledger.data_version(), MCP)["rows"]
                return json_text({"cost": price_text(joint), "statements": rows})

            return await self.runner.run(caller, step)

        return await self._guarded(call)

    async def history(self) -> Any:
        """List your charged queries, the newest first."""
        return await self._spending("dpsql_history")

    async def budget(self) -> Any:
        """Return the rest of your budget."""
        return await self._spending("dpsql_budget")

    async def _spending(self, report: str) -> Any:
        async def call(caller: Caller) -> str:
            return await self._short(caller, lambda p, _: spending(p, caller.analyst, report))

        return await self._guarded(call)

    async def _list(self, wish: Listing) -> Any:
        async def call(caller: Caller) -> str:
            def step(proxy: Proxy, stop: Stop) -> Answer:
                own = proxy.own_tables(caller.analyst, stop)
                return listed(wish, proxy.policy_of(caller.analyst), synthetic=own)

            return await self._short(caller, step)

        return await self._guarded(call)

    async def _short(self, caller: Caller, step: Step[Answer]) -> str:
        def short(proxy: Proxy, stop: Stop) -> str:
            return shorten_answer(step(proxy, stop), proxy.ledger.data_version())

        return await self.runner.run(caller, short)

    async def _guarded(self, call: Callable[[Caller], Awaitable[str]]) -> Any:
        """Return the result of a call. Every error is a problem, and shows nothing unknown."""
        try:
            return await call(self.caller())
        except Problem as error:
            problem = error
        except DpsqlError as error:
            problem = problem_of(error, door=MCP)
        except Exception as error:  # noqa: BLE001 - its text may hold anything
            query_id = secrets.token_hex(8)
            telemetry = self.runner.server.telemetry
            telemetry.event("failed", query=query_id, kind=type(error).__name__)
            problem = Problem(500, "failed", f"Query {query_id} failed.")
        text = TextContent(type="text", text=json_text(problem.document))
        return CallToolResult(content=[text], is_error=True)


def shorten_answer(answer: Answer, version: int) -> str:
    """Return an answer as a short document: at most `MOST_ROWS` rows, and what may be said."""
    document = answer_document(answer, version, MCP)
    rows = document["rows"]
    short: dict[str, Any] = {"rows": rows[:MOST_ROWS]}
    if len(rows) > MOST_ROWS:
        short["rows_left_out"] = len(rows) - MOST_ROWS
    if document["notices"]:
        short["notices"] = document["notices"]
    if answer.receipt is not None:
        short |= {"cost": document["receipt"]["text"], "say": SAY}
    return json_text(short)


def _question(sql: str, epsilon: str, dialect: str = DEFAULT_SPELLING) -> QuestionBody:
    optional = {"epsilon": epsilon} if epsilon else {}
    return read_question({"sql": sql, "dialect": dialect, **optional})


def make_mcp(tools: McpTools) -> Any:
    """Return the MCP server of these tools, with a guide and a glossary as resources."""
    server = MCPServer("dpsql", version=dpsql.__version__, instructions=GUIDE, log_level="CRITICAL")
    for tool in (
        tools.list_tables,
        tools.describe_table,
        tools.price,
        tools.query,
        tools.plan,
        tools.history,
        tools.budget,
    ):
        server.add_tool(tool, structured_output=False)
    for name, text in (("guide", GUIDE), ("glossary", GLOSSARY), ("sql", page("sql"))):
        resource = TextResource(
            uri=f"dpsql://{name}", name=name, text=text, mime_type="text/markdown"
        )
        server.add_resource(resource)
    return server
