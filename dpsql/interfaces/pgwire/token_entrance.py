"""Logins with a token as the password, over TLS alone.

The user is called `oidc` for everybody: who asks is in the token. Access control: SECURITY.md S34.
"""

from __future__ import annotations

import asyncio

from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.bearer_tokens import TokenLogin, TokenRefused
from dpsql.interfaces.pgwire.entrance import Guest, fatal
from dpsql.interfaces.pgwire.frontend import ProtocolError
from dpsql.interfaces.pgwire.login_file import Users
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.stream import MessageStream
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.model.dataclass import replace
from dpsql.policy.draft import BY_TOKEN

_CLEARTEXT = 3
"""AuthenticationCleartextPassword."""


async def log_in_by_token(
    stream: MessageStream, present: Present, users: Users, telemetry: Telemetry, most_bytes: int
) -> TokenLogin:
    """Ask for a token, and return its login. Raises a fatal `Fault`: one for all wrong tokens."""
    if not stream.encrypted:
        raise fatal("28000", "a token is taken over TLS alone")
    await stream.send(backend.authentication(_CLEARTEXT))
    message, _ = await stream.message(most_bytes)
    if not isinstance(message, frontend.Response):
        raise ProtocolError("expected a password")
    token = message.body.removesuffix(b"\0").decode("latin-1")
    try:
        login = await asyncio.to_thread(present.token_login, users, token)
    except TokenRefused as refused:
        report_refused_token(telemetry, refused, stream.address)
        raise fatal("28P01", f'password authentication failed for user "{BY_TOKEN}"') from None
    await stream.send(backend.authentication(0))
    return login


def report_refused_token(telemetry: Telemetry, refused: TokenRefused, address: str) -> None:
    """Count and log a refused token, without the token."""
    telemetry.count("failed_logins")
    telemetry.event("token_refused", because=refused.log, address=address)


def with_analyst(visitor: Guest, login: TokenLogin) -> Guest:
    """Return the client as the analyst of its token. Its default database is that of the user."""
    database = login.analyst if visitor.database == BY_TOKEN else visitor.database
    return replace(visitor, user=login.analyst, database=database)
