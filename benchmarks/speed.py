"""CPU seconds of what dpsql runs, beside hand-written and plain SQL of the same numbers.

    python -m benchmarks.speed [--events FOLDER] [--tpch FOLDER [--scale 1]] [--prepared]
        [--analysts 8] [--rounds N]

The data are made in the folders, where they stay: ten million events of a million people (see
`benchmarks.events`), TPC-H of this scale factor with the customer as unit (see `benchmarks.tpch`).

Events: CPU of the engine, all its threads. `bare` is what any bound of contributions costs at the
least: `GROUP BY unit, key`, and a sum over that; `plain` is the question as it is written. All
three run in the same engine with the same settings, in turns; ratios are taken within a turn and
their median is shown. `found` is with the bound of a norm that is found in the same question.
Prepared: the same over the store that `dpsql prepare` makes of them, without rollups and with them;
and sums that rollups do not have, of rows that say in which of their unit's groups they are.
`floor` is the hand-written sum of all that the plan reads there, without any limit.

For the events as they are `floor` is hand-written SQL that has the limits, and knows that keys are
small numbers: units with more than L0 groups lose those whose place among their bits says so.

At once: so many analysts through one proxy and the DB-API, and through `dpsql serve`, which holds
answers, and what computes them, until the next moment of its grid: what that costs is the distance
to the same server without it; each with new questions one after another. `kept busy` is what the
questions answered per second take of CPU, alone, as a part of that of all processors; `p99 / queue`
how long 99 % wait at most, beside the turns of all analysts.

TPC-H: CPU of proxy and engine for a new question, its plan known, over that of DuckDB alone.
`floor` is what the hand-written `GROUP BY unit, key` of the largest private block costs there, of
the queries that are furthest from plain; of the others plain itself, and of the mean that of these.

Cold: CPU and time of a whole `dpsql query`, its engine included, for a question of which nothing is
kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from time import clock_gettime, perf_counter
from typing import Any

import asyncpg
import duckdb

import dpsql
from benchmarks import tpch
from benchmarks.common import seconds, table
from benchmarks.drafts import Price
from benchmarks.events import MILLION, built, policy_of
from benchmarks.wire import PASSWORD, Where, serving
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.pool import EnginePool
from dpsql.interfaces.pgwire.login_file import User, verifier_of, write_users
from dpsql.model.prepared_store import SCHEMA
from dpsql.model.vocabulary import Exact, Request
from dpsql.owner.preparing import preparation
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.tpch_kit import PRIVATE, query

LIMITS = "max_groups_per_unit = 5\nmax_rows_per_group = 20"
COLUMNS = MILLION.columns.replace("country = { bounds = [1, 50] }", "country = {}")
"""Countries are private keys here; months are twelve public ones."""
BOTH, UNITS = "COUNT(*) AS n, SUM(amount) AS s", "COUNT(DISTINCT user_id) AS n"
TWICE = "COUNT(*) AS n, SUM(2 * amount) AS s"
"""What no rollup has."""
ROLLED_UP = {"rows by unit": "[]", "rollups": '[[], ["country"], ["month"]]'}
"""What is made of the events, and its targets: 0.55 of the bare query, and the plain one."""
EACH = {BOTH: BOTH, TWICE: TWICE, UNITS: "1 AS n"}
"""What is computed of each unit and group, for whatever is asked of all units."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about the events, under these limits; with `found` the bound is found in it."""

    name: str
    shows: str
    key: str | None = None
    limits: str = LIMITS
    found: bool = False
    target: float = 1.35

    @property
    def plain(self) -> str:
        grouped = f" GROUP BY {self.key}" if self.key else ""
        shown = f"{self.key} AS k, {self.shows}" if self.key else self.shows
        return f"SELECT {shown} FROM events{grouped}"

    @property
    def bare(self) -> str:
        keys = ", ".join(["user_id", *([self.key] if self.key else [])])
        each = f"SELECT {keys}, {EACH[self.shows]} FROM events GROUP BY {keys}"
        names = [item.rpartition(" ")[2] for item in self.shows.split(", ")]
        return f"SELECT COUNT(*), {', '.join(f'SUM({name})' for name in names)} FROM ({each})"

    @property
    def bounded(self) -> str | None:
        """What anybody would write who keeps five groups of a unit, and twenty rows in each."""
        if not self.limits:
            return None
        sums = "least(n, 20) AS n, least(s, 20000) AS s" if self.shows == BOTH else "1 AS n"
        names = [item.rpartition(" ")[2] for item in self.shows.split(", ")]
        added = ", ".join(f"SUM({name})" for name in names)
        if self.key is None:
            each = f"SELECT {EACH[self.shows]} FROM events GROUP BY user_id"
            return f"SELECT {added} FROM (SELECT {sums} FROM ({each}))"
        keys, bit = f"user_id, {self.key}", f"(1::UBIGINT << {self.key})"
        each = f"SELECT {keys}, {EACH[self.shows]} FROM events GROUP BY {keys}"
        many = f"SELECT user_id, COUNT(*) AS m, bit_or({bit}) AS bits FROM totals GROUP BY user_id"
        place = f"(bit_count(bits & ({bit} - 1)) + (hash(7, user_id) >> 2)::BIGINT) % m"
        less = ", ".join(f"-{name} AS {name}" for name in names)
        lost = f"SELECT {self.key}, {less} FROM totals JOIN many USING (user_id) WHERE {place} >= 5"
        every = f"SELECT {self.key}, {', '.join(names)} FROM totals"
        return (
            f"WITH totals AS MATERIALIZED (SELECT {keys}, {sums} FROM ({each})),"
            f" many AS MATERIALIZED ({many} HAVING COUNT(*) > 5)"
            f" SELECT {self.key}, {added} FROM ({every} UNION ALL {lost}) GROUP BY ALL"
        )


