"""One session of the wire without a socket: messages in, what it said out."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from dpsql.interfaces.pgwire.answers import Answers
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.frontend import Bind, Execute, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.kept_bytes import SessionBytes
from dpsql.interfaces.pgwire.outcomes import SUCCESS, Outcome
from dpsql.interfaces.pgwire.portals import keep_portals, keep_statements
from dpsql.interfaces.pgwire.session import Session
from dpsql.interfaces.pgwire.settings import SessionSettings
from dpsql.interfaces.pgwire.statement_runner import Runner
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.proxy import Proxy
from grammar_tests.wire_kit import fields, messages

COUNT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY 1"
COUNTRIES = "SELECT code FROM countries ORDER BY code"
UNCLEAR = b" no larger than "


class Client:
    """A session and what it said: kinds as one string, rows as text, the last error.

    Left out is what a draw of noise alone decides: that a number is no larger than its ±.
    """

    def __init__(self, proxy: Proxy, account: SessionBytes | None = None) -> None:
        settings = SessionSettings({"session_authorization": "ana"})
        self.errors: list[tuple[str, str]] = []
        answers = Answers(proxy, lambda: Catalogue(proxy.policy, "ana", settings), "ana")
        transaction = Transaction(settings, keep_portals(account))
        runner = Runner(answers, transaction, keep_statements(account))
        self.session = Session(runner, self._told)
        self.said: list[tuple[bytes, bytes]] = []

    def _told(self, outcome: Outcome) -> None:
        if outcome.sqlstate != SUCCESS:
            self.errors.append((outcome.sqlstate, outcome.cause))

    def send(self, *sent: Message) -> str:
        said = messages(b"".join(read_parts(self.session, *sent)))
        self.said = [each for each in said if each[0] != b"N" or UNCLEAR not in each[1]]
        return b"".join(kind for kind, _ in self.said).decode()

    def query(self, sql: str) -> str:
        return self.send(Query(sql))

    def of(self, kind: bytes) -> list[bytes]:
        return [body for found, body in self.said if found == kind]

    @property
    def rows(self) -> list[tuple[str | None, ...]]:
        return [row(body) for body in self.of(b"D")]

    @property
    def tags(self) -> list[str]:
        return [body.rstrip(b"\0").decode() for body in self.of(b"C")]

    @property
    def error(self) -> dict[str, str]:
        (body,) = self.of(b"E")
        return fields(body)

    @property
    def status(self) -> bytes:
        return self.of(b"Z")[-1]


def read_parts(session: Session, *sent: Message) -> Iterator[bytes]:
    """What a session says to some messages, of which it waits for nothing without a thread."""
    for part in session.handle(sent):
        assert isinstance(part, bytes)
        yield part


def row(body: bytes) -> tuple[str | None, ...]:
    (count,) = struct.unpack_from("!h", body)
    found: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return tuple(found)


def asked(sql: str, *values: bytes | None, types: tuple[int, ...] = (), limit: int = 0) -> Any:
    return Parse("", sql, types), Bind("", "", (), values, ()), Execute("", limit), Sync()
