"""One row, one total on DuckDB: clamped, and then an integer of the lattice."""

from __future__ import annotations

from dataclasses import replace

from dpsql.plan import PartQuery

BIGINT_LIMIT = 2**62
MOST_DIGITS = 38
"""Digits of DuckDB's widest DECIMAL."""


def row_value(part: PartQuery, x: str) -> str:
    """Clamp, scale, round half up and centre one row; NULL and NaN stay out (privacy.md, 4).

    A DECIMAL is its own lattice and stays as it is; other numbers become integers.
    """
    if _is_decimal(part):
        value = clamped(x, _decimal(part.lower, part), _decimal(part.upper, part))
        return f"{value} - {_decimal(part.centre, part)}" if part.centre else value
    if part.lattice.base == 2:  # noqa: PLR2004
        lower, upper = (_double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
        within = f"CASE WHEN isnan({x}) THEN NULL {_cases(x, lower, upper)}"
        value = f"FLOOR({within} * {_double(2.0**part.lattice.digits)} + 0.5)::BIGINT"
    else:
        value = f"({clamped(x, str(part.lower), str(part.upper))})::BIGINT"
    return f"{value} - ({part.centre})" if part.centre else value


def clipped_total(part: PartQuery, total: str) -> str:
    """A unit's total in a group, clipped and then an integer."""
    lower, upper = part.total_lower, part.total_upper
    integer = _integer(lower, upper)
    if not _is_decimal(part):
        return f"({clamped(total, str(lower), str(upper))})::{integer}"
    clipped = f"({clamped(total, _decimal(lower, part), _decimal(upper, part))})"
    scale, digits = part.lattice.digits, _digits(part, lower, upper)
    if digits + scale > MOST_DIGITS:
        return f"{as_integer(part, clipped)}::{integer}"
    # With 38 digits on the left the product has 38 too: with fewer it can overflow.
    return f"({clipped}::DECIMAL({MOST_DIGITS}, {scale}) * {10**scale})::{integer}"


def row_integer(part: PartQuery, x: str) -> str:
    """One row as an integer, clamped; NULL and NaN are NULL."""
    if not _is_decimal(part):
        return row_value(part, x)
    bounds = replace(part, total_lower=part.lower, total_upper=part.upper)
    return clipped_total(bounds, x)


def as_integer(part: PartQuery, total: str) -> str:
    """A sum over rows as an integer; of a DECIMAL, its digits without the point."""
    if not _is_decimal(part):
        return total
    return f"replace({total}::DECIMAL({MOST_DIGITS}, {part.lattice.digits})::VARCHAR, '.', '')"


def _is_decimal(part: PartQuery) -> bool:
    return part.argument is not None and part.lattice.base == 10 and part.lattice.digits > 0  # noqa: PLR2004


def _decimal(value: int, part: PartQuery) -> str:
    scale = part.lattice.digits
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(scale + 1, "0")
    precision = _digits(part, value)
    return f"'{sign}{digits[:-scale]}.{digits[-scale:]}'::DECIMAL({precision}, {scale})"


def _digits(part: PartQuery, *values: int) -> int:
    return max(part.lattice.digits + 1, *(len(str(abs(value))) for value in values))


def _double(value: float) -> str:
    return f"{value!r}::DOUBLE"


def clamped(x: str, lower: str, upper: str) -> str:
    """The value, no less than `lower` and no more than `upper`; NULL stays NULL."""
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def _integer(lower: int, upper: int) -> str:
    """The integer type that surely holds every value between the bounds."""
    return "BIGINT" if lower > -BIGINT_LIMIT and upper < BIGINT_LIMIT else "HUGEINT"
