"""Values that both ends of a worker share: address, snapshot, and reasons against a server."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass

WHY = {
    "unreadable": "cannot be reached; check its service or DSN, the role and its password",
    "changed": "has changed since it was opened; open the policy again",
    "old": "is older than PostgreSQL 15",
    "standby": "is a standby, whose states cannot be told apart; name the primary server",
    "encoding": "is not encoded in UTF8",
    "superuser": "would be read as a superuser; make a role that may read the tables alone",
    "writable": "may be written to by this role; revoke INSERT, UPDATE, DELETE and TRUNCATE",
    "logs": "writes parameters into its log for this role; ALTER ROLE … SET"
    " log_parameter_max_length = 0, and where the server has loaded these,"
    " auto_explain.log_min_duration = -1 and pgaudit.log_parameter = off",
    "shadowed": "lets others create in its schema public, or has functions there with names of the"
    " server's own; revoke CREATE from PUBLIC, and move them",
    "untrusted": "does not compute as PostgreSQL 15 does, so that no proof holds on it",
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot of a session: its identity, and the name by which another session can use it."""

    identity: str
    exported: str


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Address of the server, without a password; `environment` has our variables for libpq."""

    conninfo: str
    environment: tuple[tuple[str, str], ...]
    seconds: float
    memory: str
    niceness: int = 0
