"""Histograms on DuckDB: the cell of a row, those that a unit keeps, and the rows of each.

Which cells are kept does not depend on the order of rows: PRIVACY.md R27.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from dpsql.compiler.plan.lattices import ContributedRows, Grid, Histogram
from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.dialects.duckdb.total_sql import clamped, row_integer
from dpsql.dialects.literal_sql import constant
from dpsql.model.tree import DATE, Kind, Literal


def cell(query: Histogram, x: str) -> str:
    """The cell that holds a value; NULL for NULL, NaN and what no cell holds."""
    grid = query.grid
    if grid.values:
        listed = ", ".join(constant(Literal(value, grid.kind)) for value in grid.values)
        return f"(NULLIF(list_position([{listed}], {x}), 0) - 1)::BIGINT"
    place = f"({_integer(query, x)} - ({grid.lower}))"
    return place if grid.width == 1 else f"{place} // {grid.width}"


def _integer(query: Histogram, x: str) -> str:
    """The value as an integer of the grid, clamped to its ends."""
    grid = query.grid
    match grid.kind.kind:
        case Kind.DATE:
            day = Literal(date(1970, 1, 1), DATE)
            return f"({_between(grid, x)} - {constant(day)})::BIGINT"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return f"epoch_us({_between(grid, x)})"
        case _:
            row = ClippedSum(
                argument=query.argument,
                condition=None,
                lattice=grid.lattice,
                lower=grid.lower,
                upper=grid.upper,
                total_lower=grid.lower,
                total_upper=grid.upper,
            )
            return row_integer(row, x)


def _between(grid: Grid, x: str) -> str:
    """A date or time, no farther than the ends of the grid."""
    ends = (constant(Literal(grid.value(end), grid.kind)) for end in (grid.lower, grid.upper))
    return clamped(x, *ends)


def cells_of_rows(query: Histogram, place: str, where: str) -> str:
    """The cells of a unit's rows in a group, as a list; of an extreme only that."""
    match query.kept:
        case ContributedRows.ALL | ContributedRows.HASHED:
            return f"list({place}){where}"
        case ContributedRows.LEAST:
            return f"[MIN({place}){where}]"
        case ContributedRows.GREATEST:
            return f"[MAX({place}){where}]"


def kept_cells(query: Histogram, listed: str, hashed: Callable[[str], str]) -> str:
    """Those of its cells that a unit contributes to a group.

    The hash is of the cell: of rows in one cell any may be kept.
    """
    return fewest(listed, query.rows, hashed) if query.kept is ContributedRows.HASHED else listed


def fewest(listed: str, most: int, hashed: Callable[[str], str]) -> str:
    """A list no longer than `most`: of a longer one what has the lowest keyed hashes.

    However many hashes are equal, no more is kept; of these the lowest values are.
    """
    pairs = f"list_transform({listed}, lambda x: {{'h': {hashed('x')}, 'x': x}})"
    first = f"list_transform(list_sort({pairs})[1:{most}], lambda pair: pair.x)"
    return f"CASE WHEN len({listed}) > {most} THEN {first} ELSE {listed} END"


def with_cells(keys: list[str], parts: int, sums: str | None, cells: list[tuple[str, int]]) -> str:
    """One row per group with its sums, and one per group and cell with the rows in it.

    `cells` are for each histogram the SQL that yields `keys` and `cell`, one row for each row that
    counts, and where its cells begin among all.
    """
    grouped = ", ".join([*keys, "cell"])
    named = "".join(f"{key}, " for key in keys)
    totals = "".join(f"p{n}, " for n in range(parts))
    zeros = "".join(f"0::HUGEINT AS p{n}, " for n in range(parts))
    rows = [f"SELECT {named}NULL::BIGINT AS cell, {totals}0::HUGEINT AS n FROM ({sums})"] * (
        sums is not None
    )
    rows += [
        f"SELECT {named}cell + {first} AS cell, {zeros}COUNT(*)::HUGEINT AS n"
        f" FROM ({source}) WHERE cell IS NOT NULL GROUP BY {grouped}"
        for source, first in cells
    ]
    return " UNION ALL ".join(rows)
