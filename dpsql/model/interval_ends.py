"""The low and the high end of released numbers at 95 %."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from math import isfinite, nan
from typing import Any, TypeAlias

Ends: TypeAlias = tuple[Any, Any] | None
Intervals: TypeAlias = tuple[Ends, ...]
"""The ends for each number of a row."""
Half: TypeAlias = tuple[float, float] | None
Halves: TypeAlias = tuple[Half, ...]
"""Distances from each number of a row to both ends of its interval; None if both are the margin."""


def intervals(
    row: Sequence[Any], margins: Sequence[float | None], halves: Sequence[Half] | None
) -> Intervals:
    """The ends of the intervals of a row; None of what is exact or NULL, NaN where unknown.

    Those of a length of time are lengths of time.

    >>> intervals((10, 10, 10), (2.0, 4.0, None), (None, (1.0, 4.0), None))
    ((8.0, 12.0), (9.0, 14.0), None)
    """
    cells = zip(row, margins, halves or (None,) * len(row), strict=True)
    return tuple(ends(value, margin, half) for value, margin, half in cells)


def ends(value: Any, margin: float | None, half: Half) -> Ends:
    """The ends of one interval: see `intervals`."""
    if margin is None or value is None:
        return None
    below, above = half or (margin, margin)
    if isinstance(value, timedelta) and isfinite(margin):
        return value - timedelta(seconds=below), value + timedelta(seconds=above)
    number = float(value) if isinstance(value, int | float | Decimal) else nan
    return number - below, number + above
