"""Formulas over released columns in DOUBLE, as an analyst could have written them.

>>> from dpsql.model.tree import INTEGER
>>> (Ref(1, DOUBLE) / at_least_one(Ref(2, INTEGER))).function
'div'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import exp, inf, log, nan, sqrt

from dpsql.model.tree import DOUBLE, Call, Cast, Expression, Literal, Ref, scalar


def at_least_one(count: Expression) -> Expression:
    """Return a noisy count as a divisor: at least 1."""
    return scalar("greatest", 1.0, count.to(DOUBLE))


def clamped(value: Expression, lower: float | Fraction, upper: float | Fraction) -> Expression:
    """Clamp a value to [lower, upper]."""
    return scalar("least", scalar("greatest", value, float(lower)), float(upper))


def or_null(value: Expression) -> Expression:
    """Return the value, with NULL for zero, for use as a divisor."""
    return scalar("nullif", value, 0.0)


def evaluate(formula: Expression, columns: Mapping[int, float]) -> float | None:
    """Return the formula's value for these column values; None if it contains more than arithmetic.

    CASE WHEN x IS NULL is its ELSE, because the columns have values.

    >>> evaluate(Ref(1, DOUBLE) + 2.0, {1: 3.0})
    5.0
    """
    values: dict[int, float | None] = {}  # a formula may hold one node in many places

    def value_of(node: Expression) -> float | None:
        if (key := id(node)) not in values:
            values[key] = computed(node)
        return values[key]

    def computed(node: Expression) -> float | None:
        match node:
            case Ref():
                return columns.get(node.id)
            case Call(function="case", args=(Call(function="is_null"), _, otherwise)):
                return value_of(otherwise)
            case Call(function=name, args=args) if name in _ARITHMETIC:
                return _computed(name, [value_of(arg) for arg in args])
            case Cast(arg=arg):
                return value_of(arg)
            case Literal(value=bool() | int() | float() as value):
                return float(value)
            case _:
                return None

    return value_of(formula)


def _computed(name: str, values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return None
    try:
        return _ARITHMETIC[name](*present)
    except OverflowError:
        return nan


def _mean_offset(s: float, n: float, lower: float, upper: float, k: float = 0.0) -> float:
    """Return the mean offset: see `dpsql.compiler.errors.small_groups`."""
    rows = max(1.0, n)
    return min(max(s * rows / (rows * rows + k), lower), upper)


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else nan,
    "neg": lambda a: -a,
    "interval_of": lambda a: a,
    "interval_us": lambda a: a,
    "abs": abs,
    "least": lambda *values: min(values),
    "greatest": lambda *values: max(values),
    "nullif": lambda a, _b: a,
    "coalesce": lambda a, *_others: a,
    "round": lambda a, *_digits: a,
    "sqrt": lambda a: sqrt(a) if a >= 0 else nan,
    "ln": lambda a: log(a) if a > 0 else nan,
    "mean_offset": _mean_offset,
    "exp": lambda a: exp(a) if a < 700 else inf,  # noqa: PLR2004
    "pow": lambda a, b: a**b if a > 0 or a == 0 < b else nan,
}
