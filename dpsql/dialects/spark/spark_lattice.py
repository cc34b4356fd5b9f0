"""One row, one total on Spark: clamped, and then an integer of the lattice.

A row or a total of 32 bits is an INT, of which sums have 64 bits: 2^32 rows would overflow one.
Anything wider is a DECIMAL whose sum has ten digits to spare, and where it has not the question is
refused: no sum of BIGINT is taken, which an engine may let wrap around (SECURITY.md S28).

Whole numbers on a public lattice: PRIVACY.md R28.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.compiler.plan.lattices import Lattice
from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    Measurement,
    StableMean,
    UnitCount,
    ValueTotal,
    clip_of_unit,
)
from dpsql.dialects.block_printer import type_of
from dpsql.dialects.spark.spark_constants import MOST_DIGITS, double, lacking
from dpsql.model.tree import Kind

_INT, _SUMMED_DIGITS = 2**31, 28
"""The ends of an INT, and the digits of which sums have 38."""


def _is_decimal(lattice: Lattice) -> bool:
    return lattice.base == 10 and lattice.digits > 0  # noqa: PLR2004


def row_value(part: ValueTotal, x: str) -> str:
    """Clamp, scale, round half up and centre one row; NULL and NaN stay out (PRIVACY.md R28)."""
    ends = (part.lower, part.upper, part.lower - part.centre, part.upper - part.centre)
    value = f"CAST({_steps(part, x)} AS {summed_type(min(ends), max(ends))})"
    return f"{value} - ({part.centre})" if part.centre else value


row_integer = row_value
"""A row is an integer always."""


def unit_value(part: ValueTotal, x: str) -> str:
    """One row for the total of its unit: a DECIMAL stays one, which is added up for less."""
    if not _adds_decimals(part):
        return row_value(part, x)
    digits = part.lattice.digits
    value = _within(digits, x, part.lower, part.upper)
    if not part.centre:
        return value
    width = _width(digits, part.lower, part.upper)
    return f"CAST({value} AS DECIMAL({width},{digits})) - ({_decimal(digits, part.centre)})"


def _adds_decimals(part: Measurement) -> bool:
    """Whether rows are DECIMALs in the steps of the lattice, with digits to spare for sums."""
    if not isinstance(part, ClippedSum | StableMean) or not _is_decimal(part.lattice):
        return False
    kind, digits = type_of(part.argument), part.lattice.digits
    widest = max(kind.precision, _width(digits, part.lower, part.upper, part.centre))
    return kind.kind is Kind.DECIMAL and kind.scale == digits and widest < _SUMMED_DIGITS


def _steps(part: ValueTotal, x: str) -> str:
    digits = part.lattice.digits
    if _is_decimal(part.lattice):
        return _decimal_steps(digits, x, part.lower, part.upper)
    if part.lattice.base == 2:  # noqa: PLR2004
        lower, upper = (double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
        within = f"CASE WHEN isnan({x}) THEN NULL {_cases(x, lower, upper)}"
        return f"FLOOR({within} * {double(2.0**digits)} + 0.5D)"
    return clamped(x, str(part.lower), str(part.upper))


def _decimal_steps(digits: int, x: str, lower: int, upper: int) -> str:
    """A DECIMAL, clamped, as its digits without the point."""
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
    """More digits than any of so many steps has."""
    return max(len(str(abs(n))) for n in (*steps, 10**digits)) + 1


def weighed_value(part: ValueTotal, x: str, weight: str) -> str:
    """One row as an integer, as often as it counts."""
    return f"CAST({row_value(part, x)} AS DECIMAL(19,0)) * CAST({weight} AS DECIMAL(18,0))"


def clipped_total(part: Measurement, total: str, *, whole: bool = False) -> str:
    """A unit's total in a group, the sum of its `unit_value`, clipped and then an integer.

    A sum of `weighed_value` is a `whole` number already.
    """
    if isinstance(part, UnitCount):
        return total  # 1, or nothing
    lower, upper = clip_of_unit(part)
    clipped = clamped(total, str(lower), str(upper))
    if isinstance(part, ValueTotal) and _adds_decimals(part) and not whole:
        clipped = _decimal_steps(part.lattice.digits, total, lower, upper)
    return f"CAST({clipped} AS {summed_type(lower, upper)})"


def as_integer(_lattice: Lattice, total: str) -> str:
    """A sum over rows is an integer."""
    return total


def clamped(x: str, lower: str, upper: str) -> str:
    """The value, no less than `lower` and no more than `upper`; NULL stays NULL."""
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def summed_type(lower: int, upper: int) -> str:
    """A type that surely holds every value between the bounds, and of which sums do not overflow.

    >>> summed_type(0, 500), summed_type(0, 2**40)
    ('INT', 'DECIMAL(14,0)')
    """
    if lower > -_INT and upper < _INT:
        return "INT"
    digits = len(str(max(-lower, upper))) + 1
    if digits > _SUMMED_DIGITS:
        raise lacking("sums of numbers of so many digits")
    return f"DECIMAL({digits},0)"
