"""Who may log in, live: client certificates, and users who are taken off the list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from dpsql.interfaces.pgwire import server
from dpsql.interfaces.pgwire.login_file import ByCertificate, User, verifier_of
from dpsql.interfaces.pgwire.present import Present
from dpsql.policy.draft import ServerSettings as Limits
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.waiting import until
from grammar_tests.wire_kit import PASSWORD, Door, opened

PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """Signs client certificates."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def called(cls, name: str) -> Authority:
        return cls(_common(name), ec.generate_private_key(ec.SECP256R1()))

    def signed(self, *names: str, public: Any = None, authority: bool = False) -> x509.Certificate:
        subject = x509.Name([one for name in names for one in _common(name)])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public or self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def own(self, folder: Path) -> str:
        """Its certificate as a file."""
        path = folder / "authority.pem"
        name = self.name.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
        path.write_bytes(self.signed(str(name), authority=True).public_bytes(PEM))
        return str(path)

    def client(self, folder: Path, *names: str) -> dict[str, str]:
        """Keywords of libpq that show a certificate of these names."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = folder / "client.pem", folder / "client.key"
        certificate.write_bytes(self.signed(*names, public=key.public_key()).public_bytes(PEM))
        private.touch(mode=0o600)
        private.write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return {"sslcert": str(certificate), "sslkey": str(private), "sslmode": "require"}


def _common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


AUTHORITY = Authority.called("a hospital")


@dataclass(frozen=True)
class Place:
    door: Door
    users: dict[str, User]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("users")
    users: dict[str, User] = {}
    policy = shop(folder / "shop")
    with opened(folder, policy, lambda: dict(users), client_ca=AUTHORITY.own(folder)) as door:
        yield Place(door, users)


def connect(place: Place, **changes: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(**{**place.door.conninfo(password=None), **changes})


@pytest.mark.full("opens servers or connects clients")
def test_a_certificate_lets_in_whom_it_names_and_nobody_else(place: Place, tmp_path: Path) -> None:
    place.users.update(ana=User(ByCertificate()), bob=User(ByCertificate()))
    shown = AUTHORITY.client(tmp_path, "ana")
    with connect(place, **shown) as client:
        assert client.execute("SELECT current_user").fetchone() == ("ana",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(place, user="bob", password=PASSWORD, **shown)
    place.users["ana"] = replace(place.users["ana"], disabled=True)
    with pytest.raises(psycopg.OperationalError, match="password"):
        connect(place, password=PASSWORD, **shown)


@pytest.mark.parametrize("names", [("mallory",), ("ana", "mallory"), ("ANA",), ()])
def test_no_other_name_opens(place: Place, tmp_path: Path, names: tuple[str, ...]) -> None:
    place.users["ana"] = User(ByCertificate())
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(place, password=PASSWORD, **AUTHORITY.client(tmp_path, *names))


def test_a_stranger_signs_nothing(place: Place, tmp_path: Path) -> None:
    place.users["ana"] = User(ByCertificate())
    with pytest.raises(psycopg.OperationalError):
        connect(place, password=PASSWORD, **Authority.called("a hospital").client(tmp_path, "ana"))


@pytest.mark.full("opens servers or connects clients")
def test_neither_a_password_nor_a_lack_of_one_stands_for_a_certificate(place: Place) -> None:
    place.users["ana"] = User(ByCertificate())
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(place, password=PASSWORD)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(place, password=PASSWORD, sslmode="disable")


def asked_on(client: psycopg.Connection[Any]) -> None:
    while True:  # until the visit ends
        client.execute("SELECT 1")


@pytest.mark.full("opens servers or connects clients")
def test_who_is_taken_off_the_list_is_put_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WATCH_SECONDS", 0.01)
    place.users["ana"] = place.users["bob"] = User(verifier_of(PASSWORD))
    with (
        connect(place, password=PASSWORD) as kept,
        connect(place, user="bob", password=PASSWORD) as client,
    ):
        until(lambda: logged(place, "user_admitted"))
        del place.users["bob"]
        with pytest.raises(psycopg.OperationalError, match="may no longer log in"):
            asked_on(client)
        assert kept.execute("SELECT 1").fetchone() == (1,)
    assert logged(place, "user_removed")[-1:] == ["bob"]
    assert logged(place, "session_ended") == ["bob"]


def logged(place: Place, event: str) -> list[str]:
    """Names of the users of an event in the log."""
    lines = [json.loads(line) for line in place.door.lines]
    return [line["user"] for line in lines if line["event"] == event]


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize(
    ("users", "told"),
    [({}, True), ({"ana": User(ByCertificate())}, False), (None, False)],
)
def test_a_server_without_users_says_so(users: Any, told: bool, tmp_path: Path) -> None:  # noqa: FBT001
    def readable() -> Any:
        if users is None:
            raise ValueError
        return users

    with Proxy.open(str(shop(tmp_path))) as proxy:
        unused: Any = None
        present = Present(proxy, unused, readable, Limits(), None, None)
        warnings = dict(present.warnings())
        assert ("no_user" in warnings) is told
        assert not told or "dpsql user add ana" in warnings["no_user"]["fix"]
