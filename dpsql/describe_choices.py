"""describe_choices: what is chosen, among what and how surely, in words."""

from __future__ import annotations

from typing import assert_never

from dpsql.compiler.choices import rank_error
from dpsql.explanation import ChoiceLine
from dpsql.grids import Choice, ChoiceQuery
from dpsql.mechanisms.scores import Most, Rank


def choice_line(choice: Choice) -> ChoiceLine:
    """One choice as a line."""
    query = choice.query
    return ChoiceLine(
        _chosen(choice),
        _bounds(query),
        query.grid.cells,
        choice.rounds,
        query.rows,
        "permute-and-flip" if choice.flips else "exponential",
        float(choice.epsilon),
        rank_error(choice),
    )


def _chosen(choice: Choice) -> str:
    kept = "" if choice.query.condition is None else " (filtered)"
    match choice.aim:
        case Most():
            return f"most frequent value{kept}"
        case Rank() as aim if aim.is_extreme:
            name = "maximum" if aim.numerator else "minimum"
            units = "unit" if aim.rows == 1 else "units"
            return f"{name}{kept}, reached by {aim.rows} {units}"
        case Rank(numerator=numerator, denominator=denominator):
            return f"quantile {numerator / denominator:.6g}{kept}"
        case _:
            assert_never(choice.aim)


def _bounds(query: ChoiceQuery) -> str:
    grid = query.grid
    ends = f"[{grid.value(grid.lower)}, {grid.value(grid.upper)}]"
    cells = "each value" if grid.width == 1 else f"{grid.cells} equal cells"
    listed = f"{grid.cells} listed values" if grid.values else f"{cells} in {ends}"
    return f"{listed}; of each unit and group at most {query.rows} rows, {query.kept.value}"
