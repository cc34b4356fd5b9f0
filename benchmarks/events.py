"""Ten million events of a million users, and populations of two humps, with no limit declared.

    python -m benchmarks.events FOLDER [--releases N] [--output FOLDER]

The events are made up, in the folder, where they stay: how many a user has has a Zipf tail. Of the
users by country `best` is the error of independent noise where each may be in all 50 countries; of
the others that of the best clip of a norm, found by brute force on the exact data, for nothing. Two
humps: few people have a thousand times more than the others, and nearly all of the sum. `recipe`
and `naive` are ratios of simulations apart from the product: `naive` ends with the first hump.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb
import numpy as np

from benchmarks import clips
from benchmarks.clips import Law, Totals
from benchmarks.common import save, table
from benchmarks.drafts import NO_LIMITS, Price
from benchmarks.repeated import notices, repeated

HEADER = ("question", "groups", "error", "best", "ratio", "target", "recipe", "naive", "")
COUNTRIES, DEVICES = 50, 4

EVENTS = f"""
SELECT setseed(0.13);
CREATE TABLE weights AS SELECT i AS user_id, pow(1 - random(), -1 / 1.2) AS w
    FROM range({{users}}) AS r(i);
CREATE TABLE users (user_id INTEGER PRIMARY KEY);
INSERT INTO users SELECT user_id FROM weights;
CREATE TABLE events (
    user_id INTEGER NOT NULL REFERENCES users (user_id), country INTEGER NOT NULL,
    device INTEGER NOT NULL, month INTEGER NOT NULL, amount DOUBLE NOT NULL);
INSERT INTO events
    SELECT user_id, CAST(floor(pow({COUNTRIES + 1}.0, random())) AS INTEGER),
        CAST(floor(random() * random() * {DEVICES}) AS INTEGER),
        CAST(floor(random() * 12) AS INTEGER) + 1, round(-20 * ln(1 - random()), 2)
    FROM (SELECT user_id, w * {{events}} / (SELECT SUM(w) FROM weights) AS n FROM weights) AS u,
        LATERAL (SELECT unnest(range(CAST(floor(n + random()) AS BIGINT)))) AS copies
    ORDER BY random();
DROP TABLE weights;
"""
HUMPS = """
SELECT setseed(0.31);
CREATE TABLE users (user_id INTEGER PRIMARY KEY);
INSERT INTO users SELECT i FROM range({people}) AS r(i);
CREATE TABLE events (user_id INTEGER NOT NULL REFERENCES users (user_id), amount DOUBLE NOT NULL);
INSERT INTO events
    SELECT user_id, exp(0.5 * sqrt(-2 * ln(1 - random())) * cos(6.283185307 * random()))
        * CASE WHEN user_id % {one_in} = 0 THEN 10000 ELSE 10 END
    FROM users, range(3) AS r(i);
"""
POLICY = """
[database]
engine = "duckdb"
path = "{database}"
[privacy_unit]
table = "users"
key = "user_id"
[tables.users]
access = "private"
key = "user_id"
[tables.users.columns]
user_id = {{}}
[tables.events]
access = "private"
link = {{ column = "user_id", references = "users.user_id" }}
{limits}
[tables.events.columns]
user_id = {{}}
{columns}
[budgets.b]
{budget}
[analysts.ana]
budget = "b"
[ledger]
path = "events.ledger"
"""


@dataclass(frozen=True, slots=True)
class Data:
    """A database that is made up, and what its policy says of the columns of its events."""

    name: str
    script: str
    columns: str
    largest: float
    """The largest amount that a row may have."""


@dataclass(frozen=True, slots=True)
class Question:
    """A number for each of the groups: `each` is what every user has of it.

    `target` is the largest ratio to the best clip, or for `people` to independent noise.
    """

    name: str
    shows: str
    each: str
    key: str = ""
    people: bool = False
    target: float | None = None

    @property
    def sql(self) -> str:
        grouped = f" GROUP BY {self.key}" if self.key else ""
        return f"SELECT {self.key or 1} AS k, {self.shows} AS v FROM events{grouped}"

    @property
    def asked(self) -> str:
        return self.sql if self.key else f"SELECT {self.shows} AS v FROM events"

    @property
    def by_user(self) -> str:
        return f"SELECT user_id, {self.key or 1}, {self.each} FROM events GROUP BY ALL"


MILLION = Data(
    "events",
    EVENTS.format(users=10**6, events=10**7),
    f"country = {{ bounds = [1, {COUNTRIES}] }}\ndevice = {{ bounds = [0, {DEVICES - 1}] }}\n"
    "month = { bounds = [1, 12] }\namount = { bounds = [0.0, 1000.0] }",
    1000.0,
)
LARGE = "amount = { bounds = [0.0, 1000000.0] }"
TENTH = Data("tenth", HUMPS.format(people=3000, one_in=10), LARGE, 1e6)
HUNDREDTH = Data("hundredth", HUMPS.format(people=100_000, one_in=100), LARGE, 1e6)
COUNT, AMOUNT = ("COUNT(*)", "COUNT(*)"), ("SUM(amount)", "SUM(amount)")

ASKED: tuple[tuple[Data, Question], ...] = (
    (
        MILLION,
        Question("users by country", "COUNT(DISTINCT user_id)", "1", "country", True, 0.6),
    ),
    (MILLION, Question("events", *COUNT)),
    (MILLION, Question("amount", *AMOUNT)),
    (MILLION, Question("events by device", *COUNT, "device")),
    (MILLION, Question("events by country", *COUNT, "country")),
    (MILLION, Question("amount by month", *AMOUNT, "month")),
    (TENTH, Question("humps, a tenth of 3,000", *AMOUNT, target=2.5)),
    (HUNDREDTH, Question("humps, 1 % of 100,000", *AMOUNT, target=2.5)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean |error| of each release, or why there is none; what was best; the simulations."""

    question: str
    price: str
    groups: int
    errors: Sequence[float]
    notices: Mapping[str, int]
    why: str
    best: float
    target: float | None
    recipe: float
    naive: float | None

    @property
    def row(self) -> tuple[object, ...]:
        target = "-" if self.target is None else f"{self.target:g}"
        simulated = [f"{e / self.best:.3g}" if e else "-" for e in (self.recipe, self.naive)]
        head = self.question, self.groups
        if self.why:
            return (*head, "-", self.best, "-", target, *simulated, self.why)
        error = statistics.fmean(self.errors)
        ratio = error / self.best
        verdict = "" if self.target is None else "holds" if ratio <= self.target else "MISSED"
        return (*head, error, self.best, f"{ratio:.3g}", target, *simulated, verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--accountants", nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--limits", default=NO_LIMITS, help="lines of the table, between ; ")
    parser.add_argument("--output", type=Path, help="where the table and its numbers are written")
    given = parser.parse_args()
    prices = [Price(accountant, 1.0, 1e-6) for accountant in given.accountants]
    found = [one for price in prices for one in measured(given, price)]
    for price in prices:
        rows = [one.row for one in found if one.price == str(price)]
        title = f"{price}, {given.releases} releases, limits declared: {given.limits or 'nothing'}"
        table(title, HEADER, rows)
    if given.output is not None:
        lines = [(one.price, *one.row) for one in found]
        raw = [asdict(one) for one in found]
        save(given.output, "events", ("price", *HEADER), lines, raw)


