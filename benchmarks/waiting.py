"""How fast remembered answers are while every worker of a server is busy and many questions wait.

    python -m benchmarks.waiting [--clients 100] [--seconds 20]

Nine of ten clients ask new questions over private rows, each of which keeps a worker for its step.
The others ask what was paid for before, in twenty spellings. Printed are the 50th and the 95th
percentile of their waits.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from itertools import count
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


async def busy(where: Where, numbers: count[int], ends: float) -> int:
    """New questions, one after the other; how many were answered."""
    answered = 0
    async with await connected(where) as client:
        while time.monotonic() < ends:
            await client.execute(NEW.format(next(numbers) / 1000))
            answered += 1
    return answered


async def remembered(where: Where, numbers: count[int], ends: float) -> list[float]:
    """A question that was paid for; how long each answer took."""
    waits = []
    async with await connected(where) as client:
        while time.monotonic() < ends:
            began = time.monotonic()
            await client.execute(PAID.format(next(numbers) % SPELLINGS))
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.05)
    return waits


async def measured(where: Where, clients: int, seconds: float) -> tuple[int, list[float]]:
    """How many new questions were answered, and the waits for remembered answers, sorted."""
    numbers, ends = count(), time.monotonic() + seconds
    async with await connected(where) as first:
        await first.execute(PAID.format(""))
    few = max(1, clients // 10)
    asking = [busy(where, numbers, ends) for _ in range(clients - few)]
    again = [remembered(where, numbers, ends) for _ in range(few)]
    answered, waits = await asyncio.gather(asyncio.gather(*asking), asyncio.gather(*again))
    return sum(answered), sorted(wait for each in waits for wait in each)


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
            answered, waits = asyncio.run(measured(where, given.clients, given.seconds))
    p50, p95 = (waits[int(len(waits) * part)] for part in (0.5, 0.95))
    print(f"{answered} new questions, {len(waits)} remembered answers")
    print(f"remembered answers: p50 {p50:.3f} s, p95 {p95:.3f} s (wanted: {MOST_SECONDS} s)")


if __name__ == "__main__":
    main()
