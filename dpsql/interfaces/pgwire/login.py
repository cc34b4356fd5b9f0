"""Server side of one login by SCRAM-SHA-256 (RFC 5802 and 7677).

With TLS, channel binding to the server's certificate is offered too (tls-server-end-point, RFC
5929).

Access control: SECURITY.md S18.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import struct
from hashlib import sha256

from dpsql.interfaces.pgwire.login_file import MECHANISM, Verifier

_PLUS = f"{MECHANISM}-PLUS"
_BOUND = "p=tls-server-end-point"
_NONCE_BYTES = 18


class LoginFailed(Exception):
    """Raised if the proof is wrong, or if the client's messages are not SCRAM."""


class Login:
    """A login with one verifier. `binding` is the hash of the certificate if TLS is used."""

    def __init__(self, verifier: Verifier, binding: bytes | None, nonce: str | None = None) -> None:
        self._verifier, self._binding = verifier, binding
        self._own_nonce = nonce or secrets.token_urlsafe(_NONCE_BYTES)
        self._header = self._bare = self._nonce = self._challenge = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Offered mechanisms, the best first."""
        return (MECHANISM,) if self._binding is None else (_PLUS, MECHANISM)

    def first(self, body: bytes) -> bytes:
        """Return the reply to SASLInitialResponse. Raises `LoginFailed`."""
        name, _, rest = body.partition(b"\0")
        text = _text(rest[struct.calcsize("!i") :])
        flag, comma, after = text.partition(",")
        authority, second, self._bare = after.partition(",")
        if not (comma and second) or authority or not self._fits(_text(name), flag):
            raise LoginFailed
        self._header = f"{flag},,"
        attributes = self._bare.split(",")
        if len(attributes) < 2 or not attributes[0].startswith("n="):  # noqa: PLR2004
            raise LoginFailed
        self._nonce = _value(attributes[1], "r=") + self._own_nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._challenge.encode()

    def _fits(self, mechanism: str, flag: str) -> bool:
        """Test whether the client's channel binding fits its mechanism, without a downgrade.

        "y" means that the client would have used channel binding if it had been offered.
        """
        if mechanism == _PLUS and self._binding is not None:
            return flag == _BOUND
        return mechanism == MECHANISM and (flag == "n" or (flag == "y" and self._binding is None))

    def final(self, body: bytes) -> bytes:
        """Return the reply to SASLResponse: the server's own proof. Raises `LoginFailed`."""
        unproved, separator, proof = _text(body).rpartition(",p=")
        attributes = unproved.split(",")
        if not separator or len(attributes) < 2:  # noqa: PLR2004 - binding and nonce
            raise LoginFailed
        bound = self._header.encode()
        if self._header.startswith(_BOUND):
            bound += self._binding or b""
        if _decoded(_value(attributes[0], "c=")) != bound:
            raise LoginFailed
        if _value(attributes[1], "r=") != self._nonce:
            raise LoginFailed
        said = f"{self._bare},{self._challenge},{unproved}".encode()
        self._check(_decoded(proof), said)
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, said, sha256))

    def _check(self, proof: bytes, said: bytes) -> None:
        """Check ClientProof = ClientKey XOR HMAC(StoredKey, said), and StoredKey = H(ClientKey)."""
        signature = hmac.digest(self._verifier.stored_key, said, sha256)
        if len(proof) != len(signature):
            raise LoginFailed
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(sha256(client_key).digest(), self._verifier.stored_key):
            raise LoginFailed


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise LoginFailed from None


def _value(attribute: str, name: str) -> str:
    if not attribute.startswith(name) or attribute == name:
        raise LoginFailed
    return attribute.removeprefix(name)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginFailed from None
