"""Several policies behind one port: the database that a client names chooses among their servers.

Nothing tells which others there are: SECURITY.md S35.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from dpsql.interfaces.pgwire import entrance
from dpsql.interfaces.pgwire.login_desk import LoginDesk
from dpsql.interfaces.pgwire.login_file import Users, UsersFile
from dpsql.interfaces.pgwire.present import Present, label
from dpsql.model.dataclass import dataclass, replace
from dpsql.policy.draft import BY_TOKEN

if TYPE_CHECKING:
    from dpsql.interfaces.pgwire.server import Server
    from dpsql.interfaces.pgwire.stream import MessageStream
    from dpsql.interfaces.pgwire.telemetry import Gauge


@dataclass(frozen=True, slots=True)
class Databases:
    """Servers by the names of their databases: each has its users, ledger, workers and limits.

    The first one listens, with its host, port and certificate. One alone is called "", and takes
    the usual names of databases.
    """

    servers: Mapping[str, Server]

    @property
    def front(self) -> Server:
        """Server that listens."""
        return next(iter(self.servers.values()))

    @property
    def are_several(self) -> bool:
        """True if clients have to name a database."""
        return len(self.servers) > 1

    async def choose(self, stream: MessageStream, visitor: entrance.Guest) -> Server:
        """Return the server of the database that a client names.

        An unknown name is refused after a login that fails, as for a known one.
        """
        if not self.are_several:
            return self.front
        server = self.servers.get(visitor.database)
        if server is None:
            front = self.front
            stranger = make_decoy(front.present, visitor.database)
            desk = LoginDesk(lambda: stranger, front.failures, front.telemetry)
            await desk.log_in(stream, visitor, by_token=self.is_by_token(visitor))
            raise AssertionError("a decoy has no user")
        return server

    def is_by_token(self, visitor: entrance.Guest) -> bool:
        """Test whether a client logs in with a token: at all databases, if one takes any."""
        taken = (server.present.limits.oidc is not None for server in self.servers.values())
        return visitor.user == BY_TOKEN and any(taken)

    def require_database(self, visitor: entrance.Guest) -> None:
        """Raise a fatal `Fault` for an unusual name of the only database."""
        if not self.are_several:
            entrance.require_database(visitor)

    def gauges(self) -> list[Gauge]:
        """Return the gauges of all databases. Raises `LedgerError`."""
        if not self.are_several:
            return self.front.present.gauges()
        return [
            (name, f'database="{label(database)}"{"," if about else ""}{about}', value)
            for database, server in self.servers.items()
            for name, about, value in server.present.gauges()
        ]


def make_decoy(present: Present, database: str) -> Present:
    """Return a state without users for an unknown database. Salts differ as those of others do."""

    def users() -> Users:
        there = present.users()
        secret = (there if isinstance(there, UsersFile) else UsersFile()).secret
        name = f"database\0{database}".encode("utf-8", "replace")
        return UsersFile(secret=hmac.digest(secret, name, sha256))

    return replace(present, users=users, limits=replace(present.limits, oidc=None))
