"""Connections that come and go, with TLS and SCRAM: how many a second, and what stays of them.

    python -m benchmarks.cycles [NUMBER]

Each logs in to `dpsql serve --self-signed`, asks once in ten times, and leaves; the memory is that
of the server's process after a tenth of them and at the end.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from benchmarks.common import table
from benchmarks.wire import Where, prepared, serving

AT_ONCE = 8


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        policy = prepared(Path(name))
        with serving(policy, "--self-signed") as (plain, process):
            where = {**plain, "ssl": _trusting()}
            asyncio.run(cycles(where, number // 10))
            early = megabytes(process)
            start = time.perf_counter()
            asyncio.run(cycles(where, number - number // 10))
            rate = (number - number // 10) / (time.perf_counter() - start)
            late = megabytes(process)
    table(
        "Connections with TLS and SCRAM",
        ("number", "per second", "MB after a tenth", "MB at the end"),
        [(number, rate, early, late)],
    )


def _trusting() -> ssl.SSLContext:
    """TLS whose certificate nobody vouches for."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def megabytes(process: int) -> float:
    """What a process has in memory (Linux)."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def cycles(where: Where, number: int) -> None:
    numbers = iter(range(number))
    await asyncio.gather(*(_cycled(where, numbers) for _ in range(AT_ONCE)))


async def _cycled(where: Where, numbers: Iterator[int]) -> None:
    for number in numbers:
        client = await asyncpg.connect(**where)
        if number % 10 == 0:
            await client.fetch("SELECT 1")
        await client.close()


if __name__ == "__main__":
    main()
