"""What a session of drill-downs costs, in default questions, with and without memory.

    python -m benchmarks.drilldowns [--questions 100 300 1000] [--people 20000] [--output FOLDER]

Of `people` with one row each: five columns of 2, 3, 4, 5 and 12 listed values (1,440 cells). Of
`orders`, about ten of each of the demo's customers: two columns of the customer and one of the
order. Every question counts rows by up to two columns, where up to two others have a value:
`SELECT … WHERE … GROUP BY` through the real proxy, at the default ε, by one analyst. `today` keeps
the answers of the same question alone (`memory = "slice"`), `wide` measures whole tables and
derives from all of them. Every answer is at least as exact as a fresh one: `worst error` is the
largest stated one as a part of a fresh answer's, `cover` how many true counts (of people; orders
are clipped) lie within the stated 95 %.

Then how long it takes to derive 100 cells of 100,000 that are remembered, of five columns.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import duckdb
import numpy as np

from benchmarks.common import save, seconds, table
from dpsql.consistency.residuals import AskedCells
from dpsql.model.vocabulary import Answer, Mechanism, Noise, Request
from dpsql.policy import demo
from dpsql.proxy import Proxy
from dpsql.vault.measured_cells import CellReading, derivation

SIZES = {"sex": 2, "plan": 3, "band": 4, "region": 5, "month": 12}
HEADER = (
    "rows",
    "questions",
    "memory",
    "default questions",
    "free",
    "worst error",
    "cover %",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class Drill:
    """A question: its text, and what the truth is computed by."""

    source: str
    keys: tuple[str, ...]
    values: tuple[tuple[str, str], ...]

    @property
    def sql(self) -> str:
        where = " AND ".join(f"{column} = '{value}'" for column, value in self.values)
        listed = ", ".join(self.keys)
        items = f"{listed}, COUNT(*) AS n" if self.keys else "COUNT(*) AS n"
        behind = f" WHERE {where}" * bool(where) + f" GROUP BY {listed}" * bool(self.keys)
        return f"SELECT {items} FROM {self.source}{behind}"


@dataclass(frozen=True, slots=True)
class World:
    """Rows that are asked about, with the values of their columns, and whether counts are true."""

    source: str
    values: Mapping[str, Sequence[str]]
    build: Callable[[Path, str], Path]
    unclipped: bool


@dataclass(frozen=True, slots=True)
class Session:
    """What a session cost, and how good its answers were."""

    cost: float
    free: int
    worst: float
    cover: float | None
    seconds: float


def drills(world: World, count: int, seed: int) -> list[Drill]:
    dice = Random(seed)  # noqa: S311 - which questions are asked
    result = []
    for _ in range(count):
        keys = dice.sample(list(world.values), dice.randint(0, 2))
        others = [column for column in world.values if column not in keys]
        chosen = sorted(dice.sample(others, dice.randint(0, min(2, len(others)))))
        values = ((c, world.values[c][dice.randrange(len(world.values[c]))]) for c in chosen)
        result.append(Drill(world.source, tuple(sorted(keys)), tuple(values)))
    return result


def people(count: int) -> World:
    """People whose columns the engine keeps to their lists."""
    listed = {c: [f"{c}{n}" for n in range(size)] for c, size in SIZES.items()}

    def build(folder: Path, memory: str) -> Path:
        columns = ", ".join(
            f"{c} VARCHAR NOT NULL CHECK ({c} IN ({', '.join(map(repr, values))}))"
            for c, values in listed.items()
        )
        dealt = ", ".join(f"'{c}' || (hash(i, '{c}') % {size})" for c, size in SIZES.items())
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.execute(f"CREATE TABLE people (id INTEGER PRIMARY KEY, {columns})")
            connection.execute(f"INSERT INTO people SELECT i, {dealt} FROM range({count}) t (i)")
        declared = "\n".join(f"{c} = {{ values = {values!r} }}" for c, values in listed.items())
        policy = folder / "dpsql.toml"
        policy.write_text(_POLICY.format(columns=declared, memory=memory), encoding="utf-8")
        return policy

    return World("people", listed, build, unclipped=True)


def orders() -> World:
    """The demo's orders, beside the customers whose they are."""

    def build(folder: Path, memory: str) -> Path:
        policy = demo.build(folder)
        text = policy.read_text(encoding="utf-8")
        text = text.replace("epsilon = 10.0", f'epsilon = 100.0\nmemory = "{memory}"', 1)
        policy.write_text(text, encoding="utf-8")
        return policy

    values = {
        "segment": ("consumer", "business"),
        "country": ("DK", "ES", "FI", "IT", "NO", "SE"),
        "status": ("open", "paid", "returned"),
    }
    return World("orders JOIN customers USING (customer_id)", values, build, unclipped=False)


_POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"

[privacy_unit]
table = "people"
key = "id"

[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {{}}
{columns}

[budgets.default]
epsilon = 100
delta = 1e-6
memory = "{memory}"

[analysts.ana]
budget = "default"

[ledger]
path = "dpsql.ledger"
"""


def session(world: World, questions: list[Drill], memory: str) -> Session:
    with tempfile.TemporaryDirectory() as name:
        policy = world.build(Path(name), memory)
        (database,) = Path(name).glob("*.duckdb")
        truth = duckdb.connect(str(database), read_only=True)
        with Proxy.open(str(policy)) as proxy:
            fresh = [_fresh(proxy, drill) for drill in questions]
            whole = proxy.explain(Request(f"SELECT COUNT(*) AS n FROM {world.source}", "ana"))
            answers: list[Answer] = []
            taken = seconds(lambda: answers.extend(_answers(proxy, questions)))
        charged = [a.receipt.charged.amount for a in answers if a.receipt is not None]
        within = [w for pair in zip(questions, answers, strict=True) for w in _within(truth, *pair)]
        truth.close()
    margins = [
        m / most
        for answer, most in zip(answers, fresh, strict=True)
        for row in answer.margins
        for m in row
        if m is not None
    ]
    return Session(
        sum(charged) / whole.charge.amount,
        charged.count(0),
        max(margins),
        100 * sum(within) / len(within) if world.unclipped else None,
        taken,
    )


def _fresh(proxy: Proxy, drill: Drill) -> float:
    """The error of an answer that takes nothing from memory."""
    sql = drill.sql.replace("SELECT", f"SELECT {_ALONE}", 1)
    *_, margin = proxy.explain(Request(sql, "ana")).expected
    assert margin is not None
    return margin


_ALONE = "WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'off')"


def _answers(proxy: Proxy, questions: list[Drill]) -> Iterator[Answer]:
    return (proxy.ask(Request(drill.sql, "ana")) for drill in questions)


def _within(truth: Any, drill: Drill, answer: Answer) -> Iterator[bool]:
    exact = {row[:-1]: row[-1] for row in truth.execute(drill.sql).fetchall()}
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        yield abs(row[-1] - exact.get(tuple(row[:-1]), 0)) <= (margins[-1] or 0)


def derived_milliseconds(rounds: int = 21) -> float:
    """The median time in which 100 cells are derived of 100,000, and how they err."""
    dice = np.random.default_rng(1)
    sizes = dict.fromkeys("abcde", 10)
    noise = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(2500))
    every = [
        CellReading(axes, noise, dice.integers(0, 1000, [10] * len(axes)).astype(float))
        for axes in (tuple("abcde"), tuple("abc"), tuple("cde"), tuple("bd"))
    ]
    target = AskedCells(("a", "b", "c"), (None, None, (3,)), sizes)
    times = (seconds(lambda: derivation(target, every).cells()) for _ in range(rounds))
    return 1000 * median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--questions", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    wishes = parser.parse_args()
    rows = []
    for what, world in (("people", people(wishes.people)), ("orders", orders())):
        for count in wishes.questions:
            for memory in ("slice", "wide"):
                of = session(world, drills(world, count, wishes.seed), memory)
                name = "today" if memory == "slice" else memory
                cover = "" if of.cover is None else of.cover
                rows.append((what, count, name, of.cost, of.free, of.worst, cover, of.seconds))
    cells = prod(SIZES.values())
    title = f"Drill-downs on {cells:,} cells of {wishes.people:,} people, and on the demo's orders"
    table(title, HEADER, rows)
    taken = derived_milliseconds()
    print(f"100 cells of 100,000 are derived in {taken:.2f} ms")
    if wishes.output is not None:
        save(wishes.output, "drilldowns", HEADER, rows, rows)


if __name__ == "__main__":
    main()
