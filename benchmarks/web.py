"""Remembered answers over HTTP beside the Postgres port: processor time of the server, in one run.

    python -m benchmarks.web [ANSWERS]

One connection of each kind asks the same remembered question, in turns: asyncpg with a prepared
statement, and HTTP with a token on a connection that is kept. Counted is the processor time of the
server and its workers, not of the clients, so that a busy machine changes little. The ratio is that
of the answers that one processor gives in a second.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import asyncpg

from benchmarks.common import table
from benchmarks.wire import COUNT, PASSWORD, Where, prepared, serving
from grammar_tests.waiting import reserved_port

ROUNDS = 5
_TICK = os.sysconf("SC_CLK_TCK")
Ask = Callable[[int], None]


def main() -> None:
    answers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name, reserved_port() as port:
        policy = prepared(Path(name))
        with serving(policy, "--http", f"127.0.0.1:{port}") as (where, process):
            found = compared(where, port, process, answers)
    rows = [(kind, 1000 * seconds / answers, answers / seconds) for kind, seconds in found.items()]
    table(f"Remembered answers, median of {ROUNDS}", ("", "CPU ms", "answers per CPU s"), rows)
    print(f"HTTP gives {found['wire'] / found['HTTP']:.2f} times the answers of the wire.")


def compared(where: Where, port: int, process: int, answers: int) -> dict[str, float]:
    """Processor seconds of a round, by interface: the median of all rounds."""
    times: dict[str, list[float]] = {"wire": [], "HTTP": []}
    with asyncio.Runner() as runner:
        client = runner.run(asyncpg.connect(**where))
        statement = runner.run(client.prepare(COUNT))

        def by_wire(count: int) -> None:
            async def ask() -> None:
                for _ in range(count):
                    await statement.fetch()

            runner.run(ask())

        with closing(HTTPConnection("127.0.0.1", port)) as connection:
            by_http = asker(connection)
            for ask in (by_wire, by_http):
                ask(20)
            for _ in range(ROUNDS):
                for kind, ask in (("wire", by_wire), ("HTTP", by_http)):
                    before = processor_seconds(process)
                    ask(answers)
                    times[kind].append(processor_seconds(process) - before)
        runner.run(client.close())
    return {kind: statistics.median(each) for kind, each in times.items()}


def asker(connection: HTTPConnection) -> Ask:
    """A client with a token, which asks over one connection."""
    pair = base64.b64encode(f"ana:{PASSWORD}".encode()).decode()
    connection.request("POST", "/v1/token", b"{}", headers(f"Basic {pair}"))
    token = json.loads(connection.getresponse().read())["token"]
    asked, body = headers(f"Bearer {token}"), json.dumps({"sql": COUNT}).encode()

    def ask(count: int) -> None:
        for _ in range(count):
            connection.request("POST", "/v1/query", body, asked)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                raise RuntimeError(text)

    return ask


def headers(authorization: str) -> dict[str, str]:
    return {"authorization": authorization, "content-type": "application/json"}


def processor_seconds(process: int) -> float:
    """Processor time of a process and all that it started, as far as they still run."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / _TICK
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


if __name__ == "__main__":
    main()
