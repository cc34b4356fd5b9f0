"""What the best limits reach for each question, and what the recipe would, apart from dpsql."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import duckdb
import numpy as np

from benchmarks import clips
from benchmarks.clips import Best, Law, Rows, Totals
from benchmarks.retail.questions import Question

ROWS = 2.0**20
"""No unit has more rows than this: where nothing is declared, its totals are clipped to that."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The best fixed limit, the best clip of norms, and the recipe's mean error; None: no such."""

    fixed: Best
    norm: Best | None = None
    recipe: float | None = None


def reach(connection: duckdb.DuckDBPyConnection, question: Question, law: Law) -> Reach:
    columns = list(connection.execute(question.by_household).fetchnumpy().values())
    units = np.unique(columns[0], return_inverse=True)[1]
    proved = [ROWS * largest for largest in question.largest]
    match question.kind:
        case "total" | "people":
            return _of_totals(question, _totals(units, columns[1], columns[2]), law, proved[0])
        case "ratio" | "average":
            above, below = (_totals(units, columns[1], column) for column in columns[2:])
            return _of_ratio((above, below), law, proved)
        case "distinct" | "quantile":
            return _of_rows(question, Rows(units, columns[1]), law)
        case never:
            assert_never(never)


def _totals(units: np.ndarray, keys: np.ndarray, values: np.ndarray) -> Totals:
    groups, places = np.unique(keys.astype(str), return_inverse=True)
    return Totals(units, places, np.asarray(values, dtype=float), len(groups))


def _of_totals(question: Question, totals: Totals, law: Law, proved: float) -> Reach:
    shown = question.shown
    recipe = clips.recipe_of(totals, law, proved, shown)
    error, _ = clips.recipe_error(totals, law, recipe, shown)
    if question.kind == "people":  # nothing has to be found: 0 or 1 in each group
        known = totals.groups, totals.groups
        proved_error = float(law.expected(0.0, law.limited(totals.groups, 1.0)))
        error = clips.correlated_error(*known, law) if law.gaussian else min(error, proved_error)
    fixed, norm = clips.best_fixed(totals, law, shown), clips.best_norm(totals, law, shown)
    return Reach(fixed, norm, error)


def _of_ratio(both: tuple[Totals, Totals], law: Law, proved: list[float]) -> Reach:
    ways = clips.recipe_average_error, clips.recipe_ratio_error
    recipes = [error_of(*both, law, proved) for error_of in ways]
    return Reach(
        clips.best_fixed_ratio(*both, law), clips.best_norm_ratio(*both, law), min(recipes)
    )


def _of_rows(question: Question, rows: Rows, law: Law) -> Reach:
    distinct = question.kind == "distinct"
    share = 0.1 if law.gaussian and not distinct else 0.2

    def errors(law: Law) -> dict[int, float]:
        if distinct:
            return clips.distinct_errors(rows, law)
        return clips.quantile_errors(rows, question.at, (0.0, question.largest[0]), law)

    recipe = clips.Recipe(share, ROWS, 1, rank=None if distinct else question.at)
    error = clips.recipe_limited_error(errors(law.share(1 - share)), rows.sizes, law, recipe)
    return Reach(clips.least(errors(law)), None, error)
