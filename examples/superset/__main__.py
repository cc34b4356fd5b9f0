"""Apache Superset over `dpsql serve`: a dashboard that may be refreshed for ever.

Installs Superset into an environment of its own, starts it beside `dpsql serve` over the demo's
data, registers the database, syncs the tables, makes a dashboard of 17 charts and 2 filters and
refreshes it 20 times. Ends with 1 if a chart is not answered or a refresh is charged.

python -m examples.superset [--folder DIR] [--environment DIR] [--stay]
"""

import argparse
import secrets
import sys
import time
from pathlib import Path

from dpsql.policy.demo import build
from examples.superset.api import Superset, SupersetError
from examples.superset.dashboard import Dashboard, described, make, render
from examples.superset.servers import ADMINISTRATOR, dpsql_server, install, run, superset_server

REFRESHES = 20


def shown(superset: Superset, dashboard: Dashboard) -> None:
    """Prints what Superset read of the tables, and the first row of every chart."""
    for name, number in dashboard.datasets.items():
        print(f"dataset {name}")
        for column, kind, comment in described(superset, number):
            print(f"    {column} {kind}" + (f": {comment}" if comment else ""))
    for title, rows in render(superset, dashboard).items():
        if not rows:
            sys.exit(f"{title} shows nothing")
        print(f"{title}: {len(rows)} rows, the first {rows[0]}")


def spent(policy: Path) -> str:
    """What the ledger says: what is left, and every charge."""
    ours = (sys.executable, "-m", "dpsql", "--policy", policy)
    return run(*ours, "budget") + "\n\n" + run(*ours, "history", "--limit", "1000")


def refreshed(superset: Superset, dashboard: Dashboard, policy: Path) -> None:
    """Refreshes the dashboard and compares what the ledger says before and after."""
    first, before = render(superset, dashboard), spent(policy)
    print(before.split("\n\n")[0])
    begun = time.perf_counter()
    for _ in range(REFRESHES):
        if render(superset, dashboard) != first:
            sys.exit("A refresh shows other numbers.")
    seconds = (time.perf_counter() - begun) / REFRESHES
    if spent(policy) != before:
        sys.exit("A refresh was charged.")
    entries = before.count("  charge  ")
    print(f"{len(first)} charts and filters: {entries} entries in the ledger, from the first time.")
    print(f"{REFRESHES} refreshes of {seconds:.1f} s: the same numbers, and nothing in the ledger.")


def main() -> None:
    """From two empty folders to the proof."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("dpsql-superset"))
    parser.add_argument("--environment", type=Path, help="where Superset is, or shall be")
    parser.add_argument("--stay", action="store_true", help="leave the servers on until Ctrl-C")
    options = parser.parse_args()
    environment = options.environment or options.folder / "environment"
    options.folder.mkdir(parents=True, exist_ok=True)
    install(environment)
    policy, password = build(options.folder / "demo"), secrets.token_urlsafe(12)
    for old in options.folder.glob("demo/dpsql.ledger*"):
        old.unlink()
    with (
        dpsql_server(policy, password) as uri,
        superset_server(environment, options.folder, password) as url,
    ):
        superset = Superset(url, ADMINISTRATOR, password)
        dashboard = make(superset, uri)
        shown(superset, dashboard)
        refreshed(superset, dashboard, policy)
        if options.stay:
            where = f"{url}/superset/dashboard/{dashboard.number}/"
            input(f"{where} (user {ADMINISTRATOR}, password {password}); Enter ends it: ")


try:
    main()
except SupersetError as error:
    sys.exit(f"Superset: {error}")
