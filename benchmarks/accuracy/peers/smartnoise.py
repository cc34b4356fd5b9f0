"""SmartNoise SQL: each statement's ε is the largest that its own cost estimate says is within 1.

Mechanisms are those that it chooses: its Gaussian finds no scale for sums of squares.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
from snsql import Privacy, from_df

from benchmarks.accuracy.peers.common import CannotExpressError, Table, Way, main
from benchmarks.accuracy.questions import BOUNDS, DELTA, EPSILON, Measure, Question, Where

WORDS = {"mean": "AVG", "variance": "VAR", "sum": "SUM"}
Release = Callable[[], dict[str, list[float | None]]]


def ways(question: Question, table: Table) -> Iterable[Way]:
    """Its own choice of mechanisms."""
    if any(measure.kind in {"median", "quantile"} for measure in question.measures):
        raise CannotExpressError("has no quantiles")
    yield Way("its own choice of mechanisms", _released(question, table))


def _released(question: Question, table: Table) -> Release:
    """One statement for the measures of each condition: there is no FILTER."""
    parts = [
        (where, tuple(measures))
        for where, measures in itertools.groupby(question.measures, key=lambda m: m.where)
    ]
    statements = [_sql(question, where, measures) for where, measures in parts]
    frame = pd.DataFrame(dict(table.columns))
    share, delta = _affordable(question, frame, statements)
    reader = _reader(question, frame, share, delta)
    exact = [_exact(reader, statement) for statement in statements]

    def release() -> dict[str, list[float | None]]:
        answer: dict[str, list[float | None]] = {}
        size = len(question.keys)
        for statement, known in zip(statements, exact, strict=True):
            _, *rows = reader.execute(statement, pre_aggregated=known)
            for row in rows:
                key = "|".join(map(str, row[:size]))
                answer.setdefault(key, []).extend(_finite(value) for value in row[size:])
        return answer

    return release


def _finite(value: Any) -> float:
    """What cannot be computed, such as a mean over a negative count, counts as nothing."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else 0.0


def _sql(question: Question, where: Where | None, measures: tuple[Measure, ...]) -> str:
    shown = [*question.keys, *(f"{_call(m)} AS m{n}" for n, m in enumerate(measures))]
    sql = f"SELECT {', '.join(shown)} FROM people"
    if where is not None:
        literal = f"'{where[2]}'" if isinstance(where[2], str) else where[2]
        sql += f" WHERE {where[0]} {where[1]} {literal}"
    return f"{sql} GROUP BY {', '.join(question.keys)}" if question.keys else sql


def _call(measure: Measure) -> str:
    return f"{WORDS[measure.kind]}({measure.column})" if measure.column else "COUNT(*)"


def _affordable(question: Question, frame: Any, statements: list[str]) -> tuple[float, float]:
    """The largest (ε, δ) of one measurement with which all statements together cost (1, 1e-6)."""
    low, high, delta = (
        0.0,
        4 * EPSILON / len(question.measures),
        DELTA / (4 * len(question.measures)),
    )
    for _ in range(12 if len(statements) == 1 else 8):  # an estimate for a workload takes a minute
        middle = (low + high) / 2
        cost = _reader(question, frame.head(10), middle, delta).get_privacy_cost(statements)
        within = all(map(operator.le, cost, (EPSILON * 1.0001, DELTA)))
        low, high = (middle, high) if within else (low, middle)
    return low, delta


def _reader(question: Question, frame: Any, epsilon: float, delta: float) -> Any:
    columns: dict[str, Any] = {
        name: {"type": "int" if name in BOUNDS else "string"} for name in frame.columns
    }
    for name, (low, high) in BOUNDS.items():
        columns[name] |= {"lower": low, "upper": high}
    private = bool(question.keys) and not question.public
    options = {
        "row_privacy": True,
        "rows": len(frame),
        "censor_dims": private,
        "clamp_counts": False,
        "clamp_columns": True,
    }
    privacy = Privacy(epsilon=epsilon, delta=delta)
    return from_df(frame, privacy=privacy, metadata={"": {"": {"people": options | columns}}})


def _exact(reader: Any, statement: str) -> Any:
    """The sums that the reader would ask the database for each time."""
    subquery, _ = reader._rewrite(statement)  # noqa: SLF001
    return reader._get_reader(subquery).execute(str(subquery))  # noqa: SLF001


if __name__ == "__main__":
    main(ways)
