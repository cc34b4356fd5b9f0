"""What the owner reads: a line for each statement, metrics, health; never a constant or a value."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpsql.dialects.postgres.words import pieces
from dpsql.engines import Stop
from dpsql.engines.pool import EnginePool, Waiter
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Parse, Sync
from dpsql.interfaces.pgwire.outcomes import Outcome, normalised
from dpsql.interfaces.pgwire.present import label
from dpsql.interfaces.pgwire.telemetry import Gauge, JsonHandler, Telemetry, serve_metrics
from dpsql.model.errors import LedgerError
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import WatchedEngine
from grammar_tests.session_kit import Client
from grammar_tests.waiting import until
from grammar_tests.wire_kit import PASSWORD, Door, door

QUESTION = "SELECT COUNT(*) FROM customers WHERE city = 'needle'"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Door]:
    with door(tmp_path, log_statements=True) as opened:
        yield opened


def statements(served: Door) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in served.lines]
    return [line for line in found if line["event"] == "statement"]


@pytest.mark.full("opens servers or connects clients")
def test_each_statement_has_a_line_that_explains_it(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        for _ in range(3):  # the third is told again without being worked out
            client.execute(QUESTION)
        client.execute("SELECT code FROM countries")
        with suppress(psycopg.Error):
            client.execute("SELECT city FROM customers WHERE age = 41")
        with suppress(psycopg.Error):
            client.execute("SELEKT 'needle'")
    fresh, remembered, again, public, refused, syntax = statements(served)
    assert fresh["answer"] == "fresh"
    assert fresh["charge"] > 0
    assert (fresh["analyst"], fresh["door"]) == ("ana", "postgres")
    assert fresh["address"] == "127.0.0.1"
    assert fresh["seconds"] > 0
    entry = served.proxy.ledger.history()[0]
    for line in (fresh, remembered, again):
        assert line["query"] == entry.query_id
        assert line["text"] == "SELECT COUNT ( * ) FROM customers WHERE city = ?"
    assert remembered["answer"] == again["answer"] == "remembered"
    assert "charge" not in remembered
    assert public["answer"] == "free"
    assert (refused["answer"], refused["reason"]) == ("refused", "raw-rows")
    assert refused["sqlstate"] == "42501"
    assert syntax["reason"] == "syntax-error"
    assert not any("needle" in line for line in served.lines)


@pytest.mark.full("opens servers or connects clients")
def test_texts_are_logged_only_where_the_owner_says_so(tmp_path: Path) -> None:
    with door(tmp_path) as served:
        with psycopg.connect(**served.conninfo(), autocommit=True) as client:
            client.execute(QUESTION)
        (line,) = statements(served)
        assert "text" not in line


@pytest.mark.full("opens servers or connects clients")
def test_a_failure_names_its_query(served: Door) -> None:
    engine = WatchedEngine(served.proxy.vault.engine)
    served.proxy.vault.engine = engine
    engine.instead = "SELECT error('secret of ' || MAX(name)) FROM customers"
    with (
        psycopg.connect(**served.conninfo(), autocommit=True) as client,
        pytest.raises(psycopg.Error) as failed,
    ):
        client.execute(QUESTION)
    (line,) = statements(served)
    assert line["answer"] == "failed"
    assert line["query"] in str(failed.value)
    assert not any("secret" in line for line in served.lines)


@pytest.mark.full("opens servers or connects clients")
def test_a_worker_that_dies_while_nobody_asks_has_a_line(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        client.execute(QUESTION)
    engine: Any = served.proxy.vault.engine
    engine = engine._first
    assert engine._worker is not None
    victim = engine._worker._process
    os.kill(victim.pid, signal.SIGKILL)

    def told() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in served.lines]
        return [line for line in lines if line.get("process") == victim.pid]

    lost = until(told)
    assert [(line["event"], line["exit"]) for line in lost] == [("worker_lost", -9)]


@pytest.mark.full("opens servers or connects clients")
def test_failed_logins_say_who_and_from_where(served: Door) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**served.conninfo(password=PASSWORD[1:], sslmode="disable"))
    found = [json.loads(line) for line in served.lines]
    (line,) = [line for line in found if line["event"] == "login_failed"]
    assert (line["user"], line["address"]) == ("ana", "127.0.0.1")


def test_constants_of_every_kind_are_left_out() -> None:
    text = "SELECT 'a', E'b\\'', $$c$$, 4, 5.5e3, $1, \"d\", x'66' FROM t -- g"
    assert normalised(pieces(text)[0]) == 'SELECT ? , ? , ? , ? , ? , $1 , "d" , ? FROM t'


def test_libraries_log_no_texts() -> None:
    lines: list[str] = []
    logger = logging.getLogger("a library")
    logger.propagate = False
    handler = JsonHandler(Telemetry(lines.append))
    logger.addHandler(handler)
    logger.error("needle of %s", "needle", exc_info=ValueError("needle"))
    logger.removeHandler(handler)
    (line,) = map(json.loads, lines)
    assert (line["event"], line["level"], line["kind"]) == ("library", "error", "ValueError")
    assert "needle" not in lines[0]


# --- metrics ---


async def page(telemetry: Telemetry, path: str, gauges: Any) -> str:
    server = await serve_metrics(telemetry, "127.0.0.1", 0, gauges)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    server.close()
    return answer.decode()


@pytest.mark.full("opens servers or connects clients")
def test_metrics_tell_answers_refusals_budgets_and_engines(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        client.execute(QUESTION)
        with suppress(psycopg.Error):
            client.execute("SELECT city FROM customers")
        told = asyncio.run(page(served.server._telemetry, "/metrics", served.server.gauges))
    assert 'dpsql_answers_total{kind="fresh"} 1\n' in told
    assert 'dpsql_refusals_total{reason="raw-rows"} 1\n' in told
    assert "dpsql_connections 1\n" in told
    (used,) = [line for line in told.splitlines() if line.startswith("dpsql_budget_used_ratio{")]
    assert 0 < float(used.split()[-1]) < 1
    assert re.search(r"^dpsql_ledger_spent 0\.0", told, re.MULTILINE)
    assert "seconds" not in told


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of an exposition as Prometheus' own client reads it, each once, with a type."""
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} <= {"gauge", "counter"}
    assert len({family.name for family in families}) == len(families)  # none is told in two parts
    samples = [sample for family in families for sample in family.samples]
    found = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in samples}
    assert len(found) == len(samples)
    return found


