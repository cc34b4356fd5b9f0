"""ABS, SIGN, rounding, roots, logarithms, powers, angles, divisors, bits and tests of numbers.

DuckDB's libm is within one unit in the last place; four are allowed. `ln(0)` is -∞. In DuckDB 2
`ln(-1)` and `sqrt(-1)` are NaN, as any result outside a function's domain or at an infinity; DuckDB
1 raises there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import factorial
from typing import cast

from dpsql.functions.row import (
    NUMBERS,
    TEMPORAL,
    WHOLE,
    Args,
    Domain,
    Function,
    Types,
    always,
    constant,
    fixed,
    never,
    raising,
    type_at,
    unlisted,
    value_at,
)
from dpsql.functions.type_rules import INT64, MAX_PRECISION, as_double
from dpsql.model.intervals import EVERYTHING, Bound, Interval, lattice
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, Expression, Kind, Literal, SqlType, decimal

ULPS = 4
MOST_DIGITS = 15
POSITIVE = Interval(Fraction(0), None)


def _same(types: Types) -> SqlType | None:
    return types[0] if len(types) == 1 and types[0].is_numeric else None


def _whole(types: Types) -> SqlType | None:
    """Return the type of FLOOR and CEIL: a DECIMAL loses its scale, an INTEGER becomes DOUBLE."""
    kind = _same(types)
    if kind is None or kind.kind is not Kind.DECIMAL:
        return None if kind is None else DOUBLE
    return decimal(kind.precision, 0)


def _truncated(types: Types) -> SqlType | None:
    """Return the type of TRUNC(x): a DECIMAL loses its scale, an INTEGER stays."""
    return INTEGER if types == (INTEGER,) else _whole(types)


def _rounded_type(types: Types) -> SqlType | None:
    """Return the type of ROUND: ROUND(x) as TRUNC(x); ROUND(x, n) keeps the scale plus a digit for
    the carry.
    """
    if len(types) == 1:
        return _truncated(types)
    if len(types) != 2 or not types[0].is_numeric or types[1] != INTEGER:  # noqa: PLR2004
        return None
    kind = types[0]
    if kind.kind is not Kind.DECIMAL:
        return kind
    return decimal(min(MAX_PRECISION, kind.precision + 1), kind.scale)


def _truncated_type(types: Types) -> SqlType | None:
    """Return the type of TRUNC: TRUNC(x, n) keeps the type of x."""
    fits = len(types) == 2 and types[0].is_numeric and types[1] == INTEGER  # noqa: PLR2004
    return types[0] if fits else _truncated(types)


def _stepwise(step: Callable[[Fraction], int]) -> Callable[[Args, SqlType], Interval]:
    """Return the interval rule of FLOOR, CEIL and TRUNC."""

    def interval(args: Args, kind: SqlType) -> Interval:
        source = as_double(args[0]) if kind == DOUBLE else args[0].interval
        return source.map(lambda end: Fraction(step(cast("Fraction", end))))

    return interval


def _half_away(value: Fraction) -> int:
    """Round to the nearest integer, halves away from zero, as DuckDB does.

    >>> _half_away(Fraction(-5, 2)), _half_away(Fraction(5, 2))
    (-3, 3)
    """
    size = math.floor(abs(value) + Fraction(1, 2))
    return size if value >= 0 else -size


def _to_digits(step: Callable[[Fraction], int]) -> Callable[[Args, SqlType], Interval]:
    """Return the interval rule of ROUND(x, n) and TRUNC(x, n), which step at the n-th digit."""
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
    """Multiply each end by a power of ten, in double arithmetic."""
    return (interval * Interval(factor, factor)).outward(DOUBLE, ULPS if factor != 1 else 0)


def _rounding_raises(args: Args, kind: SqlType) -> bool:
    """Test whether rounding can overflow: ROUND(integer, -n) 64 bits, or a carry 38 digits."""
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
    """List the whole numbers of an interval in the result's type."""
    grid = INTEGER if kind == DOUBLE else kind
    values = lattice(grid, interval, limit)
    if values is None or kind != DOUBLE:
        return values
    return tuple(float(cast("int", value)) for value in values)


def _rounded_values(args: Args, kind: SqlType, interval: Interval, limit: int) -> Domain:
    """List the results of ROUND: whole numbers for ROUND(x), multiples of 10^-n for ROUND(decimal,
    n).
    """
    if len(args) == 1:
        return _whole_numbers(args, kind, interval, limit)
    return None if kind == DOUBLE else lattice(kind, interval, limit)


