"""Charges per second and their latency, beside a bare insert with the same pragmas.

    python -m benchmarks.ledger [CHARGES [postgresql://…|postgres]]

The bare insert is one row, one transaction, one fsync discipline, on a connection kept open: the
least that a durable debit can cost here. The ledger adds its checks and its mark, which is one
more write to disk. Both take turns in the same folder. With the address of an empty database the
same is measured on that server: a charge of a ledger there, beside two floors. The plain insert
locks one row, inserts one of the size of an entry, and replaces the first, in five round trips.
The marked insert does the same in two round trips, and then writes the mark of its host to disk, as
each sound chain must whose server may lose commits: no charge with a mark can be faster. `postgres`
starts a PostgreSQL 15 of its own. The last line is the start of a ledger of a million entries.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import psycopg

from benchmarks.common import seconds, table
from dpsql.ledgers import Charge, Inquiry, LedgerPlace, store
from dpsql.ledgers.book import Book
from dpsql.ledgers.chain import EntryKind
from dpsql.ledgers.codec import encode_event, encode_inquiry
from dpsql.ledgers.ledger_store import Store
from dpsql.ledgers.ledger_transactions import utc_now
from dpsql.ledgers.mark import Mark, write_mark
from dpsql.ledgers.open_ledger import store_at
from dpsql.ledgers.postgres_store import sums_text
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger, accept_store
from dpsql.ledgers.store import Patience
from dpsql.model.errors import LedgerError
from dpsql.model.vocabulary import Event, Loss, Mechanism, Noise, NoiseEvent, Sensitivity
from grammar_tests import postgres_kit

PART = NoiseEvent(Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(1000, 3)), Sensitivity(1, 0, 10))
EVENT = Event((PART, PART))
ENTRIES = 1_009_000


def charge(query_id: str) -> Charge:
    limit = Loss(10**15, 10**15)
    epsilon, question = Decimal("0.1"), "ab" * 32
    return Charge(query_id, "ana", "b", "zcdp", epsilon, EVENT, Loss(1), limit, question, "v")


def charging(folder: str, name: str) -> Callable[[int], object]:
    ledger = SqliteLedger.open(f"{folder}/dpsql.ledger")
    return lambda n: ledger.charge(charge(f"{name}-{n}"))


def inserting(folder: str, name: str) -> Callable[[int], object]:
    """One row per transaction, with the ledger's pragmas and its way of waiting for locks."""
    patience = Patience()
    opened = sqlite3.connect(f"{folder}/bare.sqlite", timeout=0, isolation_level=None)
    for pragma in (*store._PRAGMAS, "CREATE TABLE IF NOT EXISTS bare (text TEXT) STRICT"):  # noqa: SLF001
        patience.retry(lambda: opened.execute(pragma))  # noqa: B023
    text = encode_event(EVENT)

    def insert(n: int) -> None:
        patience.retry(lambda: opened.execute("BEGIN IMMEDIATE"))
        opened.execute("INSERT INTO bare VALUES (?)", (f"{name}-{n}-{text}",))
        patience.retry(lambda: opened.execute("COMMIT"))

    return insert


def charging_on_server(folder: str, name: str) -> Callable[[int], object]:
    """Charges of one host, whose mark is in the folder."""
    store = store_at(LedgerPlace(f"{folder}/{name}", sys.argv[2]))
    try:
        ledger = StoredLedger.over(store)
    except LedgerError:
        accept_store(store)
        ledger = StoredLedger.over(store)
    return lambda n: ledger.charge(charge(f"{folder}-{name}-{n}"))


def inserting_on_server(folder: str, name: str) -> Callable[[int], object]:
    """One row per transaction, and the row that it follows, on a connection kept open."""
    del folder
    opened, text = bare_tables(), entry_text()

    def insert(n: int) -> None:
        opened.execute("BEGIN")
        opened.execute("SELECT text FROM last FOR UPDATE")
        opened.execute("INSERT INTO bare VALUES (%s)", (f"{name}-{n}-{text}",))
        opened.execute("UPDATE last SET text = %s", (f"{name}-{n}",))
        opened.execute("COMMIT")

    return insert


def inserting_with_marks(folder: str, name: str) -> Callable[[int], object]:
    """The same in two round trips, and the mark of the host after it."""
    opened, text = bare_tables(), entry_text()

    def insert(n: int) -> None:
        opened.execute("BEGIN; SELECT text FROM last FOR UPDATE")
        opened.execute(
            f"INSERT INTO bare VALUES ('{name}-{n}-{text}');"
            f"UPDATE last SET text = '{name}-{n}'; COMMIT"
        )
        write_mark(f"{folder}/{name}", Mark("id", n, text[:64], "1:2"))

    return insert


