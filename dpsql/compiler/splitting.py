"""How the budget of one query is split among its measurements (privacy.md, section 5.2).

To first order an output moves by g·(noise of a part), g its derivative by that part. The variance
of the noise is D²/share^n times a constant: n = 1 where amounts are ρ and n = 2 where they are ε.
Each output's variance is divided by the best one it could have with the whole budget to itself, so
that outputs in different units count alike. The shares that minimise the sum of these ratios are
Σ c/share^n → min, Σ share = 1: share ∝ c^(1/(n+1)), with c the summed (g·D)² of a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from dpsql.aggregates.formulas import evaluate
from dpsql.tree import Expression
from dpsql.walk import refs

ROWS = 1000.0
"""Rows of a group in typical data; where the parts are many, the split does not depend on it."""

_STEP = 1e-3
_GRAIN = 1 << 20
"""Shares are whole multiples of its inverse: one in a million is more than enough."""


@dataclass(frozen=True, slots=True)
class Part:
    """A measurement as a column: what one unit changes it by, and its value in typical data."""

    column: int
    reach: float
    typical: float


def split(parts: Sequence[Part], outputs: Sequence[Expression], order: int) -> list[Fraction]:
    """One share per part; together they are at most 1, and none is zero.

    >>> from dpsql.tree import DOUBLE, Ref
    >>> split([Part(1, 1.0, 1.0), Part(2, 9.0, 1.0)], [Ref(1, DOUBLE), Ref(2, DOUBLE)], 1)
    [Fraction(1, 2), Fraction(1, 2)]
    """
    costs = _costs(parts, outputs, order)
    roots = [cost ** (1 / (order + 1)) for cost in costs]
    grains = [max(1, round(_GRAIN * root / sum(roots))) for root in roots]
    return [Fraction(grain, sum(grains)) for grain in grains]


def expected(parts: Sequence[Part], outputs: Sequence[Expression], order: int) -> float:
    """The sum of the outputs' variance ratios at the best split: to compare ways of measuring."""
    roots = (cost ** (1 / (order + 1)) for cost in _costs(parts, outputs, order))
    return float(sum(roots) ** (order + 1))


def _costs(parts: Sequence[Part], outputs: Sequence[Expression], order: int) -> list[float]:
    """The c of each part: the summed squares of g·D, each output's over its own best variance."""
    costs = [0.0] * len(parts)
    for output in outputs:
        moves = _moves(parts, output)
        alone = float(sum(move ** (2 / (order + 1)) for move in moves) ** (order + 1))
        if alone:
            costs = [cost + move**2 / alone for cost, move in zip(costs, moves, strict=True)]
    return costs if any(costs) else [1.0] * len(parts)


def _moves(parts: Sequence[Part], output: Expression) -> list[float]:
    """How far the output moves when one unit moves each part: |g|·D.

    Where the formula says more than arithmetic, its parts count alike.
    """
    read = refs(output)
    typical = {part.column: part.typical for part in parts}
    moves = [
        abs(_slope(part, output, typical)) * part.reach if part.column in read else 0.0
        for part in parts
    ]
    if all(isfinite(move) for move in moves) and any(moves):
        return moves
    return [float(part.column in read) for part in parts]


def _slope(part: Part, output: Expression, typical: Mapping[int, float]) -> float:
    step = max(part.reach, abs(part.typical)) * _STEP
    ends = [
        evaluate(output, {**typical, part.column: part.typical + sign * step}) for sign in (1, -1)
    ]
    above, below = (float("nan") if end is None else end for end in ends)
    return (above - below) / (2 * step) if step else 0.0
