"""File of logins: one user per line, without passwords.

A line is a credential, a space, and the analyst's name. A credential is a SCRAM-SHA-256 verifier as
PostgreSQL stores it (RFC 5802 and 7677), or `certificate` for logins with a client certificate of
that common name. The prefix `disabled:` blocks a user; `disabled:none` blocks one who has no
password, and whose tokens a provider signs. The line `salts:…` holds the secret for salts of
unknown users, so that these are the same after a restart.

Over HTTP the file is read for each request: SECURITY.md S31.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import stringprep
import tempfile
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import pbkdf2_hmac, sha256
from pathlib import Path
from typing import TypeAlias

from dpsql.model.dataclass import dataclass

MECHANISM = "SCRAM-SHA-256"
_BY_CERTIFICATE, _DISABLED, _SECRET = "certificate", "disabled:", "salts:"
_NOTHING = "none"
ITERATIONS = 10_000
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Verifier:
    """Stored form of a password (RFC 5802, section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        return "Verifier(<hidden>)"


@dataclass(frozen=True, slots=True)
class ByCertificate:
    """Login by a client certificate, without a password."""

    def __str__(self) -> str:
        return _BY_CERTIFICATE


@dataclass(frozen=True, slots=True)
class WithoutPassword:
    """Entry of a blocked user without a login here. No other user has it."""

    def __str__(self) -> str:
        return _NOTHING


@dataclass(frozen=True, slots=True)
class User:
    """Login of a user, which fails while `disabled`."""

    credential: Verifier | ByCertificate | WithoutPassword
    disabled: bool = False

    def __str__(self) -> str:
        return f"{_DISABLED if self.disabled else ''}{self.credential}"


BLOCKED = User(WithoutPassword(), disabled=True)
"""Entry of a user without a password who may not log in."""
Users: TypeAlias = Mapping[str, User]


class UsersFile(dict[str, User]):
    """Users of a file by name, and its secret. The secret of the process is used until a file has
    one.
    """

    def __init__(self, users: Users = {}, secret: bytes = b"") -> None:  # noqa: B006 - is copied
        super().__init__(users)
        self.secret = secret or _process_secret()


def verifier_of(password: str, salt: bytes | None = None) -> Verifier:
    """Return a verifier, with a random salt by default (RFC 5802, section 3).

    Raises ValueError for an empty password or one with control characters.
    """
    if not password or any(unicodedata.category(c) == "Cc" for c in password):
        raise ValueError("a password is neither empty nor has it control characters")
    return _derive_verifier(password, salt or secrets.token_bytes(SALT_BYTES), ITERATIONS)


def is_password(password: str, verifier: Verifier) -> bool:
    """Test whether a verifier is that of this password.

    >>> is_password("a horse", verifier_of("a horse")), is_password("", verifier_of("a horse"))
    (True, False)
    """
    derived = _derive_verifier(password, verifier.salt, verifier.iterations)
    return hmac.compare_digest(derived.stored_key, verifier.stored_key)


def _derive_verifier(password: str, salt: bytes, iterations: int) -> Verifier:
    prepared = _prepared(password).encode()
    salted = pbkdf2_hmac("sha256", prepared, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", sha256)
    server_key = hmac.digest(salted, b"Server Key", sha256)
    return Verifier(salt, iterations, sha256(client_key).digest(), server_key)


def _prepared(password: str) -> str:
    """Return the password mapped by SASLprep (RFC 4013), or unchanged if that forbids it.

    PostgreSQL and its clients do the same.
    """
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    mapped = unicodedata.normalize("NFKC", mapped)
    forbidden = any(
        table(c)
        for c in mapped
        for table in (
            stringprep.in_table_a1,
            stringprep.in_table_c21_c22,
            stringprep.in_table_c3,
            stringprep.in_table_c4,
            stringprep.in_table_c5,
            stringprep.in_table_c6,
            stringprep.in_table_c7,
            stringprep.in_table_c8,
            stringprep.in_table_c9,
        )
    )
    sided = any(map(stringprep.in_table_d1, mapped))
    mixed = sided and any(map(stringprep.in_table_d2, mapped))
    return password if forbidden or mixed or not mapped else mapped


def parsed(text: str) -> Verifier:
    """Parse a verifier. Raises ValueError."""
    mechanism, counted, keys = text.split("$")
    iterations, salt = counted.split(":")
    stored_key, server_key = keys.split(":")
    if mechanism != MECHANISM:
        raise ValueError("this is no SCRAM-SHA-256 verifier")
    return Verifier(_bytes(salt), int(iterations), _bytes(stored_key), _bytes(server_key))


def _user(text: str) -> User:
    """Parse a user. Raises ValueError."""
    written = text.removeprefix(_DISABLED)
    if text == f"{_DISABLED}{_NOTHING}":
        return BLOCKED
    credential = ByCertificate() if written == _BY_CERTIFICATE else parsed(written)
    return User(credential, disabled=written != text)


def read_users(path: str) -> UsersFile:
    """Return the users by name; none if there is no file. Raises ValueError for a broken line.

    The file is read at each call, since no time of a file tells every change. An unchanged text is
    parsed once.
    """
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        return UsersFile()
    users, secret = _read_lines(text)
    return UsersFile(users, secret)


@lru_cache(maxsize=8)
def _read_lines(text: bytes) -> tuple[Users, bytes]:
    """Return the users and the secret of a file's text. Raises ValueError for a broken line."""
    users, secret = {}, b""
    for line in text.decode().splitlines():
        written, _, name = line.partition(" ")
        if line.startswith(_SECRET):
            secret = _bytes(line.removeprefix(_SECRET))
        elif line.strip():
            users[name] = _user(written)
    return users, secret


def write_users(path: str, users: Users) -> None:
    """Replace all users. The file appears complete, and only its owner can read it."""
    secret = users.secret if isinstance(users, UsersFile) else read_users(path).secret
    lines = [f"{_SECRET}{_base64(secret)}", *(f"{users[name]} {name}" for name in sorted(users))]
    text = "\n".join([*lines, ""])
    descriptor, unfinished = tempfile.mkstemp(dir=Path(path).parent, prefix=".users-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(unfinished).unlink()
        raise


@cache
def _process_secret() -> bytes:
    return secrets.token_bytes(32)


def nobody(name: str, secret: bytes = b"") -> Verifier:
    """Return a verifier that no password matches, to hide which users exist.

    Its salt is the same each time.
    """
    salt = hmac.digest(secret or _process_secret(), name.encode("utf-8", "replace"), sha256)
    salt = salt[:SALT_BYTES]
    return Verifier(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
