"""Ten million events of a million users, and populations of two humps, with no limit declared.

    python -m benchmarks.events FOLDER [--releases N] [--output FOLDER]

The events are made up, in the folder, where they stay: how many a user has has a Zipf tail. Of the
users by country the error of independent noise is that where each user may be in all 50 countries.
Of the others `best` is that of the best clip of a norm, found by brute force on the exact data, for
nothing. Two humps: few people have a thousand times more than the others, and all of what counts.
`recipe` and `naive` are simulations apart from the product: `naive` looks for the end of the hump.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np

from benchmarks import clips
from benchmarks.clips import Law, Totals
from benchmarks.common import save, table
from benchmarks.drafts import NO_LIMITS, Price
from benchmarks.repeated import repeated

HEADER = ("question", "price", "groups", "error", "best", "ratio", "target", "recipe", "naive", "")
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
    SELECT user_id, CAST(floor(pow({COUNTRIES}.0, random())) AS INTEGER),
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
HUMP = Question("", "SUM(amount)", "SUM(amount)", target=2.5)
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
    (TENTH, Question("two humps, a tenth of 3,000", *AMOUNT, target=2.5)),
    (HUNDREDTH, Question("two humps, a hundredth of 100,000", *AMOUNT, target=2.5)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean |error| of each release, or why there is none; what was best; the simulations."""

    question: str
    price: str
    groups: int
    errors: Sequence[float]
    why: str
    best: float
    target: float | None
    recipe: float
    naive: float | None

    @property
    def row(self) -> tuple[object, ...]:
        target = "-" if self.target is None else f"{self.target:g}"
        simulated = [f"{e / self.best:.3g}" if e else "-" for e in (self.recipe, self.naive)]
        head = self.question, self.price, self.groups
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
    rows = [one.row for one in found]
    table(f"Ratios to the best, {given.releases} releases", HEADER, rows)
    if given.output is not None:
        save(given.output, "events", HEADER, rows, [asdict(one) for one in found])


def measured(given: argparse.Namespace, price: Price) -> Iterator[Measured]:
    for data, question in ASKED:
        print(f"asking for {question.name}, {price}", file=sys.stderr)
        database = built(given.folder, data)
        with duckdb.connect(str(database), read_only=True, config={"threads": 1}) as plain:
            truth = dict(plain.execute(question.sql).fetchall())
            totals = _totals(plain, question)
        with tempfile.TemporaryDirectory() as folder:
            policy = _policy(Path(folder), database, data, price, given.limits)
            with repeated(policy) as proxy:
                answers = proxy.answers(question.asked, given.releases)
        known = isinstance(answers, str)
        errors = [] if isinstance(answers, str) else [_error(a.rows, truth) for a in answers]
        yield Measured(
            question.name,
            str(price),
            len(truth),
            errors,
            answers if known else "",
            *_reference(data, question, totals, Law.of(price.accountant, 1.0, 1e-6)),
        )