NAMES = ("default", 'a "b"', "back\\slash", "two\nlines", "{x}", "ε", "")


@pytest.mark.full("opens servers or connects clients")
def test_prometheus_reads_the_metrics(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        client.execute(QUESTION)
        with suppress(psycopg.Error):
            client.execute("SELECT city FROM customers")
        told = asyncio.run(page(served.server._telemetry, "/metrics", served.server.gauges))
    found = parsed(told.split("\r\n\r\n", 1)[1])
    assert found["dpsql_answers_total", (("kind", "fresh"),)] == 1
    assert found["dpsql_refusals_total", (("reason", "raw-rows"),)] == 1
    used = [value for (name, _labels), value in found.items() if name == "dpsql_budget_used_ratio"]
    assert 0 < used[0] < 1


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_prometheus_reads_any_name_of_a_budget(name: str) -> None:
    gauges = [
        ("budget_used_ratio", f'budget="{label(n)}"', 0.5) for n in dict.fromkeys((name, "x"))
    ]
    found = parsed(Telemetry(lambda _: None).exposition(gauges))
    assert found["dpsql_budget_used_ratio", (("budget", name),)] == 0.5


@pytest.mark.parametrize("name", ['a "b', "two\nlines", "back\\"], ids=repr)
def test_a_name_that_is_not_escaped_would_be_seen(name: str) -> None:
    gauges = [("budget_used_ratio", f'budget="{name}"', 0.5)]
    with pytest.raises((ValueError, KeyError, AssertionError)):
        parsed(Telemetry(lambda _: None).exposition(gauges))[
            "dpsql_budget_used_ratio", (("budget", name),)
        ]


def test_a_metric_that_is_told_twice_would_be_seen() -> None:
    told = Telemetry(lambda _: None).exposition([("busy", "", 1.0), ("busy", "", 2.0)])
    with pytest.raises(AssertionError):
        parsed(told)


def test_health_is_that_of_the_ledger() -> None:
    def broken() -> list[Gauge]:
        raise LedgerError("/home/owner/shop.ledger was edited")

    telemetry = Telemetry(lambda _: None)
    assert asyncio.run(page(telemetry, "/healthz", list)).startswith("HTTP/1.1 200")
    told = asyncio.run(page(telemetry, "/healthz", broken))
    assert told.startswith("HTTP/1.1 503")
    assert "owner" not in told


# --- turns ---


class Idle:
    """An engine that only stands there."""

    accepted: Any = ()

    def follow(self, accepted: Any) -> None:
        pass


def test_one_analyst_has_all_engines_while_no_other_waits() -> None:
    pool = EnginePool(Idle, 2, owners=2)  # type: ignore[arg-type]
    with pool.taken(Stop(owner="ana")), pool.taken(Stop(owner="ana")):
        assert pool.load() == {"workers": 2, "busy": 2, "waiting": 0}


class FirstCome(EnginePool):
    """A wrong pool: the longest wait is next, whoever waits."""

    def _next(self) -> Waiter | None:
        return self._waiting[0] if self._waiting else None


@pytest.mark.parametrize(("kind", "ended"), [(EnginePool, 1), (FirstCome, 5)])
def test_one_who_has_all_engines_gives_the_next_one_to_others(
    kind: type[EnginePool], ended: int
) -> None:
    """The number of questions that end until bob is served; ana has both engines, and waits."""
    pool = kind(Idle, 2, owners=2)  # type: ignore[arg-type]
    every = [Waiter("ana", pool) for _ in range(6)]
    bob, count = Waiter("bob", pool), 0
    with pool._changed:
        pool._waiting[:] = every
        pool._hand_out()
        running = [waiter for waiter in every if waiter.worker]
        assert len(running) == 2
        pool._waiting.append(bob)
        while not bob.worker:
            count += 1
            waiter = running.pop(0)
            pool._give_back(waiter.worker)
            waiter.worker = None
            pool._having["ana"] -= 1
            pool._hand_out()
            running += [each for each in every if each.worker and each not in running]
    assert count == ended


def test_a_single_analyst_has_them_all() -> None:
    pool = EnginePool(Idle, 2, owners=1)  # type: ignore[arg-type]
    with pool.taken(Stop(owner="ana")), pool.taken(Stop(owner="ana")):
        assert pool.load()["busy"] == 2


def test_the_next_turn_is_of_who_has_the_fewest() -> None:
    pool = EnginePool(Idle, 3, owners=3)  # type: ignore[arg-type]
    pool._having.update({"ana": 2, "bob": 1})
    ana, bob, carl, later = map(Waiter, ("ana", "bob", "carl", "carl"))
    pool._waiting[:] = [ana, bob, carl, later]
    assert pool._next() is carl
    later.first = True
    assert pool._next() is later  # was charged already
    pool._waiting[:] = [ana]
    assert pool._next() is ana  # has its share, and no other waits
    pool.lends_last = False
    assert pool._next() is None


@pytest.mark.parametrize("by_cursor", [True, False])
def test_a_charge_is_logged_once_however_it_is_fetched(proxy: Proxy, by_cursor: bool) -> None:  # noqa: FBT001
    """FETCH logged it each time, and MOVE or a suspended portal never."""
    client, outcomes = Client(proxy), list[Outcome]()
    client.session._report = outcomes.append
    ages = 61 + by_cursor
    sql = f"SELECT country, COUNT(*) AS n FROM customers WHERE age > {ages} GROUP BY country"
    client.query("BEGIN")
    if by_cursor:
        client.query(f"DECLARE c CURSOR FOR {sql}; MOVE 1 FROM c; FETCH 1 FROM c; FETCH ALL FROM c")
    else:
        bound = Parse("", sql, ()), Bind("p", "", (), (), ())
        client.send(*bound, *(Execute("p", limit) for limit in (1, 1, 0)), Sync())
    kinds = [outcome.kind for outcome in outcomes if outcome.receipt is not None]
    assert kinds == ["fresh", "remembered", "remembered"]
    client.query("ROLLBACK")
