"""The five kinds of clients of the soak test: each asks, and says what it was told."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import psycopg2

OK = "00000"


@dataclass(frozen=True, slots=True)
class Where:
    """A server over TLS."""

    port: int
    password: str

    def libpq(self, user: str) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": user,
            "password": self.password,
            "dbname": "dpsql",
            "sslmode": "require",
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of a statement: its SQLSTATE ("" where the connection broke) and all texts."""

    sqlstate: str
    told: str


Ask = Callable[[str], Asked]
NOTICES = "SET dpsql.notices = on"


@contextmanager
def by_psycopg(where: Where, user: str) -> Iterator[Ask]:
    with psycopg.connect(**where.libpq(user), autocommit=True) as client:
        told: list[str] = []
        client.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        client.execute(NOTICES)

        def ask(sql: str) -> Asked:
            told.clear()
            try:
                client.execute(sql).fetchall()
            except psycopg.Error as error:
                return Asked(error.sqlstate or "", f"{error} {told}")
            return Asked(OK, " ".join(told))

        yield ask


@contextmanager
def by_psycopg2(where: Where, user: str) -> Iterator[Ask]:
    with closing(psycopg2.connect(**where.libpq(user))) as client:
        client.autocommit = True
        cursor = client.cursor()
        cursor.execute(NOTICES)

        def ask(sql: str) -> Asked:
            client.notices.clear()
            try:
                cursor.execute(sql)
                cursor.fetchall()
            except psycopg2.Error as error:
                return Asked(error.pgcode or "", f"{error} {client.notices}")
            return Asked(OK, " ".join(client.notices))

        yield ask


@contextmanager
def by_asyncpg(where: Where, user: str) -> Iterator[Ask]:
    with asyncio.Runner() as runner:
        given = where.libpq(user)
        given["database"], given["ssl"] = given.pop("dbname"), given.pop("sslmode")
        told: list[str] = []
        client = runner.run(asyncpg.connect(**given))
        client.add_log_listener(lambda _client, message: told.append(message.message))
        runner.run(client.execute(NOTICES))

        def ask(sql: str) -> Asked:
            told.clear()
            try:
                runner.run(client.fetch(sql))
            except asyncpg.PostgresError as error:
                return Asked(error.sqlstate, f"{error} {told}")
            except (asyncpg.InterfaceError, OSError) as error:
                return Asked("", repr(error))
            runner.run(asyncio.sleep(0))  # listeners are called soon, not at once
            return Asked(OK, " ".join(told))

        yield ask
        runner.run(client.close())


@contextmanager
def by_pg8000(where: Where, user: str) -> Iterator[Ask]:
    client = pg8000.dbapi.connect(
        user, "127.0.0.1", "dpsql", where.port, where.password, ssl_context=True
    )
    client.autocommit = True
    cursor = client.cursor()
    cursor.execute(NOTICES)

    def ask(sql: str) -> Asked:
        client.notices.clear()
        try:
            cursor.execute(sql)
            cursor.fetchall()
        except pg8000.dbapi.DatabaseError as error:
            fields = error.args[0]
            return Asked(fields.get("C", ""), str(fields)) if fields else Asked("", "")
        except (pg8000.dbapi.InterfaceError, OSError) as error:
            return Asked("", repr(error))
        return Asked(OK, " ".join(str(notice) for notice in client.notices))

    with closing(client):
        yield ask


@contextmanager
def by_psql(where: Where, user: str) -> Iterator[Ask]:
    """A psql for each statement: many short connections."""
    keywords = where.libpq(user)
    password = keywords.pop("password")
    conninfo = " ".join(f"{name}={value}" for name, value in keywords.items())
    command = ["psql", conninfo, "-X", "-q", "-A", "-t", "-v", "VERBOSITY=verbose", "-c", NOTICES]

    def ask(sql: str) -> Asked:
        done = subprocess.run(  # noqa: S603
            [*command, "-c", sql],
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PGPASSWORD": password},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return Asked(OK, done.stderr)
        _, found, rest = done.stderr.partition("ERROR:  ")
        return Asked(rest[:5] if found else "", done.stderr)

    yield ask


KINDS = {
    "psycopg": by_psycopg,
    "psycopg2": by_psycopg2,
    "asyncpg": by_asyncpg,
    "pg8000": by_pg8000,
    "psql": by_psql,
}
