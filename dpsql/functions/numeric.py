"""ABS, SIGN, rounding, roots, logarithms and powers.

DuckDB's libm is within one unit in the last place; four are allowed. `ln(0)` is -∞, `ln(-1)` and
`sqrt(-1)` are NaN in DuckDB 2; DuckDB 1 raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import cast

from dpsql.functions.row import (
    NUMBERS,
    Args,
    Domain,
    Function,
    Types,
    any_nan,
    fixed,
    never,
    type_at,
    value_at,
)
from dpsql.functions.type_rules import INT64, MAX_PRECISION, as_double
from dpsql.model.intervals import EVERYTHING, Bound, Interval, lattice
from dpsql.model.tree import DOUBLE, INTEGER, Expression, Kind, SqlType, decimal

ULPS = 4
MOST_DIGITS = 15
POSITIVE = Interval(Fraction(0), None)


def _same(types: Types) -> SqlType | None:
    return types[0] if len(types) == 1 and types[0].is_numeric else None


def _whole(types: Types) -> SqlType | None:
    """FLOOR and CEIL: a DECIMAL loses its scale, an INTEGER becomes DOUBLE."""
    kind = _same(types)
    if kind is None or kind.kind is not Kind.DECIMAL:
        return None if kind is None else DOUBLE
    return decimal(kind.precision, 0)


def _truncated(types: Types) -> SqlType | None:
    """TRUNC: a DECIMAL loses its scale, an INTEGER stays."""
    return INTEGER if types == (INTEGER,) else _whole(types)


def _rounded_type(types: Types) -> SqlType | None:
    """ROUND(x) as TRUNC; ROUND(x, n) keeps the scale, with a digit more for the carry."""
    if len(types) == 1:
        return _truncated(types)
    if len(types) != 2 or not types[0].is_numeric or types[1] != INTEGER:  # noqa: PLR2004
        return None
    kind = types[0]
    if kind.kind is not Kind.DECIMAL:
        return kind
    return decimal(min(MAX_PRECISION, kind.precision + 1), kind.scale)


def _truncated_type(types: Types) -> SqlType | None:
    """TRUNC(x, n) keeps the type of x."""
    fits = len(types) == 2 and types[0].is_numeric and types[1] == INTEGER  # noqa: PLR2004
    return types[0] if fits else _truncated(types)


def _stepwise(step: Callable[[Fraction], int]) -> Callable[[Args, SqlType], Interval]:
    """The interval of FLOOR, CEIL and TRUNC."""

    def interval(args: Args, kind: SqlType) -> Interval:
        source = as_double(args[0]) if kind == DOUBLE else args[0].interval
        return source.map(lambda end: Fraction(step(cast("Fraction", end))))

    return interval


def _half_away(value: Fraction) -> int:
    """Rounded to the nearest integer, halves away from zero, as DuckDB does.

    >>> _half_away(Fraction(-5, 2)), _half_away(Fraction(5, 2))
    (-3, 3)
    """
    size = math.floor(abs(value) + Fraction(1, 2))
    return size if value >= 0 else -size


def _to_digits(step: Callable[[Fraction], int]) -> Callable[[Args, SqlType], Interval]:
    """The interval of ROUND(x, n) and TRUNC(x, n), which take a step at the n-th digit."""
    return lambda args, kind: _stepped(step, args, kind)


def _stepped(step: Callable[[Fraction], int], args: Args, kind: SqlType) -> Interval:
    if len(args) == 1:
        return _stepwise(step)(args, kind)
    digits = args[1].point
    source = args[0].interval
    if not isinstance(digits, int) or abs(digits) > MOST_DIGITS:
        return EVERYTHING
    scale = Fraction(10) ** digits

    def exact(end: Bound) -> Fraction:
        return step(cast("Fraction", end) * scale) / scale

    if kind != DOUBLE:
        return source.map(exact)
    grown = _on_doubles(source, scale)
    whole = grown.map(lambda end: Fraction(step(cast("Fraction", end))))
    # Where scaling overflows, DuckDB gives x itself or zero: both lie in the union.
    return _on_doubles(whole, 1 / scale).union(source).union(Interval(Fraction(0), Fraction(0)))


def _on_doubles(interval: Interval, factor: Fraction) -> Interval:
    """Each end times a power of ten, in double arithmetic."""
    return (interval * Interval(factor, factor)).outward(DOUBLE, ULPS if factor != 1 else 0)


def _rounding_raises(args: Args, kind: SqlType) -> bool:
    """ROUND(integer, -n) can leave 64 bits, and a carry 38 digits; other roundings have room."""
    if len(args) == 1:
        return False
    match kind.kind:
        case Kind.INTEGER:
            return not _stepped(_half_away, args, kind).within(-INT64, INT64)
        case Kind.DECIMAL:
            largest = 10 ** (MAX_PRECISION - kind.scale) - 1
            rounded = _stepped(_half_away, args, kind)
            return kind.precision == MAX_PRECISION and not rounded.within(-largest, largest)
        case _:
            return False


def _whole_numbers(_args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    """The whole numbers of an interval in the result's type."""
    grid = INTEGER if kind == DOUBLE else kind
    values = lattice(grid, interval, limit)
    if values is None or kind != DOUBLE:
        return values
    return tuple(float(cast("int", value)) for value in values)


