"""A ledger on a PostgreSQL server, which several hosts share (the extra `postgres`).

One row, the head, has the sequence, the hash and the sums of the last entry. Every transaction that
writes locks it first: READ COMMITTED is then enough, since all that it reads afterwards is the
latest state. A commit counts when the server, and its synchronous standby, wrote it to disk. Each
host keeps a mark in a file of its own and refuses a head behind it.

SECURITY.md S33.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

import psycopg

from dpsql.ledgers import store
from dpsql.ledgers.chain import State
from dpsql.ledgers.codec import canonical
from dpsql.ledgers.ledger_store import UnknownCommit
from dpsql.ledgers.mark import Mark, read_mark, write_mark
from dpsql.ledgers.server_claims import ServerClaims, close_with
from dpsql.ledgers.windows import numbers_of
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.errors import LedgerError

ROOM = "dpsql_ledger"
"""The schema of the ledger's tables in its database."""

_IDENTITY = """(SELECT s.system_identifier::text || ':' || d.oid::text
  FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())"""
"""Read in each transaction: a pooler may lead the same connection to another server."""

_NEVER = "EXECUTE FUNCTION append_only()"

DEFINITIONS = (
    store.SCHEMA[0]
    .replace("INTEGER PRIMARY KEY", "bigint PRIMARY KEY")
    .replace("INTEGER", "bigint")
    .replace("BLOB", "bytea")
    .removesuffix(" STRICT"),
    store.SCHEMA[1].replace("BLOB", "bytea").removesuffix(" STRICT"),
    *(sql for sql in store.SCHEMA if sql.startswith(("CREATE INDEX", "CREATE UNIQUE INDEX"))),
    """CREATE TABLE head (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version text NOT NULL,
  sequence bigint NOT NULL,
  hash bytea NOT NULL,
  sums text NOT NULL,
  closed text
)""",
    """CREATE TABLE claims (
  place text PRIMARY KEY,
  holder text NOT NULL,
  until timestamptz NOT NULL
)""",
    """CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE integrity_constraint_violation USING MESSAGE = 'the ledger is append-only'; END $$""",
    f"CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries {_NEVER}",
    f"CREATE TRIGGER answers_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON answers {_NEVER}",
    f"CREATE TRIGGER head_stays BEFORE DELETE OR TRUNCATE ON head {_NEVER}",
    f"""CREATE TRIGGER head_goes_on BEFORE UPDATE ON head FOR EACH ROW
WHEN (NEW.sequence < OLD.sequence) {_NEVER}""",
    f"""CREATE FUNCTION entry_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.sequence <> (SELECT coalesce(max(sequence), -1) + 1 FROM {ROOM}.entries) THEN
    RAISE integrity_constraint_violation USING MESSAGE = 'the ledger is append-only';
  END IF;
  RETURN NEW;
END $$""",
    """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
FOR EACH ROW EXECUTE FUNCTION entry_follows()""",
    f"""CREATE FUNCTION state(
  OUT version text, OUT sequence bigint, OUT hash bytea, OUT sums text, OUT closed text,
  OUT triggers text[], OUT clock timestamptz, OUT identity text, OUT fsync text,
  OUT synchronous_commit text, OUT standby_names text, OUT standbys bigint
) LANGUAGE plpgsql AS $$
BEGIN
  SELECT h.version, h.sequence, h.hash, h.sums, h.closed,
    ARRAY(SELECT t.tgname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
      WHERE c.relnamespace = '{ROOM}'::regnamespace AND t.tgenabled IN ('O', 'A')
        AND NOT t.tgisinternal),
    clock_timestamp(), {_IDENTITY}, current_setting('fsync'),
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
    (SELECT count(*) FROM pg_stat_replication r WHERE r.state IS DISTINCT FROM 'backup')
  INTO version, sequence, hash, sums, closed, triggers, clock, identity, fsync,
    synchronous_commit, standby_names, standbys
  FROM {ROOM}.head h;
END $$""",
)
"""Definitions of all tables, triggers and functions; entries and answers are those of the SQLite
file. The function `state` reads all that a transaction asks first: each session plans it once,
also behind a pooler, where the client cannot prepare a statement.
"""

