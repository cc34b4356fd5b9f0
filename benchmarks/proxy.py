"""Time the proxy adds: a small query the first time and repeated, and the command line cold.

    python -m benchmarks.proxy [REPEATS]

First: compile, charge, release and finish, less the statement on the owner's database, timed by
itself in the same run. Repeated: the remembered answer. Cold: `dpsql query` as a whole process,
beside `python -c "import duckdb"`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.common import seconds, table
from dpsql.model.vocabulary import Request
from dpsql.policy import demo
from dpsql.proxy import Proxy

SMALL = "SELECT segment, COUNT(*) AS n FROM customers WHERE age > {} GROUP BY segment"
COLD = "SELECT COUNT(*) AS n FROM orders WHERE amount > {}"


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as name:
        policy = demo.build(Path(name))
        rows = [*warm(str(policy), repeats), *cold(policy, min(repeats, 10))]
    header = ("what", "median ms", "95th percentile ms", "promised at most")
    table(f"Proxy time on the demo, {repeats} repeats", header, rows)


def warm(policy: str, repeats: int) -> list[tuple[object, ...]]:
    """Explain, first answers and repeated answers on an open proxy."""
    with Proxy.open(policy) as proxy:
        proxy.ask(Request(SMALL.format(0), "ana"))
        plan = proxy.explain(Request(SMALL.format(1), "ana"))
        engine = partial(proxy.vault.engine.aggregate, plan.blocks[0].sql, 1, 1, 1)
        compiled = times(lambda n: proxy.explain(Request(SMALL.format(n + 2), "ana")), repeats)
        first = times(lambda n: proxy.ask(Request(SMALL.format(n + 2) + " ", "ana")), repeats)
        ran = statistics.median(times(lambda _n: engine(), repeats))
        again = times(lambda _n: proxy.ask(Request(SMALL.format(0), "ana")), repeats)
    added = [time - ran for time in first]
    return [
        ("parse to plan", *spread(compiled), "25"),
        ("first answer, engine excluded", *spread(added), "25"),
        ("repeated answer", *spread(again), "5"),
    ]


def cold(policy: Path, repeats: int) -> list[tuple[object, ...]]:
    """Whole processes."""

    def query(n: int) -> object:
        command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "query", COLD.format(n)]
        return subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    def bare(_n: int) -> object:
        return subprocess.run([sys.executable, "-c", "import duckdb"], check=True)

    return [
        ("dpsql query, cold", *spread(times(query, repeats)), "1000"),
        ("python -c 'import duckdb'", *spread(times(bare, repeats)), ""),
    ]


def times(action: Callable[[int], object], repeats: int) -> list[float]:
    return [seconds(partial(action, n)) for n in range(repeats)]


def spread(times_: list[float]) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(time * 1000 for time in times_)
    return statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]


if __name__ == "__main__":
    main()