def measured(given: argparse.Namespace, price: Price) -> Iterator[Measured]:
    for data, question in ASKED:
        print(f"asking for {question.name}, {price}", file=sys.stderr)
        database = built(given.folder, data)
        with duckdb.connect(str(database), read_only=True, config={"threads": 1}) as plain:
            truth = dict(plain.execute(question.sql).fetchall())
            totals = _totals(plain, question)
        with tempfile.TemporaryDirectory() as folder:
            policy = policy_of(Path(folder), database, data, price, given.limits)
            with repeated(policy) as proxy:
                answers = proxy.answers(question.asked, given.releases)
        why = answers if isinstance(answers, str) else ""
        errors = [] if isinstance(answers, str) else [_error(a.rows, truth) for a in answers]
        reference = _reference(data, question, totals, Law.of(price.accountant, 1.0, 1e-6))
        yield Measured(
            question.name, str(price), len(truth), errors, notices(answers), why, *reference
        )


def built(folder: Path, data: Data) -> Path:
    """The database, made unless it is there."""
    path, unfinished = folder / f"{data.name}.duckdb", folder / "unfinished.duckdb"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            connection.execute("SET threads = 1; SET memory_limit = '4GB'")
            connection.execute(data.script)
        unfinished.rename(path)
    return path


def policy_of(folder: Path, database: Path, data: Data, price: Price, limits: str) -> Path:
    path, lines = folder / "events.toml", limits.replace("; ", "\n")
    whole = {"database": database.resolve(), "columns": data.columns, "limits": lines}
    path.write_text(POLICY.format(**whole, budget=price.budget), encoding="utf-8")
    return path


def _totals(plain: duckdb.DuckDBPyConnection, question: Question) -> Totals:
    users, keys, values = plain.execute(question.by_user).fetchnumpy().values()
    units = np.unique(users, return_inverse=True)[1]
    groups, places = np.unique(keys, return_inverse=True)
    return Totals(units, places, values.astype(float), len(groups))


def _error(rows: Sequence[tuple[float, ...]], truth: dict[float, float]) -> float:
    """The mean over the groups; NULL counts as nothing."""
    found = {row[0] if len(row) > 1 else 1: float(row[-1] or 0) for row in rows}
    return statistics.fmean(abs(found.get(key, 0.0) - v) for key, v in truth.items())


def _reference(
    data: Data, question: Question, totals: Totals, law: Law
) -> tuple[float, float | None, float, float | None]:
    """The best error, the target, and what the recipe and its wrong twin would err by."""
    if question.people:
        groups = totals.groups
        alone = float(law.expected(0.0, law.limited(groups, 1.0)))
        if law.gaussian:
            return alone, question.target, clips.correlated_error(groups, groups, law), None
        return alone, None, alone, None
    largest = data.largest if question.shows == AMOUNT[0] else 1.0
    recipe = clips.recipe_of(totals, law, 2.0**20 * largest)
    both = [
        clips.recipe_error(totals, law, replace(recipe, naive=naive))[0] for naive in (False, True)
    ]
    return clips.best_norm(totals, law).error, question.target, both[0], both[1]


if __name__ == "__main__":
    main()
