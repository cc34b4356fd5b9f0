"""A server lived with: 50 clients of five kinds, while data, certificates and workers come and go.

    python -m benchmarks.soak [--minutes 30] [--clients 50]

Every few seconds another database is moved into place and refreshed, another certificate is made
and taken up at SIGHUP, or a worker is killed. At the end each charge in the ledger must have
reached a client, as an answer or as a failure that named its query; each answer must have been
charged; each event must be in the log; and the server must hold no more than after its beginning.
The exit code says whether all of that holds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak_clients import KINDS, OK, Asked, Where
from benchmarks.soak_server import PATIENCE, Held, Served, serving, until
from dpsql.interfaces.pgwire import tls
from dpsql.interfaces.pgwire.login_file import User, verifier_of, write_users
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.policy import demo

PASSWORD = "soaked"  # noqa: S105 - of a demo
FREE = frozenset("42501 55000 58030".split())
"""What may be said without a charge: refused, or the data are being swapped."""
COST = re.compile(r"\), query (\w{16})")
FAILED = re.compile(r"Query (\w{16}) failed")
MOST_DESCRIPTORS, MOST_MEMORY, MOST_THREADS = 12, 32 << 20, 8
"""By how much a server may be larger at its end than at its beginning: caches are bounded."""
WARM_SECONDS = 20.0
SETTINGS = """\
[server]
certificate = "certificate.pem"
key = "key.pem"
max_late = 1000000

