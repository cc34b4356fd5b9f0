"""HTTP: only listed hosts and origins, and the users, tokens and limits of other interfaces."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from dpsql.interfaces.pgwire.admission import FAILURES, Failures
from dpsql.interfaces.pgwire.login_file import User, UsersFile, verifier_of
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.model.errors import Unreachable
from dpsql.systems.web.guarded_app import Guard
from dpsql.systems.web.web_server import make_web_server
from dpsql.systems.web.web_users import TOKEN_SECONDS, WebUsers
from grammar_tests.test_web import EVIL
from grammar_tests.test_web import fresh as fresh  # noqa: PLC0414 - a fixture
from grammar_tests.test_web import web as web  # noqa: PLC0414 - a fixture
from grammar_tests.web_kit import WebDoor, web_door
from grammar_tests.wire_kit import PASSWORD

# --- hosts and origins ---


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{}"])
def test_a_name_that_somebody_else_directs_here_is_refused(web: WebDoor, host: str) -> None:
    reply = web.send("/v1/budget", host=host.format(web.web.port))
    assert (reply.status, reply.json["reason"]) == (421, "host")


def test_pages_of_other_origins_may_ask_nothing(web: WebDoor) -> None:
    port = web.web.port
    for origin in (EVIL, f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}.evil"):
        for path in ("/v1/budget", "/v1/openapi.json", "/v1/nothing"):
            assert web.send(path, origin=origin).status == 403
    own = web.send("/v1/budget", origin=f"https://LOCALHOST:{port}")
    assert own.status == 200
    asked = web.send("/v1/query", method="OPTIONS", origin=f"https://localhost:{port}")
    for reply in (own, asked):
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert reply.headers["cache-control"] == "no-store"


def test_a_body_of_two_lengths_hides_no_other_request(web: WebDoor) -> None:
    login = f"authorization: Basic {b64encode(f'ana:{PASSWORD}'.encode()).decode()}"
    head = f"host: 127.0.0.1:{web.web.port}\r\n{login}\r\n"
    hidden = f"0\r\n\r\nGET /v1/budget HTTP/1.1\r\n{head}\r\n"
    lengths = f"content-length: {len(hidden)}\r\ntransfer-encoding: chunked\r\n"
    with closing(web.connection()) as connection:
        connection.connect()
        kind = "content-type: application/json\r\n"
        text = f"POST /v1/query HTTP/1.1\r\n{head}{kind}{lengths}\r\n{hidden}"
        connection.sock.sendall(text.encode())
        replies = b"".join(iter(lambda: connection.sock.recv(1 << 16), b""))
    assert replies.startswith(b"HTTP/1.1 400")
    assert replies.count(b"HTTP/1.1") == 1


def test_wrong_twin_a_server_that_does_not_check_host_answers(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Guard, "refuse", lambda *_: None)
    assert web.send("/v1/budget", host="evil.example").status == 200
    assert web.send("/v1/budget", origin=EVIL).status == 200


@pytest.mark.full("measures neighbours or further data sets")
def test_a_name_of_the_owners_is_known(tmp_path: Path) -> None:
    with web_door(tmp_path, names=("dp.example.org",)) as web:
        assert web.send("/v1/budget", host=f"DP.example.org:{web.web.port}").status == 200


@pytest.mark.parametrize(
    ("host", "context", "why"),
    [
        ("192.0.2.1", None, "is not this machine alone"),
        ("0.0.0.0", None, "is not this machine alone"),  # noqa: S104
        ("0.0.0.0", ssl.create_default_context(), "--http-name"),  # noqa: S104
    ],
)
def test_other_addresses_need_tls_and_names(
    tmp_path: Path, host: str, context: Any, why: str
) -> None:
    server: Any = SimpleNamespace(present=SimpleNamespace(context=context))
    web = make_web_server(host, 0, (), (str(tmp_path / "replies"),))
    with pytest.raises(Unreachable, match=why):
        asyncio.run(web.start(server))


# --- users ---


def test_every_wrong_login_gets_the_same_answer(web: WebDoor) -> None:
    wrong = [
        web.send("/v1/budget", user="ana", password="x"),  # noqa: S106
        web.send("/v1/budget", user="zoe"),
        web.send("/v1/budget", user="mallory"),  # has a password, and is no analyst
        web.send("/v1/budget", user=None, authorization="Bearer x"),
        web.send(f"/v1/budget?access_token={PASSWORD.split()[0]}", user=None),
        web.send("/v1/budget", user=None, cookie=f"authorization={PASSWORD}"),
    ]
    assert {(reply.status, reply.body) for reply in wrong} == {(401, wrong[0].body)}
    assert {reply.headers["www-authenticate"] for reply in wrong} == {"Bearer"}


@pytest.mark.full("opens servers or connects clients")
def test_a_user_who_is_disabled_is_out_at_once(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = fresh.send("/v1/token", raw=b"").json["token"]
    bearer: dict[str, Any] = {"user": None, "authorization": f"Bearer {token}"}
    assert fresh.send("/v1/budget", **bearer).status == 200
    off = UsersFile({"ana": User(verifier_of(PASSWORD), disabled=True)})
    monkeypatch.setattr(fresh.wire.server.present, "users", lambda: off)
    assert fresh.send("/v1/budget", **bearer).status == 401
    assert fresh.send("/v1/budget").status == 401


@pytest.mark.full("opens servers or connects clients")
def test_a_token_ends_with_the_password(fresh: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    token = fresh.send("/v1/token", raw=b"").json["token"]
    new = UsersFile({"ana": User(verifier_of("another horse"))})
    monkeypatch.setattr(fresh.wire.server.present, "users", lambda: new)
    assert fresh.send("/v1/budget", user=None, authorization=f"Bearer {token}").status == 401
    assert fresh.send("/v1/budget", password="another horse").status == 200  # noqa: S106


def test_a_token_buys_no_other_token(web: WebDoor) -> None:
    """Whoever finds one would keep it for ever."""
    token = web.send("/v1/token", raw=b"").json["token"]
    another = web.send("/v1/token", raw=b"", user=None, authorization=f"Bearer {token}")
    assert (another.status, another.json["reason"]) == (403, "login")


@pytest.mark.full("opens servers or connects clients")
def test_logins_that_fail_too_often_wait_and_others_do_not(fresh: WebDoor) -> None:
    for _ in range(10):
        assert fresh.send("/v1/budget", password="x").status == 401  # noqa: S106
    assert fresh.send("/v1/budget").status == 429
    with pytest.raises(psycopg.OperationalError, match="too many logins"):
        psycopg.connect(**fresh.wire.conninfo())
    assert fresh.send("/v1/budget", user="bob").status == 200


def failed_at_once(tries: int) -> int:
    """How many of so many wrong passwords that come at once are checked."""
    verifier, failures = verifier_of(PASSWORD), Failures(lambda: 0.0)
    present: Any = SimpleNamespace(users=dict, credential=lambda *_: verifier)
    users = WebUsers(lambda: present, failures, Telemetry(lambda _: None))

    async def ask_all() -> list[Any]:
        pairs = (b64encode(f"ana:{n}".encode()).decode() for n in range(tries))
        asked = (users.identify({"authorization": f"Basic {pair}"}, "10.0.0.1") for pair in pairs)
        return await asyncio.gather(*asked, return_exceptions=True)

    return sum(problem.status == 401 for problem in asyncio.run(ask_all()))


def test_wrong_passwords_that_come_at_once_count() -> None:
    assert failed_at_once(2 * FAILURES) == FAILURES


def test_wrong_twin_checks_that_do_not_wait_for_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpsql.systems.web.web_users.asyncio.Lock", nullcontext)
    assert failed_at_once(2 * FAILURES) == 2 * FAILURES


@pytest.mark.full("opens servers or connects clients")
def test_tokens_end_and_are_in_no_log(web: WebDoor) -> None:
    token = web.send("/v1/token", raw=b"").json["token"]
    as_user = web.send("/v1/budget", user=token)
    assert as_user.status == 401
    reply = web.send("/v1/history", user=None, authorization=f"Bearer {token}")
    assert reply.status == 200
    assert token not in web.lines
    assert PASSWORD not in web.lines


@pytest.mark.full("measures neighbours or further data sets")
def test_a_token_is_valid_for_an_hour() -> None:
    now = [0.0]
    verifier = verifier_of(PASSWORD)
    present: Any = SimpleNamespace(
        users=dict,
        credential=lambda _users, name: verifier if name else None,
        reads_ledger=lambda name: name != "ana",
    )
    users = WebUsers(lambda: present, None, None, lambda: now[0])  # type: ignore[arg-type]
    headers = {"authorization": f"Bearer {asyncio.run(users.issue('ana'))}"}
    now[0] = TOKEN_SECONDS - 1
    assert asyncio.run(users.identify(headers, "")).analyst == "ana"
    now[0] = TOKEN_SECONDS
    with pytest.raises(Exception, match="Log in"):
        asyncio.run(users.identify(headers, ""))
