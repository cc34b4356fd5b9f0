"""How long budgets last under a board that is refreshed every day: periods, windows, neither.

    python -m benchmarks.three_years [--days 1095] [--charts 21] [--months 24] [--drills 50]
        [--analysts 10] [--every 1]

A table of events has rows of `months` closed months, and gets a day's rows every day; the owner
refreshes it. A board of charts is asked every day, and analysts, of whom half are there in a month,
ask drill-downs. Everything goes through the real proxy and its ledger, by a clock that is set;
noise comes from a seeded sampler.

`periods`: a unit is what one person did in one month. A chart is one statement for each month. The
present month's budget is divided in advance: half over its days, a quarter for one last answer of
each chart and for the month's cube. Answers are shared, so that the cube answers drill-downs by its
keys. One of `OTHERS` drill-downs has another condition: it is charged to its month, or refused.
`windows`: the budget of a person renews each month below a lifetime; a chart is one statement over
all months. `neither`: the same without renewal, and with ten charts. The first refused chart ends
a day.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import ceil
from pathlib import Path
from random import Random

import duckdb

from benchmarks.common import table
from dpsql import accountants, mechanisms
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.ledgers import Entry
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.calendars import Calendar, Renewal
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import NANO, Answer, Loss, Request
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound
from dpsql.proxy import Proxy
from dpsql.systems.cubes.cubes import CreateCube
from grammar_tests.draws import Stream, pooled

FIRST = date(2023, 11, 1)
STARTED = 15
"""Day of the month, counted from 0, at which the board begins."""
MONTHS = Calendar(Renewal.MONTH)
KEYS = {"kind": ["a", "b", "c"], "place": ["x", "y"], "plan": ["free", "paid"]}
VALUES = ("COUNT(*)", "SUM(minutes)", "COUNT(DISTINCT user_id)")
GROUPS = tuple(keys for size in (1, 2, 3, 0) for keys in combinations(KEYS, size))
CHARTS = tuple((value, keys) for keys in GROUPS for value in VALUES)[:21]
PEOPLE, ROWS = 300, 40
OTHERS = 4
BOARD = "board"

_POLICY = """
[database]
engine = "duckdb"
path = "events.duckdb"
[privacy_unit]
column = "events.user_id"
{period}
[tables.events]
access = "private"
max_rows_per_unit = 10
max_groups_per_unit = 3
max_rows_per_group = 5
[tables.events.columns]
user_id = {{}}
day = {{}}
minutes = {{ bounds = [0, 60] }}
{columns}
[budgets.default]
epsilon = {epsilon}
delta = 1e-6
query_epsilon = {query}
query_delta = 1e-9
{renews}
{analysts}
[ledger]
path = "dpsql.ledger"
"""
_PERIOD = f'period = {{ every = "month", from = "{FIRST:%Y-%m}", of = {{ events = "day" }} }}'
_RENEWS = 'renews = "month"\nlifetime_epsilon = {lifetime}\nlifetime_delta = 1e-5'


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is asked: charts, and drill-downs of analysts, each day; closed months of the charts
    `every` so many days.
    """

    days: int = 1095
    charts: int = 21
    months: int = 24
    drills: int = 50
    analysts: int = 10
    every: int = 1


@dataclass(slots=True)
class Lasted:
    """What became of a board: whole days, answers and refusals, and the worst ± of the present
    month's charts, in those of their first day.
    """

    whole: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0
    overspent: bool = False


class World:
    """The data, the clock and the proxy of one policy."""

    def __init__(self, folder: Path, policy: str, seed: int, months: int) -> None:
        self.dice = Random(seed)  # noqa: S311 - rows, and what is asked
        self.today = FIRST
        self._folder, self._loaded = folder, folder / "load.duckdb"
        with duckdb.connect(str(self._loaded)) as rows:
            listed = ", ".join(f"{name} VARCHAR NOT NULL" for name in KEYS)
            rows.execute(
                f"CREATE TABLE events(user_id INTEGER NOT NULL, day DATE NOT NULL,"
                f" minutes INTEGER NOT NULL, {listed})"
            )
        (folder / "dpsql.toml").write_text(policy, "utf-8")
        self.closed = [MONTHS.window_at(self.clock())]
        for _ in range(months):
            self.today = MONTHS.renewal_after(self.closed[-1])
            self.closed.append(self.month)
        self.closed.pop()
        self.today += timedelta(days=STARTED)
        self.load((self.today - FIRST).days + 1)
        draft = load(str(folder / "dpsql.toml"))
        engine = DuckDBEngine(draft.database, draft.limits)
        ledger = SqliteLedger.open(draft.ledger.path, clock=self.clock)
        rebind = partial(bound, draft, engine, ledger)
        sampler = partial(mechanisms.sample, entropy=Entropy(Stream(f"three years {seed}")))
        self.proxy = Proxy(rebind(), engine, ledger, pooled(sampler, 200), rebind)

    def clock(self) -> datetime:
        return datetime(self.today.year, self.today.month, self.today.day, 6, tzinfo=UTC)

    @property
    def month(self) -> str:
        return MONTHS.window_at(self.clock())

    def load(self, days: int = 1) -> None:
        """Add the rows of these last days, and put the new file in the place of the old one."""
        since = self.today - timedelta(days=days - 1)
        dealt = ", ".join(
            f"{values!r}[1 + (hash(i, '{name}', day) % {len(values)})::INT]"
            for name, values in KEYS.items()
        )
        with duckdb.connect(str(self._loaded)) as file:
            file.execute(
                f"INSERT INTO events SELECT hash(i, day) % {PEOPLE}, day, hash(day, i) % 61,"
                f" {dealt} FROM range({ROWS}) t(i), (SELECT DATE '{since}' + d::INT AS day"
                f" FROM range({days}) s(d))"
            )
        shutil.copy(self._loaded, self._folder / "new.duckdb")
        (self._folder / "new.duckdb").replace(self._folder / "events.duckdb")

    def ask(self, sql: str, analyst: str, epsilon: Decimal | None = None) -> Answer | None:
        """The answer, or None if the budget refuses it."""
        try:
            return self.proxy.ask(Request(sql, analyst, epsilon=epsilon))
        except Refused as refused:
            if "needed" not in refused.facts:
                raise
            return None


