"""Identity of a caller over HTTP: a password or a token in a header, and nowhere else.

Access control: SECURITY.md S18, S31 and S34.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import monotonic
from typing import NoReturn
from weakref import WeakValueDictionary

from dpsql.interfaces.hosts import place_of
from dpsql.interfaces.pgwire import login_file
from dpsql.interfaces.pgwire.admission import Failures
from dpsql.interfaces.pgwire.bearer_tokens import LONGEST_TOKEN, TokenLogin, TokenRefused
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.interfaces.pgwire.token_entrance import report_refused_token
from dpsql.model.dataclass import dataclass, field
from dpsql.systems.web.problems import Problem

TOKEN_SECONDS = 3600
MOST_TOKENS = 100
"""Maximum number of valid tokens of one user. The oldest is dropped for another."""
_MOST_PASSWORDS = 1_000
_LONGEST_HEADER = LONGEST_TOKEN + len("Bearer ") + 1


def login_problem() -> Problem:
    """Return the problem of every login that fails."""
    why = "The user, the password or the token is wrong, or it may no longer log in."
    fix = "Send Authorization: Basic with user and password, or Bearer with a token of /v1/token."
    # Basic is not offered, so that no browser asks for a password and keeps it.
    return Problem(401, "login", "Log in.", why, fix, headers={"www-authenticate": "Bearer"})


def scheme_of(headers: Mapping[str, str]) -> str:
    """Return the scheme of the header Authorization, in lower case.

    >>> scheme_of({"authorization": "Bearer abc"})
    'bearer'
    """
    return headers.get("authorization", "").partition(" ")[0].lower()


@dataclass(frozen=True, slots=True)
class _Token:
    """The user of a token, its end, and the password for which it was issued."""

    user: str
    until: float
    verifier: login_file.Verifier


@dataclass(frozen=True, slots=True)
class WebLogin:
    """The analyst of a request, and the login by a provider's token, if it is one."""

    analyst: str
    token: TokenLogin | None = None

    def require_valid(self) -> None:
        """Raise `Problem` if the token has ended since the request began."""
        if self.token is not None and self.token.has_ended:
            raise login_problem()


@dataclass(slots=True)
class WebUsers:
    """Logins over HTTP, with the users' file of the server. `clock` returns seconds.

    Neither passwords nor tokens are kept: only digests under a secret of this process.
    """

    present: Callable[[], Present]
    failures: Failures
    telemetry: Telemetry
    clock: Callable[[], float] = monotonic
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _tokens: dict[bytes, _Token] = field(default_factory=dict)
    _passwords: dict[bytes, login_file.Verifier] = field(default_factory=dict)
    _checks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def identify(self, headers: Mapping[str, str], address: str) -> WebLogin:
        """Return the login of a request. Raises `Problem`: one sentence for all wrong logins."""
        _, _, given = headers.get("authorization", "")[:_LONGEST_HEADER].partition(" ")
        given = given.strip()
        match scheme_of(headers):
            case "bearer" if "." in given:  # our own tokens have no dot
                users = await asyncio.to_thread(self.present().users)
                login = await self._token_login(given, users, address)
                return WebLogin(login.analyst, login)
            case "bearer":
                return WebLogin(await self._user_of(given))
            case "basic":
                users = await asyncio.to_thread(self.present().users)
                return WebLogin(await self._check_password(given, users, address))
            case _:
                raise login_problem()

    async def issue(self, user: str) -> str:
        """Return a new token of a user, which is valid for `TOKEN_SECONDS` in this process.

        It ends with the password of the user. Raises `Problem`.
        """
        users = await asyncio.to_thread(self.present().users)
        verifier = await asyncio.to_thread(self.present().credential, users, user)
        if not isinstance(verifier, login_file.Verifier):
            raise login_problem()
        now = self.clock()
        self._tokens = {key: entry for key, entry in self._tokens.items() if entry.until > now}
        own = [key for key, entry in self._tokens.items() if entry.user == user]
        for key in own[: max(0, len(own) + 1 - MOST_TOKENS)]:
            del self._tokens[key]
        token = secrets.token_urlsafe(32)
        self._tokens[self._digest(token)] = _Token(user, now + TOKEN_SECONDS, verifier)
        return token

    async def _token_login(self, token: str, users: login_file.Users, address: str) -> TokenLogin:
        try:
            return await asyncio.to_thread(self.present().token_login, users, token)
        except TokenRefused as refused:
            report_refused_token(self.telemetry, refused, address)
            raise login_problem() from None

    async def _user_of(self, token: str) -> str:
        issued, present = self._tokens.get(self._digest(token)), self.present()
        if issued is None or issued.until <= self.clock():
            raise login_problem()
        name = issued.user
        if present.reads_ledger(name):
            own = await asyncio.to_thread(lambda: present.credential(present.users(), name))
        else:
            own = present.credential(present.users(), name)
        if own != issued.verifier:
            raise login_problem()
        return name

    async def _check_password(self, given: str, users: login_file.Users, address: str) -> str:
        try:
            text = base64.b64decode(given, validate=True).decode()
        except (binascii.Error, ValueError):
            raise login_problem() from None
        name, _, password = text.partition(":")
        own = await asyncio.to_thread(self.present().credential, users, name)
        key = self._digest(f"{name}\0{password}")
        # One check of an address after the other: none begins before the earlier ones count.
        async with self._checks.setdefault(place_of(address), asyncio.Lock()):
            if not self.failures.may_try(address, name):
                title = "Too many logins have failed; wait a minute."
                raise Problem(429, "too-many-logins", title, headers={"retry-after": "60"})
            if isinstance(own, login_file.Verifier) and self._passwords.get(key) == own:
                return name
            secret = users.secret if isinstance(users, login_file.UsersFile) else b""
            verifier = (
                own if isinstance(own, login_file.Verifier) else login_file.nobody(name, secret)
            )
            is_right = await asyncio.to_thread(login_file.is_password, password, verifier)
            if not isinstance(own, login_file.Verifier) or not is_right:
                self._fail(name, users, address)
        while len(self._passwords) >= _MOST_PASSWORDS:
            del self._passwords[next(iter(self._passwords))]
        self._passwords[key] = own
        return name

    def _fail(self, name: str, users: login_file.Users, address: str) -> NoReturn:
        self.failures.failed(address, name)
        self.telemetry.count("failed_logins")
        known_name = name if name in users else "?"  # other names may be a token
        self.telemetry.event("login_failed", user=known_name, address=address)
        raise login_problem()

    def _digest(self, text: str) -> bytes:
        return blake2b(text.encode("utf-8", "surrogateescape"), key=self._secret).digest()
