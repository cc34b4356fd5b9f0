"""Servers as the page on production runs them: two on one ledger, pgbouncer in front of one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.login_file import User, verifier_of, write_users
from dpsql.ledgers.open_ledger import accept_ledger, open_ledger
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.policy import demo
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from examples.production.backup import back_up
from examples.production.lost import lost
from grammar_tests.postgres_kit import DATABASE, OWNER, Postgres, _unprivileged, running
from grammar_tests.test_production import FILES
from grammar_tests.test_wire_cli import SECRET, metrics  # noqa: F401  a fixture
from grammar_tests.waiting import reserved_port, until

PGBOUNCER = Path("/usr/sbin/pgbouncer")


@contextmanager
def serving(policy: Path, *options: str) -> Iterator[tuple[int, Path]]:
    """`dpsql serve` on a free port, and its log."""
    log = policy.parent / f"log{time.monotonic_ns()}"
    command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "serve", "--port", "0"]
    with log.open("wb") as file, subprocess.Popen([*command, *options], stderr=file) as process:  # noqa: S603
        try:
            until(lambda: b"\n" in log.read_bytes() or process.poll() is not None)
            yield json.loads(log.read_text(encoding="utf-8").splitlines()[0])["port"], log
        finally:
            process.terminate()


def prepared(folder: Path, epsilon: str = "10.0", server: str = "") -> Path:
    policy = demo.build(folder)
    text = policy.read_text(encoding="utf-8").replace("epsilon = 10.0", f"epsilon = {epsilon}")
    policy.write_text(text.replace("[ledger]", f"[server]\n{server}\n\n[ledger]"))
    write_users(str(folder / "dpsql.users"), {"ana": User(verifier_of(SECRET))})
    return policy


def connect(port: int) -> psycopg.Connection[tuple[object, ...]]:
    where = f"host=127.0.0.1 port={port} user=ana dbname=dpsql"
    return psycopg.connect(where, password=SECRET, autocommit=True, prepare_threshold=None)


@pytest.mark.full("processes are started and killed")
def test_two_servers_never_overspend_one_ledger(tmp_path: Path) -> None:
    policy = prepared(tmp_path, "1.0")
    answered, refused = list[str](), list[str | None]()

    def spend(port: int, name: str) -> None:
        with connect(port) as client:
            for number in range(60):
                sql = f"SELECT COUNT(*) FROM orders WHERE amount > {number} + 0.{name}"
                try:
                    client.execute(sql)
                except psycopg.Error as error:
                    refused.append(error.sqlstate)
                    return
                answered.append(sql)

    with ExitStack() as stack:
        ports = [stack.enter_context(serving(policy))[0] for _ in range(2)]
        threads = [
            threading.Thread(target=spend, args=(port, f"{i}{j}"))
            for i, port in enumerate(ports)
            for j in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Proxy.open(str(policy)) as proxy:
        ((pot, spent, limit),) = proxy.budgets()
        proxy.ledger.verify()
        charges = len(proxy.ledger.history(None, 1000))
    assert spent.fits(limit)
    assert refused == ["53400"] * 4
    assert charges == len(set(answered)) > 1
    assert pot.name == "default"


def hosts(folder: Path, server: Postgres, number: int) -> list[Path]:
    """Policies of several hosts over the same data, one ledger on a server, and marks of their
    own.
    """
    text = prepared(folder, "1.0").read_text(encoding="utf-8")
    url = f"postgresql:///{DATABASE}?host={server.folder}&user={OWNER}"
    policies = [folder / f"host{n}.toml" for n in range(number)]
    for n, policy in enumerate(policies):
        place = f'path = "host{n}.ledger"\nurl = "{url}"'
        policy.write_text(text.replace('path = "dpsql.ledger"', place), encoding="utf-8")
        if n:
            accept_ledger(load(str(policy)).ledger)
        open_ledger(load(str(policy)).ledger).close()
    return policies


@pytest.mark.full("servers are started")
def test_three_hosts_share_budgets_answers_and_late_queries(tmp_path: Path) -> None:
    with ExitStack() as stack:
        database = stack.enter_context(running(fsync="on"))
        policies = hosts(tmp_path, database, 3)
        ports = [stack.enter_context(serving(policy))[0] for policy in policies]
        clients = [stack.enter_context(connect(port)) for port in ports]
        sql = "SELECT COUNT(*) FROM customers"
        same = [client.execute(sql).fetchall() for client in clients]
        assert same[0] == same[1] == same[2]
        refused = list[str | None]()
        for number in range(60):
            try:
                clients[number % 3].execute(f"SELECT COUNT(*) FROM orders WHERE amount > {number}")
            except psycopg.Error as error:
                refused.append(error.sqlstate)
        assert set(refused) == {"53400"}
        ledger = stack.enter_context(closing(open_ledger(load(str(policies[1])).ledger)))
        charged = ledger.history(None, 1000)
        assert len(charged) == 61 - len(refused) > 1
        assert len({entry.query_id for entry in charged}) == len(charged)
        ledger.verify()
        for _ in range(20):
            ledger.record_late("ana", "q0")
        for client in clients:
            with pytest.raises(psycopg.Error, match="ask nothing new"):
                client.execute("SELECT COUNT(*) FROM orders WHERE amount > 0.5")


@pytest.mark.full("opens servers or connects clients")
def test_a_server_fails_closed_and_its_log_knows_what_was_lost(
    tmp_path: Path, metrics: int
) -> None:
    policy = prepared(tmp_path, server=f"metrics_port = {metrics}")
    path = tmp_path / "dpsql.ledger"
    with serving(policy) as (port, log), connect(port) as client:
        client.execute("SELECT COUNT(*) FROM customers")
        copy = back_up(path, tmp_path / "backups")
        client.execute("SELECT COUNT(*) FROM orders")
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/healthz", timeout=60) as page:
            assert page.read() == b"ok\n"
        entry = SqliteLedger.open(str(path)).history(None, 1)[0]
        shutil.copyfile(copy, path)
        with pytest.raises(psycopg.Error, match="Ask its owner") as failed:
            client.execute("SELECT COUNT(*) FROM customers")
        assert failed.value.sqlstate == "58030"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{metrics}/healthz", timeout=60)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert any("was edited or rolled back" in line for line in lines)
    missing = lost(path, lines)
    assert missing.charges == {("default", "ana"): entry.loss}
    assert not missing.failed.total()
    assert not missing.begins_late


@pytest.mark.full("opens servers or connects clients")
def test_new_data_need_no_new_catalogue(tmp_path: Path) -> None:
    policy = str(demo.build(tmp_path))
    with Proxy.open(policy) as before:
        shutil.copy(tmp_path / "shop.duckdb", tmp_path / "new.duckdb")
        (tmp_path / "new.duckdb").replace(tmp_path / "shop.duckdb")
        with Proxy.open(policy) as after:
            assert before.policy.data != after.policy.data
            engines = [Catalogue(p.policy, "ana", {})._engine for p in (before, after)]
    assert engines[0] is engines[1]


# --- pgbouncer ---


@contextmanager
def bouncing(server: int, mode: str) -> Iterator[int]:
    """The page's pgbouncer in front of this server, with one connection for each analyst."""
    if not PGBOUNCER.exists():
        pytest.skip("pgbouncer is not installed")
    with reserved_port() as port:
        yield from _bouncing(server, mode, port)


