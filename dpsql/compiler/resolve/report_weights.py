"""Weights of report counts in an estimate of the truth and in its variance, by inverse
distributions.

Proof (PRIVACY.md R81). For columns of values it is the inverse of the distribution, for several
their Kronecker product. For a text of bits each bit is a report of its own, X(v), 1 on average
where v is the truth and else 0. Bits are independent given the truth, where no two X are 1 on
average: E w² has squares of X alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import TypeAlias

import numpy as np

from dpsql.model.local_reports import Randomized

Parts: TypeAlias = tuple[np.ndarray, ...]
"""Factors of each count of a cell, as arrays over cells of values. For texts of bits there is one
array for all rows and for those with each bit, for several texts one per combination.
"""


def numbers_of(
    laws: Sequence[Randomized],
    shape: tuple[int, ...],
    amount: np.ndarray,
    counted: np.ndarray | None,
) -> list[Parts]:
    """Return the weights of an estimate and of its variance.

    For an average these are the weights of its two totals, and of their variances and covariance.
    """
    one = amount.reshape(shape)
    if counted is None:
        return [weights(laws, one), variance_weights(laws, one, one)]
    other = counted.reshape(shape)
    pairs = ((one, one), (one, other), (other, other))
    return [
        weights(laws, one),
        weights(laws, other),
        *(variance_weights(laws, a, b) for a, b in pairs),
    ]


def weights(laws: Sequence[Randomized], table: np.ndarray) -> Parts:
    """Return the weights of counts in the estimate of Σ a(truth), for a table of a(truth).

    A constant over all truths is known without error.
    """
    return _parts(laws, _over_bits(laws, _inverse(laws, table), _powers(laws, table)))


def variance_weights(laws: Sequence[Randomized], one: np.ndarray, other: np.ndarray) -> Parts:
    """Return the weights of counts in the covariance of two such estimates: E wv - ab of each
    truth.
    """
    both_powers = [a + b for a, b in zip(_powers(laws, one), _powers(laws, other), strict=True)]
    squares = _over_bits(laws, _inverse(laws, one) * _inverse(laws, other), both_powers)
    truths = _over_bits(laws, _inverse(laws, one * other), [min(n, 1) for n in both_powers])
    return _parts(laws, squares - truths)


def _powers(laws: Sequence[Randomized], table: np.ndarray) -> list[int]:
    """Return, for each distribution, 1 if the bits of its text matter, and 0 if the table is
    constant there.
    """
    return [
        int(law.of_bits and not (table == table.take([0], axis)).all())
        for axis, law in enumerate(laws)
    ]


def _over_bits(laws: Sequence[Randomized], table: np.ndarray, powers: Sequence[int]) -> np.ndarray:
    """Convert a table by truths to one by counts: for each text all rows first, then those with
    each bit.

    Each bit adds its weight to this power; at 0 the table is the same for every truth.
    """
    for axis, (law, power) in enumerate(zip(laws, powers, strict=True)):
        if law.of_bits:
            low, high = (weight**power for weight in _apart(law))
            of_all = low * table.sum(axis, keepdims=True) if power else table.take([0], axis)
            table = np.concatenate([of_all, (high - low) * table], axis)
    return table


def _parts(laws: Sequence[Randomized], table: np.ndarray) -> Parts:
    """Return the arrays over cells, one for each combination of counts."""
    values = [axis for axis, law in enumerate(laws) if not law.of_bits]
    bits = [axis for axis, law in enumerate(laws) if law.of_bits]
    cells = prod(table.shape[axis] for axis in values)
    return tuple(table.transpose(*bits, *values).reshape(-1, cells))


def _apart(law: Randomized) -> tuple[float, float]:
    """Return the weight of a report that does not support a value, and of one that does."""
    return float(law.weight(supported=False)), float(law.weight(supported=True))


def _inverse(laws: Sequence[Randomized], table: np.ndarray) -> np.ndarray:
    """Return Σ a(v)·W(v, r) for each report r of values; truths of bits stay."""

    def along(table: np.ndarray, axis: int) -> np.ndarray:
        if laws[axis].of_bits:
            return table
        other, own = _apart(laws[axis])
        inverted: np.ndarray = other * table.sum(axis, keepdims=True) + (own - other) * table
        return inverted

    return reduce(along, range(len(laws)), table)
