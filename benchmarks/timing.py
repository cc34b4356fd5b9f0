"""What time tells about one person, with each remedy and without it.

    python -m benchmarks.timing [QUESTIONS]

Three attacks on one bit of a person (is their age at least 64?): public cross joins behind the
condition, public tables of which all rows meet the person (by what is no key of theirs), and
self-joins of the person's own visits; by the clock, and by whether there is an answer at all where
many copies meet the time limit. The attacker knows the ages of two people,
looks how their questions are seen, and guesses others' by that, each at the smallest epsilon. The
bits are those of a binary channel with the errors that the guesses had; `refused` cost and told
nothing; of few guesses they are too many. No row takes much longer than MOST_SECONDS. With the
grid an analyst is stopped here after MAX_LATE late answers. The last table is what the grid leaves
to any attack whatever: log2 of the sum over i <= max_late of C(N, i) * G**i.

`as it was` is without every remedy: no limit on joins, a charge of next to nothing, no grid.
`counted` counts public rows before private ones meet them; `joins` limits joins besides.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from math import comb, log2
from pathlib import Path
from unittest.mock import patch

import duckdb

from benchmarks.common import table
from dpsql.compiler.rewrite.weights import MOST_WEIGHT
from dpsql.compiler.track import track, units
from dpsql.engines import Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.pool import EnginePool
from dpsql.interfaces.pgwire.pacing import FACTOR, FIRST_STEP, Pacer, step
from dpsql.model.errors import Failed, Refused
from dpsql.model.vocabulary import NANO, Request
from dpsql.policy.load import load
from dpsql.preparation import prepare
from dpsql.proxy import Proxy

PEOPLE, VISITS, CITIES, PLACES = 2000, 24, 5, 100
SMALLEST = Decimal("0.0005")
TIME_LIMIT = 6.0
MAX_LATE, MOST_SECONDS = 2, 20.0
DATA = (
    "CREATE TABLE people (person_id INTEGER PRIMARY KEY, age INTEGER NOT NULL, zone INTEGER)",
    f"INSERT INTO people SELECT i, 30 + 40 * (hash(i) % 2), 1 FROM range({PEOPLE}) r(i)",
    "CREATE TABLE visits (visit_id INTEGER PRIMARY KEY, person_id INTEGER, cost INTEGER)",
    f"INSERT INTO visits SELECT i, i % {PEOPLE}, i % 100 FROM range({PEOPLE * VISITS}) r(i)",
    f"CREATE TABLE cities AS SELECT 'z' || i AS city FROM range({CITIES}) r(i)",
    f"CREATE TABLE places AS SELECT 'p' || i AS place, 1 AS zone FROM range({PLACES}) r(i)",
)
POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"
[privacy_unit]
table = "people"
key = "person_id"
[tables.people]
access = "private"
key = "person_id"
expected_rows = 2000
[tables.people.columns]
person_id = {}
age = { bounds = [0, 120] }
zone = {}
[tables.visits]
access = "private"
key = "visit_id"
link = { column = "person_id", references = "people.person_id" }
expected_rows = 50000
max_rows_per_unit = 24
max_groups_per_unit = 1
max_rows_per_group = 24
[tables.visits.columns]
visit_id = {}
person_id = {}
cost = { bounds = [0, 100] }
[tables.cities]
access = "public"
[tables.places]
access = "public"
[budgets.default]
epsilon = 1000.0
delta = 0.0
accountant = "pure"
query_epsilon = 0.1
max_query_epsilon = 10.0
CHARGE
[analysts.eve]
budget = "default"
[ledger]
path = "people.ledger"
[limits]
statement_seconds = SECONDS
max_fanout = FANOUT
"""


@dataclass(frozen=True)
class Remedies:
    """Which of them are in force."""

    name: str
    counted: bool = False
    joins: bool = False
    charge: bool = False
    grid: bool = False


