"""The split of one query's budget among its measurements.

To first order an output moves by g·(noise of a part), g its derivative by that part. The variance
of the noise is D²/share^n times a constant: n = 1 where amounts are ρ and n = 2 where they are ε.
Each output's variance is divided by the one it has where all parts have equal shares. So outputs in
different units have equal weight, and none is worse on average. The shares that minimise the sum of
these ratios are Σ c/share^n → min, Σ share = 1: share ∝ c^(1/(n+1)), with c the summed (g·D)² of a
part.

Proof (PRIVACY.md R62). Losses add up, and any shares add up to at most 1.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import hypot, isfinite, nan

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression
from dpsql.model.walk import refs

ROWS = 1000.0
"""Number of rows of a typical group. With many parts, the split does not depend on it."""

_STEP = 1e-3
_LEAST = 0.25
_GRAIN = 1 << 20
"""Inverse of the step of shares: one in a million is more than enough."""


@dataclass(frozen=True, slots=True)
class Part:
    """Columns that one share pays for, and their joint change `reach` by one unit.

    `typical` are their values in typical data.
    """

    columns: tuple[int, ...]
    reach: float
    typical: tuple[float, ...]


def split(parts: Sequence[Part], outputs: Sequence[Expression], order: int) -> list[Fraction]:
    """Return one share per part. Their sum is at most 1, and none is zero.

    >>> from dpsql.model.tree import DOUBLE, Ref
    >>> both = [Part((1,), 1.0, (1.0,)), Part((2,), 9.0, (1.0,))]
    >>> split(both, [Ref(1, DOUBLE), Ref(2, DOUBLE)], 1)
    [Fraction(1, 2), Fraction(1, 2)]
    """
    if len(parts) < 2:  # noqa: PLR2004 - there is nothing to divide
        return [Fraction(1)] * len(parts)
    moves = _Reader(parts).moves(outputs)
    costs = _costs(len(parts), moves, list(map(_equally, moves)))
    roots = [cost ** (1 / (order + 1)) for cost in (costs if any(costs) else [1.0] * len(parts))]
    grains = [max(1, round(_GRAIN * root / sum(roots))) for root in roots]
    return [Fraction(grain, sum(grains)) for grain in grains]


def better(
    one: tuple[Sequence[Part], Sequence[Expression]],
    other: tuple[Sequence[Part], Sequence[Expression]],
    order: int,
) -> bool:
    """Test whether the first way to measure the same outputs has smaller summed variance ratios."""
    moves = [_Reader(parts).moves(outputs) for parts, outputs in (one, other)]
    equal = list(map(_equally, moves[1]))
    sizes = [len(parts) for parts, _ in (one, other)]
    first, second = (
        float(sum(cost ** (1 / (order + 1)) for cost in _costs(n, move, equal)) ** (order + 1))
        for n, move in zip(sizes, moves, strict=True)
    )
    return first < second


def _equally(moves: Mapping[int, float]) -> float:
    """Return an output's variance with equal shares for all parts, up to a common factor."""
    return sum(move**2 for move in moves.values())


def _costs(parts: int, moves: Sequence[Mapping[int, float]], equal: Sequence[float]) -> list[float]:
    """Return the c of each part: the summed (g·D)², each output's over its variance at equal
    shares.
    """
    costs = [0.0] * parts
    for move, base in zip(moves, equal, strict=True):
        for part, distance in move.items() if base else ():
            costs[part] += distance**2 / base
    return costs


class _Reader:
    """Computes the change of outputs when one unit changes each part that they read."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._typical = {n: v for p in parts for n, v in zip(p.columns, p.typical, strict=True)}
        self._part = {n: place for place, p in enumerate(parts) for n in p.columns}

    def moves(self, outputs: Sequence[Expression]) -> list[dict[int, float]]:
        return [self._moves(output) for output in outputs]

    def _moves(self, output: Expression) -> dict[int, float]:
        """Return |g|·D of each part that the output reads, over its columns in L2.

        Each such part counts at least a quarter of the largest, because data need not be typical.
        Where the formula contains more than arithmetic, its parts count equally.
        """
        read = refs(output) & self._typical.keys()
        places = sorted({self._part[n] for n in read})
        moves = {}
        for place in places:
            part = self._parts[place]
            slopes = (
                _slope(n, part.reach, output, self._typical) for n in part.columns if n in read
            )
            moves[place] = hypot(*slopes) * part.reach
        if not (all(map(isfinite, moves.values())) and any(moves.values())):
            return dict.fromkeys(places, 1.0)
        least = max(moves.values()) * _LEAST
        return {place: max(move, least) for place, move in moves.items()}


def _slope(column: int, reach: float, output: Expression, typical: dict[int, float]) -> float:
    step = max(reach, abs(typical[column])) * _STEP
    ends = [
        evaluate(output, ChainMap({column: typical[column] + sign * step}, typical))
        for sign in (1, -1)
    ]
    above, below = (nan if end is None else end for end in ends)
    return (above - below) / (2 * step) if step else 0.0
