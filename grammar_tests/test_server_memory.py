"""The server's own memory is bounded: what would take more ends one statement."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpsql.interfaces.pgwire import serving
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Flush, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.kept_bytes import ServerBytes, SessionBytes
from dpsql.interfaces.pgwire.session import Session
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.resources import bytes_of
from dpsql.policy.draft import ServerSettings
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import policy, shop
from grammar_tests.session_kit import COUNTRIES, Client
from grammar_tests.waiting import until
from grammar_tests.wire_kit import door

BOUNDED = """
import resource, sys
from dpsql.engines.memory import bound_memory
from dpsql.proxy import Proxy
bound_memory("100MB")
try:
    bytearray(200 << 20)
except MemoryError:
    print("ends")
bytearray(50 << 20)
with Proxy.open(sys.argv[1]) as proxy:
    proxy.vault.engine.rows("SELECT 1")
    worker = proxy.vault.engine._first._worker._process.pid
    own = resource.getrlimit(resource.RLIMIT_DATA)[0]
    print("more" if resource.prlimit(worker, resource.RLIMIT_DATA)[0] > own else "less")
"""


@pytest.mark.full("processes are started and killed")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what a process has")
def test_the_server_is_bounded_and_its_workers_by_their_own(tmp_path: Path) -> None:
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", BOUNDED, str(shop(tmp_path))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["ends", "more"]


@pytest.mark.full("opens servers or connects clients")
def test_a_statement_without_memory_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*_given: object) -> None:
        raise MemoryError("secret")

    with Proxy.open(str(shop(tmp_path))) as proxy:
        client = Client(proxy)
        with monkeypatch.context() as patched:
            patched.setattr(proxy, "ask", without)
            client.send(Query(COUNTRIES))
        assert client.error["C"] == "53200"
        assert "secret" not in str(client.said)
        client.send(Query(COUNTRIES))
        assert client.rows


@pytest.mark.parametrize(
    ("amount", "count"),
    [("10B", 10), ("1kb", 1000), ("1 KiB", 1024), ("2.5GB", 2_500_000_000), ("1TiB", 1 << 40)],
)
def test_amounts_of_memory_are_read(amount: str, count: int) -> None:
    assert bytes_of(amount) == count


def test_the_policy_says_how_much(tmp_path: Path) -> None:
    written = policy(tmp_path, ("[ledger]", '[server]\nmemory = "512MiB"\n\n[ledger]'))
    assert load(str(written)).server.memory == "512MiB"
    written = policy(tmp_path, ("[ledger]", '[server]\nmemory = "much"\n\n[ledger]'))
    with pytest.raises(PolicyError, match="no amount of memory"):
        load(str(written))


def test_threads_of_a_server_give_way_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own turns are 5 ms, of which an answer that is sent again would wait for some."""
    before, own = sys.getswitchinterval(), 0.005
    assert own > serving.TURN_SECONDS
    sys.setswitchinterval(own)
    monkeypatch.setattr(logging.getLogger(), "addHandler", lambda _handler: None)

    def make() -> Any:
        assert sys.getswitchinterval() == pytest.approx(serving.TURN_SECONDS)
        raise Unreachable("nothing is served")

    try:
        with pytest.raises(Unreachable):
            serving.serve({"": make}, lambda _line: None, self_signed=False)
    finally:
        sys.setswitchinterval(before)


# --- what sessions keep ----------------------------------------------------------------------

LIMITS = ServerSettings(session_memory="1MB", analyst_memory="3MB", memory="100MB")
LONG = b"x" * 50_000
"""A bound value."""


def by_statement(name: str) -> list[Message]:
    return [Parse(name, f"SELECT '{'x' * 900}' AS a", ())]


def by_value(name: str) -> list[Message]:
    return [Parse("", "SELECT $1 AS a", (25,)), Bind(name, "", (), (LONG,), ())]


def by_rows(name: str) -> list[Message]:
    text = "SELECT a.code FROM countries a, countries b, countries c, countries d"
    return [Parse("", text, ()), Bind(name, "", (), (), ()), Execute(name, 1)]


def by_cursor(name: str) -> list[Message]:
    return [Query(f"DECLARE {name} CURSOR WITH HOLD FOR SELECT '{'x' * 900}' AS a")]


def by_sql(name: str) -> list[Message]:
    return [Query(f"PREPARE {name} AS SELECT '{'x' * 900}' AS a")]


def by_savepoint(name: str) -> list[Message]:
    return [Query(f"SAVEPOINT {name}")]


def by_view(name: str) -> list[Message]:
    view = f"CREATE OR REPLACE TEMP VIEW v AS SELECT '{'x' * 20_000}' AS {name}"
    return [Query(f"{view}; SAVEPOINT {name}")]


WAYS = by_statement, by_value, by_rows, by_cursor, by_sql, by_savepoint


