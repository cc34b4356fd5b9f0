"""The error of one expression over bases: the root of its summed squared changes.

Bases with independent errors move one at a time, each by its standard deviation. Bases with
dependent errors and correlations R = L·Lᵀ have the errors D·L·z for independent z of variance 1.
They move together, by one column of D·L at a time. Where the dependence of errors is unknown, the
changes are added up: no standard deviation of a sum exceeds the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from operator import add
from statistics import NormalDist

import numpy as np

from dpsql import functions
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import (
    DOUBLE,
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    SqlType,
    scalar,
    when,
)
from dpsql.model.walk import refs, substitute, walk_nodes

NAN = Literal(float("nan"), DOUBLE)

HALF = NormalDist().inv_cdf(0.975)
"""The 95 % half-width in standard errors."""

FAR = 1.9
"""Number of standard errors in a step, almost a 95 % half-width."""

_LOST = 3.0
"""A count or a sum of at most this many of its standard errors may be nothing but noise.

Of nothing, noise makes more in 1 of 100 releases. The larger change of two steps of the divisor
holds all of Fieller's interval, so that ratios by little more than this hold, too.
"""

_NOTHING = 1e-12
"""Limit below which eigenvalues of correlations are zero: consistent sums have no error of their
own.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Bases with dependent errors, and their correlations (None: unknown)."""

    bases: tuple[int, ...]
    correlation: np.ndarray | None = None


def error_of(
    expression: Expression, deviation: Mapping[int, Expression | None], joint: Sequence[Joint] = ()
) -> Expression:
    """Return the standard error of an expression, given the deviations of its bases.

    An unknown deviation (None) makes the error unknown.
    """
    bases = sorted(refs(expression) & deviation.keys())
    errors = {number: error for number in bases if (error := deviation[number]) is not None}
    if len(errors) < len(bases):
        return NAN
    if isinstance(expression, Ref):
        return errors[bases[0]]
    match expression:
        case Call("case", (Call("is_null"), Literal(None), otherwise)) if refs(otherwise) == refs(
            expression
        ):
            return error_of(otherwise, deviation, joint)
        case Call("sqrt", (inner,)):
            error = error_of(inner, deviation, joint)
            return NAN if error is NAN else _of_root(inner, error)
    inner, most = _unclamped(expression)
    alike = _of_sum(inner, errors, joint) if most is None else None
    if alike is not None:
        return when(inner.is_null(), NAN, alike)
    weighed = _of_weighed(inner, errors) if most is None and not joint else None
    if weighed is not None:
        return weighed
    squares = []
    for moves in _moves(errors, joint):
        changes = [_change(inner, steps) for steps in moves]
        if None in changes:
            return NAN
        change = reduce(add, (c for c in changes if c is not None))
        squares.append(scalar("pow", change, 2.0))
    error = scalar("coalesce", scalar("sqrt", reduce(add, squares)), NAN)
    return error if most is None else scalar("least", error, most)


def _of_sum(
    expression: Expression, errors: Mapping[int, Expression], joint: Sequence[Joint]
) -> float | None:
    """Return the error of a sum of multiples of bases, which is equal in all rows; None for others.

    It replaces the formula that moves each base separately, which is as long as the square of the
    sum.
    """
    slopes = slopes_of(expression)
    if slopes is None:
        return None
    moves = dict[int, float]()
    for base, error in errors.items():
        if not (isinstance(error, Literal) and isinstance(error.value, float)):
            return None
        moves[base] = slopes.get(base, 0.0) * error.value
    together = {base for each in joint for base in each.bases}
    variance = sum(move**2 for base, move in moves.items() if base not in together)
    for each in joint:
        steps = np.array([moves[base] for base in each.bases])
        joint_variance = np.abs(steps).sum() ** 2
        if each.correlation is not None:
            joint_variance = steps @ each.correlation @ steps
        variance += joint_variance
    return float(np.sqrt(max(variance, 0.0)))


_FEW = 2
"""Largest number of bases that simply move one by one; the shorter formula matters above it."""


def _of_weighed(expression: Expression, errors: Mapping[int, Expression]) -> Expression | None:
    """Return the error of a sum of many independent bases, each times a column; None for others."""
    factors = dict[int, Expression]()
    terms = [expression]
    while terms and len(errors) > _FEW:
        match terms.pop():
            case Call("add", (left, right)):
                terms += [left, right]
            case Call("mul", (Cast(Ref(id=base)) | Ref(id=base), Ref() as factor)) if (
                base in errors and factor.id not in errors and base not in factors
            ):
                factors[base] = factor
            case _:
                return None
    if len(factors) < max(len(errors), 1):
        return None
    squares = [scalar("pow", factor * errors[base], 2.0) for base, factor in factors.items()]
    return scalar("coalesce", scalar("sqrt", reduce(add, squares)), NAN)


def slopes_of(expression: Expression) -> dict[int, float] | None:
    """Return the slope of each column in a sum of multiples of columns; None for others."""
    match expression:
        case Ref(id=base):
            return {base: 1.0}
        case Literal(value=int() | float() | Decimal()):
            return {}
        case Cast(arg=arg):
            return slopes_of(arg)
        case Call("add" | "sub" as sign, (left, right)):
            return _added(slopes_of(left), slopes_of(right), 1.0 if sign == "add" else -1.0)
        case Call("mul", (Literal(value=int() | float() | Decimal() as factor), other)):
            return _added({}, slopes_of(other), float(factor))
        case Call("mul", (other, Literal(value=int() | float() | Decimal() as factor))):
            return _added({}, slopes_of(other), float(factor))
        case Call("div", (other, Literal(value=int() | float() | Decimal() as divisor))) if divisor:
            return _added({}, slopes_of(other), 1 / float(divisor))
        case _:
            return None


def _added(
    one: dict[int, float] | None, other: dict[int, float] | None, factor: float
) -> dict[int, float] | None:
    """Add the slopes of one expression and `factor` times those of another."""
    if one is None or other is None:
        return None
    more = {base: one.get(base, 0.0) + factor * slope for base, slope in other.items()}
    return {**one, **more}


def _of_root(square: Expression, error: Expression) -> Expression:
    """Return the error of a square root, from the ends of the square's 95 % interval."""
    half = error * HALF
    ends = (square + half, scalar("greatest", square - half, 0.0))
    root = scalar("sqrt", square)
    return scalar("greatest", *(_distance(scalar("sqrt", end), root) for end in ends)) / HALF


