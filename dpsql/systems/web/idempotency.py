"""Replies by idempotency key, for 24 hours: a retry of a request is charged once.

A key belongs to one analyst and one question. It is written before the question is asked, so a
retry after a crash is still compared with it. The reply is written before it is sent. It holds
released values and no exact ones. A refusal leaves nothing.

SECURITY.md S31.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from threading import Lock
from time import time

from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Unreachable
from dpsql.systems.web.answer_formats import HttpReply
from dpsql.systems.web.problems import Problem

KEPT_SECONDS = 24 * 3600
MOST_KEYS = 10_000
"""Maximum number of keys of one analyst. The oldest one of a free answer makes room first."""
MOST_BYTES_OF_ANALYST = 1 << 26
"""Maximum size of the kept replies of one analyst.

Another one is not kept. It is asked again, which is free for the same data.
"""
_KEY = re.compile(r"[!-~]{16,64}")
_SCHEMA = """CREATE TABLE IF NOT EXISTS replies (
    analyst TEXT, key BLOB, question BLOB, at REAL,
    status INTEGER, kind TEXT, headers TEXT, body BLOB, charged INTEGER,
    PRIMARY KEY (analyst, key)) WITHOUT ROWID"""
_MAKE_ROOM = """DELETE FROM replies WHERE (analyst, key) = (
    SELECT analyst, key FROM replies WHERE analyst = ? AND charged = 0 ORDER BY at LIMIT 1)"""
_KEEP = """INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (analyst, key) DO UPDATE SET status = excluded.status, kind = excluded.kind,
    headers = excluded.headers, body = excluded.body, charged = excluded.charged
    WHERE question = excluded.question"""
_PATIENCE_SECONDS = 10


def require_key(text: str) -> str:
    """Return an idempotency key. Raises `Problem` unless it has 16 to 64 printable characters.

    >>> require_key("0b7e2f6c-8d1a-4f0e")
    '0b7e2f6c-8d1a-4f0e'
    """
    if not _KEY.fullmatch(text):
        fix = "Send 16 to 64 random characters, the same with each retry."
        raise Problem(400, "idempotency-key", "This is no idempotency key.", fix=fix)
    return text


@dataclass(slots=True, eq=False)
class KeptReplies:
    """Replies in an SQLite file that only its owner can read: thread-safe.

    `clock` returns seconds since the epoch.
    """

    path: str
    clock: Callable[[], float] = time
    _lock: Lock = field(default_factory=Lock)

    def find(self, analyst: str, key: str, question: str) -> HttpReply | None:
        """Return the reply to a request that has ended; None if it has to be asked.

        `question` is its text. Raises `Problem` if the key belongs to another question,
        or if the analyst has too many keys.
        """
        digest, now = sha256(question.encode()).digest(), self.clock()
        with self._transaction() as opened:
            opened.execute("DELETE FROM replies WHERE at < ?", (now - KEPT_SECONDS,))
            row = opened.execute(
                "SELECT question, status, kind, headers, body FROM replies"
                " WHERE analyst = ? AND key = ?",
                (analyst, _hash(key)),
            ).fetchone()
            if row is None:
                self._begin(opened, analyst, key, digest)
                return None
        first_digest, status, kind, headers, body = row
        if first_digest != digest:
            why = "The key was sent before with another question, or about other rows."
            fix = "Send a new key for a new question."
            raise Problem(422, "idempotency-key", "The key is used.", why, fix)
        if status is None:
            return None
        marked = {**json.loads(headers), "idempotent-replayed": "true"}
        return HttpReply(status, kind, body, marked)

    def _begin(self, opened: sqlite3.Connection, analyst: str, key: str, digest: bytes) -> None:
        count = opened.execute("SELECT count(*) FROM replies WHERE analyst = ?", (analyst,))
        if count.fetchone()[0] >= MOST_KEYS and not opened.execute(_MAKE_ROOM, (analyst,)).rowcount:
            title = f"You have {MOST_KEYS} keys of charged queries of the last 24 hours."
            raise Problem(429, "idempotency-key", title, fix="Ask without a key, or wait.")
        opened.execute(
            "INSERT INTO replies (analyst, key, question, at) VALUES (?, ?, ?, ?)",
            (analyst, _hash(key), digest, self.clock()),
        )

    def keep(self, analyst: str, key: str, question: str, reply: HttpReply) -> None:
        """Store the reply to a question, durably, unless its key belongs to another one by now.

        That is so where a second request with the key was refused while this one ran.
        """
        with self._transaction() as opened:
            total = "SELECT coalesce(sum(length(body)), 0) FROM replies WHERE analyst = ?"
            (size,) = opened.execute(total, (analyst,)).fetchone()
            if size + len(reply.body) > MOST_BYTES_OF_ANALYST:
                return
            opened.execute(
                _KEEP,
                (
                    analyst,
                    _hash(key),
                    sha256(question.encode()).digest(),
                    self.clock(),
                    reply.status,
                    reply.media_type,
                    json.dumps(dict(reply.headers)),
                    reply.body,
                    reply.is_charged,
                ),
            )

    def drop(self, analyst: str, key: str, question: str) -> None:
        """Remove the key of a question that was refused, unless it has a reply."""
        with self._transaction() as opened:
            opened.execute(
                "DELETE FROM replies"
                " WHERE analyst = ? AND key = ? AND question = ? AND status IS NULL",
                (analyst, _hash(key), sha256(question.encode()).digest()),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction. Raises `Unreachable`."""
        try:
            with self._lock:
                os.close(os.open(self.path, os.O_CREAT, 0o600))
                connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS)
                with closing(connection) as opened:
                    opened.execute("PRAGMA trusted_schema = OFF")
                    opened.execute("PRAGMA synchronous = FULL")
                    with opened:
                        opened.execute("BEGIN IMMEDIATE")
                        opened.execute(_SCHEMA)
                        yield opened
        except (OSError, sqlite3.Error):
            raise Unreachable(f"{self.path} cannot be written.") from None


def _hash(key: str) -> bytes:
    return sha256(key.encode()).digest()
