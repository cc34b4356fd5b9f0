"""diffprivlib: its tools, and its own budget accountant's share for each of several queries.

Its neighbours have the same number of rows, which is public: means cost less than by a noisy count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from diffprivlib import BudgetAccountant, tools

from benchmarks.accuracy.peers.common import CannotExpressError, Table, Way, domain, main
from benchmarks.accuracy.questions import BOUNDS, DELTA, EPSILON, VALUES, Measure, Question

TOOLS = {"sum": tools.sum, "mean": tools.mean, "variance": tools.var, "median": tools.median}


def ways(question: Question, table: Table) -> Iterable[Way]:
    """Basic and, where there are several measures, advanced composition."""
    if question.public:
        yield Way("histogram2d, number of rows public", _histogram(question, table))
        return
    if question.keys:
        raise CannotExpressError("has no private keys")
    count = len(question.measures)
    share = BudgetAccountant(EPSILON, 0).remaining(count)[0]
    yield Way("basic composition, number of rows public", _numbers(question, table, share))
    if count > 1:
        share = BudgetAccountant(EPSILON, DELTA, DELTA).remaining(count)[0]
        yield Way("advanced composition, number of rows public", _numbers(question, table, share))


def _numbers(question: Question, table: Table, epsilon: float) -> Callable[[], Any]:
    values = [_rows(measure, table) for measure in question.measures]

    def release() -> Any:
        asked = zip(question.measures, values, strict=True)
        return {"": [_number(measure, rows, epsilon) for measure, rows in asked]}

    return release


def _rows(measure: Measure, table: Table) -> Any:
    """The numbers of a measure; for a count whether each row of the whole table passes.

    A count is cut off at the length of its array: that of the passing rows would be the answer.
    """
    return table.passing(measure) if measure.kind == "count" else table.values(measure)


def _number(measure: Measure, rows: Any, epsilon: float) -> float:
    if measure.kind == "count":
        return float(tools.count_nonzero(rows, epsilon=epsilon))
    low, high = BOUNDS[measure.column]
    if measure.kind == "quantile":
        return float(tools.quantile(rows, measure.at, epsilon=epsilon, bounds=(low, high)))
    number = float(TOOLS[measure.kind](rows, epsilon=epsilon, bounds=(low, high)))
    return min(max(number, low), high) if measure.kind == "mean" else number


def _histogram(question: Question, table: Table) -> Callable[[], Any]:
    codes = [
        np.asarray([VALUES[name].index(value) for value in table.columns[name]])
        for name in question.keys
    ]
    sizes = [len(VALUES[name]) for name in question.keys]
    ranges = [(-0.5, size - 0.5) for size in sizes]
    cells = domain(question.keys)

    def release() -> Any:
        counts, _, _ = tools.histogram2d(*codes, epsilon=EPSILON, bins=sizes, range=ranges)
        return {cell: [float(n)] for cell, n in zip(cells, counts.ravel(), strict=True)}

    return release


if __name__ == "__main__":
    main(ways)
