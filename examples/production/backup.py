"""Copy a ledger and its mark while servers use them.

    python backup.py dpsql.ledger backups/

The mark first: a ledger may be ahead of its mark, never behind it. The ledger by SQLite's backup,
which takes a state between two transactions; a plain copy could take half of one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path


def back_up(ledger: Path, folder: Path) -> Path:
    """Both files in a new folder of their own, named after the time; the ledger there."""
    there = folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    there.mkdir(parents=True, mode=0o700)
    copy = there / ledger.name
    shutil.copyfile(f"{ledger}.mark", f"{copy}.mark")
    source = f"{ledger.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=60)) as opened,
        closing(sqlite3.connect(copy)) as target,
    ):
        opened.backup(target)
    for path in (copy, Path(f"{copy}.mark")):
        path.chmod(0o600)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return copy


if __name__ == "__main__":
    print(back_up(Path(sys.argv[1]), Path(sys.argv[2])))
