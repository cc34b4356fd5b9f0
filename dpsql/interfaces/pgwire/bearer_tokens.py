"""Tokens of an OpenID provider: which analyst asks, and until when.

An analyst is the pair of an issuer and a subject. Access control: SECURITY.md S34.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from dpsql.model import public_times
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import MissingExtra
from dpsql.policy.draft import OidcSettings
from dpsql.policy.safe_urls import is_safe_url

KEY_SECONDS = 3600.0
"""How long the keys of a provider are used."""
RETRY_SECONDS = 60.0
"""Shortest time between two requests to a provider, whichever keys tokens name."""
LONGEST_TOKEN = 12_000
_LEEWAY_SECONDS, _LAST_SECOND = 30.0, 1e12
_FETCH_SECONDS, _MOST_BYTES = 5.0, 1 << 20
_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Signatures with a public key. No secret that a client may know makes one of them."""
_DISCOVERY = "/.well-known/openid-configuration"


class TokenRefused(Exception):
    """Raised for every token that is not accepted. `log` is for the owner: "token" or
    "provider".
    """

    def __init__(self, log: str = "token") -> None:
        super().__init__("The token is not accepted.")
        self.log = log


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """The login of an analyst by a token until a time, with the roles that the token claims.

    `roles` is None where the policy names no claim of roles.
    """

    issuer: str
    subject: str
    analyst: str
    until: float
    roles: frozenset[str] | None = None

    @property
    def has_ended(self) -> bool:
        return self.until <= public_times.now().timestamp()


@dataclass(slots=True, eq=False)
class TokenVerifier:
    """Verifier of the tokens of one provider, whose keys are kept for `KEY_SECONDS`.

    `fetch` returns the JSON of a URL. `clock` returns seconds, and `now` those since 1970.
    """

    settings: OidcSettings
    fetch: Callable[[str], Any] = lambda url: fetch_json(url)  # noqa: PLW0108 - is defined below
    clock: Callable[[], float] = monotonic
    now: Callable[[], float] = lambda: public_times.now().timestamp()
    _keys: dict[str, Any] = field(default_factory=dict)
    _until: float = 0.0
    _tried: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def verify(self, token: str) -> TokenLogin:
        """Return the login of a token. Raises `TokenRefused`, whatever is wrong."""
        if len(token) > LONGEST_TOKEN:
            raise TokenRefused
        jwt = load_library()
        settings = self.settings
        try:
            named = jwt.get_unverified_header(token).get("kid")
            key = self._key(named)
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat"), False),
                },
            )
            until = self._end(claims)
            subject = claims["sub"]
            roles = _roles(claims, settings.roles_claim)
        except TokenRefused:
            raise
        except Exception:  # noqa: BLE001 - a token may hold anything
            raise TokenRefused from None
        analyst = dict(settings.subjects).get(subject)
        if analyst is None:
            raise TokenRefused
        return TokenLogin(settings.issuer, subject, analyst, until, roles)

    def _end(self, claims: dict[str, Any]) -> float:
        """Return the end of a token that is valid now. Raises `TokenRefused`."""
        now, until = self.now(), _seconds(claims["exp"])
        begun = [_seconds(claims[name]) for name in ("nbf", "iat") if name in claims]
        if until <= now or any(begin > now + _LEEWAY_SECONDS for begin in begun):
            raise TokenRefused
        return until

    def _key(self, name: Any) -> Any:
        """Return a key of the provider by its name. Raises `TokenRefused`."""
        if not isinstance(name, str):
            raise TokenRefused
        with self._lock:
            now = self.clock()
            fresh = now < self._until
            may_try = self._tried is None or now >= self._tried + RETRY_SECONDS
            if not (fresh and name in self._keys) and may_try:
                self._tried = now
                self._keys = self._provided()
                self._until = now + KEY_SECONDS
            elif not fresh:
                raise TokenRefused("provider")
            if name not in self._keys:
                raise TokenRefused
            return self._keys[name]

    def _provided(self) -> dict[str, Any]:
        """Return the keys of the provider by name. Raises `TokenRefused` if it cannot be used."""
        try:
            about = self.fetch(self.settings.issuer.rstrip("/") + _DISCOVERY)
            place = about["jwks_uri"]
            is_right = about["issuer"] == self.settings.issuer and is_safe_url(place)
            listed: Any = self.fetch(place)["keys"] if is_right else None
            return {each["kid"]: key for each in listed if (key := _usable_key(each)) is not None}
        except Exception:  # noqa: BLE001 - a provider may send anything
            raise TokenRefused("provider") from None


def _usable_key(each: Any) -> Any:
    """Return a public key for signatures of a provider; None for other keys."""
    jwt = load_library()
    is_public = each.get("kty") in ("RSA", "EC", "OKP") and each.get("use", "sig") == "sig"
    if not is_public or not isinstance(each.get("kid"), str):
        return None
    try:
        key = jwt.PyJWK.from_dict(each)
    except (jwt.PyJWTError, NotImplementedError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in _ALGORITHMS else None


@lru_cache(4)
def verifier_of(settings: OidcSettings) -> TokenVerifier:
    """Return the verifier of a provider. Equal settings share their keys."""
    return TokenVerifier(settings)


def load_library() -> Any:
    """Return the module jwt of PyJWT. Raises `MissingExtra`."""
    try:
        import cryptography  # noqa: F401, PLC0415
        import jwt  # noqa: PLC0415
    except ImportError:
        message = "[oidc] needs the extra oidc: pip install 'dpsql[oidc]'."
        raise MissingExtra(message) from None
    return jwt


def fetch_json(url: str) -> Any:
    """Return the JSON document of a URL, without redirects. Raises OSError, or ValueError."""
    parts = urlsplit(url)
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=_FETCH_SECONDS)
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request(
            "GET", f"{parts.path or '/'}{query}", headers={"Accept": "application/json"}
        )
        response = connection.getresponse()
        body = response.read(_MOST_BYTES + 1)
    except HTTPException as error:
        raise OSError(type(error).__name__) from None
    finally:
        connection.close()
    if response.status != 200 or len(body) > _MOST_BYTES:  # noqa: PLR2004
        raise ValueError(response.status)
    return json.loads(body)


def _seconds(value: Any) -> float:
    """Return a time of a token in seconds since 1970. Raises `TokenRefused`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and abs(value) < _LAST_SECOND):
        raise TokenRefused
    return float(value)


def _roles(claims: dict[str, Any], name: str) -> frozenset[str] | None:
    """Return the roles of a claim, a list of texts or a text with spaces; None without a name."""
    if not name:
        return None
    said = claims.get(name, [])
    listed = said.split() if isinstance(said, str) else said
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenRefused
    return frozenset(listed)