QUESTIONS = (
    Asked("COUNT, SUM by country (50 private, L0 = 5)", BOTH, "country"),
    Asked("COUNT, SUM by month (12 public, L0 = 5)", BOTH, "month"),
    Asked("COUNT, SUM", BOTH),
    Asked("COUNT(DISTINCT unit) by country", UNITS, "country"),
    Asked("COUNT, SUM by month, norm known", BOTH, "month", ""),
    Asked("COUNT, SUM by month, norm found", BOTH, "month", "", found=True, target=1.7),
)


_PRICE = "l_extendedprice * (1 - l_discount)"
_ITEMS = "lineitem JOIN orders ON l_orderkey = o_orderkey"
_STORED = f'(SELECT *, "orders.o_custkey" AS o_custkey FROM {SCHEMA}.lineitem)'
"""The same rows over the prepared store, which needs no join."""
_MED_BOX = "SELECT p_partkey FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'"
_FOREST = "SELECT p_partkey FROM part WHERE p_name LIKE 'forest%'"
FLOORS = {
    1: (
        "l_returnflag, l_linestatus",
        (
            f"SUM(l_quantity) AS a, SUM({_PRICE}) AS b, SUM({_PRICE} * (1 + l_tax)) AS c,"
            " SUM(l_extendedprice) AS d, SUM(l_discount) AS e, COUNT(*) AS f"
        ),
        "l_shipdate <= DATE '1998-09-02'",
    ),
    15: (
        "l_suppkey",
        f"SUM({_PRICE}) AS a",
        "l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'",
    ),
    17: ("l_partkey", "SUM(l_quantity) AS a, COUNT(*) AS b", f"l_partkey IN ({_MED_BOX})"),
    20: (
        "l_partkey, l_suppkey",
        "SUM(l_quantity) AS a",
        (
            f"l_partkey IN ({_FOREST})"
            " AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"
        ),
    ),
}
"""The keys, sums and condition of the largest private block of a query of TPC-H."""


def floor(number: int, items: str = _ITEMS) -> str | None:
    """That block as anybody would write it who bounds what a customer contributes."""
    if number not in FLOORS:
        return None
    keys, sums, condition = FLOORS[number]
    each = f"SELECT o_custkey, {keys}, {sums} FROM {items} WHERE {condition} GROUP BY ALL"
    names = ", ".join(f"SUM({item.rpartition(' ')[2]})" for item in sums.split(", "))
    return f"SELECT {keys}, {names} FROM ({each}) GROUP BY ALL"


