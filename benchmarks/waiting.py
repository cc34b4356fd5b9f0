"""How fast remembered answers are while every worker of a server is busy and many questions wait.

    python -m benchmarks.waiting [--clients 100] [--seconds 20]

Nine of ten clients ask new questions over private rows, each of which keeps a worker for its step.
The others ask what was paid for before, in twenty spellings. Printed are percentiles of their
waits, and how long the server's threads waited for a processor: on a machine that is busy with
other things, that is most of a wait. A text in a new spelling is not asked: it would wait until
the 90 new questions of its analyst, which came before it, are compiled.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from itertools import count, product
from pathlib import Path

import psycopg

from benchmarks.soak import PASSWORD, prepared
from benchmarks.soak_clients import KINDS, Where
from benchmarks.soak_server import serving

PAID = "SELECT COUNT(*) AS n FROM orders /* {} */"
NEW = "SELECT COUNT(*) FROM orders WHERE amount > {}"
MOST_SECONDS, SPELLINGS = 0.1, 20


async def connected(where: Where) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(**where.libpq(next(iter(KINDS))), autocommit=True)


async def busy(client: psycopg.AsyncConnection, numbers: count[int], ends: float) -> int:
    """New questions, one after the other; how many were answered."""
    answered = 0
    while time.monotonic() < ends:
        await client.execute(NEW.format(next(numbers) / 1000))
        answered += 1
    return answered


async def remembered(
    client: psycopg.AsyncConnection, numbers: count[int], ends: float
) -> list[float]:
    """A question that was paid for; how long each answer took."""
    waits = []
    while time.monotonic() < ends:
        began = time.monotonic()
        await client.execute(PAID.format(next(numbers) % SPELLINGS))
        waits.append(time.monotonic() - began)
        await asyncio.sleep(0.05)
    return waits


async def measured(where: Where, clients: int, seconds: float) -> tuple[int, list[float]]:
    """How many new questions were answered, and the waits for remembered answers, sorted."""
    numbers, few = count(), max(1, clients // 10)
    async with AsyncExitStack() as stack:
        each = [await stack.enter_async_context(await connected(where)) for _ in range(clients)]
        for spelling, prepare in product(range(SPELLINGS), (False, True)):
            await each[0].execute(PAID.format(spelling), prepare=prepare)
        ends = time.monotonic() + seconds
        asking = [busy(client, numbers, ends) for client in each[few:]]
        again = [remembered(client, numbers, ends) for client in each[:few]]
        answered, waits = await asyncio.gather(asyncio.gather(*asking), asyncio.gather(*again))
    return sum(answered), sorted(wait for own in waits for wait in own)


def waited(process: int) -> float:
    """Seconds for which the threads of a process were ready and had no processor."""
    nanoseconds = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # it has ended
            nanoseconds += int((thread / "schedstat").read_text().split()[1])
    return nanoseconds / 1e9


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--seconds", type=float, default=20.0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="waiting") as name:
        policy = prepared(Path(name))
        text = policy.read_text(encoding="utf-8")
        most = f"max_connections = {given.clients + 10}\n"
        more = f"{most}max_connections_per_analyst = {given.clients + 10}\n"
        policy.write_text(text.replace("[server]\n", f"[server]\n{more}"), encoding="utf-8")
        with serving(policy, Path(name) / "log") as served:
            where = Where(served.port, PASSWORD)
            before = waited(served.process.pid)
            answered, waits = asyncio.run(measured(where, given.clients, given.seconds))
            without = waited(served.process.pid) - before
    p50, p95 = (waits[int(len(waits) * part)] for part in (0.5, 0.95))
    print(f"{answered} new questions, {len(waits)} remembered answers")
    print(f"the server's threads waited {without:.1f} s for a processor")
    print(
        f"remembered answers: p50 {p50:.3f} s, p95 {p95:.3f} s (wanted: {MOST_SECONDS} s),"
        f" longest {waits[-1]:.3f} s"
    )


if __name__ == "__main__":
    main()
