"""Ten thousand connections come and go, most of them badly: nothing stays, others are unharmed.

Without TLS, whose handshakes would take minutes; `python -m benchmarks.cycles` has them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from grammar_tests.scram_kit import first_response, heard, logged_in
from grammar_tests.wire_kit import PASSWORD, Door, door, packet, startup_packet

CYCLES = 10_000
AT_ONCE = 16
_STARTUP = startup_packet((3, 0), user="ana")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("cycles"), max_connections=100) as opened:
        yield opened


async def vanishing(port: int, number: int) -> None:
    """A client that goes away at one of six places, some without a goodbye."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    match number % 6:
        case 0:
            writer.write(_STARTUP[:7])
        case 1:
            writer.write(_STARTUP)
            await heard(reader, b"R")
        case 2:
            writer.write(_STARTUP)
            await heard(reader, b"R")
            writer.write(first_response())
            await heard(reader, b"R")
        case 3:
            writer.write(struct.pack("!iii", 16, 80877102, number) + b"none")
        case 4:
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
        case _:
            pass
    writer.transport.abort() if number % 4 else writer.close()


async def asking(port: int, number: int) -> None:
    """A client that logs in, asks now and then, and leaves with or without a goodbye."""
    reader, writer = await logged_in(port, "ana", PASSWORD)
    if number % 50 == 0:
        writer.write(packet(b"Q", b"SELECT 1\0"))
        await heard(reader, b"Z")
    if number % 2:
        writer.write(packet(b"X", b""))
    writer.close()


async def cycled(port: int, numbers: Iterator[int]) -> None:
    for number in numbers:
        with suppress(OSError, EOFError):
            await (vanishing(port, number) if number % 5 else asking(port, number))


def cycles(served: Door, count: int) -> None:
    async def all_of_them() -> None:
        numbers = iter(range(count))
        await asyncio.gather(*(cycled(served.port, numbers) for _ in range(AT_ONCE)))

    others = len(served.server._tasks)
    asyncio.run(all_of_them())
    deadline = time.monotonic() + 30
    while len(served.server._tasks) > others and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(served.server._tasks) == others


def grown(served: Door, count: int) -> int:
    """How many objects more there are after so many connections."""
    cycles(served, 200)
    gc.collect()
    before = len(gc.get_objects())
    cycles(served, count)
    gc.collect()
    return len(gc.get_objects()) - before


def test_ten_thousand_connections_leave_nothing(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as other:
        other.execute("SELECT 1")  # the shadow catalogue is built now
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert grown(served, CYCLES) < CYCLES // 10
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1.25 * most
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert len(served.server._visits) == 1
    logins = sum(json.loads(line)["event"] == "login" for line in served.lines)
    assert logins >= CYCLES // 5
    assert not any(json.loads(line)["event"] == "failed" for line in served.lines)


def test_a_server_that_keeps_sessions_would_be_seen(
    served: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    make = served.server._session

    def keeping(*wanted: Any) -> Any:
        kept.append(make(*wanted))
        return kept[-1]

    monkeypatch.setattr(served.server, "_session", keeping)
    assert grown(served, 500) >= 500 // 10
