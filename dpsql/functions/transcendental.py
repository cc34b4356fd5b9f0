"""Logarithms, angles and hyperbolics of DOUBLE, computed by libm.

Four units in the last place are allowed, as in `numeric`. DuckDB 2 gives NaN or an infinity outside
of a function's domain; DuckDB 1 raises there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.functions.numeric import (
    POSITIVE,
    ULPS,
    image,
    negative_nan,
    not_positive_raises,
)
from dpsql.functions.row import NUMBERS, Args, Function, always, any_nan, constant, fixed
from dpsql.functions.type_rules import as_double
from dpsql.model.intervals import EVERYTHING, Interval
from dpsql.model.tree import DOUBLE, SqlType

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
    """Whether an argument may be infinite, where the function is undefined."""
    return any_nan(args) or not all(arg.interval.is_bounded for arg in args)


def _beyond_one(args: Args) -> bool:
    """Whether the argument may lie outside of [-1, 1]."""
    return any_nan(args) or not args[0].interval.within(-1, 1)


def _unary(
    name: str,
    interval: _Interval,
    undefined: Callable[[Args], bool] = any_nan,
    *,
    raises: bool = False,
) -> Function:
    """A function of one number, NaN (and raising on DuckDB 1) where it is undefined."""
    return Function(
        name,
        fixed(DOUBLE, NUMBERS),
        interval,
        raises=lambda args, _kind: raises and undefined(args),
        nan=undefined,
    )


def _logarithm(name: str, function: Callable[[float], float]) -> Function:
    return Function(
        name,
        fixed(DOUBLE, NUMBERS),
        lambda args, _kind: image(function, as_double(args[0])),
        raises=not_positive_raises,
        nan=negative_nan,
    )


TRANSCENDENTAL = (
    _logarithm("log10", math.log10),
    _logarithm("log2", math.log2),
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
    Function("atan2", fixed(DOUBLE, NUMBERS, NUMBERS), constant(TURN)),
    _unary("sinh", _increasing(math.sinh)),
    _unary("cosh", constant(Interval(Fraction(1), None))),
    _unary("tanh", constant(UNIT)),
    _unary("asinh", _increasing(math.asinh)),
    _unary("acosh", constant(POSITIVE), always),
    _unary("atanh", constant(EVERYTHING), always, raises=True),
    _unary("gamma", constant(EVERYTHING), always, raises=True),
    _unary("lgamma", constant(EVERYTHING), always, raises=True),
    Function("fdiv", fixed(DOUBLE, NUMBERS, NUMBERS), constant(EVERYTHING), nan=always),
    Function("fmod", fixed(DOUBLE, NUMBERS, NUMBERS), constant(EVERYTHING), nan=always),
)
