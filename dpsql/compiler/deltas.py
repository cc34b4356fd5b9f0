"""The error of one expression over bases: the root of its summed squared changes.

Bases with independent errors move one at a time, each by its standard deviation. Of bases with
dependent errors and correlations R = L·Lᵀ, the errors are D·L·z for independent z of variance 1:
they move together, by one column of D·L at a time. Where nothing is known of how errors depend on
one another, the changes are added up: no standard deviation of a sum exceeds the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from dpsql import functions
from dpsql.compiler.typing import type_of
from dpsql.tree import DOUBLE, Call, Cast, Expression, Literal, Ref, SqlType
from dpsql.walk import refs, substitute, walk

NAN = Literal(float("nan"), DOUBLE)

_NOTHING = 1e-12
"""Eigenvalues of correlations below it are zero: sums that agree have no error of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Bases whose errors depend on one another, and their correlations (None: unknown)."""

    bases: tuple[int, ...]
    correlation: np.ndarray | None = None


def error_of(
    expression: Expression, deviation: Mapping[int, Expression | None], joint: Sequence[Joint] = ()
) -> Expression:
    """The standard error where bases have these deviations (None: unknown, and so is the error)."""
    bases = sorted(refs(expression) & deviation.keys())
    known = {number: error for number in bases if (error := deviation[number]) is not None}
    if len(known) < len(bases):
        return NAN
    if isinstance(expression, Ref):
        return known[bases[0]]
    squares = []
    for moves in _moves(known, joint):
        changes = [_change(expression, steps) for steps in moves]
        if None in changes:
            return NAN
        change = reduce(partial(formula, "add"), (c for c in changes if c is not None))
        squares.append(formula("pow", change, Literal(2.0, DOUBLE)))
    total = reduce(partial(formula, "add"), squares)
    return formula("coalesce", formula("sqrt", total), NAN)


def _change(expression: Expression, steps: Mapping[int, Expression]) -> Expression | None:
    """The larger change when bases move by these steps, there or back; None where none is known."""
    kinds = {node.id: node for node in walk(expression) if isinstance(node, Ref)}
    moved = [
        substitute(expression, {n: formula(sign, Cast(kinds[n], DOUBLE), steps[n]) for n in steps})
        for sign in ("add", "sub")
    ]
    if _kind(moved[0]) is None:
        return None
    return formula("greatest", *(_distance(m, expression) for m in moved))


def _moves(
    known: Mapping[int, Expression], joint: Sequence[Joint]
) -> Iterator[list[dict[int, Expression]]]:
    """Steps of the bases whose changes are independent, each in parts that add up at most."""
    together = {base for each in joint for base in each.bases}
    yield from ([{base: error}] for base, error in known.items() if base not in together)
    for each in joint:
        if each.correlation is None:
            yield [{base: known[base]} for base in each.bases]
            continue
        sizes, axes = np.linalg.eigh(each.correlation)
        for size, axis in zip(sizes, axes.T, strict=True):
            if size > _NOTHING:
                steps = zip(each.bases, (size**0.5 * axis).tolist(), strict=True)
                yield [{n: formula("mul", known[n], Literal(step, DOUBLE)) for n, step in steps}]


def _kind(expression: Expression) -> SqlType | None:
    """The type of a scalar expression; None where a function takes no DOUBLE in a base's place."""
    if not isinstance(expression, Call):
        arg = expression.arg if isinstance(expression, Cast) else None
        known = arg is None or _kind(arg) is not None
        return type_of(expression) if known else None
    kinds = tuple(kind for arg in expression.args if (kind := _kind(arg)) is not None)
    function = functions.lookup(expression.function)
    if function is None or len(kinds) < len(expression.args):
        return None
    return function.result_type(kinds)


def _distance(a: Expression, b: Expression) -> Expression:
    return formula("abs", formula("sub", Cast(a, DOUBLE), Cast(b, DOUBLE)))


def formula(function: str, *args: Expression) -> Call:
    """A formula in DOUBLE."""
    return Call(function, args, DOUBLE)


def or_zero(value: Expression) -> Expression:
    """The value in DOUBLE, and 0 where it is NULL."""
    return formula("coalesce", Cast(value, DOUBLE), Literal(0.0, DOUBLE))


def remaining(variance: Expression, part: Expression) -> Expression:
    """The standard error of what is left of a total without an independent part of it."""
    left = formula("sub", variance, or_zero(part))
    return formula("sqrt", formula("greatest", left, Literal(0.0, DOUBLE)))
