"""The server's edge: versions, limits before and after the login, broken clients, its end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NoReturn

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.interfaces.pgwire.admission import FAILURE_SECONDS, FAILURES
from dpsql.interfaces.pgwire.entrance import guest
from dpsql.interfaces.pgwire.frontend import Startup
from dpsql.interfaces.pgwire.telemetry import Telemetry, serve_metrics
from grammar_tests.proxy_kit import SLOW, WatchedEngine
from grammar_tests.waiting import until
from grammar_tests.wire_kit import PASSWORD, Door, door, fields, messages, packet, startup_packet

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
GSS_REQUEST = struct.pack("!ii", 8, 80877104)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(
        tmp_path_factory.mktemp("server"), max_connections=300, max_connections_per_analyst=300
    ) as opened:
        yield opened


def heard(client: socket.socket) -> bytes:
    """Everything until the server closes, or nothing more comes."""
    found = b""
    with suppress(TimeoutError, OSError):
        while piece := client.recv(1 << 16):
            found += piece
    return found


def fatal(served: Door, sent: bytes) -> dict[str, str]:
    """The last word of the server about these bytes."""
    with served.raw() as client:
        client.sendall(sent)
        kind, body = messages(heard(client))[-1]
    assert kind == b"E"
    found = fields(body)
    assert found["S"] == "FATAL"
    return found


def alive(served: Door) -> bool:
    with psycopg.connect(**served.conninfo()) as client:
        return client.execute("SELECT 1").fetchone() == (1,)


# --- versions and encryption ---


def test_the_newest_version_is_negotiated(served: Door) -> None:
    with served.raw() as client:
        client.sendall(startup_packet((3, 9999), user="ana", **{"_pq_.new": "1"}))
        client.settimeout(60)
        kind, body = messages(client.recv(1 << 16))[0]
    assert kind == b"v"
    assert struct.unpack_from("!ii", body) == (3 << 16 | 2, 1)
    assert body[8:] == b"_pq_.new\0"


@pytest.mark.parametrize(("version", "size"), [("3.0", 4), ("3.2", 32)])
def test_keys_for_cancelling_are_as_long_as_the_version_allows(version: str, size: int) -> None:
    major, minor = map(int, version.split("."))
    wanted = guest(Startup((major, minor), (("user", "ana"),)))
    assert len(wanted.secret) == size
    assert wanted.negotiation == b""


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("name", ["dpsql", "postgres", "ana"])
def test_the_database_goes_by_these_names(served: Door, name: str) -> None:
    with psycopg.connect(**served.conninfo(dbname=name)) as client:
        assert client.execute("SELECT current_database()").fetchone() == ("dpsql",)


def test_another_database_does_not_exist(served: Door) -> None:
    with pytest.raises(psycopg.OperationalError, match='database "shop" does not exist'):
        psycopg.connect(**served.conninfo(dbname="shop"))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(**served.conninfo(dbname="shop", password="wrong"))  # noqa: S106


def test_an_old_protocol_is_refused(served: Door) -> None:
    assert fatal(served, startup_packet((2, 0), user="ana"))["C"] == "0A000"


@pytest.mark.parametrize(
    ("sent", "sqlstate"),
    [
        (startup_packet((3, 0)), "28000"),
        (startup_packet((3, 0), user="ana", replication="true"), "0A000"),
        (struct.pack("!i", 7), "08P01"),
        (struct.pack("!i", 1 << 30), "08P01"),
        (startup_packet((3, 0), user="ana") + packet(b"Q", b"SELECT 1\0"), "08P01"),
        (startup_packet((3, 0), user="ana") + packet(b"p", b"MD5\0\0\0\0\0"), "28P01"),
        (startup_packet((3, 0), user="ana") + b"p" + struct.pack("!i", 1 << 20), "08P01"),
    ],
)
def test_wrong_beginnings_end_the_connection(served: Door, sent: bytes, sqlstate: str) -> None:
    assert fatal(served, sent)["C"] == sqlstate


def test_gss_is_declined_and_bytes_before_tls_end_the_connection(served: Door) -> None:
    with served.raw() as client:
        client.sendall(GSS_REQUEST)
        assert client.recv(1) == b"N"
        client.sendall(SSL_REQUEST + startup_packet((3, 0), user="ana"))
        client.settimeout(60)
        assert messages(heard(client))[0][0] == b"E"


# --- cancelling ---


def test_a_cancel_request_needs_the_key(served: Door) -> None:
    engine = WatchedEngine(served.proxy.vault.engine)
    engine.instead = SLOW
    kept, served.proxy.vault.engine = served.proxy.vault.engine, engine
    try:
        with psycopg.connect(**served.conninfo()) as client, ThreadPoolExecutor(1) as pool:
            number = client.pgconn.backend_pid
            sql = "SELECT COUNT(*) FROM customers WHERE city = 'guessed'"
            running = pool.submit(client.execute, sql)
            engine.running.wait(30)
            with served.raw() as guesser:
                guesser.sendall(struct.pack("!iii", 16, 80877102, number) + b"\0\0\0\0")
                assert heard(guesser) == b""
            assert not any("cancel" in line for line in served.lines)
            assert not running.done()
            client.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                running.result(30)
    finally:
        served.proxy.vault.engine = kept


# --- what is broken ---


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=64))
def test_any_first_bytes_are_borne(served: Door, sent: bytes) -> None:
    with served.raw() as client:
        client.settimeout(0.2)
        with suppress(OSError):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        for kind, _ in messages(heard(client)) if sent[4:8] != SSL_REQUEST[4:] else []:
            assert kind in b"ERNv"


@pytest.mark.full("opens servers or connects clients")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(packet, st.sampled_from([bytes([c]) for c in b"QPBDECSHXFpdcfz"]),
                  st.binary(max_size=30)) | st.binary(max_size=12),
        max_size=6,
    )
)  # fmt: skip
def test_any_messages_after_the_login_are_borne(served: Door, sent: list[bytes]) -> None:
    client = psycopg.connect(**served.conninfo(sslmode="disable"))
    with socket.socket(fileno=_taken(client)) as raw:
        raw.settimeout(60)
        with suppress(OSError):
            raw.sendall(b"".join(sent))
            raw.shutdown(socket.SHUT_WR)
        heard(raw)
    client.close()


def _taken(client: psycopg.Connection) -> int:
    return os.dup(client.fileno())


def test_others_are_unharmed_and_nothing_is_left(served: Door) -> None:
    """After all the broken clients above, and as many that vanish in the middle of a login."""
    for _ in range(50):
        with served.raw() as client:
            client.sendall(startup_packet((3, 0), user="ana")[:9])
    assert alive(served)
    until(lambda: not served.server._tasks)
    assert not served.server._visits
    assert not any("Traceback" in line for line in served.lines)
    assert all(json.loads(line)["event"] for line in served.lines)


@pytest.mark.full("opens servers or connects clients")
def test_many_connections_at_once_and_many_in_turn(served: Door) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    until(lambda: not served.server._visits)
    gc.collect()
    before = len(gc.get_objects())
    with ThreadPoolExecutor(8) as pool:
        clients = list(
            pool.map(lambda _: psycopg.connect(**served.conninfo(sslmode="disable")), range(200))
        )
        assert len(served.server._visits) == 200
        assert all(c.execute("SELECT 1").fetchone() == (1,) for c in clients[::20])
        for client in clients:
            client.close()
    del clients, client
    until(lambda: not served.server._visits)
    gc.collect()
    assert len(gc.get_objects()) < before + 20_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- limits ---


@pytest.mark.full("opens servers or connects clients")
def test_more_connections_than_allowed_are_told_so(tmp_path: Path) -> None:
    with door(tmp_path, max_connections=3, max_connections_per_analyst=2) as served:
        kept = [psycopg.connect(**served.conninfo()) for _ in range(2)]
        with pytest.raises(psycopg.OperationalError, match='too many connections for role "ana"'):
            psycopg.connect(**served.conninfo())
        kept.append(psycopg.connect(**served.conninfo(user="bob")))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(**served.conninfo(user="bob"))
        for client in kept:
            assert client.execute("SELECT 1").fetchone() == (1,)
            client.close()


@pytest.mark.full("opens servers or connects clients")
def test_silent_strangers_make_room(tmp_path: Path) -> None:
    """Anybody may fill the places before the login; who logs in gets through all the same."""
    with door(tmp_path, max_connections=3) as served:
        silent = [served.raw() for _ in range(3)]
        until(lambda: len(served.server._tasks) == 3)
        with psycopg.connect(**served.conninfo()) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        assert b"wait for their login" in heard(silent[0])
        for stranger in silent:
            stranger.close()


@pytest.mark.full("opens servers or connects clients")
def test_logins_that_fail_again_and_again_have_to_wait(tmp_path: Path) -> None:
    with door(tmp_path) as served:
        for _ in range(FAILURES):
            with pytest.raises(psycopg.OperationalError, match="password authentication"):
                psycopg.connect(**served.conninfo(password=PASSWORD[1:], sslmode="disable"))
        with pytest.raises(psycopg.OperationalError, match="logins have failed"):
            psycopg.connect(**served.conninfo(sslmode="disable"))
        with psycopg.connect(**served.conninfo(user="bob", sslmode="disable")) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        later = served.server._failures.clock() + FAILURE_SECONDS
        served.server._failures.clock = lambda: later
        assert alive(served)


@pytest.mark.full("opens servers or connects clients")
def test_slow_logins_end(tmp_path: Path) -> None:
    with door(tmp_path, login_seconds=0.3) as served, served.raw() as slow:
        slow.sendall(startup_packet((3, 0), user="ana"))
        slow.settimeout(60)
        assert messages(heard(slow))[-1][0] == b"E"


@pytest.mark.full("opens servers or connects clients")
def test_idle_sessions_and_long_messages_end(tmp_path: Path) -> None:
    with door(tmp_path, idle_seconds=2, max_message_bytes=1 << 16) as served:
        with psycopg.connect(**served.conninfo(), autocommit=True) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
            until(lambda: not served.server._visits)
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        client = psycopg.connect(**served.conninfo())
        with pytest.raises(psycopg.OperationalError, match="invalid message length"):
            client.execute("SELECT '" + "x" * (1 << 17) + "'")
        client.close()
        assert alive(served)


@pytest.mark.full("opens servers or connects clients")
def test_a_client_that_does_not_read_is_let_go(tmp_path: Path) -> None:
    with door(tmp_path, idle_seconds=2) as served:
        client = psycopg.connect(**served.conninfo(sslmode="disable"))
        with socket.socket(fileno=_taken(client)) as raw:
            raw.settimeout(60)
            query = packet(b"Q", b"SELECT '" + b"x" * 60_000 + b"'\0")
            with suppress(OSError):
                for _ in range(400):
                    raw.sendall(query)
            until(lambda: not served.server._visits)
        client.close()
        assert alive(served)


# --- the end, and what the owner sees ---


@pytest.mark.full("opens servers or connects clients")
def test_a_broken_file_of_users_lets_nobody_in_and_says_nothing(tmp_path: Path) -> None:
    def broken() -> NoReturn:
        raise ValueError("the secret of line 7")

    with door(tmp_path) as served:
        served.server.present.users = broken
        with pytest.raises(psycopg.OperationalError, match="the server failed"):
            psycopg.connect(**served.conninfo(sslmode="disable"))
        assert any(json.loads(line).get("kind") == "ValueError" for line in served.lines)
        assert not any("secret" in line for line in served.lines)


@pytest.mark.full("opens servers or connects clients")
def test_the_end_waits_for_what_runs_and_tells_the_idle(tmp_path: Path) -> None:
    with door(tmp_path) as served:
        engine = WatchedEngine(served.proxy.vault.engine)
        served.proxy.vault.engine = engine
        go_on = Event()

        def held() -> None:
            engine.running.set()
            go_on.wait()

        engine.before = held
        idle = psycopg.connect(**served.conninfo())
        busy = psycopg.connect(**served.conninfo())
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(busy.execute, "SELECT COUNT(*) FROM customers")
            engine.running.wait(30)
            end = asyncio.run_coroutine_threadsafe(served.server.stop(60), served.loop)
            until(lambda: served.server._stopping)
            assert not running.done()
            go_on.set()
            end.result(90)
            assert running.result(60).fetchone()
        with pytest.raises(psycopg.OperationalError, match="stopping"):
            idle.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**served.conninfo())
        for client in (idle, busy):
            client.close()


def test_logs_and_metrics_hold_no_text_and_no_value() -> None:
    async def scrape(path: str) -> bytes:
        server = await serve_metrics(telemetry, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        server.close()
        return answer

    telemetry = Telemetry(lambda _: None)
    telemetry.count("errors", 'sqlstate="42501"')
    telemetry.count("connections")
    found = asyncio.run(scrape("/metrics")).decode()
    assert found.startswith("HTTP/1.1 200 OK\r\n")
    assert 'dpsql_errors_total{sqlstate="42501"} 1\n' in found
    assert "dpsql_connections 0\n" in found
    assert asyncio.run(scrape("/")).startswith(b"HTTP/1.1 404")


@pytest.mark.full("opens servers or connects clients")
def test_a_log_never_holds_what_was_asked(served: Door) -> None:
    with psycopg.connect(**served.conninfo(), autocommit=True) as client:
        with suppress(psycopg.Error):
            client.execute("SELECT 'needle' FROM customers")
        client.execute("SELECT 'needle'")
    assert not any("needle" in line for line in served.lines)
    assert any(json.loads(line).get("analyst") == "ana" for line in served.lines)