class Metered(DuckDBEngine):
    """The engine, and the CPU seconds of each private statement."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.private: list[float] = []

    def aggregate(self, *arguments: Any, **named: Any) -> Exact:
        before = self.seconds
        exact = super().aggregate(*arguments, **named)
        self.private.append(self.seconds - before)
        return exact

    @property
    def seconds(self) -> float:
        """CPU of its process so far, by the clock that Linux has of it."""
        return clock_gettime((~self._process << 3) | 2)

    @property
    def peak(self) -> float:
        """The most memory that it has held, in GB."""
        return int(self._read("status").split("VmHWM:")[1].split()[0]) * 1024 / 1e9

    def _read(self, file: str) -> str:
        return Path(f"/proc/{self._process}/{file}").read_text(encoding="ascii")

    @property
    def _process(self) -> int:
        worker: Any = self._worker
        return int(worker._process.pid)  # noqa: SLF001 - nobody else asks what it takes

    def of_rows(self, sql: str) -> float:
        before = self.seconds
        self.rows(sql)
        return self.seconds - before


def own_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """CPU of this process so far, or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def events(folder: Path, rounds: int) -> Iterator[tuple[object, ...]]:
    database = built(folder, MILLION)
    data, price = replace(MILLION, columns=COLUMNS), Price("zcdp", 1.0, 1e-6)
    for asked in QUESTIONS:
        with tempfile.TemporaryDirectory() as name:
            draft = load(str(policy_of(Path(name), database, data, price, asked.limits)))
            engine = Metered(draft.database, draft.limits)
            with Proxy.over(draft, engine) as proxy:
                turns = [turn(proxy, engine, asked) for _ in range(rounds + 1)][1:]
                by_hand = [engine.of_rows(asked.bounded) for _ in turns if asked.bounded]
        ours, bare, plain = (statistics.median(each) for each in zip(*turns, strict=True))
        ratio = statistics.median(mine / hand for mine, hand, _ in turns)
        floor = statistics.median(by_hand) / bare if by_hand else ""
        verdict = "holds" if ratio <= asked.target else "MISSED"
        yield asked.name, plain, bare, ours, ratio, floor, asked.target, verdict


def turn(proxy: Proxy, engine: Metered, asked: Asked) -> tuple[float, float, float]:
    """CPU of the private statements, of the bare ones and of the plain one."""
    proxy.ledger.refresh()
    if not (asked.found or asked.limits):  # what a cheaper answer finds is known to a better one
        proxy.ask(Request(asked.plain, "ana", epsilon=Decimal("0.5"), confirmed=True))
    engine.private.clear()
    proxy.ask(Request(asked.plain, "ana", confirmed=True))
    ours = sum(engine.private)
    return ours, engine.of_rows(asked.bare), engine.of_rows(asked.plain)


def prepared(folder: Path, rounds: int) -> Iterator[tuple[object, ...]]:
    """The same over what `dpsql prepare` made: without rollups, and with them."""
    database = built(folder, MILLION)
    data, price = replace(MILLION, columns=COLUMNS), Price("zcdp", 1.0, 1e-6)
    for title, rollups in ROLLED_UP.items():
        store = folder / f"{title}.duckdb"
        finer = [replace(a, name=f"{a.name}, twice", shows=TWICE) for a in QUESTIONS[:2]]
        for asked in [a for a in QUESTIONS if a.limits] + (finer if rollups != "[]" else []):
            with tempfile.TemporaryDirectory() as name:
                limits = f"{asked.limits}\nrollups = {rollups}"
                policy = policy_of(Path(name), database, data, price, limits)
                if asked is QUESTIONS[0]:
                    store.unlink(missing_ok=True)
                draft = load(str(with_store(policy, store)))
                engine = Metered(draft.database, draft.limits)
                with Proxy.over(draft, engine) as proxy:
                    turns = [turn(proxy, engine, asked) for _ in range(rounds + 1)][1:]
                    summed = rollups != "[]" and asked.shows != TWICE
                    by_hand = _over_store(asked, rolled_up=summed)
                    floor = statistics.median([engine.of_rows(by_hand) for _ in turns])
            times = [statistics.median(each) for each in zip(*turns, strict=True)]
            by_bare = statistics.median(mine / bare for mine, bare, _ in turns)
            by_plain = statistics.median(mine / plain for mine, _, plain in turns)
            held = by_plain <= 1 if summed else by_bare <= 0.55
            verdict = "holds" if held else "MISSED"
            yield title, asked.name, *reversed(times), floor, by_bare, by_plain, verdict