VERSION = sha256("\n".join(DEFINITIONS).encode()).hexdigest()[:16]
"""Version of the definitions, in the head."""

GRANTS = f"""GRANT USAGE ON SCHEMA {ROOM} TO {{role}};
GRANT SELECT, INSERT ON {ROOM}.entries, {ROOM}.answers TO {{role}};
GRANT SELECT, UPDATE ON {ROOM}.head TO {{role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {ROOM}.claims TO {{role}};
GRANT EXECUTE ON FUNCTION {ROOM}.state() TO {{role}}"""
"""Rights of a role that charges and cannot change tables."""

TRIGGERS = ("answers_stay", "entries_follow", "entries_stay", "head_goes_on", "head_stays")

_BEGIN = f"""BEGIN ISOLATION LEVEL {{}};
SET LOCAL search_path = {ROOM}, pg_temp;
SET LOCAL lock_timeout = '20s';
SET LOCAL idle_in_transaction_session_timeout = '20s';
"""
_WRITE = f"""{_BEGIN.format("READ COMMITTED READ WRITE")}
SELECT FROM head h FOR UPDATE OF h;
SELECT * FROM state()"""
_READ = f"{_BEGIN.format('REPEATABLE READ READ ONLY')}SELECT * FROM state()"

_CREATE = f"""{_BEGIN.format("READ COMMITTED READ WRITE")}
SELECT pg_advisory_xact_lock(31);
SELECT to_regnamespace('{ROOM}') IS NOT NULL, to_regclass('{ROOM}.head') IS NOT NULL,
  clock_timestamp()"""
_CONNECTED = f"""SELECT {_IDENTITY}, pg_is_in_recovery(), current_setting('server_encoding'),
  to_regclass('{ROOM}.head') IS NOT NULL"""

_LOST = "lost the connection to its server, and recorded nothing. Ask again."
_PROBLEMS = {
    "55P03": "is locked by another host for too long. Try again.",
    "57014": "was stopped by its server's time limit, and recorded nothing. Ask again.",
    "25P03": _LOST,
    "57P01": _LOST,
    "57P02": _LOST,
    "25006": "is on a server that only reads: a standby. Name the primary, or all servers and "
    "target_session_attrs=read-write.",
    "42501": "may not be used by this role. `dpsql help ledger` lists the rights that it needs.",
    "53100": "cannot grow: the server's disk is full. Make room.",
    "40001": "was changed by another host at the same time. Ask again.",
    "40P01": "was changed by another host at the same time. Ask again.",
}
_CLASSES = {
    "08": _LOST,
    "23": "has an entry for this query already, or that entry was refused by its tables.",
    "28": "refused the login. Check the user, and PGPASSWORD or ~/.pgpass.",
    "42": "lacks tables, or has others. Restore them from a backup.",
}
_UNREACHED = "cannot be reached. Check that its server runs, and its address in the policy."
_WEAK = (
    "Its server may lose what it said is recorded: {}. A lost charge would be spent twice, so "
    "nothing is charged. Change that setting and restart."
)


