"""Counts of refusals by day, interface and reason: a file of their own next to the ledger.

Nothing reads the file to answer a query. Counts are written in batches: SECURITY.md S36.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import date

_TABLE = """CREATE TABLE IF NOT EXISTS refusals
    (day TEXT, interface TEXT, reason TEXT, count INTEGER, PRIMARY KEY (day, interface, reason))"""
_ADD = """INSERT INTO refusals VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count"""
_SUMS = """SELECT interface, reason, SUM(count) FROM refusals WHERE day BETWEEN ? AND ?
    GROUP BY interface, reason ORDER BY SUM(count) DESC, interface, reason"""

Counts = Mapping[tuple[str, str], int]
"""Numbers of refusals by interface and reason."""


def refusals_path(ledger: str) -> str:
    """Return the path of the counts for a ledger.

    >>> refusals_path("dpsql.ledger")
    'dpsql.ledger.refusals'
    """
    return f"{ledger}.refusals"


def add_refusals(ledger: str, day: date, counts: Counts) -> None:
    """Add counts to those of a day. A file that cannot be written loses them."""
    path = refusals_path(ledger)
    with suppress(OSError, sqlite3.Error):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(_TABLE)
            rows = [(day.isoformat(), *key, count) for key, count in counts.items()]
            file.executemany(_ADD, rows)


def read_refusals(ledger: str, first: date, last: date) -> Counts:
    """Return the counts from the first to the last day, the largest first.

    Empty if there are none, or if the file cannot be read.
    """
    path = refusals_path(ledger)
    if not os.path.exists(path):  # noqa: PTH110
        return {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as file:
        rows = file.execute(_SUMS, (first.isoformat(), last.isoformat()))
        return {(str(by), str(reason)): int(count) for by, reason, count in rows}
    return {}