def _few_digits(args: tuple[Expression, ...]) -> bool:
    """Test for a small literal number of digits, below the digits of a DECIMAL before its point.

    For more digits, DuckDB gives 0 even for NULL.
    """
    if len(args) == 1:
        return True
    digits = value_at(args, 1)
    if not isinstance(digits, int) or abs(digits) > MOST_DIGITS:
        return False
    kind = type_at(args, 0)
    return kind is None or kind.kind is not Kind.DECIMAL or -digits < kind.precision - kind.scale


def _signum(end: Bound) -> Fraction:
    assert isinstance(end, Fraction)
    return Fraction((end > 0) - (end < 0))


def image(function: Callable[[float], float], source: Interval) -> Interval:
    """Return the interval of an increasing function computed by libm; overflow is unbounded."""

    def end(value: Bound) -> Fraction | None:
        try:
            result = function(float(cast("Fraction", value)))
        except (OverflowError, ValueError):
            return None
        return Fraction(result) if math.isfinite(result) else None

    return source.outward(DOUBLE).map(end).outward(DOUBLE, ULPS)


def negative_nan(args: Args) -> bool:
    """Test whether a root or logarithm may be NaN: its argument may be negative."""
    return not args[0].interval.is_nonnegative


def _negative_raises(args: Args, _kind: SqlType) -> bool:
    return not args[0].interval.is_nonnegative


def not_positive_raises(args: Args, kind: SqlType) -> bool:
    """Test whether a logarithm may be undefined: its argument may be zero or negative."""
    return _negative_raises(args, kind) or args[0].interval.contains(Fraction(0))


def _power(args: Args, _kind: SqlType) -> Interval:
    base, exponent = (as_double(arg) for arg in args)
    if not (base.is_bounded and exponent.is_bounded):
        return EVERYTHING
    times = exponent.lo
    if times == exponent.hi and times in range(MOST_DIGITS + 1):
        whole = int(cast("Fraction", times))
        source = abs(base) if whole % 2 == 0 else base
        return source.map(lambda end: cast("Fraction", end) ** whole).outward(DOUBLE, ULPS)
    if not base.is_nonnegative or (base.lo == 0 and not exponent.is_nonnegative):
        return EVERYTHING
    # Increasing or decreasing in each argument for a base from zero up: extremes are at corners.
    corners = [
        image(lambda x, e=e: math.pow(x, e), Interval(b, b))  # type: ignore[misc]
        for b in (base.lo, base.hi)
        for e in map(float, (cast("Fraction", exponent.lo), cast("Fraction", exponent.hi)))
    ]
    return reduce(Interval.union, corners).intersect(POSITIVE)


NUMERIC = (
    Function(
        "local_estimate",
        lambda types: types[0] if types[0].is_numeric and types[1:] == (DOUBLE,) else None,
        lambda args, _kind: args[0].interval,
        nulls=lambda args: args[0].nullable,
    ),
    Function(
        "abs",
        _same,
        lambda args, _kind: abs(args[0].interval),
        raises=lambda args, kind: kind == INTEGER and not args[0].interval.within(-INT64, INT64),
        called=(1, 1),
    ),
    Function(
        "sign",
        fixed(INTEGER, NUMBERS),
        lambda args, _kind: Interval(Fraction(-1), Fraction(1)).intersect(
            args[0].interval.map(_signum)
        ),
        called=(1, 1),
    ),
    Function(
        "round",
        _rounded_type,
        _to_digits(_half_away),
        raises=_rounding_raises,
        image=_rounded_values,
        accepts=_few_digits,
        called=(1, 2),
    ),
    Function("floor", _whole, _stepwise(math.floor), image=_whole_numbers, called=(1, 1)),
    Function("ceil", _whole, _stepwise(math.ceil), image=_whole_numbers, called=(1, 1)),
    Function(
        "trunc",
        _truncated_type,
        _to_digits(math.trunc),
        image=_rounded_values,
        accepts=_few_digits,
        called=(1, 2),
    ),
    Function(
        "sqrt",
        fixed(DOUBLE, NUMBERS),
        lambda args, _kind: image(math.sqrt, as_double(args[0]).intersect(POSITIVE)).intersect(
            POSITIVE
        ),
        raises=_negative_raises,
        nan=negative_nan,
        called=(1, 1),
    ),
    Function(
        "ln",
        fixed(DOUBLE, NUMBERS),
        lambda args, _kind: image(math.log, as_double(args[0])),
        raises=not_positive_raises,
        nan=negative_nan,
        called=(1, 1),
    ),
    Function(
        "exp",
        fixed(DOUBLE, NUMBERS),
        lambda args, _kind: image(math.exp, as_double(args[0])).intersect(POSITIVE),
        called=(1, 1),
    ),
    Function(
        "pow",
        fixed(DOUBLE, NUMBERS, NUMBERS),
        _power,
        nan=lambda args: not (isinstance(args[1].point, int) or args[0].interval.is_nonnegative),
        called=(2, 2),
    ),
)