def bare_tables() -> psycopg.Connection[Any]:
    """Open a connection to a server with the tables of a floor."""
    opened = psycopg.connect(sys.argv[2], autocommit=True)
    with suppress(psycopg.Error):
        opened.execute("CREATE TABLE bare (text text)")
        opened.execute("CREATE TABLE last (text text)")
        opened.execute("INSERT INTO last VALUES ('')")
    return opened


def entry_text() -> str:
    """All columns of an entry as one text, and its hash."""
    return f"{encode_event(EVENT)}{'ab' * 64}{encode_inquiry(Inquiry())}"


MAKERS = {
    "ledger charge": charging,
    "bare insert": inserting,
    "server charge": charging_on_server,
    "server insert": inserting_on_server,
    "server insert + mark": inserting_with_marks,
}


def work(what: str, folder: str, name: str, count: int, start: Any, results: Any) -> None:
    """One process: sends the seconds of each of its calls."""
    call = MAKERS[what](folder, name)
    start.wait()
    results.put([seconds(lambda: call(n)) for n in range(count)])  # noqa: B023


def measured(what: str, processes: int, count: int) -> tuple[float, float, float]:
    """Calls per second of all processes, and the median and 99th percentile latency in ms."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        MAKERS[what](folder, "first")(0)
        start, results = context.Barrier(processes + 1), context.Queue()
        workers = [
            context.Process(
                target=work, args=(what, folder, f"p{n}", count // processes, start, results)
            )
            for n in range(processes)
        ]
        for worker in workers:
            worker.start()
        start.wait()
        begun = time.perf_counter()
        times = sorted(t for _ in workers for t in results.get())
        elapsed = time.perf_counter() - begun
        for worker in workers:
            worker.join()
    return len(times) / elapsed, 1000 * times[len(times) // 2], 1000 * times[len(times) * 99 // 100]


def opening(url: str) -> tuple[float, float]:
    """Seconds to open a ledger of many entries, and to charge it then.

    A server's entries are copied from a file: its ledger is that which the charges before left.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = store_at(LedgerPlace(f"{folder}/dpsql.ledger"))
        StoredLedger.over(file)
        fill(file)
        store = store_at(LedgerPlace(f"{folder}/server", url)) if url else file
        if url:
            copy_entries(file, url)
            accept_store(store)
        ledger: list[StoredLedger] = []
        opened = seconds(lambda: ledger.append(StoredLedger.over(store)))
        return opened, seconds(lambda: ledger[0].charge(charge("one more")))


def copy_entries(file: Store, url: str) -> None:
    """Put the entries and the head of a file into a server's ledger, past its triggers."""
    with psycopg.connect(url) as server, file.connection() as opened:
        with file.transaction(opened, write=False):
            book = Book(file, opened, utc_now)
            book.resume()
            server.execute("SET search_path = dpsql_ledger; SET session_replication_role = replica")
            server.execute("TRUNCATE entries, answers")
            with server.cursor().copy("COPY entries FROM STDIN") as copy:
                for row, recorded in file.rows(opened, 0):
                    copy.write_row((*row, recorded))
        head = book.state.sequence, book.state.hash, sums_text(book.state)
        server.execute("UPDATE head SET sequence = %s, hash = %s, sums = %s", head)


def fill(store: Store) -> None:
    """Many charges in one transaction, as the ledger writes them."""
    event = encode_event(EVENT)
    with store.connection() as opened, store.transaction(opened, write=True):
        book = Book(store, opened, utc_now)
        book.resume()
        for n in range(ENTRIES):
            book.append(
                EntryKind.CHARGE,
                query_id=f"q{n}",
                analyst=f"analyst {n % 20}",
                budget="b",
                accountant="zcdp",
                epsilon="0.1",
                amount=1,
                delta=0,
                event=event,
                question="ab" * 32,
                policy_version="v",
            )
        store.write_head(opened, book.state)


def main() -> None:
    if sys.argv[2:] != ["postgres"]:
        measure()
        return
    with postgres_kit.running(fsync="on") as server:
        sys.argv[2] = (
            f"postgresql://{postgres_kit.OWNER}@/{postgres_kit.DATABASE}?host={server.folder}"
        )
        measure()


def measure() -> None:
    """Print both tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    on_server = len(sys.argv) > 2
    here = [name for name in MAKERS if name.startswith("server") == on_server]
    debit, insert, *more = here
    rows = []
    for processes in (1, 4 if on_server else 8):
        of = {what: measured(what, processes, count) for what in (insert, *more, debit)}
        bare = of[insert][0]
        rows += [(what, processes, *each, bare / each[0]) for what, each in of.items()]
    header = ("what", "processes", "per second", "p50 ms", "p99 ms", "times the bare insert")
    table("Durable debits", header, rows)
    opened, charged = opening(sys.argv[2] if on_server else "")
    table(f"A ledger of {ENTRIES:,} entries", ("open s", "charge s"), [(opened, charged)])


if __name__ == "__main__":
    main()
