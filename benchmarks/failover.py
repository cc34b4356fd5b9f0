"""Fail-over of a PostgreSQL ledger: seconds until hosts charge again, and whether a charge is lost.

    python -m benchmarks.failover [ROUNDS [HOSTS]]

Each round starts two clusters of PostgreSQL 15: a primary and its synchronous standby. Hosts, each
a process with a mark of its own, charge as fast as they can. Then the primary is stopped at once,
as by a loss of power, and the standby is promoted. An answered charge that the promoted server does
not have would be a wrong answer. A charge that is there and was not answered is none: it counts.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from contextlib import closing, suppress
from typing import Any

import psycopg

from benchmarks.common import table
from benchmarks.ledger import charge
from dpsql.ledgers.postgres_store import PostgresStore
from dpsql.ledgers.sqlite import StoredLedger, accept_store
from dpsql.model.errors import LedgerError
from grammar_tests import postgres_kit
from grammar_tests.postgres_kit import DATABASE, OWNER, Postgres
from grammar_tests.waiting import until

ANSWERS_BEFORE = 20
"""Answers of each host before the primary stops."""
HEADER = (
    "round",
    "promoted s",
    "first host s",
    "last host s",
    "answered",
    "failed",
    "charges",
    "answered without a charge",
)


def address(*servers: Postgres) -> str:
    """Return a libpq address that leads to the server that takes charges."""
    folders = ",".join(server.folder for server in servers)
    ports = ",".join(str(server.port) for server in servers)
    there = f"host={folders} port={ports} user={OWNER} dbname={DATABASE}"
    return f"{there} target_session_attrs=read-write"


def open_host(url: str, mark: str) -> StoredLedger:
    """Return the ledger of a host, which the owner lets in first."""
    store = PostgresStore(url, mark)
    with suppress(LedgerError):
        return StoredLedger.over(store)
    accept_store(store)
    return StoredLedger.over(store)


def charge_until(url: str, mark: str, host: int, ends: Any, results: Any) -> None:
    """Charge in one process; send the time, the identifier and the outcome of each."""
    ledger, number = open_host(url, mark), 0
    while not ends.is_set():
        number += 1
        query_id = f"{host}-{number}"
        try:
            ledger.charge(charge(query_id))
        except LedgerError:
            results.put((host, query_id, False, time.monotonic()))
        else:
            results.put((host, query_id, True, time.monotonic()))
    results.put(None)


def follow(primary: Postgres) -> None:
    """Have the primary wait for its standby at each commit."""
    with psycopg.connect(primary.conninfo(), autocommit=True) as session:
        session.execute("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        session.execute("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        until(lambda: session.execute(state).fetchone() == ("sync",))


def one_round(number: int, hosts: int) -> tuple[Any, ...]:
    """Return the row of one fail-over."""
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_kit.running(fsync="on", wal_level="replica", max_wal_senders="5") as first,
        postgres_kit.standby_of(first) as second,
    ):
        follow(first)
        url, marks = address(first, second), [f"{folder}/{host}" for host in range(hosts)]
        for mark in marks:
            open_host(url, mark).close()
        context = multiprocessing.get_context("spawn")
        ends, results = context.Event(), context.Queue()
        workers = [
            context.Process(target=charge_until, args=(url, mark, host, ends, results))
            for host, mark in enumerate(marks)
        ]
        for worker in workers:
            worker.start()
        seen = [results.get() for _ in range(ANSWERS_BEFORE * hosts)]
        begun = time.monotonic()
        postgres_kit.control(first, "-m", "immediate", "stop")
        stopped = time.monotonic()
        postgres_kit.control(second, "promote")
        promoted = time.monotonic()
        back = dict[int, float]()
        while len(back) < hosts:
            seen.append(results.get())
            host, _, answered, at = seen[-1]
            if answered and at > stopped:
                back.setdefault(host, at - begun)
        ends.set()
        for _ in workers:
            seen += iter(results.get, None)
        for worker in workers:
            worker.join()
        with closing(StoredLedger.over(PostgresStore(url, marks[0]))) as ledger:
            ledger.verify()
            charged = {entry.query_id for entry in ledger.history(limit=10**9)}
            assert ledger.spent("b").amount == len(charged)
        postgres_kit.control(first, "start")  # the kit stops it
        told = {query_id for _, query_id, answered, _ in seen if answered}
        failed, lost = len(seen) - len(told), len(told - charged)
        times = promoted - begun, min(back.values()), max(back.values())
        return (number, *times, len(told), failed, len(charged), lost)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    hosts = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows = [one_round(number, hosts) for number in range(rounds)]
    table(f"Fail-over with {hosts} hosts, from the stop of the primary", HEADER, rows)


if __name__ == "__main__":
    main()
