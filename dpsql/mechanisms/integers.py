"""Signed integers composed from parts, in 64 bits where they fit and exactly where they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

INT64_LIMIT = 1 << 63

_LEAST_PROPOSED = 64
"""Candidates to spare: for a few groups one round is enough."""

Propose: TypeAlias = Callable[[int], tuple[np.ndarray, np.ndarray]]
"""From a number of candidates to the places of the accepted ones and their values."""


def compose(blocks: np.ndarray, size: int, rests: np.ndarray, divisor: int = 1) -> np.ndarray:
    """floor((blocks · size + rests) / divisor) for non-negative parts, rests < size.

    int64 if every intermediate value fits, otherwise Python integers.

        >>> compose(np.array([2]), 10**18, np.array([5])).dtype.name
        'int64'
        >>> compose(np.array([20]), 10**18, np.array([5]))[0]
        20000000000000000005
    """
    most = int(blocks.max(initial=0))
    if max((most + 1) * size, divisor) >= INT64_LIMIT:
        blocks, rests = blocks.astype(object), rests.astype(object)
    whole: np.ndarray = blocks * size + rests
    return whole if divisor == 1 else whole // divisor


def accepted(count: int, propose: Propose) -> np.ndarray:
    """`count` independent accepted candidates.

    Twice as many are proposed as are missing, so that a few rounds suffice; of those accepted the
    first by place are taken, since a place says nothing of its value.
    """
    found = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        places, values = propose(2 * missing + _LEAST_PROPOSED)
        first = np.argsort(places)[:missing]
        found.append(values.take(first))
        missing -= first.size
    return concatenated(found)


def concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    """The arrays end to end, of Python integers if one of them is."""
    if any(array.dtype == object for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


def distinct(values: np.ndarray) -> np.ndarray:
    """The different values, rising: by sorting, as hashes of regular values collide.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered
