"""What a dashboard of 21 charts costs that is opened and clicked on, in default questions.

    python -m benchmarks.dashboard [--clicks 200] [--people 20000] [--output FOLDER]

One row per person, five columns of 2, 3, 4, 5 and 12 listed values, and an amount. The charts are
written as Superset writes them: big numbers, bars by one column, tables by two, with counts, sums
and averages. One click in eight sets a filter of the whole board, or takes it away, and so asks all
charts again; the others drill by: one chart by another column, where one of its values was clicked
on. All by one analyst at the default ε, through the real proxy, five times:

    slices    what is asked is measured, and the same question is free
    wide      tables are measured, and later questions are derived of them
    plan      the charts are opened at one price, the rest is as above
    cube      the owner measures all 32 sets of the columns first, each as exact as a question
    cube ε    the same for one question of the largest ε that a question may cost, in all

`worst error` is the largest stated error of a count as a part of a fresh answer's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import duckdb

from benchmarks.common import save, seconds, table
from benchmarks.drilldowns import SIZES
from dpsql.answering.together import AskTogether
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.proxy import Proxy
from dpsql.systems.cubes.cubes import CreateCube

HEADER = ("memory", "opening", "clicks", "in all", "free %", "worst error", "seconds")
FILTERS = ("region", "month")
COLUMNS = tuple(SIZES)
CUBE = (
    "CREATE DP CUBE board AS SELECT {columns}, COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS a "
    "FROM people GROUP BY CUBE ({columns}){options}"
)
WAYS = {
    "slices": "slice",
    "wide": "wide",
    "plan": "wide",
    "cube": "wide",
    "cube ε": "wide",
}


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows, by which columns."""

    metric: str
    keys: tuple[str, ...] = ()

    def sql(self, chosen: tuple[tuple[str, str], ...]) -> str:
        """The text as Superset writes it, where columns have the values that are chosen."""
        label = {"COUNT(*)": "count"}.get(self.metric, f'"{self.metric}"')
        items = [*(f"  {key} AS {key}" for key in self.keys), f"  {self.metric} AS {label}"]
        lines = ["SELECT", ",\n".join(items), "FROM main.people"]
        where = "\n  AND ".join(f"{column} IN ('{value}')" for column, value in sorted(chosen))
        lines += [f"WHERE\n  {where}"] if where else []
        if self.keys:
            lines += ["GROUP BY", ",\n".join(f"  {key}" for key in self.keys)]
            lines += [f"ORDER BY\n  {label} DESC"]
        return "\n".join([*lines, "LIMIT 10000"])


CHARTS = (
    *(Chart(metric) for metric in ("COUNT(*)", "SUM(amount)", "AVG(amount)")),
    *(Chart("COUNT(*)", (column,)) for column in COLUMNS),
    *(Chart("SUM(amount)", (column,)) for column in ("plan", "region", "month")),
    *(Chart("AVG(amount)", (column,)) for column in ("plan", "region", "sex")),
    *(Chart("COUNT(*)", pair) for pair in (("plan", "region"), ("sex", "band"), ("band", "month"))),
    *(Chart("SUM(amount)", pair) for pair in (("plan", "region"), ("region", "month"))),
    *(Chart("AVG(amount)", pair) for pair in (("plan", "sex"), ("band", "region"))),
)


def clicks(count: int, seed: int) -> Iterator[list[str]]:
    """The texts that each click sends."""
    dice = Random(seed)  # noqa: S311 - who clicks where
    chosen: dict[str, str] = {}
    for _ in range(count):
        if dice.random() < 1 / 8:
            column = dice.choice(FILTERS)
            if chosen.pop(column, None) is None:
                chosen[column] = f"{column}{dice.randrange(SIZES[column])}"
            yield [chart.sql(tuple(chosen.items())) for chart in CHARTS]
            continue
        chart = dice.choice([chart for chart in CHARTS if chart.keys])
        clicked = dice.choice(chart.keys)
        drilled = chosen | {clicked: f"{clicked}{dice.randrange(SIZES[clicked])}"}
        other = dice.choice([column for column in COLUMNS if column not in chart.keys])
        yield [Chart(chart.metric, (other,)).sql(tuple(drilled.items()))]