EACH = (
    Remedies("as it was"),
    Remedies("least charge", charge=True),
    Remedies("grid", grid=True),
    Remedies("counted", counted=True),
    Remedies("joins", counted=True, joins=True),
    Remedies("all", counted=True, joins=True, charge=True, grid=True),
)


def public_copies(count: int, person: int, salt: int) -> str:
    """The condition, then cross joins of a public table; `salt` makes it another question."""
    copies = ", ".join(f"cities c{n}" for n in range(count))
    return (
        f"SELECT COUNT(*) FROM people, {copies} WHERE person_id = {person} AND age >= 64"
        f" AND c0.city <> 'x{salt}'"
    )


def public_ties(count: int, person: int, salt: int) -> str:
    """The condition, then joins with a public table by what is no key of it.

    Without FILTER, DuckDB 2 itself counts places first, where its statistics advise it.
    """
    copies = " ".join(f"JOIN places q{n} ON q{n}.zone = p.zone" for n in range(count))
    return (
        f"SELECT COUNT(*) FILTER (WHERE p.age > 3) FROM people p {copies}"
        f" WHERE p.person_id = {person} AND p.age >= 64 AND q0.place <> 'x{salt}'"
    )


def self_joins(count: int, person: int, salt: int) -> str:
    """The condition, then the person's visits joined with each other."""
    names = [f"v{n}" for n in range(count)]
    joins = " ".join(f"JOIN visits {n} ON {n}.person_id = p.person_id" for n in names)
    theirs = " AND ".join(f"{n}.person_id = {person}" for n in ("p", *names))
    return (
        f"SELECT COUNT(*) FROM people p {joins} WHERE {theirs} AND p.age >= 64"
        f" AND v0.cost <> {1000 + salt}"
    )


ATTACKS = {
    "public copies, clock": partial(public_copies, 12),
    "public ties, clock": partial(public_ties, 4),
    "self-joins, clock": partial(self_joins, 6),
    "public copies, time-out": partial(public_copies, 14),
    "self-joins, time-out": partial(self_joins, 8),
}


def built(folder: Path, remedies: Remedies) -> str:
    """People of whom every other is old, each with visits; and a policy with these remedies."""
    with duckdb.connect(str(folder / "people.duckdb")) as database:
        for statement in DATA:
            database.execute(statement)
    text = POLICY.replace("CHARGE", "" if remedies.charge else "min_query_charge = 0.0")
    most = 10_000 if remedies.joins else MOST_WEIGHT if remedies.counted else 10**30
    text = text.replace("FANOUT", str(most))
    path = folder / "dpsql.toml"
    path.write_text(text.replace("SECONDS", str(TIME_LIMIT)), encoding="utf-8")
    return str(path)


@contextmanager
def opened(remedies: Remedies) -> Iterator[Proxy]:
    """A proxy over fresh data, as a server has it."""
    with ExitStack() as stack:
        if not remedies.joins:
            stack.enter_context(patch.object(units, "MOST_SELF_JOINS", 100))
        if not remedies.counted:
            stack.enter_context(patch.object(prepare, "weighed", lambda plan, *_: plan))
            stack.enter_context(patch.object(track, "counted", lambda relation, *_: relation))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        draft = load(built(folder, remedies))
        pool = EnginePool(partial(DuckDBEngine, draft.database, draft.limits), 1)
        yield stack.enter_context(Proxy.over(draft, pool))


@dataclass(frozen=True)
class Seen:
    """What a client sees of one question: how long, and whether there was an answer."""

    seconds: float
    answered: bool
    refused: bool = False


def asked(proxy: Proxy, sql: str, pacer: Pacer | None) -> Seen:
    stop = Stop(pace=None if pacer is None else pacer.of("eve"))
    began = time.perf_counter()
    refused = answered = False
    try:
        proxy.ask(Request(sql, "eve", epsilon=SMALLEST), stop)
        answered = True
    except Refused:
        refused = True
    except Failed:
        pass
    return Seen(time.perf_counter() - began, answered, refused)


