"""What hosts do now, by rows with a lease: queries that they will pay for, and running ones.

A claim lasts for `LEASE_SECONDS`, and is renewed while its query runs. A host that ended or lost
the server loses its claims then. Claims do not decide on charges: if two hosts hold one claim, both
pay, each within the ledger's limits.

SECURITY.md S29, S33.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any
from weakref import finalize

import psycopg

LEASE_SECONDS = 30
"""Seconds after which a claim ends that its host did not renew."""

_TAKE = f"""INSERT INTO dpsql_ledger.claims AS c
VALUES (%s, %s, clock_timestamp() + interval '{LEASE_SECONDS} s')
ON CONFLICT (place) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE c.holder = excluded.holder OR c.until < clock_timestamp()
RETURNING 1"""
_RENEW = f"""UPDATE dpsql_ledger.claims
SET until = clock_timestamp() + interval '{LEASE_SECONDS} s' WHERE holder = %s"""
_COUNT = f"""BEGIN;
SET LOCAL synchronous_commit = off;
SELECT pg_advisory_xact_lock(x'{{lock}}'::bit(64)::bigint);
INSERT INTO dpsql_ledger.claims
VALUES ('{{place}}', '{{holder}}', clock_timestamp() + interval '{LEASE_SECONDS} s');
SELECT count(*) FROM dpsql_ledger.claims
WHERE place LIKE '{{whose}}%' AND until >= clock_timestamp();
COMMIT"""
"""Insert a row and count those of one analyst, one host at a time; all parts are hexadecimal."""
_RELEASE = "DELETE FROM dpsql_ledger.claims WHERE place = %s AND holder = %s"


def close_with(owner: object, connection: psycopg.Connection[Any]) -> Callable[[], object]:
    """Return a call that closes a connection once; it runs at the latest when its owner ends.

    A child process leaves its parent's connection open: closing would end the parent's session.
    """
    return finalize(owner, _close, connection, os.getpid())


_PARENTS: list[object] = []
"""Connections of the process before a fork, which are never closed here."""


def _close(connection: psycopg.Connection[Any], process: int) -> None:
    if process == os.getpid():
        connection.close()
    else:
        _PARENTS.append(connection)


class ServerClaims:
    """Claims of one process on one ledger: thread-safe.

    Threads of one process share its claims: they have to separate themselves.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._start()

    def _start(self) -> None:
        self._lock, self._ended = Lock(), Event()
        self._process, self._holder = os.getpid(), token_hex(16)
        self._connection: psycopg.Connection[Any] | None = None
        self._close: Callable[[], object] = lambda: None
        self._number, self._renewing = 0, False

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        """Claim a text until the exit; yield False if another process has the claim.

        Does not wait. Raises psycopg.Error if the server cannot be asked.
        """
        if self._process != os.getpid():
            self._start()
        place = sha256(text.encode()).hexdigest()
        if not self._run(_TAKE, (place, self._holder)):
            yield False
            return
        self._count(1)
        try:
            yield True
        finally:
            self._count(-1)
            with suppress(psycopg.Error):  # then the lease ends it
                self._run(_RELEASE, (place, self._holder))

    @contextmanager
    def running(self, analyst: str) -> Iterator[int]:
        """Count a running query of an analyst until the exit; yield how many run on all hosts.

        Raises psycopg.Error if the server cannot be asked.
        """
        if self._process != os.getpid():
            self._start()
        whose = f"run {sha256(analyst.encode()).hexdigest()} "
        place = whose + token_hex(16)
        number = self._add(whose, place)
        try:
            yield number
        finally:
            self._count(-1)
            with suppress(psycopg.Error):  # then the lease ends it
                self._run(_RELEASE, (place, self._holder))

    def _add(self, whose: str, place: str) -> int:
        lock = whose.split()[1][:16]
        text = _COUNT.format(lock=lock, place=place, holder=self._holder, whose=whose)
        with self._lock:
            cursor, rows = self._connected().execute(text.encode()), list[Any]()
            while True:
                if cursor.description is not None:
                    rows.append(cursor.fetchone())
                if not cursor.nextset():
                    break
        self._count(1)
        return int(rows[-1][0])

    def close(self) -> None:
        """Stop renewing, and close the connection."""
        self._ended.set()
        with self._lock:
            self._close()
            self._connection = None

    def _run(self, sql: str, values: tuple[str, ...]) -> bool:
        """Run a statement on the connection for claims; return whether it changed a row."""
        with self._lock:
            return self._connected().execute(sql.encode(), values).rowcount > 0

    def _connected(self) -> psycopg.Connection[Any]:
        idle = psycopg.pq.TransactionStatus.IDLE  # no statement failed in a transaction
        if self._connection is None or self._connection.info.transaction_status != idle:
            self._close()
            self._connection = self._connect()
            self._close = close_with(self, self._connection)
        return self._connection

    def _count(self, more: int) -> None:
        with self._lock:
            self._number += more
            begins, self._renewing = not self._renewing, True
        if begins:
            Thread(target=self._renew, args=(self._ended,), daemon=True).start()

    def _renew(self, ended: Event) -> None:
        """Renew all claims of this process while it has any."""
        while not ended.wait(LEASE_SECONDS / 3):
            with self._lock:
                if not self._number:
                    self._renewing = False
                    return
            with suppress(psycopg.Error):
                self._run(_RENEW, (self._holder,))
