"""ARG_MAX(x, y) and ARG_MIN of listed x: the value that a few people reach the highest y with.

The row with the largest y is somebody's, and one more row could always be it. So what is chosen is
the x that so many people reach the highest y with as the choice needs to tell people from none,
which `explain` shows. Of a unit only the row with its own largest y counts; of equal ones, that
whose x is listed last (with the smallest y: first). For scores and proof see `mechanisms.peaks`.
"""

from __future__ import annotations

from dpsql.aggregates.grids import CELLS, grid_of_values, value_on
from dpsql.aggregates.recipe import Asked, Recipe, no_distinct, row_bounds
from dpsql.errors import Reason, Refused
from dpsql.grids import WHOLE, ChoiceQuery, Grid, Histogram, Kept
from dpsql.mechanisms.scores import Peak
from dpsql.tree import BOOLEAN, INTEGER, Call, Expression, Kind, Literal, Ref, Value


def _end(*, lowest: bool) -> Recipe:
    """ARG_MIN or ARG_MAX: a cell is a level of y and, within it, an option of x."""

    def choices(asked: Asked) -> tuple[ChoiceQuery, ...]:
        options = grid_of_values(asked)
        _check(asked, options)
        level, levels = _level(asked, CELLS // options.cells)
        grid = Grid(INTEGER, WHOLE, 0, levels * options.cells - 1)
        cell = _of("add", _of("mul", level, _whole(options.cells)), _option(asked, options))
        kept = Kept.LEAST if lowest else Kept.GREATEST
        histogram = Histogram(cell, asked.call.filter, grid, 1, kept)
        return (ChoiceQuery(histogram, Peak(options.cells, lowest)),)

    return Recipe(lambda _asked: (), _combine, choices=choices)


def _combine(asked: Asked, parts: tuple[Ref, ...]) -> Expression:
    return value_on(grid_of_values(asked), parts[0], asked.call.type)


def _check(asked: Asked, options: Grid) -> None:
    no_distinct(asked)
    whole = asked.arguments[1].type.kind is Kind.INTEGER
    if asked.call.order_by or not whole or not 1 < options.cells <= CELLS // 2:
        fix = "It takes x of a few listed values and y of type INTEGER with bounds."
        name = asked.call.function
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, asked.call.span, name=name, fix=fix)


def _level(asked: Asked, most: int) -> tuple[Expression, int]:
    """The level of y, from 0 on, and how many there are: at most `most`. Of NULL it is NULL."""
    y, bounds = asked.call.args[1], row_bounds(asked, 1)
    width = -(-(bounds.upper - bounds.lower + 1) // most)
    low, high = _whole(bounds.lower), _whole(bounds.upper)
    inside = ((Call("lt", (y, low), BOOLEAN), low), (Call("gt", (y, high), BOOLEAN), high))
    clamped = Call("case", (*inside[0], *inside[1], y), INTEGER)
    above = _of("sub", clamped, low)
    level = above if width == 1 else _of("int_div", above, _whole(width))
    return level, (bounds.upper - bounds.lower) // width + 1


def _option(asked: Asked, options: Grid) -> Expression:
    """The place of x in its list; of what is not listed NULL."""
    branches: list[Expression] = []
    for place, value in enumerate(options.values):
        listed = Literal(value, options.kind)
        branches += [Call("eq", (asked.expression, listed), BOOLEAN), _whole(place)]
    return Call("case", (*branches, _whole(None)), INTEGER)


def _of(function: str, *args: Expression) -> Expression:
    return Call(function, args, INTEGER)


def _whole(value: Value) -> Literal:
    return Literal(value, INTEGER)


ARG_MAX, ARG_MIN = _end(lowest=False), _end(lowest=True)
