"""One row and one total on Spark: clamped, and then an integer of the lattice.

A row or a total of 32 bits is an INT; its sums have 64 bits, so only 2^32 rows overflow. Wider ones
are DECIMALs with ten spare digits for sums; otherwise the question is refused. BIGINTs are never
summed, because an engine may overflow silently (SECURITY.md S28).

Integers on a public lattice: PRIVACY.md R28.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.plan.lattices import Lattice
from dpsql.dialects.block_printer import type_of
from dpsql.dialects.spark.spark_constants import MOST_DIGITS, double, lacking
from dpsql.model.tree import Kind

_INT, _SUMMED_DIGITS = 2**31, 28
"""Ends of an INT, and the digits of a DECIMAL with sums of 38 digits."""


def row_value(part: kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value, clamped, scaled, rounded half up and centred; NULL and NaN
    become NULL (PRIVACY.md R28).
    """
    ends = (part.lower, part.upper, part.lower - part.centre, part.upper - part.centre)
    value = f"CAST({_steps(part, x)} AS {summed_type(min(ends), max(ends))})"
    return f"{value} - ({part.centre})" if part.centre else value


row_integer = row_value
"""Alias: a row is always an integer."""


def unit_value(part: kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value in its unit's total: a DECIMAL stays one, which is cheaper to
    sum.
    """
    if not _adds_decimals(part):
        return row_value(part, x)
    digits = part.lattice.digits
    value = _within(digits, x, part.lower, part.upper)
    if not part.centre:
        return value
    width = _width(digits, part.lower, part.upper)
    return f"CAST({value} AS DECIMAL({width},{digits})) - ({_decimal(digits, part.centre)})"


def _adds_decimals(part: kinds.Measurement) -> bool:
    """Test whether rows are DECIMALs in the steps of the lattice, with spare digits for sums."""
    if not isinstance(part, kinds.ClippedSum | kinds.StableMean) or not part.lattice.is_decimal:
        return False
    kind, digits = type_of(part.argument), part.lattice.digits
    widest = max(kind.precision, _width(digits, part.lower, part.upper, part.centre))
    return kind.kind is Kind.DECIMAL and kind.scale == digits and widest < _SUMMED_DIGITS


def _steps(part: kinds.ValueTotal, x: str) -> str:
    digits = part.lattice.digits
    if part.lattice.is_decimal:
        return _decimal_steps(digits, x, part.lower, part.upper)
    if part.lattice.base == 2:  # noqa: PLR2004
        lower, upper = (double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
        within = f"CASE WHEN isnan({x}) THEN NULL {_cases(x, lower, upper)}"
        return f"FLOOR({within} * {double(2.0**digits)} + 0.5D)"
    return clamped(x, str(part.lower), str(part.upper))


def _decimal_steps(digits: int, x: str, lower: int, upper: int) -> str:
    """Return SQL for a DECIMAL, clamped, as its digits without the point."""
    width = _width(digits, lower, upper)
    if width + digits + 2 > MOST_DIGITS:
        raise lacking("amounts of so many digits")
    exact = f"CAST({_within(digits, x, lower, upper)} AS DECIMAL({width},{digits}))"
    return f"{exact} * {10**digits}BD"


def _within(digits: int, x: str, lower: int, upper: int) -> str:
    return clamped(x, _decimal(digits, lower), _decimal(digits, upper))


def _decimal(digits: int, steps: int) -> str:
    return f"{Decimal(f'{steps}E-{digits}'):f}BD"


def _width(digits: int, *steps: int) -> int:
    """Return more digits than any of these numbers of steps has."""
    return max(len(str(abs(n))) for n in (*steps, 10**digits)) + 1


def weighed_value(part: kinds.ValueTotal, x: str, weight: str) -> str:
    """Return SQL for a row's value as an integer times its weight."""
    return f"CAST({row_value(part, x)} AS DECIMAL(19,0)) * CAST({weight} AS DECIMAL(18,0))"


def clipped_total(part: kinds.Measurement, total: str, *, whole: bool = False) -> str:
    """Return SQL for a unit's total in a group, a sum of `unit_value`, clipped and as an integer.

    A sum of `weighed_value` is an integer (`whole`) already.
    """
    if isinstance(part, kinds.UnitCount):
        return total  # 1, or nothing
    lower, upper = kinds.clip_of_unit(part)
    clipped = clamped(total, str(lower), str(upper))
    if isinstance(part, kinds.ValueTotal) and _adds_decimals(part) and not whole:
        clipped = _decimal_steps(part.lattice.digits, total, lower, upper)
    return f"CAST({clipped} AS {summed_type(lower, upper)})"


def as_integer(_lattice: Lattice, total: str) -> str:
    """Return SQL for a sum over rows unchanged: it is an integer."""
    return total


def clamped(x: str, lower: str, upper: str) -> str:
    """Return SQL for the value, at least `lower` and at most `upper`; NULL stays NULL."""
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def summed_type(lower: int, upper: int) -> str:
    """Return a type that holds every value between the bounds, with sums that do not overflow.

    >>> summed_type(0, 500), summed_type(0, 2**40)
    ('INT', 'DECIMAL(14,0)')
    """
    if lower > -_INT and upper < _INT:
        return "INT"
    digits = len(str(max(-lower, upper))) + 1
    if digits > _SUMMED_DIGITS:
        raise lacking("sums of numbers of so many digits")
    return f"DECIMAL({digits},0)"
