"""The norm of one unit's totals over its groups on PostgreSQL, in integers, and scaling by it.

The method is that on DuckDB (see `norm_sql` there), in NUMERIC, which holds all these numbers.

Proof (PRIVACY.md R73). Each scaled total is at most |P|·C/s, so that their norm is at most
C·‖P‖/s <= C. Where nothing is scaled ‖P‖ <= s <= C. The square root of a DOUBLE is off by less than
2^-51 of it, which the factor outweighs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.dialects.norm_edges import ROOM, bits_of, edges_of, excess_bits, first_place
from dpsql.model.vocabulary import Norm

_MOST = "float8 '9e18'"
"""Upper bound on the root of the squares of 2^37 groups."""
_ROOM = f"float8 '{ROOM!r}'"


def norm_of_total(part: kinds.ScaledTotal, total: str) -> str:
    """Return SQL for an upper bound on the norm of a unit's totals, aggregated over groups."""
    steps = _steps(total, part.steps)
    if part.norm is Norm.L1:
        return f"SUM(abs({steps}))"
    bits = excess_bits(part.total.total_lower, part.total.total_upper, part.steps)
    root = f"least(ceil(sqrt({_sum_of_squares(steps, bits)}::float8) * {_ROOM}), {_MOST})::bigint"
    return f"({root}::numeric + 1) * {2**bits}"


def scaled_total(part: kinds.ScaledTotal, total: str, norm: str) -> str:
    """Return SQL for a total of a unit, scaled toward zero if its norm exceeds the bound."""
    steps, bound = _steps(total, part.steps), part.bound
    cut = f"div(abs({steps}) * {bound}, {norm})"
    return f"CASE WHEN {norm} <= {bound} THEN {steps} WHEN {total} < 0 THEN -({cut}) ELSE {cut} END"


def norm_of_unit(vote: kinds.Vote, total: str) -> str:
    """Return SQL for the norm of one unit, or its square; for a count of values, the arrays'
    lengths count.
    """
    if isinstance(vote.total, kinds.DistinctCount):
        total = f"COALESCE(cardinality({total}), 0)"
    steps = _steps(total, vote.steps)
    match vote.norm:
        case Norm.MAX:
            return f"MAX(abs({steps}))"
        case Norm.L1:
            return f"SUM(abs({steps}))"
        case Norm.L2:
            return _sum_of_squares(steps, bits_of(vote))
        case _:
            assert_never(vote.norm)


def mean_of_values(x: str) -> str:
    """Return SQL for the mean of integers, rounded toward zero."""
    return f"div(SUM({x})::numeric, COUNT({x}))"


def octave(vote: kinds.Vote | kinds.RangeVote, norm: str) -> str:
    """Return SQL for the log2 bin of a positive `norm_of_unit`, or half bin, cut to the counted
    range.

    It is the lowest bin plus the number of edges below the norm.
    """
    first = first_place(vote)
    return f"{_place(norm, [end + 1 for end in edges_of(vote)])} + ({first})"


def place_of_mean(vote: kinds.MeanVote, mean: str) -> str:
    """Return SQL for the index of a mean among the edges."""
    return _place(mean, vote.edges)


def place_of_ratio(vote: kinds.RatioVote, above: str, below: str) -> str:
    """Return SQL for the index of a quotient among the edges, in integers. `below` is positive;
    `above` is NULL if a unit has no such value.
    """
    number = f"COALESCE({above}, 0)::numeric"
    less = (
        f"{number} * {edge.denominator} < {below}::numeric * ({edge.numerator})"
        for edge in vote.edges
    )
    cases = " ".join(f"WHEN {test} THEN {n}" for n, test in enumerate(less))
    return f"(CASE {cases} ELSE {len(vote.edges)} END)::bigint"


def _place(x: str, edges: Sequence[int]) -> str:
    """Return SQL for the number of ascending edges that are at most an integer."""
    listed = ",".join(map(str, edges))
    return f"width_bucket(({x})::numeric, '{{{listed}}}'::numeric[])::bigint"


def _sum_of_squares(steps: str, bits: int) -> str:
    size = f"abs({steps})"
    coarse = size if bits == 0 else f"div({size} + {2**bits - 1}, {2**bits})"
    return f"SUM({coarse} * {coarse})"


def _steps(total: str, steps: int) -> str:
    return f"({total}::numeric * {steps})"
