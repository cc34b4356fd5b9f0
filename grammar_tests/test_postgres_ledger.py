"""The ledger on real PostgreSQL servers: what fails, and what each host must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from dpsql.ledgers import postgres_store, server_claims
from dpsql.ledgers.postgres_store import PostgresStore
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger, accept_store
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.ledgers.transfer import move_ledger
from dpsql.model.errors import LedgerError, Refused
from dpsql.model.vocabulary import Loss
from grammar_tests import postgres_kit
from grammar_tests.ledger_kit import LOSS, ask, charge, exit_code, forked, recall
from grammar_tests.postgres_kit import Postgres
from grammar_tests.waiting import until

pytestmark = [
    pytest.mark.full("database servers are started"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def started() -> Iterator[Postgres]:
    with postgres_kit.running(fsync="on") as server:
        yield server


@pytest.fixture
def server(started: Postgres) -> Postgres:
    with admin(started) as session:
        session.execute("DROP SCHEMA IF EXISTS dpsql_ledger CASCADE")
    return started


def admin(server: Postgres, user: str = postgres_kit.OWNER) -> Any:
    return psycopg.connect(server.conninfo(user), autocommit=True)


def store_of(server: Postgres, folder: Path, host: str = "a") -> PostgresStore:
    return PostgresStore(server.conninfo(), str(folder / host), wait=lambda _: None)


def opened(server: Postgres, folder: Path, host: str = "a") -> StoredLedger:
    """The ledger as a host sees it, which the owner lets in if it is not the first."""
    store = store_of(server, folder, host)
    try:
        return StoredLedger.over(store)
    except LedgerError:
        assert store.read_mark() is None
        accept_store(store)
        return StoredLedger.over(store)


def at_commit(ledger: StoredLedger, monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Call `act(server, commit)` in place of the next commit alone."""
    commit = postgres_store._Server.commit
    calls = iter([act])

    def once(server: Any) -> bool:
        for do in calls:
            done: bool = do(server, lambda: commit(server))
            return done
        return commit(server)

    assert isinstance(ledger._store, PostgresStore)
    monkeypatch.setattr(postgres_store._Server, "commit", once)


# --- the connection --------------------------------------------------------------------------


def lost_before(server: Any, commit: Callable[[], bool]) -> bool:
    server._connection.pgconn.finish()
    return commit()


def lost_behind(server: Any, commit: Callable[[], bool]) -> bool:
    commit()
    server._connection.pgconn.finish()
    raise psycopg.OperationalError


def ended_by_the_server(server: Any, commit: Callable[[], bool]) -> bool:
    with psycopg.connect(server._connection.info.dsn, autocommit=True) as other:
        pid = server._connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        there = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        until(lambda: not other.execute(there, (pid,)).fetchone())
    return commit()


@pytest.mark.parametrize("lost", [lost_before, ended_by_the_server])
def test_a_connection_lost_before_the_commit_charges_nothing(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Any
) -> None:
    ledger = opened(server, tmp_path)
    at_commit(ledger, monkeypatch, lost)
    with pytest.raises(LedgerError, match="nothing was recorded"):
        ledger.charge(charge("q1"))
    assert ledger.spent("default") == Loss(0)
    ledger.charge(charge("q1"))
    ledger.verify()


