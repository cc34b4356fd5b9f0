"""One row and one total on PostgreSQL: clamped, and then an integer of the lattice.

Sums of BIGINT and NUMERIC are NUMERIC there, and never overflow; sums of INTEGER are BIGINT.

Integers on a public lattice: PRIVACY.md R28.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.compiler.plan import measurement_kinds
from dpsql.compiler.plan.lattices import Lattice

_BIGINT, _INTEGER = 2**62, 2**31
_TINY = "float8 '1e-200'"
"""Size below which a number is zero steps of any lattice."""


def row_value(part: measurement_kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value, clamped, scaled, rounded half up and centred; NULL and NaN
    become NULL (PRIVACY.md R28).

    A DECIMAL is its own lattice and stays as it is; other numbers become integers.
    """
    if part.lattice.is_decimal:
        value = clamped(x, _decimal(part.lower, part), _decimal(part.upper, part))
        return f"{value} - ({_decimal(part.centre, part)})" if part.centre else value
    ends = (part.lower, part.upper, part.lower - part.centre, part.upper - part.centre)
    value = f"({_steps(part, x)})::{_integer(min(ends), max(ends))}"
    return f"{value} - ({part.centre})" if part.centre else value


def _steps(part: measurement_kinds.ValueTotal, x: str) -> str:
    if part.lattice.base != 2:  # noqa: PLR2004
        return clamped(x, str(part.lower), str(part.upper))
    lower, upper = (_double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
    # A product that is too small for a DOUBLE would raise.
    around_zero = part.lattice.digits < 0 and part.lower <= 0 <= part.upper
    tiny = f"WHEN abs({x}) < {_TINY} THEN 0 " if around_zero else ""
    within = f"CASE WHEN {x} = 'NaN' THEN NULL {tiny}{_cases(x, lower, upper)}"
    return f"FLOOR({within} * {_double(2.0**part.lattice.digits)} + 0.5)"


def row_integer(part: measurement_kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value as an integer, clamped, minus the centre; NULL and NaN are
    NULL.
    """
    if not part.lattice.is_decimal:
        return row_value(part, x)
    return as_integer(part.lattice, row_value(part, x))


unit_value = row_value
"""Alias: a row has the same form in the total of one unit."""


def weighed_value(part: measurement_kinds.ValueTotal, x: str, weight: str) -> str:
    """Return SQL for a row's value as an integer times its weight."""
    return f"({row_integer(part, x)})::numeric * {weight}"


def clipped_total(part: measurement_kinds.Measurement, total: str, *, whole: bool = False) -> str:
    """Return SQL for a unit's total in a group, a sum of `row_value`, clipped and as an integer.

    A sum of `weighed_value` is an integer (`whole`) already.
    """
    if isinstance(part, measurement_kinds.UnitCount):
        return total  # 1, or nothing
    lower, upper = measurement_kinds.clip_of_unit(part)
    if isinstance(part, measurement_kinds.ValueTotal) and part.lattice.is_decimal and not whole:
        total = as_integer(part.lattice, total)
    return f"({clamped(total, str(lower), str(upper))})::{_integer(lower, upper)}"


def as_integer(lattice: Lattice, total: str) -> str:
    """Return SQL for a sum over rows as an integer; for a DECIMAL, its digits without the point."""
    return f"trunc(({total}) * {10**lattice.digits})" if lattice.is_decimal else total


def clamped(x: str, lower: str, upper: str) -> str:
    """Return SQL for the value, at least `lower` and at most `upper`; NULL stays NULL."""
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def _decimal(value: int, part: measurement_kinds.ValueTotal) -> str:
    return f"{Decimal(f'{value}E-{part.lattice.digits}'):f}"


def _double(value: float) -> str:
    return f"float8 '{value!r}'"


def _integer(lower: int, upper: int) -> str:
    """Return the integer type that holds every value between the bounds.

    A unit with 2^32 rows in a group would overflow a sum of INTEGERs.
    """
    if lower > -_INTEGER and upper < _INTEGER:
        return "integer"
    return "bigint" if lower > -_BIGINT and upper < _BIGINT else "numeric"
