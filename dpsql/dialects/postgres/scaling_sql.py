"""The norm of one unit's totals over its groups on PostgreSQL, in whole numbers, and scaling by it.

As on DuckDB (see `norm_sql` there), in NUMERIC, which none of these numbers leaves.

Proof (PRIVACY.md R73). Each scaled total is at most |P|·C/s, so that their norm is at most
C·‖P‖/s <= C. Where nothing is scaled ‖P‖ <= s <= C. The square root of a DOUBLE is off by less than
2^-51 of it, which the factor outweighs.
"""

from __future__ import annotations

from dpsql.compiler.plan.measurement_kinds import ScaledTotal
from dpsql.model.vocabulary import Norm

SQUARED_BITS = 44
"""Bits of what is squared."""
_MOST = "float8 '9e18'"
"""More than the root of the squares of 2^37 groups."""
_ROOM = f"float8 '{1 + 2.0**-40!r}'"


def norm_of_total(part: ScaledTotal, total: str) -> str:
    """A number no less than the norm of one unit's totals, a sum over its groups."""
    steps = _steps(total, part.steps)
    if part.norm is Norm.L1:
        return f"SUM(abs({steps}))"
    reach = max(-part.total.total_lower, part.total.total_upper) * part.steps
    bits = max(0, reach.bit_length() - SQUARED_BITS)
    size = f"abs({steps})"
    coarse = size if bits == 0 else f"div({size} + {2**bits - 1}, {2**bits})"
    squares = f"SUM({coarse} * {coarse})"
    root = f"least(ceil(sqrt({squares}::float8) * {_ROOM}), {_MOST})::bigint"
    return f"({root}::numeric + 1) * {2**bits}"


def scaled_total(part: ScaledTotal, total: str, norm: str) -> str:
    """One total of a unit, scaled toward zero where the unit's norm is beyond the bound."""
    steps, bound = _steps(total, part.steps), part.bound
    cut = f"div(abs({steps}) * {bound}, {norm})"
    return f"CASE WHEN {norm} <= {bound} THEN {steps} WHEN {total} < 0 THEN -({cut}) ELSE {cut} END"


def _steps(total: str, steps: int) -> str:
    return f"({total}::numeric * {steps})"