[ledger]"""


@dataclass(slots=True)
class Seen:
    """What the clients saw, all together."""

    outcomes: Counter[str] = field(default_factory=Counter)
    paid: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    logins: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, asked: Asked) -> None:
        failed = FAILED.findall(asked.told)
        with self.lock:
            self.outcomes[f"{kind} {asked.sqlstate}"] += 1
            self.paid.update(COST.findall(asked.told))
            self.failed.update(failed)
            if asked.sqlstate not in {OK, *FREE} and not failed:
                self.wrong.append(f"{kind}: {asked.sqlstate} {asked.told}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--clients", type=int, default=50)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        wrong = soak(Path(folder), given.minutes * 60, given.clients)
    print(*(f"WRONG: {line}" for line in wrong), f"{len(wrong)} things were wrong", sep="\n")
    sys.exit(bool(wrong))


def soak(folder: Path, seconds: float, clients: int) -> list[str]:
    """Live with a server in this folder for so long; all that was wrong."""
    policy, seen = prepared(folder), Seen()
    with serving(policy, folder / "log") as served:
        visit(served, clients, seen, min(WARM_SECONDS, seconds), [])
        before = served.settled()
        events = [*disturbances(policy, served)]
        wrong = visit(served, clients, seen, seconds, events)
        after = served.settled()
    print(*(f"{count:7} {what}" for what, count in sorted(seen.outcomes.items())), sep="\n")
    print(f"before {before}\nafter  {after}")
    return [*wrong, *seen.wrong[:20], *leaks(before, after), *accounts(folder, seen, served)]


def prepared(folder: Path) -> Path:
    """The demo with a certificate and an analyst for each kind of client."""
    policy = demo.build(folder)
    text = policy.read_text(encoding="utf-8").replace("epsilon = 10.0", "epsilon = 1000000.0")
    analysts = "".join(f'[analysts.{kind}]\nbudget = "default"\n\n' for kind in KINDS)
    policy.write_text(text.replace("[ledger]", analysts + SETTINGS), encoding="utf-8")
    users = {kind: User(verifier_of(PASSWORD)) for kind in KINDS}
    write_users(str(folder / "dpsql.users"), users)
    tls.self_signed(folder, "127.0.0.1")
    return policy


# --- clients ---


def visit(
    served: Served, clients: int, seen: Seen, seconds: float, events: list[Callable[[], bool]]
) -> list[str]:
    """Let clients ask for so long while things happen in turn; what did not happen."""
    where, ends = Where(served.port, PASSWORD), time.monotonic() + seconds
    kinds = [*KINDS] * (clients // len(KINDS))
    threads = [
        threading.Thread(target=asking, args=(kind, where, seen, number, ends), daemon=True)
        for number, kind in enumerate(kinds)
    ]
    for thread in threads:
        thread.start()
    dice, wrong = random.Random(0), list[str]()  # noqa: S311
    while events and time.monotonic() < ends:
        time.sleep(dice.uniform(0.5, 3))
        event = dice.choice(events)
        if not event():
            wrong.append(f"{event.__name__} was not taken up")
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()) + PATIENCE)
    return wrong + [f"{thread.name} hangs" for thread in threads if thread.is_alive()]


def asking(kind: str, where: Where, seen: Seen, number: int, ends: float) -> None:
    """One client: some questions, then another connection."""
    dice = random.Random(f"{number} {ends}")  # noqa: S311
    while time.monotonic() < ends:
        try:
            with KINDS[kind](where, kind) as ask:
                with seen.lock:
                    seen.logins += kind != "psql"
                for _ in range(dice.randrange(1, 40)):
                    seen.add(kind, ask(question(dice)))
                    with seen.lock:
                        seen.logins += kind == "psql"
                    if time.monotonic() > ends:
                        break
                    time.sleep(dice.uniform(0.05, 1.0))
        except Exception as error:  # noqa: BLE001 - told at the end
            with seen.lock:
                seen.wrong.append(f"{kind}: {error!r}")


def question(dice: random.Random) -> str:
    """Fresh, remembered, public, free of data, or refused."""
    fresh = f"SELECT COUNT(*) AS n FROM orders WHERE amount > {dice.randrange(10**9)} / 1000000.0"
    same = "SELECT country, COUNT(*) AS n FROM customers GROUP BY country"
    others = ("SELECT code FROM countries", "SELECT 1", "SELECT name FROM customers")
    return dice.choice((fresh, fresh, same, same, *others))


# --- what happens to the server ---


def disturbances(policy: Path, served: Served) -> Iterator[Callable[[], bool]]:
    """What may happen; each says whether the server took it up."""
    folder = policy.parent

    def reloaded(act: Callable[[], object]) -> bool:
        before = served.count("reloaded")
        act()
        return until(lambda: served.count("reloaded") > before)

    def data() -> bool:
        new = folder / "shop.new.duckdb"
        shutil.copy(folder / "shop.duckdb", new)
        new.replace(folder / "shop.duckdb")
        command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "refresh"]
        return reloaded(lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603

    def certificate() -> bool:
        (folder / "renewed").mkdir()
        tls.self_signed(folder / "renewed", "127.0.0.1")
        # A reload between the two would find a key of another certificate: it is told, and
        # changes nothing.
        for name in ("key.pem", "certificate.pem"):
            (folder / "renewed" / name).replace(folder / name)
        (folder / "renewed").rmdir()
        return reloaded(served.hang_up)

    def worker() -> bool:
        workers = served.workers()
        if not workers:
            return True
        victim = random.choice(workers)  # noqa: S311
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return until(lambda: served.count("worker_lost", process=victim))

    yield from (data, certificate, worker, worker)


# --- what must hold ---


def leaks(before: Held, after: Held) -> Iterator[str]:
    """What a server holds that nobody needs."""
    if after.descriptors > before.descriptors + MOST_DESCRIPTORS:
        yield f"descriptors leak: {before.descriptors}, then {after.descriptors}"
    if after.memory > before.memory * 1.25 + MOST_MEMORY:
        yield f"memory leaks: {before.memory:,}, then {after.memory:,} bytes"
    if after.threads > before.threads + MOST_THREADS:
        yield f"threads leak: {before.threads}, then {after.threads}"


def accounts(folder: Path, seen: Seen, served: Served) -> Iterator[str]:
    """What ledger, clients and log say differently."""
    ledger = SqliteLedger.open(str(folder / "dpsql.ledger"))
    ledger.verify()
    charged = {entry.query_id for entry in ledger.history(None, 1 << 40)}
    print(f"{len(charged)} charges, {len(seen.paid)} paid answers, {len(seen.failed)} failures")
    for query in sorted(charged - seen.paid - seen.failed)[:20]:
        yield f"{query} was charged, and nobody was told"
    for query in sorted(seen.paid - charged)[:20]:
        yield f"{query} was answered, and not charged"
    events = served.events
    logged = {event["query"] for event in events if "query" in event}
    for query in sorted((seen.paid | seen.failed) - logged)[:20]:
        yield f"{query} is not in the log"
    told, statements = Counter[str](), Counter[str]()
    for what, count in seen.outcomes.items():
        told[what.split()[1]] += count
    for event in events:
        if event["event"] == "statement":
            statements[event["sqlstate"]] += 1
    for sqlstate, count in told.items():
        # Clients say more than their questions where all goes well: SET, BEGIN.
        if statements[sqlstate] < count or (sqlstate != OK and statements[sqlstate] > count):
            yield f"{count} statements ended with {sqlstate}, the log has {statements[sqlstate]}"
    logins = served.count("login")
    if logins != seen.logins or logins != served.count("logout"):
        yield f"{seen.logins} logins, of which the log has {logins}"
    print(sorted(Counter(event["event"] for event in events).items()))


if __name__ == "__main__":
    main()
