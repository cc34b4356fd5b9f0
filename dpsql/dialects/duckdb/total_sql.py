"""One row and one total on DuckDB: clamped, and then an integer of the lattice.

Integers on a public lattice: PRIVACY.md R28.
"""

from __future__ import annotations

from dpsql.compiler.plan import measurement_kinds
from dpsql.compiler.plan.lattices import Lattice

BIGINT_LIMIT = 2**62
INTEGER_LIMIT = 2**31
MOST_DIGITS, NARROW_DIGITS = 38, 18
"""Digits of DuckDB's widest DECIMAL, and of the widest with 64 bits."""


def row_value(part: measurement_kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value, clamped, scaled, rounded half up and centred; NULL stays NULL
    (PRIVACY.md R28).

    A DECIMAL is its own lattice and stays as it is; other numbers become integers.
    """
    if part.lattice.is_decimal:
        value = clamped(x, _decimal(part.lower, part), _decimal(part.upper, part))
        return f"{value} - {_decimal(part.centre, part)}" if part.centre else value
    if part.lattice.base == 2:  # noqa: PLR2004
        lower, upper = (_double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
        within, scale = clamped(x, lower, upper), _double(2.0**part.lattice.digits)
        value = f"FLOOR({within} * {scale} + 0.5)::BIGINT"
    else:
        value = f"({clamped(x, str(part.lower), str(part.upper))})::BIGINT"
    return f"{value} - ({part.centre})" if part.centre else value


def unit_value(part: measurement_kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value in its unit's total: in 32 bits if its bounds allow, else
    `row_value`.

    DuckDB adds INTEGERs in 64 bits and wider numbers in 128, at several times the cost. It adds a
    DECIMAL for less than a conversion of each row costs. A unit with 2^32 rows in a group would
    overflow.
    """
    value = row_value(part, x)
    bounds = (part.lower, part.upper, part.lower - part.centre, part.upper - part.centre)
    narrow = not part.lattice.is_decimal and max(map(abs, bounds)) < INTEGER_LIMIT
    return f"({value})::INTEGER" if narrow else value


def weighed_value(part: measurement_kinds.ValueTotal, x: str, weight: str) -> str:
    """Return SQL for a row's value as an integer times its weight."""
    value = row_integer(part, x)
    if part.centre and part.lattice.is_decimal:
        value = f"{value} - ({part.centre})"
    return f"({value})::HUGEINT * {weight}"


def distinct_value(part: measurement_kinds.DistinctSum, x: str) -> str:
    """Return SQL for a distinct value's contribution as an integer; NULL contributes nothing."""
    value = row_integer(part, x)
    return f"{value} - ({part.centre})" if part.centre and part.lattice.is_decimal else value


def clipped_total(part: measurement_kinds.Measurement, total: str, *, whole: bool = False) -> str:
    """Return SQL for a unit's total in a group, a sum of `unit_value`, clipped and as an integer.

    A sum of `weighed_value` is an integer (`whole`) already.
    """
    lower, upper = measurement_kinds.clip_of_unit(part)
    if isinstance(part, measurement_kinds.ValueTotal) and part.lattice.is_decimal and not whole:
        return _decimal_integer(part, total, lower, upper)
    return f"({clamped(total, str(lower), str(upper))})::{_integer(lower, upper)}"


def row_integer(part: measurement_kinds.ValueTotal, x: str) -> str:
    """Return SQL for a row's value as an integer, clamped; NULL is NULL."""
    if not part.lattice.is_decimal:
        return row_value(part, x)
    return _decimal_integer(part, x, part.lower, part.upper)


def _decimal_integer(part: measurement_kinds.ValueTotal, x: str, lower: int, upper: int) -> str:
    """Return SQL for a DECIMAL, clamped, as its digits without the point."""
    clipped = f"({clamped(x, _decimal(lower, part), _decimal(upper, part))})"
    scale, integer = part.lattice.digits, _integer(lower, upper)
    digits = _digits(part, lower, upper) + scale
    if digits > MOST_DIGITS:
        return f"{as_integer(part.lattice, clipped)}::{integer}"
    if digits < NARROW_DIGITS:  # a product with its scale, which has one digit more
        steps = f"'{10**scale}'::DECIMAL({scale + 1}, 0)"
        return f"({clipped}::DECIMAL({digits - scale}, {scale}) * {steps})::{integer}"
    # With 38 digits on the left the product has 38 too; with fewer it can overflow.
    return f"({clipped}::DECIMAL({MOST_DIGITS}, {scale}) * {10**scale})::{integer}"


def as_integer(lattice: Lattice, total: str) -> str:
    """Return SQL for a sum over rows as an integer; for a DECIMAL, its digits without the point."""
    if not lattice.digits or not lattice.is_decimal:
        return total
    return f"replace({total}::DECIMAL({MOST_DIGITS}, {lattice.digits})::VARCHAR, '.', '')"


def _decimal(value: int, part: measurement_kinds.ValueTotal) -> str:
    scale = part.lattice.digits
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(scale + 1, "0")
    precision = min(MOST_DIGITS, _digits(part, value))
    return f"'{sign}{digits[:-scale]}.{digits[-scale:]}'::DECIMAL({precision}, {scale})"


def _digits(part: measurement_kinds.ValueTotal, *values: int) -> int:
    return max(part.lattice.digits + 1, *(len(str(abs(value))) for value in values))


def _double(value: float) -> str:
    return f"{value!r}::DOUBLE"


def clamped(x: str, lower: str, upper: str) -> str:
    """Return SQL for the value, at least `lower` and at most `upper`; NULL stays NULL."""
    return f"CASE WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def _integer(lower: int, upper: int) -> str:
    """Return the integer type that holds every value between the bounds."""
    return "BIGINT" if lower > -BIGINT_LIMIT and upper < BIGINT_LIMIT else "HUGEINT"