def _unclamped(expression: Expression) -> tuple[Expression, Expression | None]:
    """Return the value inside a clamp to constants, and the error that covers the whole clamp
    interval.

    A clamped value is no further from the truth than before, but moves less.
    """
    match expression:
        case Call("least", (Call("greatest", (inner, Literal(float(low)))), Literal(float(high)))):
            return inner, Literal((high - low) / HALF, DOUBLE)
        case Call("mul", (factor, other)):
            inner, most = _unclamped(factor)
            if most is not None:
                return inner * other, most * scalar("abs", other)
    return expression, None


def _change(expression: Expression, steps: Mapping[int, Expression]) -> Expression | None:
    """Return the larger change of the expression by a step forth or back; None where it is unknown.

    Bases move by almost two standard errors, for half the change: an interval reaches that far. The
    change is NaN where the moved expression is undefined, or a divisor changes its sign. It is also
    NaN where noise may exceed a divisor: where noise has raised the count of few rows that far, all
    values differ from the truth.
    """
    near = _moved(expression, steps, 1.0)
    if value_type(near) is None:
        return None
    if _is_linear(expression):
        return _distance(near, expression)
    changes = []
    calls = (node for node in walk_nodes(expression) if isinstance(node, Call))
    divisors = {call.args[1]: 1.0 for call in calls if call.function == "div"}
    for divisor in tuple(divisors):
        if not refs(divisor) & steps.keys() or _never_negative(divisor):
            del divisors[divisor]  # it does not move with the bases, or may not change its sign
        elif _is_linear(divisor):
            divisors[divisor] = _LOST / FAR
    for factor in (FAR, -FAR):
        change = _distance(_moved(expression, steps, factor), expression)
        for divisor, reach in divisors.items():
            moved = divisor * _moved(divisor, steps, factor * reach)
            change = when(moved.le(0.0), NAN, change)
        changes.append(scalar("coalesce", change, NAN))
    return scalar("greatest", *changes) / FAR


