"""The operators + - * / // % and unary minus.

Integers are computed in at least 64 bits for any width of the columns, so that only results beyond
64 bits are lost. DECIMAL results have DuckDB's scale; it widens their precision, but not past 18
digits if both operands have fewer, nor past 38: there they overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import reduce
from operator import add, mul, sub

from dpsql.functions.row import Args, Function, Types, always
from dpsql.functions.type_rules import (
    INT64,
    MAX_PRECISION,
    as_double,
    common_type,
    converted,
    digits_needed,
)
from dpsql.model.intervals import Bound, Facts, Interval
from dpsql.model.tree import DATE, DOUBLE, INTEGER, Kind, SqlType, decimal

Combine = Callable[[Interval, Interval], Interval]
SAFE_DIGITS = 18
LEAST = 1
"""Least distance from zero of a nonzero exact number, in steps of its grid."""


def _numbers(types: Types, count: int) -> bool:
    return len(types) == count and all(t.is_numeric for t in types)


def _sum_type(types: Types) -> SqlType | None:
    common = common_type(types) if _numbers(types, 2) else None
    if common is None or common.kind is not Kind.DECIMAL:
        return common
    return decimal(min(MAX_PRECISION, common.precision + 1), common.scale)


def _product_type(types: Types) -> SqlType | None:
    common = common_type(types) if _numbers(types, 2) else None
    if common is None or common.kind is not Kind.DECIMAL:
        return common
    whole = [decimal(MAX_PRECISION, 0) if t.kind is Kind.INTEGER else t for t in types]
    scale = sum(t.scale for t in whole)
    precision = min(MAX_PRECISION, sum(t.precision for t in whole))
    return decimal(precision, scale) if scale <= MAX_PRECISION else None


def _factors(types: Types) -> tuple[SqlType | None, ...]:
    common = common_type(types)
    if common is None or common.kind is not Kind.DECIMAL:
        return converted(types)
    return tuple(decimal(MAX_PRECISION, 0) if t.kind is Kind.INTEGER else None for t in types)


def _exactly(combine: Combine, args: Args, kind: SqlType) -> Interval:
    left, right = args
    if kind.kind is Kind.DOUBLE:
        return combine(as_double(left), as_double(right)).outward(DOUBLE)
    return combine(left.interval, right.interval)


def _operation(combine: Combine) -> Callable[[Args, SqlType], Interval]:
    return lambda args, kind: _exactly(combine, args, kind)


def _overflows(combine: Combine) -> Callable[[Args, SqlType], bool]:
    def raises(args: Args, kind: SqlType) -> bool:
        match kind.kind:
            case Kind.INTEGER:
                result = _exactly(combine, args, kind)
                return not all(
                    i.within(-INT64, INT64) for i in (result, *(a.interval for a in args))
                )
            case Kind.DECIMAL:
                result = _exactly(combine, args, kind)
                spare = (SAFE_DIGITS if kind.scale <= SAFE_DIGITS else MAX_PRECISION) - kind.scale
                return not result.within(-(10**spare) + 1, 10**spare - 1)
            case _:
                return False

    return raises


def _finite(arg: Facts) -> bool:
    return not arg.type.is_numeric or as_double(arg).is_bounded


def _sum_nan(args: Args) -> bool:
    """Test whether the sum may be NaN: ∞ - ∞ is impossible if one side is finite."""
    return not any(map(_finite, args))


def _product_nan(args: Args) -> bool:
    """Test whether the product may be NaN.

    0·∞ is impossible if a side is finite and not zero, or both are finite.
    """
    sides = ((args[0], args[1]), (args[1], args[0]))
    return any(not _finite(a) and _may_be_zero(b) for a, b in sides)


def _quotient_nan(args: Args) -> bool:
    """Test whether the quotient may be NaN.

    0/0 and ∞/∞ are impossible if one side cannot be zero and one is finite.
    """
    zeros = _may_be_zero(args[0]) and _may_be_zero(args[1])
    return zeros or not any(map(_finite, args))


def _may_be_zero(arg: Facts) -> bool:
    return not arg.nonzero and as_double(arg).contains(Fraction(0))


def _ordinals(arg: Facts) -> Facts:
    def ordinal(day: Bound) -> Fraction:
        assert isinstance(day, date)
        return Fraction(day.toordinal())

    return Facts(INTEGER, arg.interval.map(ordinal))


def _ratio(args: Args, _kind: SqlType) -> Interval:
    dividend = as_double(args[0])
    ratios = (dividend / as_double(divisor) for divisor in _divisors(args[1]))
    return reduce(Interval.union, ratios).outward(DOUBLE)


def _divisors(arg: Facts) -> tuple[Facts, ...]:
    """Split a divisor that is never zero into its negative and positive part.

    An exact number is at least a step of its grid from zero. Other divisors are returned whole.
    """
    exact = arg.type.kind in (Kind.INTEGER, Kind.DECIMAL)
    if not (exact and arg.nonzero and arg.interval.contains(Fraction(0))):
        return (arg,)
    step = Fraction(LEAST, 10**arg.type.scale)
    ends = arg.interval.lo, arg.interval.hi
    sides = ((Interval(ends[0], -step), -step), (Interval(step, ends[1]), step))
    return tuple(replace(arg, interval=s) for s, end in sides if s.contains(end)) or (arg,)


def _truncated_ratio(args: Args, kind: SqlType) -> Interval:
    if kind.kind is not Kind.INTEGER:
        return _ratio(args, kind)
    # Division by zero gives no whole number.
    divisors = _divisors(replace(args[1], nonzero=True))
    exact = reduce(Interval.union, (args[0].interval / divisor.interval for divisor in divisors))
    return exact.map(lambda end: Fraction(int(end)) if isinstance(end, Fraction) else None)


def _division_raises(args: Args, kind: SqlType) -> bool:
    """Test whether a division can raise: by zero, or -2^63 by -1, which has no result in 64
    bits.
    """
    if kind.kind is Kind.DOUBLE:
        return False
    dividend, divisor = args[0].interval, args[1].interval
    overflows = divisor.contains(Fraction(-1)) and not dividend.within(-INT64, 2**127 - 1)
    return divisor.contains(Fraction(0)) or overflows


def _remainder(args: Args, kind: SqlType) -> Interval:
    """Return the interval of x % y: |x % y| is at most |x| and below |y|, and it has the
    sign of x.
    """
    dividend, divisor = (as_double(a) if kind == DOUBLE else a.interval for a in args)
    reach = [abs(side).hi for side in (dividend, divisor)]
    if kind == INTEGER and isinstance(reach[1], Fraction):
        reach[1] = max(Fraction(0), reach[1] - 1)
    most = min((end for end in reach if isinstance(end, Fraction)), default=None)
    below = None if most is None else -most
    return Interval(
        Fraction(0) if dividend.is_nonnegative else below,
        Fraction(0) if (-dividend).is_nonnegative else most,
    )


def _quotient_type(types: Types) -> SqlType | None:
    return DOUBLE if _numbers(types, 2) else None


def _whole_quotient_type(types: Types) -> SqlType | None:
    return INTEGER if types == (INTEGER, INTEGER) else None


def _remainder_type(types: Types) -> SqlType | None:
    """Return the type of a remainder; None for INTEGER with DECIMAL and for more than 38 digits.

    DuckDB's type there depends on widths.
    """
    common = common_type(types) if _numbers(types, 2) else None
    if common is None or common.kind is not Kind.DECIMAL:
        return common
    same = all(t.kind is Kind.DECIMAL for t in types)
    return common if same and digits_needed(types) <= MAX_PRECISION else None


ARITHMETIC = (
    Function(
        "add",
        _sum_type,
        _operation(add),
        operands=converted,
        raises=_overflows(add),
        nan=_sum_nan,
        called=(2, 2),
    ),
    Function(
        "sub",
        lambda types: INTEGER if types == (DATE, DATE) else _sum_type(types),
        lambda args, kind: _exactly(
            sub, args if args[0].type != DATE else tuple(map(_ordinals, args)), kind
        ),
        operands=lambda types: (None,) * len(types) if types == (DATE, DATE) else converted(types),
        raises=lambda args, kind: args[0].type != DATE and _overflows(sub)(args, kind),
        nan=_sum_nan,
    ),
    Function(
        "mul",
        _product_type,
        _operation(mul),
        operands=_factors,
        raises=_overflows(mul),
        nan=_product_nan,
    ),
    Function("div", _quotient_type, _ratio, nan=_quotient_nan),
    Function("int_div", _whole_quotient_type, _truncated_ratio, raises=_division_raises),
    Function(
        "pg_div",
        lambda types: _whole_quotient_type(types) or _quotient_type(types),
        _truncated_ratio,
        raises=_division_raises,
        nan=_quotient_nan,
    ),
    Function(
        "mod",
        _remainder_type,
        _remainder,
        operands=converted,
        raises=_division_raises,
        nan=always,
        called=(2, 2),
    ),
    Function(
        "neg",
        lambda types: types[0] if _numbers(types, 1) else None,
        lambda args, _kind: -args[0].interval,
        raises=lambda args, kind: (
            kind.kind is Kind.INTEGER and not args[0].interval.within(-INT64, INT64)
        ),
    ),
)
