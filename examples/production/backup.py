"""Copy a ledger while servers use it.

    python backup.py dpsql.ledger backups/

SQLite's backup takes a state between two transactions; a plain copy could take half of one. The
mark stays where it is: it tells that a restored ledger is an older one.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path


def back_up(ledger: Path, folder: Path) -> Path:
    """Copy a ledger into a new folder, named after the time; return the copy."""
    there = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    there.mkdir(parents=True, mode=0o700)
    copy = there / ledger.name
    source = f"{ledger.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=60)) as opened,
        closing(sqlite3.connect(copy)) as target,
    ):
        opened.backup(target)
    copy.chmod(0o600)
    descriptor = os.open(copy, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return copy


if __name__ == "__main__":
    print(back_up(Path(sys.argv[1]), Path(sys.argv[2])))
