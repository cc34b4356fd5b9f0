"""Errors of ratios of noisy numbers, also where the divisor is small (Fieller 1954).

Let N and D be linear in released numbers, with variances u and v and covariance c of their noise.
The true ratio is some q with (N - q·D)² <= z²·(u - 2·q·c + q²·v), in as many cases as a normal
variable is within z: N - q·D is noise alone. If D² > z²·v these q are an interval. Half of it is
z·√(D²·t - z²·(u·v - c²))/(D² - z²·v), where t = u - 2·r·c + r²·v and r = N/D, and this half is
shown around r. It misses on the far side what it gains on the near one. Otherwise D may be zero,
and the interval has no end on some side: the error is unknown.

An unknown error holds for each true ratio, so that 94 in 100 releases and more hold it.
Among the releases with a known error fewer do if the true D is below 2·√v. No interval that
always ends holds a ratio there (Gleser and Hwang 1987).

It is post-processing: PRIVACY.md R66, R115.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias

from dpsql.model.tree import DOUBLE, Call, Cast, Expression, Literal, scalar, when
from dpsql.model.walk import map_children

Amount: TypeAlias = "float | Expression"
"""A number of the plan, or one that rows have."""

Move: TypeAlias = "tuple[Amount, Amount]"
"""By how much an independent noise of variance 1 moves the top and the bottom of a ratio."""


def fraction(expression: Expression) -> tuple[Expression, Expression] | None:
    """Return top and bottom of a ratio, up to constant factors and terms; None for others."""
    match expression:
        case (
            Cast(arg=arg)
            | Call("round", (arg, *_))
            | Call("coalesce", (arg, Literal()))
            | Call("nullif", (arg, Literal()))
        ):
            return fraction(arg)
        case Call("mul", (Literal() as factor, arg)) | Call("mul", (arg, Literal() as factor)):
            return _of_part(arg, lambda top, bottom: (top * factor, bottom))
        case Call("div", (arg, Literal() as divisor)):
            return _of_part(arg, lambda top, bottom: (top / divisor, bottom))
        case Call("add" | "sub" as sign, (arg, Literal() as term)):
            return _of_part(arg, lambda top, bottom: (scalar(sign, top, bottom * term), bottom))
        case Call("add" | "sub" as sign, (Literal() as term, arg)):
            return _of_part(arg, lambda top, bottom: (scalar(sign, bottom * term, top), bottom))
        case Call("div", (top, bottom)):
            return _plain(top), _plain(bottom)
        case _:
            return None


def _of_part(
    part: Expression,
    change: Callable[[Expression, Expression], tuple[Expression, Expression]],
) -> tuple[Expression, Expression] | None:
    inner = fraction(part)
    if inner is None:
        return None
    top, bottom = inner
    return change(top, bottom)


def _plain(expression: Expression) -> Expression:
    """Return the expression without NULLIF and COALESCE of constants."""
    match expression:
        case Call("nullif" | "coalesce", (inner, Literal())):
            return _plain(inner)
        case _:
            return map_children(expression, _plain)


def sum_change(slopes: Mapping[int, float], steps: Mapping[int, Expression]) -> Amount:
    """Return the change of a sum with these slopes if columns move by these steps."""
    return _total(
        _product(slope, _amount(step))
        for base, step in steps.items()
        if (slope := slopes.get(base, 0.0))
    )


def error_of_ratio(
    top: Expression, bottom: Expression, moves: Sequence[Move], width: float
) -> Expression:
    """Return half of the ratio's interval over `width`, a normal one's half; NaN without ends."""
    u = _total(_product(a, a) for a, _ in moves)
    v = _total(_product(b, b) for _, b in moves)
    c = _total(_product(a, b) for a, b in moves)
    divisor = bottom.to(DOUBLE)
    ratio, square = top.to(DOUBLE) / divisor, divisor * divisor
    spread = _total((u, _product(ratio * -2.0, c), _product(ratio * ratio, v)))
    beyond = _total((_product(u, v), _product(-1.0, _product(c, c))))
    inner = scalar("greatest", square * spread - _product(width**2, beyond), 0.0)
    room = square - _product(width**2, v)
    half = scalar("coalesce", scalar("sqrt", inner) / room, NAN)
    return when(room.gt(0.0), half, NAN)


NAN = Literal(float("nan"), DOUBLE)


def _amount(error: Expression) -> Amount:
    if isinstance(error, Literal) and isinstance(error.value, float):
        return error.value
    return error


def _product(one: Amount, other: Amount) -> Amount:
    """Multiply two amounts; numbers of the plan at once."""
    if isinstance(one, float) and isinstance(other, float):
        return one * other
    return 0.0 if 0.0 in (one, other) else one * other


def _total(amounts: Iterable[Amount]) -> Amount:
    """Add amounts; numbers of the plan at once."""
    listed = list(amounts)
    constant = sum(each for each in listed if isinstance(each, float))
    others = [each for each in listed if not isinstance(each, float)]
    if not others:
        return float(constant)
    total = reduce(add, others)
    return total + constant if constant else total
