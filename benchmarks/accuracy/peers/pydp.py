"""PyDP: Google's building blocks, an equal share of ε for each measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from pydp.algorithms import laplacian
from pydp.algorithms.partition_selection import create_partition_strategy

from benchmarks.accuracy.peers.common import CannotExpressError, Table, Way, domain, main
from benchmarks.accuracy.questions import BOUNDS, DELTA, EPSILON, Measure, Question

ALGORITHMS = {
    "sum": laplacian.BoundedSum,
    "mean": laplacian.BoundedMean,
    "variance": laplacian.BoundedVariance,
    "median": laplacian.Median,
}
SELECTIONS = ("truncated_geometric", "laplace")


def ways(question: Question, table: Table) -> Iterable[Way]:
    """Laplace noise; private keys by either strategy of partition selection."""
    if any(measure.kind == "quantile" for measure in question.measures):
        raise CannotExpressError("its Percentile gives 0 of 0, ..., 99, whatever the fraction")
    if question.keys and not question.public:
        for strategy in SELECTIONS:
            yield Way(f"Laplace, {strategy} keys", _selected(question, table, strategy))
    else:
        yield Way("Laplace", _numbers(question, table))


def _numbers(question: Question, table: Table) -> Callable[[], Any]:
    cells = domain(question.keys) if question.keys else [""]
    keys = table.keys(question.keys) if question.keys else None
    share = EPSILON / len(question.measures)
    values = {cell: _values(question, table, keys, cell) for cell in cells}
    return lambda: {
        cell: [
            _number(measure, rows, share)
            for measure, rows in zip(question.measures, lists, strict=True)
        ]
        for cell, lists in values.items()
    }


def _values(question: Question, table: Table, keys: Any, cell: str) -> list[list[Any]]:
    mask = None if keys is None else keys == cell
    return [table.values(measure, mask).tolist() for measure in question.measures]


def _number(measure: Measure, rows: list[Any], epsilon: float) -> float:
    if measure.kind == "count":
        return float(laplacian.Count(epsilon=epsilon, dtype="int").quick_result(rows))
    low, high = BOUNDS[measure.column]
    algorithm = ALGORITHMS[measure.kind](
        epsilon=epsilon, lower_bound=low, upper_bound=high, dtype="int"
    )
    return float(algorithm.quick_result(rows))


def _selected(question: Question, table: Table, strategy: str) -> Callable[[], Any]:
    """A third of ε to choose the keys, a third for each measure."""
    share = EPSILON / (len(question.measures) + 1)
    keys = table.keys(question.keys)
    values = {key: _values(question, table, keys, key) for key in np.unique(keys).tolist()}
    selection = create_partition_strategy(strategy, share, DELTA, 1)

    def release() -> Any:
        return {
            key: [_number(m, rows, share) for m, rows in zip(question.measures, lists, strict=True)]
            for key, lists in values.items()
            if selection.should_keep(len(lists[0]))
        }

    return release


if __name__ == "__main__":
    main(ways)
