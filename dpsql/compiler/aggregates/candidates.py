"""Grids of candidates: the possible values of a choice, as integers, and back.

A grid covers the bounds of the argument and has at most 2^16 cells. Whole numbers, decimals and
dates of no more values are their own cells; other cells stand for their middle.

A grid is public: it follows from declarations and the text (PRIVACY.md R49).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpsql.compiler.aggregates.recipe import BoundedCall, no_bounds, row_bounds
from dpsql.compiler.plan.lattices import WHOLE, Grid, Lattice
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Bound, distinct

CELLS = 1 << 16
"""Largest number of candidates of one choice (PRIVACY.md R49)."""

EXACT = frozenset({tree.Kind.INTEGER, tree.Kind.DECIMAL, tree.Kind.DATE})
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  ends are in UTC


def grid_over(bounded: BoundedCall, place: int = 0) -> Grid:
    """Return the grid over the bounds of an argument; raises `Refused` if it has none.

    For a type without bounds the listed values are the grid, in order.
    """
    facts = bounded.arguments[place]
    if facts.type.is_numeric:
        bounds = row_bounds(bounded, place)
        return _grid(facts.type, bounds.lattice, bounds.lower, bounds.upper)
    no_bounds(bounded)
    if not facts.type.is_temporal:
        return grid_of_values(bounded)
    lo, hi = facts.interval.lo, facts.interval.hi
    if lo is None or hi is None:
        span = bounded.call.args[place].span
        raise Refused(Reason.UNBOUNDED_INPUT, bounded.call.span if span == tree.NOWHERE else span)
    return _grid(facts.type, WHOLE, _since_1970(lo), _since_1970(hi))


def grid_of_values(bounded: BoundedCall) -> Grid:
    """Return the grid of the argument's listed values, in order; raises `Refused` if they are not
    listed.
    """
    facts = bounded.argument
    assert facts is not None
    values = distinct(facts.domain or ())
    if not values or len(values) > CELLS:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            bounded.call.span,
            name=f"{bounded.call.function} of values that are not listed",
            fix="It is answered where the policy lists the values that the column can have.",
        )
    return Grid(facts.type, WHOLE, 0, len(values) - 1, values=values)


def grid_of_candidates(bounded: BoundedCall) -> Grid:
    """Return the grid of the argument's listed values, or of the values within its bounds if they
    are few.
    """
    facts = bounded.argument
    assert facts is not None
    if not facts.domain and facts.type.kind in EXACT:
        grid = grid_over(bounded)
        if grid.width == 1:
            return grid
    return grid_of_values(bounded)


def value_on(grid: Grid, place: tree.Ref, kind: tree.SqlType) -> tree.Expression:
    """Return the value that a released integer of a grid stands for, cast to `kind`."""
    value = _listed(grid, place) if grid.values else _measured(grid, place)
    return value if grid.kind == kind else tree.Cast(value, kind)


def place_on(grid: Grid, value: tree.Expression) -> tree.Expression:
    """Return the integer of a value on a grid without listed values, clamped to the grid's ends.

    It never decreases where the value increases. It is NULL for NULL.
    """
    low, high = (tree.Literal(grid.value(end), grid.kind) for end in (grid.lower, grid.upper))
    return _steps(
        grid, tree.scalar("case", value.lt(low), low, value.gt(high), high, value, kind=grid.kind)
    )


def _steps(grid: Grid, inside: tree.Expression) -> tree.Expression:
    """Convert a value within the grid's ends to steps of the grid."""
    kind = grid.kind
    match kind.kind:
        case tree.Kind.DATE:
            start = tree.Literal(EPOCH.date(), tree.DATE)
            return tree.scalar("date_diff", "day", start, inside, kind=tree.INTEGER)
        case tree.Kind.TIMESTAMP | tree.Kind.TIMESTAMPTZ:
            return tree.scalar("epoch_us", inside, kind=tree.INTEGER)
        case tree.Kind.DECIMAL:
            widest = tree.decimal(38, kind.scale)
            return tree.scalar("mul", inside.to(widest), 10**kind.scale, kind=widest).to(
                tree.INTEGER
            )
        case tree.Kind.DOUBLE:
            return tree.scalar("floor", inside * 2.0**grid.lattice.digits + 0.5).to(tree.INTEGER)
        case _:
            return inside


def _listed(grid: Grid, place: tree.Ref) -> tree.Expression:
    branches: list[tree.Expression] = []
    for number, value in enumerate(grid.values[:-1]):
        branches += [place.eq(number), tree.Literal(value, grid.kind)]
    last = tree.Literal(grid.values[-1], grid.kind)
    return tree.scalar("case", *branches, last, kind=grid.kind) if branches else last


def _measured(grid: Grid, place: tree.Ref) -> tree.Expression:
    match grid.kind.kind:
        case tree.Kind.DATE:
            return tree.scalar(
                "add_days", tree.Literal(grid.value(0), tree.DATE), place, kind=tree.DATE
            )
        case tree.Kind.TIMESTAMP | tree.Kind.TIMESTAMPTZ:
            start = tree.Literal(grid.value(0), grid.kind)
            return tree.scalar("date_add", "microseconds", place, start, kind=grid.kind)
        case _:
            return place if place.type == grid.kind else tree.Cast(place, grid.kind)


def _grid(kind: tree.SqlType, lattice: Lattice, lower: int, upper: int) -> Grid:
    return Grid(kind, lattice, lower, upper, -(-(upper - lower + 1) // CELLS))


def coarser(grid: Grid, cells: int) -> Grid:
    """Return the same grid with at most `cells` cells."""
    return replace(grid, width=max(grid.width, -(-(grid.upper - grid.lower + 1) // cells)))


def _since_1970(end: Bound) -> int:
    """Return an end as an integer: days of a date, microseconds of a time."""
    match end:
        case datetime():
            return (end - EPOCH) // MICROSECOND
        case date():
            return (end - EPOCH.date()).days
        case Fraction():
            raise AssertionError(end)
