"""How the bounds of a column are found privately, by the names that a policy gives them."""

from __future__ import annotations

from enum import StrEnum


class BoundsMethod(StrEnum):
    """A noisy histogram of sizes, extreme sizes by exponential mechanism, or by sparse vector."""

    LOG_HISTOGRAM = "log_histogram"
    QUANTILE = "quantile"
    SPARSE_VECTOR = "sparse_vector"