def build(folder: Path, people: int, memory: str) -> Path:
    """The people, whose columns the engine keeps to their lists, and the policy."""
    listed = {c: [f"{c}{n}" for n in range(size)] for c, size in SIZES.items()}
    columns = ", ".join(
        f"{c} VARCHAR NOT NULL CHECK ({c} IN ({', '.join(map(repr, values))}))"
        for c, values in listed.items()
    )
    dealt = ", ".join(f"'{c}' || (hash(i, '{c}') % {size})" for c, size in SIZES.items())
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE people (id INTEGER PRIMARY KEY, {columns}, amount INTEGER NOT NULL)"
        )
        rows = f"SELECT i, {dealt}, hash(i, 'amount') % 101 FROM range({people}) t (i)"
        connection.execute(f"INSERT INTO people {rows}")
    declared = "\n".join(f"{c} = {{ values = {values!r} }}" for c, values in listed.items())
    policy = folder / "dpsql.toml"
    policy.write_text(_POLICY.format(columns=declared, memory=memory), encoding="utf-8")
    return policy


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
amount = {{ bounds = [0, 100] }}

[budgets.default]
epsilon = 200
delta = 1e-6
memory = "{memory}"

[analysts.ana]
budget = "default"

[ledger]
path = "dpsql.ledger"
"""


@dataclass(frozen=True, slots=True)
class Session:
    """What a session cost, in default questions, and how good its counts were."""

    opening: float
    clicks: float
    free: float
    worst: float
    seconds: float


def session(way: str, texts: list[list[str]], people: int) -> Session:
    with tempfile.TemporaryDirectory() as name:
        policy = build(Path(name), people, WAYS[way])
        with Proxy.open(str(policy)) as proxy:
            whole = proxy.explain(Request("SELECT COUNT(*) AS n FROM people", "ana"))
            (fresh,) = whole.expected
            assert fresh is not None
            answers: list[Answer] = []

            def spent() -> float:
                return proxy.ledger.spent("default").amount / whole.charge.amount

            taken = seconds(lambda: answers.extend(_opened(proxy, way)))
            opening = spent()
            requests = [Request(sql, "ana") for each in texts for sql in each]
            taken += seconds(lambda: answers.extend(map(proxy.ask, requests)))
            in_all = spent()
    charged = [a.receipt.charged for a in answers if a.receipt is not None]
    counts = [a for a in answers if a.columns[-1].name == "count"]
    margins = [m for a in counts for row in a.margins for m in row if m is not None]
    free = 100 * charged.count(Loss(0)) / len(charged)
    return Session(opening, in_all - opening, free, max(margins) / fresh, taken)


def _opened(proxy: Proxy, way: str) -> Iterator[Answer]:
    """The answers to all charts, none of which is filtered."""
    requests = [Request(chart.sql(()), "ana") for chart in CHARTS]
    if way == "plan":
        answers, _ = proxy.run(AskTogether(requests))
        yield from answers
        return
    if way.startswith("cube"):
        options = " OPTIONS(epsilon = 1)" if way == "cube ε" else ""
        columns = ", ".join(COLUMNS)
        proxy.run(CreateCube(CUBE.format(columns=columns, options=options), "default", "duckdb"))
    yield from map(proxy.ask, requests)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--output", type=Path)
    wishes = parser.parse_args()
    texts = list(clicks(wishes.clicks, wishes.seed))
    questions = sum(map(len, texts)) + len(CHARTS)
    rows = []
    for way in wishes.ways:
        of = session(way, texts, wishes.people)
        cost = of.opening, of.clicks, of.opening + of.clicks
        rows.append((way, *cost, of.free, of.worst, of.seconds))
    title = f"{len(CHARTS)} charts, {wishes.clicks} clicks, {questions:,} questions"
    table(title, HEADER, rows)
    if wishes.output is not None:
        save(wishes.output, "dashboard", HEADER, rows, rows)


if __name__ == "__main__":
    main()
