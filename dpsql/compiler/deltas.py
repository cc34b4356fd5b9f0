"""The error of one expression over bases: the root of its summed squared changes.

Bases with independent errors move one at a time, each by its standard deviation. Of bases with
dependent errors and correlations R = L·Lᵀ, the errors are D·L·z for independent z of variance 1:
they move together, by one column of D·L at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
    """Bases whose errors depend on one another, and their correlations."""

    bases: tuple[int, ...]
    correlation: np.ndarray


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
    kinds = {node.id: node for node in walk(expression) if isinstance(node, Ref)}
    squares = []
    for steps in _directions(known, joint):
        moved = [
            substitute(
                expression, {n: formula(sign, Cast(kinds[n], DOUBLE), steps[n]) for n in steps}
            )
            for sign in ("add", "sub")
        ]
        if _kind(moved[0]) is None:
            return NAN
        change = formula("greatest", *(_distance(m, expression) for m in moved))
        squares.append(formula("pow", change, Literal(2.0, DOUBLE)))
    total = squares[0]
    for square in squares[1:]:
        total = formula("add", total, square)
    return formula("coalesce", formula("sqrt", total), NAN)


def _directions(
    known: Mapping[int, Expression], joint: Sequence[Joint]
) -> Iterator[dict[int, Expression]]:
    """How far the bases move at a time: one alone, or all of a joint along one of its axes."""
    together = {base for each in joint for base in each.bases}
    yield from ({base: error} for base, error in known.items() if base not in together)
    for each in joint:
        sizes, axes = np.linalg.eigh(each.correlation)
        for size, axis in zip(sizes, axes.T, strict=True):
            if size > _NOTHING:
                steps = zip(each.bases, (size**0.5 * axis).tolist(), strict=True)
                yield {n: formula("mul", known[n], Literal(step, DOUBLE)) for n, step in steps}


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
