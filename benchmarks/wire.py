"""The Postgres door beside a real PostgreSQL 15: cached answers and rows, by asyncpg.

    python -m benchmarks.wire [SECONDS]

Cached: one grouped count, prepared once and asked again and again over 1, 8 and 64 connections;
`added` is the median less that of the same answer in the server's own process. Rows: a public table
of 100,000 rows in binary. Both servers run as processes of their own, one after the other; and in
sessions of their own, as PostgreSQL's processes do by themselves and any service does: where Linux
shares out processors by session, a server that had the client's would be measured at half of one.

Beside an abusive analyst: the same cached answer on one connection while another analyst sends, on
eight and from a process of their own, statements that are free and as heavy as may be. All clients
run on this machine and take processors from the server: on two of them the abuser's own client and
the workers of her statements are as many as the processors, and every wait shows in the 99th
percentile. What that alone does shows PostgreSQL, which is sent the same statements, with EXPLAIN
for what has no price there. Whatever else runs on the machine shows there first: compare only runs
on a quiet one.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import asyncpg
import duckdb

from benchmarks.common import table
from dpsql.interfaces.pgwire.login_file import User, verifier_of, write_users
from dpsql.model.vocabulary import Request
from dpsql.policy import demo
from dpsql.proxy import Proxy
from grammar_tests.postgres_kit import BIN, DATABASE, OWNER, PORT, running

COUNT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY 1"
ROWS = "SELECT n, half, word FROM numbers"
NUMBERS = 100_000
PASSWORD = "benchmark"  # noqa: S105 - of a demo
CONNECTIONS = (1, 8, 64)
Where = dict[str, Any]


def main() -> None:
    if sys.argv[1:2] == ["--abuse"]:
        asyncio.run(abuse(json.loads(sys.argv[2]), sys.argv[3]))
        return
    duration = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory() as name:
        policy = prepared(Path(name))
        inside = in_process(policy)
        with serving(policy) as (where, _process):
            ours = asyncio.run(measured(where, duration))
            beside = asyncio.run(beside_abuse(where, duration, "mallory", "EXPLAIN PRIVACY"))
    theirs: dict[int | str, Any] = {}
    with postgres() as found:
        if found is not None:
            theirs = asyncio.run(measured(found, duration))
            held = asyncio.run(beside_abuse(found, duration, OWNER, "EXPLAIN"))
            beside += [(f"PostgreSQL {figures[0]}", *figures[1:]) for figures in held]
    told = [
        (n, *ours[n], (ours[n][1] - inside), *theirs.get(n, ("none", "none", "none")))
        for n in CONNECTIONS
    ]
    names = ("q/s", "p50 ms", "p99 ms")
    header = ("connections", *names, "added ms", *(f"PostgreSQL {name}" for name in names))
    table(f"Cached answers ({inside:.3g} ms in process)", header, told)
    rows = [("rows/s", ours["rows"], theirs.get("rows", "none"))]
    table(f"{NUMBERS} rows", ("", "dpsql", "PostgreSQL"), rows)
    table("Cached answers beside an abusive analyst", ("", *names), beside)


def prepared(folder: Path) -> str:
    """The demo with a public table of numbers, and an analyst who may log in."""
    policy = demo.build(folder)
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        database.execute(
            "CREATE TABLE numbers AS SELECT i AS n, i / 2.0::DOUBLE AS half, 'word ' || i AS word "
            f"FROM range({NUMBERS}) AS r(i)"
        )
    with policy.open("a", encoding="utf-8") as file:
        file.write('\n[tables.numbers]\naccess = "public"\n')
        file.write('\n[analysts.mallory]\nbudget = "default"\n')
        file.write(f"\n[server]\nmax_connections_per_analyst = {2 * max(CONNECTIONS)}\n")
        file.write(f"max_connections = {4 * max(CONNECTIONS)}\n")
    users = {name: User(verifier_of(PASSWORD)) for name in ("ana", "mallory")}
    write_users(str(folder / "dpsql.users"), users)
    return str(policy)


def in_process(policy: str) -> float:
    """Median milliseconds of a cached answer without a wire."""
    with Proxy.open(policy) as proxy:
        times = []
        for _ in range(500):
            start = time.perf_counter()
            proxy.ask(Request(COUNT, "ana", "postgres"))
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


@contextmanager
def serving(
    policy: str, *options: str, program: Sequence[str] = ("-m", "dpsql")
) -> Iterator[tuple[Where, int]]:
    """`dpsql serve` on a free port, and the number of its process."""
    command = [sys.executable, *program, "--policy", policy, "serve", "--port", "0", *options]
    with subprocess.Popen(  # noqa: S603
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as served:
        assert served.stderr is not None
        port = json.loads(served.stderr.readline())["port"]
        # Nobody reads the log; a pipe that is full would hold the server.
        drain = Thread(target=lambda: [None for _ in served.stderr or ()])
        drain.start()
        where = {"host": "127.0.0.1", "port": port, "user": "ana", "password": PASSWORD}
        try:
            yield {**where, "ssl": False}, served.pid
        finally:
            served.terminate()
            drain.join()


@contextmanager
def postgres() -> Iterator[Where | None]:
    """A real server with tables of the same size; None where it is not installed."""
    with running(max_connections="100") if (BIN / "initdb").exists() else nullcontext() as server:
        if server is None:
            yield None
            return
        where = {"host": str(server.folder), "port": PORT, "user": OWNER, "database": DATABASE}
        asyncio.run(filled(where))
        yield where


async def filled(where: Where) -> None:
    client = await asyncpg.connect(**where)
    await client.execute(
        "CREATE TABLE customers AS SELECT i AS customer_id, CASE WHEN random() < 0.25 THEN "
        "'business' ELSE 'consumer' END AS segment, i % 90 AS age "
        "FROM generate_series(1, 2000) AS i; "
        "CREATE TABLE numbers AS SELECT i::BIGINT AS n, i / 2.0::FLOAT8 AS half, 'word ' || i "
        f"AS word FROM generate_series(0, {NUMBERS - 1}) AS i; ANALYZE"
    )
    await client.close()


async def measured(where: Where, duration: float) -> dict[int | str, Any]:
    """By number of connections (q/s, p50 ms, p99 ms), and rows per second."""
    found: dict[int | str, Any] = {}
    for number in CONNECTIONS:
        clients = [await asyncpg.connect(**where) for _ in range(number)]
        for _ in range(3):
            await clients[0].fetch(COUNT)
        found[number] = await rates(clients, duration)
        for client in clients:
            await client.close()
    client = await asyncpg.connect(**where)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        assert len(await client.fetch(ROWS)) == NUMBERS
        times.append(time.perf_counter() - start)
    found["rows"] = NUMBERS / statistics.median(times)
    await client.close()
    return found


ABUSE = (
    "SELECT COUNT(*) FROM numbers a, numbers b WHERE a.n % 7 = b.n % 5",
    "{explain} SELECT "
    + ", ".join(f"SUM(age + {n}) AS s{n}" for n in range(300))
    + " FROM customers",
    "SELECT count(*) FROM pg_attribute a, pg_attribute b WHERE a.attname || b.attname = a.attname",
    "{explain} SELECT "
    + ", ".join(f"AVG(age + {n}) AS s{n}" for n in range(300))
    + " FROM customers",
    "{explain} SELECT " + " + ".join(f"unknown_{n}" for n in range(20_000)),
)
"""Free work for an engine, for the compiler, for the catalogue, and for what reads texts."""

ABUSIVE_CONNECTIONS = 8


async def beside_abuse(
    where: Where, duration: float, mallory: str, explain: str
) -> list[tuple[str, float, float, float]]:
    """A cheap analyst's rates alone, and while another holds whatever can be held."""
    client = await asyncpg.connect(**where)
    for _ in range(3):
        await client.fetch(COUNT)
    alone = await rates([client], duration)
    with abusing({**where, "user": mallory}, explain):
        disturbed = await rates([client], duration)
    await client.close()
    ratio = [there / here for here, there in zip(alone, disturbed, strict=True)]
    return [("alone", *alone), ("beside", *disturbed), ("ratio", ratio[0], ratio[1], ratio[2])]