def _moved(expression: Expression, steps: Mapping[int, Expression], factor: float) -> Expression:
    """Return the expression with bases moved by `factor` of these steps."""
    columns = {node.id: node for node in walk_nodes(expression) if isinstance(node, Ref)}
    moved = {n: columns[n].to(DOUBLE) + steps[n] * factor for n in steps if n in columns}
    return substitute(expression, moved)


def _is_linear(expression: Expression) -> bool:
    """Test whether equal steps change the expression equally."""
    match expression:
        case Ref() | Literal():
            return True
        case Cast(arg=arg):
            return _is_linear(arg)
        case Call("add" | "sub", args):
            return all(map(_is_linear, args))
        case Call("mul", (a, b)):
            return (isinstance(a, Literal) and _is_linear(b)) or (
                _is_linear(a) and isinstance(b, Literal)
            )
        case Call("div", (a, Literal())) | Call("interval_of" | "interval_us", (a,)):
            return _is_linear(a)
        case _:
            return False


def _never_negative(divisor: Expression) -> bool:
    match divisor:
        case Call("sqrt" | "abs"):
            return True
        case Call("nullif", (inner, _)) | Call("least", (inner, Literal(float()))):
            return _never_negative(inner)
        case Call("greatest", args):
            return any(isinstance(arg, Literal) and arg.value in (0.0, 1.0) for arg in args)
        case _:
            return False


def _moves(
    errors: Mapping[int, Expression], joint: Sequence[Joint]
) -> Iterator[list[dict[int, Expression]]]:
    """Yield steps of bases with independent changes, each in parts with changes that add up at
    most.
    """
    together = {base for each in joint for base in each.bases}
    yield from ([{base: error}] for base, error in errors.items() if base not in together)
    for each in joint:
        if each.correlation is None:
            yield [{base: errors[base]} for base in each.bases]
            continue
        sizes, axes = np.linalg.eigh(each.correlation)
        for size, axis in zip(sizes, axes.T, strict=True):
            if size > _NOTHING:
                steps = zip(each.bases, (size**0.5 * axis).tolist(), strict=True)
                yield [{n: errors[n] * step for n, step in steps}]


def value_type(expression: Expression) -> SqlType | None:
    """Return the type of a scalar expression; None where a function accepts no DOUBLE for a
    base.
    """
    if not isinstance(expression, Call):
        arg = expression.arg if isinstance(expression, Cast) else None
        typed = arg is None or value_type(arg) is not None
        return type_of(expression) if typed else None
    kinds = tuple(kind for arg in expression.args if (kind := value_type(arg)) is not None)
    function = functions.lookup(expression.function)
    if function is None or len(kinds) < len(expression.args):
        return None
    return function.result_type(kinds)


def _distance(a: Expression, b: Expression) -> Expression:
    return scalar("abs", a.to(DOUBLE) - b.to(DOUBLE))


def or_zero(value: Expression) -> Expression:
    """Return the value in DOUBLE, and 0 where it is NULL."""
    return scalar("coalesce", value.to(DOUBLE), 0.0)


def remaining(variance: Expression, part: Expression) -> Expression:
    """Return the standard error of the rest of a total without an independent part of it."""
    return scalar("sqrt", scalar("greatest", variance - or_zero(part), 0.0))
