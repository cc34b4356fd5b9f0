"""ARG_MAX(x, y) and similar aggregates of listed x: the value with the highest y that several units
reach.

The row with the largest y belongs to one unit, and one more row could always be the largest. So the
result is the x with the highest y that enough units reach, as many as the choice needs to
distinguish units from none; `explain` shows the number. Of each unit only the row with its own
largest y counts; of equal ones, the one with the last listed x (with the smallest y: first). For
scores and proof see `mechanisms.scores`.

Proof (PRIVACY.md R50). One row of each unit counts in a group, which changes the difference of two
options' scores by at most 2.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.aggregates import candidates
from dpsql.compiler.aggregates.recipe import BoundedCall, Recipe, no_distinct
from dpsql.compiler.plan.lattices import WHOLE, ChoiceQuery, ContributedRows, Grid, Histogram
from dpsql.mechanisms.scores import Peak
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, Expression, Literal, Ref, scalar


def _end(*, lowest: bool, null: bool = False) -> Recipe:
    """Build ARG_MIN or ARG_MAX: a cell is a level of y and, within it, an option of x.

    With `null`, rows without x count too: NULL is the last option.
    """

    def options_of(bounded: BoundedCall) -> Grid:
        grid = candidates.grid_of_values(bounded)
        if not (null and bounded.arguments[0].nullable):
            return grid
        return replace(grid, upper=grid.upper + 1, values=(*grid.values, None))

    def choices(bounded: BoundedCall) -> tuple[ChoiceQuery, ...]:
        options = options_of(bounded)
        _check(bounded, options)
        level, levels = _level(bounded, candidates.CELLS // options.cells)
        grid = Grid(INTEGER, WHOLE, 0, levels * options.cells - 1)
        first = scalar("mul", level, options.cells, kind=INTEGER)
        cell = scalar("add", first, _option(bounded, options), kind=INTEGER)
        contributed = ContributedRows.LEAST if lowest else ContributedRows.GREATEST
        histogram = Histogram(cell, bounded.call.filter, grid, 1, contributed)
        return (ChoiceQuery(histogram, Peak(options.cells, lowest)),)

    def combine(bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
        return candidates.value_on(options_of(bounded), parts[0], bounded.call.type)

    return Recipe(lambda _bounded: (), combine, choices=choices)


def _check(bounded: BoundedCall, options: Grid) -> None:
    no_distinct(bounded)
    y = bounded.arguments[1].type
    ordered = y.is_numeric or y.is_temporal
    if bounded.call.order_by or not ordered or not 1 < options.cells <= candidates.CELLS // 2:
        fix = "It takes x of a few listed values and y a number, date or time with bounds."
        name = bounded.call.function
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, bounded.call.span, name=name, fix=fix)


def _level(bounded: BoundedCall, most: int) -> tuple[Expression, int]:
    """Return the level of y, from 0 on and NULL for NULL, and the number of levels, at most
    `most`.
    """
    grid = candidates.coarser(candidates.grid_over(bounded, 1), most)
    level = scalar("sub", candidates.place_on(grid, bounded.call.args[1]), grid.lower, kind=INTEGER)
    if grid.width > 1:
        level = scalar("int_div", level, grid.width, kind=INTEGER)
    return level, grid.cells


def _option(bounded: BoundedCall, options: Grid) -> Expression:
    """Return the place of x in its list; NULL for unlisted values."""
    x = bounded.expression
    branches: list[Expression | int] = []
    for place, value in enumerate(options.values):
        branches += [x.is_null() if value is None else x.eq(Literal(value, options.kind)), place]
    return scalar("case", *branches, Literal(None, INTEGER), kind=INTEGER)


ARG_MAX, ARG_MIN = _end(lowest=False), _end(lowest=True)
ARG_MAX_NULL, ARG_MIN_NULL = _end(lowest=False, null=True), _end(lowest=True, null=True)
