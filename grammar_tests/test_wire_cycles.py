"""Thousands of connections come and go, most of them badly: nothing stays, others are unharmed.

One in twenty speaks TLS, whose handshakes take time: `python -m benchmarks.cycles` has them all.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from threading import Condition
from typing import Any

import psycopg
import pytest

from grammar_tests.scram_kit import TLS_REQUEST, first_response, heard, logged_in
from grammar_tests.waiting import HANGS_SECONDS
from grammar_tests.wire_kit import PASSWORD, Door, door, packet, startup_packet

MANY, FEW = 10_000, 5000
AT_ONCE = 16
_STARTUP = startup_packet((3, 0), user="ana")


class Tasks(set[Any]):
    """The connections that a server has, and how many it has had."""

    def __init__(self) -> None:
        super().__init__()
        self.came, self.changed = 0, Condition()

    def add(self, task: Any) -> None:
        with self.changed:
            super().add(task)
            self.came += 1
            self.changed.notify_all()

    def discard(self, task: Any) -> None:
        with self.changed:
            super().discard(task)
            self.changed.notify_all()

    def wait_for(self, came: int, left: int) -> None:
        """Wait until so many have come since the server started, and so many are left."""
        with self.changed:
            seen = self.changed.wait_for(
                lambda: self.came >= came and len(self) == left, HANGS_SECONDS
            )
        assert seen, (self.came, came, len(self), left)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(
        tmp_path_factory.mktemp("cycles"), max_connections=100, max_connections_per_analyst=100
    ) as opened:
        opened.server._tasks = Tasks()
        yield opened


async def vanishing(port: int, number: int) -> None:
    """A client that goes away at one of seven places, some without a goodbye."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    match number % 7:
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
        case 5:
            writer.write(TLS_REQUEST)
            await reader.readexactly(1)
            writer.write(b"\x16\x03\x01\x02\x00\x01")
        case _:
            pass
    writer.transport.abort() if number % 4 else writer.close()


async def asking(port: int, number: int, trusting: ssl.SSLContext) -> None:
    """A client that logs in, asks now and then, and leaves with or without a goodbye."""
    reader, writer = await logged_in(port, "ana", PASSWORD, None if number % 20 else trusting)
    if number % 50 == 0:
        writer.write(packet(b"Q", b"SELECT 1\0"))
        await heard(reader, b"Z")
    if number % 2:
        writer.write(packet(b"X", b""))
    writer.close()
    if not number % 20:
        await writer.wait_closed()


async def cycled(port: int, numbers: Iterator[int], trusting: ssl.SSLContext) -> None:
    for number in numbers:
        with suppress(OSError, EOFError):
            await (vanishing(port, number) if number % 5 else asking(port, number, trusting))


def cycles(served: Door, count: int, others: int) -> None:
    """So many connections, beside `others` that stay; they have all been accepted and have ended.

    A connection that its client gave up may still wait to be accepted.
    """

    async def all_of_them() -> None:
        numbers, trusting = iter(range(count)), ssl.create_default_context()
        trusting.load_verify_locations(served.certificate)
        trusting.check_hostname = False
        each = (cycled(served.port, numbers, trusting) for _ in range(AT_ONCE))
        await asyncio.gather(*each)

    tasks: Any = served.server._tasks
    tasks.wait_for(0, others)
    before = tasks.came
    asyncio.run(all_of_them())
    tasks.wait_for(before + count, others)


def grown(served: Door, count: int, others: int) -> int:
    """How many objects more there are after so many connections."""
    cycles(served, 200, others)
    gc.collect()
    before = len(gc.get_objects())
    cycles(served, count, others)
    gc.collect()
    return len(gc.get_objects()) - before


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(FEW, marks=pytest.mark.full("thousands of connections")),
        pytest.param(MANY, marks=pytest.mark.campaign),
    ],
)
def test_thousands_of_connections_leave_nothing(served: Door, count: int) -> None:
    """A leak of one object for every ten connections is found by few as by many."""
    with psycopg.connect(**served.conninfo(), autocommit=True) as other:
        other.execute("SELECT 1")  # the shadow catalogue is built now
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert grown(served, count, others=1) < count // 10
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1.25 * most
        assert other.execute("SELECT 1").fetchone() == (1,)
        assert len(served.server._visits) == 1
    told = [json.loads(line) for line in served.lines]
    logins = [event["tls"] for event in told if event["event"] == "login"]
    assert len(logins) >= count // 5
    assert sum(logins) >= count // 20
    assert not any(event["event"] == "failed" for event in told)


def test_a_server_that_keeps_sessions_would_be_seen(
    served: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []
    make = served.server._session

    def keeping(*wanted: Any) -> Any:
        kept.append(make(*wanted))
        return kept[-1]

    monkeypatch.setattr(served.server, "_session", keeping)
    assert grown(served, 100, others=0) >= 100 // 10
