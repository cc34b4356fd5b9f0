"""describe_choices: what is asked of histograms, among what and how surely, in words."""

from __future__ import annotations

from typing import assert_never

from dpsql.compiler.choices import rank_error
from dpsql.explanation import ChoiceLine
from dpsql.grids import Choice, Histogram, TreeRelease
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.scores import Aim, Most, Peak, Rank, Reached


def choice_line(choice: Choice) -> ChoiceLine:
    """One choice as a line."""
    histogram = choice.query.histogram
    rival = "" if choice.otherwise is None else f"a tree of counts, error {choice.otherwise:,.4g}"
    return ChoiceLine(
        _asked(histogram, choice.aim),
        _bounds(histogram),
        histogram.grid.cells,
        choice.rounds,
        histogram.rows,
        _mechanism(choice),
        f"ε = {float(choice.epsilon):,.4g}",
        choice.expected,
        rank_error(choice),
        rival,
    )


def tree_line(tree: TreeRelease) -> ChoiceLine:
    """The quantiles read from one tree as a line."""
    noise, shape, histogram = tree.noise, tree.shape, tree.histogram
    asked = ", ".join(f"{float(rank.fraction):.6g}" for rank in tree.ranks)
    kept = "" if histogram.condition is None else " (filtered)"
    ends = any(rank.is_extreme for rank in tree.ranks)
    reached = f", ends reached by {tree.reserve} rows" if ends else ""
    return ChoiceLine(
        f"quantiles {asked}{kept}{reached}",
        _bounds(histogram),
        histogram.grid.cells,
        tree.sensitivity.l0 // shape.levels,
        histogram.rows,
        f"tree of {shape.levels} levels by {shape.branching}, {noise.mechanism.value}",
        f"{standard_deviation(noise):,.4g} a count",
        tree.error,
        tree.error * margin(noise) / standard_deviation(noise),
        f"a choice for each, error {tree.otherwise:,.4g}",
    )


def _asked(histogram: Histogram, aim: Aim) -> str:
    kept = "" if histogram.condition is None else " (filtered)"
    match aim:
        case Most():
            return f"most frequent value{kept}"
        case Peak(options=options, lowest=lowest, rows=rows):
            units = "unit" if rows == 1 else "units"
            end = "lowest" if lowest else "highest"
            return f"which of {options} values {rows} {units} reach the {end} level with{kept}"
        case Rank() if aim.is_extreme:
            name = "maximum" if aim.numerator else "minimum"
            units = "unit" if aim.rows == 1 else "units"
            return f"{name}{kept}, reached by {aim.rows} {units}"
        case Reached(highest=highest, rows=rows):
            name = "maximum" if highest else "minimum"
            return f"{name}{kept}, reached by {rows} noisy units"
        case Rank():
            return f"quantile {float(aim.fraction):.6g}{kept}"
        case _:
            assert_never(aim)


def _mechanism(choice: Choice) -> str:
    if choice.scan is not None:
        return "sparse vector"
    return "permute-and-flip" if choice.flips else "exponential"


def _bounds(histogram: Histogram) -> str:
    grid = histogram.grid
    ends = f"[{grid.value(grid.lower)}, {grid.value(grid.upper)}]"
    cells = "each value" if grid.width == 1 else f"{grid.cells} equal cells"
    listed = f"{grid.cells} listed values" if grid.values else f"{cells} in {ends}"
    kept = histogram.kept.value
    return f"{listed}; of each unit and group at most {histogram.rows} rows, {kept}"
