"""MEDIAN, QUANTILE, PERCENTILE, MIN, MAX and MODE: a cell of a public grid, chosen privately.

All forms of a quantile return the value of one row, as QUANTILE_DISC does. The CONT forms average
two neighbours, which changes less than the noise does. MIN and MAX are extreme quantiles: the value
of a row some rows from the end. This distance is what the choice needs to distinguish rows from
none; `explain` shows the number. Only the extreme row of each unit counts there.

Proof (PRIVACY.md R49). One row changes the difference of two candidates' scores by at most the
spread of the aim, and a unit by that for each of its rows that count. This is one row for an
extreme quantile, else as many as are proved or kept.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from dpsql.compiler.aggregates import candidates
from dpsql.compiler.aggregates.constant import one_value
from dpsql.compiler.aggregates.recipe import BoundedCall, Recipe, no_distinct, rows_of_unit
from dpsql.compiler.plan.lattices import ChoiceQuery, ContributedRows, Grid, Histogram
from dpsql.mechanisms.scores import MOST_STEPS, Aim, Most, Rank, Reached
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, Expression, Literal, Ref, scalar, when

HALF = Fraction(1, 2)
SCANNED = 1 << 12
"""Largest number of cells of a scan: each cell is a draw, in every group."""
SHIFT = 2
"""Place of the shift of a rank among the arguments. No engine has it, and no analyst writes it."""
NULLS = 3
"""Place of the mark that NULL is greater than all values, which only ranks of windows have."""
LOWEST, HIGHEST = Rank(0, 2, 1), Rank(2, 2, -1)


Choices: TypeAlias = tuple[ChoiceQuery, ...]


def _no_parts(_bounded: BoundedCall) -> tuple[()]:
    return ()


def _quantile(bounded: BoundedCall) -> Choices:
    """Choose the row of rank ⌈α·n + s⌉ from the end at which the order begins.

    The shift s is 0 if it is not given, as in every call that an analyst writes.
    """
    no_distinct(bounded)
    alpha = HALF if len(bounded.call.args) == 1 else _constant_of(bounded, 1)
    falling = _falls(bounded)
    if alpha in (0, 1):
        return _extreme(bounded, HIGHEST if falling == (alpha == 0) else LOWEST)
    p, d = alpha.numerator, alpha.denominator
    offset = round(2 * d * _constant_of(bounded, SHIFT)) - 1
    aim = Rank(2 * (d - p), 2 * d, -offset) if falling else Rank(2 * p, 2 * d, offset)
    grid = candidates.grid_over(bounded)
    (choice,) = _of_rows(bounded, grid, aim)
    if len(bounded.call.args) <= NULLS:
        return (choice,)
    return (replace(choice, histogram=_with_null(choice.histogram, bounded)),)


def _with_null(histogram: Histogram, bounded: BoundedCall) -> Histogram:
    """Return the histogram with one more cell, the last, which counts the rows without a value."""
    grid, value = histogram.grid, histogram.argument
    cells = candidates.coarser(grid, candidates.CELLS - 1)
    wider = replace(cells, upper=cells.lower + (cells.cells + 1) * cells.width - 1)
    try:
        last, null = (Literal(grid.value(n), grid.kind) for n in (grid.upper, wider.upper))
    except OverflowError:
        raise Refused(Reason.UNBOUNDED_INPUT, bounded.call.span) from None
    parts = scalar("is_null", value, kind=BOOLEAN), null, value.gt(last), last, value
    return replace(histogram, argument=scalar("case", *parts, kind=grid.kind), grid=wider)


def _falls(bounded: BoundedCall) -> bool:
    """Test whether the rows are ordered descending; refuses any other ORDER BY than the
    argument.
    """
    call = bounded.call
    if not call.order_by:
        return False
    (key, *others) = call.order_by
    if others or key.expression != bounded.expression:
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, call.span, name=f"{call.function} by others")
    return key.descending


def _of_rows(bounded: BoundedCall, grid: Grid, aim: Aim) -> Choices:
    contributed = ContributedRows.ALL if bounded.rows_proved else ContributedRows.HASHED
    rows = rows_of_unit(bounded)
    histogram = Histogram(bounded.expression, bounded.call.filter, grid, rows, contributed)
    return (ChoiceQuery(histogram, aim),)


def _extreme(bounded: BoundedCall, aim: Rank) -> Choices:
    contributed = ContributedRows.LEAST if aim == LOWEST else ContributedRows.GREATEST
    grid = candidates.grid_over(bounded)
    if grid.cells == 1:
        # A single candidate would always be chosen, with or without a row.
        name = bounded.call.function
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, bounded.call.span, name=name)
    by: Aim = Reached(aim == HIGHEST) if bounded.options.scans else aim
    grid = candidates.coarser(grid, SCANNED) if bounded.options.scans else grid
    histogram = Histogram(bounded.expression, bounded.call.filter, grid, 1, contributed)
    return (ChoiceQuery(histogram, by),)


def _value(bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    grid = candidates.grid_over(bounded)
    value = candidates.value_on(grid, parts[0], bounded.call.type)
    if len(bounded.call.args) <= NULLS:
        return value
    cells = candidates.coarser(grid, candidates.CELLS - 1)
    null = cells.value(cells.lower + cells.cells * cells.width)
    return when(value.lt(Literal(null, grid.kind)), value, None, bounded.call.type)


def _end(aim: Rank) -> Recipe:
    """Build MIN or MAX: the only value if there is one, else an extreme quantile."""

    def choices(bounded: BoundedCall) -> Choices:
        return () if _constant(bounded) is not None else _extreme(bounded, aim)

    def value(bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
        return _constant(bounded) or _value(bounded, parts)

    return Recipe(_no_parts, value, choices=choices)


def _constant(bounded: BoundedCall) -> Expression | None:
    """Return the only value of all rows, without measurement; None where there may be more."""
    return one_value(bounded) if bounded.call.clip is None else None


def _mode(bounded: BoundedCall) -> Choices:
    """Choose the listed value with the most rows."""
    no_distinct(bounded)
    if bounded.call.order_by:
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, bounded.call.span, name="mode by an order")
    if _constant(bounded) is not None:
        return ()
    return _of_rows(bounded, candidates.grid_of_candidates(bounded), Most())


def _constant_of(bounded: BoundedCall, place: int) -> Fraction:
    """Return the constant at a place of the arguments to six digits, zero where there is none."""
    if len(bounded.call.args) <= place:
        return Fraction(0)
    written = bounded.call.args[place]
    assert isinstance(written, Literal)
    assert isinstance(written.value, int | float | Decimal)
    return Fraction(written.value).limit_denominator(MOST_STEPS // 2)


QUANTILE = Recipe(_no_parts, _value, choices=_quantile)
MIN, MAX = _end(LOWEST), _end(HIGHEST)
MODE = Recipe(
    _no_parts,
    lambda bounded, parts: (
        _constant(bounded)
        or candidates.value_on(candidates.grid_of_candidates(bounded), parts[0], bounded.call.type)
    ),
    choices=_mode,
)
