"""Logins of clients, by a password, a certificate or a token. SECURITY.md S18 and S35."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dpsql.interfaces.pgwire import backend, entrance, frontend, token_entrance
from dpsql.interfaces.pgwire.admission import Failures
from dpsql.interfaces.pgwire.bearer_tokens import TokenLogin
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.frontend import ProtocolError
from dpsql.interfaces.pgwire.login_file import ByCertificate, UsersFile
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.stream import MessageStream
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.model.dataclass import dataclass

MAX_LOGIN_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class LoginDesk:
    """Logins of one database, with the users of its present state."""

    present: Callable[[], Present]
    failures: Failures
    telemetry: Telemetry

    async def log_in(
        self, stream: MessageStream, visitor: entrance.Guest, *, by_token: bool
    ) -> tuple[entrance.Guest, TokenLogin | None]:
        """Return a client that logged in, and its login if that was by a token.

        Raises a fatal `Fault`: one for all that fail.
        """
        if not by_token:
            await self._check(stream, visitor)
            return visitor, None
        present = self.present()
        users = await asyncio.to_thread(present.users)
        login = await token_entrance.log_in_by_token(
            stream, present, users, self.telemetry, MAX_LOGIN_BYTES
        )
        return token_entrance.with_analyst(visitor, login), login

    async def _check(self, stream: MessageStream, visitor: entrance.Guest) -> None:
        present = self.present()
        users = await asyncio.to_thread(present.users)
        credential = await asyncio.to_thread(present.credential, users, visitor.user)
        if isinstance(credential, ByCertificate):
            if stream.common_name == visitor.user:
                await stream.send(backend.authentication(0))
                return
            credential = None  # fails as a wrong password does: who exists is not to be told
        self._require_tries(stream, visitor)
        secret = users.secret if isinstance(users, UsersFile) else b""
        authentication = entrance.Authentication.of(
            visitor.user, credential, stream.binding, secret
        )
        try:
            await stream.send(authentication.offer)
            for step in (authentication.first, authentication.final):
                message, _ = await stream.message(MAX_LOGIN_BYTES)
                if not isinstance(message, frontend.Response):
                    raise ProtocolError("expected SASL response")
                self._require_tries(stream, visitor)  # others may have failed since
                await stream.send(step(message.body))
        except Fault:
            self.failures.failed(stream.address, visitor.user)
            self.telemetry.count("failed_logins")
            self.telemetry.event("login_failed", user=visitor.user, address=stream.address)
            raise

    def _require_tries(self, stream: MessageStream, visitor: entrance.Guest) -> None:
        """Raise `Fault` if too many logins of this user from this address have failed."""
        if not self.failures.may_try(stream.address, visitor.user):
            raise entrance.fatal("28000", "too many logins have failed; wait a minute")
