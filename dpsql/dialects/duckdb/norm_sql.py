"""The norm of one unit's totals over its groups on DuckDB, in integers, and scaling by it.

With P the totals in steps of the released grid, j excess bits for squares, and C the bound:

* q = ⌈|P| / 2^j⌉ fits 44 bits, and s = 2^j·(⌈√Σq² · (1 + 2^-40)⌉ + 1) >= ‖P‖₂,
* s = Σ|P| = ‖P‖₁,

and where s > C a total becomes ⌊|P|·C / s⌋ with its sign. No step can overflow: a total has fewer
than 2^62 steps, squares of q fewer than 2^88 and products fewer than 2^126.

Proof (PRIVACY.md R73). Each scaled total is at most |P|·C/s, so that their norm is at most
C·‖P‖/s <= C. Where nothing is scaled ‖P‖ <= s <= C. The square root of a DOUBLE is off by less than
2^-51 of it, which the factor outweighs.

Proof (PRIVACY.md R91). A unit with all totals below the limit of `large_total` has no larger
norm.
"""

from __future__ import annotations

from typing import assert_never

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.dialects.norm_edges import ROOM, bits_of
from dpsql.model.vocabulary import Norm

_MARGIN = 1 - 2.0**-10
_ROOM = f"{ROOM!r}::DOUBLE"


def norm_of_total(part: kinds.ScaledTotal, total: str) -> str:
    """Return SQL for an upper bound on the norm of a unit's totals, aggregated over groups."""
    steps = _steps(total, part.steps)
    if part.norm is Norm.L1:
        return _sum_of_sizes(steps)
    bits = bits_of(part)
    root = f"ceil(sqrt({_sum_of_squares(steps, bits)}::DOUBLE) * {_ROOM})::HUGEINT + 1"
    return f"({root}) * {2**bits}"


def scaled_total(part: kinds.ScaledTotal, total: str, norm: str) -> str:
    """Return SQL for a total of a unit, scaled toward zero if its norm exceeds the bound."""
    steps, bound = _steps(total, part.steps), part.bound
    cut = f"abs({steps})::HUGEINT * {bound} // {norm}"
    return (
        f"CASE WHEN {norm} <= {bound} THEN {steps}::HUGEINT"
        f" WHEN {total} < 0 THEN -({cut}) ELSE {cut} END"
    )


def maybe_beyond(part: kinds.ScaledTotal, total: str) -> str:
    """Return a test over a unit's totals that is true whenever `norm_of_total` exceeds the
    bound.

    It may be true for other units: it is computed in floating point, at a fraction of the cost. Its
    terms are never negative, so that the sum over 2^40 groups has a relative error below 2^-12. The
    rest of `_MARGIN` outweighs every other rounding.
    """
    if part.norm is Norm.L1:
        return f"SUM(abs({total})::DOUBLE) * {part.steps} >= {part.bound * _MARGIN!r}::DOUBLE"
    bits = bits_of(part)
    size = f"abs({total})::DOUBLE * {part.steps / 2**bits!r}::DOUBLE"
    least = max(0.0, part.bound / 2**bits * _MARGIN - 2)
    size = size if bits == 0 else f"ceil({size})"
    return f"SUM(({size}) * ({size})) >= {least * least * _MARGIN!r}::DOUBLE"


def large_total(part: kinds.ScaledTotal, total: str, groups: str) -> str:
    """Return a test that some total of a unit passes if its `norm_of_total` exceeds the bound.

    `groups` is the number of groups g. If none of a unit's totals exceeded m, then Σq² <= g·(m /
    2^j + 1)² and Σ|P| <= g·m. The norm would be at most 2^j·(√g·(m / 2^j + 1)·(1 + 2^-40) + 2), or
    g·m. Roundings are within the rest of `_MARGIN`.
    """
    if part.norm is Norm.L1:
        return f"abs({total})::DOUBLE * {part.steps} * {groups} >= {part.bound * _MARGIN!r}::DOUBLE"
    bits = bits_of(part)
    size = f"abs({total})::DOUBLE * {part.steps / 2**bits!r}::DOUBLE + 1"
    least = max(0.0, part.bound / 2**bits * _MARGIN - 2)
    return f"({size}) * sqrt({groups}) >= {least * _MARGIN!r}::DOUBLE"


def steps_of_total(part: kinds.ScaledTotal, total: str) -> str:
    """Return SQL for one total of a unit within the bound, in steps of the released grid."""
    return _steps(total, part.steps)


def norm_of_unit(vote: kinds.Vote | kinds.ScaledTotal, total: str) -> str:
    """Return SQL for the norm of one unit, or its square; for a count of values, the lists' lengths
    count.
    """
    if isinstance(vote.total, kinds.DistinctCount):
        total = f"COALESCE(len({total}), 0)"
    steps = _steps(total, vote.steps)
    match vote.norm:
        case Norm.MAX:
            return f"MAX(abs({steps}))"
        case Norm.L1:
            return _sum_of_sizes(steps)
        case Norm.L2:
            return _sum_of_squares(steps, bits_of(vote))
        case _:
            assert_never(vote.norm)


def mean_of_values(x: str) -> str:
    """Return SQL for the mean of integers, rounded toward zero."""
    return f"SUM({x}) // COUNT({x})"


def octave(vote: kinds.Vote | kinds.RangeVote, norm: str) -> str:
    """Return SQL for the log2 bin of a positive `norm_of_unit`, or half bin, cut to the counted
    range.
    """
    bins, half, bits = vote.bins, 1, 0
    if isinstance(vote, kinds.Vote) and vote.norm is Norm.L2:
        half, bits = 2, bits_of(vote) * bins.parts
    places = bins.places
    times = "" if bins.parts == 1 else f" * {bins.parts}"
    number, whole = f"{norm}::DOUBLE", bins.whole**half
    if whole > 1:
        number = f"{number} / {whole}::DOUBLE"
    place = f"ceil(log2({number}){times} / {half})::BIGINT + {bits}"
    return f"greatest({places[0]}, least({places[-1]}, {place}))"


def place_of_mean(vote: kinds.MeanVote, mean: str) -> str:
    """Return SQL for the index of a mean among the edges."""
    below = " ".join(f"WHEN {mean} < {edge} THEN {n}" for n, edge in enumerate(vote.edges))
    return f"(CASE {below} ELSE {len(vote.edges)} END)::BIGINT"


def place_of_ratio(vote: kinds.RatioVote, above: str, below: str) -> str:
    """Return SQL for the index of a quotient among the edges, in integers. `below` is positive;
    `above` is NULL if a unit has no such value.
    """
    number = f"COALESCE({above}, 0)::HUGEINT"
    less = (
        f"{number} * {edge.denominator} < {below}::HUGEINT * ({edge.numerator})"
        for edge in vote.edges
    )
    cases = " ".join(f"WHEN {test} THEN {n}" for n, test in enumerate(less))
    return f"(CASE {cases} ELSE {len(vote.edges)} END)::BIGINT"


def _steps(total: str, steps: int) -> str:
    return total if steps == 1 else f"({total} * {steps})"


def _sum_of_sizes(steps: str) -> str:
    return f"SUM(abs({steps})::HUGEINT)"


def _sum_of_squares(steps: str, bits: int) -> str:
    """Return SQL for the sum of squares in 128 bits; the sizes have at most 62, for which division
    is faster.
    """
    size = f"abs({steps})" if bits == 0 else f"((abs({steps}) + {2**bits - 1}) >> {bits})"
    return f"SUM({size}::HUGEINT * {size}::HUGEINT)"
