"""A ledger on PostgreSQL: what was recorded and is gone is noticed, on every host."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from dpsql.ledgers import book as book_module
from dpsql.ledgers.postgres_store import PostgresStore
from dpsql.ledgers.sqlite import StoredLedger, accept_store
from dpsql.model.errors import LedgerError
from grammar_tests import postgres_kit
from grammar_tests.ledger_kit import LOSS, ask, charge, recall
from grammar_tests.postgres_kit import Postgres
from grammar_tests.test_postgres_ledger import admin, change, changed, opened, store_of
from grammar_tests.test_postgres_ledger import server as server  # noqa: PLC0414 - a fixture
from grammar_tests.test_postgres_ledger import started as started  # noqa: PLC0414 - a fixture
from grammar_tests.waiting import until

# --- what was recorded and is gone -----------------------------------------------------------


@pytest.mark.full("opens servers or connects clients")
def test_an_older_dump_is_noticed_by_the_host_and_accepted_by_the_owner(
    server: Postgres, tmp_path: Path
) -> None:
    ledger = opened(server, tmp_path)
    ledger.charge(charge("q1"))
    dump = Path(server.folder) / "dump"
    postgres_kit.tool(server, "pg_dump", "-n", "dpsql_ledger", "-f", dump, postgres_kit.DATABASE)
    ledger.charge(charge("q2"))
    with admin(server) as session:
        session.execute("DROP SCHEMA dpsql_ledger CASCADE")
    postgres_kit.tool(server, "psql", "-q", "-f", dump, postgres_kit.DATABASE)
    with pytest.raises(LedgerError):
        ledger.charge(charge("q3"))
    with pytest.raises(LedgerError, match="rolled back"):
        StoredLedger.over(store_of(server, tmp_path))
    accept_store(store_of(server, tmp_path))
    assert opened(server, tmp_path).spent("default") == LOSS


def forgets_what_another_host_charged(server: Postgres, folder: Path) -> bool:
    """Whether a host goes on after a dump without a charge that it has read, and did not make."""
    first, reader = opened(server, folder), opened(server, folder, "b")
    dump = Path(server.folder) / "earlier"
    postgres_kit.tool(server, "pg_dump", "-n", "dpsql_ledger", "-f", dump, postgres_kit.DATABASE)
    first.charge(charge("q1"))
    assert reader.spent("default") == LOSS
    for host in (first, reader):
        host.close()
    with admin(server) as session:
        session.execute("DROP SCHEMA dpsql_ledger CASCADE")
    postgres_kit.tool(server, "psql", "-q", "-f", dump, postgres_kit.DATABASE)
    return StoredLedger.over(store_of(server, folder, "b")).charge(charge("q2")).after == LOSS


def test_a_host_notices_the_loss_of_what_it_has_only_read(server: Postgres, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="rolled back"):
        forgets_what_another_host_charged(server, tmp_path)


def test_wrong_twin_a_host_that_marks_its_own_charges_alone(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresStore, "has_hosts", False)
    assert forgets_what_another_host_charged(server, tmp_path)


@pytest.mark.full("opens a proxy for each item")
def test_a_promoted_standby_has_every_charge_or_fails_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_kit.running(fsync="on", wal_level="replica", max_wal_senders="5") as first:
        ledger = opened(first, tmp_path)
        ledger.charge(charge("q1"))
        with postgres_kit.standby_of(first) as second:
            with pytest.raises(LedgerError, match="synchronous_standby_names is empty"):
                ledger.charge(charge("q2"))  # the connection is older than the standby
            ledger.close()
            change(first, "synchronous_standby_names", "second")
            with closing(opened(first, tmp_path)) as safe:
                safe.charge(charge("q2"))
            change(first, "synchronous_standby_names", "")
            postgres_kit.control(second, "-m", "fast", "stop")
            with closing(opened(first, tmp_path, "b")) as alone:
                alone.charge(charge("q3"))  # no standby has it
            postgres_kit.control(first, "-m", "immediate", "stop")
            postgres_kit.control(second, "start")
            postgres_kit.control(second, "promote")
            promoted = StoredLedger.over(store_of(second, tmp_path))
            assert promoted.spent("default") == LOSS + LOSS
            with pytest.raises(LedgerError, match="rolled back"):
                StoredLedger.over(store_of(second, tmp_path, "b"))
            monkeypatch.setattr(book_module, "check_mark", lambda *_: None)
            forgets = StoredLedger.over(store_of(second, tmp_path, "b"))  # a wrong twin
            assert forgets.spent("default") == LOSS + LOSS
            postgres_kit.control(first, "start")


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_commit_that_no_standby_confirmed_is_not_answered(
    server: Postgres, tmp_path: Path, end: str
) -> None:
    """The wait ends, or the connection, while COMMIT runs: it is recorded here alone."""
    ledger = opened(server, tmp_path)
    ledger.charge(charge("q1"))
    failed = list[LedgerError]()

    def spend() -> None:
        try:
            ledger.charge(charge("q2"))
        except LedgerError as error:
            failed.append(error)

    def stop_waiting() -> bool:
        with admin(server) as session:
            session.execute(f"SELECT {end}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        return bool(failed)

    with changed(server, "synchronous_standby_names", "nobody"):
        ledger._store._drop()  # type: ignore[attr-defined] # a new session has the new setting
        thread = Thread(target=spend)
        thread.start()
        until(stop_waiting)
        thread.join()
    assert "if it did, that counts" in str(failed[0])
    assert ledger.spent("default") == LOSS + LOSS


def test_a_pooler_that_leads_to_a_copy_is_noticed(server: Postgres, tmp_path: Path) -> None:
    """The client's connection stays, and a whole copy in another database has every entry."""
    with closing(opened(server, tmp_path)) as ledger, postgres_kit.pooling(server) as pooler:
        ledger.charge(charge("q1"))
        pooled = PostgresStore(pooler.conninfo, str(tmp_path / "a"), wait=lambda _: None)
        with closing(StoredLedger.over(pooled)) as through:
            ask(through, "q2")
            with through.claimed("a question") as own, through.running("ana", 9) as may:
                assert (own, may, recall(through) is not None) == (True, True, True)
            copy_to(server, "copy")
            pooler.lead_to("copy")
            with pytest.raises(LedgerError, match="is a copy"):
                through.charge(charge("q3"))
        assert ledger.spent("default") == LOSS + LOSS


def copy_to(server: Postgres, name: str) -> None:
    """Make another database with the tables of the first."""
    dump = Path(server.folder) / f"{name}.sql"
    postgres_kit.tool(server, "createdb", "-T", "template0", name)
    postgres_kit.tool(server, "pg_dump", "-n", "dpsql_ledger", "-f", dump, postgres_kit.DATABASE)
    postgres_kit.tool(server, "psql", "-q", "-f", dump, name)
