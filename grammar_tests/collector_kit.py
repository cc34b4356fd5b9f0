"""A collector of reports: its policy, its store, and requests without a network."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dpsql.policy.load import load
from dpsql.systems.local.collection import Collection
from dpsql.systems.local.collector import Collector, Listening
from dpsql.systems.local.report_store import STORE, ReportStore

POLICY = """
[database]
engine = "duckdb"
[database.files]
people = "people.csv"
visits = "visits/*.parquet"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
file = {}
columns = { id = { type = "BIGINT" } }
[tables.visits]
access = "public"
[tables.visits.columns]
clicked = { values = ["yes", "no"], randomized = { mechanism = "two-coins" } }
stars = { values = [1, 2, 3], randomized = { mechanism = "grr", epsilon = 1 } }
cell = { values = ["a", "b", "c"], randomized = { mechanism = "oue", epsilon = 1 } }
weight = { values = [0.5, 1.5], randomized = { mechanism = "grr", epsilon = 1 } }
sure = { values = [true, false], randomized = { mechanism = "grr", epsilon = 1 } }
day = { values = [2024-01-01, 2024-01-02], randomized = { mechanism = "grr", epsilon = 1 } }
[budgets.default]
epsilon = 1.0
delta = 1e-6
[analysts.ana]
budget = "default"
"""
Status = int
Answer = tuple[Status, dict[str, str], str]


def policy(folder: Path, *changes: tuple[str, str]) -> Path:
    """The policy in this folder; each change must apply."""
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "people.csv").write_text("id\n1\n", encoding="utf-8")
    path = folder / "dpsql.toml"
    path.write_text(text, encoding="utf-8")
    return path


def collection(folder: Path, *changes: tuple[str, str]) -> Collection:
    return Collection.of(load(str(policy(folder, *changes))), "visits")


def answers(
    collected: Collection,
    store: ReportStore,
    requests: Sequence[Mapping[str, Any]],
    listening: Listening | None = None,
    write: Callable[[str], object] = str,
) -> list[Answer]:
    """What is answered to requests that all come at once."""

    async def all_of_them() -> list[Answer]:
        where = listening or Listening("127.0.0.1", 0, origins=("https://a.example",))
        application = Collector(collected, store, where, write).application()
        return await asyncio.gather(*(_answer(application, **each) for each in requests))

    return asyncio.run(all_of_them())


async def _answer(
    application: Callable[..., Awaitable[None]],
    body: bytes = b"",
    key: str = "k" * 16,
    path: str = "/visits/reports",
    method: str = "POST",
    *,
    stalls: bool = False,
    **headers: str,
) -> Answer:
    """`body` comes in parts of 64 kB, or nothing ever comes."""
    parts = [body[at : at + (1 << 16)] for at in range(0, len(body) + 1, 1 << 16)]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if stalls:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    given = {"content-type": "application/json", "idempotency-key": key, "host": "c.example"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(n.encode(), v.encode()) for n, v in given.items() if v],
        "client": ("203.0.113.9", 4711),
        "server": ("c.example", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    with suppress(ZeroDivisionError):  # told to the server, too, after it was answered
        await application(scope, receive, send)
    got = {n.decode(): v.decode() for n, v in sent[0]["headers"]}
    return sent[0]["status"], got, b"".join(m.get("body", b"") for m in sent[1:]).decode()


def rows_of(folder: Path) -> Counter[tuple[object, ...]]:
    """All rows that are stored, sealed or published, as they were sent, by how often."""
    rows: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(folder / STORE)) as opened:
        rows += [tuple(json.loads(r)) for (r,) in opened.execute("SELECT report FROM waiting")]
        for (batch,) in opened.execute("SELECT reports FROM sealed"):
            rows += [tuple(row) for row in json.loads(batch)]
    for file in folder.glob("*.parquet"):
        columns = pq.read_table(file).to_pydict().values()
        rows += [
            tuple(
                None if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in r
            )
            for r in zip(*columns, strict=True)
        ]
    return Counter(rows)


@contextmanager
def collecting(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`dpsql local collect visits` in a process, with its port; killed at the end."""
    command = [sys.executable, "-m", "dpsql", "--policy", str(path), "local", "collect", "visits"]
    process = subprocess.Popen(  # noqa: S603
        [*command, "--port", "0", *options], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "are taken at" in line, line + process.stderr.read()
        yield process, int(line.strip(" .\n").rpartition(":")[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
