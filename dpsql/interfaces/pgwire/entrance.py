"""The beginning of a connection: encryption, version, user, login, the first settings."""

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

NEWEST = (3, 2)
_LONG_KEYS = (3, 2)
SECRET_BYTES, LONG_SECRET_BYTES = 4, 32
_OPTIONS = "_pq_."
_NOT_SETTINGS = frozenset("user database options replication".split())


@dataclass(frozen=True, slots=True)
class Guest:
    """Who asks to come in, and with which settings; `spoken` is the version both speak."""

    user: str
    database: str
    spoken: tuple[int, int]
    settings: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    version: tuple[int, int]

    @property
    def negotiation(self) -> bytes:
        """What must be said about the version, nothing if it was met."""
        if self.spoken == self.version and not self.unknown:
            return b""
        return backend.negotiate_version(self.spoken, self.unknown)

    @property
    def secret(self) -> bytes:
        """A new key for cancel requests, as long as the version allows."""
        size = LONG_SECRET_BYTES if self.spoken >= _LONG_KEYS else SECRET_BYTES
        return secrets.token_bytes(size)


def guest(startup: frontend.Startup) -> Guest:
    """The wishes of a startup message. Raises `Fault`, fatal."""
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
    """The settings in options: `-c name=value` and `--name=value`. Raises `Fault`, fatal."""
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
    """Refuse a database that is not here. Raises `Fault`, fatal.

    There is one; it also goes by the names that clients try unasked: `postgres` and the user's.
    """
    if visitor.database not in (DATABASE, "postgres", visitor.user):
        raise fatal("3D000", f'database "{visitor.database}" does not exist')


def first_settings(visitor: Guest, number: int, *, encrypted: bool) -> SessionSettings:
    """The settings of session `number` as its client begins it. Raises `Fault`, fatal."""
    fixed = {"session_authorization": visitor.user, "backend_pid": str(number)}
    settings = SessionSettings({**fixed, "ssl": "on" if encrypted else "off"})
    for name, value in visitor.settings:
        try:
            settings.start_with(name, value)
        except BadSetting as bad:
            raise fatal(bad.sqlstate, str(bad)) from None
    return settings


@dataclass(slots=True)
class Authentication:
    """The conversation of one login: bytes to send, until the proof is there."""

    login: Login
    user: str
    exists: bool

    @classmethod
    def of(
        cls, user: str, verifier: Verifier | None, binding: bytes | None, secret: bytes = b""
    ) -> Authentication:
        """A login of `user`; without a verifier it fails in the same way as a wrong password."""
        return cls(Login(verifier or nobody(user, secret), binding), user, verifier is not None)

    @property
    def offer(self) -> bytes:
        """The mechanisms on offer."""
        return backend.mechanisms(self.login.mechanisms)

    def first(self, body: bytes) -> bytes:
        """The answer to the client's first message. Raises `Fault`, fatal."""
        return backend.authentication(11, self._step(self.login.first, body))

    def final(self, body: bytes) -> bytes:
        """The answer to the client's proof. Raises `Fault`, fatal."""
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
    """A fault that ends the connection."""
    return Fault(sqlstate, message, severity="FATAL")
