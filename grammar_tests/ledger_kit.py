"""What the ledger tests share: charges, answers, ways to tamper, and child processes."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpsql.ledgers import Charge, Ledger, Remembered, store
from dpsql.ledgers.chain import EntryRow, link
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.vocabulary import (
    Event,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Noisy,
    SelectionEvent,
    Sensitivity,
)
from grammar_tests.postgres_kit import Postgres

EVENT = Event(
    (
        NoiseEvent(
            Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(1000, 3)),
            Sensitivity(2, -3, 10, Neighbours.REPLACE),
        ),
        SelectionEvent(Fraction(1, 10**9)),
    )
)
LOSS, LIMIT = Loss(3, 5), Loss(100, 10**6)
ANSWER = (Noisy((("north", None), ("south", Decimal("1.50"))), ((12, -3), (7, 2**70))),)
PLAIN = Charge(
    "q1", "ana", "default", "zcdp", Decimal("0.1"), EVENT, LOSS, LIMIT, "ab" * 32, "v1"
)  # fmt: skip


def charge(query_id: str = "q1", **changes: Any) -> Charge:
    """An ordinary charge, with some fields changed."""
    return replace(PLAIN, query_id=query_id, **changes)


def raw(path: Path) -> closing[sqlite3.Connection]:
    """The ledger's file as any program sees it."""
    return closing(sqlite3.connect(path, isolation_level=None))


def contents(path: Path) -> dict[str, bytes]:
    """Every byte of the ledger and its mark; only while no call is under way."""
    return {p.name: p.read_bytes() for p in sorted(path.parent.glob(f"{path.name}*"))}


def on_server(server: Postgres, beside: Path) -> StoredLedger:
    """A new ledger on a server, whose mark is beside a path."""
    import psycopg  # noqa: PLC0415 - an extra

    from dpsql.ledgers.postgres_store import PostgresStore  # noqa: PLC0415

    with psycopg.connect(server.conninfo(), autocommit=True) as session:
        session.execute("DROP SCHEMA IF EXISTS dpsql_ledger CASCADE")
    return StoredLedger.over(PostgresStore(server.conninfo(), str(beside), wait=lambda _: None))


def kept(ledger: StoredLedger) -> object:
    """All that a ledger's store keeps, and the mark; only while no call is under way."""
    kept = ledger._store
    if isinstance(kept, store.SqliteStore):
        return contents(Path(kept.name))
    with kept.connection() as opened:
        tables = [
            opened.execute(f"SELECT * FROM dpsql_ledger.{table} ORDER BY 1").fetchall()
            for table in ("entries", "answers", "head", "claims")
        ]
    return tables, kept.read_mark()


def ask(ledger: Ledger, query_id: str = "q1", **changes: Any) -> None:
    ledger.charge(charge(query_id, **changes))
    ledger.remember(query_id, ANSWER)


def recall(ledger: Ledger, **changes: Any) -> Remembered | None:
    same: dict[str, Any] = {
        "analyst": "ana",
        "question": PLAIN.question,
        "policy_version": PLAIN.policy_version,
        "epsilon": PLAIN.epsilon,
    }
    return ledger.recall(**(same | changes))


def used(path: Path) -> SqliteLedger:
    """A ledger with two answered queries, and a backup from after the first."""
    ledger = SqliteLedger.open(str(path))
    ask(ledger, "q1")
    back_up(path)
    ask(ledger, "q2")
    return ledger


# --- tampering -------------------------------------------------------------------------------


def edit(path: Path, *statements: str) -> None:
    """Run statements behind the triggers' back, and leave the schema as it was."""
    triggers = [sql for sql in store.SCHEMA if sql.startswith("CREATE TRIGGER")]
    with raw(path) as opened:
        for sql in triggers:
            opened.execute(f"DROP TRIGGER {sql.split()[2]}")
        for sql in (*statements, *triggers):
            opened.execute(sql)


def rewrite_chain(path: Path) -> None:
    """Halve every amount, and make every hash right again."""
    with raw(path) as opened:
        rows = [row for row, _ in store.rows(opened, 0)]
    last, updates = bytes(32), []
    for row in rows:
        changed = row._replace(amount=None if row.amount is None else row.amount // 2)
        last = link(last, changed)
        amount = "NULL" if changed.amount is None else changed.amount
        updates.append(
            f"UPDATE entries SET amount = {amount}, hash = x'{last.hex()}' "
            f"WHERE sequence = {row.sequence}"
        )
    edit(path, *updates)


def forge(path: Path) -> None:
    """Append an entry with a wrong hash: no trigger is against that."""
    with raw(path) as opened:
        last = [row for row, _ in store.rows(opened, 0)][-1]
        store.insert_row(opened, EntryRow(last.sequence + 1, "refresh", 0, 2), bytes(32))


def back_up(path: Path) -> Path:
    return Path(shutil.copy(path, path.with_suffix(".backup")))


def roll_back(path: Path) -> None:
    """Restore the backup into the same file."""
    path.write_bytes(path.with_suffix(".backup").read_bytes())


def restore(path: Path) -> None:
    """Restore a complete copy under the ledger's name."""
    Path(shutil.copy(path, path.with_suffix(".copy"))).replace(path)


def drop_trigger(path: Path) -> None:
    with raw(path) as opened:
        opened.execute("DROP TRIGGER entries_never_go")


def overwrite(path: Path, text: bytes) -> None:
    path.write_bytes(text)


def mark_file(path: Path) -> Path:
    return path.with_name(path.name + ".mark")


# --- processes -------------------------------------------------------------------------------


def forked(body: Callable[[], object]) -> int:
    """A child process that runs `body` and nothing else; exits 0 if it returned.

    A child that hangs is killed in the end, so that it fails its test.
    """
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def lines(descriptor: int) -> Iterator[str]:
    """Whole lines from a pipe until every writer is gone; closes it."""
    with open(descriptor, encoding="ascii") as pipe:
        for line in pipe:
            if line.endswith("\n"):
                yield line.rstrip("\n")
