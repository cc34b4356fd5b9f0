"""Ratios typed by hand: SUM(x) / COUNT(*), SUM(x) / SUM(y) and such over the same private rows.

With m about the ratio, which units vote for, Σx = Σ(x - m·y) + m·Σy. Where a query reads Σx only
over Σy, the two terms are measured instead of Σx: of the quotient the noise of Σy takes part only
as far as m is off, and what a unit adds to the other term is little where its own ratio is near m.
Where Σx is read anywhere else it is measured plainly: alone it would have the noise of both terms.

Proof (PRIVACY.md R71). m is found by one vote of each unit, as a mean is; Σ(x - m·y) is a clipped
sum of rows whatever m is; the rest is computed from what is released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil, floor

from dpsql.compiler.aggregates.formulas import clamped
from dpsql.compiler.aggregates.recipe import BITS
from dpsql.compiler.plan.lattices import Lattice
from dpsql.compiler.plan.measurement_kinds import (
    MOST_ROWS,
    AdditiveTotal,
    ClippedSum,
    Measurement,
    RowCount,
)
from dpsql.model.algebra import Relation, Released
from dpsql.model.tree import DOUBLE, Call, Cast, Expression, Literal, Ref, when
from dpsql.model.walk import expressions, relations, walk

RATIO_STEPS = 2**60
"""A ratio that was found is a whole number of such parts."""
_FINEST = 24
"""Down to what part, 2^-24, of the largest ratio of bounds ratios are told apart."""
_ABOVE = 10
"""Up to what multiple, 2^10, of it."""


def typed_ratios(outer: Relation, block: int) -> Mapping[int, int]:
    """The measures of a block that are read only over one other measure each, with that."""
    tables = [r for r in relations(outer) if isinstance(r, Released) and r.block == block]
    if len(tables) != 1:
        return {}
    (table,) = tables
    keys = len(table.fields) - len(table.measures)
    fields = table.fields[keys:]
    places = {f.id: place for f, place in zip(fields, table.measures, strict=True)}
    read = [node for r in relations(outer) for e in expressions(r) for node in walk(e)]
    uses = Counter(node.id for node in read if isinstance(node, Ref))
    pairs = Counter(pair for node in read for pair in _quotient(node))
    ratios = {
        places[above]: places[below]
        for (above, below), times in pairs.items()
        if times == uses[above] and above != below and {above, below} <= places.keys()
    }
    return {above: below for above, below in ratios.items() if below not in ratios}


def _quotient(node: Expression) -> Iterator[tuple[int, int]]:
    match node:
        case Call(function="div", args=(above, below)):
            top, bottom = _multiple(above), _multiple(below)
            if top is not None and bottom is not None:
                yield top, bottom
        case _:
            return


def _multiple(node: Expression) -> int | None:
    """The column that an expression is a multiple of, NULL in place of a number perhaps."""
    match node:
        case Ref(id=number):
            return number
        case Cast(arg=arg):
            return _multiple(arg)
        case Call(function="nullif" | "mul", args=(arg, Literal())):
            return _multiple(arg)
        case Call(function="mul", args=(Literal(), arg)):
            return _multiple(arg)
        case _:
            return None


def both_additive(above: Measurement, below: Measurement) -> bool:
    """Whether rows add to both, of any number, and those of the lower one are never negative."""
    return all(
        isinstance(part, RowCount | ClippedSum)
        and max(-part.total_lower, part.total_upper) >= MOST_ROWS
        for part in (above, below)
    ) and (below.total_lower == 0 and below.total_upper > 0)


def ratio_edges(above: AdditiveTotal, below: AdditiveTotal) -> tuple[Fraction, ...]:
    """Edges between which ratios, in steps for a step, are told apart: closer towards 0."""
    largest = Fraction(max(map(abs, _row(above))), _row(below)[1])
    parts = [Fraction(n, 16) for n in range(1, 17)]
    for n in range(-_ABOVE, _FINEST + 1):
        parts += [Fraction(2) ** -n, Fraction(3, 2) * Fraction(2) ** -n]
    edges = {largest * part for part in parts}
    return tuple(sorted(edges | {-edge for edge in edges if _row(above)[0] < 0}))


def residual(above: AdditiveTotal, below: AdditiveTotal, ratio: Fraction) -> ClippedSum:
    """Σ(x - ratio·y), row by row, of which a unit has as many as anybody looks for."""
    x, y = _value(above), _value(below)
    zero = Fraction(0)
    least, largest = (Fraction(end) * above.lattice.step for end in _row(above))
    most = ratio * _row(below)[1] * below.lattice.step
    lower, upper = min(least, zero) - max(most, zero), max(largest, zero) - min(most, zero)
    whole = ceil(max(-lower, upper))
    lattice = Lattice(2, min(max(BITS - (whole - 1).bit_length(), -40), 40))
    low, high = floor(lower / lattice.step), ceil(upper / lattice.step)
    return ClippedSum(
        argument=x - y * float(ratio),
        condition=None,
        lattice=lattice,
        lower=low,
        upper=high,
        total_lower=MOST_ROWS * low,
        total_upper=MOST_ROWS * high,
    )


def _row(part: AdditiveTotal) -> tuple[int, int]:
    """What one row adds, in steps."""
    return (0, 1) if isinstance(part, RowCount) else (part.lower, part.upper)


def _value(part: AdditiveTotal) -> Expression:
    """What a row adds, in DOUBLE: nothing where it does not count."""
    value: Expression = Literal(1.0, DOUBLE)
    if isinstance(part, ClippedSum):
        ends = (Fraction(end) * part.lattice.step for end in (part.lower, part.upper))
        value = clamped(part.argument.to(DOUBLE), *ends)
        value = when(part.argument.is_null(), 0.0, value)
    return value if part.condition is None else when(part.condition, value, 0.0)