@dataclass(frozen=True)
class Told:
    """What an attack told: questions, wrong guesses, bits, seconds, and what it was charged."""

    questions: int
    wrong: int
    refused: bool
    bits: float
    seconds: float
    epsilon: float


def attacked(remedies: Remedies, attack: str, questions: int) -> Told:
    """Guess the bit of several people, after learning what old and young look like."""
    ask_of = ATTACKS[attack]
    with opened(remedies) as proxy:
        pacer = None
        if remedies.grid:
            pacer = Pacer(proxy.ledger, 6.4, MAX_LATE, TIME_LIMIT, lambda **_facts: None)
        ages = dict(proxy.vault.engine.rows("SELECT person_id, age FROM people"))
        old = [p for p, age in ages.items() if age >= 64]
        young = [p for p, age in ages.items() if age < 64]
        asked(proxy, "SELECT COUNT(*) FROM people", None)  # the engine has started
        known = [asked(proxy, ask_of(p, n), pacer) for n, p in enumerate((old[0], young[0]))]
        if any(seen.refused for seen in known):
            return Told(0, 0, refused=True, bits=0, seconds=0, epsilon=0)
        people = [p for pair in zip(old[1:], young[1:], strict=False) for p in pair][:questions]
        before, began, wrong, count = spent(proxy), time.perf_counter(), 0, 0
        for salt, person in enumerate(people, 2):
            seen = asked(proxy, ask_of(person, salt), pacer)
            if seen.refused or time.perf_counter() - began > MOST_SECONDS:  # or was stopped
                break
            count += 1
            wrong += guess(seen, *known) != (ages[person] >= 64)
        seconds = time.perf_counter() - began
        return Told(
            count, wrong, False, count * capacity(wrong, count), seconds, spent(proxy) - before
        )


def guess(seen: Seen, old: Seen, young: Seen) -> bool:
    """Old, if it looks more like the old one; a fixed guess where they look alike."""
    if old.answered != young.answered:
        return seen.answered == old.answered
    middle = (old.seconds + young.seconds) / 2
    return seen.seconds > middle if old.seconds > young.seconds else seen.seconds < middle


def capacity(wrong: int, count: int) -> float:
    """Bits per use of a binary symmetric channel that errs so often."""
    rate = wrong / count if count else 0.5
    if rate in (0, 1):
        return 1.0 if count else 0.0
    return 1 + rate * log2(rate) + (1 - rate) * log2(1 - rate)


def spent(proxy: Proxy) -> float:
    """ε so far, of all analysts."""
    ((budget, loss, _limit),) = proxy.budgets()
    assert budget.accountant == "pure"
    return loss.amount / NANO


def left(questions: int, later: int, most: int = 20) -> float:
    """The bits that the grid leaves to any attack, until the owner acts.

    >>> round(left(100_000, 5))
    318
    """
    return log2(sum(comb(questions, i) * later**i for i in range(most + 1)))


def main() -> None:
    questions = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    for attack in ATTACKS:
        rows = []
        for remedies in EACH:
            told = attacked(remedies, attack, questions)
            rows.append((remedies.name, *shown(told)))
        header = ("remedies", "questions", "wrong", "bits", "bits/s", "bits/ε")
        table(attack, header, rows)
    later = sum(1 for n in range(20) if 0.4 < FIRST_STEP * FACTOR**n <= step(300))
    rows = [(n, left(n, later), left(n, later) / n) for n in (10, 100, 1000, 10_000, 100_000)]
    table(f"Bits that the grid leaves, G = {later}", ("questions", "bits", "bits/question"), rows)


def shown(told: Told) -> tuple[object, ...]:
    if told.refused:
        return "refused", "", 0.0, 0.0, 0.0
    per_second = told.bits / told.seconds if told.seconds else 0.0
    return told.questions, told.wrong, told.bits, per_second, told.bits / told.epsilon


if __name__ == "__main__":
    main()
