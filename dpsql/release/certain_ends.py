"""Intervals within the ranges in which true values certainly lie.

An interval keeps what it has in common with the range, so no true value leaves it.
An unknown one stays unknown: a range says much less than the ranks of a quantile do.

A number between two certain ends is moved to the nearer end. Other numbers stay where noise left
them, also below zero: sums of moved numbers would be too large. `nonnegative` moves them. The
interval of such a number reaches from it into the range: an interval holds its number.

It is post-processing with public ends: PRIVACY.md R108.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, isinf, isnan
from typing import Any

from dpsql.compiler.plan.private_plan import Rewritten
from dpsql.model.interval_ends import Half, Halves

Ends = tuple[float, float]
"""The certain ends of a number; infinite where there is none."""
Rows = Sequence[tuple[Any, ...]]
Margins = Sequence[tuple[float | None, ...]]


def certain_ends(rewritten: Rewritten) -> Mapping[int, Ends]:
    """Return the certain ends of outputs that have any, by their places."""
    ends = {}
    for place, (column, interval) in enumerate(
        zip(rewritten.output, rewritten.certain, strict=False)
    ):
        low = -inf if not isinstance(interval.lo, Fraction) else float(interval.lo)
        high = inf if not isinstance(interval.hi, Fraction) else float(interval.hi)
        if column.type.is_numeric and (low, high) != (-inf, inf):
            ends[place] = low, high
    return ends


def within_ranges(
    rows: Rows, margins: Margins, halves: Sequence[Halves | None], ranges: Mapping[int, Ends]
) -> tuple[Rows, tuple[tuple[float | None, ...], ...], tuple[Halves, ...]]:
    """Return numbers, half-widths and halves, with intervals within the `ranges` of their places.

    >>> within_ranges([(2, 5)], [(4.0, 1.0)], (), {0: (0.0, 9.0)})
    (((2, 5),), ((4.0, 1.0),), (((2.0, 4.0), None),))
    >>> within_ranges([(-54,)], [(60.0,)], (), {0: (0.0, 6.0)})
    (((0,),), ((6.0,),), (((0.0, 6.0),),))
    >>> within_ranges([(-19,)], [(36.0,)], (), {0: (0.0, inf)})
    (((-19,),), ((36.0,),), (((0.0, 36.0),),))
    """
    new_rows, new_margins, new_halves = [], [], []
    nothing: Halves = (None,) * len(rows[0]) if rows else ()
    for row, width, half in zip(rows, margins, halves or [None] * len(rows), strict=True):
        cells = list(zip(row, width, half or nothing, strict=True))
        for place, ends in ranges.items():
            value, margin, either = cells[place]
            cells[place] = _within(value, margin, either, ends)
        values, widths, own = zip(*cells, strict=True)
        new_rows.append(values)
        new_margins.append(widths)
        new_halves.append(own)
    changed = any(any(own) for own in new_halves)
    return tuple(new_rows), tuple(new_margins), tuple(new_halves) if changed else ()


def _within(
    value: Any, margin: float | None, half: Half, ends: Ends
) -> tuple[Any, float | None, Half]:
    """Return a number with its half-width and halves, within its certain ends."""
    if margin is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value, margin, half
    low, high = ends
    below, above = half or (margin, margin)
    number = float(value)
    if number - below >= low and number + above <= high:
        return value, margin, half
    if isnan(below) or isnan(above):
        return value if isinf(high - low) else _moved(value, ends), margin, half
    bottom, top = number - below, number + above
    if top <= low or bottom >= high:  # noise went far beyond: no common part, and no width of zero
        length = min(top - bottom, high - low) / 2
        bottom, top = (low, low + length) if top <= low else (high - length, high)
    if not isinf(high - low):
        value = _moved(value, ends)
        number = float(value)
    halves = _distances(number, max(bottom, low), min(top, high))
    return value, max(halves), halves


def _distances(number: float, bottom: float, top: float) -> tuple[float, float]:
    """Return the distances from a number to both ends: 0 to an end that it is beyond."""
    return max(number - bottom, 0.0), max(top - number, 0.0)


def _moved(value: float | Decimal, ends: Ends) -> float | Decimal:
    """Return a number of the same type, between two ends."""
    low, high = ends
    if not (value < low or value > high):
        return value
    end = low if value < low else high
    if isinstance(value, int):
        return ceil(end) if value < low else floor(end)
    return round(Decimal(end), 6) if isinstance(value, Decimal) else end
