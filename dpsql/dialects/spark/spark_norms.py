"""The norm of one unit's totals over its groups on Spark, in integers, and scaling by it.

The method is that on DuckDB (see `norm_sql` there), in DECIMAL(38, 0), which holds all these
numbers. No engine's quotient of two such numbers is used. Let a = P·C minus its remainder by s, a
multiple of s, and q the integer nearest to a / s in DOUBLE. Then the quotient is q plus the integer
nearest to (a − q·s) / s in DOUBLE.

Proof (PRIVACY.md R73). Each scaled total is at most |P|·C/s, so that their norm is at most
C·‖P‖/s <= C. Where ‖P‖ <= s <= C it is scaled by C / C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.dialects.norm_edges import ROOM, bits_of, edges_of, first_place
from dpsql.dialects.spark.spark_constants import MOST_DIGITS, WHOLE, double, lacking
from dpsql.dialects.spark.spark_lattice import summed_type
from dpsql.model.vocabulary import Norm

_MOST = double(9e18)
"""Upper bound on the root of the squares of 2^37 groups."""
_SHORT = "DECIMAL(19,0)"
_SHORT_END = 10**19
_LARGEST = 2**62


def scaled(totals: Mapping[int, kinds.ScaledTotal]) -> Iterable[str]:
    """Yield further columns for the totals p of each unit and group, stage by stage, until r is p
    scaled.

    Each stage reads all columns of the one before.
    """
    yield from (
        ", ".join(column for n, part in totals.items() for column in stage(part, n))
        for stage in (_added, _bounded, _divisible, _nearest, _divided)
    )


def _added(part: kinds.ScaledTotal, n: int) -> list[str]:
    """Return x, the total in steps times the bound, and n, its part of the norm over all groups."""
    largest = max(-part.total.total_lower, part.total.total_upper) * part.steps
    if max(largest, part.bound) > _LARGEST:
        raise lacking("a norm of so large numbers")
    steps = _steps(f"p{n}", part.steps)
    bits = bits_of(part)
    size = f"abs({steps})" if part.norm is Norm.L1 else _squared(steps, bits)
    norm = f"SUM(CAST({size} AS DECIMAL(28,0))) OVER (PARTITION BY u) AS n{n}"
    return [f"CAST({steps} AS {_SHORT}) * CAST({part.bound}BD AS {_SHORT}) AS x{n}", norm]


def _bounded(part: kinds.ScaledTotal, n: int) -> list[str]:
    """Return s, at least the norm and the bound."""
    norm = f"n{n}"
    if part.norm is not Norm.L1:
        root = f"ceil(least(sqrt(CAST(n{n} AS DOUBLE)) * {double(ROOM)}, {_MOST}))"
        norm = f"(CAST({root} AS {_SHORT}) + 1BD) * {2 ** bits_of(part)}BD"
    return [f"greatest(CAST({norm} AS {WHOLE}), CAST({max(1, part.bound)}BD AS {WHOLE})) AS s{n}"]


def _divisible(_part: kinds.ScaledTotal, n: int) -> list[str]:
    return [f"x{n} - x{n} % s{n} AS a{n}"]


def _nearest(_part: kinds.ScaledTotal, n: int) -> list[str]:
    return [f"{_near(f'a{n}', f's{n}')} AS q{n}"]


def _divided(part: kinds.ScaledTotal, n: int) -> list[str]:
    rest = _near(f"a{n} - CAST(q{n} AS {_SHORT}) * s{n}", f"s{n}")
    kind = summed_type(part.total_lower, part.total_upper)
    return [f"CAST(q{n} + {rest} AS {kind}) AS r{n}"]


def _near(above: str, below: str) -> str:
    """Return SQL for roughly the integer nearest to a quotient."""
    return f"FLOOR(CAST({above} AS DOUBLE) / CAST({below} AS DOUBLE) + 0.5D)"


def norm_of_unit(vote: kinds.Vote, total: str) -> str:
    """Return SQL for the norm of one unit, or its square; for a count of values, the lists' lengths
    count.
    """
    if isinstance(vote.total, kinds.DistinctCount):
        total = f"CASE WHEN {total} IS NULL THEN 0 ELSE size({total}) END"
    elif max(-vote.total.total_lower, vote.total.total_upper) * vote.steps > _LARGEST:
        raise lacking("a norm of so large numbers")
    steps = _steps(total, vote.steps)
    match vote.norm:
        case Norm.MAX:
            return f"MAX(abs({steps}))"
        case Norm.L1:
            return f"SUM(CAST(abs({steps}) AS DECIMAL(28,0)))"
        case Norm.L2:
            return f"SUM(CAST({_squared(steps, bits_of(vote))} AS DECIMAL(28,0)))"
        case _:
            assert_never(vote.norm)


def mean_of_values(x: str) -> str:
    """Return SQL for the sum and the number of integers, without their quotient."""
    return f"struct(SUM({x}) AS s, COUNT({x}) AS c)"


def octave(vote: kinds.Vote | kinds.RangeVote, norm: str) -> str:
    """Return SQL for the log2 bin of a positive `norm_of_unit`, or half bin, cut to the counted
    range.

    It is the lowest bin plus the number of edges below the norm.
    """
    edges = edges_of(vote)
    if edges and len(str(edges[-1])) > MOST_DIGITS:
        raise lacking("a vote about so large numbers")
    return _place((f"{norm} <= {end}BD" for end in edges), first_place(vote))


def place_of_mean(vote: kinds.MeanVote, mean: str) -> str:
    """Return SQL for the index of a mean among the edges.

    s / c, rounded toward zero, is below an edge e > 0 if s < e·c, and below another edge if s <= (e
    − 1)·c.
    """

    def below(edge: int) -> str:
        sign, times = ("<", edge) if edge > 0 else ("<=", edge - 1)
        return f"{mean}.s {sign} {_product(times, f'{mean}.c')}"

    return _place(map(below, vote.edges))


def place_of_ratio(vote: kinds.RatioVote, above: str, below: str) -> str:
    """Return SQL for the index of a quotient among the edges, in integers. `below` is positive;
    `above` is NULL if a unit has no such value.
    """
    number = f"COALESCE({above}, 0)"
    return _place(
        f"{_product(edge.denominator, number)} < {_product(edge.numerator, below)}"
        for edge in vote.edges
    )


def _place(tests: Iterable[str], first: int = 0) -> str:
    """Return SQL for the number of the first true test, or one more than all if none is true."""
    listed = list(tests)
    cases = " ".join(f"WHEN {test} THEN {first + n}L" for n, test in enumerate(listed))
    last = f"{first + len(listed)}L"
    return f"(CASE {cases} ELSE {last} END)" if listed else last


def _product(times: int, x: str) -> str:
    if abs(times) >= _SHORT_END:
        raise lacking("a vote about so large numbers")
    return f"CAST({times}BD AS {_SHORT}) * CAST({x} AS {_SHORT})"


def _squared(steps: str, bits: int) -> str:
    """Return SQL for the square of a total, coarsened to at most 44 bits."""
    coarse = f"abs({steps})" if bits == 0 else f"((abs({steps}) + {2**bits - 1}L) div {2**bits}L)"
    coarse = f"CAST({coarse} AS DECIMAL(14,0))"
    return f"{coarse} * {coarse}"


def _steps(total: str, steps: int) -> str:
    whole = f"CAST({total} AS BIGINT)"
    return whole if steps == 1 else f"({whole} * {steps}L)"
