"""What was spent and is not in a restored ledger, by the server's log.

    python lost.py dpsql.ledger < log

Lower each budget by its sum, in ρ under zcdp and else in ε, before the ledger is accepted. A query
that failed has no amount in the log: it is counted, and its charge is one question's at most.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path


def lost(ledger: Path, log: Iterable[str]) -> tuple[Counter[str], int]:
    """The lost spending of each budget, and how many lost queries failed."""
    source = f"{ledger.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(source, uri=True)) as opened:
        rows = opened.execute("SELECT query_id FROM entries WHERE query_id IS NOT NULL")
        kept = {query for (query,) in rows}
    events = [json.loads(line) for line in log]
    charged = {e["query"]: e for e in events if e["event"] == "statement" and "charge" in e}
    sums: Counter[str] = Counter()
    for query, event in charged.items():
        if query not in kept:
            sums[event["budget"]] += event["charge"]
    failed = {e["query"] for e in events if e.get("answer") == "failed" and "query" in e}
    return sums, len(failed - kept)


if __name__ == "__main__":
    amounts, failures = lost(Path(sys.argv[1]), sys.stdin)
    for budget, amount in sorted(amounts.items()):
        print(f"{budget}: {amount:.9f} lost")
    print(f"{failures} failed queries lost")