def text(value: str, keys: Sequence[str], where: str) -> str:
    """One statement of a chart or a drill-down."""
    listed = ", ".join(keys)
    group = f" GROUP BY {listed}" if keys else ""
    return f"SELECT {listed}{', ' * bool(keys)}{value} AS n FROM events WHERE {where}{group}"


def within(month: str) -> str:
    return f"day >= '{MONTHS.first_day(month)}' AND day < '{MONTHS.renewal_after(month)}'"


@contextmanager
def opened(period: str, renews: str, epsilon: str, query: str, scale: Scale) -> Iterator[World]:
    columns = "\n".join(f"{name} = {{ values = {values!r} }}" for name, values in KEYS.items())
    names = [BOARD, *(f"analyst_{n}" for n in range(scale.analysts))]
    listed = "\n".join(f'[analysts.{name}]\nbudget = "default"' for name in names)
    policy = _POLICY.format(
        period=period, columns=columns, epsilon=epsilon, query=query, renews=renews, analysts=listed
    )
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), policy, 1, scale.months)
        with world.proxy:
            yield world


def charged(answer: Answer) -> bool:
    assert answer.receipt is not None
    return not answer.receipt.remembered


def largest(answer: Answer) -> float:
    return max(row[-1] or 0.0 for row in answer.margins)


# --- a budget for each month ---


def affordable(share: int) -> Decimal:
    """The largest ε in steps of 0.0001 at which one answer costs at most this."""
    law, low, high = accountants.get("zcdp"), 1, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        allowed = law.allowance(Fraction(middle, 10_000), Fraction(1, 10**9), selects_keys=False)
        low, high = (middle, high) if ceil(allowed.amount * NANO) <= share else (low, middle)
    return Decimal(low).scaleb(-4)


