"""Ratios written as quotients: SUM(x) / COUNT(*), SUM(x) / SUM(y) and such over the same private
rows.

With m an approximate ratio, found by a poll of units, Σx = Σ(x - m·y) + m·Σy. Where a query reads
Σx only over Σy, the two terms are measured instead of Σx. The noise of Σy then enters the quotient
only as far as m is off, and a unit adds little to the other term where its own ratio is near m.
Where Σx is read anywhere else it is measured plainly: alone it would have the noise of both terms.

Proof (PRIVACY.md R71). m is found by one vote of each unit, as a mean is. Σ(x - m·y) is a clipped
sum of rows for any m; the rest is computed from released numbers.
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
"""Inverse of the step of found ratios."""
_FINEST = 24
"""Finest distinguished ratio: 2^-24 of the largest ratio of bounds."""
_ABOVE = 10
"""Largest distinguished ratio: 2^10 of the largest ratio of bounds."""


def typed_ratios(outer: Relation, block: int) -> Mapping[int, int]:
    """Map the measures of a block that are read only over one other measure to that measure."""
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
    """Return the column that an expression is a multiple of, ignoring NULLIF and COALESCE."""
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
    """Test whether all rows of a unit add to numerator and denominator, without a limit on rows.

    The denominator must also be a sum of values that are never negative.
    """
    return all(
        isinstance(part, RowCount | ClippedSum)
        and max(-part.total_lower, part.total_upper) >= MOST_ROWS
        for part in (above, below)
    ) and (below.total_lower == 0 and below.total_upper > 0)


def ratio_edges(above: AdditiveTotal, below: AdditiveTotal) -> tuple[Fraction, ...]:
    """Return edges between bins of ratios, in steps per step: closer towards 0."""
    largest = Fraction(max(map(abs, _row(above))), _row(below)[1])
    parts = [Fraction(n, 16) for n in range(1, 17)]
    for n in range(-_ABOVE, _FINEST + 1):
        parts += [Fraction(2) ** -n, Fraction(3, 2) * Fraction(2) ** -n]
    edges = {largest * part for part in parts}
    return tuple(sorted(edges | {-edge for edge in edges if _row(above)[0] < 0}))


def residual(above: AdditiveTotal, below: AdditiveTotal, ratio: Fraction) -> ClippedSum:
    """Return Σ(x - ratio·y), row by row, with the largest assumed number of rows per unit."""
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
    """Return the least and largest addition of one row, in steps."""
    return (0, 1) if isinstance(part, RowCount) else (part.lower, part.upper)


def _value(part: AdditiveTotal) -> Expression:
    """Return the addition of a row, in DOUBLE: 0 where it does not count."""
    value: Expression = Literal(1.0, DOUBLE)
    if isinstance(part, ClippedSum):
        lower, upper = (Fraction(end) * part.lattice.step for end in (part.lower, part.upper))
        value = clamped(part.argument.to(DOUBLE), lower, upper)
        value = when(part.argument.is_null(), 0.0, value)
    return value if part.condition is None else when(part.condition, value, 0.0)
