"""The one statement of a noisy histogram over units: a count per bin, each unit in one bin.

The proof is with the measured quantity: PRIVACY.md R71.
"""

from __future__ import annotations

from typing import Protocol, assert_never

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.dialects.block_printer import BlockPrinter


class NormSql(Protocol):
    """SQL of an engine for the norm of one unit, and for its bin (PRIVACY.md R71)."""

    def norm_of_unit(self, vote: kinds.Vote, total: str) -> str:
        """Return SQL for the norm of a unit's totals over its groups, or its square."""

    def mean_of_values(self, x: str) -> str:
        """Return SQL for the mean of integers, rounded toward zero."""

    def octave(self, vote: kinds.Vote | kinds.RangeVote, norm: str) -> str:
        """Return SQL for the log2 bin of a positive `norm_of_unit`, or half bin, cut to the counted
        range.
        """

    def place_of_mean(self, vote: kinds.MeanVote, mean: str) -> str:
        """Return SQL for the index of a mean among the edges."""

    def place_of_ratio(self, vote: kinds.RatioVote, above: str, below: str) -> str:
        """Return SQL for the index of a quotient among the edges.

        `below` is positive; `above` is NULL if a unit has no such value.
        """


def votes(block: BlockPrinter, vote: kinds.UnitVote, norms: NormSql) -> str:
    """Return SQL that counts units by bin of their norm or mean; bins without units have no row."""
    match vote:
        case kinds.Vote():
            clipped = block.derived(block.clipped(), "clipped")
            unit_norms = f"SELECT {norms.norm_of_unit(vote, 'p0')} AS n FROM {clipped} GROUP BY u"
            of_units = f"totals AS ({block.totals()}), norms AS ({unit_norms})"
            source, place = "norms WHERE n > 0", norms.octave(vote, "n")
        case kinds.RangeVote():
            of_units = f"totals AS ({_of_values(block, vote.total, 'MAX(abs(v)) AS n')})"
            source, place = f"totals{block.of_existing()} WHERE n > 0", norms.octave(vote, "n")
        case kinds.RatioVote():
            clipped = block.derived(block.clipped(), "clipped")
            of_units = f"totals AS ({block.totals()})"
            source = block.derived(f"SELECT * FROM {clipped} WHERE p1 > 0", "both_totals")
            place = norms.place_of_ratio(vote, "p0", "p1")
        case kinds.MeanVote():
            means = _of_values(block, vote.total, f"{norms.mean_of_values('v')} AS m")
            of_units = f"totals AS ({means})"
            source, place = f"totals{block.of_existing()}", norms.place_of_mean(vote, "m")
        case _:
            assert_never(vote)
    return f"WITH rows AS ({block.rows_of_units()}), {of_units} {tally(place, source, block.whole)}"


def tally(place: str, source: str, whole: str) -> str:
    """Return the query of the number of units in each place of a source."""
    return f"SELECT {place} AS k0, {whole.format('COUNT(*)')} AS p0 FROM {source} GROUP BY k0"


def _of_values(block: BlockPrinter, total: kinds.ClippedSum, items: str) -> str:
    """Return the query of `items` over each unit's rows as integers `v`, without NULLs."""
    where = "" if total.condition is None else f" WHERE {block.inputs[total.condition]}"
    value = block.lattice.row_integer(total, block.inputs[total.argument])
    values = block.derived(f"SELECT u, {value} AS v FROM rows{where}", "of_rows")
    return f"SELECT u, {items} FROM {values} WHERE v IS NOT NULL GROUP BY u"