def test_a_commit_whose_reply_is_lost_is_looked_up(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(server, tmp_path)
    at_commit(ledger, monkeypatch, lost_behind)
    assert ledger.charge(charge("q1")).after == LOSS
    assert [entry.query_id for entry in ledger.history()] == ["q1"]


def test_wrong_twin_every_commit_is_believed(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(server, tmp_path)
    monkeypatch.setattr(StoredLedger, "_require_committed", lambda *_: None)
    at_commit(ledger, monkeypatch, lost_before)
    ledger.charge(charge("q1"))  # an answer would follow
    with pytest.raises(LedgerError):  # and nobody was charged: the mark alone knows
        ledger.spent("default")


def test_without_any_server_nothing_is_answered_and_the_charge_stays(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(server, tmp_path)

    def gone(session: Any, commit: Callable[[], bool]) -> bool:
        assert commit()
        postgres_kit.control(server, "-m", "immediate", "stop")
        session._connection.pgconn.finish()
        raise psycopg.OperationalError

    at_commit(ledger, monkeypatch, gone)
    try:
        with pytest.raises(LedgerError, match="if it did, that counts"):
            ledger.charge(charge("q1"))
    finally:
        postgres_kit.control(server, "start")
    assert ledger.spent("default") == LOSS


@pytest.mark.parametrize("lost", [lost_before, lost_behind])
def test_a_move_whose_closing_may_be_lost_opens_no_second_place(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Any
) -> None:
    ledger, new = opened(server, tmp_path), tmp_path / "new"
    ledger.charge(charge("q1"))
    at_commit(ledger, monkeypatch, lost)
    with pytest.raises(LedgerError, match="if it did, that counts"):
        move_ledger(ledger, SqliteStore(str(new), Patience()))
    with closing(SqliteLedger.open(str(new))) as empty:
        assert empty.spent("default") == Loss(0)


def test_an_idle_connection_that_the_server_ended_is_opened_anew(
    server: Postgres, tmp_path: Path
) -> None:
    ledger = opened(server, tmp_path)
    with admin(server) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'dpsql ledger'"
        )
    assert ledger.charge(charge("q1")).after == LOSS


def test_parent_and_child_have_connections_of_their_own(server: Postgres, tmp_path: Path) -> None:
    ledger = opened(server, tmp_path)
    child = forked(lambda: ledger.charge(charge("child")))
    assert exit_code(child) == 0
    ledger.charge(charge("parent"))
    assert ledger.spent("default") == LOSS + LOSS


# --- locks and limits ------------------------------------------------------------------------


def test_a_lock_and_a_time_limit_of_the_server_charge_nothing(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(server, tmp_path)
    with admin(server) as holder, holder.transaction():
        holder.execute("SELECT 1 FROM dpsql_ledger.head FOR UPDATE")
        short = postgres_store._WRITE.replace("lock_timeout = '20s'", "lock_timeout = '1ms'")
        monkeypatch.setattr(postgres_store, "_WRITE", short)
        with pytest.raises(LedgerError, match="too long"):
            ledger.charge(charge("q1"))
        limited = short.replace("lock_timeout = '1ms'", "statement_timeout = '1ms'")
        monkeypatch.setattr(postgres_store, "_WRITE", limited)
        with pytest.raises(LedgerError, match="time limit"):
            ledger.charge(charge("q1"))
    monkeypatch.undo()
    assert ledger.charge(charge("q1")).after == LOSS


def test_a_host_that_pauses_holds_up_nobody_and_charges_nothing(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, other = opened(server, tmp_path), opened(server, tmp_path, "b")
    short = postgres_store._WRITE.replace("session_timeout = '20s'", "session_timeout = '1ms'")
    monkeypatch.setattr(postgres_store, "_WRITE", short)

    def pause(_session: Any, commit: Callable[[], bool]) -> bool:
        monkeypatch.undo()
        other.charge(charge("q2"))  # waits for the lock until the server ends the pause
        return commit()

    at_commit(paused, monkeypatch, pause)
    with pytest.raises(LedgerError, match=r"nothing was recorded|recorded nothing"):
        paused.charge(charge("q1"))
    monkeypatch.undo()
    other.charge(charge("q3"))
    assert {entry.query_id for entry in paused.history()} <= {"q2", "q3"}


def test_other_isolation_and_other_clocks_change_nothing(server: Postgres, tmp_path: Path) -> None:
    with admin(server) as session:
        session.execute("ALTER ROLE dpsql SET default_transaction_isolation = 'serializable'")
    try:
        first, second = opened(server, tmp_path), opened(server, tmp_path, "b")
        for ledger, hours in ((first, 1), (second, -1)):
            ledger._clock = partial(datetime.now(UTC).__add__, timedelta(hours=hours))
        for n in range(6):
            (first, second)[n % 2].charge(charge(f"q{n}"))
        times = [entry.time for entry in first.history()]
        assert times == sorted(times, reverse=True)
        assert max(times) - min(times) < timedelta(hours=1)
    finally:
        with admin(server) as session:
            session.execute("ALTER ROLE dpsql RESET default_transaction_isolation")


def race(server: Postgres, folder: Path, hosts: int, limit: Loss) -> list[int]:
    """The ends of processes, each a host that charges until it is refused."""
    for host in range(hosts):
        opened(server, folder, f"h{host}").close()

    def body(host: int) -> None:
        ledger = StoredLedger.over(store_of(server, folder, f"h{host}"))
        for n in range(10**6):
            try:
                ledger.charge(charge(f"{host}-{n}", limit=limit))
            except Refused:
                return

    children = [forked(partial(body, host)) for host in range(hosts)]
    return [exit_code(child) for child in children]


def test_hosts_race_for_one_budget(server: Postgres, tmp_path: Path) -> None:
    assert race(server, tmp_path, 4, Loss(100, 10**6)) == [0] * 4
    ledger = opened(server, tmp_path, "h0")
    ledger.verify()
    assert ledger.spent("default").amount == 99


def test_wrong_twin_a_charge_without_the_lock(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = opened(server, tmp_path), opened(server, tmp_path, "b")
    monkeypatch.setattr(
        postgres_store, "_WRITE", postgres_store._WRITE.replace(" FOR UPDATE OF h", "")
    )

    real = StoredLedger._book

    def late(ledger: StoredLedger, session: Any) -> Any:
        monkeypatch.setattr(StoredLedger, "_book", real)
        second.charge(charge("q2"))  # after the first read the head
        return real(ledger, session)

    monkeypatch.setattr(StoredLedger, "_book", late)
    with pytest.raises(LedgerError, match=r"head does not follow|refused by its tables"):
        first.charge(charge("q1"))


def test_a_charge_of_another_process_is_no_rollback_for_a_reader(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one charges and moves the mark once the reader has its snapshot."""
    reader, other = opened(server, tmp_path), opened(server, tmp_path)
    real = StoredLedger._book

    def late(ledger: StoredLedger, session: Any) -> Any:
        monkeypatch.setattr(StoredLedger, "_book", real)
        other.charge(charge("q1"))
        return real(ledger, session)

    monkeypatch.setattr(StoredLedger, "_book", late)
    assert reader.spent("default") == Loss(0)
    assert reader.spent("default") == LOSS


FULL = """CREATE FUNCTION public.is_full() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN RAISE {}; END $$;
ALTER TABLE dpsql_ledger.{} ADD CONSTRAINT has_room CHECK (public.is_full()) NOT VALID"""
ROOM = """ALTER TABLE dpsql_ledger.{} DROP CONSTRAINT has_room; DROP FUNCTION public.is_full"""


@pytest.mark.parametrize(
    ("failure", "table", "charged", "message"),
    [
        ("disk_full", "entries", 0, "disk is full"),
        ("disk_full", "answers", 1, "disk is full"),
        ("serialization_failure", "entries", 0, "changed by another host"),
    ],
)
def test_a_full_disk_charges_nothing_or_keeps_the_charge(
    server: Postgres, tmp_path: Path, failure: str, table: str, charged: int, message: str
) -> None:
    """A charge that cannot be recorded is none; an answer that cannot be kept stays charged."""
    ledger = opened(server, tmp_path)
    with admin(server) as session:
        session.execute(FULL.format(failure, table))
        with pytest.raises(LedgerError, match=message):
            ask(ledger, "q1")
        session.execute(ROOM.format(table))
    assert [entry.query_id for entry in ledger.history()] == ["q1"] * charged
    assert recall(ledger) is None
    ask(ledger, "q2")
    ledger.verify()


# --- other servers, other tables -------------------------------------------------------------


def test_a_standby_takes_no_charge(tmp_path: Path) -> None:
    with postgres_kit.running(fsync="on") as server:
        opened(server, tmp_path).close()
        with postgres_kit.standby(server), pytest.raises(LedgerError, match="standby"):
            StoredLedger.over(store_of(server, tmp_path))


FORGED = """INSERT INTO dpsql_ledger.entries (sequence, kind, time, data_version, hash)
VALUES ({}, 'refresh', 0, 2, decode(repeat('00', 32), 'hex'))"""
NO_HEAD = """ALTER TABLE dpsql_ledger.head DISABLE TRIGGER head_stays;
DELETE FROM dpsql_ledger.head"""
CHANGES = {
    "another version": "UPDATE dpsql_ledger.head SET version = 'other'",
    "a trigger is off": "ALTER TABLE dpsql_ledger.entries DISABLE TRIGGER entries_stay",
    "other sums": "UPDATE dpsql_ledger.head SET sums = '{}'",
    "an entry is forged": FORGED.format(3),
    "no head": NO_HEAD,
    "no tables": "DROP SCHEMA dpsql_ledger CASCADE",
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_tables_are_noticed(server: Postgres, tmp_path: Path, change: str) -> None:
    ledger = opened(server, tmp_path)
    ledger.charge(charge("q1"))
    with admin(server) as session:
        session.execute(CHANGES[change])
    with pytest.raises(LedgerError):
        ledger.charge(charge("q2"))
    with pytest.raises(LedgerError):
        StoredLedger.over(store_of(server, tmp_path))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET amount = 0",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "UPDATE answers SET payload = ''",
        "DELETE FROM answers",
        "DELETE FROM head",
        "UPDATE head SET sequence = 0",
        FORGED.format(9),
    ],
)
def test_the_tables_resist_change(server: Postgres, tmp_path: Path, statement: str) -> None:
    ledger = opened(server, tmp_path)
    ask(ledger)
    with admin(server) as session, pytest.raises(psycopg.IntegrityError):
        session.execute(f"SET search_path = dpsql_ledger; {statement}")
    ledger.verify()


def test_a_role_without_ddl_needs_tables_and_rights(server: Postgres, tmp_path: Path) -> None:
    with admin(server) as session:
        session.execute("DROP ROLE IF EXISTS proxy; CREATE ROLE proxy LOGIN")
    plain = PostgresStore(server.conninfo("proxy"), str(tmp_path / "a"))
    with pytest.raises(LedgerError, match="rights"):
        StoredLedger.over(plain)
    opened(server, tmp_path).close()
    with pytest.raises(LedgerError, match="rights"):
        StoredLedger.over(plain)
    with admin(server) as session:
        session.execute(postgres_store.GRANTS.format(role="proxy"))
    with closing(StoredLedger.over(plain)) as ledger:
        ask(ledger)
        assert recall(ledger) is not None
        with ledger.claimed("a question") as own:
            assert own
    with admin(server) as session:
        session.execute("DROP OWNED BY proxy; DROP ROLE proxy")


@pytest.mark.parametrize("weak", ["fsync", "synchronous_commit"])
def test_a_server_that_may_lose_a_commit_is_refused(
    server: Postgres, tmp_path: Path, weak: str
) -> None:
    ledger = opened(server, tmp_path)
    ledger._store._drop()  # type: ignore[attr-defined] # a new session has the new setting
    with changed(server, weak, "off"), pytest.raises(LedgerError, match=f"{weak} is off"):
        ledger.charge(charge("q1"))
    assert ledger.spent("default") == Loss(0)


@contextmanager
def changed(server: Postgres, name: str, value: str) -> Iterator[None]:
    """Have a setting of a server be another one for a time."""
    with admin(server) as session:
        before = session.execute(f"SHOW {name}").fetchone()[0]
    change(server, name, value)
    yield
    change(server, name, before)


def change(server: Postgres, name: str, value: str) -> None:
    with admin(server) as session:
        session.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        session.execute("SELECT pg_reload_conf()")

    def is_changed() -> bool:
        with admin(server) as session:
            return bool(session.execute(f"SHOW {name}").fetchone() == (value,))

    until(is_changed)


# --- claims ----------------------------------------------------------------------------------


def test_a_claim_of_a_host_that_ended_lapses(server: Postgres, tmp_path: Path) -> None:
    first, second = opened(server, tmp_path), opened(server, tmp_path, "b")
    with first.claimed("a question") as own, second.claimed("a question") as other:
        assert (own, other) == (True, False)
    with second.claimed("a question") as own:
        assert own
        with admin(server) as session:
            session.execute("UPDATE dpsql_ledger.claims SET until = clock_timestamp()")
        with first.claimed("a question") as other:
            assert other


def test_a_count_that_the_server_stopped_holds_up_no_later_one(
    server: Postgres, tmp_path: Path
) -> None:
    ledger = opened(server, tmp_path)
    failed = list[LedgerError]()

    def count() -> None:
        try:
            with ledger.running("ana", 1):
                pass
        except LedgerError as error:
            failed.append(error)

    def stop() -> bool:
        with admin(server) as session:
            session.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'advisory'"
            )
        return bool(failed)

    with admin(server) as holder:
        lock = sha256(b"ana").hexdigest()[:16]
        holder.execute(f"SELECT pg_advisory_lock(x'{lock}'::bit(64)::bigint)")
        thread = Thread(target=count)
        thread.start()
        until(stop)
        thread.join()
    with ledger.running("ana", 1) as may, ledger.claimed("a question") as own:
        assert (may, own) == (True, True)


def test_running_and_late_queries_count_over_all_hosts(server: Postgres, tmp_path: Path) -> None:
    first, second = opened(server, tmp_path), opened(server, tmp_path, "b")
    first.record_late("ana", "q0")
    with first.running("ana", 3) as one, second.running("ana", 3) as two:
        assert (one, two) == (True, True)
        with first.running("ana", 3) as three, second.running("bob", 1) as other:
            assert (three, other) == (False, True)
        second.record_late("ana", "q1")
        with first.running("ana", 3) as three:
            assert not three
    with first.running("ana", 3) as one:
        assert one
    with admin(server) as session:
        assert session.execute("SELECT count(*) FROM dpsql_ledger.claims").fetchone() == (0,)


def test_wrong_twin_running_queries_that_each_host_counts_alone(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = server_claims._COUNT.replace("LIKE '{whose}%'", "= '{place}'")
    monkeypatch.setattr(server_claims, "_COUNT", alone)
    first, second = opened(server, tmp_path), opened(server, tmp_path, "b")
    with first.running("ana", 1) as one, second.running("ana", 1) as two:
        assert (one, two) == (True, True)  # two at once, where one may be late