def over_periods(scale: Scale, report: Callable[[str], None] = print) -> Lasted:
    """A board whose budget is divided over the days of the present month in advance."""
    lasted, charts = Lasted(), CHARTS[: scale.charts]
    with opened(_PERIOD, "share_answers = true", "4.0", "0.1", scale) as world:
        most = world.proxy.standings()[0].limit
        limit = most.amount
        daily = affordable(limit // (2 * 31 * len(charts)))
        final = affordable(limit // (4 * (len(charts) + 1)))
        first: dict[tuple[str, str], float] = {}
        months = [*world.closed, world.month]
        for month in world.closed:
            _close(world, month, charts, final)
        for day in range(scale.days):
            if months[-1] != world.month:
                _close(world, months[-1], charts, final)
                months.append(world.month)
            whole = True
            for value, keys in charts:
                closed = months[-scale.months - 1 : -1] if day % scale.every == 0 else []
                for month in [*closed, world.month]:
                    present = month == world.month
                    sql = text(value, keys, within(month))
                    answer = world.ask(sql, BOARD, daily if present else final)
                    if answer is None:
                        whole = False
                        continue
                    kind = "present month" if present else "closed months"
                    lasted.seen[f"{kind}: {'charged' if charged(answer) else 'free'}"] += 1
                    if present:
                        error = largest(answer)
                        lasted.worst = max(
                            lasted.worst, error / first.setdefault((sql, month), error)
                        )
            lasted.whole += whole
            _drill(world, scale, months, lasted)
            world.today += timedelta(days=1)
            world.load()
            world.proxy.refresh([world.month])
        lasted.overspent = _is_overspent(world, lambda entry: entry.periods, most)
        report(f"ε of a chart: {daily} each day, {final} when its month closes")
    return lasted


def _close(
    world: World, month: str, charts: Sequence[tuple[str, tuple[str, ...]]], final: Decimal
) -> None:
    """Ask each chart of a month for the last time, and measure its cube."""
    for value, keys in charts:
        world.ask(text(value, keys, within(month)), BOARD, final)
    by = ", ".join(KEYS)
    rows = f"SELECT {by}, {VALUES[0]} AS n FROM events WHERE {within(month)}"
    cube = f"CREATE DP CUBE closed AS {rows} GROUP BY CUBE ({by})"
    world.proxy.run(CreateCube(cube, None, "duckdb"))


def _drill(world: World, scale: Scale, months: Sequence[str], lasted: Lasted) -> None:
    """Ask the drill-downs of a day: each of a closed month, most by conditions on the cube's keys
    alone.
    """
    for number in range(scale.drills if len(months) > 1 else 0):
        month = world.dice.choice(months[-4:-1])
        conditions = [within(month)]
        for name, values in KEYS.items():
            if world.dice.random() < 0.5:
                conditions.append(f"{name} = '{world.dice.choice(values)}'")
        about = "drill-downs"
        if number % OTHERS == OTHERS - 1:
            conditions.append(f"minutes > {world.dice.randrange(60)}")
            about = "other drill-downs"
        sql = text(VALUES[0], tuple(KEYS), " AND ".join(conditions))
        # One analyst comes each month, and one goes.
        present = max(1, scale.analysts // 2)
        analyst = f"analyst_{(number % present + len(months)) % scale.analysts}"
        answer = world.ask(sql, analyst)
        kind = "refused" if answer is None else "charged" if charged(answer) else "free"
        lasted.seen[f"{about}: {kind}"] += 1


def _is_overspent(world: World, parts_of: Callable[[Entry], Sequence[str]], most: Loss) -> bool:
    """Whether the entries of one part of time add up to more than a limit, by the entries alone."""
    sums: dict[str, Loss] = {}
    for entry in world.proxy.ledger.history(limit=10**9):
        for part in parts_of(entry):
            sums[part] = sums.get(part, Loss(0)) + entry.loss
    return not all(spent.fits(most) for spent in sums.values())


# --- budgets of people ---


def over_windows(scale: Scale, epsilon: str, query: str, lifetime: str = "") -> Lasted:
    """A board whose budget renews each month below a lifetime, or never."""
    lasted, charts = Lasted(), CHARTS[: scale.charts]
    renews = _RENEWS.format(lifetime=lifetime) if lifetime else ""
    with opened("", renews, epsilon, query, scale) as world:
        most = [each.limit for each in world.proxy.standings()]
        for _ in range(scale.days):
            answers = []
            for value, keys in charts:
                answers.append(world.ask(text(value, keys, f"day >= '{FIRST}'"), BOARD))
                if answers[-1] is None:
                    break
            lasted.whole += answers[-1] is not None
            lasted.seen.update("refused" if a is None else "charged" for a in answers)
            world.today += timedelta(days=1)
            world.load()
            world.proxy.refresh()
        window: Callable[[Entry], Sequence[str]] = lambda entry: [f"{entry.time:%Y-%m}"]  # noqa: E731
        whole: Callable[[Entry], Sequence[str]] = lambda _: ["ever"]  # noqa: E731
        parts = (window, whole) if lifetime else (whole,)
        lasted.overspent = any(
            _is_overspent(world, part, limit) for part, limit in zip(parts, most, strict=True)
        )
    return lasted


def summary(lasted: Lasted) -> tuple[int, float, bool, str]:
    """Return whole days, the worst ±, whether a limit was passed, and the answers by kind."""
    seen = ", ".join(f"{count:,} {what}" for what, count in sorted(lasted.seen.items()))
    return lasted.whole, lasted.worst, lasted.overspent, seen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name, default in (
        ("days", 1095),
        ("charts", 21),
        ("months", 24),
        ("drills", 50),
        ("analysts", 10),
        ("every", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    wishes = parser.parse_args()
    scale = Scale(**vars(wishes))
    runs: dict[str, Callable[[], Lasted]] = {
        "periods, ε = 4 a month": partial(over_periods, scale),
        "windows, ε = 1 a month, 12 ever": partial(over_windows, scale, "1.0", "0.1", "12.0"),
        "neither, ε = 1": partial(over_windows, scale, "1.0", "0.1"),
        "neither, ε = 1, ten charts": partial(
            over_windows, replace(scale, charts=10), "1.0", "0.1"
        ),
    }
    rows = [(name, *summary(run())) for name, run in runs.items()]
    header = (
        "budget",
        "days with the whole board",
        "worst ±, in first days",
        "overspent",
        "answers",
    )
    table(f"{scale.days:,} days, {scale.charts} charts", header, rows)


if __name__ == "__main__":
    main()