@contextmanager
def abusing(where: Where, explain: str) -> Iterator[None]:
    """Mallory at work: in a process of her own, which delays nobody's client."""
    command = [sys.executable, "-m", "benchmarks.wire", "--abuse", json.dumps(where), explain]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


async def abuse(where: Where, explain: str) -> None:
    """Send what is free and heavy over several connections, until somebody ends it."""

    async def send(number: int) -> None:
        mallory = await asyncpg.connect(**where)
        sql = ABUSE[number % len(ABUSE)].format(explain=explain)
        while True:
            with suppress(asyncpg.PostgresError, TimeoutError):
                await asyncio.wait_for(mallory.fetch(f"{sql} -- {time.time()}"), 3)

    sending = [asyncio.create_task(send(number)) for number in range(ABUSIVE_CONNECTIONS)]
    await asyncio.sleep(1)
    sys.stdout.write("busy\n")
    sys.stdout.flush()
    await asyncio.gather(*sending)


async def rates(clients: list[Any], duration: float) -> tuple[float, float, float]:
    """Queries per second and the median and 99th percentile of their times in milliseconds."""
    times: list[float] = []
    start = time.perf_counter()

    async def ask(client: Any) -> None:
        statement = await client.prepare(COUNT)
        while time.perf_counter() - start < duration:
            asked = time.perf_counter()
            await statement.fetch()
            times.append(time.perf_counter() - asked)

    await asyncio.gather(*map(ask, clients))
    elapsed = time.perf_counter() - start
    times.sort()
    p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
    return len(times) / elapsed, statistics.median(times) * 1000, p99 * 1000


if __name__ == "__main__":
    main()