def _over_store(asked: Asked, *, rolled_up: bool) -> str:
    """What anybody would write over the store who bounds nothing."""
    if not rolled_up:
        return asked.bare.replace("FROM events", f"FROM {SCHEMA}.events")
    keys, rollup = ("k0", asked.key) if asked.key else ("1", "unit alone")
    sums = "SUM(rows), SUM(s0)" if asked.shows == BOTH else "COUNT(*)"
    return f'SELECT {keys}, {sums} FROM {SCHEMA}."events by {rollup}" GROUP BY 1'


def with_store(policy: Path, store: Path) -> Path:
    """The policy with a store, which is made, or made up to date."""
    text = policy.read_text(encoding="utf-8")
    named = text.replace("\n[privacy_unit]", f'\nprepared = "{store.resolve()}"\n[privacy_unit]', 1)
    policy.write_text(named, encoding="utf-8")
    with preparation(str(policy)) as planned:
        for step in planned.steps:
            planned.make(step)
        planned.writer.finish()
    return policy


def at_once(folder: Path, analysts: int, each: int) -> Iterator[tuple[object, ...]]:
    """New questions of all analysts at once, beside the CPU of one alone: of each door's own ledger
    none that was asked before.
    """
    database, price = built(folder, MILLION), Price("zcdp", 1.0, 1e-6)
    data = replace(MILLION, columns=COLUMNS)
    numbers = [range(n, n + each) for n in range(100, 100 + analysts * each, each)]

    @contextmanager
    def fresh() -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            policy = policy_of(Path(name), database, data, price, LIMITS)
            with policy.open("a", encoding="utf-8") as file:
                file.write(f"\n[server]\nmax_connections_per_analyst = {2 * analysts}\n")
            write_users(f"{name}/dpsql.users", {"ana": User(verifier_of(PASSWORD))})
            yield policy

    with fresh() as policy:
        draft = load(str(policy))
        engine = Metered(draft.database, draft.limits)
        with Proxy.over(draft, engine) as proxy:
            alone = statistics.median([_alone(proxy, engine, n) for n in range(4)][1:])
    for door, asked in DOORS.items():
        with fresh() as policy:
            waits, taken = asked(policy, numbers)
        yield door, *_at_once(alone, waits, taken, analysts)


def _in_process(policy: Path, numbers: Sequence[range]) -> tuple[list[float], float]:
    """How long each question took by threads of the DB-API, and all of them together."""
    draft = load(str(policy))
    make = partial(DuckDBEngine, draft.database, draft.limits)
    with Proxy.over(draft, EnginePool(make, draft.server.workers)) as proxy:
        _asked_by(proxy, [10])
        with ThreadPoolExecutor(len(numbers)) as threads:
            start = perf_counter()
            waits = [w for own in threads.map(partial(_asked_by, proxy), numbers) for w in own]
            return waits, perf_counter() - start


def _through(
    program: Sequence[str], policy: Path, numbers: Sequence[range]
) -> tuple[list[float], float]:
    """The same by clients of a server."""
    with serving(str(policy), program=program) as (where, _process):
        return asyncio.run(_served(where, [range(1, 2), *numbers]))


NO_GRID = """
from contextlib import nullcontext
from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire.pacing import AnalystPace
AnalystPace.paced = lambda *_: nullcontext()
main()
"""
Door = Callable[[Path, Sequence[range]], tuple[list[float], float]]
DOORS: dict[str, Door] = {
    "DB-API": _in_process,
    "dpsql serve, no grid": partial(_through, ("-c", NO_GRID)),
    "dpsql serve": partial(_through, ("-m", "dpsql")),
}