class PostgresStore:
    """A `Store` on a PostgreSQL server; the mark of this host is the file `{beside}.mark`.

    `url` is a connection string for libpq without a password.
    """

    has_hosts = True

    def __init__(self, url: str, beside: str, wait: Callable[[float], object] = time.sleep) -> None:
        self.name, self._url, self._beside = shown_address(url), url, beside
        self._wait = wait
        self._server: _Server | None = None
        self._claims = ServerClaims(partial(connect, url))

    insert_row = staticmethod(store.insert_row)
    insert_answer = staticmethod(store.insert_answer)
    rows_where = staticmethod(store.rows_where)
    last_checkpoint = staticmethod(store.last_checkpoint)
    payload_of = staticmethod(store.payload_of)
    answered = staticmethod(store.answered)

    def hash_at(self, opened: Any, sequence: int) -> bytes | None:
        """Return the recorded hash of one entry; the head has that of the last."""
        if opened.head is not None and sequence == opened.head[0]:
            last: bytes = opened.head[1]
            return last
        return store.hash_at(opened, sequence)

    def rows(self, opened: Any, first: int) -> Iterator[Any]:
        """Return the entries from `first` on, some thousands at a time.

        No entry is after the head: one that somebody put there makes the next charge fail.
        """
        if opened.head is not None and first > opened.head[0]:
            return
        while batch := store.rows_between(opened, first, _BATCH):
            yield from batch
            first += len(batch)
            if len(batch) < _BATCH:
                return

    @contextmanager
    def failing_closed(self) -> Iterator[None]:
        """Turn errors of the server and the system into a LedgerError with a fix."""
        try:
            yield
        except psycopg.Error as error:
            problem = _problem(error, reached=self._server is not None)
            self._drop()
            raise LedgerError(f"The ledger {self.name} {problem}") from None
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "unknown"
            raise LedgerError(f"The mark of the ledger {self.name} failed: {reason}.") from None
        except store.UNREADABLE:
            self._drop()
            raise LedgerError(f"The ledger {self.name} {_CLASSES['42']}") from None

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Use the connection of this process, opened anew if it is lost."""
        if self._server is None or self._server.is_lost():
            self._drop()
            self._server = _Server(connect(self._url))
        yield self._server

    @contextmanager
    def transaction(self, opened: Any, *, write: bool) -> Iterator[Sequence[str]]:
        """Run one transaction that holds the head's lock if it writes, or reads one snapshot."""
        try:
            # Others may move the mark after a snapshot; under the lock they have done so.
            earlier_mark = None if write else self.read_mark()
            self._begin(opened, _WRITE if write else _READ)
            opened.mark = self.read_mark() if write else earlier_mark
            if write:
                self._require_durable(opened)
            yield (opened.version, *opened.triggers)
            if write:
                self._commit(opened)
        finally:
            opened.roll_back()

    def _begin(self, opened: Any, batch: str) -> None:
        """Begin a transaction; on a new connection if the server ended the old one."""
        try:
            opened.begin(batch)
        except psycopg.OperationalError:
            if not opened.is_lost():
                raise
            self._reconnect(opened)
            opened.begin(batch)

    def _commit(self, opened: Any) -> None:
        opened.warnings.clear()
        try:
            done = opened.commit()
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate[:2] in {"08", "57", "25"}:
                with suppress(psycopg.Error, LedgerError):
                    self._reconnect(opened)
                raise UnknownCommit(self.name) from None
            raise
        if not done:
            raise LedgerError(f"The ledger {self.name} {_LOST}")
        if opened.warnings:
            # The server stopped waiting for its standby: recorded here, and maybe nowhere else.
            raise UnknownCommit(self.name)

    def _reconnect(self, opened: Any) -> None:
        """Replace a lost connection; waits some seconds for a server, as in a fail-over."""
        for seconds in _WAITS:
            with suppress(psycopg.Error, LedgerError):
                opened.replace(connect(self._url))
                return
            self._wait(seconds)
        opened.replace(connect(self._url))

    def _require_durable(self, opened: Any) -> None:
        """Raise LedgerError if the server may lose a commit that it confirmed."""
        fsync, commit, names, standbys = opened.settings
        weak = None
        if fsync != "on":
            weak = "fsync is off"
        elif commit == "off" or (names and commit not in {"on", "remote_apply"}):
            weak = f"synchronous_commit is {commit}"
        elif standbys and not names:
            weak = "it has a standby, and synchronous_standby_names is empty"
        if weak is not None:
            raise LedgerError(f"The ledger {self.name} is not durable. {_WEAK.format(weak)}")

    def create_place(self, ledger_id: str) -> None:
        """Do nothing: the server is there, or it is not."""

    def prepare_schema(
        self, opened: Any, create: Callable[[], None], *, ledger_id: str = ""
    ) -> None:
        """Write the tables into a database without any, then call `create`."""
        if opened.has_tables:
            return
        mark = read_mark(self._beside)
        if mark is not None and mark.ledger != ledger_id:
            raise LedgerError(
                f"The ledger {self.name} is gone or empty, but this host has a mark of it. Restore "
                "it from a backup. To start from nothing, lower the budgets by all that was spent, "
                f"then remove {self._beside}.mark."
            )
        (room, tables, opened.clock), opened.head = opened.run(_CREATE)[-1], None
        try:
            if not tables:
                if not room:
                    opened.run(f"CREATE SCHEMA {ROOM}")
                opened.run(";".join(DEFINITIONS))
                first = VERSION, bytes(32), "{}"
                opened.execute("INSERT INTO head VALUES (true, ?, -1, ?, ?)", first)
                create()
            self._commit(opened)
        finally:
            opened.roll_back()
        opened.has_tables = True

    def require_schema(self, schema: Sequence[str]) -> None:
        """Raise LedgerError unless version and triggers are those that this version writes."""
        if sorted(schema) != sorted((VERSION, *TRIGGERS)):
            raise LedgerError(
                f"The ledger {self.name} was written by another version of dpsql, or its tables or "
                "triggers were changed. Use that version, or restore it from a backup."
            )

    def random(self) -> int:
        """Return a random number of 128 bits."""
        return int(Entropy().below(1 << 128, 1)[0])

    def check_head(self, opened: Any, state: State) -> None:
        """Raise LedgerError unless the head has the sequence, the hash and the sums of the
        entries.
        """
        if opened.closed is not None:
            raise LedgerError(f"The ledger {self.name} is closed: {opened.closed}.")
        if opened.head != (state.sequence, state.hash, sums_text(state)):
            raise LedgerError(
                f"The ledger {self.name} was edited: its head does not follow from its entries. "
                "Restore it from a backup."
            )

    def write_head(self, opened: Any, state: State) -> None:
        """Record this state as the head."""
        opened.execute(
            "UPDATE head SET sequence = ?, hash = ?, sums = ?",
            (state.sequence, state.hash, sums_text(state)),
        )

    def retire(self, opened: Any, _state: State, why: str) -> None:
        """Record in the head, for all hosts, that nothing is charged here any more."""
        opened.execute("UPDATE head SET closed = ?", (f"it was moved to {why}",))

    def reopen(self, opened: Any) -> None:
        """Record in the head that hosts may charge here."""
        opened.execute("UPDATE head SET closed = NULL")

    def clock(self, opened: Any) -> datetime:
        """Return the server's time, read under the lock."""
        now: datetime = opened.clock.astimezone(UTC)
        return now

    def identity(self, opened: Any) -> str:
        """Return the identifiers of cluster and database: a restored dump has others."""
        identity: str = opened.identity
        return identity

    def read_mark(self) -> Mark | None:
        """Return this host's mark."""
        return read_mark(self._beside)

    def known_mark(self, opened: Any) -> Mark | None:
        """Return this host's mark as it was before what the transaction reads."""
        mark: Mark | None = opened.mark
        return mark

    @contextmanager
    def marking(self, opened: Any) -> Iterator[None]:
        """Hold a lock on a file that the processes of this host share."""
        import fcntl  # noqa: PLC0415 - not on Windows, where nothing can be asked

        del opened
        descriptor = os.open(f"{self._beside}.mark.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def write_mark(self, mark: Mark) -> None:
        """Replace this host's mark."""
        write_mark(self._beside, mark)

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        """Claim a text by a row with a lease."""
        with self._claims.claimed(text) as own:
            yield own

    @contextmanager
    def running(self, analyst: str) -> Iterator[int]:
        """Count a running query by a row with a lease."""
        with self._claims.running(analyst) as number:
            yield number

    def stamp(self) -> object:
        """Return the head and the server's identity."""
        with self.connection() as opened, self.transaction(opened, write=False):
            return opened.identity, opened.head, opened.closed

    def close(self) -> None:
        """Release all claims and connections."""
        self._claims.close()
        self._drop()

    def _drop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


_BATCH = 5_000
_MOST_WRITES = 1_000
_WAITS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to reach a server again."""


class _Server:
    """The connection of this process, and what its transaction read of the head and the server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.warnings, self._writes = list[str](), list[bytes]()
        self.close: Callable[[], object] = lambda: None
        self.clock = datetime.min.replace(tzinfo=UTC)
        self.head: tuple[int, bytes, str] | None = None
        self.mark: Mark | None = None
        self.replace(connection)

    def replace(self, connection: psycopg.Connection[Any]) -> None:
        """Use another connection; raises LedgerError if its server is not one for a ledger."""
        self.close()
        self._connection, self.close = connection, close_with(self, connection)
        self._process, warnings = os.getpid(), self.warnings
        self._writes.clear()

        def note(notice: Any) -> None:
            if notice.severity_nonlocalized == "WARNING":
                warnings.append(str(notice.sqlstate))

        connection.add_notice_handler(note)
        ((self.identity, standby, encoding, self.has_tables),) = self.run(_CONNECTED)
        if standby or encoding != "UTF8":
            self.close()
            needs = "is in a database without the encoding UTF8. Create another one."
            raise LedgerError(f"The ledger {_PROBLEMS['25006'] if standby else needs}")

    def run(self, sql: str) -> list[Any]:
        """Run statements without values in one round trip; return the first row of each result."""
        cursor, rows = self._connection.execute(sql.encode()), []
        while True:
            if cursor.pgresult is not None and cursor.pgresult.nfields:
                rows.append(cursor.fetchone())
            if not cursor.nextset():
                return rows

    def commit(self) -> bool:
        """Commit, and return whether the server did so. Raises psycopg.Error."""
        cursor = self._send(b"COMMIT")
        while cursor.nextset():
            pass
        return bool(cursor.statusmessage == "COMMIT")

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """Run one statement with `?` for each value.

        One that reads nothing waits for the next that does, or the commit: one round trip for all.
        """
        text = sql.replace("?", "%s")
        if text.startswith("SELECT"):
            self._send(b"")
            return self._connection.execute(text.encode(), values)
        self._writes.append(psycopg.ClientCursor(self._connection).mogrify(text, values).encode())
        return self._send(b"") if len(self._writes) >= _MOST_WRITES else None

    def _send(self, last: bytes) -> Any:
        """Run the statements that wait, and a last one, in one round trip."""
        batch = b";".join((*self._writes, last))
        self._writes.clear()
        return self._connection.execute(batch) if batch else None

    def begin(self, batch: str) -> None:
        """Begin a transaction, and read the head and the server's settings."""
        state = self.run(batch)[-1]
        self.version, *head, self.closed, self.triggers = state[:6]
        self.clock, self.identity, *self.settings = state[6:]
        if self.version is None:
            raise LedgerError("The ledger lost its head. Restore it from a backup.")
        self.head = head[0], bytes(head[1]), head[2]

    def roll_back(self) -> None:
        """End a transaction that did not commit."""
        self._writes.clear()
        with suppress(psycopg.Error):
            if self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._connection.execute(b"ROLLBACK")

    def is_lost(self) -> bool:
        """Test whether the connection ended, or belongs to the process before a fork."""
        return self._process != os.getpid() or self._connection.closed or self._is_broken()

    def _is_broken(self) -> bool:
        """Test whether the server ended an idle connection, without a round trip."""
        server = self._connection.pgconn
        with suppress(psycopg.Error):
            server.consume_input()
        return server.status != psycopg.pq.ConnStatus.OK


def connect(url: str) -> psycopg.Connection[Any]:
    """Return a connection of its own to the server. Raises psycopg.Error."""
    settings = {**_SETTINGS, **psycopg.conninfo.conninfo_to_dict(url)}
    # A pooler gives each transaction another session: nothing is prepared.
    return psycopg.connect(
        psycopg.conninfo.make_conninfo("", **settings), autocommit=True, prepare_threshold=None
    )


_SETTINGS = {
    "connect_timeout": "10",
    "tcp_user_timeout": "20000",
    "application_name": "dpsql ledger",
    "client_encoding": "utf8",
}


def sums_text(state: State) -> str:
    """Return the sums of all budgets as canonical JSON: the coordinates of what each has spent."""
    spent = {budget: state.spent(budget) for budget in state.accountants}
    return canonical({budget: numbers_of(loss) for budget, loss in spent.items()})


_SECRET = re.compile(r"(?<=:)[^/@:]*(?=@)|\?.*")


def shown_address(url: str) -> str:
    """Return a connection string as messages show it, without a password or options.

    >>> shown_address("postgresql://ana:x@db:5432/ledger?sslmode=require")
    'postgresql://ana:@db:5432/ledger'
    """
    return _SECRET.sub("", url)


def _problem(error: psycopg.Error, *, reached: bool) -> str:
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, psycopg.OperationalError)
        return (_LOST if reached else _UNREACHED) if lost else "cannot be used."
    return _PROBLEMS.get(state) or _CLASSES.get(state[:2], "cannot be used.")
