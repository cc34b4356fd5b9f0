"""Whom the server lets in: rooms for strangers, failed logins, shares; with a clock of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpsql.interfaces.pgwire.admission import (
    FAILURE_SECONDS,
    FAILURES,
    FAILURES_OF_ADDRESS,
    Failures,
    Strangers,
    share,
)
from dpsql.interfaces.pgwire.answers import Answers
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.model.vocabulary import Loss
from dpsql.policy.draft import ServerSettings
from dpsql.proxy import Proxy
from grammar_tests import scram_kit
from grammar_tests.proxy_kit import shop
from grammar_tests.test_delegation import to
from grammar_tests.wire_kit import door, startup_packet, users


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tasks() -> Iterator[list[asyncio.Task[None]]]:
    async def nothing() -> None:
        return

    loop = asyncio.new_event_loop()
    made = [loop.create_task(nothing()) for _ in range(10)]
    yield made
    loop.run_until_complete(asyncio.gather(*made))
    loop.close()


def test_the_address_with_the_most_makes_room(tasks: list[asyncio.Task[None]]) -> None:
    strangers = Strangers(3)
    assert strangers.came(tasks[0], "10.0.0.1") is None
    assert strangers.came(tasks[1], "10.0.0.2") is None
    assert strangers.came(tasks[2], "10.0.0.2") is None
    assert strangers.came(tasks[3], "10.0.0.3") is tasks[1]
    strangers.gone(tasks[1])
    assert strangers.came(tasks[4], "10.0.0.3") is tasks[3]


def test_a_network_counts_as_one_address(tasks: list[asyncio.Task[None]]) -> None:
    strangers = Strangers(2)
    strangers.came(tasks[0], "10.0.0.1")
    strangers.came(tasks[1], "2001:db8:1:2::1")
    assert strangers.came(tasks[2], "2001:db8:1:2:ffff::2") is tasks[1]


def test_failures_are_counted_by_user_and_address_and_forgotten() -> None:
    clock = Clock()
    failures = Failures(clock)
    for _ in range(FAILURES):
        assert failures.may_try("10.0.0.1", "ana")
        failures.failed("10.0.0.1", "ana")
    assert not failures.may_try("10.0.0.1", "ana")
    assert failures.may_try("10.0.0.1", "bob")
    assert failures.may_try("10.0.0.2", "ana")
    clock.now = FAILURE_SECONDS
    assert failures.may_try("10.0.0.1", "ana")
    assert not failures._times.get(("10.0.0.1", "ana"))


def test_many_users_from_one_address_are_guesses_too() -> None:
    failures = Failures(Clock())
    for n in range(FAILURES_OF_ADDRESS):
        failures.failed("10.0.0.1", f"user {n}")
    assert not failures.may_try("10.0.0.1", "ana")
    assert failures.may_try("10.0.0.2", "ana")


def test_failures_take_no_more_memory_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.interfaces.pgwire.admission._MOST_REMEMBERED", 10)
    failures = Failures(Clock())
    for n in range(100):
        failures.failed(f"10.0.0.{n}", "ana")
    assert len(failures._times) == 10


def errors_of_logins(folder: Path, count: int) -> list[bytes]:
    """The errors of logins that get their offer first, and then all send a wrong proof."""

    async def log_in(port: int) -> list[bytes]:
        pairs = [await scram_kit.opened(port) for _ in range(count)]
        proofs = []
        for reader, writer in pairs:
            writer.write(startup_packet((3, 0), user="ana"))
            await scram_kit.heard(reader, b"R")
            writer.write(scram_kit.first_response())
            offer = (await scram_kit.heard(reader, b"R"))[4:].decode()
            proofs.append(scram_kit.final_response(offer, "wrong"))
        for (_, writer), proof in zip(pairs, proofs, strict=True):
            writer.write(proof)
        errors = [await scram_kit.heard(reader, b"E") for reader, _ in pairs]
        for _, writer in pairs:
            writer.close()
            await writer.wait_closed()
        return errors

    with door(folder) as opened:
        return asyncio.run(log_in(opened.port))


def test_wrong_proofs_that_come_at_once_count(tmp_path: Path) -> None:
    errors = errors_of_logins(tmp_path, FAILURES + 5)
    assert sum(b"too many logins" in error for error in errors) == 5


@pytest.mark.parametrize(("analysts", "most"), [(0, 101), (1, 101), (2, 51), (4, 26), (50, 26)])
def test_an_analyst_has_a_share_of_the_connections(analysts: int, most: int) -> None:
    assert share(ServerSettings(max_connections=101), analysts) == most
    assert share(ServerSettings(max_connections=101, max_connections_per_analyst=7), analysts) == 7


def admitted_beside(proxy: Proxy, first: str) -> set[str]:
    """Who may send a request while one of `first` runs, where one of each person may run."""
    limits = ServerSettings(max_connections_per_analyst=1)
    nothing: Any = None
    server = Server(Present(proxy, nothing, users, limits), Telemetry(lambda _: None))
    let_in = set[str]()

    async def run() -> None:
        async with server.admit_request(first):
            for other in ("ana", "robot", "bob"):
                with suppress(Fault):
                    async with server.admit_request(other):
                        let_in.add(other)

    asyncio.run(run())
    server.threads.shutdown()
    return let_in


@pytest.mark.full("opens servers or connects clients")
def test_agents_have_their_persons_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        proxy.ledger.delegate(to("robot", "ana"), Loss(1), "")
        nothing: Any = None
        assert Answers(proxy, nothing, "robot").person == "ana"
        assert admitted_beside(proxy, "robot") == admitted_beside(proxy, "ana") == {"bob"}
        monkeypatch.setattr(type(proxy.ledger), "person_of", lambda _, analyst: analyst)
        assert admitted_beside(proxy, "robot") == {"ana", "bob"}  # the wrong twin
