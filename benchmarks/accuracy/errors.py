"""From releases to a row of the table: mean absolute error, RMSE, the ratio to the best peer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.questions import BOUNDS, Measure, Question

Release = Mapping[str, Sequence[float | None]]
"""One answer to a question: a number for each measure, by the key's values joined with `|`."""


@dataclass(frozen=True, slots=True)
class Error:
    """Mean absolute error and RMSE over all cells; `spread` is the standard error of the first."""

    mean: float
    rms: float
    spread: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """One mean error over another, and its standard error to first order."""

    value: float
    spread: float

    def exceeds(self, promised: float) -> bool:
        """Whether it is above what is promised by more than two standard errors."""
        return self.value - 2 * self.spread > promised


def error_of(releases: Sequence[Release], truth: Release, scales: Sequence[float | None]) -> Error:
    """The error of some measures, each divided by its scale; None leaves a measure out.

    A group that is not shown counts as nothing: its numbers as 0.
    """
    each = [list(_differences(release, truth, scales)) for release in releases]
    means = [statistics.fmean(map(abs, differences)) for differences in each]
    squares = [statistics.fmean(d * d for d in differences) for differences in each]
    spread = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return Error(statistics.fmean(means), math.sqrt(statistics.fmean(squares)), spread)


def _differences(
    release: Release, truth: Release, scales: Sequence[float | None]
) -> Sequence[float]:
    return [
        ((noisy or 0.0) - (true or 0.0)) / scale
        for key, exact in truth.items()
        for noisy, true, scale in zip(
            release.get(key, [0.0] * len(exact)), exact, scales, strict=True
        )
        if scale is not None
    ]


def ratio_of(ours: Error, theirs: Error) -> Ratio:
    """
    >>> ratio_of(Error(1.0, 1.0, 0.1), Error(2.0, 2.0, 0.0))
    Ratio(value=0.5, spread=0.05)
    """
    if not theirs.mean:
        return Ratio(math.inf if ours.mean else 1.0, 0.0)
    value = ours.mean / theirs.mean
    return Ratio(value, math.hypot(ours.spread, value * theirs.spread) / theirs.mean)


def scales_of(question: Question, row: int, count: float) -> tuple[float | None, ...]:
    """For a row of one measure its own units; for a row of many, a hundredth of each's range."""
    if len(question.rows) == 1 and len(question.measures) > 1:
        return tuple(_range(measure, count) / 100 for measure in question.measures)
    return tuple(1.0 if place == row else None for place in range(len(question.measures)))


def _range(measure: Measure, count: float) -> float:
    """The most that the measure could be for a table of `count` rows."""
    low, high = BOUNDS.get(measure.column, (0, 1))
    return {
        "count": count,
        "sum": count * (high - low),
        "mean": high - low,
        "median": high - low,
        "quantile": high - low,
        "variance": (high - low) ** 2 / 4,
    }[measure.kind]
