"""Type rules: the common type of several, and a test whether a conversion to it can raise.

INTEGER has any width up to 128 bits here, so next to a DECIMAL it counts as DECIMAL(38, ·). The
precision of a DECIMAL is the most the engine may use; its scale is the engine's own. One corner
differs from plain DuckDB: where a common type needs more than 38 digits, DuckDB drops decimals (or
fails). Here the scale stays and numbers with too many digits before the point become NULL.
"""

from __future__ import annotations

from datetime import date, datetime

from dpsql.functions.row import Types
from dpsql.model.intervals import Bound, Facts, Interval
from dpsql.model.tree import DOUBLE, NULL, TIMESTAMP, Kind, SqlType, decimal

MAX_PRECISION = 38
INT64 = 2**63 - 1


def common_type(types: Types) -> SqlType | None:
    """Return the type of CASE, COALESCE and comparisons over these; None where the engine has none.

    >>> from dpsql.model.tree import INTEGER
    >>> str(common_type((INTEGER, decimal(5, 2), NULL)))
    'DECIMAL(38, 2)'
    """
    present = tuple(t for t in types if t.kind is not Kind.NULL)
    kinds = {t.kind for t in present}
    if not kinds:
        return NULL
    if kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        return _common_exact(present)
    if len(kinds) == 1:
        return present[0]
    if kinds <= {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}:
        return DOUBLE
    return TIMESTAMP if kinds == {Kind.DATE, Kind.TIMESTAMP} else None


def _common_exact(types: Types) -> SqlType:
    decimals = [t for t in types if t.kind is Kind.DECIMAL]
    if not decimals:
        return types[0]
    scale = max(t.scale for t in decimals)
    if len(decimals) < len(types):
        return decimal(MAX_PRECISION, scale)
    return decimal(min(MAX_PRECISION, digits_needed(types)), scale)


def digits_needed(decimals: Types) -> int:
    """Return the number of digits that a DECIMAL needs to hold every value of these DECIMALs."""
    return max(t.precision - t.scale for t in decimals) + max(t.scale for t in decimals)


def converted(types: Types) -> tuple[SqlType | None, ...]:
    """Return the common type as the operand type of every argument."""
    common = common_type(types)
    return (None if common is NULL else common,) * len(types)


def conversion_raises(arg: Facts, target: SqlType | None) -> bool:
    """Test whether an implicit conversion can raise on a value that these facts allow.

    Two can: to a DECIMAL with too few digits before the point, and DATE to TIMESTAMP, whose range
    is smaller. (An interval of dates lies in the years 1 to 9999.)
    """
    if target is None or arg.type == target:
        return False
    match (arg.type.kind, target.kind):
        case (Kind.INTEGER | Kind.DECIMAL, Kind.DECIMAL):
            return not fits_decimal(arg.interval, arg.type, target)
        case (Kind.DATE, Kind.TIMESTAMP):
            return not arg.interval.is_bounded
        case _:
            return False


def fits_decimal(interval: Interval, source: SqlType, target: SqlType) -> bool:
    """Test whether every value of `source` in `interval` has few enough digits for `target`."""
    whole = target.precision - target.scale
    if source.kind is Kind.DECIMAL and source.precision - source.scale <= whole:
        return True
    return interval.within(-(10**whole) + 1, 10**whole - 1)


def as_double(arg: Facts) -> Interval:
    """Return the interval after conversion to DOUBLE.

    Up to 15 digits the quotient of two exact doubles is rounded once. With more digits, the digits
    and the power of ten are rounded separately, which four units in the last place cover.
    """
    wide = arg.type.kind is Kind.DECIMAL and arg.type.precision > 15  # noqa: PLR2004
    return arg.interval.outward(DOUBLE, 4 if wide else 0)


def as_type(arg: Facts, target: SqlType) -> Interval:
    """Return the interval after an implicit conversion to `target`."""
    match (arg.type.kind, target.kind):
        case (Kind.INTEGER | Kind.DECIMAL, Kind.DOUBLE):
            return as_double(arg)
        case (Kind.DATE, Kind.TIMESTAMP):
            return midnights(arg.interval)
        case _:
            return arg.interval


def midnights(interval: Interval) -> Interval:
    """Convert dates to the timestamps of their midnights."""

    def midnight(day: Bound) -> datetime:
        assert isinstance(day, date)
        return datetime(day.year, day.month, day.day)  # noqa: DTZ001

    return interval.map(midnight)