def _bouncing(server: int, mode: str, port: int) -> Iterator[int]:
    folder = Path(tempfile.mkdtemp(prefix="bouncer"))
    text = (FILES / "pgbouncer.ini").read_text(encoding="utf-8")
    changes = {
        "port=5439": f"port={server}",
        "listen_port = 6432": f"listen_port = {port}",
        "pool_mode = session": f"pool_mode = {mode}",
        "default_pool_size = 20": "default_pool_size = 1",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "pgbouncer.ini").write_text(text, encoding="utf-8")
    (folder / "users.txt").write_text(f'"ana" "{SECRET}"\n', encoding="utf-8")
    command = [*_unprivileged(folder), str(PGBOUNCER), "pgbouncer.ini"]
    log = (folder / "log").open("wb")
    with log, subprocess.Popen(command, cwd=folder, stderr=log, stdout=log) as process:  # noqa: S603
        try:
            said = (folder / "log").read_bytes
            until(lambda: b"process up" in said() or process.poll() is not None)
            assert process.poll() is None, said()
            yield port
        finally:
            process.terminate()
    shutil.rmtree(folder)


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize(("mode", "leaks"), [("session", False), ("transaction", True)])
def test_pgbouncer_in_front(tmp_path: Path, mode: str, *, leaks: bool) -> None:
    policy = prepared(tmp_path)
    with serving(policy, "--self-signed") as (server, _log), bouncing(server, mode) as port:
        with pytest.raises(psycopg.OperationalError, match="SASL"):
            psycopg.connect(host="127.0.0.1", port=port, user="ana", password="x", dbname="dpsql")  # noqa: S106
        with connect(port) as client:
            client.execute("SET dpsql.epsilon = 0.25")
            assert client.execute("SELECT COUNT(*) FROM orders WHERE amount > %s", [7]).fetchone()
        with connect(port) as client:
            kept = client.execute("SHOW dpsql.epsilon").fetchone()
    assert kept == ("0.25" if leaks else "",)
