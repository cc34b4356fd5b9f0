"""Budget shares of tables of the same rows by fewer keys, where amounts are ε.

Such a table is also the sum of a finer table's cells, and the two are made to agree. Where
variances fall with the square of a share, half of the budget for each gives both four times the
variance. Below some number of cells the finer table alone errs less, in both. So shares are moved
from a table to finer ones as long as the outputs of all of them err less after they agree. A table
with the least share is in effect the sum of the finer one's cells.

Proof (PRIVACY.md R62, R67). Shares add up to as much as before, and they follow from public numbers
of cells. Agreement weighs each table by its own variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

from dpsql.consistency.marginals import Marginals, Spread

LEAST = Fraction(1, 1 << 10)
"""Least part of its share that a table keeps when finer tables are more precise."""
_PARTS = (LEAST, Fraction(1, 8), Fraction(1, 4), Fraction(1, 2))


def with_levels(
    shares: Sequence[Fraction], sizes: Sequence[int], levels: Sequence[Marginals], order: int
) -> list[Fraction]:
    """Move shares of blocks, with `sizes` shares each, to finer tables where all err less.

    The variance of a measurement falls with its share to the power of `order`.
    """
    ends = list(accumulate(sizes, initial=0))
    owner = [block for block, size in enumerate(sizes) for _ in range(size)]
    totals = [sum(shares[a:b], Fraction(0)) for a, b in pairwise(ends)]
    factors = {block: Fraction(1) for block in range(len(sizes))}
    for tables in levels:
        factors |= _factors(tables, totals, order)
    return [share * factors[block] for share, block in zip(shares, owner, strict=True)]


def _factors(levels: Marginals, totals: Sequence[Fraction], order: int) -> dict[int, Fraction]:
    """Return the factor of each table's share; their total stays the same."""
    coarse = []
    for table in levels.tables:
        # All its quantities are also measured by a table with more keys.
        own = {quantity for quantity in table.quantities if quantity is not None}
        finer = [other for other in levels.tables if {*table.axes} < {*other.axes}]
        if None not in table.quantities and any(own <= {*f.quantities} for f in finer):
            coarse.append(table.block)
    parts = dict.fromkeys(coarse, Fraction(1))
    plain = _variances(levels, _shared(levels, parts, totals), order)

    def error(parts: Mapping[int, Fraction]) -> float:
        moved = _variances(levels, _shared(levels, parts, totals), order)
        return sum(one / other for one, other in zip(moved, plain, strict=True))

    least = error(parts)
    for block in coarse:
        for part in _PARTS:
            other = parts | {block: part}
            if error(other) < least:
                parts, least = other, error(other)
    return _shared(levels, parts, totals)


def _shared(
    levels: Marginals, parts: Mapping[int, Fraction], totals: Sequence[Fraction]
) -> dict[int, Fraction]:
    """Return the factors of coarse tables, and divide the rest equally among the finest."""
    finest = [table.block for table in levels.tables if table.block not in parts]
    left = sum((totals[block] * (1 - part) for block, part in parts.items()), Fraction(0))
    more = 1 + left / sum(totals[block] for block in finest)
    return {**parts, **dict.fromkeys(finest, more)}


def _variances(levels: Marginals, factors: Mapping[int, Fraction], order: int) -> list[float]:
    """Return the variances of all outputs of the tables, after they agree."""
    tables = tuple(
        replace(
            table,
            deviations=tuple(
                deviation / float(factors[table.block]) ** (order / 2)
                for deviation in table.deviations
            ),
        )
        for table in levels.tables
    )
    spread = Spread.of(replace(levels, tables=tables))
    return [
        spread.between((n, place), (n, place))
        for n, table in enumerate(tables)
        for place, quantity in enumerate(table.quantities)
        if quantity is not None
    ]
