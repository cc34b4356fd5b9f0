"""Start of a connection: encryption, version, user, login, first settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.catalogue.objects import DATABASE
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.login import Login, LoginFailed
from dpsql.interfaces.pgwire.login_file import Verifier, nobody
from dpsql.interfaces.pgwire.settings import BadSetting, SessionSettings
from dpsql.model.dataclass import dataclass
from dpsql.policy.draft import ServerSettings

NEWEST = (3, 2)
_LONG_KEYS = (3, 2)
SECRET_BYTES, LONG_SECRET_BYTES = 4, 32
_OPTIONS = "_pq_."
_NOT_SETTINGS = frozenset("user database options replication".split())


@dataclass(frozen=True, slots=True)
class Guest:
    """A client's user, database and settings. `spoken` is the common protocol version."""

    user: str
    database: str
    spoken: tuple[int, int]
    settings: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    version: tuple[int, int]

    @property
    def negotiation(self) -> bytes:
        """Message on the negotiated version; empty if the client's version is supported."""
        if self.spoken == self.version and not self.unknown:
            return b""
        return backend.negotiate_version(self.spoken, self.unknown)

    @property
    def secret(self) -> bytes:
        """A new key for cancel requests, as long as the version allows."""
        size = LONG_SECRET_BYTES if self.spoken >= _LONG_KEYS else SECRET_BYTES
        return secrets.token_bytes(size)


def guest(startup: frontend.Startup) -> Guest:
    """Return the guest of a startup message. Raises a fatal `Fault`."""
    major, minor = startup.version
    if major != NEWEST[0]:
        raise fatal("0A000", f"unsupported frontend protocol {major}.{minor}")
    given = dict(startup.parameters)
    if not given.get("user"):
        raise fatal("28000", "no PostgreSQL user name specified in startup packet")
    if given.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise fatal("0A000", "replication is not supported")
    unknown = tuple(name for name in given if name.startswith(_OPTIONS))
    settings = [
        (name, value)
        for name, value in startup.parameters
        if name not in _NOT_SETTINGS and name not in unknown
    ]
    settings += _options(given.get("options", ""))
    spoken = min(startup.version, NEWEST)
    database = given.get("database") or given["user"]
    return Guest(
        user=given["user"],
        database=database,
        spoken=spoken,
        settings=tuple(settings),
        unknown=unknown,
        version=startup.version,
    )


def _options(text: str) -> list[tuple[str, str]]:
    """Return the settings in options: `-c name=value` and `--name=value`. Raises a fatal
    `Fault`.
    """
    options, words = [], text.replace("\\ ", "\0").split()
    while words:
        word = words.pop(0).replace("\0", " ")
        if word == "-c" and words:
            word = f"--{words.pop(0)}".replace("\0", " ")
        elif word.startswith("-c"):
            word = f"--{word[2:]}"
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not equals:
            raise fatal("42601", "the startup options are not understood")
        options.append((name.replace("-", "_"), value))
    return options


def require_database(visitor: Guest) -> None:
    """Raise a fatal `Fault` for an unknown database.

    There is only one. Its aliases are the usual defaults of clients: `postgres` and the user's
    name.
    """
    if visitor.database not in (DATABASE, "postgres", visitor.user):
        raise fatal("3D000", f'database "{visitor.database}" does not exist')


def first_settings(
    visitor: Guest, number: int, limits: ServerSettings, *, encrypted: bool
) -> SessionSettings:
    """Return the initial settings of session `number`. Raises a fatal `Fault`."""
    fixed = {"session_authorization": visitor.user, "backend_pid": str(number)}
    errors = dict(limits.analyst_errors).get(visitor.user, limits.errors)
    ssl = "on" if encrypted else "off"
    settings = SessionSettings({**fixed, "ssl": ssl, "dpsql.errors": errors})
    for name, value in visitor.settings:
        try:
            settings.start_with(name, value)
        except BadSetting as bad:
            raise fatal(bad.sqlstate, str(bad)) from None
    return settings


@dataclass(slots=True)
class Authentication:
    """Messages of one login, up to the proof."""

    login: Login
    user: str
    exists: bool

    @classmethod
    def of(
        cls, user: str, verifier: Verifier | None, binding: bytes | None, secret: bytes = b""
    ) -> Authentication:
        """Return a login of `user`. Without a verifier it fails as with a wrong password."""
        return cls(Login(verifier or nobody(user, secret), binding), user, verifier is not None)

    @property
    def offer(self) -> bytes:
        """Message with the offered mechanisms."""
        return backend.mechanisms(self.login.mechanisms)

    def first(self, body: bytes) -> bytes:
        """Return the reply to the client's first message. Raises a fatal `Fault`."""
        return backend.authentication(11, self._step(self.login.first, body))

    def final(self, body: bytes) -> bytes:
        """Return the reply to the client's proof. Raises a fatal `Fault`."""
        proof = self._step(self.login.final, body)
        if not self.exists:
            raise self._refusal()
        return backend.authentication(12, proof) + backend.authentication(0)

    def _step(self, step: Callable[[bytes], bytes], body: bytes) -> bytes:
        try:
            return step(body)
        except LoginFailed:
            raise self._refusal() from None

    def _refusal(self) -> Fault:
        return fatal("28P01", f'password authentication failed for user "{self.user}"')


def fatal(sqlstate: str, message: str) -> Fault:
    """Return a fault that ends the connection."""
    return Fault(sqlstate, message, severity="FATAL")
