"""Twenty ordinary questions about a year of 2,469 households; a policy from `dpsql init` alone.

    python -m benchmarks.retail FOLDER [--releases N] [--accountants zcdp pure] [--output FOLDER]

Each question is asked alone, at ε = 1 (δ = 1e-6 under zCDP). Its mean |error| over the groups, in %
of their mean, and in % of each group's own number for the median group, stand beside the least that
any fixed limit (groups × what counts in each) reaches, and any clip of
norms: both found by brute force on the exact data, for nothing. `recipe` is what a private choice
of norms reaches in a simulation apart from the product. Of questions for the largest groups the
errors of those shown count. A ratio is to the best fixed limit; --limits says what the policy has
instead of nothing. Questions by private keys have a table of their own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.clips import Law
from benchmarks.common import save, table
from benchmarks.drafts import Price
from benchmarks.repeated import Repeated, notices, repeated
from benchmarks.retail import data, private_keys
from benchmarks.retail.limits import Reach, reach
from benchmarks.retail.questions import QUESTIONS, Question
from dpsql import accountants
from dpsql.model.vocabulary import Answer

EPSILON, DELTA = 1.0, 1e-6
KEYS_HEADER = ("question", "keys", "shown", "fixed", "error %", "fixed %", "ratio")
HEADER = ("question", "groups", "error %", "by group %", "fixed %", "norm %", "recipe %", "ratio")


@dataclass(frozen=True, slots=True)
class Measured:
    """The mean |error| of each release, or why there is none, and what limits reach."""

    question: str
    price: str
    groups: int
    typical: float
    errors: Sequence[float]
    relative: float
    why: str
    reach: Reach
    notices: Mapping[str, int]

    @property
    def ratio(self) -> float | None:
        if not self.errors:
            return None
        return statistics.fmean(self.errors) / self.reach.fixed.error

    @property
    def row(self) -> tuple[object, ...]:
        found = self.reach
        norm = None if found.norm is None else found.norm.error
        theirs = [found.fixed.error, norm, found.recipe]
        limits = ["-" if e is None else self._percent(e) for e in theirs]
        if self.ratio is None:
            return (self.question, self.groups, "-", "-", *limits, self.why)
        mine = self._percent(statistics.fmean(self.errors)), f"{self.relative:.3g}"
        return (self.question, self.groups, *mine, *limits, f"{self.ratio:.2f}")

    def _percent(self, error: float) -> str:
        return f"{100 * error / self.typical:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--releases", type=int, default=50)
    parser.add_argument("--accountants", nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--limits", help="lines of the table, between ; ")
    parser.add_argument("--only", nargs="+", default=[], help="names of questions")
    parser.add_argument("--output", type=Path, help="where the table and its numbers are written")
    given = parser.parse_args()
    if given.folder is not None:
        report(given.folder, given)
        return
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), given)


def report(folder: Path, given: argparse.Namespace) -> None:
    database = data.prepare(folder)
    prices = [Price(accountant, EPSILON, DELTA) for accountant in given.accountants]
    found = [row for price in prices for row in measured(database, price, given)]
    for price in prices:
        asked = [one for one in found if one.price == str(price)]
        title = f"{price}, {given.releases} releases, limits declared: {given.limits or 'nothing'}"
        table(title, HEADER, [one.row for one in asked])
        if asked:
            print(summary(asked))
        if accountants.get(price.accountant).supports_selection:
            keys = list(by_private_keys(database, price, given))
            table(f"{title}, private keys", KEYS_HEADER, keys)
    if given.output is not None:
        rows = [(one.price, *one.row) for one in found]
        save(given.output, "retail", ("price", *HEADER), rows, [asdict(one) for one in found])


def measured(database: Path, price: Price, given: argparse.Namespace) -> Iterator[Measured]:
    """Every question under one accountant."""
    law = Law.of(price.accountant, price.epsilon, price.delta)
    limits = given.limits and given.limits.replace("; ", "\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        repeated(data.policy(database, Path(folder), price, limits)) as proxy,
        duckdb.connect(str(database), read_only=True, config={"threads": 1}) as plain,
    ):
        for question in QUESTIONS:
            if not given.only or question.name in given.only:
                print(f"asking for {question.name}, {price}", file=sys.stderr)
                best = reach(plain, question, law)
                yield _measured(plain, proxy, question, (str(price), given.releases), best)


def by_private_keys(
    database: Path, price: Price, given: argparse.Namespace
) -> Iterator[tuple[object, ...]]:
    """A row for each question by private keys under one accountant."""
    with (
        tempfile.TemporaryDirectory() as folder,
        repeated(data.policy(database, Path(folder), price)) as proxy,
        duckdb.connect(str(database), read_only=True, config={"threads": 1}) as plain,
    ):
        for question in private_keys.QUESTIONS:
            if not given.only or question.name in given.only:
                print(f"asking for {question.name}, {price}", file=sys.stderr)
                best = private_keys.reach(plain, question, price).error
                truth = numbers(plain.execute(question.all_groups).fetchall())
                answers = proxy.answers(question.sql, given.releases)
                yield _by_keys(question, truth, answers, best)


def _by_keys(
    question: Question, truth: dict[str, float], answers: list[Answer] | str, best: float
) -> tuple[object, ...]:
    head = question.name, len(truth)
    if isinstance(answers, str):
        return (*head, *"-" * 4, answers)
    shown = statistics.fmean(len(answer.rows) for answer in answers)
    if question.shown is None:
        return (*head, f"{shown:.1f}", f"{best:.1f}", "-", "-", f"{best / max(shown, 1):.2f}")
    each = [errors(numbers(answer.rows), truth, question.shown) for answer in answers]
    error = statistics.fmean(statistics.fmean(e for e, _ in release) for release in each)
    typical = statistics.fmean(sorted(truth.values(), reverse=True)[: question.shown]) / 100
    percents = f"{error / typical:.3g}", f"{best / typical:.3g}"
    return (*head, f"{shown:.1f}", question.shown, *percents, f"{error / best:.2f}")


def _measured(
    plain: duckdb.DuckDBPyConnection,
    proxy: Repeated,
    question: Question,
    how: tuple[str, int],
    limits: Reach,
) -> Measured:
    price, releases = how
    truth = numbers(plain.execute(question.all_groups).fetchall())
    largest = sorted((abs(v) for v in truth.values()), reverse=True)[: question.shown]
    head = question.name, price, len(truth), statistics.fmean(largest)
    answers = proxy.answers(question.sql, releases)
    if isinstance(answers, str):
        return Measured(*head, (), 0.0, answers, limits, {})
    each = [errors(numbers(a.rows), truth, question.shown) for a in answers]
    pairs = [[e / abs(t) if t else 0.0 for e, t in release] for release in each]
    relative = 100 * statistics.median(
        statistics.fmean(column) for column in zip(*pairs, strict=True)
    )
    means = [statistics.fmean(e for e, _ in release) for release in each]
    return Measured(*head, means, relative, "", limits, notices(answers))


def numbers(rows: Sequence[tuple[Any, ...]]) -> dict[str, float]:
    """The number of each group; NULL is none, and counts as 0."""
    return {"|".join(map(str, row[:-1])): float(row[-1] or 0) for row in rows}


def errors(
    release: dict[str, float], truth: dict[str, float], shown: int | None
) -> list[tuple[float, float]]:
    """|Error| and truth of each group, or of those that are shown, a missing one being 0.

    >>> errors({"a": 5.0}, {"a": 4.0, "b": 2.0, "c": 1.0}, 2)
    [(1.0, 4.0), (2.0, 2.0)]
    """
    if shown is None:
        return [(abs(release.get(key, 0.0) - exact), exact) for key, exact in truth.items()]
    found = [
        (abs(value - truth.get(key, 0.0)), truth.get(key, 0.0)) for key, value in release.items()
    ]
    largest = sorted(truth.values(), reverse=True)[len(found) : shown]
    return found + [(missed, missed) for missed in largest]


def summary(found: Sequence[Measured]) -> str:
    """Median ratio, and how many are near the best fixed limit; unanswered ones are beyond all."""
    ratios = sorted(float("inf") if one.ratio is None else one.ratio for one in found)
    near = {bar: sum(ratio <= bar for ratio in ratios) for bar in (1.5, 2.0, 3.0)}
    told = ", ".join(f"<= {bar:g} in {n}" for bar, n in near.items())
    unanswered = sum(one.ratio is None for one in found)
    return (
        f"  median ratio {statistics.median(ratios):.3g}, {told} of {len(found)};"
        f" unanswered {unanswered}"
    )


if __name__ == "__main__":
    main()
