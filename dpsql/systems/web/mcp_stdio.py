"""MCP over stdin and stdout: one analyst, at the pace of a server."""

from __future__ import annotations

from dpsql.interfaces.doors import MCP
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.systems.web.mcp_tools import McpTools, make_mcp
from dpsql.systems.web.web_queries import Caller, QueryRunner


async def serve_stdio(present: Present, telemetry: Telemetry, analyst: str) -> None:
    """Answer calls on stdin until it ends. The caller closes the proxy.

    The time grid, its late answers and the log are those of `dpsql serve`: a model is an analyst
    and no trusted local caller (SECURITY.md S32).
    """
    server = Server(present, telemetry)
    runner = QueryRunner(server)
    caller = Caller(present, analyst, "mcp-stdio", words=MCP)
    try:
        await make_mcp(McpTools(runner, lambda: caller)).run_stdio_async()
    finally:
        server.pacer.close()
        runner.stop_all()
        server.threads.shutdown(wait=True, cancel_futures=True)
