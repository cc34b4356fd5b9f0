"""How often shown intervals hold the truth, and how wide they are.

    python -m benchmarks.truth [--draws 300] [--epsilon 0.5 1] [--accountant zcdp pure]
        [--data demo skewed hospital declared] [--only WORDS]
        [--seed NAME] [--output FOLDER]

The demo's shop is asked without declared limits, and again with a lognormal multiple of each
customer's orders. A hospital is asked under the policy that `dpsql init` drafts, and with declared
limits. A draw makes histograms and answers with the real noise, over integers that the engine adds
up once for each limit (`benchmarks.redrawn`). `inside` is the share of intervals that hold the
plain number, `low` that of low ends which do, and `noise` that of intervals of noise alone.
`width` is the median of half-widths over true numbers, `best` that width over the narrowest of one
fixed limit that somebody declares who knows the data. `guess` is the share of draws that call an
end a guess, or `limit` where the answer says that what a declared limit leaves out is unknown.
`near` is the share of plain numbers to which the answer has one within 10 %; a group that is not
shown has none. With `--seed NAME` the noise is the same in every run.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from math import exp, inf, isfinite, nan, sqrt
from pathlib import Path
from statistics import NormalDist, mean, median
from typing import Any

import duckdb

from benchmarks import hospital
from benchmarks.common import save, table
from benchmarks.drafts import Price
from benchmarks.redrawn import Redrawn, fixed_limits
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.errors import Refused
from dpsql.model.notices import Clipped, FewValues, Notice, Sampled
from dpsql.model.vocabulary import Answer
from dpsql.policy import demo
from dpsql.proxy import Proxy
from grammar_tests.draws import Stream

Row = tuple[str, ...]
MONTH = "date_trunc('month', placed_at)"
QUESTIONS = {
    "orders": "SELECT COUNT(*) AS n FROM orders",
    "revenue": "SELECT SUM(amount) AS s FROM orders",
    "orders by status": "SELECT status, COUNT(*) AS n FROM orders GROUP BY status",
    "revenue by status": "SELECT status, SUM(amount) AS s FROM orders GROUP BY status",
    "orders by month": f"SELECT {MONTH} AS m, COUNT(*) AS n FROM orders GROUP BY m",
    "revenue by month": f"SELECT {MONTH} AS m, SUM(amount) AS s FROM orders GROUP BY m",
    "revenue by country": "SELECT country, SUM(amount) AS s FROM orders"
    " JOIN customers USING (customer_id) GROUP BY country",
    "mean amount": "SELECT AVG(amount) AS a FROM orders",
    "mean by status": "SELECT status, AVG(amount) AS a FROM orders GROUP BY status",
    "paid share": "SELECT COUNT(*) FILTER (WHERE status = 'paid') / COUNT(*) AS r FROM orders",
    "seconds by kind": "SELECT kind, SUM(duration) AS s FROM events"
    " WHERE kind IN ('view', 'search', 'buy', 'return') GROUP BY kind",
}
SKEWED = """
CREATE OR REPLACE TABLE skewed AS SELECT row_number() OVER ()::INTEGER AS order_id, customer_id,
  amount, status, placed_at
FROM (SELECT *, exp(1.2 * sqrt(-2 * ln((1 + hash(customer_id, 7) % 1000000) / 1000001.0))
  * cos(2 * pi() * (hash(customer_id, 8) % 1000000) / 1000000.0)) / 2 AS times FROM orders) AS t,
  LATERAL (SELECT unnest(range(floor(times + (hash(order_id, 9) % 1000) / 1000.0)::BIGINT))) AS r;
DELETE FROM orders; INSERT INTO orders SELECT * FROM skewed; DROP TABLE skewed;
"""
"""Customers have a lognormal multiple of their orders."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a draw: what holds, and the half-width over the true number."""

    inside: bool
    low: bool
    noise: bool
    width: float


