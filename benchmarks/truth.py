"""How often shown intervals hold the truth, and how wide they are.

    python -m benchmarks.truth [--draws 100] [--epsilon 0.5 1] [--accountant zcdp pure]
        [--data demo skewed hospital declared] [--output FOLDER]

The demo's shop is asked without declared limits, and again with a lognormal multiple of each
customer's orders. A hospital is asked under the policy that `dpsql init` drafts, and with declared
limits. A draw makes histograms and answers with the real noise, over integers that the
engine adds up once for each limit. `inside` is the share of intervals that hold the plain number,
`low` that of low ends which do, and `noise` that of intervals of noise alone. `width` is the median
of half-widths over true numbers, and `guess` the share of draws that call an end a guess.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from math import isfinite
from pathlib import Path
from statistics import mean, median
from typing import Any
from unittest.mock import patch

import duckdb

from benchmarks import hospital
from benchmarks.common import save, table
from benchmarks.drafts import Price
from dpsql.answering.two_steps import steps_of
from dpsql.engines import Stop
from dpsql.mechanisms import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.errors import Refused
from dpsql.model.notices import Scaled
from dpsql.model.vocabulary import Answer, Exact, Loss, Noisy, Receipt, Request
from dpsql.policy import demo
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from dpsql.release.execution import released
from dpsql.release.finish import finish
from dpsql.release.histogram_choices import chosen

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
CHARGED = Receipt("", "ana", "default", "", Decimal(1), Loss(0), Loss(0), Loss(0))


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of a draw: what holds, and the half-width over the true number."""

    inside: bool
    low: bool
    noise: bool
    width: float


class Redrawn:
    """A proxy whose integers are added up once, and whose noise is drawn anew for each answer."""

    def __init__(self, proxy: Proxy, entropy: Entropy) -> None:
        self.proxy, self.entropy = proxy, entropy
        self._integers: dict[tuple[Any, ...], Exact] = {}
        self._noisy: dict[str, tuple[Noisy, ...]] = {}

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """The engine's integers are kept by their statement."""
        engine = self.proxy.vault.engine
        added_up = engine.aggregate

        def aggregate(sql: str, keys: int, parts: int, *others: Any, **named: Any) -> Exact:
            asked = sql, keys, parts
            if asked not in self._integers:
                self._integers[asked] = added_up(sql, keys, parts, *others, **named)
            return self._integers[asked]

        ledger = self.proxy.vault.ledger
        with (
            patch.object(engine, "aggregate", aggregate),
            patch.object(ledger, "answer", self._noisy.__getitem__),
        ):
            yield

    def answer(self, sql: str, epsilon: Decimal) -> Answer:
        """One answer to a question, in all of its steps; nothing is charged or remembered."""
        proxy = self.proxy
        last = proxy.compiler.read(Request(sql, self.proxy.analyst(), epsilon=epsilon), Stop())
        steps = steps_of(proxy.compiler, proxy.vault, last)
        while steps is not None:
            last = steps.then(proxy.compiler, proxy.vault, [*map(self._drawn, steps.searches)])
            steps = steps_of(proxy.compiler, proxy.vault, last)
        return self._drawn(last)

    def _drawn(self, question: Question) -> Answer:
        prepared, engine = self.proxy.compiler.prepared(question), self.proxy.vault.engine
        assert prepared.plan is not None
        stop, drawn = Stop(), self.entropy
        noisy = released(
            prepared,
            engine,
            lambda law, count: sample(law, count, drawn),
            lambda choice, listed: chosen(choice, listed, drawn),
            stop,
        )
        query_id = str(len(self._noisy))
        self._noisy[query_id] = noisy
        receipt = replace(CHARGED, query_id=query_id, epsilon=question.account.epsilon)
        told = prepared.plan, prepared.rewritten, noisy
        notices = prepared.notices
        return finish(*told, engine.rows, engine.scratch, receipt, notices)


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
    """The shares, the median width and the share of guesses of one question."""
    with redrawn.remembering():
        answers = [redrawn.answer(sql, wanted.epsilon) for _ in range(wanted.draws)]
    numbers = [c for answer in answers for c in cells(answer, truth, wanted.factor)]
    if not numbers:
        return ("", "", "", "", "")
    guesses = mean(any(isinstance(n, Scaled) and n.guess for n in a.notices) for a in answers)
    shares = (mean(getattr(c, of) for c in numbers) for of in ("inside", "low", "noise"))
    width = f"{median(c.width for c in numbers):.2%}"
    return (*(f"{share:.3f}" for share in shares), width, f"{guesses:.0%}")


@dataclass(frozen=True, slots=True)
class Drawn:
    """How many answers of which price are drawn; `factor` is a half-width of noise in errors."""

    draws: int
    epsilon: Decimal
    factor: float


HEADER = ("accountant", "data", "ε", "question", "inside", "low", "noise", "width", "guess")
DATA = ("demo", "skewed", "hospital", "declared")


def measured(
    data: str, accountant: str, wanted: Sequence[Drawn], entropy: Entropy
) -> Iterator[Row]:
    """Every question of a data set, at each price; a refusal is said in its place."""
    with world(data, accountant) as (proxy, plainly):
        redrawn = Redrawn(proxy, entropy)
        for each in wanted:
            for name, (sql, truth) in plainly.items():
                try:
                    row = judged(redrawn, sql, truth, each)
                except Refused as refused:
                    row = ("", "", "", "", f"refused: {refused.reason.value}")
                yield accountant, data, str(each.epsilon), name, *row


def summary(rows: Sequence[Row]) -> str:
    """How many questions hold in 93 % of their numbers, or call themselves a guess."""
    told = [row for row in rows if row[4]]
    held, guess = (row[4] >= "0.93" for row in told), (row[8] > "0%" for row in told)
    low, noise = (sum(row[n] >= least for row in told) for n, least in ((5, "0.97"), (6, "0.93")))
    both = [*zip(held, guess, strict=True)]
    return (
        f"{sum(h for h, _ in both)} of {len(told)} questions hold in 93 %, {sum(map(any, both))}"
        f" with guesses; low ends hold in 97 % for {low}; noise alone: {noise}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--epsilon", type=Decimal, nargs="+", default=[Decimal("0.5"), Decimal(1)])
    parser.add_argument("--accountant", nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--output", type=Path)
    chosen_ones = parser.parse_args()
    rows = list[Row]()
    for accountant in chosen_ones.accountant:
        factor = 1.96 if accountant == "zcdp" else 2.118
        wanted = [Drawn(chosen_ones.draws, each, factor) for each in chosen_ones.epsilon]
        for data in chosen_ones.data:
            for row in measured(data, accountant, wanted, Entropy()):
                print(*row, flush=True)
                rows.append(row)
    table("Intervals and the truth", HEADER, rows)
    print(summary(rows))
    if chosen_ones.output is not None:
        save(chosen_ones.output, "truth", HEADER, rows, rows)


if __name__ == "__main__":
    main()
