"""OpenDP with Polars: rows and groups of a user are truncated, then a plan with noise is run.

It keeps the first groups of a user: its sample of groups fails in the Polars that it asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import opendp.prelude
import polars as pl

from benchmarks.peers.common import Rows, main
from benchmarks.peers.questions import COUNTRIES, DELTA, EPSILON, LARGEST, ROWS, Question

dp: Any = opendp.prelude  # types of another version of it are no help
dp.enable_features("contrib")


def answer(question: Question) -> Callable[[], Rows]:
    """Over the events as Parquet, which is read anew for each question."""
    keys = [question.key] if question.key else []
    margin = dp.polars.Margin(by=keys, max_length=2 * ROWS, max_groups=COUNTRIES if keys else None)
    shown: list[Any] = [dp.len(signed=True).alias("n")]
    if not question.people:
        amount: Any = pl.col("amount").fill_null(0.0).fill_nan(0.0)
        shown.append(amount.dp.sum((0.0, LARGEST)).alias("s"))

    def release() -> Rows:
        context = dp.Context.compositor(
            data=pl.scan_parquet(sys.argv[2]),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
            split_evenly_over=1,
            margins=[margin],
        )
        query: Any = context.query().truncate_per_group(question.rows, by=keys or None)
        if keys:
            query = query.truncate_num_groups(question.groups, by=keys, keep="first")
            query = query.group_by(keys).agg(shown)
        else:
            query = query.select(shown)
        rows: Rows = query.release().collect().rows()
        return rows

    return release


if __name__ == "__main__":
    main(answer)