def number(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def cells(answer: Answer, truth: dict[Any, Sequence[Any]], factor: float) -> Iterator[Cell]:
    """The numbers of an answer, compared with the plain ones."""
    for row, errors, intervals in zip(answer.rows, answer.errors, answer.intervals, strict=True):
        key = tuple(x for x, error in zip(row, errors, strict=True) if error is None)
        for place, ends in enumerate(intervals):
            if ends is None or key not in truth or row[place] is None:
                continue
            if truth[key][place] in (None, 0):
                continue
            low, high = map(number, ends)
            value, true = number(row[place]), number(truth[key][place])
            error = errors[place]
            assert error is not None
            if not isfinite(high):
                continue
            yield Cell(
                inside=low <= true <= high,
                low=low <= true,
                noise=abs(value - true) <= factor * error,
                width=(high - low) / 2 / abs(true),
            )


def near(answers: Sequence[Answer], truth: dict[Any, Sequence[Any]]) -> float:
    """The share of plain numbers, once for each draw, to which there is one within 10 %."""
    found, places, seen = 0, set[int](), Counter[Any]()
    for row, errors in (pair for a in answers for pair in zip(a.rows, a.errors, strict=True)):
        key = tuple(x for x, error in zip(row, errors, strict=True) if error is None)
        seen[key] += 1
        for place, error in enumerate(errors):
            if error is None:
                continue
            places.add(place)
            true = truth[key][place] if key in truth else None
            if true not in (None, 0) and row[place] is not None:
                found += abs(number(row[place]) - number(true)) <= abs(number(true)) / 10
    there = [row[place] for row in truth.values() for place in places]
    draws = max(seen.values(), default=1)  # some group is shown in each
    return found / (draws * max(1, sum(x not in (None, 0) for x in there)))


def plain(connection: duckdb.DuckDBPyConnection, sql: str, keys: int) -> dict[Any, Any]:
    return {row[:keys]: row for row in connection.execute(sql).fetchall()}


Truths = Mapping[str, tuple[str, dict[Any, Any]]]
"""The statement and the plain rows of each question, by its name."""


def truths(database: Path, questions: Mapping[str, str], keys: Mapping[str, int]) -> Truths:
    """Answer each question plainly; the first columns are `keys`, one where it is grouped."""
    with duckdb.connect(str(database)) as connection:
        return {
            name: (sql, plain(connection, sql, keys.get(name, int("GROUP BY" in sql))))
            for name, sql in questions.items()
        }


def shop(folder: Path, changes: str, accountant: str) -> tuple[Path, Truths]:
    """The demo without declared limits, and the plain answers."""
    policy = demo.build(folder)
    text = policy.read_text(encoding="utf-8")
    kept = [n for n in text.splitlines() if not n.startswith(("max_groups", "max_rows"))]
    other = "\n".join(kept).replace('accountant = "zcdp"', f'accountant = "{accountant}"')
    if accountant == "pure":
        other = re.sub(r"(?m)^((?:query_)?delta) = .*$", r"\1 = 0.0", other)
    policy.write_text(other, encoding="utf-8")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(changes)
    return policy, truths(folder / "shop.duckdb", QUESTIONS, {})


def wards(folder: Path, accountant: str, *, by_hand: bool) -> tuple[Path, Truths]:
    """The hospital, and the plain answers."""
    policy = hospital.build(folder, Price(accountant, 1.0, 1e-6), by_hand=by_hand)
    keys = dict.fromkeys(UNGROUPED, 0) | hospital.KEYS
    return policy, truths(folder / "hospital.duckdb", hospital.QUESTIONS, keys)


UNGROUPED = [
    name
    for name, sql in hospital.QUESTIONS.items()
    if "FROM (SELECT" in sql and "GROUP BY 1" not in sql.rsplit(")", 1)[-1]
]
"""Questions whose groups are within patients."""


@contextmanager
def world(name: str, accountant: str) -> Iterator[tuple[Proxy, Truths]]:
    """A proxy over one of the data sets, and the plain answers."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        if name in ("demo", "skewed"):
            policy, plainly = shop(folder, SKEWED * (name == "skewed"), accountant)
        else:
            policy, plainly = wards(folder, accountant, by_hand=name == "declared")
        with Proxy.open(str(policy)) as proxy:
            yield proxy, plainly


def judged(redrawn: Redrawn, sql: str, truth: dict[Any, Any], wanted: Drawn) -> Row:
    """The shares, the widths and the share of guesses of one question."""
    answers = redrawn.answers(sql, wanted.epsilon, wanted.draws)
    numbers = [c for answer in answers for c in cells(answer, truth, wanted.factor)]
    close = f"{near(answers, truth):.2f}"
    if not numbers:
        return *("",) * 6, close
    guesses = mean(redrawn.guesses)
    shares = (mean(getattr(c, of) for c in numbers) for of in ("inside", "low", "noise"))
    width = median(c.width for c in numbers)
    best = best_width(redrawn, truth, wanted)
    ratio = "" if best is None else f"{width / best:.2f}"
    mark = LIMIT if any(map(is_declared_limit, answers[0].notices)) else f"{guesses:.0%}"
    return (*(f"{share:.3f}" for share in shares), f"{width:.2%}", ratio, mark, close)


LIMIT = "limit"
"""Mark of answers that call the effect of a declared limit unknown, and not in their intervals."""


def is_declared_limit(notice: Notice) -> bool:
    """Test whether a notice says that a declared limit leaves out rows or groups."""
    match notice:
        case Clipped(rows=rows):
            return rows is not None
        case FewValues() | Sampled():
            return True
        case _:
            return False


def best_width(redrawn: Redrawn, truth: dict[Any, Any], wanted: Drawn) -> float | None:
    """The least median half-width over true numbers that a fixed limit gives; None without limits.

    The limits that were found most often are changed together, by half octaves, while that helps.
    """
    if not redrawn.lasts:
        return None
    middle = sorted(redrawn.lasts.values(), key=lambda each: [n.bound for n in each[1].norms])
    steps, last = middle[len(middle) // 2]
    widths = dict[int, float]()

    def width(halves: int) -> float:
        if halves not in widths:
            answer = redrawn.without_noise(fixed_limits(steps, last, halves))
            each = list(fixed_widths(answer, truth, gaussian=wanted.gaussian))
            widths[halves] = median(each) if each else inf
        return widths[halves]

    best = 0
    for step in (1, -1):
        while abs(best) < FARTHEST and width(best + step) < width(best):
            best += step
    return width(best)


def fixed_widths(answer: Answer, truth: dict[Any, Any], *, gaussian: bool) -> Iterator[float]:
    """Half-widths over true numbers of symmetric intervals that hold in 95 %, for known biases."""
    for row, errors in zip(answer.rows, answer.errors, strict=True):
        key = tuple(x for x, error in zip(row, errors, strict=True) if error is None)
        for place, error in enumerate(errors):
            true = truth[key][place] if key in truth else None
            if not error or not isfinite(error) or true in (None, 0) or row[place] is None:
                continue
            bias = abs(number(row[place]) - number(true)) / error
            yield reach_of(bias, gaussian=gaussian) * error / abs(number(true))


def reach_of(bias: float, *, gaussian: bool) -> float:
    """The half-width that holds noise of deviation 1 around this bias in 95 %.

    >>> [round(reach_of(bias, gaussian=True), 2) for bias in (0, 1, 9)]
    [1.96, 2.65, 10.64]
    """

    def below(z: float) -> float:
        if gaussian:
            return NormalDist().cdf(z)
        tail = exp(-abs(z) * sqrt(2)) / 2
        return tail if z < 0 else 1 - tail

    low, high = 0.0, bias + 9
    for _ in range(30):
        middle = (low + high) / 2
        held = below(middle - bias) - below(-middle - bias)
        low, high = (low, middle) if held >= CONFIDENCE else (middle, high)
    return high


FARTHEST, CONFIDENCE = 8, 0.95


@dataclass(frozen=True, slots=True)
class Drawn:
    """How many answers of which price are drawn; `factor` is a half-width of noise in errors."""

    draws: int
    epsilon: Decimal
    factor: float

    @property
    def gaussian(self) -> bool:
        return self.factor < 2


HEADER = (
    "accountant",
    "data",
    "ε",
    "question",
    "inside",
    "low",
    "noise",
    "width",
    "best",
    "guess",
    "near",
)
DATA = ("demo", "skewed", "hospital", "declared")


def measured(
    data: str, accountant: str, wanted: Sequence[Drawn], entropy: Entropy, only: str = ""
) -> Iterator[Row]:
    """Every question of a data set, at each price; a refusal is said in its place."""
    with world(data, accountant) as (proxy, plainly):
        redrawn = Redrawn(proxy, entropy)
        for each in wanted:
            for name, (sql, truth) in plainly.items():
                if only not in name:
                    continue
                try:
                    row = judged(redrawn, sql, truth, each)
                except Refused as refused:
                    row = ("", "", "", "", "", f"refused: {refused.reason.value}", "")
                yield accountant, data, str(each.epsilon), name, *row


def summary(rows: Sequence[Row]) -> str:
    """How many questions hold in 93 % of their numbers, or call themselves a guess."""
    told = [row for row in rows if row[4]]
    held, guess = (row[4] >= "0.93" for row in told), (_is_marked(row[9]) for row in told)
    low, noise = (sum(row[n] >= least for row in told) for n, least in ((5, "0.97"), (6, "0.93")))
    both, ratios = [*zip(held, guess, strict=True)], [float(row[8]) for row in told if row[8]]
    close = [row[10] >= "0.50" for row in rows if row[10]]
    return (
        f"{sum(close)} of {len(close)} questions have half of their numbers within 10 %;"
        f" {sum(h for h, _ in both)} of {len(told)} questions hold in 93 %, {sum(map(any, both))}"
        f" with guesses; low ends hold in 97 % for {low}; noise alone: {noise};"
        f" width over the best, median: {median(ratios) if ratios else nan:.2f}"
    )


def _is_marked(guess: str) -> bool:
    return guess == LIMIT or float(guess.rstrip("%")) >= 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--epsilon", type=Decimal, nargs="+", default=[Decimal("0.5"), Decimal(1)])
    parser.add_argument("--accountant", nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--only", default="", help="a part of the names of questions")
    parser.add_argument("--seed", help="the same noise in every run of this seed")
    parser.add_argument("--output", type=Path)
    chosen_ones = parser.parse_args()
    seed = chosen_ones.seed
    entropy = Entropy() if seed is None else Entropy(Stream(seed))
    rows = list[Row]()
    for accountant in chosen_ones.accountant:
        factor = 1.96 if accountant == "zcdp" else 2.118
        wanted = [Drawn(chosen_ones.draws, each, factor) for each in chosen_ones.epsilon]
        for data in chosen_ones.data:
            for row in measured(data, accountant, wanted, entropy, chosen_ones.only):
                print(*row, flush=True)
                rows.append(row)
    table("Intervals and the truth", HEADER, rows)
    print(summary(rows))
    if chosen_ones.output is not None:
        save(chosen_ones.output, "truth", HEADER, rows, rows)


if __name__ == "__main__":
    main()