ANGLE = Fraction(math.pi)
UNIT = Interval(Fraction(-1), Fraction(1))
HALF_TURN = Interval(-ANGLE / 2, ANGLE / 2).outward(DOUBLE, ULPS)
TURN = Interval(-ANGLE, ANGLE).outward(DOUBLE, ULPS)

_Interval = Callable[[Args, SqlType], Interval]


def _increasing(function: Callable[[float], float]) -> _Interval:
    return lambda args, _kind: image(function, as_double(args[0]))


def _times(factor: float) -> _Interval:
    by = Interval(Fraction(factor), Fraction(factor))
    return lambda args, _kind: (as_double(args[0]) * by).outward(DOUBLE, ULPS)


def _infinite(args: Args) -> bool:
    """Test whether an argument may be infinite, where the function is undefined."""
    return not all(arg.interval.is_bounded for arg in args)


def _beyond_one(args: Args) -> bool:
    """Test whether the argument may lie outside [-1, 1]."""
    return not args[0].interval.within(-1, 1)


def _unary(
    name: str,
    interval: _Interval,
    undefined: Callable[[Args], bool] = never,
    *,
    raises: bool = False,
) -> Function:
    """Build a function of one number: NaN (or an error on DuckDB 1) where it is undefined."""
    return Function(
        name,
        fixed(DOUBLE, NUMBERS),
        interval,
        raises=lambda args, _kind: raises and undefined(args),
        nan=undefined,
        called=(1, 1),
    )


def _logarithm_to(name: str, function: Callable[[float], float]) -> Function:
    return Function(
        name,
        fixed(DOUBLE, NUMBERS),
        lambda args, _kind: image(function, as_double(args[0])),
        raises=not_positive_raises,
        nan=negative_nan,
        called=(1, 1),
    )


TRANSCENDENTAL = (
    _logarithm_to("log10", math.log10),
    _logarithm_to("log2", math.log2),
    _unary("cbrt", _increasing(math.cbrt)),
    _unary("degrees", _times(180 / math.pi)),
    _unary("radians", _times(math.pi / 180)),
    _unary("sin", constant(UNIT), _infinite, raises=True),
    _unary("cos", constant(UNIT), _infinite, raises=True),
    _unary("tan", constant(EVERYTHING), _infinite, raises=True),
    _unary("cot", constant(EVERYTHING), always, raises=True),
    _unary("asin", constant(HALF_TURN), _beyond_one, raises=True),
    _unary("acos", constant(TURN.intersect(POSITIVE)), _beyond_one, raises=True),
    _unary("atan", constant(HALF_TURN)),
    Function("atan2", fixed(DOUBLE, NUMBERS, NUMBERS), constant(TURN), called=(2, 2)),
    _unary("sinh", _increasing(math.sinh)),
    _unary("cosh", constant(Interval(Fraction(1), None))),
    _unary("tanh", constant(UNIT)),
    _unary("asinh", _increasing(math.asinh)),
    _unary("acosh", constant(POSITIVE), always),
    _unary("atanh", constant(EVERYTHING), always, raises=True),
    _unary("gamma", constant(EVERYTHING), always, raises=True),
    _unary("lgamma", constant(EVERYTHING), always, raises=True),
    Function(
        "fdiv", fixed(DOUBLE, NUMBERS, NUMBERS), constant(EVERYTHING), nan=always, called=(2, 2)
    ),
    Function(
        "fmod", fixed(DOUBLE, NUMBERS, NUMBERS), constant(EVERYTHING), nan=always, called=(2, 2)
    ),
)


FLOATING = frozenset({Kind.DOUBLE})
OPEN_ENDED = FLOATING | TEMPORAL
"""Kinds with infinite values."""
MOST_BUCKETS = 1_000_000
FARTHEST_BOUND = 10.0**15


