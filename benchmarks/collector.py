"""How many posts of reports a collector takes, and what keeping them costs.

`python -m benchmarks.collector [--posts 600]` sends so many posts of two reports by 1, 8 and 64
connections at once, to a collector and to the same server over a store that keeps nothing, and
prints posts a second, their ratio, and the median time of a post. What is acknowledged is on disk;
posts that come together share one write.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import Any

from benchmarks.common import table
from dpsql.policy.load import load
from dpsql.systems.local.collection import Collection
from dpsql.systems.local.collector import Listening, collect
from dpsql.systems.local.report_store import Post, ReportStore
from examples.local.collect import POLICY

BODY = json.dumps([{"bribe": "yes"}, {"bribe": "no"}])
SENDERS = 1, 8, 64


class Forgetful(ReportStore):
    """What a server costs that keeps nothing."""

    def add(self, posts: Sequence[Post]) -> int:
        del posts
        return 0


def serve(folder: str, store: type[ReportStore]) -> None:
    collection = Collection.of(load(f"{folder}/dpsql.toml"), "survey")
    listening = Listening("127.0.0.1", 0)
    collect(collection, store.open(collection, 100), listening, lambda s: print(s, flush=True))


def send(port: int, posts: int) -> list[float]:
    connection, seconds = HTTPConnection("127.0.0.1", port), []
    for _ in range(posts):
        begun = time.perf_counter()
        headers = {"Content-Type": "application/json", "Idempotency-Key": token_hex(16)}
        connection.request("POST", "/survey/reports", BODY, headers)
        with connection.getresponse() as answer:
            answer.read()
            assert answer.status == 204, answer.status
        seconds.append(time.perf_counter() - begun)
    connection.close()
    return seconds


def measured(store: type[ReportStore], posts: int) -> dict[int, tuple[float, float]]:
    """Posts a second and the median of their seconds, by how many send at once."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dpsql.toml").write_text(POLICY, encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.collector", "--serve", folder, store.__name__]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            assert server.stdout is not None
            port = int(server.stdout.readline().strip(" .\n").rpartition(":")[2])
            rates = {}
            for senders in SENDERS:
                begun = time.perf_counter()
                with ThreadPoolExecutor(senders) as pool:
                    sent = [pool.submit(send, port, posts // senders) for _ in range(senders)]
                    seconds = [second for each in sent for second in each.result()]
                rates[senders] = len(seconds) / (time.perf_counter() - begun), median(seconds)
            server.terminate()
            server.stdout.read()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--posts", type=int, default=600)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.serve:
        folder, name = options.serve
        serve(folder, Forgetful if name == Forgetful.__name__ else ReportStore)
        return
    kept, forgotten = (measured(store, options.posts) for store in (ReportStore, Forgetful))
    header = "senders", "posts/s", "ratio to keeping nothing", "median ms"
    rows = [(n, kept[n][0], kept[n][0] / forgotten[n][0], kept[n][1] * 1_000) for n in SENDERS]
    table(f"{options.posts} posts of two reports", header, rows)


if __name__ == "__main__":
    main()
