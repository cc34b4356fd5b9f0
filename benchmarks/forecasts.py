"""How near a told ± is to what `explain` said of it before it was paid.

    python -m benchmarks.forecasts [--epsilon 0.5 1] [--accountant zcdp pure]
        [--data demo skewed hospital] [--times 1] [--output FOLDER]

Each question of `benchmarks.truth` is explained and then asked, by one analyst who remembers what
was asked before. The hospital has the policy that `dpsql init` drafts, with `expected_rows` of one
digit, as anybody may know. `low` and `high` are the forecast, `told` the median half-width of the
answer, of what the forecast is a share. It is near from half of `low` to twice `high`. `--times`
multiplies every forecast, as a wrong twin: of ten times, half are near.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from math import isfinite, isnan
from pathlib import Path
from statistics import median

from benchmarks.common import save, table
from benchmarks.truth import number, world
from dpsql.mechanisms import sample
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.errors import Refused
from dpsql.model.notices import Scaled
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.explanation import Forecast, ForecastKind
from dpsql.proxy import Proxy

HEADER = ("accountant", "data", "ε", "question", "column", "low", "high", "told", "near", "mark")
DATA = ("demo", "skewed", "hospital")


def is_near(forecast: Forecast, told: float) -> bool:
    """Test whether a half-width is from half of the least to twice the largest forecast one.

    >>> [is_near(Forecast(10.0, 40.0, ForecastKind.ABSOLUTE), told) for told in (4.9, 5.1, 79, 81)]
    [False, True, True, False]
    """
    return forecast.low / 2 <= told <= 2 * forecast.high


def told_of(answer: Answer, place: int, kind: ForecastKind) -> float | None:
    """Return the median half-width of a column, as a share of its numbers if the forecast is."""
    halves = list[float]()
    for row, intervals in zip(answer.rows, answer.intervals, strict=True):
        ends = intervals[place]
        if row[place] is None or ends is None:
            continue
        low, high = map(number, ends)
        value = abs(number(row[place])) if kind is ForecastKind.RELATIVE else 1.0
        if isfinite(high - low) and value:
            halves.append((high - low) / 2 / value)
    return median(halves) if halves else None


@dataclass(frozen=True, slots=True)
class Judged:
    """A column of a question: its forecast, and what the answer then told."""

    data: tuple[str, str, str]
    question: str
    column: str
    forecast: Forecast
    told: float
    guess: bool

    @property
    def row(self) -> tuple[str, ...]:
        ends = (self.forecast.low, self.forecast.high, self.told)
        near = "yes" if is_near(self.forecast, self.told) else "no"
        marks = near, "guess" * self.guess
        return (*self.data, self.question, self.column, *(f"{end:.3g}" for end in ends), *marks)


def judged(proxy: Proxy, sql: str, epsilon: Decimal) -> Iterator[tuple[str, Forecast, float, bool]]:
    """Explain and ask a question; yield its columns with a forecast in values that was told."""
    asked = Request(sql, proxy.analyst(), epsilon=epsilon)
    before, answer = proxy.explain(asked), proxy.ask(asked)
    guess = any(isinstance(n, Scaled) and n.guess for n in answer.notices)
    forecasts = before.forecasts or (None,) * len(before.columns)
    for place, (column, forecast) in enumerate(zip(before.columns, forecasts, strict=True)):
        if forecast is not None and forecast.kind is not ForecastKind.RANK:
            told = told_of(answer, place, forecast.kind)
            if told is not None and not isnan(told):
                yield column.name, forecast, told, guess


def measured(data: str, accountant: str, epsilon: Decimal, entropy: Entropy) -> Iterator[Judged]:
    """Judge every question of a data set."""
    with world(data, accountant) as (proxy, plainly):
        proxy.vault.sampler = partial(sample, entropy=entropy)
        for name, (sql, _) in plainly.items():
            try:
                for each in judged(proxy, sql, epsilon):
                    yield Judged((accountant, data, str(epsilon)), name, *each)
            except Refused:
                continue


def summary(every: Sequence[Judged], times: float) -> str:
    """How many questions are near in all their columns."""
    near = dict[object, bool]()
    for each in every:
        key, forecast = (each.data, each.question), each.forecast
        other = replace(forecast, low=forecast.low * times, high=forecast.high * times)
        near[key] = near.get(key, True) and is_near(other, each.told)
    width = median(each.forecast.high / each.forecast.low for each in every)
    held = sum(near.values())
    return f"{held} of {len(near)} questions near ({held / len(near):.1%}); high / low {width:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=Decimal, nargs="+", default=[Decimal("0.5"), Decimal(1)])
    parser.add_argument("--accountant", nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--times", type=float, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    every = [
        each
        for accountant in options.accountant
        for data in options.data
        for epsilon in options.epsilon
        for each in measured(data, accountant, epsilon, Entropy())
    ]
    rows = [each.row for each in every]
    table("Forecasts", HEADER, rows)
    print("all:", summary(every, options.times))
    sure = [each for each in every if not each.guess]
    print("no end is called a guess:", summary(sure, options.times))
    if options.output is not None:
        save(options.output, "forecasts", HEADER, rows, rows)


if __name__ == "__main__":
    main()