def fill(client: Client, way: Any) -> int:
    """How many things a session keeps in one transaction until it is refused one more."""
    client.query("BEGIN")
    for count in range(1500):
        client.send(*way(f"n{count}"), Flush())
        if client.of(b"E"):
            assert client.error["C"] == "53400", client.error
            return count
    return 1500


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("way", WAYS)
def test_what_a_session_keeps_is_limited(proxy: Proxy, way: Any) -> None:
    server = ServerBytes(LIMITS, shares=2)
    client = Client(proxy, server.of("ana"))
    assert 0 < fill(client, way) < 1500
    assert server.taken["ana"] <= bytes_of(LIMITS.session_memory)
    client.send(Sync())
    client.query("ROLLBACK; DISCARD ALL")
    client.query("ROLLBACK")
    client.query("DISCARD ALL")
    client.query("CLOSE ALL")
    client.query("DEALLOCATE ALL")
    assert server.taken["ana"] == 0
    assert client.query(COUNTRIES).startswith("TD")


@pytest.mark.full("opens servers or connects clients")
def test_what_an_analyst_keeps_is_limited_and_takes_nothing_of_others(proxy: Proxy) -> None:
    server = ServerBytes(LIMITS, shares=2)
    sessions = [Client(proxy, server.of("ana")) for _ in range(5)]
    counts = [fill(client, by_value) for client in sessions]
    assert min(counts[:3]) > 0
    assert counts[4] == 0
    assert server.taken["ana"] <= bytes_of(LIMITS.analyst_memory)
    assert fill(Client(proxy, server.of("bob")), by_value) == counts[0]
    for client in sessions:
        client.session.end()
    assert server.taken["ana"] == 0
    assert fill(Client(proxy, server.of("ana")), by_value) == counts[0]


@pytest.mark.full("opens servers or connects clients")
def test_the_views_of_savepoints_are_counted(proxy: Proxy) -> None:
    """Otherwise 200 savepoints, which is their limit, would keep 200 views."""
    account = ServerBytes(LIMITS, shares=2).of("ana")
    client = Client(proxy, account)
    assert 10 < fill(client, by_view) < 60
    client.query("ROLLBACK")
    assert account.taken == 0


def test_all_sessions_together_keep_half_of_the_servers_memory(proxy: Proxy) -> None:
    limits = ServerSettings(session_memory="1MB", analyst_memory="9MB", memory="4MB")
    server = ServerBytes(limits, shares=4)
    for analyst in ("ana", "bob", "eve"):
        for _ in range(4):
            fill(Client(proxy, server.of(analyst)), by_value)
    assert server.taken["ana"] <= 1_000_000
    assert server.taken.total() <= 2_000_000
    assert server.taken["bob"] > 900_000


def test_a_session_that_counts_nothing_would_be_seen(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionBytes, "change", lambda *_: None)
    assert fill(Client(proxy, ServerBytes(LIMITS).of("ana")), by_value) == 1500


def test_rows_that_were_read_to_their_end_are_not_kept(proxy: Proxy) -> None:
    account = ServerBytes(LIMITS).of("ana")
    client = Client(proxy, account)
    client.query("BEGIN")
    *begun, _ = by_rows("all")
    assert client.send(*begun, Execute("all", 0), Flush()).endswith("C")
    assert account.taken < 50_000
    assert client.send(Execute("all", 0), Flush()) == "C"
    assert client.tags == ["SELECT 0"]


@pytest.mark.full("opens servers or connects clients")
def test_a_thread_that_goes_on_after_the_end_keeps_nothing(proxy: Proxy) -> None:
    server = ServerBytes(LIMITS)
    client = Client(proxy, server.of("ana"))
    client.session.end()
    client.send(*by_statement("late"), Flush())
    assert server.taken.total() == 0


@pytest.mark.full("opens servers or connects clients")
def test_who_is_silent_within_a_transaction_is_put_out(tmp_path: Path) -> None:
    with (
        door(tmp_path, idle_in_transaction_seconds=0.2) as served,
        psycopg.connect(**served.conninfo(), autocommit=True) as free,
        closing(psycopg.connect(**served.conninfo(), autocommit=True)) as held,
    ):
        held.execute("BEGIN")
        until(lambda: len(served.server._visits) == 1)
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            held.execute("SELECT 1")
        assert free.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.full("opens servers or connects clients")
def test_one_sessions_lack_of_memory_ends_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, again = Session.handle, Session.again

    def greedy(session: Session, messages: Any) -> Any:
        if any(getattr(message, "sql", "") == "SELECT 'much'" for message in messages):
            raise MemoryError
        return handle(session, messages)

    def never(session: Session, messages: Any) -> Any:
        again(session, messages)
        if any(getattr(message, "sql", "") == "SELECT 'more'" for message in messages):
            raise MemoryError

    monkeypatch.setattr(Session, "handle", greedy)
    monkeypatch.setattr(Session, "again", never)
    with door(tmp_path) as served, psycopg.connect(**served.conninfo()) as other:
        with psycopg.connect(**served.conninfo(), autocommit=True) as greedy_client:
            for text in ("SELECT 'much'", "SELECT 'more'"):
                with pytest.raises(psycopg.errors.OutOfMemory):
                    greedy_client.execute(text)
                assert greedy_client.execute("SELECT 1").fetchone() == (1,)
        assert other.execute("SELECT 2").fetchone() == (2,)
