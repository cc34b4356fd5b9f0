"""MCP: the tools of a language model, over HTTP and stdio, at the price and pace of an analyst."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from dpsql.interfaces.doors import MCP
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.systems.web import mcp_tools, web_queries
from dpsql.systems.web.mcp_tools import McpTools, make_mcp
from dpsql.systems.web.web_queries import Caller, QueryRunner
from grammar_tests.proxy_kit import shop
from grammar_tests.test_pacing import Paced
from grammar_tests.web_kit import COUNT, WebDoor, WebReply, web_door

TOOLS = {"list_tables", "describe_table", "price", "query", "plan", "history", "budget"}
ACCEPT = "application/json, text/event-stream"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDoor]:
    with web_door(tmp_path_factory.mktemp("mcp")) as opened:
        yield opened


def rpc(web: WebDoor, method: str, /, user: str | None = "ana", **params: Any) -> WebReply:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return web.send("/mcp", body, user=user, accept=ACCEPT)


def call(web: WebDoor, name: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool failed, and its text."""
    result = rpc(web, "tools/call", name=name, arguments=arguments).json["result"]
    return bool(result.get("isError")), result["content"][0]["text"]


@pytest.mark.full("measures neighbours or further data sets")
def test_every_tool_answers_shortly(web: WebDoor) -> None:
    listed = rpc(web, "tools/list").json["result"]["tools"]
    assert {tool["name"] for tool in listed} == TOOLS
    assert all(tool["description"] for tool in listed)
    arguments: dict[str, dict[str, Any]] = {
        "describe_table": {"table": "orders"},
        "price": {"sql": COUNT},
        "query": {"sql": COUNT},
        "plan": {"statements": [COUNT, "SELECT 1"]},
    }
    for name in sorted(TOOLS):
        failed, text = call(web, name, **arguments.get(name, {}))
        assert not failed, text
        assert len(text) < 3000
    answer = json.loads(call(web, "query", sql=COUNT)[1])
    assert answer["rows"][0]["n"]["low"] < answer["rows"][0]["n"]["high"]
    assert answer["say"].startswith("Each number")
    assert "say" not in json.loads(call(web, "list_tables")[1])


def test_a_refusal_has_a_statement_that_works(web: WebDoor) -> None:
    failed, text = call(web, "query", sql="SELECT country, COUNT(*) AS n FROM customers")
    problem = json.loads(text)
    assert failed
    assert problem["reason"] == "not-grouped"
    assert call(web, "query", sql=problem["try"]["sql"])[0] is False
    assert call(web, "query", sql="SELECT name FROM customers", epsilon="many")[0] is True


def test_few_statements_are_priced_together(web: WebDoor) -> None:
    failed, text = call(web, "plan", statements=["SELECT 1"] * 101)
    assert (failed, json.loads(text)["reason"]) == (True, "bad-body")


def test_resources_explain_how_to_ask(web: WebDoor) -> None:
    listed = rpc(web, "resources/list").json["result"]["resources"]
    assert {each["uri"] for each in listed} == {"dpsql://guide", "dpsql://glossary", "dpsql://sql"}
    for each in listed:
        read = rpc(web, "resources/read", uri=each["uri"]).json["result"]["contents"][0]
        assert len(read["text"]) > 300


def test_tools_are_behind_the_same_checks(web: WebDoor) -> None:
    assert rpc(web, "tools/list", user=None).status == 401
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert web.send("/mcp", body, host="evil.example", accept=ACCEPT).status == 421
    assert web.send("/mcp", body, origin="http://evil.example", accept=ACCEPT).status == 403
    assert web.send("/mcp", raw=b"[" * 40 + b"]" * 40, accept=ACCEPT).status == 400
    assert web.send("/mcp", raw=b" " * (1 << 20) + b"{}", accept=ACCEPT).status == 413
    assert web.send("/mcp", method="GET").status == 405


def test_each_call_is_that_of_its_user(web: WebDoor) -> None:
    sql = "SELECT COUNT(*) AS n FROM customers WHERE age > 33"
    body = {"name": "query", "arguments": {"sql": sql}}
    assert not rpc(web, "tools/call", user="bob", **body).json["result"].get("isError")
    mine = json.loads(call(web, "history")[1])["rows"]
    theirs = json.loads(
        rpc(web, "tools/call", user="bob", name="history", arguments={}).json["result"]["content"][
            0
        ]["text"]
    )["rows"]
    assert theirs
    assert not {row["query_id"] for row in mine} & {row["query_id"] for row in theirs}


def test_no_text_of_an_unknown_error_comes_out(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise ValueError("secret of Zoe")

    monkeypatch.setattr(web_queries, "answered", break_down)
    failed, text = call(web, "query", sql=COUNT)
    assert failed
    assert "secret" not in text + web.lines


def test_long_answers_are_cut(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_tools, "MOST_ROWS", 2)
    answer = json.loads(call(web, "query", sql="SELECT code FROM countries")[1])
    assert (len(answer["rows"]), answer["rows_left_out"]) == (2, 1)


def paced_tools(web: WebDoor) -> tuple[Paced, Any]:
    """Tools as over stdio, with a server of their own and a clock of the test."""
    server, paced = Server(web.wire.server.present, Telemetry(lambda _: None)), Paced()
    server._pacer = paced.pacer()
    caller = Caller(server.present, "ana", "mcp-stdio", words=MCP)
    return paced, make_mcp(McpTools(QueryRunner(server), lambda: caller))


def test_over_stdio_answers_keep_the_grid(web: WebDoor) -> None:
    paced, tools = paced_tools(web)
    sql = "SELECT COUNT(*) AS n FROM customers WHERE age > 44"
    asyncio.run(tools.call_tool("query", {"sql": sql}))
    assert len(paced.time.waits) == 1
    asyncio.run(tools.call_tool("query", {"sql": sql}))
    assert len(paced.time.waits) == 1


def test_wrong_twin_tools_without_a_pace_wait_for_nothing(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_queries, "ProgressPace", lambda *_: None)
    paced, tools = paced_tools(web)
    sql = "SELECT COUNT(*) AS n FROM customers WHERE age > 45"
    asyncio.run(tools.call_tool("query", {"sql": sql}))
    assert paced.time.waits == []


@pytest.mark.full("starts a process")
def test_a_client_asks_over_stdio(tmp_path: Path) -> None:
    mcp: Any = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    policy = shop(tmp_path / "shop")
    arguments = ["-m", "dpsql", "--policy", str(policy), "mcp", "--analyst", "ana"]
    command = mcp.StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ)
    )

    async def ask() -> Any:
        async with mcp.Client(command) as client:
            tools = await client.list_tools()
            assert {tool.name for tool in tools.tools} == TOOLS
            return await client.call_tool("query", {"sql": COUNT})

    result = asyncio.run(ask())
    assert "estimate" in result.content[0].text
