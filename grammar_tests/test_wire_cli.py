"""`dpsql user add` and `dpsql serve` as the owner runs them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

import psycopg
import pytest

from dpsql.interfaces.pgwire.login_file import BLOCKED, read_users
from dpsql.model.errors import PolicyError
from dpsql.policy.load import load
from grammar_tests.proxy_kit import shop
from grammar_tests.waiting import reserved_port

SECRET = "open sesame"  # noqa: S105 - of a test


def dpsql(policy: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "dpsql", "--policy", str(policy), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def metrics() -> Iterator[int]:
    """A port for counters."""
    with reserved_port() as port:
        yield port


@pytest.mark.full("opens servers or connects clients")
def test_serve_from_start_to_end(tmp_path: Path, metrics: int) -> None:
    server = f"[server]\nmetrics_port = {metrics}\n\n[ledger]"
    policy = shop(tmp_path / "shop", ("[ledger]", server))
    added = dpsql(policy, "user", "add", "ana", text=f"{SECRET}\n")
    assert added.returncode == 0, added.stderr
    assert SECRET not in (tmp_path / "shop" / "dpsql.users").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "serve", "--port", "0"]
    with subprocess.Popen(  # noqa: S603
        [*command, "--self-signed"], stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stderr is not None
        started = json.loads(served.stderr.readline())
        assert (started["event"], started["host"], started["tls"]) == (
            "listening", "127.0.0.1", True,
        )  # fmt: skip
        where = {"host": "127.0.0.1", "port": started["port"], "sslmode": "require"}
        with psycopg.connect(user="ana", password=SECRET, **where) as client:
            assert client.execute("SELECT COUNT(*) FROM customers").fetchone()
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=60) as page:
            assert b"dpsql_accepted_connections_total 1\n" in page.read()
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0
        events = [json.loads(line)["event"] for line in served.stderr]
    assert events[:2] == ["ledger_empty", "login"]
    assert events[-2:] == ["stopping", "stopped"]


@pytest.mark.full("opens servers or connects clients")
def test_only_analysts_of_the_policy_get_a_password(tmp_path: Path) -> None:
    policy = shop(tmp_path / "shop")
    unknown = dpsql(policy, "user", "add", "eve", text=f"{SECRET}\n")
    assert unknown.returncode == 1
    assert "[analysts.eve]" in unknown.stderr
    assert 'budget = "default"' in unknown.stderr
    assert dpsql(policy, "user", "add", "ana", text="\n").returncode == 2
    assert not (tmp_path / "shop" / "dpsql.users").exists()


@pytest.mark.full("opens servers or connects clients")
def test_users_are_listed_disabled_and_removed(tmp_path: Path) -> None:
    server = '[server]\ncertificate = "c.pem"\nkey = "k.pem"\nclient_ca = "ca.pem"\n\n[ledger]'
    policy = shop(tmp_path / "shop", ("[ledger]", server))
    assert dpsql(policy, "user", "add", "ana", text=f"{SECRET}\n").returncode == 0
    assert dpsql(policy, "user", "add", "bob", "--certificate").returncode == 0
    assert dpsql(policy, "user", "disable", "ana").returncode == 0
    assert dpsql(policy, "user", "stop", "bob", "--reason", "away").returncode == 0
    lines = dpsql(policy, "user", "list").stdout.splitlines()
    assert [line.split() for line in lines if line.strip().startswith(("ana", "bob"))] == [
        ["ana", "password", "disabled"],
        ["bob", "certificate", "may", "log", "in,", "stopped"],
    ]
    assert dpsql(policy, "user", "enable", "ana").returncode == 0
    assert dpsql(policy, "user", "remove", "bob").returncode == 0
    history = dpsql(policy, "history").stdout
    assert all(act in history for act in ("ana: enabled", "bob: removed"))
    unknown = dpsql(policy, "user", "remove", "bob")
    assert unknown.returncode == 1
    assert "bob" in unknown.stderr
    assert set(read_users(str(tmp_path / "shop" / "dpsql.users"))) == {"ana"}


@pytest.mark.full("opens servers or connects clients")
def test_who_has_no_password_is_disabled_and_enabled_too(tmp_path: Path) -> None:
    policy, users = shop(tmp_path / "shop"), str(tmp_path / "shop" / "dpsql.users")
    assert dpsql(policy, "user", "disable", "ana").returncode == 0
    assert read_users(users) == {"ana": BLOCKED}
    assert dpsql(policy, "user", "list").stdout.splitlines()[-1].split()[:3] == [
        "ana", "none", "disabled"
    ]  # fmt: skip
    assert dpsql(policy, "user", "disable", "eve").returncode == 1
    assert dpsql(policy, "user", "enable", "ana").returncode == 0
    assert read_users(users) == {}


@pytest.mark.full("opens servers or connects clients")
def test_certificates_need_somebody_who_signs_them(tmp_path: Path) -> None:
    policy = shop(tmp_path / "shop")
    refused = dpsql(policy, "user", "add", "ana", "--certificate")
    assert refused.returncode == 2
    assert "client_ca" in refused.stderr


def test_metrics_listen_on_this_machine_alone(tmp_path: Path) -> None:
    settings = load(str(shop(tmp_path / "shop"))).server
    assert settings.metrics_host == "127.0.0.1"


@pytest.mark.full("opens servers or connects clients")
def test_other_hosts_are_not_served_in_the_clear(tmp_path: Path) -> None:
    refused = dpsql(shop(tmp_path / "shop"), "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert refused.returncode == 5
    assert "certificate" in refused.stderr


@pytest.mark.full("opens servers or connects clients")
def test_a_taken_port_and_a_broken_certificate_are_told(tmp_path: Path) -> None:
    policy = shop(tmp_path / "shop")
    with create_server(("127.0.0.1", 0)) as taken:
        refused = dpsql(policy, "serve", "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 5
    assert "cannot be listened on" in refused.stderr
    text = policy.read_text(encoding="utf-8")
    with create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        policy.write_text(f"{text}\n[server]\nmetrics_port = {number}\n", encoding="utf-8")
        refused = dpsql(policy, "serve", "--port", "0")
    assert refused.returncode == 5
    assert f"127.0.0.1:{number} ([server] metrics_port) cannot" in refused.stderr
    policy.write_text(f'{text}\n[server]\ncertificate = "no.pem"\nkey = "no.key"\n')
    refused = dpsql(policy, "serve", "--port", "0")
    assert refused.returncode == 5
    assert "certificate" in refused.stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('certificate = "a.pem"', "key"),
        ('client_ca = "a.pem"', "TLS"),
        ("port = 70000", "65535"),
        ("port = 0", "port"),
        ("workers = 65", "64"),
        ("max_message_bytes = 10", "65536"),
        ("idle_seconds = 0", "idle_seconds"),
        ("ports = 1", "Did you mean port"),
        ("users = 3", "users"),
    ],
)
def test_mistakes_in_the_table_are_told_with_their_line(
    tmp_path: Path, lines: str, said: str
) -> None:
    policy = shop(tmp_path / "shop", ("[ledger]", f"[server]\n{lines}\n\n[ledger]"))
    with pytest.raises(PolicyError, match=said) as caught:
        load(str(policy))
    text = policy.read_text(encoding="utf-8").splitlines()
    assert caught.value.line is not None
    assert text[caught.value.line - 1] in ("[server]", lines)


def test_the_table_is_read(tmp_path: Path) -> None:
    lines = "port = 5500\nmax_connections = 7\nlogin_seconds = 2.5\nworkers = 3\n"
    lines += 'users = "door/users"'
    policy = shop(tmp_path / "shop", ("[ledger]", f"[server]\n{lines}\n\n[ledger]"))
    found = load(str(policy)).server
    assert (found.port, found.max_connections, found.login_seconds) == (5500, 7, 2.5)
    assert found.workers == 3
    assert found.users == str(tmp_path / "shop" / "door/users")
