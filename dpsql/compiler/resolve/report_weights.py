"""What counts of reports weigh in an estimate of the truth and in its variance: laws inverted.

Proof (PRIVACY.md R81). Of columns of values the inverse of the law, of several their Kronecker
product. Of a text of bits each bit is a report of its own, X(v), 1 on average where v is the truth
and else 0; bits are independent given the truth, where no two X are 1 on average: E w² has squares
of X alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import TypeAlias

import numpy as np

from dpsql.model.local_reports import Randomized

Parts: TypeAlias = tuple[np.ndarray, ...]
"""What each count of a cell is multiplied by: one array over cells, which are of values alone; of
texts of bits one for all rows and for those with each bit, of several for each of one and another.
"""


def numbers_of(
    laws: Sequence[Randomized],
    shape: tuple[int, ...],
    amount: np.ndarray,
    counted: np.ndarray | None,
) -> list[Parts]:
    """The weights of an estimate and of its variance; of an average of its two totals, and of the
    variances of these and of both.
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
    """The weights of counts in the estimate of Σ a(truth), for a table of a(truth).

    What is the same of every truth is known without an error.
    """
    return _parts(laws, _over_bits(laws, _inverse(laws, table), _powers(laws, table)))


def variance_weights(laws: Sequence[Randomized], one: np.ndarray, other: np.ndarray) -> Parts:
    """The weights of counts in the covariance of two such estimates: E wv - ab of each truth."""
    both_powers = [a + b for a, b in zip(_powers(laws, one), _powers(laws, other), strict=True)]
    squares = _over_bits(laws, _inverse(laws, one) * _inverse(laws, other), both_powers)
    truths = _over_bits(laws, _inverse(laws, one * other), [min(n, 1) for n in both_powers])
    return _parts(laws, squares - truths)


def _powers(laws: Sequence[Randomized], table: np.ndarray) -> list[int]:
    """For each law how often the bits of a text count: not where what is added is known."""
    return [
        int(law.of_bits and not (table == table.take([0], axis)).all())
        for axis, law in enumerate(laws)
    ]


def _over_bits(laws: Sequence[Randomized], table: np.ndarray, powers: Sequence[int]) -> np.ndarray:
    """A table by truths as one by counts: of each text of all rows first, then with each bit.

    Each bit adds what it weighs to this power; at 0 the table is the same for every truth.
    """
    for axis, (law, power) in enumerate(zip(laws, powers, strict=True)):
        if law.of_bits:
            low, high = (weight**power for weight in _apart(law))
            of_all = low * table.sum(axis, keepdims=True) if power else table.take([0], axis)
            table = np.concatenate([of_all, (high - low) * table], axis)
    return table


def _parts(laws: Sequence[Randomized], table: np.ndarray) -> Parts:
    """The arrays over cells, one for each combination of counts."""
    values = [axis for axis, law in enumerate(laws) if not law.of_bits]
    bits = [axis for axis, law in enumerate(laws) if law.of_bits]
    cells = prod(table.shape[axis] for axis in values)
    return tuple(table.transpose(*bits, *values).reshape(-1, cells))


def _apart(law: Randomized) -> tuple[float, float]:
    """What a report adds that does not support a value, and what one that does."""
    return float(law.weight(supported=False)), float(law.weight(supported=True))


def _inverse(laws: Sequence[Randomized], table: np.ndarray) -> np.ndarray:
    """Σ a(v)·W(v, r) of each report r of values; truths of bits stay."""

    def along(table: np.ndarray, axis: int) -> np.ndarray:
        if laws[axis].of_bits:
            return table
        other, own = _apart(laws[axis])
        inverted: np.ndarray = other * table.sum(axis, keepdims=True) + (own - other) * table
        return inverted

    return reduce(along, range(len(laws)), table)