def _rounded_values(args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    """ROUND(x) gives whole numbers; ROUND(decimal, n) multiples of 10^-n, if n is known."""
    if len(args) == 1:
        return _whole_numbers(args, kind, interval, limit)
    return None if kind == DOUBLE else lattice(kind, interval, limit)


def _few_digits(args: tuple[Expression, ...]) -> bool:
    """The number of digits is a literal, small, and no more than a DECIMAL has before its point.

    Beyond, DuckDB gives 0 even for NULL.
    """
    if len(args) == 1:
        return True
    digits = value_at(args, 1)
    if not isinstance(digits, int) or abs(digits) > MOST_DIGITS:
        return False
    kind = type_at(args, 0)
    return kind is None or kind.kind is not Kind.DECIMAL or -digits < kind.precision - kind.scale


def _absolute_raises(args: Args, kind: SqlType) -> bool:
    return kind == INTEGER and not args[0].interval.within(-INT64, INT64)


def _sign(args: Args, _kind: SqlType) -> Interval:
    # SIGN of NaN is 0.
    zero = Interval(Fraction(0), Fraction(0))
    signs = Interval(Fraction(-1), Fraction(1)).intersect(args[0].interval.map(_signum))
    return signs.union(zero) if args[0].may_be_nan else signs


def _signum(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction((end > 0) - (end < 0))


def image(function: Callable[[float], float], source: Interval) -> Interval:
    """The interval of an increasing function computed by libm; overflow is unbounded."""

    def end(value: Bound) -> Fraction | None:
        try:
            result = function(float(cast("Fraction", value)))
        except (OverflowError, ValueError):
            return None
        return Fraction(result) if math.isfinite(result) else None

    return source.outward(DOUBLE).map(end).outward(DOUBLE, ULPS)


def _not_negative(interval: Interval) -> bool:
    return isinstance(interval.lo, Fraction) and interval.lo >= 0


def _square_root(args: Args, _kind: SqlType) -> Interval:
    inside = as_double(args[0]).intersect(POSITIVE)
    return image(math.sqrt, inside).intersect(POSITIVE)


def _exponential(args: Args, _kind: SqlType) -> Interval:
    return image(math.exp, as_double(args[0])).intersect(POSITIVE)


def _logarithm(args: Args, _kind: SqlType) -> Interval:
    return image(math.log, as_double(args[0]))


def negative_nan(args: Args) -> bool:
    """NaN below zero: roots and logarithms."""
    return any_nan(args) or not _not_negative(args[0].interval)


def _negative_raises(args: Args, _kind: SqlType) -> bool:
    return not _not_negative(args[0].interval)


def not_positive_raises(args: Args, kind: SqlType) -> bool:
    """Undefined from zero down: logarithms."""
    return _negative_raises(args, kind) or args[0].interval.contains(Fraction(0))


def _power(args: Args, _kind: SqlType) -> Interval:
    base, exponent = (as_double(arg) for arg in args)
    if not (base.is_bounded and exponent.is_bounded):
        return EVERYTHING
    times = exponent.lo
    if times == exponent.hi and times in range(MOST_DIGITS + 1):
        return _whole_power(base, int(cast("Fraction", times)))
    if not _not_negative(base) or (base.lo == 0 and not _not_negative(exponent)):
        return EVERYTHING
    # Increasing or decreasing in each argument for a base from zero up: extremes are at corners.
    corners = [
        image(lambda x, e=e: math.pow(x, e), Interval(b, b))  # type: ignore[misc]
        for b in (base.lo, base.hi)
        for e in map(float, (cast("Fraction", exponent.lo), cast("Fraction", exponent.hi)))
    ]
    return reduce(Interval.union, corners).intersect(POSITIVE)


def _whole_power(base: Interval, times: int) -> Interval:
    source = abs(base) if times % 2 == 0 else base
    return source.map(lambda end: cast("Fraction", end) ** times).outward(DOUBLE, ULPS)


def _power_nan(args: Args) -> bool:
    whole = isinstance(args[1].point, int)
    return any_nan(args) or not (whole or _not_negative(args[0].interval))


NUMERIC = (
    Function("abs", _same, lambda args, _kind: abs(args[0].interval), raises=_absolute_raises),
    Function("sign", fixed(INTEGER, NUMBERS), _sign, nan=never),
    Function(
        "round",
        _rounded_type,
        _to_digits(_half_away),
        raises=_rounding_raises,
        image=_rounded_values,
        accepts=_few_digits,
    ),
    Function("floor", _whole, _stepwise(math.floor), image=_whole_numbers),
    Function("ceil", _whole, _stepwise(math.ceil), image=_whole_numbers),
    Function(
        "trunc",
        _truncated_type,
        _to_digits(math.trunc),
        image=_rounded_values,
        accepts=_few_digits,
    ),
    Function(
        "sqrt",
        fixed(DOUBLE, NUMBERS),
        _square_root,
        raises=_negative_raises,
        nan=negative_nan,
    ),
    Function(
        "ln",
        fixed(DOUBLE, NUMBERS),
        _logarithm,
        raises=not_positive_raises,
        nan=negative_nan,
    ),
    Function("exp", fixed(DOUBLE, NUMBERS), _exponential),
    Function("pow", fixed(DOUBLE, NUMBERS, NUMBERS), _power, nan=_power_nan),
)