def _at_once(
    alone: float, waits: Sequence[float], taken: float, analysts: int
) -> tuple[object, ...]:
    rate, p99 = len(waits) / taken, sorted(waits)[-1 - len(waits) // 100]
    busy, queued = rate * alone / (os.cpu_count() or 1), p99 * rate / analysts
    verdict = "holds" if busy >= 0.9 and queued <= 1.5 else "MISSED"
    return analysts, len(waits), alone, rate, busy, 0.9, p99, queued, 1.5, verdict


async def _served(where: Where, numbers: Sequence[range]) -> tuple[list[float], float]:
    """How long each question took of all but the first of these clients, who asks alone; and all
    of theirs together.
    """
    settings = {"dpsql.confirm": "on"}
    clients = [await asyncpg.connect(**where, server_settings=settings) for _ in numbers]

    async def asked(client: Any, numbers: range) -> list[float]:
        waits = []
        for number in numbers:
            start = perf_counter()
            await client.fetch(_new(number))
            waits.append(perf_counter() - start)
        return waits

    await asked(clients[0], numbers[0])
    start = perf_counter()
    found = await asyncio.gather(*map(asked, clients[1:], numbers[1:]))
    taken = perf_counter() - start
    for client in clients:
        await client.close()
    return [wait for own in found for wait in own], taken


def _new(number: int) -> str:
    shown = f"SELECT country AS k, {BOTH} FROM events"
    return f"{shown} WHERE amount < {500 + number} GROUP BY country"


def _alone(proxy: Proxy, engine: Metered, number: int) -> float:
    """CPU of a new question, of this process and of the engine."""
    before = own_seconds() + engine.seconds
    proxy.ask(Request(_new(number), "ana", confirmed=True))
    return own_seconds() + engine.seconds - before


def _asked_by(proxy: Proxy, numbers: Iterable[int]) -> list[float]:
    """How long each of an analyst's questions took."""
    with dpsql.connect(analyst="ana", proxy=proxy, confirm=True) as connection:
        cursor = connection.cursor()
        return [seconds(partial(cursor.execute, _new(number))) for number in numbers]


def queries(
    folder: Path, scale: str, rounds: int, *, stored: bool = False
) -> Iterator[tuple[object, ...]]:
    tpch.prepare(scale, folder)
    policy, store = folder / "tpch.toml", folder / "tpch-store.duckdb"
    target, most = (1.6, 4.0) if stored else (2.5, 8.0)
    if stored:
        with_store(policy, store)
    draft = load(str(policy))
    engine = Metered(draft.database, draft.limits)
    ratios, floors = list[float](), list[float]()
    with (
        Proxy.over(draft, engine) as proxy,
        duckdb.connect(str(folder / "tpch.duckdb"), read_only=True) as plain,
    ):
        if stored:
            plain.execute(f"ATTACH '{store}' AS {SCHEMA} (READ_ONLY)")
        for number in PRIVATE:
            turns = [_both(proxy, engine, plain, query(number)) for _ in range(rounds + 1)][1:]
            own, run, theirs = (statistics.median(each) for each in zip(*turns, strict=True))
            ratio = statistics.median((a + b) / c for a, b, c in turns)
            bare = floor(number, _STORED if stored else _ITEMS)
            least = 1.0 if bare is None else _least(plain, bare, rounds) / theirs
            ratios.append(ratio)
            floors.append(least)
            yield f"Q{number}", theirs, run, own, *_verdict(ratio, least, most)
    mean, best = statistics.geometric_mean(ratios), statistics.geometric_mean(floors)
    yield "geometric mean", "", "", "", *_verdict(mean, best, target)


def _verdict(ratio: float, least: float, most: float) -> tuple[object, ...]:
    """A ratio, its floor, how far it is from that, the target, and whether it holds."""
    return ratio, least, ratio / least, most, "holds" if ratio <= most else "MISSED"


def _least(plain: duckdb.DuckDBPyConnection, sql: str, rounds: int) -> float:
    """Median CPU of a statement of this process's DuckDB."""

    def spent() -> float:
        before = own_seconds()
        plain.execute(sql).fetchall()
        return own_seconds() - before

    return statistics.median([spent() for _ in range(rounds + 1)][1:])


def _both(
    proxy: Proxy, engine: Metered, plain: duckdb.DuckDBPyConnection, sql: str
) -> tuple[float, float, float]:
    """CPU of this process and of the engine for a question, and of DuckDB alone."""
    proxy.ledger.refresh()
    own, run = own_seconds(), engine.seconds
    proxy.ask(Request(sql, "ana", confirmed=True))
    own, run = own_seconds() - own, engine.seconds - run
    before = own_seconds()
    plain.execute(sql).fetchall()
    return own, run, own_seconds() - before


def cold(rounds: int) -> Iterator[tuple[object, ...]]:
    """Commands of a new process each, over a small database of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect(str(folder / "events.duckdb")) as connection:
            connection.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY)")
            connection.execute(
                "CREATE TABLE events AS SELECT 1 AS user_id, 1 AS country, 1 AS month,"
                " 1 AS device, 1.0::DOUBLE AS amount"
            )
        policy = policy_of(folder, folder / "events.duckdb", MILLION, Price("zcdp", 1.0, 1e-6), "")
        asked = [f"SELECT COUNT(*) FROM users WHERE user_id > {n}" for n in range(rounds + 1)]
        commands = {
            "dpsql query": [["query", sql] for sql in asked],
            "dpsql explain": [["explain", sql] for sql in asked],
            "dpsql budget": [["budget"]] * len(asked),
            "dpsql --version": [["--version"]] * len(asked),
        }
        for title, each in commands.items():
            turns = [_of_command(["--policy", str(policy), *words]) for words in each][1:]
            spent, waited = (statistics.median(turn) for turn in zip(*turns, strict=True))
            yield title, spent, waited, 0.45, "holds" if waited <= 0.45 else "MISSED"


def _of_command(words: Sequence[str]) -> tuple[float, float]:
    """CPU of a command and of what it started and waited for, and how long it took."""
    before, start = own_seconds(resource.RUSAGE_CHILDREN), perf_counter()
    command = [sys.executable, "-m", "dpsql", *words]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return own_seconds(resource.RUSAGE_CHILDREN) - before, perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=Path, help="the folder of the events")
    parser.add_argument("--prepared", action="store_true", help="over what dpsql prepare makes")
    parser.add_argument("--analysts", type=int, default=0, help="how many ask the events at once")
    parser.add_argument("--tpch", type=Path, help="the folder of TPC-H")
    parser.add_argument("--scale", default="1", help="the scale factor of what is made there")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.events is not None:
        columns = "question", "plain", "bare", "dpsql", "dpsql / bare", "floor / bare", "target", ""
        table("Events, CPU s of the engine", columns, [*events(given.events, given.rounds)])
    if given.events is not None and given.prepared:
        stored = "store", "question", "plain", "bare", "dpsql", "floor", "/ bare", "/ plain", ""
        table("Prepared events, CPU s", stored, [*prepared(given.events, given.rounds)])
    if given.events is not None and given.analysts:
        shown = ("by", "analysts", "questions", "CPU s of one", "a second", "kept busy", "target")
        rows = [*at_once(given.events, given.analysts, 4 * given.rounds)]
        table("At once", (*shown, "p99 s", "p99 / queue", "target", ""), rows)
    if given.tpch is not None:
        each = ("query", "plain", "engine", "proxy", "both / plain", "floor / plain")
        titles = (*each, "both / floor", "target", "")
        table("TPC-H, CPU s", titles, [*queries(given.tpch, given.scale, given.rounds)])
        if given.prepared:
            rows = [*queries(given.tpch, given.scale, given.rounds, stored=True)]
            table("Prepared TPC-H, CPU s", titles, rows)
    table("Cold", ("command", "CPU s", "s", "target", ""), [*cold(given.rounds)])


if __name__ == "__main__":
    main()