def _even(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of EVEN(x), the next even number away from zero: at most two further."""
    room = Interval(Fraction(-2), Fraction(2))
    return (as_double(args[0]) + room).outward(DOUBLE, 4)


def _length(source: Interval) -> int:
    """Return the number of bits of the largest number of a bounded interval."""
    assert isinstance(source.hi, Fraction)
    return int(source.hi).bit_length()


def _bits(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of XOR and |: no bit beyond the larger side; unbounded for negative
    sides.
    """
    if not all(arg.interval.within(0, 2**127 - 1) for arg in args):
        return EVERYTHING
    return Interval(Fraction(0), Fraction(2 ** max(_length(arg.interval) for arg in args) - 1))


def _common_bits(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of &: no bit that a nonnegative side lacks."""
    sides = [arg.interval.hi for arg in args if arg.interval.within(0, 2**127 - 1)]
    most = [hi for hi in sides if hi is not None]
    return Interval(Fraction(0), min(most)) if most else EVERYTHING


def _complement(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of ~x, which is -1 - x."""
    lo, hi = args[0].interval.lo, args[0].interval.hi
    lower, upper = (-1 - end if isinstance(end, Fraction) else None for end in (hi, lo))
    return Interval(lower, upper)


def _buckets(args: Args, _kind: SqlType) -> Interval:
    count = args[3].point
    most = count + 1 if isinstance(count, int) else MOST_BUCKETS + 1
    return Interval(Fraction(0), Fraction(most))


def _true_buckets(args: tuple[Expression, ...]) -> bool:
    """Test for literal bounds in order, and a literal number of buckets."""
    values = [arg.value if isinstance(arg, Literal) else None for arg in args[1:]]
    if len(values) != 3 or not all(isinstance(v, int | float | Decimal) for v in values):  # noqa: PLR2004
        return False
    low, high, count = values
    assert isinstance(low, int | float | Decimal)
    assert isinstance(high, int | float | Decimal)
    finite = all(abs(float(v)) < FARTHEST_BOUND for v in (low, high))
    return finite and low < high and type(count) is int and 0 < count <= MOST_BUCKETS


MOST_FACTORS = 33
"""Largest argument of FACTORIAL: 34! has more than 128 bits."""


def _factorial(args: Args, _kind: SqlType) -> Interval:
    """Return the interval of FACTORIAL, which increases; it is undefined outside 0 to 33."""
    within = args[0].interval.intersect(Interval(Fraction(0), Fraction(MOST_FACTORS)))
    return within.map(lambda end: Fraction(factorial(_clamped(end))))


def _clamped(end: Bound) -> int:
    assert isinstance(end, Fraction)
    return min(max(int(end), 0), MOST_FACTORS)


INTEGERS = (
    Function(
        "factorial",
        fixed(INTEGER, WHOLE),
        _factorial,
        raises=raising,
        image=unlisted,
        called=(1, 1),
    ),
    Function(
        "gcd", fixed(INTEGER, WHOLE, WHOLE), constant(POSITIVE), raises=raising, called=(2, 2)
    ),
    Function(
        "lcm", fixed(INTEGER, WHOLE, WHOLE), constant(POSITIVE), raises=raising, called=(2, 2)
    ),
    Function("xor", fixed(INTEGER, WHOLE, WHOLE), _bits, called=(2, 2)),
    Function("bitwise_or", fixed(INTEGER, WHOLE, WHOLE), _bits),
    Function("bitwise_and", fixed(INTEGER, WHOLE, WHOLE), _common_bits),
    Function("bitwise_not", fixed(INTEGER, WHOLE), _complement),
    Function("even", fixed(DOUBLE, NUMBERS), _even, called=(1, 1)),
    Function("isnan", fixed(BOOLEAN, FLOATING), called=(1, 1)),
    Function("isinf", fixed(BOOLEAN, OPEN_ENDED), called=(1, 1)),
    Function("isfinite", fixed(BOOLEAN, OPEN_ENDED), called=(1, 1)),
    Function("signbit", fixed(BOOLEAN, FLOATING), called=(1, 1)),
    Function(
        "width_bucket",
        lambda types: (
            INTEGER if types[3:] == (INTEGER,) and all(t.is_numeric for t in types) else None
        ),
        _buckets,
        accepts=_true_buckets,
        called=(4, 4),
    ),
)
