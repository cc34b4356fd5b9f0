"""Tokens of an OpenID provider: who may ask with one, over HTTP, MCP and the wire, and who may not.

The provider is a small one of our own on the loopback: discovery, and keys that change.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

pytest.importorskip("jwt", reason="the extra oidc is not installed")
pytest.importorskip("mcp", reason="the extra mcp is not installed")

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from dpsql.interfaces.pgwire.bearer_tokens import (
    KEY_SECONDS,
    RETRY_SECONDS,
    TokenLogin,
    TokenRefused,
    TokenVerifier,
    load_library,
)
from dpsql.interfaces.pgwire.login_file import BLOCKED, User, verifier_of
from dpsql.interfaces.pgwire.present import Present
from dpsql.model.errors import MissingExtra, PolicyError
from dpsql.policy.draft import OidcSettings
from dpsql.policy.load import load
from dpsql.systems.web.web_users import WebLogin, WebUsers
from grammar_tests.proxy_kit import policy
from grammar_tests.web_kit import WebDoor, web_door
from grammar_tests.wire_kit import PASSWORD

HOUR = 3600
OWN, OTHER = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())
PEM = OWN.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def listed(key: Any, name: str) -> dict[str, Any]:
    """A public key as the provider lists it."""
    made = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return {**json.loads(made.to_jwk(key.public_key())), "kid": name, "use": "sig"}


class Provider:
    """A provider on the loopback, what it lists, and how many requests it had."""

    def __init__(self) -> None:
        self.keys: list[Any] = [listed(OWN, "one"), listed(CURVE, "curve")]
        self.requests = 0
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests += 1
                about = {"issuer": provider.issuer, "jwks_uri": f"{provider.issuer}/keys"}
                known = self.path == "/keys"
                body = json.dumps({"keys": provider.keys} if known else about).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def settings(self, **changes: Any) -> OidcSettings:
        subjects = ("248289761001", "ana"), ("zoe-1", "zoe")
        return OidcSettings(**{
            "issuer": self.issuer, "audience": "dpsql", "subjects": subjects, **changes
        })  # fmt: skip

    def token(
        self, key: Any = OWN, name: Any = "one", algorithm: str = "RS256", **claims: Any
    ) -> str:
        """A good token, but for the claims that are given; None leaves one out."""
        now = int(time.time())
        said = {"iss": self.issuer, "aud": "dpsql", "sub": "248289761001", "exp": now + HOUR}
        said = {n: v for n, v in {**said, "iat": now, **claims}.items() if v is not None}
        header = {} if name is None else {"kid": name}
        return jwt.encode(said, key, algorithm, headers=header)

    def forged(self) -> str:
        """A token whose secret of HS256 is the public key, which everybody knows."""
        head, body, _ = self.token().split(".")
        head = encode(json.dumps({"alg": "HS256", "kid": "one", "typ": "JWT"}).encode())
        said = f"{head}.{body}"
        return f"{said}.{encode(hmac.digest(PEM, said.encode(), sha256))}"


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    with closing(made):
        yield made


@pytest.fixture(scope="module")
def web(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDoor]:
    with web_door(tmp_path_factory.mktemp("oidc"), oidc=provider.settings()) as opened:
        yield opened


BAD: dict[str, Callable[[Provider], str]] = {
    "none": lambda p: p.token(key=None, algorithm="none"),
    "HS256 with the public key": Provider.forged,
    "another key": lambda p: p.token(key=OTHER),
    "another kind of key": lambda p: p.token(key=CURVE, algorithm="ES256"),
    "another algorithm": lambda p: p.token(algorithm="RS512"),
    "another issuer": lambda p: p.token(iss="http://127.0.0.1:1"),
    "no issuer": lambda p: p.token(iss=None),
    "another audience": lambda p: p.token(aud="superset"),
    "no audience": lambda p: p.token(aud=None),
    "another kid": lambda p: p.token(name="two"),
    "no kid": lambda p: p.token(name=None),
    "expired": lambda p: p.token(exp=int(time.time()) - 1),
    "not yet valid": lambda p: p.token(nbf=int(time.time()) + HOUR),
    "issued later": lambda p: p.token(iat=int(time.time()) + HOUR),
    "no exp": lambda p: p.token(exp=None),
    "an endless exp": lambda p: p.token(exp=1e300),
    "no subject": lambda p: p.token(sub=None),
    "another subject": lambda p: p.token(sub="ana"),
    "no analyst": lambda p: p.token(sub="zoe-1"),
    "half": lambda p: p.token()[:-40],
    "no token": lambda _: "a.b.c",
    "1 MB": lambda p: p.token(more="x" * (1 << 20)),
}


def refused(verify: Callable[[str], object], token: str) -> bool:
    try:
        verify(token)
    except TokenRefused as error:
        return str(error) == "The token is not accepted."
    return False


def test_a_good_token_names_its_analyst(provider: Provider) -> None:
    verifier = TokenVerifier(provider.settings())
    for token in (
        provider.token(),
        provider.token(CURVE, "curve", "ES256"),
        provider.token(aud=["superset", "dpsql"], nbf=int(time.time()) + 5),
    ):
        login = verifier.verify(token)
        assert (login.analyst, login.subject, login.roles) == ("ana", "248289761001", None)
        assert not login.has_ended


@pytest.mark.parametrize("kind", BAD)
def test_bad_tokens_are_refused_in_one_sentence(
    web: WebDoor, provider: Provider, kind: str
) -> None:
    present, users = web.wire.server.present, web.wire.server.present.users()
    assert present.token_login(users, provider.token()).analyst == "ana"
    token = BAD[kind](provider)
    alone = TokenVerifier(provider.settings()).verify
    assert kind == "no analyst" or refused(alone, token)
    assert refused(lambda each: present.token_login(users, each), token)
    identify = WebUsers(lambda: present, web.wire.server.failures, web.wire.server.telemetry)
    with pytest.raises(Exception, match=r"^Log in") as problem:
        asyncio.run(identify.identify({"authorization": f"Bearer {token}"}, "127.0.0.1"))
    wrong = web.send("/v1/budget", user=None, authorization="Bearer x")
    shown: Any = problem.value
    assert (shown.status, shown.document["title"]) == (401, wrong.json["title"])
    assert token[:200] not in web.lines


@pytest.mark.parametrize("kind", ["another key", "another audience", "half"])
def test_wrong_twin_a_verifier_that_checks_no_signature(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    real = jwt.decode

    def careless(token: str, *_: Any, **_options: Any) -> Any:
        return real(token + "A" * (-len(token) % 4), options={"verify_signature": False})

    monkeypatch.setattr(jwt, "decode", careless)
    verify = TokenVerifier(provider.settings()).verify
    assert not refused(verify, BAD[kind](provider)) or kind == "half"
    assert not refused(verify, provider.token(key=OTHER))


@pytest.mark.full("opens servers or connects clients")
def test_tokens_ask_over_http_mcp_and_the_wire(web: WebDoor, provider: Provider) -> None:
    token = provider.token()
    bearer: dict[str, Any] = {"user": None, "authorization": f"Bearer {token}"}
    asked = web.send("/v1/query", {"sql": "SELECT COUNT(*) AS n FROM orders"}, **bearer)
    assert asked.status == 200
    tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = "application/json, text/event-stream"
    for given, status in ((bearer, 200), (bearer | {"authorization": "Bearer a.b.c"}, 401)):
        assert web.send("/mcp", tools, accept=accept, **given).status == status
    assert web.send("/v1/token", raw=b"", **bearer).status == 403
    conninfo = web.wire.conninfo(user="oidc", password=token, sslmode="require")
    with psycopg.connect(**conninfo) as connection:
        shown = connection.execute("SELECT current_user").fetchone()
        remembered = connection.execute("SELECT COUNT(*) AS n FROM orders").fetchone()
    n = asked.json["rows"][0]["n"]["estimate"]
    assert (shown, remembered) == (("ana",), (n,))
    assert all(part not in web.lines for part in token.split("."))


def test_wrong_tokens_over_the_wire_fail_alike(web: WebDoor, provider: Provider) -> None:
    texts = set()
    for kind in ("another key", "expired", "no analyst", "no token"):
        conninfo = web.wire.conninfo(user="oidc", password=BAD[kind](provider), sslmode="require")
        with pytest.raises(psycopg.OperationalError) as failed:
            psycopg.connect(**conninfo)
        texts.add(str(failed.value).rpartition("FATAL:")[2].strip())
    assert texts == {'password authentication failed for user "oidc"'}
    conninfo = web.wire.conninfo(user="oidc", password=provider.token(), sslmode="disable")
    with pytest.raises(psycopg.OperationalError, match="over TLS alone"):
        psycopg.connect(**conninfo)


def test_an_answer_whose_token_ended_meanwhile_is_charged_and_kept_back(
    web: WebDoor, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    bearer: dict[str, Any] = {"user": None, "authorization": f"Bearer {provider.token()}"}
    body = {"sql": "SELECT COUNT(*) AS n FROM items"}
    ended = chain([False] * 3, repeat(True))  # it is asked, and ends while it is answered
    with monkeypatch.context() as patched:
        patched.setattr(TokenLogin, "has_ended", property(lambda _: next(ended)))
        reply = web.send("/v1/query", body, **bearer)
    assert (reply.status, "estimate" in reply.body.decode()) == (401, False)
    again = web.send("/v1/query", body, **bearer)
    assert (again.status, again.json["receipt"]["remembered"]) == (200, True)
    monkeypatch.setattr(TokenLogin, "has_ended", property(lambda _: True))
    monkeypatch.setattr(Present, "admits", lambda *_: True)
    monkeypatch.setattr(WebLogin, "require_valid", lambda _: None)  # a twin that does not look
    assert web.send("/v1/query", body, **bearer).status == 200


def test_a_session_lasts_as_long_as_its_token(web: WebDoor, provider: Provider) -> None:
    server = web.wire.server
    present, users = server.present, server.present.users()
    login = present.token_login(users, provider.token())
    visit: Any = SimpleNamespace(analyst="ana", login=login)
    assert server._may_stay(visit, users)
    for told in (
        replace(login, until=time.time() - 1),
        replace(login, issuer="x"),
        replace(login, subject="x"),
    ):
        changed: Any = SimpleNamespace(analyst="ana", login=told)
        assert not server._may_stay(changed, users)
    for off in (User(verifier_of(PASSWORD), disabled=True), BLOCKED):
        assert not server._may_stay(visit, {"ana": off})
        assert not present.admits({"ana": off}, login)
    assert present.admits({}, login)


def test_roles_of_a_token_take_rights_away(provider: Provider) -> None:
    def admits(token: str, *own: str) -> bool:
        settings = provider.settings(roles_claim="groups")
        roles = tuple(SimpleNamespace(name=name, analysts=frozenset({"ana"})) for name in own)
        proxy: Any = SimpleNamespace(
            policy=SimpleNamespace(
                roles=roles, budget_of=lambda name: "default" if name == "ana" else None
            ),
            chain=lambda _name: (),
        )
        limits: Any = SimpleNamespace(oidc=settings)
        present = Present(proxy, None, dict, limits)  # type: ignore[arg-type]
        try:
            return present.token_login({}, token).analyst == "ana"
        except TokenRefused:
            return False

    both = provider.token(groups=["sales", "staff"])
    assert admits(both, "sales")
    assert admits(both, "sales", "staff")
    assert admits(provider.token(groups="staff sales"), "sales")
    assert not admits(both, "sales", "clinic")
    assert not admits(provider.token(), "sales")
    assert not admits(provider.token(groups={"sales": True}), "sales")
    assert admits(provider.token())


def test_keys_are_kept_for_an_hour_and_follow_the_provider() -> None:
    with closing(Provider()) as provider:
        now = [0.0]
        verifier = TokenVerifier(provider.settings(), clock=lambda: now[0])
        for _ in range(3):
            verifier.verify(provider.token())
        assert provider.requests == 2
        for n in range(20):  # names that nobody has make no requests
            assert refused(verifier.verify, provider.token(name=f"x{n}"))
        assert provider.requests == 2
        provider.keys = [listed(OTHER, "two"), {"kty": "oct", "k": "AAAA", "kid": "one"}]
        now[0] += RETRY_SECONDS
        verifier.verify(provider.token(OTHER, "two"))
        assert provider.requests == 4
        assert refused(verifier.verify, provider.token())
        now[0] += KEY_SECONDS - 1
        verifier.verify(provider.token(OTHER, "two"))
        assert provider.requests == 4
        now[0] += 1
        verifier.verify(provider.token(OTHER, "two"))
        assert provider.requests == 6
    now[0] += KEY_SECONDS - 1
    verifier.verify(provider.token(OTHER, "two"))  # the provider is gone, its keys are known
    for _ in range(2):
        now[0] += 1
        assert refused(verifier.verify, provider.token(OTHER, "two"))
    assert refused(TokenVerifier(provider.settings()).verify, provider.token())


def test_keys_of_other_algorithms_are_not_used() -> None:
    with closing(Provider()) as provider:
        curve = ec.generate_private_key(ec.SECP256K1())
        provider.keys += [listed(curve, "bitcoin"), {**listed(OWN, "no"), "alg": "none"}]
        verifier = TokenVerifier(provider.settings())
        verifier.verify(provider.token())
        assert refused(verifier.verify, provider.token(curve, "bitcoin", "ES256K"))


def test_a_provider_that_calls_itself_otherwise_is_not_the_one(provider: Provider) -> None:
    settings = provider.settings()

    def verify(about: Any) -> TokenLogin:
        documents = {"keys": {"keys": provider.keys}, "openid-configuration": about}
        verifier = TokenVerifier(settings, lambda url: documents[url.rpartition("/")[2]])
        return verifier.verify(provider.token())

    wrong: tuple[Any, ...] = (
        {"issuer": "https://evil.example", "jwks_uri": f"{settings.issuer}/keys"},
        {"issuer": settings.issuer, "jwks_uri": "http://evil.example/keys"},
        {"issuer": settings.issuer},
        [],
    )
    for about in wrong:
        with pytest.raises(TokenRefused) as failed:
            verify(about)
        assert failed.value.log == "provider"
    assert verify({"issuer": settings.issuer, "jwks_uri": f"{settings.issuer}/keys"})


OIDC = '[oidc]\nissuer = "https://login.example.org"\naudience = "dpsql"\nroles_claim = "groups"\n'


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("", "needs its provider"),
        (OIDC.replace("https", "http"), "not reached by https"),
        (OIDC.replace("audience", "audiences"), "audiences"),
        (f'{OIDC}[analysts.zoe]\nbudget = "default"\nsubject = "1"\n', "Two analysts"),
        (f'{OIDC}[analysts.oidc]\nbudget = "default"\n', "No analyst is called oidc"),
    ],
)
def test_a_policy_says_who_the_subjects_are(tmp_path: Path, section: str, why: str) -> None:
    ana = '[analysts.ana]\nbudget = "default"\n'
    good = load(str(policy(tmp_path, (ana, f'{OIDC}{ana}subject = "1"\n')))).server.oidc
    assert good == OidcSettings("https://login.example.org", "dpsql", "groups", (("1", "ana"),))
    with pytest.raises(PolicyError, match=why):
        load(str(policy(tmp_path, (ana, f'{ana}subject = "1"\n{section}'))))


def test_without_the_library_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(MissingExtra, match=r"dpsql\[oidc\]"):
        load_library()
